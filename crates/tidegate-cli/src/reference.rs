//! `tidegate schema` and `tidegate reference`.

use crate::exit::{Exit, answer};

pub(crate) fn schema() -> Exit {
    let schema = serde_json::to_string_pretty(&tidegate_policy::schema()).expect("a JSON value serialises");
    answer(&(schema + "\n"), Exit::Done)
}

pub(crate) fn reference() -> Exit {
    answer(&format!("{}\n", tidegate_policy::reference().trim_end()), Exit::Done)
}

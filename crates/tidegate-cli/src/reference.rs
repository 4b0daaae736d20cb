//! `tidegate schema` and `tidegate reference`.

use std::io::{self, Write};

use crate::exit::{Exit, complain};

pub(crate) fn schema() -> Exit {
    let schema = serde_json::to_string_pretty(&tidegate_policy::schema()).expect("a JSON value serialises");
    print(&schema)
}

pub(crate) fn reference() -> Exit {
    print(tidegate_policy::reference().trim_end())
}

fn print(text: &str) -> Exit {
    match writeln!(io::stdout(), "{text}") {
        Ok(()) => Exit::Done,
        Err(error) => {
            complain(format_args!("cannot write: {error}"));
            Exit::Unreadable
        }
    }
}

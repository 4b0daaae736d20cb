//! `tidegate schema` and `tidegate reference`.

use clap::builder::PossibleValuesParser;

use crate::exit::{Exit, answer};

pub(crate) fn schema() -> Exit {
    let schema = serde_json::to_string_pretty(&tidegate_policy::schema()).expect("a JSON value serialises");
    answer(&(schema + "\n"), Exit::Done)
}

/// The complete reference, or the page of a section.
pub(crate) fn reference(section: Option<&str>) -> Exit {
    let Some(section) = section else { return answer(&tidegate_policy::reference(), Exit::Done) };
    let pages = tidegate_policy::reference_pages();
    let page = pages.iter().find(|page| page.sections().contains(&section));
    answer(&page.expect("the command line takes only sections that have a page").text(), Exit::Done)
}

/// The sections that have a page.
pub(crate) fn sections() -> PossibleValuesParser {
    tidegate_policy::reference_pages().iter().flat_map(|page| page.sections().iter().copied()).into()
}

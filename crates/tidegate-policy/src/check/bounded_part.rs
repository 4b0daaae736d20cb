//! Parts of a whole within bounds.

use tidegate_overload::Share;

use crate::measure::percent;
use crate::path::Path;
use crate::printable::shown;
use crate::problem::Report;

/// The largest part of a whole, with its name in messages.
#[derive(Clone, Copy)]
pub(super) struct Part {
    pub(super) name: &'static str,
    pub(super) most: Share,
}

/// The part that a text says; none of the whole after a problem has been reported.
pub(super) fn part(text: &str, bounds: Part, path: &Path, report: &mut Report<'_>) -> Share {
    let written = percent(text).map(Share::percent).filter(|part| *part <= bounds.most);
    written.unwrap_or_else(|| {
        let what = format!("{} \"{}\" is not a part from 0 to {}", bounds.name, shown(text), bounds.most);
        report.value(path, what, "write a decimal with at most two places, for example 0.05");
        Share::NONE
    })
}

//! Sizes within bounds.

use crate::measure::{format_size, size};
use crate::path::Path;
use crate::problem::Report;

/// A size in bytes within bounds, or `default` where none is given or it is wrong.
pub(super) fn size_between(
    (name, text): (&str, Option<&String>),
    default: u64,
    (least, most): (u64, u64),
    path: &Path,
    report: &mut Report<'_>,
) -> u64 {
    let Some(text) = text else { return default };
    match size(name, text, least, most) {
        Ok(bytes) => {
            report.effective(&path.key(name), format_size(bytes));
            bytes
        }
        Err((what, fix)) => {
            report.value(&path.key(name), what, fix);
            default
        }
    }
}

/// As [`size_between`], of memory. A size beyond the address space counts as the largest there is,
/// which fails when it is used.
pub(super) fn memory_between(
    named: (&str, Option<&String>),
    default: usize,
    bounds: (u64, u64),
    path: &Path,
    report: &mut Report<'_>,
) -> usize {
    usize::try_from(size_between(named, default as u64, bounds, path, report)).unwrap_or(usize::MAX)
}

//! Names of headers.

use crate::path::Path;
use crate::printable::shown;
use crate::problem::Report;

/// The name in lower case; `None` after a problem has been reported.
pub(super) fn header(name: Option<&str>, path: &Path, report: &mut Report<'_>) -> Option<String> {
    let name = name?;
    if is_header(name) {
        return Some(name.to_ascii_lowercase());
    }
    let what = format!("\"{}\" is not the name of a header", shown(name));
    report.value(path, what, "use letters, digits and dashes, for example x-api-key");
    None
}

/// Whether `name` is the name of a header.
pub(super) fn is_header(name: &str) -> bool {
    let is_token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    !name.is_empty() && name.len() <= 256 && name.chars().all(is_token)
}

//! Names of headers.

use http::HeaderName;

use crate::path::Path;
use crate::printable::shown;
use crate::problem::Report;

/// The longest name in bytes.
const NAME_BYTES_MAX: usize = 256;

/// The proposal for a name that no header can have.
pub(super) const HEADER_FIX: &str = "use letters, digits and dashes, for example x-api-key";

/// The header of this name, if there can be one.
pub(super) fn header_name(name: &str) -> Option<HeaderName> {
    HeaderName::try_from(name).ok().filter(|_| name.len() <= NAME_BYTES_MAX)
}

/// The problem of a name that no header can have.
pub(super) fn not_a_header(name: &str) -> String {
    format!("\"{}\" is not the name of a header", shown(name))
}

/// The header; `None` after a problem has been reported.
pub(super) fn header(name: Option<&str>, path: &Path, report: &mut Report<'_>) -> Option<HeaderName> {
    let name = name?;
    let header = header_name(name);
    if header.is_none() {
        report.value(path, not_a_header(name), HEADER_FIX);
    }
    header
}

//! Checks of names, and of paths of files.

use crate::path::Path;
use crate::policy::PATH_BYTES_MAX;
use crate::printable::shown;
use crate::problem::Report;

/// The longest name of an attribute in bytes.
pub(super) const ATTRIBUTE_NAME_BYTES_MAX: usize = 128;

/// Names go into answers, logs and metrics.
pub(super) fn check_name(kind: &str, name: &str, bytes_max: usize, report: impl FnOnce(String, String)) {
    if let Some((what, fix)) = fault_of_name(kind, name, bytes_max) {
        report(what, fix);
    }
}

/// The fault of a name and its fix, if it has one. Compiled once for all who report it.
fn fault_of_name(kind: &str, name: &str, bytes_max: usize) -> Option<(String, String)> {
    if name.is_empty() {
        return Some((format!("the name of the {kind} is empty"), "give it one".to_owned()));
    }
    let (what, fix) = if name.len() > bytes_max {
        (format!("has {} bytes", name.len()), format!("use at most {bytes_max}"))
    } else if name.chars().any(char::is_control) {
        ("contains control characters".to_owned(), "remove them".to_owned())
    } else {
        return None;
    };
    Some((format!("the name of the {kind}, \"{}\", {what}", shown(name)), fix))
}

/// Reports a path that neither the system nor a message can take.
pub(super) fn check_path(of: &str, text: &str, path: &Path, report: &mut Report<'_>) {
    if text.is_empty() {
        report.value(path, format!("the path of {of} is empty"), "give one");
    } else if text.len() > PATH_BYTES_MAX {
        let what = format!("the path of {of} has {} bytes", text.len());
        report.value(path, what, format!("use at most {PATH_BYTES_MAX}"));
    } else if text.chars().any(char::is_control) {
        let what = format!("the path of {of}, \"{}\", contains control characters", shown(text));
        report.value(path, what, "remove them");
    }
}

/// Reports a text that cannot be the path of a file.
pub(super) fn check_file(text: &str, path: &Path, report: &mut Report<'_>) {
    if text.is_empty() || text.len() > PATH_BYTES_MAX || text.contains('\0') {
        let what = format!("\"{}\" is not the path of a file", shown(text));
        report.value(path, what, format!("write a path of 1 to {PATH_BYTES_MAX} bytes"));
    }
}

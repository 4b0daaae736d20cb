//! The values of a file by kind, each with the problem of a value of another kind.

use serde_json::{Map, Value};

use super::fields::{Field, fields};
use crate::envoy::scalar::{ScalarKind, kind};
use crate::path::Path;
use crate::printable::shown;
use crate::problem::Report;
use crate::suggestion::{listed, nearest};
use crate::tree::{Content, Node, Scalar};

/// The keys that the peer has, at whatever depth.
const KEYS: [&str; 16] = [
    "domain",
    "descriptors",
    "key",
    "value",
    "rate_limit",
    "unit",
    "requests_per_unit",
    "unlimited",
    "name",
    "replaces",
    "shadow_mode",
    "quota_mode",
    "detailed_metric",
    "value_to_metric",
    "share_threshold",
    "metadata",
];

/// The keys that only we have, each where it means something and nowhere else.
const OWN_KEYS: [&str; 4] = ["algorithm", "window", "burst", "rate_limits"];

/// Reports a key that is not one of `here`, and checks the values under it.
pub(super) fn elsewhere(field: &Field<'_>, path: &Path, here: &[&str], report: &mut Report<'_>) {
    let key = field.key;
    if KEYS.contains(&key) {
        let fix = format!("remove it, or use one of {}", listed(here.iter().copied(), "or"));
        report.warn(path, format!("{key} has no effect here"), fix);
        if key != "metadata" {
            skim(field.value, path, report);
        }
        return;
    }
    let what = if OWN_KEYS.contains(&key) {
        format!("{key} does not belong here")
    } else {
        format!("unknown key \"{}\"", shown(key))
    };
    let fix = match nearest(key, here.iter().copied()) {
        Some(meant) if meant != key => format!("did you mean `{meant}`?"),
        _ if key == "rate_limits" => "use it on a descriptor, beside its `key`".to_owned(),
        _ if OWN_KEYS.contains(&key) => "use it inside `rate_limit:`".to_owned(),
        _ => format!("use one of {}", listed(here.iter().copied(), "or")),
    };
    report.shape(path, (field.key_at, None), what, fix);
}

/// Looks through what means nothing here for what would reject the file all the same.
fn skim(node: &Node, path: &Path, report: &mut Report<'_>) {
    match &node.content {
        Content::Scalar(scalar) => {
            leaf(scalar, node, path, report);
        }
        Content::Sequence(items) => {
            for (index, item) in items.iter().enumerate() {
                let at = path.index(index);
                if mapping(item, &at, "an entry of a list", report).is_some() {
                    skim(item, &at, report);
                }
            }
        }
        Content::Mapping(_) => {
            for field in fields(node, path, report) {
                let at = path.key(field.key);
                if !KEYS.contains(&field.key) {
                    elsewhere(&field, &at, &KEYS, report);
                } else if field.key != "metadata" {
                    skim(field.value, &at, report);
                }
            }
        }
    }
}

/// The entries of a mapping; anything else is a problem, except that nothing at all is an empty
/// one.
pub(super) fn mapping<'n>(
    node: &'n Node,
    path: &Path,
    what: &str,
    report: &mut Report<'_>,
) -> Option<Vec<Field<'n>>> {
    if !has_no_tag(node, path, report) {
        return None;
    }
    match &node.content {
        Content::Mapping(_) => Some(fields(node, path, report)),
        Content::Scalar(scalar) => {
            let found = format!("{what} is a mapping, found \"{}\"", shown(&scalar.text));
            report.shape(path, (node.at, Some(&scalar.text)), found, "write `key: value` entries under it");
            None
        }
        Content::Sequence(_) => {
            let fix = "write `key: value` without dashes and square brackets";
            report.shape(path, (node.at, None), format!("{what} is a mapping, found a list"), fix);
            None
        }
    }
}

/// The items of a list, which are mappings; nothing at all is an empty one.
pub(super) fn list<'n>(node: &'n Node, path: &Path, report: &mut Report<'_>) -> Option<&'n [Node]> {
    if !has_no_tag(node, path, report) {
        return None;
    }
    match &node.content {
        Content::Sequence(items) => Some(items),
        Content::Scalar(scalar) if scalar.is_null() => Some(&[]),
        Content::Scalar(scalar) => {
            let what = format!("expected a list, found \"{}\"", shown(&scalar.text));
            report.shape(path, (node.at, Some(&scalar.text)), what, "put a dash before each entry");
            None
        }
        Content::Mapping(_) => {
            let what = "expected a list, found a mapping";
            report.shape(path, (node.at, None), what, "put a dash before each entry");
            None
        }
    }
}

/// The kind of a scalar, if such a file may contain it.
pub(super) fn leaf(scalar: &Scalar, node: &Node, path: &Path, report: &mut Report<'_>) -> Option<ScalarKind> {
    if !has_no_tag(node, path, report) {
        return None;
    }
    let text = &*scalar.text;
    let (what, fix) = match kind(scalar) {
        ScalarKind::Float(_) => (format!("{} is not a whole number", shown(text)), "use a whole number"),
        ScalarKind::Huge => (format!("{} is out of range", shown(text)), "use a smaller number"),
        other => return Some(other),
    };
    let fix = format!("{fix}, or quote it where text is meant");
    report.shape(path, (node.at, Some(text)), what, fix);
    None
}

/// The scalar that `node` is; a list or a mapping is a problem.
pub(super) fn scalar<'n>(
    node: &'n Node,
    path: &Path,
    what: &str,
    report: &mut Report<'_>,
) -> Option<&'n Scalar> {
    let found = match &node.content {
        Content::Scalar(scalar) => return Some(scalar),
        Content::Sequence(_) => "a list",
        Content::Mapping(_) => "a mapping",
    };
    let fix = "keep one value, and quote it if it contains `: ` or braces";
    report.shape(path, (node.at, None), format!("expected {what}, found {found}"), fix);
    None
}

/// A text; numbers and words that could mean something else are the text they are written as.
/// `None` for no value, and for what is a problem.
pub(super) fn text(node: &Node, path: &Path, report: &mut Report<'_>) -> Option<Box<str>> {
    let scalar = scalar(node, path, "text", report)?;
    match leaf(scalar, node, path, report)? {
        ScalarKind::Null => None,
        _ => Some(scalar.text.clone()),
    }
}

/// True or false; false for no value, and after a problem has been reported.
pub(super) fn boolean(node: &Node, path: &Path, report: &mut Report<'_>) -> bool {
    let Some(scalar) = scalar(node, path, "true or false", report) else { return false };
    match leaf(scalar, node, path, report) {
        Some(ScalarKind::Bool(value)) => value,
        None | Some(ScalarKind::Null) => false,
        Some(_) => {
            let what = format!("expected true or false, found \"{}\"", shown(&scalar.text));
            let quotes = if scalar.quoted { " without quotes" } else { "" };
            let fix = format!("write true or false{quotes}");
            report.shape(path, (node.at, Some(&scalar.text)), what, fix);
            false
        }
    }
}

/// Whether a node has no value.
pub(super) fn is_null(node: &Node) -> bool {
    matches!(&node.content, Content::Scalar(scalar) if scalar.is_null())
}

fn has_no_tag(node: &Node, path: &Path, report: &mut Report<'_>) -> bool {
    let Some(tag) = &node.tag else { return true };
    report.shape(
        path,
        (node.at, None),
        format!("the tag {} has no meaning here", shown(tag)),
        "remove the tag",
    );
    false
}

/// A mapping in which everything may stand.
pub(super) fn free_mapping(node: &Node, path: &Path, report: &mut Report<'_>) -> Map<String, Value> {
    if is_null(node) {
        return Map::new();
    }
    mapping(node, path, "metadata", report)
        .into_iter()
        .flatten()
        .map(|field| (field.key.to_owned(), free(field.value, &path.key(field.key), report)))
        .collect()
}

fn free(node: &Node, path: &Path, report: &mut Report<'_>) -> Value {
    match &node.content {
        Content::Mapping(_) => Value::Object(free_mapping(node, path, report)),
        Content::Sequence(items) => {
            let items = items.iter().enumerate().map(|(index, item)| free(item, &path.index(index), report));
            Value::Array(items.collect())
        }
        Content::Scalar(scalar) => match kind(scalar) {
            ScalarKind::Null => Value::Null,
            ScalarKind::Bool(value) => Value::Bool(value),
            ScalarKind::Int(value) => Value::from(value),
            ScalarKind::Float(value) => {
                serde_json::Number::from_f64(value).map_or(Value::Null, Value::Number)
            }
            ScalarKind::Huge | ScalarKind::Text => Value::from(&*scalar.text),
        },
    }
}

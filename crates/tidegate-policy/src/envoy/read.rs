//! From the tree of one file to its descriptors as they are written, or to everything that is wrong
//! with them.
//!
//! As strict as the peer, and as lenient: one list of keys holds at every depth, so a known key in
//! a place where it means nothing is read over (with a warning), while an unknown one rejects the
//! file.

mod fields;
mod limits;

use serde_json::{Map, Value};

use self::fields::{Field, fields};
use super::glob;
use super::limit::Limit;
use super::scalar::{ScalarKind, kind};
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

/// A file as it is written.
#[derive(Debug, Default)]
pub(super) struct Document {
    /// Its domain; empty only where that is a problem.
    pub(super) domain: Box<str>,
    pub(super) descriptors: Vec<WrittenDescriptor>,
}

/// A descriptor as it is written.
#[derive(Debug)]
pub(super) struct WrittenDescriptor {
    pub(super) path: Path,
    pub(super) key: Box<str>,
    /// `None` without a value, and with an empty one, which is the same.
    pub(super) value: Option<Box<str>>,
    pub(super) rule: Option<WrittenRule>,
    pub(super) descriptors: Vec<Self>,
    pub(super) value_to_metric: bool,
    pub(super) share_threshold: bool,
}

/// The rule of a descriptor with `rate_limit` or `rate_limits`.
#[derive(Debug)]
pub(super) struct WrittenRule {
    /// Its limits; none when it is unlimited.
    pub(super) limits: Vec<Limit>,
    /// For an unlimited one: the names of the limits it takes the place of.
    pub(super) replaces: Vec<Box<str>>,
    pub(super) shadow_mode: bool,
    pub(super) quota_mode: bool,
    pub(super) detailed_metric: bool,
    pub(super) metadata: Map<String, Value>,
}

impl WrittenDescriptor {
    /// Key and value as the peer joins them.
    pub(super) fn composite(&self) -> String {
        match &self.value {
            Some(value) => format!("{}_{value}", self.key),
            None => self.key.to_string(),
        }
    }

    /// Whether it stands for more than one key or value.
    pub(super) fn is_wildcard(&self) -> bool {
        glob::is_pattern(&self.key) || self.value.as_deref().is_some_and(glob::is_pattern)
    }
}

/// The document in `root`.
pub(super) fn read(root: &Node, report: &mut Report<'_>) -> Document {
    let top = Path::default();
    let mut document = Document::default();
    let Some(fields) = mapping(root, &top, "the file", report) else { return document };
    let mut has_domain = false;
    for field in &fields {
        let at = top.key(field.key);
        match field.key {
            "domain" => {
                has_domain = true;
                document.domain = text(field.value, &at, report).unwrap_or_default();
                if document.domain.is_empty() {
                    report.value(&at, "the domain is empty", "name the domain that Envoy's filter names");
                }
            }
            "descriptors" => document.descriptors = descriptors(field.value, &at, report),
            _ => elsewhere(field, &at, &["domain", "descriptors"], report),
        }
    }
    if !has_domain {
        let fix = "add `domain:`, the name that Envoy's filter names";
        report.shape(&top.key("domain"), (root.at, None), "`domain` is missing", fix);
    }
    document
}

fn descriptors(node: &Node, path: &Path, report: &mut Report<'_>) -> Vec<WrittenDescriptor> {
    let Some(items) = list(node, path, report) else { return Vec::new() };
    let mut written = Vec::with_capacity(items.len());
    for (index, item) in items.iter().enumerate() {
        if report.is_full() {
            break;
        }
        written.extend(descriptor(item, &path.index(index), report));
    }
    written
}

fn descriptor(node: &Node, path: &Path, report: &mut Report<'_>) -> Option<WrittenDescriptor> {
    const HERE: [&str; 11] = [
        "key",
        "value",
        "rate_limit",
        "rate_limits",
        "descriptors",
        "shadow_mode",
        "quota_mode",
        "detailed_metric",
        "value_to_metric",
        "share_threshold",
        "metadata",
    ];
    let fields = mapping(node, path, "a descriptor", report)?;
    let mut written = WrittenDescriptor {
        key: "".into(),
        value: None,
        rule: None,
        descriptors: Vec::new(),
        value_to_metric: false,
        share_threshold: false,
        path: path.clone(),
    };
    let (mut shadow_mode, mut quota_mode, mut detailed_metric) = (false, false, false);
    let (mut single, mut several, mut metadata) = (None, None, Map::new());
    for field in &fields {
        let at = path.key(field.key);
        match field.key {
            "key" => written.key = text(field.value, &at, report).unwrap_or_default(),
            "value" => {
                written.value = text(field.value, &at, report).filter(|value| !value.is_empty());
            }
            "descriptors" => written.descriptors = descriptors(field.value, &at, report),
            "shadow_mode" => shadow_mode = boolean(field.value, &at, report),
            "quota_mode" => quota_mode = boolean(field.value, &at, report),
            "detailed_metric" => detailed_metric = boolean(field.value, &at, report),
            "value_to_metric" => written.value_to_metric = boolean(field.value, &at, report),
            "share_threshold" => written.share_threshold = boolean(field.value, &at, report),
            "metadata" => metadata = free_mapping(field.value, &at, report),
            "rate_limit" if !is_null(field.value) => single = Some((field.value, at)),
            "rate_limits" if !is_null(field.value) => several = Some((field.value, at)),
            "rate_limit" | "rate_limits" => {}
            _ => elsewhere(field, &at, &HERE, report),
        }
    }
    if written.key.is_empty() {
        report.value(&path.key("key"), "the key is empty", "name the key of the descriptor's entry");
    }
    if written.share_threshold && !written.value.as_deref().is_some_and(glob::is_pattern) {
        let what = "share_threshold is for values with a `*`, whose counters it makes one";
        report.value(&path.key("share_threshold"), what, "put a `*` into the value, or remove it");
    }
    let limited = match (single, several) {
        (Some(_), Some((_, at))) => {
            let what = "rate_limit and rate_limits stand on one descriptor";
            report.key(&at, what, "move the one into the list of the others");
            None
        }
        (Some((node, at)), None) => limits::single(node, &at, report),
        (None, Some((node, at))) => limits::several(node, &at, report),
        (None, None) => None,
    };
    if limited.is_none() {
        for (key, is_set) in [("shadow_mode", shadow_mode), ("quota_mode", quota_mode)] {
            if is_set && written.descriptors.is_empty() {
                let fix = "remove it, or add `rate_limit:` beside it";
                report.warn(&path.key(key), format!("{key} has no effect without a limit"), fix);
            }
        }
    }
    written.rule = limited.map(|(limits, replaces)| WrittenRule {
        limits,
        replaces,
        shadow_mode,
        quota_mode,
        detailed_metric,
        metadata,
    });
    Some(written)
}

/// Reports a key that is not one of `here`, and checks the values under it.
fn elsewhere(field: &Field<'_>, path: &Path, here: &[&str], report: &mut Report<'_>) {
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
fn mapping<'n>(node: &'n Node, path: &Path, what: &str, report: &mut Report<'_>) -> Option<Vec<Field<'n>>> {
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
fn list<'n>(node: &'n Node, path: &Path, report: &mut Report<'_>) -> Option<&'n [Node]> {
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
fn leaf(scalar: &Scalar, node: &Node, path: &Path, report: &mut Report<'_>) -> Option<ScalarKind> {
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
fn scalar<'n>(node: &'n Node, path: &Path, what: &str, report: &mut Report<'_>) -> Option<&'n Scalar> {
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
fn text(node: &Node, path: &Path, report: &mut Report<'_>) -> Option<Box<str>> {
    let scalar = scalar(node, path, "text", report)?;
    match leaf(scalar, node, path, report)? {
        ScalarKind::Null => None,
        _ => Some(scalar.text.clone()),
    }
}

fn boolean(node: &Node, path: &Path, report: &mut Report<'_>) -> bool {
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

fn is_null(node: &Node) -> bool {
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
fn free_mapping(node: &Node, path: &Path, report: &mut Report<'_>) -> Map<String, Value> {
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

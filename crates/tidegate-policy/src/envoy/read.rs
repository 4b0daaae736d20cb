//! From the tree of one file to its descriptors as they are written, or to everything that is wrong
//! with them.
//!
//! As strict as the peer, and as lenient: one list of keys holds at every depth, so a known key in
//! a place where it means nothing is read over (with a warning), while an unknown one rejects the
//! file.

mod fields;
mod limits;
mod values;

use serde_json::{Map, Value};

use self::values::{boolean, elsewhere, free_mapping, is_null, list, mapping, text};
use super::glob;
use super::limit::Limit;
use crate::path::Path;
use crate::problem::Report;
use crate::shape::KUBERNETES_FIX;
use crate::tree::Node;

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
    let of_kubernetes = fields.iter().find(|field| ["apiVersion", "kind"].contains(&field.key));
    if let Some(field) = of_kubernetes {
        let what = format!("unknown key \"{}\"", field.key);
        report.shape(&top.key(field.key), (field.key_at, None), what, KUBERNETES_FIX);
        return document;
    }
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

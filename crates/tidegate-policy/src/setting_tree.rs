//! The settings of a policy as one tree in the form of the schema, each with its value in force.
//!
//! The tree is the document as it was read. A text or list that stands for a mapping is written as
//! that mapping, a key that was left out has the `default` of the schema, and a value that depends
//! on other keys, or that may be written in several ways, is the one that the checks noted with
//! [`Report::effective`](crate::problem::Report::effective). A new key of the raw types is in the
//! tree, and so in every comparison, without further code.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::compare::leaves::{PolicySettings, SettingLeaf, SettingLeaves};
use crate::path::{Path, Segment};
use crate::reference::keys_of;
use crate::schema::compiled;
use crate::shape::definition;

/// The settings of a document of the right shape, with the values that the checks noted. The keys
/// of limits are without those in `shown`.
pub(crate) fn settings(mut tree: Value, effective: Vec<(Path, Value)>, shown: &[&str]) -> PolicySettings {
    complete(compiled(), &mut tree);
    for (path, value) in effective {
        put(&mut tree, path.segments(), value);
    }
    // Some defaults count only beside a value that was noted.
    complete(compiled(), &mut tree);
    let mut own = SettingLeaves::default();
    own.add_tree(compiled(), &tree, &Path::default(), KeyTraits::default());
    let mut limits = BTreeMap::new();
    for (name, namespace) in tree["namespaces"].as_object().into_iter().flatten() {
        let nothing = Map::new();
        let defaults = namespace["defaults"].as_object().unwrap_or(&nothing);
        let all = namespace["limits"].as_array().into_iter().flatten().filter_map(Value::as_object);
        for limit in all {
            let key = (name.clone(), limit["name"].as_str().unwrap_or_default().to_owned());
            limits.insert(key, leaves_of_limit(defaults, limit, shown));
        }
    }
    PolicySettings { own, limits }
}

/// The keys of a limit, each with its value in one line: its own, or the value in the `defaults` of
/// its namespace, or in the schema.
fn leaves_of_limit(
    defaults: &Map<String, Value>,
    limit: &Map<String, Value>,
    shown: &[&str],
) -> SettingLeaves {
    let is_compared = |key: &str| !shown.contains(&key);
    let keys = defaults.iter().chain(limit).filter(|(key, _)| is_compared(key));
    let mut keys: Value = keys.map(|(key, value)| (key.clone(), value.clone())).collect();
    let schema = &compiled()["$defs"]["limit"];
    complete(schema, &mut keys);
    let mut leaves = SettingLeaves::default();
    for (key, value) in keys.as_object().into_iter().flatten().filter(|(key, _)| is_compared(key)) {
        leaves.add(key, in_one_line(&schema["properties"][key], value));
    }
    leaves
}

/// The mapping that a value of a schema may be.
#[derive(Clone, Copy)]
struct Mapping {
    /// The name of its definition; empty for a map of names.
    name: &'static str,
    schema: &'static Value,
    /// The key that a text or list alone stands for.
    stands_for: Option<&'static str>,
    /// Whether the schema allows several other forms, so that the value is one of its own.
    is_one_value: bool,
}

impl Mapping {
    fn new(schema: &'static Value) -> Option<Self> {
        if let Some(name) = schema["$ref"].as_str() {
            let mapping = Self::new(definition(compiled(), name)?)?;
            let own = name.rsplit('/').next().unwrap_or_default();
            return Some(Self { name: if mapping.name.is_empty() { own } else { mapping.name }, ..mapping });
        }
        if let Some(choices) = schema["anyOf"].as_array() {
            let mapping = choices.iter().find_map(Self::new)?;
            let required = mapping.schema["required"].as_array().map_or([].as_slice(), Vec::as_slice);
            let stands_for = match required {
                [one] if choices.len() == 2 => one.as_str(),
                _ => None,
            };
            return Some(Self { stands_for, is_one_value: choices.len() > 2, ..mapping });
        }
        let is_mapping = schema["properties"].is_object() || schema["additionalProperties"].is_object();
        let name = if schema["$defs"].is_object() { "config" } else { "" };
        is_mapping.then_some(Self { name, schema, stands_for: None, is_one_value: false })
    }

    fn properties(self) -> impl Iterator<Item = (&'static String, &'static Value)> {
        self.schema["properties"].as_object().into_iter().flatten()
    }

    fn key(self, key: &str) -> Option<&'static Value> {
        let named = self.schema["properties"].get(key);
        named.or_else(|| self.schema.get("additionalProperties").filter(|other| other.is_object()))
    }

    /// The entries of a mapping in the order of the reference.
    fn in_order(self, entries: &Map<String, Value>) -> Vec<(&String, &Value)> {
        let order = keys_of(self.name);
        let mut entries: Vec<_> = entries.iter().collect();
        entries.sort_by_key(|(key, _)| order.iter().position(|known| known == key).unwrap_or(order.len()));
        entries
    }

    /// Whether `key` goes by the path of the mapping itself: a text that stands for the mapping
    /// says nothing else.
    fn is_named_by(self, key: &str) -> bool {
        let says_more = |of: &Value| of.get("default").is_some_and(|default| *default != false);
        self.stands_for == Some(key) && !self.properties().any(|(_, of)| says_more(of))
    }
}

/// Writes texts that stand for mappings as mappings, and fills in the defaults of the schema.
fn complete(schema: &'static Value, value: &mut Value) {
    if let (Some(items), Value::Array(entries)) = (schema.get("items"), &mut *value) {
        for entry in entries {
            complete(items, entry);
        }
    }
    let Some(mapping) = Mapping::new(schema) else { return };
    if let Some(key) = mapping.stands_for.filter(|_| !value.is_object()) {
        *value = Value::from_iter([(key, value.take())]);
    }
    let Value::Object(entries) = value else { return };
    for (key, inner) in entries.iter_mut() {
        // A limit has the `defaults` of its namespace before those of the schema.
        if let Some(of) = mapping.key(key).filter(|_| !is_of_limits(mapping, key)) {
            complete(of, inner);
        }
    }
    // One at a time: a default may count only beside another one.
    while let Some((key, mut default)) = missing_default(mapping, entries) {
        if let Some(of) = mapping.key(key) {
            complete(of, &mut default);
        }
        entries.insert(key.clone(), default);
    }
}

/// A key that the entries lack, with its default, if that counts beside them.
fn missing_default(mapping: Mapping, entries: &Map<String, Value>) -> Option<(&'static String, Value)> {
    let counts = |of: &Value| {
        let mut needed = of["x-for"].as_object().into_iter().flatten();
        needed.all(|(key, value)| entries.get(key) == Some(value))
    };
    mapping.properties().find_map(|(key, of)| {
        let default = of.get("default").filter(|_| !entries.contains_key(key) && counts(of))?;
        Some((key, default.clone()))
    })
}

/// Whether a key is compared with the limits, and not with the settings.
fn is_of_limits(mapping: Mapping, key: &str) -> bool {
    mapping.name == "namespace" && ["limits", "defaults"].contains(&key)
}

/// Whether it is a feature that is only counted, whose other keys say nothing.
fn is_feature_without_levels(mapping: Mapping, entries: &Map<String, Value>) -> bool {
    mapping.name == "feature" && entries["levels"].as_array().is_none_or(Vec::is_empty)
}

/// Puts `value` at the end of `path`.
fn put(tree: &mut Value, path: &[Segment], value: Value) {
    let (inner, rest) = match path {
        [] => {
            *tree = value;
            return;
        }
        [Segment::Index(index), rest @ ..] => (tree.get_mut(*index), rest),
        [Segment::Key(key), rest @ ..] => {
            if !tree.is_object() {
                *tree = Value::Object(Map::new());
            }
            (tree.as_object_mut().map(|entries| entries.entry(&**key).or_insert(Value::Null)), rest)
        }
    };
    if let Some(inner) = inner {
        put(inner, rest, value);
    }
}

/// The marks of a key in the schema, which count for all keys below it as well.
#[derive(Clone, Copy, Default)]
struct KeyTraits {
    reloads: bool,
    is_secret: bool,
    /// Whether it stands in a mapping that is as if it were not written.
    is_implied: bool,
}

impl SettingLeaves {
    /// Adds the settings of a tree of this schema.
    fn add_tree(&mut self, schema: &'static Value, value: &Value, path: &Path, above: KeyTraits) {
        let traits = KeyTraits {
            reloads: schema["x-reload"].as_bool().unwrap_or(above.reloads),
            is_secret: schema["x-secret"].as_bool().unwrap_or(above.is_secret),
            is_implied: above.is_implied,
        };
        match (value, Mapping::new(schema)) {
            (Value::Object(entries), Some(mapping)) if !mapping.is_one_value => {
                for (key, inner) in mapping.in_order(entries) {
                    let Some(of) = mapping.key(key) else { continue };
                    let at = if mapping.is_named_by(key) { path.clone() } else { path.key(key) };
                    if mapping.name == "plans" && key == "numbers" {
                        // The numbers themselves are compared with the limits.
                        let names = inner.as_object().into_iter().flatten().map(|(name, _)| name.clone());
                        self.add_leaf(of, &names.collect(), &at, traits);
                    } else if !is_of_limits(mapping, key) {
                        let is_request = mapping.name == "namespace" && key == "request";
                        let is_default_request = is_request && is_default(of, inner);
                        let is_of_levels = is_feature_without_levels(mapping, entries) && key != "levels";
                        let is_implied = traits.is_implied || is_default_request || is_of_levels;
                        self.add_tree(of, inner, &at, KeyTraits { is_implied, ..traits });
                    }
                }
            }
            (Value::Array(entries), _) if entries.iter().any(Value::is_object) => {
                self.add_list(schema, entries, path, traits);
            }
            _ => self.add_leaf(schema, value, path, traits),
        }
    }

    /// Adds a list of mappings: each by its name, or else in one line by its place.
    fn add_list(&mut self, schema: &'static Value, entries: &[Value], path: &Path, traits: KeyTraits) {
        let mut names = Vec::new();
        for (index, entry) in entries.iter().enumerate() {
            let Some((name, rest)) = without_name(entry) else {
                self.add_leaf(&schema["items"], entry, &path.index(index), traits);
                continue;
            };
            self.add_tree(&schema["items"], &rest, &path.key(&name), traits);
            names.push(name);
        }
        if schema["x-ordered"] == true {
            self.add_leaf(schema, &names.into(), &path.key("order"), traits);
        }
    }

    fn add_leaf(&mut self, schema: &'static Value, value: &Value, path: &Path, traits: KeyTraits) {
        let words = match value {
            Value::String(text) => text.clone(),
            value => in_one_line(schema, value),
        };
        let leaf = if traits.is_secret {
            SettingLeaf::Secret(value.clone())
        } else if traits.is_implied || *value == false {
            SettingLeaf::Implied(words)
        } else {
            SettingLeaf::Words(words)
        };
        self.push(path.to_string(), leaf, traits.reloads);
    }
}

/// Whether a mapping is as if it were not written.
fn is_default(schema: &'static Value, value: &Value) -> bool {
    let mut default = Value::Object(Map::new());
    complete(schema, &mut default);
    *value == default
}

fn without_name(entry: &Value) -> Option<(String, Value)> {
    let mut entries = entry.as_object()?.clone();
    let name = entries.remove("name")?.as_str()?.to_owned();
    Some((name, Value::Object(entries)))
}

/// A value as a policy writes it in one line: `{ match: { op: search }, cost: 5 }`.
fn in_one_line(schema: &'static Value, value: &Value) -> String {
    match value {
        Value::Array(entries) => {
            let entries = entries.iter().map(|entry| in_one_line(&schema["items"], entry));
            format!("[{}]", entries.collect::<Vec<_>>().join(", "))
        }
        Value::Object(entries) if entries.is_empty() => "{}".to_owned(),
        Value::Object(entries) => {
            let mapping = Mapping::new(schema);
            let order = mapping.map_or_else(|| entries.iter().collect(), |mapping| mapping.in_order(entries));
            let inner = |(key, value): (&String, &Value)| {
                let of = mapping.and_then(|mapping| mapping.key(key)).unwrap_or(&Value::Null);
                format!("{}: {}", quoted(key), in_one_line(of, value))
            };
            format!("{{ {} }}", order.into_iter().map(inner).collect::<Vec<_>>().join(", "))
        }
        Value::String(text) => quoted(text),
        value => value.to_string(),
    }
}

/// A text in a line of several, in quotes where it could be taken for more than one.
fn quoted(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-/.:*".contains(c);
    if !text.is_empty() && text.chars().all(plain) { text.to_owned() } else { format!("{text:?}") }
}

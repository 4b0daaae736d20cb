//! Checks a document against the schema of the configuration, and turns it into what the raw types
//! are read from.
//!
//! The schema decides what a scalar is: `1234` is a number where a number is meant, and the text
//! "1234" where text is meant. All problems are collected; where there is one, a harmless value of
//! the right shape takes its place, so that the rest can still be checked.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::environment::{Unexpanded, expand};
use crate::path::Path;
use crate::planned;
use crate::printable::shown;
use crate::problem::Report;
use crate::suggestion::{listed, nearest};
use crate::tree::{Content, Entry, Node, Position, Scalar, TEXT_BYTES_MAX};

/// Reads environment variables.
pub(crate) type Environment<'a> = &'a dyn Fn(&str) -> Option<String>;

/// The value in `root` as `schema` has it.
pub(crate) fn shape(schema: &Value, root: &Node, env: Environment<'_>, report: &mut Report<'_>) -> Value {
    let mut walk = ShapeChecker { root: schema, env, report, text_bytes: 0, is_kubernetes_object: false };
    walk.value(schema, root, &Path::default())
}

struct ShapeChecker<'a, 'r> {
    root: &'a Value,
    env: Environment<'a>,
    report: &'a mut Report<'r>,
    text_bytes: usize,
    /// Whether a key of such an object was met at the top.
    is_kubernetes_object: bool,
}

/// The kinds of values that a schema allows, each at most once.
#[derive(Clone, Copy, Default)]
struct Allowed<'a> {
    text: bool,
    number: Option<&'a Value>,
    decimal: Option<&'a Value>,
    boolean: bool,
    words: Option<&'a Value>,
    list: Option<&'a Value>,
    mapping: Option<&'a Value>,
}

impl<'a> Allowed<'a> {
    fn add(&mut self, root: &'a Value, schema: &'a Value) {
        if let Some(name) = schema.get("$ref").and_then(Value::as_str) {
            if let Some(definition) = definition(root, name) {
                self.add(root, definition);
            }
            return;
        }
        if let Some(choices) = schema.get("anyOf").and_then(Value::as_array) {
            for choice in choices {
                self.add(root, choice);
            }
            return;
        }
        if words_of(schema).next().is_some() {
            self.words = Some(schema);
            return;
        }
        match schema.get("type").and_then(Value::as_str) {
            Some("string") => self.text = true,
            Some("integer") => self.number = Some(schema),
            Some("number") => self.decimal = Some(schema),
            Some("boolean") => self.boolean = true,
            Some("array") => self.list = Some(schema),
            Some("object") => self.mapping = Some(schema),
            _ => {}
        }
    }

    /// The expected kind of value, for messages.
    fn expected(&self) -> String {
        let kinds = [
            (self.text, "text"),
            (self.words.is_some(), "a word"),
            (self.number.is_some(), "a whole number"),
            (self.decimal.is_some(), "a number"),
            (self.boolean, "true or false"),
            (self.list.is_some(), "a list"),
            (self.mapping.is_some(), "a mapping"),
        ];
        listed(kinds.into_iter().filter(|(is, _)| *is).map(|(_, name)| name), "or")
    }
}

pub(crate) fn definition<'a>(root: &'a Value, reference: &str) -> Option<&'a Value> {
    root.get("$defs")?.get(reference.strip_prefix("#/$defs/")?)
}

/// The words of an enumeration, whichever way the schema writes it.
pub(crate) fn words_of(schema: &Value) -> impl Iterator<Item = &str> {
    let plain = schema.get("enum").and_then(Value::as_array).into_iter().flatten();
    let described = schema.get("oneOf").and_then(Value::as_array).into_iter().flatten();
    plain.chain(described.filter_map(|one| one.get("const"))).filter_map(Value::as_str)
}

impl<'a> ShapeChecker<'a, '_> {
    fn value(&mut self, schema: &'a Value, node: &Node, path: &Path) -> Value {
        let mut allowed = Allowed::default();
        allowed.add(self.root, schema);
        if let Some(tag) = &node.tag {
            let what = format!("the tag {} has no meaning here", shown(tag));
            return self.wrong(&allowed, path, node, what, "remove the tag");
        }
        match &node.content {
            Content::Scalar(scalar) => self.scalar(&allowed, scalar, node, path),
            Content::Sequence(items) => {
                if let Some(list) = allowed.list {
                    return self.list(list, items, path);
                }
                let what = format!("expected {}, found a list", allowed.expected());
                let fix = if allowed.mapping.is_some() {
                    "write `key: value` without dashes and square brackets"
                } else {
                    "remove the dashes or square brackets and keep one value"
                };
                self.wrong(&allowed, path, node, what, fix)
            }
            Content::Mapping(entries) => {
                if let Some(mapping) = allowed.mapping {
                    return self.mapping(mapping, entries, node.at, path);
                }
                let what = format!("expected {}, found a mapping", allowed.expected());
                let fix = if allowed.list.is_some() {
                    "put a dash before each entry of the list"
                } else {
                    "keep one value, and quote it if it contains `: ` or braces"
                };
                self.wrong(&allowed, path, node, what, fix)
            }
        }
    }

    /// Reports a problem of shape and gives the value that takes the place of the wrong one.
    fn wrong(
        &mut self,
        allowed: &Allowed<'a>,
        path: &Path,
        node: &Node,
        what: impl core::fmt::Display,
        fix: impl core::fmt::Display,
    ) -> Value {
        let text = match &node.content {
            Content::Scalar(scalar) => Some(&*scalar.text),
            Content::Sequence(_) | Content::Mapping(_) => None,
        };
        self.report.shape(path, (node.at, text), what, fix);
        self.placeholder(allowed)
    }

    /// A value that the schema allows and that means nothing.
    fn placeholder(&self, allowed: &Allowed<'a>) -> Value {
        if allowed.text {
            Value::from("")
        } else if let Some(word) = allowed.words.and_then(|words| words_of(words).next()) {
            Value::from(word)
        } else if let Some(number) = allowed.number {
            number.get("minimum").cloned().unwrap_or_else(|| Value::from(0))
        } else if let Some(schema) = allowed.decimal {
            schema.get("minimum").cloned().unwrap_or_else(|| Value::from(0))
        } else if allowed.boolean {
            Value::from(false)
        } else if allowed.list.is_some() {
            Value::Array(Vec::new())
        } else {
            let mut filled = Map::new();
            for name in allowed.mapping.into_iter().flat_map(required_of) {
                if let Some(schema) = allowed.mapping.and_then(|mapping| property(mapping, name)) {
                    let mut inner = Allowed::default();
                    inner.add(self.root, schema);
                    filled.insert(name.to_owned(), self.placeholder(&inner));
                }
            }
            Value::Object(filled)
        }
    }

    fn scalar(&mut self, allowed: &Allowed<'a>, scalar: &Scalar, node: &Node, path: &Path) -> Value {
        if scalar.is_null() {
            let fix = match path.to_string().as_str() {
                // A document without the key is taken for half of one while there are namespaces.
                "namespaces" => "add a namespace below it, or write `namespaces: {}` for none",
                _ => "give one, or remove the key",
            };
            return self.wrong(allowed, path, node, "there is no value", fix);
        }
        let text = match expand(&scalar.text, self.env) {
            Ok(text) => text,
            Err(Unexpanded { what, fix }) => return self.wrong(allowed, path, node, what, fix),
        };
        self.text_bytes = self.text_bytes.saturating_add(text.len());
        if self.text_bytes > TEXT_BYTES_MAX {
            let what = format!("with its variables replaced, the file is longer than {TEXT_BYTES_MAX} bytes");
            return self.wrong(allowed, path, node, what, "shorten the variables");
        }
        // The value of a variable has no quotes of its own.
        let is_text = scalar.quoted && !scalar.text.contains("${");
        if let Some(words) = allowed.words {
            if words_of(words).any(|word| *word == *text) {
                return Value::from(&*text);
            }
            if !allowed.text && allowed.number.is_none() {
                let (what, fix) = not_a_word(words, &text, path);
                return self.wrong(allowed, path, node, what, fix);
            }
        }
        if allowed.text {
            return Value::from(&*text);
        }
        if let Some(number) = allowed.number {
            return match whole_number(number, &text) {
                Ok(value) if !is_text => Value::from(value),
                Ok(_) => {
                    let what = format!("expected a whole number, found the text \"{}\"", shown(&text));
                    self.wrong(allowed, path, node, what, "remove the quotes")
                }
                Err((_, fix)) if planned::has_value(path, &text) => {
                    let what = format!("\"{}\" is not available in this version", shown(&text));
                    self.wrong(allowed, path, node, what, fix)
                }
                Err((what, fix)) => {
                    let words = listed(allowed.words.into_iter().flat_map(words_of), "or");
                    let fix = if words.is_empty() { fix } else { format!("{fix}, or {words}") };
                    self.wrong(allowed, path, node, what, fix)
                }
            };
        }
        if let Some(schema) = allowed.decimal {
            return match decimal(schema, &text) {
                Ok(number) if !is_text => Value::from(number),
                Ok(_) => {
                    let what = format!("expected a number, found the text \"{}\"", shown(&text));
                    self.wrong(allowed, path, node, what, "remove the quotes")
                }
                Err((what, fix)) => self.wrong(allowed, path, node, what, fix),
            };
        }
        if allowed.boolean {
            return match &*text {
                "true" | "false" if !is_text => Value::from(&*text == "true"),
                _ => {
                    let quotes = if is_text { " without quotes" } else { "" };
                    let what = format!("expected true or false, found \"{}\"", shown(&text));
                    let fix = match text.to_ascii_lowercase().as_str() {
                        "yes" | "on" | "y" | "1" | "true" => "write true",
                        "no" | "off" | "n" | "0" | "false" => "write false",
                        _ => "write true or false",
                    };
                    self.wrong(allowed, path, node, what, format!("{fix}{quotes}"))
                }
            };
        }
        let what = format!("expected {}, found \"{}\"", allowed.expected(), shown(&text));
        let fix = if allowed.list.is_some() {
            format!("write [{}]", shown(&text))
        } else if self.is_kind(allowed, &text) {
            format!("write {{ kind: {} }}", shown(&text))
        } else {
            let names = allowed.mapping.into_iter().flat_map(required_of);
            let entries: Vec<String> = names.map(|name| format!("{name}: ..")).collect();
            match entries.as_slice() {
                [] => "write `key: value` entries under it".to_owned(),
                entries => format!("write {{ {} }}", entries.join(", ")),
            }
        };
        self.wrong(allowed, path, node, what, fix)
    }

    /// Whether `text` is one of the kinds of the mapping that is allowed, as `redis` is of a store.
    fn is_kind(&self, allowed: &Allowed<'a>, text: &str) -> bool {
        let Some(kind) = allowed.mapping.and_then(|mapping| property(mapping, "kind")) else { return false };
        let mut kinds = Allowed::default();
        kinds.add(self.root, kind);
        kinds.words.is_some_and(|words| words_of(words).any(|word| *word == *text))
    }

    fn list(&mut self, schema: &'a Value, items: &[Node], path: &Path) -> Value {
        let Some(of) = schema.get("items") else { return Value::Array(Vec::new()) };
        Value::Array(
            items.iter().enumerate().map(|(index, item)| self.value(of, item, &path.index(index))).collect(),
        )
    }

    fn mapping(&mut self, schema: &'a Value, entries: &[Entry], at: Position, path: &Path) -> Value {
        let mut filled = Map::new();
        let mut seen: BTreeMap<&str, Position> = BTreeMap::new();
        // Keys that a misspelt one probably stands for: they are not missing as well.
        let mut misspelt: Vec<&str> = Vec::new();
        for entry in entries {
            if self.report.is_full() {
                break;
            }
            let inner = path.key(&entry.key);
            if let Some(first) = seen.get(&*entry.key) {
                let what = format!("duplicate key \"{}\"", shown(&entry.key));
                let fix = format!("first defined at line {}; keep one of them", first.line);
                self.report.shape(&inner, (entry.key_at, None), what, fix);
                continue;
            }
            seen.insert(&entry.key, entry.key_at);
            let known = property(schema, &entry.key);
            let other = schema.get("additionalProperties").filter(|other| other.is_object());
            match known.or(other) {
                Some(of) => {
                    let value = self.value(of, &entry.value, &inner);
                    filled.insert(entry.key.to_string(), value);
                }
                None => misspelt.extend(self.unknown_key(schema, entry, path, &inner)),
            }
        }
        for name in required_of(schema) {
            if !filled.contains_key(name) {
                let inner = path.key(name);
                if misspelt.contains(&name) {
                    self.report.misshapen(&inner);
                } else {
                    self.report.shape(
                        &inner,
                        (at, None),
                        format!("`{name}` is missing"),
                        addition(schema, name),
                    );
                }
                if let Some(of) = property(schema, name) {
                    let mut allowed = Allowed::default();
                    allowed.add(self.root, of);
                    filled.insert(name.to_owned(), self.placeholder(&allowed));
                }
            }
        }
        Value::Object(filled)
    }

    /// Reports a key the schema does not have, and gives the one that was probably meant.
    fn unknown_key<'s>(
        &mut self,
        schema: &'s Value,
        entry: &Entry,
        path: &Path,
        inner: &Path,
    ) -> Option<&'s str> {
        let key = &*entry.key;
        if path.segments().is_empty() && KUBERNETES.contains(&key) {
            // All of its keys have one reason.
            if core::mem::replace(&mut self.is_kubernetes_object, true) {
                return None;
            }
        }
        let properties = schema.get("properties").and_then(Value::as_object);
        let names = || properties.into_iter().flatten().map(|(name, _)| name.as_str());
        let mut meant = None;
        let (what, fix) = if planned::has_key(path, key) {
            (format!("\"{}\" is not available in this version", shown(key)), "remove it".to_owned())
        } else if key == "<<" {
            let fix = "use the alias for a whole value, or write the entries out";
            ("merge keys (\"<<\") are not part of YAML 1.2".to_owned(), fix.to_owned())
        } else {
            let placed = self.placed_elsewhere(path, key);
            meant = if placed.is_some() { None } else { nearest(key, names()) };
            let fix = match (placed, meant) {
                (Some(fix), _) => fix,
                (None, Some(name)) => format!("did you mean `{name}`?"),
                (None, None) => format!("use one of {}", listed(names(), "or")),
            };
            (format!("unknown key \"{}\"", shown(key)), fix)
        };
        self.report.shape(inner, (entry.key_at, None), what, fix);
        meant
    }

    /// Where a key at the top of a document belongs, if it is one of another place.
    fn placed_elsewhere(&self, path: &Path, key: &str) -> Option<String> {
        if !path.segments().is_empty() {
            return None;
        }
        if KUBERNETES.contains(&key) {
            return Some(KUBERNETES_FIX.to_owned());
        }
        let namespace = self.root.get("$defs")?.get("namespace")?;
        property(namespace, key)?;
        Some(format!("write it in a namespace: `namespaces: {{ NAME: {{ {key}: .. }} }}`"))
    }
}

/// A text up to the end of its first sentence, or to a semicolon or colon in it.
fn first_clause(text: &str) -> &str {
    let ends = [". ", "; ", ": "].iter().filter_map(|mark| text.find(mark));
    text[..ends.min().unwrap_or(text.len())].trim_end_matches('.')
}

/// How to give the file of which there is an object of Kubernetes.
pub(crate) const KUBERNETES_FIX: &str =
    "give the text under `data:` as a file; this is an object of Kubernetes around it";

/// The keys of an object of Kubernetes, which a file of such an object has around its text.
const KUBERNETES: [&str; 6] = ["apiVersion", "kind", "metadata", "data", "binaryData", "spec"];

/// How to add a key that is missing: with the first sentence of its description.
fn addition(schema: &Value, name: &str) -> String {
    let described = property(schema, name).and_then(|of| of.get("description")?.as_str());
    let sentence = described.map(first_clause).unwrap_or_default();
    let mut letters = sentence.chars();
    match letters.next() {
        Some(first) => format!("add `{name}:`, {}{}", first.to_lowercase(), letters.as_str()),
        None => format!("add `{name}:`"),
    }
}

fn property<'a>(schema: &'a Value, name: &str) -> Option<&'a Value> {
    schema.get("properties")?.get(name)
}

fn required_of(schema: &Value) -> impl Iterator<Item = &str> {
    schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
}

fn not_a_word(words: &Value, text: &str, path: &Path) -> (String, String) {
    if planned::has_value(path, text) {
        let what = format!("\"{}\" is not available in this version", shown(text));
        return (what, format!("use {}", listed(words_of(words), "or")));
    }
    let all = listed(words_of(words), "or");
    let fix = match nearest(text, words_of(words)) {
        Some(word) => format!("did you mean {word}? It is one of {all}"),
        None => format!("use {all}"),
    };
    (format!("\"{}\" is not a value of this key", shown(text)), fix)
}

/// A finite number within the bounds of the schema. The error is `(what, fix)`.
fn decimal(schema: &Value, text: &str) -> Result<f64, (String, String)> {
    let bound = |name: &str| schema.get(name).and_then(Value::as_f64);
    let (least, most) = (bound("minimum"), bound("maximum"));
    let Some(number) = text.parse().ok().filter(|number: &f64| number.is_finite()) else {
        let what = format!("expected a number, found \"{}\"", shown(text));
        return Err((what, "write a decimal, for example 0.5".to_owned()));
    };
    if least.is_none_or(|least| number >= least) && most.is_none_or(|most| number <= most) {
        return Ok(number);
    }
    let fix = match (least, most) {
        (Some(least), Some(most)) => format!("use a number from {least} to {most}"),
        (Some(least), None) => format!("use a number, at least {least}"),
        (None, most) => format!("use a number, at most {}", most.unwrap_or(f64::MAX)),
    };
    Err((format!("{} is out of range", shown(text)), fix))
}

fn whole_number(schema: &Value, text: &str) -> Result<u64, (String, String)> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let bound = |name: &str| schema.get(name).and_then(Value::as_u64);
    let (least, most) = (bound("minimum").unwrap_or(0), bound("maximum").unwrap_or(u64::MAX));
    let range = || match most {
        u64::MAX => format!("use a whole number, at least {least}"),
        _ => format!("use a whole number from {least} to {most}"),
    };
    match text.parse::<u64>() {
        Ok(number) if digits && (least..=most).contains(&number) => Ok(number),
        Ok(_) if digits => Err((format!("{text} is out of range"), range())),
        Err(_) if digits => Err((format!("{} is out of range", shown(text)), range())),
        _ => Err((format!("expected a whole number, found \"{}\"", shown(text)), range())),
    }
}

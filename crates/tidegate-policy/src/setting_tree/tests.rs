//! Every key of the schema is compared, and taken over as the schema says.

use std::collections::BTreeSet;

use super::*;
use crate::parse::read_tree;
use crate::policy::Policy;
use crate::problem::Report;
use crate::schema::{compiled, reloads};
use crate::shape::{shape, words_of};
use crate::{Comparison, Fate, Problems, compare, parse};

/// A policy with every section, and others with the keys that it lacks.
const DOCUMENTS: [&str; 2] = [include_str!("../reference/annotated.yaml"), include_str!("documents.yaml")];

/// Keys of which no change can be compared, each with the reason.
const EXCEPTIONS: [(&str, &str, &str); 3] = [
    ("limit", "was", "it records an earlier rename, and decides the fate of a limit of that name"),
    ("jwt", "unverified", "only `true` is valid, in place of other keys"),
    (
        "override2",
        "zone",
        "numbers of a plan have the form of an override, and no plan changes the time zone",
    ),
];

fn documents() -> Vec<Value> {
    let read = |text: &str| {
        let mut report = Report::new("t.yaml");
        let root = read_tree(text, &mut report).unwrap_or_else(|| panic!("{text}"));
        let value = shape(compiled(), &root, &|_| None, &mut report);
        assert!(report.finish().is_ok(), "{text}");
        value
    };
    DOCUMENTS.iter().flat_map(|text| text.split("\n---\n")).map(read).collect()
}

fn policy(document: &Value) -> Result<Policy, Problems> {
    parse("t.yaml", &document.to_string(), &|_| None).map(|checked| checked.policy)
}

/// A key in a document.
struct KeyPlace {
    /// The definition that has it, and the key.
    key: (&'static str, String),
    /// The way from the top as a pointer into JSON, and in keys alone.
    pointer: String,
    keys: Vec<String>,
    schema: &'static Value,
    /// Whether other keys are below it; a change of one of them is a change of this one.
    has_keys: bool,
}

fn places(schema: &'static Value, value: &Value, pointer: &str, keys: &[String], all: &mut Vec<KeyPlace>) {
    let below = |name: &str| format!("{pointer}/{}", name.replace('~', "~0").replace('/', "~1"));
    match (value, Mapping::new(schema)) {
        (Value::Object(entries), Some(mapping)) => {
            for (name, inner) in entries {
                let Some(of) = mapping.key(name) else { continue };
                let keys = [keys, core::slice::from_ref(name)].concat();
                let mut inside = Vec::new();
                places(of, inner, &below(name), &keys, &mut inside);
                if !mapping.schema["properties"][name].is_null() {
                    let (key, has_keys) = ((mapping.name, name.clone()), !inside.is_empty());
                    all.push(KeyPlace { key, pointer: below(name), keys, schema: of, has_keys });
                }
                all.extend(inside);
            }
        }
        (Value::Array(entries), _) if !schema["items"].is_null() => {
            for (index, entry) in entries.iter().enumerate() {
                places(&schema["items"], entry, &below(&index.to_string()), keys, all);
            }
        }
        _ => {}
    }
}

/// Other values that may be valid in place of `value`; the last ones are of the kinds of text that
/// policies have.
fn others(schema: &Value, value: &Value) -> Vec<Value> {
    const TEXTS: [&str; 28] = [
        "7s",
        "7ms",
        "20s",
        "2m",
        "3MiB",
        "700KiB",
        "7/s",
        "70000/s",
        "0.04",
        "0.2",
        "127.0.0.1:777",
        "Europe/Paris",
        "10.1.0.0/16",
        "https://127.0.0.1:7",
        "rediss://127.0.0.1:7",
        "entry.x",
        "header.x-y",
        "/y",
        "\"carts\"",
        "customer",
        "404",
        "1/3",
        "batch",
        "gold",
        "other",
        "team",
        "worker",
        "free",
    ];
    let resolved = schema["$ref"].as_str().and_then(|name| definition(compiled(), name)).unwrap_or(schema);
    let words = words_of(resolved).map(Value::from);
    let mut others: Vec<Value> = match value {
        Value::Bool(is) => vec![Value::Bool(!is)],
        Value::Number(number) if number.is_f64() => {
            let number = number.as_f64().unwrap_or(0.0);
            vec![(number / 2.0).into(), (number + 0.01).into()]
        }
        Value::Number(number) => {
            let number = number.as_u64().unwrap_or(1);
            vec![(number + 1).into(), number.saturating_sub(1).into(), (number * 2).into()]
        }
        Value::String(text) => {
            words.chain([format!("{text}x").into()]).chain(TEXTS.map(Value::from)).collect()
        }
        Value::Array(entries) => {
            let fewer = Value::Array(entries[..entries.len().saturating_sub(1)].to_vec());
            let one = entries.first().cloned().unwrap_or_default();
            let mut other = self::others(&resolved["items"], &one);
            other.retain(|other| !entries.contains(other));
            core::iter::once(fewer).chain(other.into_iter().map(|one| vec![one].into())).collect()
        }
        Value::Object(entries) => {
            // Without one of its entries, or without all.
            let without = |key: &String| {
                let mut rest = entries.clone();
                rest.remove(key);
                Value::Object(rest)
            };
            entries.keys().map(without).collect()
        }
        Value::Null => Vec::new(),
    };
    others.retain(|other| other != value);
    others
}

fn is_exception(definition: &str, key: &str) -> bool {
    EXCEPTIONS.iter().any(|(one, other, _)| *one == definition && *other == key)
}

/// Whether the comparison shows a limit that is not simply kept.
fn shows_a_limit(comparison: &Comparison) -> bool {
    comparison.limits.iter().any(|limit| limit.fate != Fate::Kept || !limit.rules.is_empty())
}

/// The policy of a document with another value of one key, if another is valid.
fn changed(document: &Value, place: &KeyPlace) -> Option<Policy> {
    let value = document.pointer(&place.pointer)?;
    others(place.schema, value).into_iter().find_map(|other| {
        let mut document = document.clone();
        *document.pointer_mut(&place.pointer)? = other;
        policy(&document).ok()
    })
}

#[test]
fn every_key_of_the_schema_is_compared_and_taken_over_as_it_says_itself() {
    let mut seen = BTreeSet::new();
    for document in documents() {
        let old = policy(&document).unwrap_or_else(|problems| panic!("{problems}"));
        let mut all = Vec::new();
        places(compiled(), &document, "", &[], &mut all);
        for place in all {
            let (definition, key) = &place.key;
            if place.has_keys || is_exception(definition, key) {
                seen.insert(place.key);
                continue;
            }
            let Some(new) = changed(&document, &place) else { continue };
            let pointer = &place.pointer;
            let comparison = compare(&old, &new);
            let named = comparison.settings.iter().filter(|change| {
                let is_below = change.path.split('.').any(|part| part == key);
                let names = |text: &str| text.contains(&format!("{key}: "));
                let address = key == "address" && change.path == place.keys[..place.keys.len() - 1].join(".");
                is_below || names(&change.old) || names(&change.new) || address || key == "name"
            });
            let reloads = reloads(&place.keys.join("."));
            let named: Vec<bool> = named.map(|change| !change.needs_restart).collect();
            assert!(!named.is_empty() || shows_a_limit(&comparison), "{pointer}: {comparison}");
            assert!(named.iter().all(|one| *one == reloads), "{pointer}: {comparison}");
            // The consistency of limits depends on the store, and is taken over.
            if place.keys[0] != "store" {
                let taken_over = format!("{:?}", new.clone().in_place_of(&old));
                let expected = if reloads { &new } else { &old };
                assert_eq!(taken_over, format!("{expected:?}"), "{pointer}");
            }
            seen.insert(place.key);
        }
    }
    let definitions = compiled()["$defs"].as_object().into_iter().flatten();
    let definitions = definitions.map(|(name, definition)| (name.as_str(), definition));
    let mut unseen = Vec::new();
    for (name, definition) in definitions.chain([("config", compiled())]) {
        let keys = definition["properties"].as_object().into_iter().flatten().map(|(key, _)| key.clone());
        let keys = keys.filter(|key| !seen.contains(&(name, key.clone())) && !is_exception(name, key));
        unseen.extend(keys.map(|key| (name, key)));
    }
    assert!(unseen.is_empty(), "keys without a change that is valid: {unseen:#?}");
}

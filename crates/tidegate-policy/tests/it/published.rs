//! The published documents agree with the types: the pages of the reference, and the defaults
//! written in them and in the schema. `src/schema.rs` compares the schema with the types.

use std::collections::BTreeSet;
use std::path::PathBuf;

use serde_json::Value;
use tidegate_policy::{ReferencePage, parse, reference, reference_pages, schema};

use crate::settings;

/// Compares a committed file with what the types give, or writes it when `TIDEGATE_BLESS` is set.
#[expect(clippy::disallowed_methods, reason = "the test, and not the crate, reads the committed file")]
fn assert_committed(name: &str, generated: &str) {
    let path: PathBuf = [env!("CARGO_MANIFEST_DIR"), "..", "..", "docs", name].iter().collect();
    if std::env::var("TIDEGATE_BLESS").is_ok() {
        let folder = path.parent().expect("the path has two parts");
        std::fs::create_dir_all(folder).expect("docs can be made");
        std::fs::write(&path, generated).expect("docs can be written");
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        committed == generated,
        "docs/{name} is not what the types say; write it anew with `TIDEGATE_BLESS=1 cargo test -p tidegate-policy`"
    );
}

#[test]
fn the_committed_reference_pages_are_those_of_the_types() {
    for page in reference_pages() {
        assert_committed(&format!("reference/{}.md", page.name()), &page.text());
    }
}

#[test]
fn there_is_no_committed_reference_page_without_a_section() {
    let folder: PathBuf = [env!("CARGO_MANIFEST_DIR"), "..", "..", "docs", "reference"].iter().collect();
    let names = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
    let committed: BTreeSet<String> = names.map(|name| name.into_string().unwrap()).collect();
    let pages = reference_pages();
    assert_eq!(committed, pages.iter().map(|page| format!("{}.md", page.name())).collect());
}

#[test]
fn every_section_has_one_page_and_a_link_from_the_index() {
    let pages = reference_pages();
    let (index, sections) = pages.split_first().unwrap();
    let schema = schema();
    let of_namespaces = schema["$defs"]["namespace"]["properties"].as_object().unwrap();
    for key in schema["properties"].as_object().unwrap().keys().chain(of_namespaces.keys()) {
        let found: Vec<_> = sections.iter().filter(|page| page.sections().contains(&key.as_str())).collect();
        assert_eq!(found.len(), 1, "{key}");
        assert!(found[0].text().starts_with("# `"), "{key}");
        let link = format!("]({}.md)", found[0].name());
        assert!(index.text().contains(&link) && reference().contains(&format!("`{key}")), "{key}");
    }
}

/// The annotated policy, which opens the reference.
fn annotated() -> String {
    let index = reference_pages().remove(0).text();
    let (_, after) = index.split_once("```yaml\n").expect("the index opens with a policy");
    after.split_once("```").expect("the block is closed").0.to_owned()
}

#[test]
fn the_annotated_policy_has_no_warning_and_names_every_section_and_every_key_of_a_limit() {
    let policy = annotated();
    let checked = parse("annotated.yaml", &policy, &|_| None).unwrap_or_else(|problems| panic!("{problems}"));
    let warnings: Vec<String> = checked.warnings.iter().map(ToString::to_string).collect();
    assert!(warnings.is_empty(), "{warnings:#?}");
    let schema = schema();
    let keys = |definition: &Value, indent: usize| {
        let lines: Vec<&str> = policy.lines().collect();
        for key in definition["properties"].as_object().unwrap().keys() {
            let starts = ["", "- "].map(|dash| format!("{dash}{key}:"));
            let is_there = lines.iter().any(|line| {
                let inner = line.trim_start();
                let at = line.len() - inner.len() + if inner.starts_with("- ") { 2 } else { 0 };
                at == indent && starts.iter().any(|start| inner.starts_with(start))
            });
            assert!(is_there, "the annotated policy lacks `{key}`");
        }
    };
    keys(&schema, 0);
    keys(&schema["$defs"]["namespace"], 4);
    keys(&schema["$defs"]["limit"], 8);
}

#[test]
fn the_defaults_in_the_annotated_policy_are_those_of_the_types() {
    let schema = schema();
    let definitions: Vec<&Value> = schema["$defs"].as_object().unwrap().values().chain([&schema]).collect();
    let policy = annotated();
    let mut count = 0;
    for line in policy.lines() {
        let Some((key, text)) = line.split_once(':') else { continue };
        let Some((_, default)) = text.split_once("default: ") else { continue };
        let key = key.trim_start_matches([' ', '-']);
        // Words and numbers are written out; a sentence says where a default comes from.
        let value = default.split([' ', ',']).next().unwrap();
        let written: Vec<_> =
            definitions.iter().filter_map(|definition| written_default(definition, key)).collect();
        if !written.is_empty() && !default.contains(' ') {
            count += 1;
            assert!(written.iter().any(|known| known == value), "{line}: {written:?}");
        }
    }
    assert!(count > 40, "only {count} defaults are compared");
}

#[test]
fn the_schema_is_strict_and_never_asks_for_null() {
    fn walk(value: &Value, visit: &mut impl FnMut(&serde_json::Map<String, Value>)) {
        match value {
            Value::Object(map) => {
                visit(map);
                map.values().for_each(|inner| walk(inner, visit));
            }
            Value::Array(items) => items.iter().for_each(|inner| walk(inner, visit)),
            _ => {}
        }
    }
    let schema = schema();
    assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
    let mut objects = 0;
    walk(&schema, &mut |map| {
        assert_ne!(map.get("type"), Some(&Value::from("null")));
        assert!(!map.get("type").is_some_and(Value::is_array), "{map:?}");
        if map.contains_key("properties") && map.contains_key("type") {
            objects += 1;
            assert!(map.contains_key("additionalProperties"), "{map:?}");
        }
    });
    assert!(objects >= 20, "{objects}");
}

#[test]
fn every_key_of_the_schema_is_described_in_the_reference() {
    let (schema, page, pages) = (schema(), reference(), reference_pages());
    let definitions = schema["$defs"].as_object().unwrap().values().chain([&schema]);
    let mut keys = 0;
    for definition in definitions {
        for (key, property) in definition["properties"].as_object().into_iter().flatten() {
            keys += 1;
            assert!(page.contains(&format!("| `{key}` |")), "{key}");
            let is_on_a_page = |page: &ReferencePage| {
                page.text().contains(&format!("| `{key}` |"))
                    || page.text().contains(&format!("| [`{key}`]("))
            };
            assert!(pages.iter().any(is_on_a_page), "{key}");
            assert!(property["description"].is_string(), "{key} has no description");
        }
    }
    assert!(keys >= 70, "{keys}");
}

#[test]
fn every_attribute_that_is_taken_as_an_address_is_named_in_the_reference() {
    let page = reference();
    for attribute in tidegate_core::limit::KeyPart::ADDRESSES {
        assert!(page.contains(&format!("`{attribute}`")), "{attribute}");
    }
}

/// The default of a key as the schema describes it: `256MiB` in "Default: `256MiB`."
fn written_default(definition: &Value, key: &str) -> Option<String> {
    let description = definition["properties"][key]["description"].as_str()?;
    let after = description.split_once("Default: `")?.1;
    Some(after.split_once('`')?.0.to_owned())
}

#[test]
fn writing_a_default_out_changes_nothing() {
    let schema = schema();
    let define = |name: &str| match name {
        "config" => schema.clone(),
        name => schema["$defs"][name].clone(),
    };
    // Each definition with a file that has room for one more key of it.
    let limit = |algorithm: &str| {
        format!("namespaces: {{ api: {{ limits: [ {{ name: a, key: [u], {algorithm}, $ }} ] }} }}")
    };
    let places = [
        ("listen", "listen: { $ }".to_owned()),
        ("listener", "listen: { http: { address: 127.0.0.1:1, $ } }".to_owned()),
        ("store", "store: { kind: embedded, durability: interval, $ }".to_owned()),
        ("store", "store: { kind: redis, urls: [redis://h], $ }".to_owned()),
        ("memory", "memory: { $ }".to_owned()),
        ("metering", "metering: { $ }".to_owned()),
        ("authorize", "authorize: { $ }".to_owned()),
        ("rlqs", "listen: { grpc: 127.0.0.1:1 }\nrlqs: { $ }".to_owned()),
        ("http", "http: { $ }".to_owned()),
        ("bounds", "http: { bounds: { $ } }".to_owned()),
        ("log", "log: { $ }".to_owned()),
        ("decisions", "log: { decisions: { path: d, $ } }".to_owned()),
        ("limit", limit("rate: 1/s").replace("key: [u], ", "")),
        ("rolling", limit("rolling: { limit: 1, window: 1m, $ }").replace(", $ } ]", "} ]")),
        ("fixed", limit("fixed: { limit: 1, window: 1m, $ }").replace(", $ } ]", "} ]")),
        ("calendar", limit("calendar: { limit: 1, unit: week, $ }").replace(", $ } ]", "} ]")),
        ("key_part", limit("rate: 1/s").replace("[u]", "[{ attribute: ip, $ }]").replace(", $ } ]", "} ]")),
    ];
    let mut checked = 0;
    for (name, place) in places {
        let definition = define(name);
        for key in definition["properties"].as_object().unwrap().keys() {
            let Some(default) = written_default(&definition, key) else { continue };
            // Where the default depends on other keys it says so and cannot be written out; where
            // the file has the key already, it is there for the sake of others.
            if key == "on_store_failure" || key == "consistency" || place.contains(&format!(" {key}: ")) {
                continue;
            }
            // Some keys go with another, as they say: "For `kind: redis`: ...".
            let description = definition["properties"][key]["description"].as_str().unwrap_or_default();
            let needs = description.strip_prefix("For `").and_then(|rest| rest.split_once('`'));
            if needs.is_some_and(|(needed, _)| !place.contains(needed)) {
                continue;
            }
            checked += 1;
            let without = settings(&place.replace(", $", "").replace('$', ""));
            let with = settings(&place.replace('$', &format!("{key}: {default}")));
            assert_eq!(format!("{without:?}"), format!("{with:?}"), "{name}.{key}: {default}");
        }
    }
    assert!(checked >= 36, "{checked}");
}

//! The published documents agree with the types: the schema, the reference page, and the defaults
//! written in them.

use std::path::PathBuf;

use serde_json::Value;
use tidegate_policy::{reference, schema};

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
fn the_committed_schema_is_that_of_the_types() {
    assert_committed("tidegate.schema.json", &format!("{:#}\n", schema()));
}

#[test]
fn the_committed_reference_page_is_that_of_the_types() {
    assert_committed("configuration.md", &reference());
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
fn every_key_of_the_schema_is_described_on_the_reference_page() {
    let (schema, page) = (schema(), reference());
    let definitions = schema["$defs"].as_object().unwrap().values().chain([&schema]);
    let mut keys = 0;
    for definition in definitions {
        for (key, property) in definition["properties"].as_object().into_iter().flatten() {
            keys += 1;
            assert!(page.contains(&format!("| `{key}` |")), "{key}");
            assert!(property["description"].is_string(), "{key} has no description");
        }
    }
    assert!(keys >= 70, "{keys}");
}

#[test]
fn every_attribute_that_is_taken_as_an_address_is_named_on_the_reference_page() {
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
        ("authorize", "authorize: { $ }".to_owned()),
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

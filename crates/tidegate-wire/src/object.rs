//! JSON objects, read strictly: an array is not taken for an object, and no key may come twice.

use core::fmt;
use core::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::{Deserialize, Deserializer, de};
use serde_json::{Map, Value};

/// A message that is written as an object.
///
/// Serde also reads a struct from an array of its values in their order. Such a message would mean
/// something else as soon as a field is added, so it is rejected.
#[derive(Debug)]
pub(crate) struct Object<T>(pub(crate) T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(ObjectVisitor(PhantomData))
    }
}

struct ObjectVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> de::Visitor<'de> for ObjectVisitor<T> {
    type Value = Object<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object, like {\"key\": value}")
    }

    fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<Object<T>, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map)).map(Object)
    }
}

/// A field that is an object or absent. An array, and a value of any other kind, is an error.
///
/// For `#[serde(deserialize_with)]`, beside `#[serde(default)]`.
pub fn optional<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    Ok(Option::<Object<T>>::deserialize(deserializer)?.map(|Object(value)| value))
}

/// A field that is an object with any keys, none of them twice. `serde_json` would take the last of
/// two.
///
/// For `#[serde(deserialize_with)]`.
pub fn without_duplicates<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Map<String, Value>, D::Error> {
    struct KeysVisitor;

    impl<'de> de::Visitor<'de> for KeysVisitor {
        type Value = Map<String, Value>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object, like {\"key\": value}")
        }

        fn visit_map<A: de::MapAccess<'de>>(self, mut entries: A) -> Result<Self::Value, A::Error> {
            let mut map = Map::new();
            while let Some((key, value)) = entries.next_entry::<String, Value>()? {
                if map.contains_key(&key) {
                    return Err(de::Error::custom(format_args!("duplicate field `{key}`")));
                }
                map.insert(key, value);
            }
            Ok(map)
        }
    }

    deserializer.deserialize_map(KeysVisitor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Deserialize)]
    struct Outer {
        name: String,
        #[serde(default, deserialize_with = "optional")]
        inner: Option<Inner>,
        #[serde(default, deserialize_with = "without_duplicates")]
        numbers: Map<String, Value>,
    }

    #[derive(Debug, Deserialize)]
    struct Inner {
        table: String,
    }

    fn read(json: &str) -> Result<Outer, String> {
        serde_json::from_str::<Object<Outer>>(json)
            .map(|Object(outer)| outer)
            .map_err(|error| error.to_string())
    }

    #[test]
    fn an_array_is_not_taken_for_an_object_at_any_depth() {
        let read_whole = read(r#"{"name":"a","inner":{"table":"t"},"numbers":{"limit":5}}"#).unwrap();
        assert_eq!((read_whole.name.as_str(), read_whole.inner.unwrap().table.as_str()), ("a", "t"));
        assert_eq!(read_whole.numbers["limit"], 5);
        assert!(read(r#"{"name":"a","inner":null}"#).unwrap().inner.is_none());
        for json in [r#"["a"]"#, r#"["a",["t"],{}]"#, r#"{"name":"a","inner":["t"]}"#, r#""a""#, "null"] {
            let error = read(json).unwrap_err();
            assert!(error.contains("expected an object"), "{json}: {error}");
        }
    }

    #[test]
    fn a_key_that_comes_twice_is_an_error() {
        for json in [
            r#"{"name":"a","name":"b"}"#,
            r#"{"name":"a","inner":{"table":"t","table":"u"}}"#,
            r#"{"name":"a","numbers":{"limit":5,"limit":500}}"#,
        ] {
            let error = read(json).unwrap_err();
            assert!(error.contains("duplicate field"), "{json}: {error}");
        }
    }
}

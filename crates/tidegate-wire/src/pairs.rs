//! The attributes of a request: an object of strings.

use core::fmt;
use core::marker::PhantomData;

use serde::{Deserialize, Deserializer, de};
use smallvec::SmallVec;
use tidegate_core::Attributes;

use crate::text::{Text, shortened};

/// The longest name or value of an attribute in bytes, whatever is configured. A longer one is an
/// error: cutting it would join counters.
pub const TEXT_BYTES_MAX: usize = 64 << 10;

/// The attributes of a request as they stand in its body, in the order they were written.
///
/// At most [`Attributes::MAX`], each name once, names of 1 and values of 0 to [`TEXT_BYTES_MAX`]
/// bytes; anything else is an error, and a protocol may allow less with [`Pairs::within`]. An empty
/// value is not the same as an absent one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pairs<'a>(SmallVec<[(Text<'a>, Text<'a>); 8]>);

/// Pairs as [`Attributes`] takes them.
pub type BorrowedPairs<'a> = SmallVec<[(&'a str, &'a str); 8]>;

/// Why an attribute cannot be taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PairError {
    /// More than so many attributes.
    #[error("more than {0} attributes; send only those that limits use")]
    TooMany(usize),
    /// A name that is given twice.
    #[error("duplicate attribute \"{0}\"; send it once")]
    Twice(String),
    /// A name that is empty.
    #[error("an attribute has an empty name; give it one, or leave it out")]
    Nameless,
    /// The name or the value of this attribute is longer than so many bytes.
    #[error("the name or the value of attribute \"{0}\" is longer than {1} bytes; send a hash of it")]
    TooLong(String, usize),
}

impl<'a> Pairs<'a> {
    /// Adds one attribute, unless it breaks a bound.
    pub fn push(&mut self, name: Text<'a>, value: Text<'a>) -> Result<(), PairError> {
        if self.0.len() >= Attributes::MAX {
            return Err(PairError::TooMany(Attributes::MAX));
        }
        if name.is_empty() {
            return Err(PairError::Nameless);
        }
        check_length(&name, &value, TEXT_BYTES_MAX)?;
        // A few names each of a few bytes: comparing all of them beats hashing any.
        if self.0.iter().any(|(known, _)| **known == *name) {
            return Err(PairError::Twice(shortened(&name, 64).into_owned()));
        }
        self.0.push((name, value));
        Ok(())
    }

    /// Whether there are at most `count` attributes whose names and values have at most `bytes`
    /// bytes each.
    pub fn within(&self, count: usize, bytes: usize) -> Result<(), PairError> {
        if self.0.len() > count {
            return Err(PairError::TooMany(count));
        }
        self.0.iter().try_for_each(|(name, value)| check_length(name, value, bytes))
    }

    /// The value of the attribute called `name`.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| **known == *name).map(|(_, value)| &**value)
    }

    /// The pairs themselves.
    pub fn into_pairs(self) -> impl Iterator<Item = (Text<'a>, Text<'a>)> {
        self.0.into_iter()
    }

    /// The pairs, borrowed, as [`Attributes::new`] takes them.
    pub fn borrowed(&self) -> BorrowedPairs<'_> {
        self.0.iter().map(|(name, value)| (&**name, &**value)).collect()
    }
}

fn check_length(name: &str, value: &str, max: usize) -> Result<(), PairError> {
    if name.len() > max || value.len() > max {
        return Err(PairError::TooLong(shortened(name, 64).into_owned(), max));
    }
    Ok(())
}

impl<'de: 'a, 'a> Deserialize<'de> for Pairs<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(PairsVisitor(PhantomData))
    }
}

/// Names the lifetime of the result, because a `SmallVec` of borrowed text does not shorten to it
/// by itself.
struct PairsVisitor<'a>(PhantomData<&'a str>);

impl<'de: 'a, 'a> de::Visitor<'de> for PairsVisitor<'a> {
    type Value = Pairs<'a>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of strings, like {\"user\": \"ada\"}")
    }

    fn visit_map<A: de::MapAccess<'de>>(self, mut map: A) -> Result<Pairs<'a>, A::Error> {
        let mut pairs = Pairs::default();
        while let Some(name) = map.next_key::<Text<'a>>()? {
            let Value(value) = map.next_value()?;
            pairs.push(name, value).map_err(de::Error::custom)?;
        }
        Ok(pairs)
    }
}

/// The value of an attribute. Numbers and booleans are refused rather than converted, because `1`
/// and `1.0` would then be two counters.
struct Value<'a>(Text<'a>);

impl<'de: 'a, 'a> Deserialize<'de> for Value<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ValueVisitor;
        impl<'de> de::Visitor<'de> for ValueVisitor {
            type Value = Value<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string; write the value of an attribute in quotes")
            }

            fn visit_borrowed_str<E: de::Error>(self, text: &'de str) -> Result<Value<'de>, E> {
                Ok(Value(Text(text.into())))
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Value<'de>, E> {
                Ok(Value(Text(text.to_owned().into())))
            }
        }
        deserializer.deserialize_str(ValueVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(json: &str) -> String {
        serde_json::from_str::<Pairs<'_>>(json).unwrap_err().to_string()
    }

    #[test]
    fn attributes_are_read_in_their_order() {
        let pairs: Pairs<'_> = serde_json::from_str(r#"{"b":"2","a":""}"#).unwrap();
        assert_eq!(pairs.borrowed().as_slice(), [("b", "2"), ("a", "")]);
        assert_eq!((pairs.get("a"), pairs.get("c")), (Some(""), None));
    }

    #[test]
    fn values_that_are_no_strings_are_refused_with_what_to_do() {
        for value in ["1", "1.5", "true", "null", "[]", "{}"] {
            let message = error(&format!(r#"{{"user":{value}}}"#));
            assert!(message.contains("write the value of an attribute in quotes"), "{message}");
        }
        assert!(error(r#"["user"]"#).contains("an object of strings"), "{}", error(r#"["user"]"#));
    }

    #[test]
    fn every_bound_holds_at_its_value_and_not_above() {
        let many = |count: usize| {
            let all: Vec<String> = (0..count).map(|index| format!(r#""n{index}":"v""#)).collect();
            format!("{{{}}}", all.join(","))
        };
        assert!(serde_json::from_str::<Pairs<'_>>(&many(Attributes::MAX)).is_ok());
        assert!(error(&many(Attributes::MAX + 1)).contains("more than 64 attributes"));
        assert!(error(r#"{"":"v"}"#).contains("empty name"));
        let sized =
            |name: usize, value: usize| format!(r#"{{"{}":"{}"}}"#, "n".repeat(name), "v".repeat(value));
        assert!(serde_json::from_str::<Pairs<'_>>(&sized(TEXT_BYTES_MAX, TEXT_BYTES_MAX)).is_ok());
        assert!(error(&sized(TEXT_BYTES_MAX + 1, 1)).contains("longer than 65536 bytes"));
        assert!(error(&sized(1, TEXT_BYTES_MAX + 1)).contains("longer than 65536 bytes"));
    }

    #[test]
    fn a_door_may_allow_less() {
        let pairs: Pairs<'_> = serde_json::from_str(r#"{"user":"ada","ip":"::1"}"#).unwrap();
        assert_eq!(pairs.within(2, 4), Ok(()));
        assert_eq!(pairs.within(1, 4), Err(PairError::TooMany(1)));
        assert_eq!(pairs.within(2, 3), Err(PairError::TooLong("user".to_owned(), 3)));
    }

    #[test]
    fn a_name_that_stands_twice_is_an_error_rather_than_a_choice() {
        assert!(error(r#"{"user":"a","user":"b"}"#).contains("duplicate"));
    }
}

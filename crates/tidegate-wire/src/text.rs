//! Text of a request, borrowed from its bytes wherever it holds no escapes.

use core::fmt;
use core::ops::Deref;
use std::borrow::Cow;

use serde::{Deserialize, Deserializer, de};
pub use tidegate_core::display::shortened;

/// A JSON string of a request. It borrows from the body unless the string was written with escapes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Text<'a>(pub Cow<'a, str>);

impl Deref for Text<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(TextVisitor)
    }
}

struct TextVisitor;

impl<'de> de::Visitor<'de> for TextVisitor {
    type Value = Text<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_borrowed_str<E: de::Error>(self, text: &'de str) -> Result<Text<'de>, E> {
        Ok(Text(Cow::Borrowed(text)))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Text<'de>, E> {
        Ok(Text(Cow::Owned(text.to_owned())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_strings_borrow_and_escaped_ones_are_read_right() {
        let plain: Text<'_> = serde_json::from_str(r#""ada""#).unwrap();
        assert!(matches!(plain, Text(Cow::Borrowed("ada"))));
        let escaped: Text<'_> = serde_json::from_str(r#""a\nb\u00e9""#).unwrap();
        assert_eq!(&*escaped, "a\nb\u{e9}");
    }
}

//! Short text that answers own: names and values.

use core::borrow::Borrow;
use core::fmt;
use core::ops::Deref;
use std::borrow::Cow;

use smol_str::SmolStr;

/// Short text, owned: the name of a limit, or a value of a request.
///
/// Up to 23 bytes are kept in place, so that most refusals own their text without an allocation of
/// memory for each word; longer text is shared by its clones.
///
/// ```
/// # use std::collections::HashMap;
/// # use tidegate_core::Text;
/// let name = Text::from("per-user");
/// assert!(name == "per-user" && name.starts_with("per-"));
/// let refusals = HashMap::from([(name, 3)]);
/// assert_eq!(refusals.get("per-user"), Some(&3));
/// ```
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Text(SmolStr);

impl Text {
    /// Text that is part of the program.
    pub const fn from_static(text: &'static str) -> Self {
        Self(SmolStr::new_static(text))
    }

    /// The text.
    #[inline]
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }
}

impl Deref for Text {
    type Target = str;

    fn deref(&self) -> &str {
        self.as_str()
    }
}

impl AsRef<str> for Text {
    fn as_ref(&self) -> &str {
        self.as_str()
    }
}

impl Borrow<str> for Text {
    fn borrow(&self) -> &str {
        self.as_str()
    }
}

impl From<&str> for Text {
    #[inline]
    fn from(text: &str) -> Self {
        Self(SmolStr::new(text))
    }
}

impl From<&String> for Text {
    fn from(text: &String) -> Self {
        Self::from(text.as_str())
    }
}

impl From<String> for Text {
    fn from(text: String) -> Self {
        Self(SmolStr::from(text))
    }
}

impl From<Cow<'_, str>> for Text {
    fn from(text: Cow<'_, str>) -> Self {
        Self(SmolStr::from(text))
    }
}

impl From<Text> for String {
    fn from(text: Text) -> Self {
        Self::from(text.0)
    }
}

impl PartialEq<str> for Text {
    fn eq(&self, other: &str) -> bool {
        self.as_str() == other
    }
}

impl PartialEq<&str> for Text {
    fn eq(&self, other: &&str) -> bool {
        self.as_str() == *other
    }
}

impl PartialEq<String> for Text {
    fn eq(&self, other: &String) -> bool {
        self.as_str() == other.as_str()
    }
}

impl PartialEq<Text> for &str {
    fn eq(&self, other: &Text) -> bool {
        *self == other.as_str()
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_str().fmt(f)
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

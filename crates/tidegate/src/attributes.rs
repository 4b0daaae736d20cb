//! The named strings of a request that limits match on and count by.

use core::fmt;

/// The attributes of one request, borrowed: pairs of a name and a value.
///
/// Names are compared byte by byte. For a duplicate name the first value counts. At most
/// [`Attributes::MAX`] pairs are read; the protocols reject requests with more before they reach a
/// gate.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Attributes<'a>(&'a [(&'a str, &'a str)]);

impl<'a> Attributes<'a> {
    /// How many attributes of a request are read; later ones count as absent.
    pub const MAX: usize = 64;

    /// The attributes in `pairs`.
    pub const fn new(pairs: &'a [(&'a str, &'a str)]) -> Self {
        Self(pairs)
    }

    /// The value of the first attribute called `name`.
    #[inline]
    pub fn get(&self, name: &str) -> Option<&'a str> {
        self.iter().find(|(known, _)| *known == name).map(|(_, value)| value)
    }

    /// All pairs that count, in the order they were given.
    pub fn iter(&self) -> impl Iterator<Item = (&'a str, &'a str)> + Clone + use<'a> {
        self.0.iter().take(Self::MAX).copied()
    }
}

impl<'a, const N: usize> From<&'a [(&'a str, &'a str); N]> for Attributes<'a> {
    fn from(pairs: &'a [(&'a str, &'a str); N]) -> Self {
        Self(pairs)
    }
}

impl<'a> From<&'a [(&'a str, &'a str)]> for Attributes<'a> {
    fn from(pairs: &'a [(&'a str, &'a str)]) -> Self {
        Self(pairs)
    }
}

impl fmt::Debug for Attributes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

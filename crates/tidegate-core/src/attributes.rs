//! The named strings of a request that limits match on and count by.

use core::fmt;
use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::text::Text;

/// The attributes of one request, borrowed: pairs of a name and a value.
///
/// They are made of an array or a `Vec` of pairs, or of a map. Names are `&str` or `String`; values
/// are any kind of string:
///
/// ```
/// # use std::collections::HashMap;
/// # use tidegate_core::Attributes;
/// let id = String::from("ada");
/// let one = Attributes::from(&[("user", "ada")]);
/// assert_eq!(one, Attributes::from(&[("user", &id)]));
/// assert_eq!(one, Attributes::from(&vec![("user", id.clone())]));
/// assert_eq!(one, Attributes::from(&HashMap::from([("user", id)])));
/// // A request without attributes.
/// assert_eq!(Attributes::from(()).get("user"), None);
/// ```
///
/// Names are compared byte by byte. For a duplicate name the first value counts. At most
/// [`Attributes::MAX`] pairs are read; the protocols reject requests with more before they reach a
/// gate.
///
/// [`PairAttributes`] is the same with a lifetime of its own for the values.
pub type Attributes<'a> = PairAttributes<'a, 'a>;

/// [`Attributes`] whose pairs are borrowed for `'p` and whose values live for `'v`: a decision may
/// be kept when the list of pairs is gone.
#[derive(Clone, Copy)]
pub struct PairAttributes<'p, 'v>(Pairs<'p, 'v>);

#[derive(Clone, Copy)]
enum Pairs<'p, 'v> {
    Borrowed(&'p [(&'v str, &'v str)]),
    Other(&'p dyn PairSource),
}

impl<'p, 'v> PairAttributes<'p, 'v> {
    /// How many attributes of a request are read; later ones count as absent.
    pub const MAX: usize = 64;

    /// The attributes in `pairs`.
    pub const fn new(pairs: &'p [(&'v str, &'v str)]) -> Self {
        Self(Pairs::Borrowed(pairs))
    }

    /// The value of the first attribute called `name`.
    #[inline]
    pub fn get(&self, name: &str) -> Option<&'p str> {
        match self.0 {
            Pairs::Borrowed(pairs) => Self::find(pairs, name),
            Pairs::Other(source) => source.value_of(name),
        }
    }

    /// The pairs, if they are a slice.
    #[inline]
    pub(crate) const fn as_pairs(&self) -> Option<&'p [(&'v str, &'v str)]> {
        match self.0 {
            Pairs::Borrowed(pairs) => Some(pairs),
            Pairs::Other(_) => None,
        }
    }

    /// The value of the first of these pairs with this name.
    #[expect(clippy::inline_always, reason = "as `Gate::check`")]
    #[inline(always)]
    pub(crate) fn find(pairs: &[(&str, &'v str)], name: &str) -> Option<&'v str> {
        // A loop, since the search of an iterator is a call where several places have it.
        for (called, value) in &pairs[..pairs.len().min(Self::MAX)] {
            if is_same_name(called, name) {
                return Some(value);
            }
        }
        None
    }

    /// All pairs that count, in the order they were given.
    pub fn iter(&self) -> impl Iterator<Item = (&'p str, &'p str)> + Clone + use<'p, 'v> {
        let pairs = self.0;
        (0..Self::MAX).map_while(move |index| match pairs {
            Pairs::Borrowed(pairs) => pairs.get(index).copied(),
            Pairs::Other(source) => source.pair(index),
        })
    }
}

/// Whether two names are equal. Names are short: two overlapping words are compared sooner than a
/// comparison of any length is called.
#[inline]
pub(crate) fn is_same_name(one: &str, other: &str) -> bool {
    let (one, other) = (one.as_bytes(), other.as_bytes());
    one.len() == other.len()
        && match one.len() {
            2..4 => has_same_ends::<2>(one, other),
            4..=8 => has_same_ends::<4>(one, other),
            9..=16 => has_same_ends::<8>(one, other),
            _ => one == other,
        }
}

/// Whether the first and the last `N` bytes are equal.
#[inline]
fn has_same_ends<const N: usize>(one: &[u8], other: &[u8]) -> bool {
    one.first_chunk::<N>() == other.first_chunk() && one.last_chunk::<N>() == other.last_chunk()
}

impl Default for PairAttributes<'_, '_> {
    fn default() -> Self {
        Self::new(&[])
    }
}

impl PartialEq for PairAttributes<'_, '_> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for PairAttributes<'_, '_> {}

impl fmt::Debug for PairAttributes<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

/// Pairs in any form that is not a slice of `(&str, &str)`.
trait PairSource: Sync {
    /// The pair at this position.
    fn pair(&self, index: usize) -> Option<(&str, &str)>;

    /// The value of the first pair with this name.
    fn value_of(&self, name: &str) -> Option<&str> {
        first_called(name, (0..).map_while(|index| self.pair(index)))
    }
}

/// The value of the first pair with this name, of those that count.
#[inline]
fn first_called<'a>(name: &str, pairs: impl Iterator<Item = (&'a str, &'a str)>) -> Option<&'a str> {
    pairs.take(Attributes::MAX).find(|(known, _)| *known == name).map(|(_, value)| value)
}

/// A pair of a name and a value that [`Attributes`] are made of. This trait is implemented here
/// only.
pub trait AttributePair<'v>: private::Sealed + Sized {
    #[doc(hidden)]
    fn in_array<const N: usize>(pairs: &[Self; N]) -> PairAttributes<'_, 'v>;
    #[doc(hidden)]
    #[expect(clippy::ptr_arg, reason = "a trait object is made of the `Vec`, not of a slice")]
    fn in_vec(pairs: &Vec<Self>) -> PairAttributes<'_, 'v>;
}

mod private {
    #[expect(unnameable_types, reason = "it keeps `AttributePair` from being implemented elsewhere")]
    pub trait Sealed {}
}

impl private::Sealed for (&str, &str) {}

impl<'v> AttributePair<'v> for (&'v str, &'v str) {
    #[inline]
    fn in_array<const N: usize>(pairs: &[Self; N]) -> PairAttributes<'_, 'v> {
        PairAttributes::new(pairs)
    }

    #[inline]
    fn in_vec(pairs: &Vec<Self>) -> PairAttributes<'_, 'v> {
        PairAttributes::new(pairs)
    }
}

/// Implements [`AttributePair`] for pairs of other strings.
macro_rules! pairs_of {
    ($($name:ty, $value:ty;)*) => {$(
        impl private::Sealed for ($name, $value) {}

        impl<'v> AttributePair<'v> for ($name, $value) {
            fn in_array<const N: usize>(pairs: &[Self; N]) -> PairAttributes<'_, 'v> {
                PairAttributes(Pairs::Other(pairs))
            }

            fn in_vec(pairs: &Vec<Self>) -> PairAttributes<'_, 'v> {
                PairAttributes(Pairs::Other(pairs))
            }
        }

        impl<const N: usize> PairSource for [($name, $value); N] {
            fn pair(&self, index: usize) -> Option<(&str, &str)> {
                self.get(index).map(|(name, value)| (name.as_ref(), value.as_ref()))
            }
        }

        impl PairSource for Vec<($name, $value)> {
            fn pair(&self, index: usize) -> Option<(&str, &str)> {
                self.get(index).map(|(name, value)| (name.as_ref(), value.as_ref()))
            }
        }
    )*};
}

pairs_of! {
    &str, String;
    &str, &String;
    &str, Cow<'_, str>;
    &str, Arc<str>;
    &str, Text;
    String, String;
    String, &str;
}

impl<K: AsRef<str> + Sync, V: AsRef<str> + Sync, S: Sync> PairSource for HashMap<K, V, S> {
    fn pair(&self, index: usize) -> Option<(&str, &str)> {
        self.iter().nth(index).map(|(name, value)| (name.as_ref(), value.as_ref()))
    }

    /// One walk over the map; one for each position would be the square of it.
    fn value_of(&self, name: &str) -> Option<&str> {
        first_called(name, self.iter().map(|(name, value)| (name.as_ref(), value.as_ref())))
    }
}

impl<K: AsRef<str> + Sync, V: AsRef<str> + Sync> PairSource for BTreeMap<K, V> {
    fn pair(&self, index: usize) -> Option<(&str, &str)> {
        self.iter().nth(index).map(|(name, value)| (name.as_ref(), value.as_ref()))
    }

    /// One walk over the map; one for each position would be the square of it.
    fn value_of(&self, name: &str) -> Option<&str> {
        first_called(name, self.iter().map(|(name, value)| (name.as_ref(), value.as_ref())))
    }
}

/// No attributes.
impl From<()> for PairAttributes<'_, '_> {
    fn from((): ()) -> Self {
        Self::default()
    }
}

impl<'p, 'v, P: AttributePair<'v>, const N: usize> From<&'p [P; N]> for PairAttributes<'p, 'v> {
    #[inline]
    fn from(pairs: &'p [P; N]) -> Self {
        P::in_array(pairs)
    }
}

impl<'p, 'v, P: AttributePair<'v>> From<&'p Vec<P>> for PairAttributes<'p, 'v> {
    #[inline]
    fn from(pairs: &'p Vec<P>) -> Self {
        P::in_vec(pairs)
    }
}

impl<'p, 'v> From<&'p [(&'v str, &'v str)]> for PairAttributes<'p, 'v> {
    fn from(pairs: &'p [(&'v str, &'v str)]) -> Self {
        Self::new(pairs)
    }
}

impl<'p, K: AsRef<str> + Sync, V: AsRef<str> + Sync, S: Sync> From<&'p HashMap<K, V, S>>
    for PairAttributes<'p, '_>
{
    fn from(map: &'p HashMap<K, V, S>) -> Self {
        Self(Pairs::Other(map))
    }
}

impl<'p, K: AsRef<str> + Sync, V: AsRef<str> + Sync> From<&'p BTreeMap<K, V>> for PairAttributes<'p, '_> {
    fn from(map: &'p BTreeMap<K, V>) -> Self {
        Self(Pairs::Other(map))
    }
}

//! The scope of a limit: the tuple of attributes that selects the counter of a request.
//!
//! Two different tuples never give the same key. Every part is written with its length, so `a` +
//! `b_c` and `a_b` + `c` stay apart, and a missing attribute differs from an empty one.

use core::hash::Hasher;
use std::borrow::Cow;

use smallvec::SmallVec;

use crate::address::network_of;
use crate::attributes::{Attributes, PairAttributes, is_same_name};
use crate::limit::{KeyPart, Missing};
use crate::table::{KeyHash, KeyTable};
use crate::text::Text;

/// A key as bytes that no other tuple of values gives: most take no allocation.
pub type KeyBytes = SmallVec<[u8; 64]>;

/// The values of the attributes a gate knows, in the order of its [`Names`]; `None` where the
/// request lacks one.
pub(crate) type Values<'a> = SmallVec<[Option<&'a str>; 8]>;

/// The names of all attributes that the limits of a gate use.
#[derive(Debug, Default)]
pub(crate) struct Names {
    names: Vec<Box<str>>,
    /// The same names, as refusals own them.
    texts: Vec<Text>,
}

impl Names {
    /// The position of `name`, which is added if it is new.
    pub(crate) fn intern(&mut self, name: &str) -> u16 {
        let known = self.names.iter().position(|known| &**known == name);
        let index = known.unwrap_or_else(|| {
            self.names.push(name.into());
            self.texts.push(name.into());
            self.names.len() - 1
        });
        u16::try_from(index).expect("a gate has at most GateBuilder::ATTRIBUTES_MAX attributes")
    }

    pub(crate) fn get(&self, index: u16) -> &str {
        &self.names[usize::from(index)]
    }

    pub(crate) fn text(&self, index: u16) -> Text {
        self.texts[usize::from(index)].clone()
    }

    /// How many of these pairs have the names in their order, from the first on. A caller sends the
    /// same list each time, often in the order of the policy; then no earlier pair has the name of
    /// a later one.
    #[expect(clippy::inline_always, reason = "as `KeyTable::look`")]
    #[inline(always)]
    pub(crate) fn in_order(&self, pairs: &[(&str, &str)]) -> usize {
        let mut count = 0;
        for (name, (called, _)) in self.names.iter().zip(pairs) {
            if !is_same_name(called, name) {
                break;
            }
            count += 1;
        }
        count
    }

    /// The value of the name at a position among pairs of which so many are [in
    /// order](Self::in_order).
    #[expect(clippy::inline_always, reason = "as `KeyTable::look`")]
    #[inline(always)]
    pub(crate) fn value<'a>(
        &self,
        pairs: &[(&str, &'a str)],
        in_order: usize,
        index: u16,
    ) -> Option<&'a str> {
        match pairs.get(usize::from(index)) {
            Some((_, value)) if usize::from(index) < in_order => Some(value),
            _ => Attributes::find(pairs, self.get(index)),
        }
    }

    /// Picks the values of these names out of a request.
    pub(crate) fn read<'a>(&self, attributes: PairAttributes<'a, '_>, values: &mut Values<'a>) {
        match attributes.as_pairs() {
            Some(pairs) => {
                let in_order = self.in_order(pairs);
                values.extend((0..self.names.len()).map(|index| self.value(pairs, in_order, index as u16)));
            }
            None => values.extend(self.names.iter().map(|name| attributes.get(name))),
        }
    }

    /// The values of these names in a request.
    pub(crate) fn values<'a>(&self, attributes: PairAttributes<'a, '_>) -> Values<'a> {
        let mut values = Values::new();
        self.read(attributes, &mut values);
        values
    }
}

/// One attribute of a key, by its position in [`Names`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    pub(crate) attribute: u16,
    ipv6_prefix: Option<u8>,
}

impl Part {
    pub(crate) fn new(part: &KeyPart, names: &mut Names) -> Self {
        Self { attribute: names.intern(&part.attribute), ipv6_prefix: part.ipv6_prefix }
    }

    /// The value as it is counted, for people: the network of an address, otherwise the value
    /// itself.
    pub(crate) fn shown(self, value: &str) -> Cow<'_, str> {
        self.network(value).map_or(Cow::Borrowed(value), Cow::Owned)
    }

    /// As [`Part::shown`], for a refusal that owns its texts.
    #[inline]
    pub(crate) fn shown_text(self, value: &str) -> Text {
        self.network(value).map_or_else(|| value.into(), Text::from)
    }

    #[inline]
    fn network(self, value: &str) -> Option<String> {
        Some(network_of(value, self.ipv6_prefix?)?.to_string())
    }

    /// Whether it counts by addresses and `value`, which is no address, counts as written.
    pub(crate) fn is_no_address(self, value: &str) -> bool {
        self.ipv6_prefix.is_some_and(|prefix| network_of(value, prefix).is_none())
    }

    #[expect(clippy::inline_always, reason = "as `KeyTable::look`")]
    #[inline(always)]
    fn write(self, value: &str, hasher: &mut impl Hasher) {
        match self.ipv6_prefix {
            None => write_part(value.as_bytes(), 1, hasher),
            Some(prefix) => write_address(value, prefix, hasher),
        }
    }

    /// Appends the part as bytes that no other part has.
    fn append(self, value: Option<&str>, out: &mut KeyBytes) {
        let Some(value) = value else {
            out.push(0);
            return;
        };
        let network = self.ipv6_prefix.and_then(|prefix| network_of(value, prefix));
        let bytes = network.as_ref().map_or(value.as_bytes(), AsRef::as_ref);
        out.push(if network.is_some() { 2 } else { 1 });
        out.extend_from_slice(&(bytes.len() as u64).to_be_bytes());
        out.extend_from_slice(bytes);
    }
}

/// The kind and the length come first: the bytes cannot be read as the end of one part and the
/// start of the next.
#[inline]
fn write_part(bytes: &[u8], kind: u64, hasher: &mut impl Hasher) {
    hasher.write_u64((bytes.len() as u64) << 2 | kind);
    hasher.write(bytes);
}

#[inline(never)]
fn write_address(value: &str, ipv6_prefix: u8, hasher: &mut impl Hasher) {
    match network_of(value, ipv6_prefix) {
        Some(network) => write_part(network.as_ref(), 2, hasher),
        None => write_part(value.as_bytes(), 1, hasher),
    }
}

/// The key of a request under one limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keyed {
    /// The counter it falls on.
    On(KeyHash),
    /// The limit does not apply to it.
    Skipped,
    /// It lacks the attribute of this position in [`Names`], and the limit refuses such requests.
    Lacks(u16),
}

/// The tuple of attributes a limit counts by.
#[derive(Clone, Debug)]
pub(crate) struct Scope {
    pub(crate) parts: Box<[Part]>,
    missing: Missing,
    /// The table's hasher after the limit's identity, which tells the keys of one limit from those
    /// of another: where the hash of every key begins.
    start: ahash::AHasher,
}

impl Scope {
    /// A scope of a limit with this hash of its identity, for keys of `table`.
    pub(crate) fn new(parts: Box<[Part]>, missing: Missing, identity: u64, table: &KeyTable) -> Self {
        let mut start = table.hasher();
        start.write_u64(identity);
        Self { parts, missing, start }
    }

    /// The key of a request whose attributes have these values, by their positions in [`Names`].
    #[expect(
        clippy::inline_always,
        reason = "the values of most requests are in registers where this is called"
    )]
    #[inline(always)]
    pub(crate) fn key<'v>(&self, value_of: impl Fn(u16) -> Option<&'v str>) -> Keyed {
        let mut hasher = self.start.clone();
        // Most limits count by one attribute: no other part has to be told from it.
        if let [Part { attribute, ipv6_prefix: None }] = &*self.parts
            && let Some(value) = value_of(*attribute)
        {
            hasher.write(value.as_bytes());
            return Keyed::On(KeyHash(hasher.finish()));
        }
        for part in &self.parts {
            match value_of(part.attribute) {
                Some(value) => part.write(value, &mut hasher),
                None => match self.missing {
                    Missing::Skip => return Keyed::Skipped,
                    Missing::Refuse => return Keyed::Lacks(part.attribute),
                    Missing::Group => hasher.write_u64(0),
                },
            }
        }
        Keyed::On(KeyHash(hasher.finish()))
    }

    /// The key of a request with these values.
    #[expect(clippy::inline_always, reason = "as `Scope::key`")]
    #[inline(always)]
    pub(crate) fn key_of(&self, values: &[Option<&str>]) -> Keyed {
        self.key(|attribute| values[usize::from(attribute)])
    }

    /// The bytes of the key, for a store that keeps whole keys.
    pub(crate) fn key_bytes(&self, values: &[Option<&str>]) -> KeyBytes {
        let mut out = KeyBytes::new();
        for part in &self.parts {
            part.append(values[usize::from(part.attribute)], &mut out);
        }
        out
    }
}

//! A parsed request, or the problem that makes it invalid.

use core::time::Duration;
use std::borrow::Cow;

use smallvec::SmallVec;
use tidegate_core::{Attributes, Cost};

use super::rate_limit_descriptor::{Entry, RateLimitOverride};
use super::{RateLimitDescriptor, RateLimitRequest, RateLimitUnit, unit};

/// The most descriptors of a request. Envoy sends one for each list of actions that applies, a
/// handful in practice. Above it the request is refused as a bad one.
pub const DESCRIPTORS_MAX: usize = 128;

/// The most entries of a descriptor: as many as a request may have attributes. Above it the request
/// is a bad one.
pub const ENTRIES_MAX: usize = Attributes::MAX;

/// The longest name of a domain, and of a key, in bytes. Above it the request is a bad one.
pub const NAME_BYTES_MAX: usize = 1 << 10;

/// The longest value in bytes. Envoy takes at most 60 KiB of headers unless told otherwise, so that
/// whatever its clients send fits. Above it the request is a bad one.
pub const VALUE_BYTES_MAX: usize = 64 << 10;

/// A request that can be decided.
#[derive(Clone, Debug, PartialEq)]
pub struct ParsedRequest<'a> {
    /// The name of the namespace, or of the domain.
    pub domain: &'a str,
    /// The descriptors to count by; at least one, at most [`DESCRIPTORS_MAX`].
    pub descriptors: Vec<Descriptor<'a>>,
}

/// One thing to count by.
#[derive(Clone, Debug, PartialEq)]
pub struct Descriptor<'a> {
    /// The keys and values as they came; at least one, at most [`ENTRIES_MAX`].
    pub entries: &'a [Entry],
    /// The cost, and how it is charged.
    pub hits: Hits,
    /// The limit that came with it, in place of those that are configured.
    pub limit: Option<OwnLimit>,
}

/// The cost of a descriptor, and how it is charged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hits {
    /// A question: charged if everything fits, and not at all otherwise. The descriptor does not
    /// say its cost; this is the cost that the request says for all descriptors, if it says one.
    Ask(Option<Cost>),
    /// A charge: booked even if it does not fit, because the work may have been done before. The
    /// descriptor says what it weighs.
    Charge(Cost),
    /// Only a look. The descriptor says that it weighs nothing.
    Look,
    /// Given back, as far as it was used; `None` for the cost that a question would have.
    GiveBack(Option<Cost>),
}

/// A limit that came with a request: so many units in each window of this length, counted
/// from 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnLimit {
    /// Units a window admits; 0 admits nothing.
    pub requests_per_unit: u32,
    /// The unit of the window.
    pub unit: RateLimitUnit,
    /// How long it is.
    pub window: Duration,
}

/// Why a request cannot be decided: which field, what is wrong with it, what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field} {what}; {fix}")]
pub struct BadRequest {
    /// The field, as `descriptors[2].entries[0].key`.
    pub field: String,
    /// The problem of the field.
    pub what: String,
    /// The fix.
    pub fix: &'static str,
}

impl<'a> ParsedRequest<'a> {
    /// Reads a request, or says what is wrong with it first.
    pub fn read(request: &'a RateLimitRequest) -> Result<Self, BadRequest> {
        let RateLimitRequest { domain, descriptors, hits_addend } = request;
        if domain.is_empty() {
            return Err(bad("domain", "is empty", "name a namespace of the policy"));
        }
        if domain.len() > NAME_BYTES_MAX {
            return Err(too_long("domain", domain.len(), NAME_BYTES_MAX, "name a namespace of the policy"));
        }
        if descriptors.is_empty() {
            return Err(bad("descriptors", "is empty", "send at least one"));
        }
        if descriptors.len() > DESCRIPTORS_MAX {
            let what = format!("has {} descriptors; a request takes {DESCRIPTORS_MAX}", descriptors.len());
            return Err(bad("descriptors", what, "send fewer, or several requests"));
        }
        let implied = Cost::new((*hits_addend).into());
        let descriptors = descriptors.iter().enumerate();
        let descriptors = descriptors.map(|(index, one)| Descriptor::read(one, implied, index));
        Ok(Self { domain, descriptors: descriptors.collect::<Result<_, _>>()? })
    }
}

impl<'a> Descriptor<'a> {
    fn read(
        descriptor: &'a RateLimitDescriptor,
        implied: Option<Cost>,
        index: usize,
    ) -> Result<Self, BadRequest> {
        let RateLimitDescriptor { entries, limit, hits_addend, is_negative_hits } = descriptor;
        let field = |rest: &str| format!("descriptors[{index}].{rest}");
        if entries.is_empty() {
            return Err(bad(field("entries"), "is empty", "send at least one key with its value"));
        }
        if entries.len() > ENTRIES_MAX {
            let what = format!("has {} entries; a descriptor takes {ENTRIES_MAX}", entries.len());
            return Err(bad(field("entries"), what, "send those that limits use"));
        }
        for (at, Entry { key, value }) in entries.iter().enumerate() {
            let field = |name: &str| field(&format!("entries[{at}].{name}"));
            if key.is_empty() {
                return Err(bad(field("key"), "is empty", "name what its value is"));
            }
            if key.len() > NAME_BYTES_MAX {
                return Err(too_long(field("key"), key.len(), NAME_BYTES_MAX, "use a short name"));
            }
            if value.len() > VALUE_BYTES_MAX {
                return Err(too_long(field("value"), value.len(), VALUE_BYTES_MAX, "send a shorter value"));
            }
        }
        let hits = match (hits_addend.map(Cost::new), is_negative_hits) {
            (None, true) => Hits::GiveBack(implied),
            (Some(Some(cost)), true) => Hits::GiveBack(Some(cost)),
            (None, false) => Hits::Ask(implied),
            (Some(Some(cost)), false) => Hits::Charge(cost),
            (Some(None), _) => Hits::Look,
        };
        let limit = limit.map(|limit| OwnLimit::read(limit, || field("limit.unit"))).transpose()?;
        Ok(Self { entries, hits, limit })
    }

    /// The entries as attributes of a request. A key that stands several times, as `generic_key`
    /// may, is `generic_key` first, then `generic_key.2` and so on, so that no value is lost; a
    /// name that is another entry's key is passed over.
    pub fn attributes(&self) -> EntryAttributes<'a> {
        let mut pairs = EntryAttributes::new();
        for (at, Entry { key, value }) in self.entries.iter().enumerate() {
            let before = self.entries[..at].iter().filter(|earlier| earlier.key == *key).count();
            let name = match before {
                0 => Cow::Borrowed(key.as_str()),
                _ => Cow::Owned(format!("{key}.{}", self.number(key, before + 1))),
            };
            pairs.push((name, value));
        }
        pairs
    }

    /// The number of a key where it stands for the `nth` time, which is at least the second.
    fn number(&self, key: &str, nth: usize) -> usize {
        // As a number is written here: `parse` would take a sign and zeros before it.
        let written =
            |digits: &str| digits.parse().ok().filter(|number: &usize| number.to_string() == digits);
        let taken = |entry: &Entry| written(entry.key.strip_prefix(key)?.strip_prefix('.')?);
        let mut taken: SmallVec<[usize; 4]> =
            self.entries.iter().filter_map(taken).filter(|taken| *taken > 1).collect();
        taken.sort_unstable();
        taken.dedup();
        taken.iter().fold(nth, |number, taken| if *taken <= number { number + 1 } else { number })
    }
}

/// Names and values of attributes.
pub type EntryAttributes<'a> = SmallVec<[(Cow<'a, str>, &'a str); 8]>;

impl OwnLimit {
    fn read(limit: RateLimitOverride, field: impl Fn() -> String) -> Result<Self, BadRequest> {
        const FIX: &str = "send SECOND, MINUTE, HOUR, DAY, MONTH or YEAR";
        let RateLimitOverride { requests_per_unit, unit } = limit;
        let Ok(unit) = RateLimitUnit::try_from(unit) else {
            return Err(bad(field(), format!("is {unit}, which is no unit"), FIX));
        };
        let window = unit::span(unit).ok_or_else(|| bad(field(), "is UNKNOWN", FIX))?;
        Ok(Self { requests_per_unit, unit, window })
    }
}

pub(super) fn bad(field: impl Into<String>, what: impl Into<String>, fix: &'static str) -> BadRequest {
    BadRequest { field: field.into(), what: what.into(), fix }
}

pub(super) fn too_long(field: impl Into<String>, bytes: usize, max: usize, fix: &'static str) -> BadRequest {
    bad(field, format!("has {bytes} bytes; it takes {max}"), fix)
}

#[cfg(test)]
mod tests;

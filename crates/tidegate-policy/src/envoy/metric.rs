//! The counts of each rule, and the keys of its metrics.
//!
//! A key is the domain and the descriptors' keys and values on the way to the rule, joined by dots.
//! Only `value_to_metric` and `detailed_metric` put values of requests into it, and
//! [`super::MetricKeys`] bounds how many.

use std::borrow::Cow;
use std::net::Ipv4Addr;

use super::limit::Limit;

/// The value in a key that replaces the values of requests above the bound.
const OTHER: &str = "other";

/// The key of a rule's metrics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetricKey<'a> {
    /// The key, or where a request's values belong in it, the one with `other` in their place.
    pub bounded: Cow<'a, str>,
    /// The key with the values of the request, where they belong in it. As many of them as there
    /// are callers.
    pub exact: Option<String>,
}

/// The counts that one descriptor adds to its rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counts<'a> {
    /// Whose counts.
    pub key: MetricKey<'a>,
    /// All hits that were charged or refused.
    pub total_hits: u64,
    /// Those above the limit.
    pub over_limit: u64,
    /// Those above the near ratio and not above the limit.
    pub near_limit: u64,
    /// Those of descriptors that were within the limit.
    pub within_limit: u64,
    /// Those above the limit that were let through because the rule is in shadow mode.
    pub shadow_mode: u64,
    /// Those that were given back.
    pub total_negative_hits: u64,
}

impl<'a> Counts<'a> {
    pub(super) fn none(key: MetricKey<'a>) -> Self {
        Self {
            key,
            total_hits: 0,
            over_limit: 0,
            near_limit: 0,
            within_limit: 0,
            shadow_mode: 0,
            total_negative_hits: 0,
        }
    }

    /// Counts `hits` that made `before` used ones `after`, for a limit of `most` hits; `near` of
    /// them are near it.
    pub(super) fn charged(&mut self, hits: u64, before: u64, after: u64, most: u64, near: u64) {
        if after > most {
            self.over_limit += if before >= most { hits } else { after - most };
            self.near_limit += if before < most { most - near.max(before) } else { 0 };
            return;
        }
        self.within_limit += hits;
        if after > near {
            self.near_limit += if before >= near { hits } else { after - near };
        }
    }
}

/// The number of hits from which on a limit is near: the whole ones in `ratio` of it, in single
/// precision as the peer calculates it; never more than the limit, which single precision may round
/// up.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "the peer's rounding is what is wanted"
)]
pub(super) fn near(limit: &Limit, ratio: f32) -> u64 {
    ((limit.requests_per_unit as f32 * ratio) as u64).min(limit.requests_per_unit.into())
}

/// The value that an entry of a rule contributes to the rule's key.
#[derive(Clone, Copy, Debug)]
pub(super) enum KeyValue<'a> {
    /// The value in the file, if there is one.
    OfRule(Option<&'a str>),
    /// The value of the request.
    OfRequest,
}

/// The key for requests above the bound of keys; `None` for a rule whose key has no value of a
/// request.
pub(super) fn rest_key(domain: &str, entries: &[(&str, KeyValue<'_>)]) -> Option<String> {
    if !entries.iter().any(|(_, value)| matches!(value, KeyValue::OfRequest)) {
        return None;
    }
    let values = entries.iter().map(|(key, value)| match value {
        KeyValue::OfRequest => (*key, Some(OTHER)),
        KeyValue::OfRule(value) => (*key, *value),
    });
    Some(joined(domain, values))
}

/// The key for a limit that comes with its descriptor: every value is the request's.
pub(super) fn key_of_request(domain: &str, entries: &[(&str, &str)]) -> MetricKey<'static> {
    let exact = joined(domain, entries.iter().map(|(key, value)| (*key, Some(*value))));
    let bounded = joined(domain, [(OTHER, None)].into_iter());
    MetricKey { bounded: Cow::Owned(bounded), exact: Some(exact) }
}

/// The domain and the entries, joined by dots.
pub(super) fn joined<'a>(domain: &str, levels: impl Iterator<Item = (&'a str, Option<&'a str>)>) -> String {
    let mut key = clean(domain);
    for (name, value) in levels {
        key.push('.');
        key.push_str(&clean(name));
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            key.push('_');
            key.push_str(&clean(value));
        }
    }
    key
}

/// `text` without what has a meaning in names of metrics: `:` and `|`, and the dots of IPv4
/// addresses.
fn clean(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.').len();
        if digits == 0 {
            out.push(if c == ':' || c == '|' { '_' } else { c });
            rest = &rest[c.len_utf8()..];
            continue;
        }
        let run = &rest[..digits];
        let address = run.trim_end_matches('.');
        if address.parse::<Ipv4Addr>().is_ok() {
            out.push_str(&address.replace('.', "_"));
            out.push_str(&run[address.len()..]);
        } else {
            out.push_str(run);
        }
        rest = &rest[digits..];
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_no_colons_bars_or_dots_of_addresses() {
        for (text, expected) in [
            ("a:b|c", "a_b_c"),
            ("10.0.0.1", "10_0_0_1"),
            ("ip_10.0.0.1:80", "ip_10_0_0_1_80"),
            ("10.0.0.0/8", "10_0_0_0/8"),
            ("v1.2", "v1.2"),
            ("1.2.3.4.5", "1.2.3.4.5"),
            ("é.ü", "é.ü"),
        ] {
            assert_eq!(clean(text), expected, "{text}");
        }
    }
}

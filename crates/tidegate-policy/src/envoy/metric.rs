//! What is counted for each rule, and under which key.
//!
//! A key is the domain and the descriptors' keys and values on the way to the rule, joined by dots.
//! Only `value_to_metric` and `detailed_metric` put values of requests into it, and
//! [`super::MetricKeys`] bounds how many.

use std::borrow::Cow;
use std::net::Ipv4Addr;

use super::limit::Limit;
use super::tree::{DescriptorNode, MatchedRule};

/// What stands for the value of a request in the key of those there are too many of.
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

/// What one descriptor adds to the counts of its rule.
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

/// The key of a rule without anything of a request.
pub(super) fn rule_key(domain: &str, way: &[&DescriptorNode]) -> String {
    joined(domain, way.iter().map(|node| (&*node.key, node.value.as_deref())))
}

/// The key of those there are too many of; `None` for a rule whose key has nothing of a request.
pub(super) fn rest_key(domain: &str, way: &[&DescriptorNode], is_detailed: bool) -> Option<String> {
    let is_open = |node: &DescriptorNode| takes_value(node, is_detailed);
    if !way.iter().any(|node| is_open(node)) {
        return None;
    }
    let value = |node: &'_ DescriptorNode| {
        if is_open(node) { Some(OTHER.to_owned()) } else { node.value.as_deref().map(str::to_owned) }
    };
    let values: Vec<(&str, Option<String>)> = way.iter().map(|node| (&*node.key, value(node))).collect();
    Some(joined(domain, values.iter().map(|(key, value)| (*key, value.as_deref()))))
}

/// Whether the value of a request stands in the key at this node.
fn takes_value(node: &DescriptorNode, is_detailed: bool) -> bool {
    let is_open = node.is_wildcard || node.value.is_none();
    is_open && !node.shares && (is_detailed || node.value_to_metric)
}

/// The key for a descriptor that a rule was found for.
pub(super) fn key_of<'a>(domain: &str, found: &MatchedRule<'a>, entries: &[(&str, &str)]) -> MetricKey<'a> {
    let rule = found.rule;
    let Some(rest) = &rule.metric_rest else {
        return MetricKey { bounded: Cow::Borrowed(&rule.metric_key), exact: None };
    };
    let values = found.way.iter().zip(entries).map(|(node, (key, value))| {
        let takes = takes_value(node, rule.detailed_metric);
        // A key with a `*` is told by the key it stands for only where values are told as well.
        let key = if takes { key } else { &*node.key };
        (key, if takes { Some(*value) } else { node.value.as_deref() })
    });
    MetricKey { bounded: Cow::Borrowed(rest), exact: Some(joined(domain, values)) }
}

/// The key for a limit that comes with its descriptor: every value is the request's.
pub(super) fn key_of_request(domain: &str, entries: &[(&str, &str)]) -> MetricKey<'static> {
    let exact = joined(domain, entries.iter().map(|(key, value)| (*key, Some(*value))));
    let bounded = joined(domain, [(OTHER, None)].into_iter());
    MetricKey { bounded: Cow::Owned(bounded), exact: Some(exact) }
}

fn joined<'a>(domain: &str, levels: impl Iterator<Item = (&'a str, Option<&'a str>)>) -> String {
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

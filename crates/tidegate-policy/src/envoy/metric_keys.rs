//! Which values of requests have metrics of their own.
//!
//! There is room for a bounded number of keys, of all rules together. A rule that has fewer than
//! its even part always gets one more: the rule that has most gives one up. Within a rule the first
//! values get keys; a value without one is counted in a small Space-Saving sketch, and takes the
//! place of the value with the fewest hits once it certainly has twice as many. So neither a flood
//! of values nor values that were there first keep a busy value out.

use std::collections::{BTreeMap, HashMap};

use super::metric::MetricKey;

/// How many keys with values of requests in them there are, unless told otherwise; the rest share
/// one key a rule.
pub const METRIC_KEYS_MAX: usize = 1024;

/// The longest key with values of requests in bytes; those that are longer have none of their own.
pub(super) const METRIC_KEY_BYTES_MAX: usize = 1024;

/// How many values without a key are counted for each rule.
const CANDIDATES_MAX: usize = 32;

/// How many hits a value without a key certainly has before it takes the place of another.
const HITS_TO_REPLACE: u64 = 8;

/// After how many hits for each of its keys a rule halves their hits, so that those of long ago
/// weigh less.
const HITS_TO_HALVE: u64 = 64;

/// The keys with values of requests that have metrics, up to a bound.
#[derive(Clone, Debug)]
pub struct MetricKeys {
    /// By the key of those there are too many of, which each rule has for itself.
    rules: BTreeMap<String, RuleKeys>,
    held: usize,
    most: usize,
}

/// The name that a key is counted under.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetricName<'k> {
    /// The name.
    pub name: &'k str,
    /// A key that has lost its place to this one: its metrics end. If it comes back they begin at
    /// 0, as after a restart.
    pub replaced: Option<String>,
}

/// The keys of one rule.
#[derive(Clone, Debug, Default)]
struct RuleKeys {
    /// Hits by key.
    held: HashMap<String, u64>,
    candidates: Vec<Candidate>,
    /// Hits since those of all keys were halved.
    hits: u64,
}

/// A value without a key.
#[derive(Clone, Debug)]
struct Candidate {
    key: String,
    hits: u64,
    /// By how much `hits` may be too high.
    error: u64,
}

impl MetricKeys {
    /// Room for `most` keys with values of requests; 0 gives none of them a key of its own.
    pub const fn new(most: usize) -> Self {
        Self { rules: BTreeMap::new(), held: 0, most }
    }

    /// The name that `key` is counted under: its own if it has a place or gets one, and has at most
    /// 1024 bytes, else the bounded one.
    pub fn name<'k>(&mut self, key: &'k MetricKey<'_>) -> MetricName<'k> {
        let bounded = MetricName { name: &key.bounded, replaced: None };
        let Some(exact) = key.exact.as_deref().filter(|exact| exact.len() <= METRIC_KEY_BYTES_MAX) else {
            return bounded;
        };
        if self.most == 0 {
            return bounded;
        }
        if !self.rules.contains_key(&*key.bounded) {
            self.rules.insert(key.bounded.clone().into_owned(), RuleKeys::default());
        }
        let Some(rule) = self.rules.get_mut(&*key.bounded) else { return bounded };
        if rule.hit(exact) {
            return MetricName { name: exact, replaced: None };
        }
        let held = rule.held.len();
        let replaced = if self.held < self.most {
            self.held += 1;
            None
        } else if let Some(largest) = self.rules.values_mut().max_by_key(|rule| rule.held.len())
            && largest.held.len() > held + 1
        {
            largest.give_up_least()
        } else {
            let rule = self.rules.get_mut(&*key.bounded);
            let Some(replaced) = rule.and_then(|rule| rule.replaced_by(exact)) else { return bounded };
            Some(replaced)
        };
        if let Some(rule) = self.rules.get_mut(&*key.bounded) {
            rule.held.insert(exact.to_owned(), 1);
        }
        MetricName { name: exact, replaced }
    }
}

impl Default for MetricKeys {
    fn default() -> Self {
        Self::new(METRIC_KEYS_MAX)
    }
}

impl RuleKeys {
    /// Counts a hit of a key; whether it has a place.
    fn hit(&mut self, exact: &str) -> bool {
        self.hits += 1;
        if self.hits >= HITS_TO_HALVE * self.held.len().max(1) as u64 {
            self.hits = 0;
            self.held.values_mut().for_each(|hits| *hits /= 2);
            self.candidates.clear();
        }
        match self.held.get_mut(exact) {
            Some(hits) => {
                *hits += 1;
                true
            }
            None => false,
        }
    }

    /// The key whose place this one takes, if this one has certainly had twice as many hits.
    fn replaced_by(&mut self, exact: &str) -> Option<String> {
        let at = self.candidates.iter().position(|candidate| candidate.key == exact);
        let at = at.unwrap_or_else(|| self.begin(exact));
        let candidate = &mut self.candidates[at];
        candidate.hits += 1;
        let certain = candidate.hits - candidate.error;
        if certain < HITS_TO_REPLACE {
            return None;
        }
        let least = *self.held.values().min()?;
        if certain < 2 * least {
            return None;
        }
        self.candidates.swap_remove(at);
        self.give_up_least()
    }

    /// Begins to count a value. If no slot is free, the value replaces the one with the fewest hits
    /// and inherits its count.
    fn begin(&mut self, exact: &str) -> usize {
        let key = exact.to_owned();
        if self.candidates.len() < CANDIDATES_MAX {
            self.candidates.push(Candidate { key, hits: 0, error: 0 });
            return self.candidates.len() - 1;
        }
        let at = (0..CANDIDATES_MAX).min_by_key(|at| self.candidates[*at].hits).unwrap_or(0);
        let inherited = self.candidates[at].hits;
        self.candidates[at] = Candidate { key, hits: inherited, error: inherited };
        at
    }

    fn give_up_least(&mut self) -> Option<String> {
        let least = self.held.iter().min_by(|left, right| (left.1, left.0).cmp(&(right.1, right.0)));
        let key = least.map(|(key, _)| key.clone())?;
        self.held.remove(&key);
        Some(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(rule: &str, value: impl core::fmt::Display) -> MetricKey<'static> {
        MetricKey { bounded: format!("d.{rule}_other").into(), exact: Some(format!("d.{rule}_{value}")) }
    }

    fn name(keys: &mut MetricKeys, rule: &str, value: impl core::fmt::Display) -> String {
        keys.name(&key(rule, value)).name.to_owned()
    }

    #[test]
    fn there_are_no_more_keys_with_values_than_the_bound() {
        let mut keys = MetricKeys::new(2);
        for (value, expected) in
            [("a", "d.user_a"), ("b", "d.user_b"), ("c", "d.user_other"), ("a", "d.user_a")]
        {
            assert_eq!(name(&mut keys, "user", value), expected);
        }
        let plain = MetricKey { bounded: "d.user".into(), exact: None };
        assert_eq!(keys.name(&plain).name, "d.user");
        let long = "x".repeat(METRIC_KEY_BYTES_MAX);
        assert_eq!(name(&mut MetricKeys::default(), "user", long), "d.user_other");
        assert_eq!(name(&mut MetricKeys::new(0), "user", "a"), "d.user_other");
    }

    #[test]
    fn values_of_one_rule_do_not_keep_those_of_another_out() {
        let mut keys = MetricKeys::new(100);
        (0..10_000).for_each(|value| drop(name(&mut keys, "hostile", value)));
        let own =
            (0..50).filter(|value| name(&mut keys, "honest", value) == format!("d.honest_{value}")).count();
        assert_eq!(own, 50);
        (0..10_000).for_each(|value| drop(name(&mut keys, "hostile", value)));
        let kept =
            (0..50).filter(|value| name(&mut keys, "honest", value) == format!("d.honest_{value}")).count();
        assert_eq!((kept, keys.held), (50, 100));
    }

    #[test]
    fn a_busy_value_takes_the_place_of_one_that_was_there_first_and_a_flood_of_values_takes_none() {
        let mut keys = MetricKeys::new(100);
        (0..100).for_each(|value| drop(name(&mut keys, "user", value)));
        let mut replaced = Vec::new();
        for round in 0..1_000 {
            replaced.extend(keys.name(&key("user", format!("unique {round}"))).replaced);
            replaced.extend(keys.name(&key("user", "busy")).replaced);
        }
        assert_eq!(replaced.len(), 1, "{replaced:?}");
        assert_eq!(name(&mut keys, "user", "busy"), "d.user_busy");
        assert_eq!(keys.held, 100);
    }
}

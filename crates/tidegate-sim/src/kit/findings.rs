//! The violations that checkers report: the first of each rule, and how many there were.

use std::collections::BTreeMap;

/// How many violations of each rule are kept; further ones are only counted.
const KEPT: u64 = 5;

/// Violations `V` of rules `R`.
#[derive(Clone, Debug)]
pub struct Findings<R, V> {
    kept: Vec<V>,
    counts: BTreeMap<R, u64>,
}

impl<R, V> Default for Findings<R, V> {
    fn default() -> Self {
        Self { kept: Vec::new(), counts: BTreeMap::new() }
    }
}

impl<R: Copy + Ord, V> Findings<R, V> {
    /// Counts a violation, and keeps it if it is one of the first five of its rule.
    pub fn add(&mut self, rule: R, violation: impl FnOnce() -> V) {
        let count = self.counts.entry(rule).or_default();
        *count += 1;
        if *count <= KEPT {
            self.kept.push(violation());
        }
    }

    /// The violations that were kept, in the order in which they were found.
    pub fn kept(&self) -> &[V] {
        &self.kept
    }

    /// How often a rule was broken.
    pub fn count(&self, rule: R) -> u64 {
        self.counts.get(&rule).copied().unwrap_or(0)
    }

    /// The rules that were broken, in order.
    pub fn broken(&self) -> impl Iterator<Item = R> {
        self.counts.keys().copied()
    }

    /// How often each rule was broken.
    pub fn counts(&self) -> &BTreeMap<R, u64> {
        &self.counts
    }

    /// How many violations there were.
    pub fn total(&self) -> u64 {
        self.counts.values().sum()
    }

    /// The violations that were kept.
    pub fn into_kept(self) -> Vec<V> {
        self.kept
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_five_of_each_rule_are_kept_and_all_are_counted() {
        let mut findings = Findings::default();
        for number in 0..20 {
            findings.add(number % 2, || number);
        }
        findings.add(2, || 99);
        assert_eq!(findings.kept(), [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 99]);
        assert_eq!((findings.counts()[&0], findings.counts()[&2], findings.total()), (10, 1, 21));
    }
}

//! The counts of one kind of request of one table under one design.

use std::collections::BTreeMap;

use tidegate_capacity::Throttled;

use crate::capacity::tally::{SecondCount, bound_name};
use crate::kit::SECOND;

/// The counts of a stream of requests.
#[derive(Clone, Debug)]
pub(crate) struct StreamTally {
    pub(crate) seconds: Vec<SecondCount>,
    pub(crate) by_bound: BTreeMap<&'static str, u64>,
    /// Thousandths of admitted requests.
    pub(crate) admitted: i64,
    pub(crate) refused_spans: RefusedSpans,
}

/// The longest time for which all requests were refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RefusedSpans {
    /// The first refusal since the last admitted request.
    since: Option<u64>,
    longest: u64,
}

impl RefusedSpans {
    #[inline]
    const fn admit(&mut self) {
        self.since = None;
    }

    #[inline]
    fn refuse(&mut self, at: u64) {
        let since = *self.since.get_or_insert(at);
        self.longest = self.longest.max(at - since);
    }

    /// From the first to the last refusal without an admitted request between them, in nanoseconds.
    pub(crate) const fn longest(self) -> u64 {
        self.longest
    }
}

impl StreamTally {
    pub(crate) fn new(seconds: u32) -> Self {
        Self {
            seconds: vec![SecondCount::default(); seconds as usize],
            by_bound: BTreeMap::new(),
            admitted: 0,
            refused_spans: RefusedSpans::default(),
        }
    }

    #[inline]
    pub(crate) fn admit(&mut self, at: u64, cost: i64) {
        self.seconds[(at / SECOND) as usize].offered += 1;
        self.admitted += cost;
        self.refused_spans.admit();
    }

    pub(crate) fn refuse(&mut self, at: u64, throttled: &Throttled<'_>) {
        let count = &mut self.seconds[(at / SECOND) as usize];
        count.offered += 1;
        count.throttled += 1;
        *self.by_bound.entry(bound_name(throttled.bound)).or_default() += 1;
        self.refused_spans.refuse(at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_of_refusals_ends_with_an_admitted_request() {
        let mut spans = RefusedSpans::default();
        spans.refuse(10);
        assert_eq!(spans.longest(), 0);
        spans.refuse(15);
        spans.admit();
        spans.refuse(100);
        spans.refuse(103);
        assert_eq!(spans.longest(), 5);
        spans.refuse(110);
        assert_eq!(spans.longest(), 10);
    }
}

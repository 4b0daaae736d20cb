//! The counts of one kind of request of one table under one design.

use std::collections::BTreeMap;

use tidegate_capacity::Throttled;

use crate::capacity::demand::stream_source::StreamSource;
use crate::capacity::run::{NodeUnits, StreamResult};
use crate::capacity::scenario::CapacityScenario;
use crate::capacity::tally::{SecondCount, bound_name};
use crate::kit::{MS, SECOND};

/// The counts of a stream of requests.
#[derive(Clone, Debug)]
pub(crate) struct StreamTally {
    /// The counts so far.
    result: StreamResult,
    /// Thousandths of admitted requests.
    admitted: i64,
    refused_spans: RefusedSpans,
}

/// The longest time for which all requests were refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct RefusedSpans {
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
    const fn longest(self) -> u64 {
        self.longest
    }
}

impl StreamTally {
    pub(crate) fn new(scenario: &CapacityScenario, source: &StreamSource) -> Self {
        let result = StreamResult {
            table: scenario.tables[source.table].name.clone(),
            kind: source.kind,
            request_units: source.units,
            offered: 0,
            throttled: 0,
            by_bound: BTreeMap::new(),
            units_admitted: 0.0,
            longest_refused_ms: 0,
            at_nodes: Vec::new(),
            seconds: vec![SecondCount::default(); scenario.seconds as usize],
        };
        Self { result, admitted: 0, refused_spans: RefusedSpans::default() }
    }

    #[inline]
    fn offer(&mut self, at: u64) -> &mut SecondCount {
        self.result.offered += 1;
        let count = &mut self.result.seconds[(at / SECOND) as usize];
        count.offered += 1;
        count
    }

    #[inline]
    pub(crate) fn admit(&mut self, at: u64, cost: i64) {
        self.offer(at);
        self.admitted += cost;
        self.refused_spans.admit();
    }

    pub(crate) fn refuse(&mut self, at: u64, throttled: &Throttled<'_>) {
        self.offer(at).throttled += 1;
        self.result.throttled += 1;
        *self.result.by_bound.entry(bound_name(throttled.bound)).or_default() += 1;
        self.refused_spans.refuse(at);
    }

    pub(crate) fn into_result(self, at_nodes: Vec<NodeUnits>) -> StreamResult {
        let units_admitted = self.admitted as f64 / 1000.0;
        let longest_refused_ms = self.refused_spans.longest() / MS;
        StreamResult { units_admitted, longest_refused_ms, at_nodes, ..self.result }
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

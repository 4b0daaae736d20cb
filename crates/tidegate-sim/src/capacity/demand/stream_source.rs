//! The streams of requests of a scenario.

use std::sync::Arc;

use tidegate_capacity::AccessKind;

use crate::capacity::demand::arrivals::ArrivalSource;
use crate::capacity::demand::keys::KeySet;
use crate::capacity::demand::request::RequestKind;
use crate::capacity::demand::shaper::RequestShaper;
use crate::capacity::scenario::{CapacityScenario, TableSpec};

/// The part of all chance that belongs to the first stream of the first table.
const PART: u64 = 100;

/// A stream of requests.
#[derive(Debug)]
pub(crate) struct StreamSource {
    /// The position of its table.
    pub(crate) table: usize,
    pub(crate) kind: RequestKind,
    /// Units of each request.
    pub(crate) units: u32,
    pub(crate) access: (AccessKind, u64),
    pub(crate) source: ArrivalSource,
    pub(crate) shaper: Option<Box<dyn RequestShaper>>,
}

impl StreamSource {
    /// The streams of all tables, in the order of the tables.
    pub(crate) fn all(scenario: &CapacityScenario) -> Vec<Self> {
        let mut streams = Vec::new();
        for (table, spec) in scenario.tables.iter().enumerate() {
            let TableSpec { partitions, is_ordered, shares_top_keys, .. } = *spec;
            let salt = scenario.seed.wrapping_mul(0x9e37_79b9).wrapping_add(table as u64);
            let keys_of = |count| Arc::new(KeySet::new(count, partitions, is_ordered, shares_top_keys, salt));
            let shaper = scenario.extras.get(&table).and_then(|extras| extras.shaper);
            let of_table = scenario.streams(table);
            let main_keys = keys_of(of_table[0].demand.keys);
            for (index, stream) in of_table.into_iter().enumerate() {
                let count = stream.demand.keys;
                let keys = if count == main_keys.count() { Arc::clone(&main_keys) } else { keys_of(count) };
                let operation = stream.kind.operation();
                let part = PART + table as u64 + 1000 * index as u64;
                let (seconds, seed) = (scenario.seconds, scenario.seed);
                let source = ArrivalSource::new(stream.demand.clone(), keys, partitions, seconds, seed, part);
                streams.push(StreamSource {
                    table,
                    kind: stream.kind,
                    units: stream.demand.units,
                    access: stream.kind.access(stream.demand.units),
                    source: if stream.is_paced { source.paced() } else { source },
                    shaper: shaper.map(|make| make(scenario, table, operation)),
                });
            }
        }
        streams
    }
}

//! The counts of one table under one design.

pub(super) mod cut_watch;
pub(super) mod stream_tally;
pub(super) mod table_result;
pub(super) mod table_shape;

use std::collections::BTreeMap;

use tidegate_capacity::{Bound, KeyRange, PartitionId, Throttled};

use crate::capacity::demand::keys::{BUCKETS, bucket_of};
use crate::kit::{SECOND, seconds};

/// The most columns of a heat map.
const COLUMNS_MAX: u32 = 90;

/// The counts of one second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SecondCount {
    /// Requests.
    pub offered: u32,
    /// Requests that were refused.
    pub throttled: u32,
}

/// Requests by the second and by the bucket of their key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeatCounts {
    seconds_per_column: u32,
    columns: u32,
    /// Column by column.
    cells: Vec<u32>,
}

impl HeatCounts {
    /// The number of rows, the first of which has the lowest keys.
    pub const ROWS: usize = BUCKETS;

    pub(crate) fn new(seconds: u32) -> Self {
        let seconds_per_column = seconds.div_ceil(COLUMNS_MAX).max(1);
        let columns = seconds.div_ceil(seconds_per_column);
        Self { seconds_per_column, columns, cells: vec![0; columns as usize * BUCKETS] }
    }

    #[inline]
    pub(crate) fn add(&mut self, at: u64, word: u64) {
        let column = (at / SECOND) as usize / self.seconds_per_column as usize;
        if let Some(cell) = self.cells.get_mut(column * BUCKETS + bucket_of(word)) {
            *cell += 1;
        }
    }

    /// The number of columns.
    pub const fn columns(&self) -> u32 {
        self.columns
    }

    /// Seconds that a column covers.
    pub const fn seconds_per_column(&self) -> u32 {
        self.seconds_per_column
    }

    /// The requests in a cell.
    pub fn at(&self, column: u32, row: usize) -> u32 {
        self.cells[column as usize * BUCKETS + row]
    }

    /// The most requests in any cell.
    pub fn most(&self) -> u32 {
        self.cells.iter().copied().max().unwrap_or(0)
    }
}

/// The refusals of one partition by one bucket.
#[derive(Clone, Debug)]
pub(crate) struct RefusalCount {
    pub(crate) range: KeyRange,
    pub(crate) node: String,
    pub(crate) limit: f64,
    pub(crate) requests: u64,
    /// Seconds in which there were any.
    pub(crate) seconds: u32,
    pub(crate) first_second: u32,
    pub(crate) last_second: u32,
    /// The burst credit that was left at the first and the last of them.
    pub(crate) example: String,
}

/// The counts of one table under one design.
#[derive(Clone, Debug)]
pub(crate) struct TableTally {
    pub(crate) seconds: Vec<SecondCount>,
    pub(crate) by_bound: BTreeMap<&'static str, u64>,
    pub(crate) throttled: HeatCounts,
    pub(crate) by_partition: BTreeMap<(PartitionId, &'static str), RefusalCount>,
}

impl TableTally {
    pub(crate) fn new(seconds: u32) -> Self {
        Self {
            seconds: vec![SecondCount::default(); seconds as usize],
            by_bound: BTreeMap::new(),
            throttled: HeatCounts::new(seconds),
            by_partition: BTreeMap::new(),
        }
    }

    #[inline]
    pub(crate) fn admit(&mut self, at: u64) {
        self.seconds[(at / SECOND) as usize].offered += 1;
    }

    pub(crate) fn refuse(&mut self, at: u64, word: u64, throttled: &Throttled<'_>) {
        let second = (at / SECOND) as u32;
        let count = &mut self.seconds[second as usize];
        count.offered += 1;
        count.throttled += 1;
        let bound = bound_name(throttled.bound);
        *self.by_bound.entry(bound).or_default() += 1;
        self.throttled.add(at, word);
        let refusals =
            self.by_partition.entry((throttled.partition, bound)).or_insert_with(|| RefusalCount {
                range: throttled.range,
                node: throttled.node.to_owned(),
                limit: throttled.limit.as_f64(),
                requests: 0,
                seconds: 0,
                first_second: second,
                last_second: u32::MAX,
                example: example_of(throttled, at),
            });
        refusals.requests += 1;
        if refusals.last_second != second {
            refusals.last_second = second;
            refusals.seconds += 1;
        }
    }
}

/// A bucket, as reports name it.
pub(crate) const fn bound_name(bound: Bound) -> &'static str {
    match bound {
        Bound::Table => "table tokens",
        Bound::Account => "account tokens",
        Bound::OnDemandMaximum => "on-demand maximum",
        Bound::Ceiling => "partition ceiling",
        Bound::Allocation => "partition share",
        Bound::Burst => "burst credit",
        Bound::Node => "node",
        Bound::Replica => "replica node",
        Bound::Move => "move",
        _ => "other",
    }
}

/// A refusal with its numbers, as a caller would see it.
fn example_of(throttled: &Throttled<'_>, at: u64) -> String {
    let burst = throttled.burst_left.map_or(String::new(), |left| format!(", burst credit left {left}"));
    let seconds = seconds(at);
    format!(
        "at {seconds:.1} s: {}, {} level {} of {} units a second, partition {} ({}) on {}, consumed {} in the last \
         second{burst}",
        throttled.reason.as_str(),
        bound_name(throttled.bound),
        throttled.level,
        throttled.limit,
        throttled.partition,
        throttled.range,
        throttled.node,
        throttled.consumed,
    )
}

//! The counts of tables and streams under one design.

pub(super) mod cut_watch;
pub(super) mod stream_tally;
pub(super) mod table_tally;

use tidegate_capacity::Bound;

use crate::capacity::demand::keys::{BUCKETS, bucket_of};
use crate::kit::SECOND;

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
#[derive(Clone, Debug, Default, PartialEq, Eq)]
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

//! I2: a partition admits in no span more than its rate over the span, its allocation, its burst
//! credit and one request.
//!
//! A span begins when the partition was made or later. When the rate changes, the largest
//! allocation that the partition has had counts.
//!
//! Under global admission a partition has no say beyond its allocation, so nothing is judged there.

use tidegate_capacity::TableMode;

use super::books::{PartitionBook, TableBook};
use super::level::{DrainingFill, FINE, fine, units};

/// The checker of one partition.
#[derive(Clone, Debug, Default)]
pub(super) struct PartitionBound {
    fill: DrainingFill,
    /// Thousandths.
    allocation_max: i64,
}

impl PartitionBound {
    #[inline]
    pub(super) fn admit(
        &mut self,
        table: &TableBook,
        partition: &PartitionBook,
        cost: i64,
        at: u64,
    ) -> Option<String> {
        let burst = match table.mode {
            TableMode::Global => return None,
            TableMode::Static => 0,
            _ => partition.levels.burst_max,
        };
        let rate = partition.levels.rate;
        let fill = self.fill.add(cost, rate, at);
        self.allocation_max = self.allocation_max.max(rate);
        let most = fine(self.allocation_max + burst + table.cost_max);
        // The begun thousandth of a full allocation stays with it.
        (fill > most + FINE).then(|| {
            format!(
                "partition {} admitted {} units beyond its rate of {} a second; at most {} may be",
                partition.id,
                units(fill),
                units(fine(rate)),
                units(most)
            )
        })
    }
}

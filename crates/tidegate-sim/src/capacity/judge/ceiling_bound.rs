//! I3: a partition admits in no span more than its ceiling over the span and one second, and one
//! request.

use super::books::{PartitionBook, TableBook};
use super::level::{DrainingFill, fine, units};

/// The checker of one partition, whose requests its leader serves.
#[derive(Clone, Debug, Default)]
pub(super) struct CeilingBound {
    fill: DrainingFill,
}

impl CeilingBound {
    #[inline]
    pub(super) fn admit(
        &mut self,
        table: &TableBook,
        partition: &PartitionBook,
        cost: i64,
        at: u64,
    ) -> Option<String> {
        let ceiling = partition.ceiling.rate;
        let fill = self.fill.add(cost, ceiling, at);
        let most = fine(ceiling + table.cost_max);
        (fill > most).then(|| {
            format!(
                "partition {} admitted {} units beyond its ceiling of {} a second; at most {} may be",
                partition.id,
                units(fill),
                units(fine(ceiling)),
                units(most)
            )
        })
    }
}

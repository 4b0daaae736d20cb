//! I2: a partition admits in no span more than its rate over the span, its allocation, its burst
//! credit and one request. I3: nor more than its ceiling over the span and one second, and one
//! request.
//!
//! A span begins when the partition was made, or the mode of its table changed, or later. When the
//! rate changes, the largest allocation and burst credit that the partition has had count. Under
//! global admission a partition has no say beyond its allocation, so nothing is judged by I2 there.

use tidegate_capacity::{PartitionId, TableMode};

use super::level::{DEBT_MAX, DrainingFill, FINE, LevelSpan, RefillingLevel, SpillingLevels, fine, units};

/// The checker of I2 for one direction of a partition, in thousandths.
#[derive(Clone, Debug, Default)]
pub(super) struct PartitionBound {
    fill: DrainingFill,
    held_max: i64,
    /// The debt that corrections may have left.
    debt_max: i64,
}

impl PartitionBound {
    #[inline]
    pub(super) fn admit(
        &mut self,
        (id, levels, mode): (PartitionId, &SpillingLevels, TableMode),
        cost: i64,
        largest: i64,
        at: u64,
    ) -> Option<String> {
        if mode == TableMode::Global {
            return None;
        }
        let fill = self.fill.add(cost, levels.rate, at);
        self.hold(levels, mode);
        let most = fine(self.held_max + largest.max(self.debt_max));
        // The begun thousandth of a full allocation stays with it.
        (fill > most + FINE).then(|| {
            format!(
                "partition {id} admitted {} units beyond its rate of {} a second; at most {} may be",
                units(fill),
                units(fine(levels.rate)),
                units(most)
            )
        })
    }

    /// Before the rates of the partition change.
    pub(super) fn pass(&mut self, levels: &SpillingLevels, at: u64) {
        self.fill.drain(levels.rate, at);
    }

    /// Notes what the partition can hold.
    #[inline]
    pub(super) fn hold(&mut self, levels: &SpillingLevels, mode: TableMode) {
        let burst = if mode == TableMode::Static { 0 } else { levels.burst_max };
        self.held_max = self.held_max.max(levels.rate + burst);
    }

    /// A correction: a request weighed more than it was charged.
    pub(super) fn correct(&mut self, cost: i64, levels: &SpillingLevels, largest: i64, at: u64) {
        self.debt_max = (self.debt_max.max(largest) + cost).min(DEBT_MAX);
        self.held_max = self.held_max.max(levels.rate + levels.burst_max);
        self.fill.correct(cost, self.held_max + self.debt_max, levels.rate, at);
    }

    pub(super) fn give(&mut self, cost: i64, levels: &SpillingLevels, at: u64) {
        self.fill.give(cost, levels.rate, at);
    }
}

/// I3, by the level of a ceiling after a charge.
#[inline]
pub(super) fn check_ceiling(
    id: PartitionId,
    ceiling: &RefillingLevel,
    after: LevelSpan,
    largest: i64,
) -> Option<String> {
    (after.most < -fine(largest)).then(|| {
        format!(
            "partition {id} admitted {} units beyond its ceiling of {} a second; at most {} may be",
            units(fine(ceiling.depth) - after.most),
            units(fine(ceiling.rate)),
            units(fine(ceiling.depth + largest))
        )
    })
}

//! The throughput and the partitions that a table has had.

use tidegate_core::Timestamp;

use crate::control::on_demand::{OnDemand, Ratchet, decayed};
use crate::table_config::TableConfig;
use crate::units::Units;

/// The throughput and the partitions that a table has had, and so may have again at once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Demand {
    /// Of reads and of writes.
    pub(crate) ratchets: [Ratchet; 2],
    /// The units that the table had admitted when the peaks were last followed.
    admitted: [Units; 2],
    /// The most partitions that it had, less by the half-life; in thousandths of a partition.
    most_partitions: Units,
    partitions_decayed_at: Timestamp,
    /// The partitions for which it was cut when its limit was raised.
    pub(crate) cut_for: u32,
}

impl Demand {
    /// A table that begins at `now` with so many partitions.
    pub(crate) fn new(config: &TableConfig, partitions: u32, now: Timestamp) -> Self {
        let ratchet = |is_read| {
            let terms = config.on_demand_of(is_read).unwrap_or_else(|| OnDemand::new(Units::ZERO));
            Ratchet::new(&terms, now)
        };
        Self {
            ratchets: [ratchet(true), ratchet(false)],
            admitted: [Units::ZERO; 2],
            most_partitions: Units::whole(partitions.into()),
            partitions_decayed_at: now,
            cut_for: partitions,
        }
    }

    /// The table goes on demand at `now`: its peaks are at least the throughput that was
    /// provisioned, and its present partitions do not count as those of its limit.
    pub(crate) fn begin_on_demand(
        &mut self,
        provisioned: [Units; 2],
        admitted: [Units; 2],
        partitions: u32,
        now: Timestamp,
    ) {
        for (ratchet, provisioned) in self.ratchets.iter_mut().zip(provisioned) {
            ratchet.begin_from(provisioned, now);
        }
        (self.admitted, self.cut_for) = (admitted, partitions);
    }

    /// Whether [`Demand::observe`] has to be called.
    pub(crate) fn is_due(&self, now: Timestamp) -> bool {
        self.ratchets.iter().any(|ratchet| ratchet.is_due(now))
    }

    /// Follows the units that the table has admitted since it was made.
    pub(crate) fn observe(&mut self, config: &TableConfig, admitted: [Units; 2], now: Timestamp) {
        for (index, is_read) in [true, false].into_iter().enumerate() {
            // Totals that fell are those of units given back.
            let since = (admitted[index] - self.admitted[index]).max(Units::ZERO);
            match config.on_demand_of(is_read) {
                Some(terms) => self.ratchets[index].observe(&terms, since, now),
                None => self.ratchets[index].observe_provisioned(since, now),
            }
        }
        self.admitted = admitted;
    }

    /// Counts the partitions of the table.
    pub(crate) fn count_partitions(&mut self, config: &TableConfig, partitions: u32, now: Timestamp) {
        let half_life = config.on_demand.map_or(OnDemand::HALF_LIFE, |terms| terms.write.half_life);
        let kept = decayed(self.most_partitions, half_life, &mut self.partitions_decayed_at, now);
        self.most_partitions = kept.max(Units::whole(partitions.into()));
    }

    /// The partitions that the table may have at once, of which `needed` are for the units that it
    /// can reach. Hot ranges are cut beyond those; a provisioned table may have them again.
    pub(crate) fn partitions_warm(&self, config: &TableConfig, needed: u32) -> u32 {
        if config.on_demand.is_some() {
            return needed;
        }
        // At most TableConfig::PARTITIONS_MAX.
        needed.max(self.most_partitions.whole_left() as u32)
    }

    /// The units a second for which partitions are cut ahead: the limit on demand, or the warm
    /// throughput.
    pub(crate) fn reach_of(&self, config: &TableConfig, is_read: bool) -> Units {
        match config.on_demand_of(is_read) {
            Some(terms) => self.ratchets[usize::from(!is_read)].limit(&terms),
            None => config.warm_of(is_read),
        }
    }
}

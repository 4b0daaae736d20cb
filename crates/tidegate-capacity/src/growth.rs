//! Tables on demand: their limits follow the units that they admit, and their partitions the
//! limits.

use tidegate_core::{AccessOperation, Timestamp};

use crate::capacity::Capacity;
use crate::error::CapacityError;
use crate::on_demand::{OnDemandTerms, Ratchet};
use crate::table_config::TableNumbers;
use crate::tokens::TokenTerms;
use crate::units::Units;

/// A table on demand whose limits need more partitions than it has.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct GrownTable {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub table: String,
    /// The partitions that it needs.
    pub partitions: u32,
}

impl Capacity {
    /// Lets the limits of tables on demand follow the units admitted since the last call; a call
    /// every second is often enough, and one that comes late counts as one average. Returns the
    /// tables that need more partitions for their limits.
    pub fn follow_demand(&self, now: Timestamp) -> Vec<GrownTable> {
        let mut grown = Vec::new();
        for entry in &self.tables {
            let table = &entry.table;
            let (partitions, numbers, admitted) = {
                let plan = table.layout.plan();
                let Some(terms) = plan.config.on_demand else { continue };
                let sums = table.layout.map(&plan, |state| {
                    [true, false]
                        .map(|is_read| Units::from_thousandths(state.directions.of(is_read).meter.admitted))
                });
                let sum = |index: usize| sums.iter().fold(Units::ZERO, |sum, one| sum + one[index]);
                (plan.len(), (plan.numbers, terms), [sum(0), sum(1)])
            };
            let (numbers, terms): (TableNumbers, OnDemandTerms) = numbers;
            let limits = table.with_demand(&terms, now, |demand| {
                let limits = [(0, terms.read), (1, terms.write)].map(|(index, terms)| {
                    let since = (admitted[index] - demand.admitted[index]).max(Units::ZERO);
                    demand.ratchets[index].observe(&terms, since, now);
                    table.set_at_maximum(index == 0, demand.ratchets[index].is_at_max(&terms));
                    demand.ratchets[index].limit(&terms)
                });
                demand.admitted = admitted;
                limits
            });
            for (is_read, limit) in [true, false].into_iter().zip(limits) {
                if table.tokens(is_read).rate() != limit {
                    table.tokens(is_read).set_terms(TokenTerms::of_rate(limit), now);
                }
            }
            let ceilings = [true, false].map(|is_read| Units::from_rate(numbers.rates(is_read, 0).ceiling));
            let needed = Ratchet::partitions_for(limits[0], limits[1], ceilings[0], ceilings[1]);
            if needed as usize > partitions {
                let (namespace, name) = (table.namespace.to_string(), table.name.to_string());
                grown.push(GrownTable { namespace, table: name, partitions: needed });
            }
        }
        grown
    }

    /// The units a second that a table may use: those of its tokens.
    ///
    /// Fails when there is no such table.
    pub fn token_rate(
        &self,
        namespace: &str,
        table: &str,
        operation: AccessOperation,
    ) -> Result<Units, CapacityError> {
        Ok(self.table(namespace, table)?.tokens(operation == AccessOperation::Read).rate())
    }
}

#[cfg(test)]
#[cfg(not(tidegate_loom))]
mod tests {
    use core::time::Duration;

    use super::*;
    use crate::access::Access;
    use crate::capacity::Admission;
    use crate::on_demand::OnDemand;
    use crate::table_config::TableConfig;
    use crate::throttled::Bound;

    const SHOP: &str = "shop";

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_secs(1_795_210_800 + seconds)
    }

    fn store(max: Option<Units>) -> Capacity {
        let terms = OnDemandTerms {
            read: OnDemand::new(Units::whole(300)),
            write: OnDemand { max, ..OnDemand::new(Units::whole(100)) },
        };
        let table = TableConfig::new(SHOP, "orders", 1, 1).on_demand(terms).nodes(["a"]);
        Capacity::builder().node("a", 100_000).table(table).build_at(at(0)).unwrap()
    }

    /// The writes of a second that are admitted of so many, and the bound of the last refusal.
    fn second(capacity: &Capacity, second: u64, writes: u64) -> (u64, Option<Bound>) {
        let (mut admitted, mut bound) = (0, None);
        for write in 0..writes {
            let now = at(second).saturating_add(Duration::from_nanos(write * 1_000_000_000 / writes));
            match capacity.admit(SHOP, &Access::write("orders", &write.to_le_bytes(), 1), now).unwrap() {
                Admission::Admit(_) => admitted += 1,
                Admission::Throttle(throttled) => bound = Some(throttled.bound),
            }
        }
        (admitted, bound)
    }

    #[test]
    fn the_limit_of_a_table_on_demand_doubles_a_minute_and_asks_for_partitions() {
        let capacity = store(None);
        let mut grown = Vec::new();
        let mut admitted = Vec::new();
        for number in 0..300 {
            admitted.push(second(&capacity, number, 1500).0);
            grown.extend(capacity.follow_demand(at(number + 1)));
        }
        let write = capacity.token_rate(SHOP, "orders", AccessOperation::Write).unwrap();
        // 100, 200, 400, 800, then the ceiling of one partition.
        assert!((1600..=2100).contains(&write.whole_left()), "{write}");
        assert!(admitted[30..59].iter().all(|units| (99..=101).contains(units)), "{admitted:?}");
        assert!(grown.iter().any(|table| table.partitions >= 2), "{grown:?}");
    }

    #[test]
    fn a_table_at_its_maximum_says_so_and_a_reload_keeps_its_peak() {
        let capacity = store(Some(Units::whole(150)));
        for number in 0..130 {
            second(&capacity, number, 400);
            capacity.follow_demand(at(number + 1));
        }
        let (admitted, bound) = second(&capacity, 130, 400);
        assert!((149..=151).contains(&admitted), "{admitted}");
        assert_eq!(bound, Some(Bound::OnDemandMaximum));
        let terms = OnDemandTerms {
            read: OnDemand::new(Units::whole(300)),
            write: OnDemand { max: Some(Units::whole(150)), ..OnDemand::new(Units::whole(100)) },
        };
        let table = TableConfig::new(SHOP, "orders", 1, 1).on_demand(terms).nodes(["a"]);
        let after =
            Capacity::builder().node("a", 90_000).table(table).build_over(&capacity, at(132)).unwrap();
        after.follow_demand(at(132));
        let rate = after.token_rate(SHOP, "orders", AccessOperation::Write).unwrap();
        assert_eq!(rate, Units::whole(150));
    }
}

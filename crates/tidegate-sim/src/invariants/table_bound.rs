//! I1: a table admits in no span more than its rate over the span and a depth.
//!
//! Under global admission the depth is that of the table's tokens, and what the leases of several
//! routers add to it. Otherwise it is everything that its partitions hold when they are full, and
//! one request of debt each.
//!
//! A span across a change of the mode is not judged: the buckets of both modes may be used up.

use tidegate_capacity::TableMode;

use super::level::{DEBT_MAX, DrainingFill, FINE, fine, units};

/// The checker of one direction of a table, in thousandths.
#[derive(Debug, Default)]
pub(super) struct TableBound {
    fill: DrainingFill,
    rate: i64,
    depth: i64,
    /// The part that leases add to the depth.
    pub(super) allowance: i64,
    /// The part that corrections add without tokens: a partition in debt may have burst credit.
    debts: i64,
    mode: Option<TableMode>,
}

impl TableBound {
    /// Whether routers lease the tokens, so that their level at the table says nothing.
    pub(super) const fn has_leases(&self) -> bool {
        self.allowance > 0
    }

    /// After a change of the table.
    pub(super) fn set_terms(&mut self, mode: TableMode, rate: i64, depth: i64, now: u64) {
        self.fill.drain(self.rate, now);
        if self.mode != Some(mode) {
            (self.fill, self.depth, self.debts) = (DrainingFill::default(), 0, 0);
        }
        (self.mode, self.rate) = (Some(mode), rate);
        self.depth = self.depth.max(depth);
    }

    /// Forgets the terms so far, and the admissions.
    pub(super) fn begin_anew(&mut self) {
        *self = Self { allowance: self.allowance, ..Self::default() };
    }

    #[inline]
    pub(super) fn admit(&mut self, cost: i64, at: u64) -> Option<String> {
        let fill = self.fill.add(cost, self.rate, at);
        let most = fine(self.depth + self.allowance + self.debts);
        // The begun thousandth of a full bucket stays with it.
        (fill > most + FINE).then(|| {
            format!(
                "{} units admitted beyond a rate of {} a second; at most {} may be",
                units(fill),
                units(fine(self.rate)),
                units(most)
            )
        })
    }

    /// A correction of a table with so many partitions: a request weighed more than it was charged.
    pub(super) fn correct(&mut self, cost: i64, partitions: usize, at: u64) {
        if self.mode == Some(TableMode::Global) {
            // Tokens in debt admit nothing.
            self.fill.correct(cost, self.depth + self.allowance + DEBT_MAX, self.rate, at);
            return;
        }
        let partitions = i64::try_from(partitions).expect("at most 65 536 partitions");
        self.debts = (self.debts + cost).min(DEBT_MAX * partitions);
        self.fill.correct(cost, self.depth + self.allowance + self.debts, self.rate, at);
    }

    pub(super) fn give(&mut self, cost: i64, at: u64) {
        self.fill.give(cost, self.rate, at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn a_table_that_admits_more_than_its_rate_and_depth_is_found_and_one_that_admits_as_much_is_not() {
        let mut bound = TableBound { rate: 1000, depth: 1500, allowance: 500, ..TableBound::default() };
        assert_eq!(bound.admit(2000, SECOND), None);
        assert_eq!(bound.admit(1000, 2 * SECOND), None);
        assert_eq!(
            bound.admit(2, 2 * SECOND).unwrap(),
            "2.002 units admitted beyond a rate of 1 a second; at most 2 may be"
        );
        // Units that came back may be admitted again.
        bound.give(502, 2 * SECOND);
        assert_eq!(bound.admit(500, 2 * SECOND), None);
    }
}

//! I1: a table admits in no span more than its rate over the span and a depth.
//!
//! Under global admission the depth is that of the table's tokens. Otherwise it is everything that
//! its partitions hold when they are full, and one request of debt each.

use tidegate_capacity::TableMode;

use super::books::{Books, TableBook};
use super::level::{DrainingFill, FINE, fine, units};

/// The checker of one table.
#[derive(Debug)]
pub(super) struct TableBound {
    fill: DrainingFill,
    /// Thousandths.
    depth: i64,
}

impl TableBound {
    pub(super) fn new(books: &Books, table: usize) -> Self {
        Self { fill: DrainingFill::default(), depth: depth_of(&books.tables[table]) }
    }

    /// After a change of the table's partitions.
    pub(super) fn reshape(&mut self, table: &TableBook) {
        self.depth = self.depth.max(depth_of(table));
    }

    #[inline]
    pub(super) fn admit(&mut self, rate: i64, cost: i64, at: u64) -> Option<String> {
        let fill = self.fill.add(cost, rate, at);
        // The begun thousandth of a full bucket stays with it.
        (fill > fine(self.depth) + FINE).then(|| {
            format!(
                "{} units admitted beyond a rate of {} a second; at most {} may be",
                units(fill),
                units(fine(rate)),
                units(fine(self.depth))
            )
        })
    }
}

fn depth_of(table: &TableBook) -> i64 {
    if table.mode == TableMode::Global {
        return table.tokens.depth;
    }
    let burst = |partition: &super::books::PartitionBook| match table.mode {
        TableMode::Static => 0,
        _ => partition.levels.burst_max,
    };
    table.partitions.iter().map(|one| one.levels.rate + burst(one) + table.cost_max).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kit::SECOND;

    #[test]
    fn a_table_that_admits_more_than_its_rate_and_depth_is_found_and_one_that_admits_as_much_is_not() {
        let mut bound = TableBound { fill: DrainingFill::default(), depth: 2000 };
        assert_eq!(bound.admit(1000, 2000, SECOND), None);
        assert_eq!(bound.admit(1000, 1000, 2 * SECOND), None);
        assert_eq!(
            bound.admit(1000, 2, 2 * SECOND).unwrap(),
            "2.002 units admitted beyond a rate of 1 a second; at most 2 may be"
        );
    }
}

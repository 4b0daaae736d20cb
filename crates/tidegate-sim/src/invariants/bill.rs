//! I15: the units that partitions have admitted add up to those of the admitted requests, and those
//! that they were asked for to those of first attempts.

use tidegate_capacity::view::TableView;

use super::level::{fine, units};

/// Sums of one direction of a table, in thousandths.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct UnitSums {
    /// Of admitted requests, without what came back.
    admitted: i64,
    /// Of first attempts.
    offered: i64,
}

impl UnitSums {
    /// The sums that the partitions of a table show.
    pub(super) fn from_view(view: &TableView, direction: usize) -> Self {
        view.partitions.iter().fold(Self::default(), |sums, partition| {
            let shown = &partition.directions[direction];
            Self {
                admitted: sums.admitted + shown.admitted.as_thousandths(),
                offered: sums.offered + shown.offered.as_thousandths(),
            }
        })
    }

    #[inline]
    pub(super) fn offer(&mut self, cost: i64, is_first: bool) {
        self.offered += if is_first { cost } else { 0 };
    }

    #[inline]
    pub(super) fn admit(&mut self, cost: i64, billed: i64) -> Option<String> {
        self.admitted += cost;
        (cost != billed)
            .then(|| format!("a request of {} units was billed {}", units(fine(cost)), units(fine(billed))))
    }

    /// Units were charged beside those of a request, or came back if negative.
    pub(super) const fn book(&mut self, units: i64) {
        self.admitted += units;
    }

    /// Compares with the sums that partitions show.
    pub(super) fn compare(&mut self, shown: Self, is_indexed: bool) -> Option<String> {
        let differ = |what: &str, shown: i64, by_trace: i64| {
            let (shown, by_trace) = (units(fine(shown)), units(fine(by_trace)));
            Some(format!("partitions {what} {shown} units, requests {by_trace}"))
        };
        if shown.admitted != self.admitted {
            let found = differ("have admitted", shown.admitted, self.admitted);
            self.admitted = shown.admitted;
            return found;
        }
        if shown.offered != self.offered && !is_indexed {
            let found = differ("were asked for", shown.offered, self.offered);
            self.offered = shown.offered;
            return found;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_bill_and_a_wrong_sum_are_found() {
        let mut sums = UnitSums::default();
        sums.offer(2000, true);
        sums.offer(2000, false);
        assert_eq!(sums.admit(2000, 2000), None);
        assert_eq!(sums.compare(UnitSums { admitted: 2000, offered: 2000 }, false), None);
        let wrong = UnitSums { admitted: 2001, offered: 2000 };
        let found = sums.compare(wrong, false).unwrap();
        assert_eq!(found, "partitions have admitted 2.001 units, requests 2");
        assert_eq!(
            sums.compare(UnitSums { admitted: 2001, offered: 4000 }, false).unwrap(),
            "partitions were asked for 4 units, requests 2"
        );
        assert!(sums.admit(1000, 500).is_some());
    }
}

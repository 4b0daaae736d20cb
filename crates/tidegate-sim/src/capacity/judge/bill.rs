//! I15: the units that partitions have admitted add up to those of the admitted requests.

use super::level::{fine, units};

/// The checker of one table.
#[derive(Debug, Default)]
pub(super) struct Billing {
    /// Thousandths of admitted requests.
    admitted: i64,
}

impl Billing {
    #[inline]
    pub(super) fn admit(&mut self, cost: i64, billed: i64) -> Option<String> {
        self.admitted += cost;
        (cost != billed)
            .then(|| format!("a request of {} units was billed {}", units(fine(cost)), units(fine(billed))))
    }

    /// Compares with the units that the partitions of the table say they have admitted.
    pub(super) fn compare(&self, told: i64) -> Option<String> {
        (told != self.admitted).then(|| {
            format!(
                "partitions have admitted {} units, requests {}",
                units(fine(told)),
                units(fine(self.admitted))
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_bill_and_a_wrong_sum_are_found() {
        let mut billing = Billing::default();
        assert_eq!(billing.admit(2000, 2000), None);
        assert_eq!(billing.compare(2000), None);
        assert_eq!(billing.compare(2001).unwrap(), "partitions have admitted 2.001 units, requests 2");
        assert!(billing.admit(1000, 500).is_some());
    }
}

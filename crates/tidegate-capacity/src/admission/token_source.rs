//! The source of the tokens that an access spends under global admission.

use tidegate_core::Timestamp;

use crate::admission::tokens::TokenTerms;
use crate::units::Units;

/// Where the tokens of one table are taken from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum TokenSource {
    /// From the balance of the table: it is the only one that admits accesses to it.
    #[default]
    Table,
    /// From a lease of the table, which has lent them already.
    Spent,
    /// From a lease of the table, which has too few; the access is refused.
    Short {
        /// The tokens that are left in the lease.
        left: Units,
        /// The first instant at which there are enough, if nothing else is spent before.
        until: Timestamp,
    },
    /// From the share of a router that decides alone, because it cannot reach the lender: see
    /// [`TokenTerms::share`].
    Share {
        /// The number of routers that had a lease of the table; 0 counts as 1.
        holders: u32,
        /// The number of routers that there are; 0 counts as 1.
        members: u32,
    },
}

impl TokenTerms {
    /// The least depth of a share.
    const SHARE_DEPTH_MIN: Units = Units::whole(10);

    /// The share of one router that decides alone: the rate divided by `holders`, the depth by
    /// `members` but at least 10 units. 0 counts as 1.
    #[must_use]
    pub fn share(self, holders: u32, members: u32) -> Self {
        let part = |units: Units, count: u32| {
            Units::from_thousandths(units.as_thousandths() / i64::from(count.max(1)))
        };
        let least = self.depth.min(Self::SHARE_DEPTH_MIN);
        Self { rate: part(self.rate, holders), depth: part(self.depth, members).max(least) }
    }
}

//! The division of a limit among holders: by demand when there is too little, by demand and evenly
//! when there is enough.
//!
//! No bound depends on how these figures are rounded, but every port must round the same way.

use super::lease::Lease;

/// Sums over some leases: the facts about the other leases that an ask needs, computed in one pass,
/// as there may be many leases.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sums {
    /// The tokens that they have yet to release, in parts of a token by the period.
    pub(super) to_come: u64,
    /// Tokens in hand.
    pub(super) in_hand: u64,
    /// The fastest that holders may spend, in tokens each period.
    pub(super) fastest: u64,
    /// How many let their holders spend, and what those were asked for.
    members: u64,
    demand: u64,
}

impl Sums {
    /// With one more; releases count from `from_us` on.
    #[must_use]
    pub(super) fn with(mut self, lease: &Lease, now_us: u64, from_us: u64) -> Self {
        self.to_come = self.to_come.saturating_add(lease.to_come(from_us));
        if lease.is_alive(now_us) {
            self.in_hand += u64::from(lease.held);
            self.fastest += lease.fastest(now_us);
            self.members += 1;
            self.demand += u64::from(lease.demand);
        }
        self
    }

    /// The same when so many parts more have come.
    #[must_use]
    pub(super) fn later(self, parts: u64) -> Self {
        Self { to_come: self.to_come - parts, ..self }
    }

    /// Without one of them, as [`Sums::with`] took it in; `None` if they were too many parts to
    /// count.
    pub(super) fn without(mut self, lease: &Lease, now_us: u64, from_us: u64) -> Option<Self> {
        if self.to_come == u64::MAX {
            return None;
        }
        self.to_come -= lease.to_come(from_us);
        if lease.is_alive(now_us) {
            self.in_hand -= u64::from(lease.held);
            self.fastest -= lease.fastest(now_us);
            self.members -= 1;
            self.demand -= u64::from(lease.demand);
        }
        Some(self)
    }

    /// Whether all of `count` let their holders spend.
    pub(super) fn are_all_alive(&self, count: usize) -> bool {
        self.members == count as u64
    }

    /// The tokens that holders may still spend.
    pub(super) fn outstanding(&self, period_us: u64) -> u64 {
        self.to_come.div_ceil(period_us) + self.in_hand
    }

    /// The demand of these holders and of one more whose demand is `demand`.
    pub(super) fn wanted(&self, demand: u32, quota: u64) -> Wanted {
        Wanted { quota, members: 1 + self.members, total: self.demand + u64::from(demand) }
    }
}

/// The supply of a period and the demand for it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted {
    /// Units in a period.
    pub(super) quota: u64,
    /// Holders, the one that asks included.
    pub(super) members: u64,
    /// The demand at all of them, in units each period.
    pub(super) total: u64,
}

/// Bits of a demand that count. The quota has 31 at most, so that the product stays below 2^53.
const SHARE_BITS: u32 = 22;

impl Wanted {
    /// Of the holders with a lease, that at `own` aside, which has just said `demand`.
    pub(super) fn new(leases: &[Lease], own: Option<usize>, demand: u32, now_us: u64, quota: u64) -> Self {
        let mut wanted = Self { quota, members: 1, total: demand.into() };
        for (index, lease) in leases.iter().enumerate() {
            if Some(index) != own && lease.is_alive(now_us) {
                wanted.members += 1;
                wanted.total += u64::from(lease.demand);
            }
        }
        wanted
    }

    /// Whether demand with a quarter of headroom is more than there is.
    pub(super) fn is_scarce(&self) -> bool {
        with_headroom(self.total) >= self.quota
    }

    /// The share of one that wants `demand`.
    ///
    /// Scarce: in proportion to demand, so that every request meets the same odds whichever member
    /// it reaches. Otherwise what is wanted and a quarter more, and of the rest one half evenly,
    /// counting one more who may be about to come, and one half in proportion.
    pub(super) fn share(&self, demand: u32) -> u64 {
        let demand = u64::from(demand);
        if self.is_scarce() {
            return self.part(self.quota, demand);
        }
        let half = (self.quota - with_headroom(self.total)) / 2;
        with_headroom(demand) + half / (self.members + 1) + self.part(half, demand)
    }

    /// `whole` times `demand` over the total, rounded down.
    fn part(&self, whole: u64, demand: u64) -> u64 {
        let shift = (u64::BITS - self.total.leading_zeros()).saturating_sub(SHARE_BITS);
        (whole * (demand >> shift)).checked_div(self.total >> shift).unwrap_or(0)
    }
}

/// A demand and a quarter.
pub(super) fn with_headroom(demand: u64) -> u64 {
    demand + demand / 4
}

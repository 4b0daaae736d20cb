//! One lease, as the ledger keeps it.

use crate::lease::message::{Ask, HolderName};

/// The tokens and rates of one holder, as far as the ledger knows: never less than what the holder
/// really has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Lease {
    pub(super) holder: HolderName,
    /// The ask answered last.
    pub(super) seq: u32,
    pub(super) demand: u32,
    /// Tokens in hand at most, `lump` included.
    pub(super) held: u32,
    /// The tokens that the last grant added to `held`.
    pub(super) lump: u32,
    /// The rate of the last grant in tokens each period, and when it ends.
    pub(super) rate: u32,
    pub(super) until_us: u64,
    /// The grant before, which the holder spends by if the last one has not arrived.
    pub(super) prior_rate: u32,
    pub(super) prior_until_us: u64,
    /// When it asked last.
    pub(super) since_us: u64,
    /// Its totals at that time, and [`Ledger::spent`].
    pub(super) returned: u32,
    pub(super) unused: u32,
    pub(super) spent: u32,
}

impl Lease {
    /// A lease of nothing that takes the holder's totals as they are.
    pub(super) fn begin(ask: &Ask, spent: u32, since_us: u64) -> Self {
        Self {
            holder: ask.holder,
            seq: 0,
            demand: 0,
            held: 0,
            lump: 0,
            rate: 0,
            until_us: 0,
            prior_rate: 0,
            prior_until_us: 0,
            since_us,
            returned: ask.returned,
            unused: ask.unused,
            spent,
        }
    }

    /// When the first and when the second of the last two grants ends.
    pub(super) fn ends_us(&self) -> (u64, u64) {
        (self.until_us.min(self.prior_until_us), self.until_us.max(self.prior_until_us))
    }

    /// Whether the last grant was only for the requests that waited: it is not among the tokens in
    /// hand.
    pub(super) const fn was_spot(&self) -> bool {
        self.lump > self.held
    }

    /// Whether it still lets its holder spend.
    pub(super) fn is_alive(&self, now_us: u64) -> bool {
        self.ends_us().1 > now_us
    }

    /// The fastest that its holder may spend from now on, in tokens each period.
    pub(super) fn fastest(&self, now_us: u64) -> u64 {
        let last = if self.until_us > now_us { self.rate } else { 0 };
        let prior = if self.prior_until_us > now_us { self.prior_rate } else { 0 };
        last.max(prior).into()
    }

    /// The most that will trickle in after `from_us`, in parts of a token by the period.
    ///
    /// The holder spends by the last grant or by the one before, not by both: by the faster of the
    /// two at each instant, as long as either lasts.
    pub(super) fn to_come(self, from_us: u64) -> u64 {
        let (first_us, last_us) = self.ends_us();
        let alone = if self.until_us >= self.prior_until_us { self.rate } else { self.prior_rate };
        // Only a clock that has stepped back by hours makes more of it than can be counted.
        let both = u64::from(self.rate.max(self.prior_rate)).saturating_mul(first_us.saturating_sub(from_us));
        let then = u64::from(alone).saturating_mul(last_us.saturating_sub(from_us.max(first_us)));
        both.saturating_add(then)
    }
}

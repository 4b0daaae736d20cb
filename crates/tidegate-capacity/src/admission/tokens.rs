//! The tokens of a whole table or account, from which accesses are admitted where requests are
//! routed.
//!
//! A table with global admission admits from what its lease grants: a rate and a depth, which the
//! owner of the lease sets anew with each grant. An account bounds its tables together. Tokens are
//! only spent when they cover the whole access; a debt comes of corrections alone.

use std::sync::PoisonError;

use tidegate_core::Timestamp;

use crate::fault::Fault;
use crate::levels::{Inflow, Levels};
use crate::sync::{Mutex, MutexGuard};
use crate::units::Units;

/// The deepest debt in thousandths.
const DEBT_MAX: i64 = Units::LARGEST_REQUEST.as_thousandths();

/// The rate and the depth of tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TokenTerms {
    /// Units a second.
    pub rate: Units,
    /// The most units kept.
    pub depth: Units,
}

impl TokenTerms {
    /// `rate` a second and the default depth: one second of it, but at least
    /// [`Units::LARGEST_REQUEST`], so that one large request fits.
    pub fn from_rate(rate: Units) -> Self {
        Self { rate, depth: rate.max(Units::LARGEST_REQUEST) }
    }

    pub(crate) fn inflow(self) -> Inflow {
        Inflow {
            rate: self.rate.as_thousandths().max(0).cast_unsigned(),
            allocation_max: self.depth.as_thousandths().max(0),
            burst_max: 0,
        }
    }
}

/// A balance of tokens.
#[derive(Debug)]
pub(crate) struct Tokens {
    // A panic while it is locked leaves a valid balance: each change is one assignment.
    balance: Mutex<Balance>,
}

#[derive(Clone, Debug)]
struct Balance {
    inflow: Inflow,
    levels: Levels,
    epoch: u32,
    /// Units that came back and found no room, and inflow that did.
    overflow: u64,
    /// Units of corrections beyond the deepest debt, which were not spent.
    unbooked: u64,
}

/// A charge; its owner keeps it to be able to take it back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TokenCharge {
    before: Levels,
    at: Timestamp,
    epoch: u32,
}

/// A charge of tokens of a table, with the balance that was charged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TableCharge {
    Whole(TokenCharge),
    Share(TokenCharge),
}

impl Tokens {
    /// A full balance.
    pub(crate) fn new(terms: TokenTerms, now: Timestamp) -> Self {
        let inflow = terms.inflow();
        let levels = Levels::without_burst(inflow, now);
        Self { balance: Mutex::new(Balance { inflow, levels, epoch: 0, overflow: 0, unbooked: 0 }) }
    }

    /// Spends `cost` if there is as much; otherwise the first instant at which there is, the last
    /// one there is if the depth is smaller.
    #[inline]
    pub(crate) fn take(&self, cost: u64, now: Timestamp) -> Result<TokenCharge, Timestamp> {
        self.take_from(cost, cost, now)
    }

    /// [`Tokens::take`], but a cost beyond the depth is spent from a full balance, which then owes
    /// the rest: so a shallow balance refuses no access forever.
    pub(crate) fn take_or_owe(&self, cost: u64, now: Timestamp) -> Result<TokenCharge, Timestamp> {
        let depth = self.lock().inflow.allocation_max.cast_unsigned();
        self.take_from(cost, cost.min(depth), now)
    }

    /// Spends `cost` if there is as much as `needed`.
    #[inline]
    fn take_from(&self, cost: u64, needed: u64, now: Timestamp) -> Result<TokenCharge, Timestamp> {
        let mut balance = self.lock();
        let Balance { inflow, levels: before, epoch, .. } = *balance;
        let (levels, lost) = before.refilled(inflow, now);
        let (cost, needed) = (cost.cast_signed(), needed.cast_signed());
        if levels.allocation < needed {
            if levels.is_before(before) {
                balance.levels = levels;
            }
            let is_never = needed > inflow.allocation_max;
            let opens = if is_never { None } else { levels.reaches(inflow, needed, now) };
            return Err(opens.unwrap_or(Timestamp::from_nanos(u64::MAX)));
        }
        let spent = if Fault::TokensNotSpent.is_planted() { 0 } else { cost };
        balance.levels = levels.with_allocation(levels.allocation - spent);
        balance.overflow += lost;
        Ok(TokenCharge { before, at: now, epoch })
    }

    /// The answer of [`Tokens::take`]; spends nothing.
    pub(crate) fn has(&self, cost: u64, now: Timestamp) -> Result<(), Timestamp> {
        self.copied().take(cost, now).map(|_| ())
    }

    /// A balance of its own in the same state.
    pub(crate) fn copied(&self) -> Self {
        let balance = self.lock().clone();
        Self { balance: Mutex::new(balance) }
    }

    /// The tokens left at `now`.
    pub(crate) fn left(&self, now: Timestamp) -> Units {
        let balance = self.lock();
        Units::from_thousandths(balance.levels.refilled(balance.inflow, now).0.allocation)
    }

    /// The units a second that flow in.
    pub(crate) fn rate(&self) -> Units {
        Units::from_thousandths(self.lock().inflow.rate.cast_signed())
    }

    /// The rate and the depth.
    pub(crate) fn terms(&self) -> TokenTerms {
        let Inflow { rate, allocation_max, .. } = self.lock().inflow;
        TokenTerms {
            rate: Units::from_thousandths(rate.cast_signed()),
            depth: Units::from_thousandths(allocation_max),
        }
    }

    /// Takes back `units` of a charge of `cost`. If nothing was charged since, the state is bit for
    /// bit that before.
    pub(crate) fn give_back(&self, charge: &TokenCharge, cost: u64, units: u64, now: Timestamp) {
        let mut balance = self.lock();
        let inflow = balance.inflow;
        if units == cost && charge.epoch == balance.epoch {
            let (before, lost) = charge.before.refilled(inflow, charge.at);
            let after = before.with_allocation(before.allocation - cost.cast_signed());
            if balance.levels == after {
                balance.levels = charge.before;
                // Counted again when the levels are next refilled.
                balance.overflow = balance.overflow.saturating_sub(lost);
                return;
            }
        }
        let (levels, lost) = balance.levels.refilled(inflow, now);
        balance.overflow += lost;
        let (levels, lost) = levels.filled(inflow, units.cast_signed());
        balance.levels = levels;
        balance.overflow += lost;
    }

    /// Spends `more` for an access that was admitted, down to the deepest debt.
    pub(crate) fn charge_more(&self, more: u64, now: Timestamp) {
        let mut balance = self.lock();
        let (levels, lost) = balance.levels.refilled(balance.inflow, now);
        balance.overflow += lost;
        let room = levels.allocation.saturating_add(DEBT_MAX).max(0).cast_unsigned();
        let booked = more.min(room);
        balance.levels = levels.with_allocation(levels.allocation - booked.cast_signed());
        balance.unbooked += more - booked;
    }

    /// Other terms from `now` on. The balance is kept; what no longer fits overflows.
    pub(crate) fn set_terms(&self, terms: TokenTerms, now: Timestamp) {
        let mut balance = self.lock();
        let (levels, lost) = balance.levels.refilled(balance.inflow, now);
        balance.overflow += lost;
        balance.inflow = terms.inflow();
        let (levels, lost) = levels.filled(balance.inflow, 0);
        balance.levels = levels;
        balance.epoch = balance.epoch.wrapping_add(1);
        balance.overflow += lost;
    }

    /// Fills it up, as a balance that nothing was ever spent from.
    pub(crate) fn fill(&self, now: Timestamp) {
        let mut balance = self.lock();
        balance.levels = Levels::without_burst(balance.inflow, now);
        balance.epoch = balance.epoch.wrapping_add(1);
    }

    /// Everything that is there and was not spent, but for corrections that were not booked.
    #[cfg(test)]
    #[cfg(not(tidegate_loom))]
    pub(crate) fn account(&self, now: Timestamp) -> i64 {
        let balance = self.lock();
        let (levels, lost) = balance.levels.refilled(balance.inflow, now);
        levels.allocation + lost.cast_signed() + balance.overflow.cast_signed()
            - balance.unbooked.cast_signed()
    }

    /// The whole state that decides, as words.
    pub(crate) fn words(&self) -> impl Iterator<Item = u64> + use<> {
        let balance = self.lock();
        let rate = balance.inflow.rate;
        balance.levels.words().into_iter().chain([rate])
    }

    fn lock(&self) -> MutexGuard<'_, Balance> {
        self.balance.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

//! What is lent, seen from outside: from the grants that leave the store and those that arrive, and from nothing else.

use std::collections::BTreeMap;

use tidegate::lease::{Ask, Grant};

use crate::clock::{MS, SECOND};
use crate::scenario::Numbers;

/// What one run of a member was lent of one key.
#[derive(Clone, Copy, Debug, Default)]
struct Lent {
    /// By the last grant that left the store, in its time.
    held: u64,
    rate: u64,
    until: u64,
    /// When any grant that left the store ends, in its time.
    ends: u64,
    /// What arrived: tokens, and parts of a token that trickled in.
    arrived: u64,
    trickled: u128,
    /// What trickles in, each period, since when in true time.
    trickle: u64,
    since: u64,
    /// Whether the store has not answered since.
    is_silent: bool,
    /// Units granted to requests that wait, good for nothing else: they have no end.
    spot: u64,
    /// Units admitted.
    spent: u64,
}

/// What is lent of some keys.
#[derive(Debug)]
pub(crate) struct Sums {
    lent: BTreeMap<(u32, u64), Lent>,
    /// The most that may be lent of a key, and what a limit gives in a period.
    most: u64,
    quota: u64,
    period: u64,
    checks: u64,
}

/// What was found wrong, and the numbers.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Wrong {
    /// More is lent than there may be.
    Sum { lent: u64, most: u64 },
    /// Something was admitted after the lease that it is from had ended for the ledger.
    AfterEnd { member: u64, late_ms: u64 },
    /// More was admitted than was granted.
    NotGranted { member: u64, spent: u64, granted: u64 },
}

impl Sums {
    pub(crate) fn new(numbers: Numbers, period: core::time::Duration) -> Self {
        let period = period.as_nanos() as u64;
        let (most, quota) = match numbers {
            Numbers::Bucket { per_second, burst } => {
                let quota = (u128::from(per_second) * u128::from(period) / u128::from(SECOND)) as u64;
                (u64::from(burst) + quota, quota)
            }
            Numbers::Quota { units, .. } => (units.into(), 0),
        };
        Self { lent: BTreeMap::new(), most, quota, period, checks: 0 }
    }

    /// The store granted at `store_now`.
    pub(crate) fn granted(&mut self, key: u32, ask: &Ask, grant: &Grant, store_now: u64) -> Option<Wrong> {
        let lent = self.lent.entry((key, ask.holder.member)).or_default();
        if grant.ttl.is_zero() {
            lent.spot += u64::from(grant.lump);
            return None;
        }
        lent.held = grant.held.into();
        lent.rate = grant.rate.into();
        lent.until = store_now + grant.ttl.as_nanos() as u64;
        lent.ends = lent.ends.max(lent.until);
        self.checks += 1;
        // With many members the sum is not looked at each time.
        if self.checks.is_multiple_of(1 + self.lent.len() as u64 / 64) {
            let lent = self.out(key, store_now);
            if lent > self.most {
                return Some(Wrong::Sum { lent, most: self.most });
            }
        }
        None
    }

    /// A holder has left.
    pub(crate) fn left(&mut self, key: u32, member: u64) {
        if let Some(lent) = self.lent.get_mut(&(key, member)) {
            (lent.held, lent.rate, lent.until) = (0, 0, 0);
        }
    }

    /// What is lent of a key and not over, by the ledger's clock.
    pub(crate) fn out(&self, key: u32, store_now: u64) -> u64 {
        let of_key = self.lent.range((key, 0)..=(key, u64::MAX)).map(|(_, lent)| lent);
        of_key
            .filter(|lent| lent.until > store_now)
            .map(|lent| {
                let to_come = u128::from(lent.rate) * u128::from(lent.until - store_now);
                lent.held + (to_come / u128::from(self.period)) as u64
            })
            .sum()
    }

    /// A grant arrived.
    pub(crate) fn arrived(&mut self, key: u32, member: u64, grant: &Grant, now: u64) {
        let lent = self.lent.entry((key, member)).or_default();
        lent.trickle_in(now);
        lent.arrived += u64::from(grant.lump);
        lent.trickle = u64::from(grant.rate.max(grant.fallback));
        lent.is_silent = false;
    }

    /// No answer arrived. Its holder may go on by itself: with at most all of the rate.
    pub(crate) fn silent(&mut self, key: u32, member: u64, now: u64) {
        let quota = self.quota;
        let lent = self.lent.entry((key, member)).or_default();
        lent.trickle_in(now);
        lent.trickle = quota;
        lent.is_silent = true;
    }

    /// Units were admitted.
    pub(crate) fn admitted(
        &mut self,
        key: u32,
        member: u64,
        cost: u64,
        now: u64,
        store_now: u64,
    ) -> Option<Wrong> {
        let period = self.period;
        let lent = self.lent.entry((key, member)).or_default();
        lent.trickle_in(now);
        lent.spent += cost;
        if lent.spot >= cost {
            lent.spot -= cost;
            return None;
        }
        if !lent.is_silent && lent.ends > 0 && store_now > lent.ends + MS {
            let late_ms = (store_now - lent.ends) / MS;
            return Some(Wrong::AfterEnd { member, late_ms });
        }
        let granted = lent.arrived + (lent.trickled / u128::from(period)) as u64 + 1;
        if lent.spent > granted {
            let spent = core::mem::replace(&mut lent.spent, granted);
            return Some(Wrong::NotGranted { member, spent, granted });
        }
        None
    }

    /// A run of a member is over.
    pub(crate) fn crashed(&mut self, member: u64) {
        for (_, lent) in self.lent.iter_mut().filter(|((_, of), _)| *of == member) {
            lent.trickle = 0;
        }
    }
}

impl Lent {
    /// What trickled in until `now`, at a clock that may run a hundredth fast.
    fn trickle_in(&mut self, now: u64) {
        let passed = u128::from(now.saturating_sub(self.since));
        self.trickled += passed * u128::from(self.trickle) * 101 / 100;
        self.since = self.since.max(now);
    }
}

//! The permits of one concurrency limit: who holds one, and until when.

use std::collections::{BTreeMap, BTreeSet};

use tidegate_core::Timestamp;
use tidegate_core::algorithm::{Concurrency, Verdict};

use crate::{HolderId, RequestId};

/// Permits by holder and by expiry. Those that have expired stay until the next change, as nothing.
///
/// At most [`Concurrency::LIMIT_MAX`] that count, and as many that have expired.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PermitSet {
    holders: BTreeMap<HolderId, Held>,
    expiries: BTreeSet<(Timestamp, HolderId)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Held {
    /// The first instant at which it does not count any more.
    expires: Timestamp,
    /// The batch that took it, which is the one that may take it back.
    by: RequestId,
}

/// The result of asking for a permit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Acquired {
    Taken,
    Renewed,
    Refused(Verdict),
}

impl PermitSet {
    /// Heap bytes of one permit in both trees, whose nodes are at least half full.
    const PERMIT_BYTES: usize = 2 * (size_of::<(HolderId, Held)>() + size_of::<(Timestamp, HolderId)>());

    pub(crate) fn is_empty(&self) -> bool {
        self.holders.is_empty()
    }

    /// Heap bytes, at most.
    pub(crate) fn bytes(&self) -> usize {
        self.holders.len() * Self::PERMIT_BYTES
    }

    /// The most heap bytes that so many more permits add.
    pub(crate) fn growth(permits: usize) -> usize {
        permits * Self::PERMIT_BYTES
    }

    fn live(&self, now: Timestamp) -> impl Iterator<Item = &(Timestamp, HolderId)> {
        // The smallest pair that expires after `now`.
        let first = (Timestamp::from_nanos(now.as_nanos().saturating_add(1)), HolderId(0));
        self.expiries.range(first..)
    }

    /// Permits held at `now`.
    ///
    /// Counts those that have expired, which costs little: as long as there are any the next
    /// acquire is admitted, unless the limit was lowered, and forgets them.
    pub(crate) fn held(&self, now: Timestamp) -> u64 {
        let expired = self.expiries.iter().take_while(|(expires, _)| *expires <= now).count();
        (self.expiries.len() - expired) as u64
    }

    /// Whether `holder` has one at `now`.
    pub(crate) fn holds(&self, holder: HolderId, now: Timestamp) -> bool {
        self.holders.get(&holder).is_some_and(|held| held.expires > now)
    }

    /// Whether one more is admitted at `now`.
    pub(crate) fn decide(&self, concurrency: &Concurrency, now: Timestamp) -> Verdict {
        let limit = concurrency.limit();
        if limit == 0 {
            return Verdict::Never { largest: 0 };
        }
        let Some(excess) = self.held(now).checked_sub(limit) else { return Verdict::Admit };
        // When one more than the excess has expired, one is free.
        let binding = self.live(now).nth(excess as usize);
        Verdict::Wait { until: binding.map_or(Timestamp::MAX, |(expires, _)| *expires) }
    }

    /// The answer that [`PermitSet::acquire`] would give.
    pub(crate) fn ask(&self, concurrency: &Concurrency, holder: HolderId, now: Timestamp) -> Acquired {
        if self.holds(holder, now) {
            return Acquired::Renewed;
        }
        match self.decide(concurrency, now) {
            Verdict::Admit => Acquired::Taken,
            verdict => Acquired::Refused(verdict),
        }
    }

    /// Takes a permit for `holder` if one is free, or renews the one it has.
    pub(crate) fn acquire(
        &mut self,
        concurrency: &Concurrency,
        holder: HolderId,
        by: RequestId,
        now: Timestamp,
    ) -> Acquired {
        let acquired = self.ask(concurrency, holder, now);
        if matches!(acquired, Acquired::Refused(_)) {
            return acquired;
        }
        self.forget_expired(now);
        let renewed = self.remove(holder);
        let by = renewed.map_or(by, |held| held.by);
        let expires = now.saturating_add(concurrency.hold());
        // A permit never ends earlier for being renewed, though the clock has stepped back or
        // `hold` was lowered.
        let expires = renewed.map_or(expires, |held| held.expires.max(expires));
        self.holders.insert(holder, Held { expires, by });
        self.expiries.insert((expires, holder));
        acquired
    }

    /// Gives the permit of `holder` back; whether it had one.
    pub(crate) fn release(&mut self, holder: HolderId, now: Timestamp) -> bool {
        self.remove(holder).is_some_and(|held| held.expires > now)
    }

    /// Gives the permit of `holder` back if it was taken by the batch `by`; whether it was.
    pub(crate) fn release_taken_by(&mut self, holder: HolderId, by: RequestId, now: Timestamp) -> bool {
        self.holders.get(&holder).is_some_and(|held| held.by == by) && self.release(holder, now)
    }

    /// The permits in the order of their holders: holder, expiry and batch.
    pub(crate) fn parts(&self) -> impl ExactSizeIterator<Item = (HolderId, Timestamp, RequestId)> {
        self.holders.iter().map(|(holder, held)| (*holder, held.expires, held.by))
    }

    /// The set with these parts; `None` if it could not be one.
    pub(crate) fn from_parts(permits: Vec<(HolderId, Timestamp, RequestId)>) -> Option<Self> {
        let in_order = permits.windows(2).all(|pair| pair[0].0 < pair[1].0);
        if !in_order || permits.len() as u64 > 2 * Concurrency::LIMIT_MAX {
            return None;
        }
        let expiries = permits.iter().map(|(holder, expires, _)| (*expires, *holder)).collect();
        let holders =
            permits.into_iter().map(|(holder, expires, by)| (holder, Held { expires, by })).collect();
        Some(Self { holders, expiries })
    }

    fn remove(&mut self, holder: HolderId) -> Option<Held> {
        let held = self.holders.remove(&holder)?;
        self.expiries.remove(&(held.expires, holder));
        Some(held)
    }

    fn forget_expired(&mut self, now: Timestamp) {
        while let Some(&(expires, holder)) = self.expiries.first() {
            if expires > now {
                break;
            }
            self.expiries.pop_first();
            self.holders.remove(&holder);
        }
    }

    /// When nobody holds one any more; `now` if nobody does.
    pub(crate) fn reset_at(&self, now: Timestamp) -> Timestamp {
        self.expiries.last().map_or(now, |(expires, _)| (*expires).max(now))
    }

    /// Lets permits that were taken more than a hold ahead of `now` end a hold from `now`, as after
    /// a clock that was wrong. Those taken less far ahead keep their expiry: a clock that wanders
    /// admits no more for it. Whether there were any.
    ///
    /// A permit keeps the hold by which it was taken, which may have been longer: `taken_at`, the
    /// latest instant at which one was taken, tells that from a clock that was ahead;
    /// [`Timestamp::MIN`] stands for not known.
    pub(crate) fn bring_back(
        &mut self,
        concurrency: &Concurrency,
        taken_at: Timestamp,
        now: Timestamp,
    ) -> bool {
        if !self.lies_ahead(concurrency, taken_at, now) {
            return false;
        }
        let latest = now.saturating_add(concurrency.hold());
        let mut lay_ahead = false;
        while let Some(&(expires, holder)) = self.expiries.last() {
            if expires <= latest.saturating_add(concurrency.hold()) {
                break;
            }
            lay_ahead = true;
            self.expiries.pop_last();
            self.expiries.insert((latest, holder));
            if let Some(held) = self.holders.get_mut(&holder) {
                held.expires = latest;
            }
        }
        lay_ahead
    }

    /// Whether permits were taken more than a hold ahead of `now`.
    pub(crate) fn lies_ahead(&self, concurrency: &Concurrency, taken_at: Timestamp, now: Timestamp) -> bool {
        let latest = now.saturating_add(concurrency.hold());
        let explained = latest.saturating_add(concurrency.hold());
        (taken_at == Timestamp::MIN || taken_at > latest)
            && self.expiries.last().is_some_and(|(expires, _)| *expires > explained)
    }
}

#[cfg(test)]
#[cfg(not(tidegate_loom))]
mod tests;

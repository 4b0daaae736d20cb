//! A readable view of the leases that a member holds.

use core::time::Duration;
use std::sync::Arc;

use tidegate_core::Timestamp;

use super::Leases;
use super::leased_key::LeasedKey;
use crate::largest::LargestItems;
use crate::sync::Ordering::Relaxed;
use crate::sync::lock;

/// One lease of this member.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LeaseView {
    /// The namespace of the limit or the table.
    pub namespace: String,
    /// The name of the limit or the table.
    pub name: String,
    /// Whether it is a table. Its numbers are capacity units, rounded down.
    pub is_table: bool,
    /// The attributes of the key with their values; of a table the operation.
    pub scope: Vec<(String, String)>,
    /// How long a lease of this limit lasts.
    pub period: Duration,
    /// Demand at this member, in units each lease period; first attempts only.
    pub demand: u64,
    /// The rate at which the lease refills, in units each lease period.
    pub rate: u64,
    /// Whole tokens that may be spent at once.
    pub tokens: u64,
    /// When the lease ends, by this member's clock.
    pub until: Timestamp,
    /// Whether the store did not answer the last ask.
    pub is_unanswered: bool,
    /// Tokens of the window that were granted to other members which are gone or silent, as the
    /// ledger said last: lost until the window ends, unless they come back. 0 of a rate.
    pub gone: u64,
}

/// The leases of this member.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LeasesView {
    /// Those with the most demand, the largest first.
    pub leases: Vec<LeaseView>,
    /// Whole tokens in hand of all of them.
    pub tokens: u64,
    /// As [`LeaseView::gone`], of all of them.
    pub gone: u64,
}

/// All leases of this member in sum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LeaseTotals {
    /// Keys with a holder.
    pub holders: usize,
    /// How many there may be.
    pub holders_max: usize,
    /// Asks that were sent since the start.
    pub asks: u64,
    /// Of those, asks that were not answered.
    pub unanswered: u64,
}

impl Leases {
    /// Whether there may be something to send to the store.
    pub(crate) fn has_asks(&self) -> bool {
        self.outbox.may_have_messages()
    }

    pub(crate) fn totals(&self) -> LeaseTotals {
        LeaseTotals {
            holders: self.held.load(Relaxed),
            holders_max: self.config.holders_max,
            asks: self.asks.load(Relaxed),
            unanswered: self.unanswered.load(Relaxed),
        }
    }

    /// The leases with the most demand, at most `max`, and what all of them have.
    pub(crate) fn views(&self, max: usize, now: Timestamp) -> LeasesView {
        // By demand, and where that is the same by name.
        let mut largest = LargestItems::new(max, |one: &(u64, Arc<LeasedKey>), other| {
            one.0.cmp(&other.0).then_with(|| other.1.names().cmp(&one.1.names()))
        });
        let (mut tokens, mut gone) = (0_u64, 0_u64);
        for shard in &self.shards {
            for slot in lock(shard).slots.values() {
                tokens = tokens.saturating_add(slot.about.whole(slot.holder.tokens(&slot.terms, now)));
                gone = gone.saturating_add(slot.gone(now));
                // There may be a million, and texts are made for those that are shown.
                largest.add((slot.holder.demand(&slot.terms, now), Arc::clone(&slot.about)));
            }
        }
        let view = |(_, about): (u64, Arc<LeasedKey>)| self.view(&about, now);
        LeasesView { leases: largest.into_sorted().filter_map(view).collect(), tokens, gone }
    }

    /// The view of a key's lease; `None` if the lease is gone.
    fn view(&self, about: &LeasedKey, now: Timestamp) -> Option<LeaseView> {
        let shard = self.shard(about.number);
        let slot = shard.slots.get(&about.number)?;
        let owned = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
        let mut names = about.names().into_iter().map(owned);
        let (namespace, name) = names.next().unwrap_or_default();
        let whole = |count: u64| about.whole(count);
        Some(LeaseView {
            namespace,
            name,
            is_table: about.is_table,
            scope: names.collect(),
            period: slot.terms.period(),
            demand: whole(slot.holder.demand(&slot.terms, now)),
            rate: whole(slot.holder.rate(now)),
            tokens: whole(slot.holder.tokens(&slot.terms, now)),
            until: slot.holder.until(),
            is_unanswered: slot.holder.is_unanswered(),
            gone: slot.gone(now),
        })
    }
}

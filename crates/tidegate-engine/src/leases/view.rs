//! What a member holds, for people.

use tidegate::Timestamp;

use super::{Leases, lock};
use core::sync::atomic::Ordering;

/// One lease of this member.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LeaseView {
    /// The namespace of the limit.
    pub namespace: String,
    /// The limit.
    pub limit: String,
    /// The attributes of the key with their values.
    pub scope: Vec<(String, String)>,
    /// What is asked for here, in units each lease period; first attempts only.
    pub demand: u64,
    /// What trickles in, in units each lease period.
    pub rate: u64,
    /// Whole tokens that may be spent at once.
    pub tokens: u64,
    /// When the lease ends, by this member's clock.
    pub until: Timestamp,
    /// Whether the store did not answer the last ask.
    pub is_unanswered: bool,
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
    pub(crate) fn totals(&self) -> LeaseTotals {
        LeaseTotals {
            holders: self.held.load(Ordering::Relaxed),
            holders_max: self.config.holders_max,
            asks: self.asks.load(Ordering::Relaxed),
            unanswered: self.unanswered.load(Ordering::Relaxed),
        }
    }

    /// The leases with the most demand, at most `max`, the largest first; and the tokens in hand of all of them.
    pub(crate) fn views(&self, max: usize, now: Timestamp) -> (Vec<LeaseView>, u64) {
        let mut views = Vec::new();
        let mut tokens = 0_u64;
        for shard in &self.shards {
            let shard = lock(shard);
            for slot in shard.slots.values() {
                let in_hand = slot.holder.tokens(&slot.terms, now);
                tokens = tokens.saturating_add(in_hand);
                let about = &slot.about;
                let text = |text: &str| text.to_owned();
                views.push(LeaseView {
                    namespace: about.namespace.to_string(),
                    limit: text(&about.limit),
                    scope: about.scope.iter().map(|(name, value)| (text(name), text(value))).collect(),
                    demand: slot.holder.demand(&slot.terms, now),
                    rate: slot.holder.rate(now),
                    tokens: in_hand,
                    until: slot.holder.until(),
                    is_unanswered: slot.holder.is_unanswered(),
                });
            }
            // No more than twice as many are ever kept.
            if views.len() > 2 * max {
                largest(&mut views, max);
            }
        }
        largest(&mut views, max);
        (views, tokens)
    }
}

fn largest(views: &mut Vec<LeaseView>, max: usize) {
    views.sort_by(|one, other| {
        other
            .demand
            .cmp(&one.demand)
            .then_with(|| (&one.limit, &one.scope).cmp(&(&other.limit, &other.scope)))
    });
    views.truncate(max);
}

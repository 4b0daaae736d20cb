//! The tokens in hand of a holder: how they trickle in, and how they are given back.

use super::{Holder, period_ns};
use crate::lease::SPACING;
use crate::lease::terms::{Terms, TermsKind};
use crate::time::{Timestamp, duration_nanos};

impl Holder {
    /// Brings the level to `now`.
    pub(super) fn gather(&mut self, terms: &Terms, now: Timestamp) {
        if now.saturating_add(SPACING) < self.at {
            // The clock stepped back: it is not known how long the lease has lasted.
            self.until = self.until.min(now);
            self.asked = self.asked.min(now);
            self.ended = self.ended.min(now);
            self.renew_at = self.renew_at.min(now);
            self.demand.step_back(now);
            self.end(terms, now);
            self.at = now;
        }
        if self.at < self.until {
            self.trickle(terms, self.rate.into(), now.min(self.until));
        }
        if now >= self.until {
            if self.held > 0 || self.rate > 0 {
                self.end(terms, now);
            }
            self.level = 0;
        }
        self.at = self.at.max(now);
    }

    pub(super) fn trickle(&mut self, terms: &Terms, rate: u64, until: Timestamp) {
        let since = duration_nanos(until.saturating_since(self.at)).min(period_ns(terms));
        let level = self.level.saturating_add(rate.saturating_mul(since));
        self.level = level.min(self.most(terms, rate, true));
        self.count_unused(level - self.level, period_ns(terms));
        self.at = self.at.max(until);
    }

    /// Counts tokens that trickled in and found no place. Not while an ask is in flight: the ledger
    /// may just be forgetting the lease that they came from.
    pub(super) fn count_unused(&mut self, parts: u64, period: u64) {
        if parts == 0 || self.contact.is_asking() {
            return;
        }
        let parts = self.over.saturating_add(parts);
        self.over = parts % period;
        self.unused = self.unused.wrapping_add((parts / period) as u32);
    }

    /// Ends the lease: tokens in hand are not spent any more.
    pub(super) fn end(&mut self, terms: &Terms, now: Timestamp) {
        let period = period_ns(terms);
        let in_hand = self.in_hand(period);
        // Until the next ask, the ledger counts them as used.
        self.balance.charge(terms, in_hand.into(), now);
        let owed = self.owes;
        self.give_back(in_hand, 0, period);
        if matches!(terms.kind, TermsKind::Bucket(_)) {
            // A bucket's ledger forgets a lease that has ended; the next ask, if there is one,
            // reports the tokens.
            self.owes = owed;
        }
        self.count_unused(self.level, period);
        (self.level, self.rate, self.held) = (0, 0, 0);
    }

    /// Whole tokens of those that the ledger knows to be in hand.
    pub(super) fn in_hand(&self, period: u64) -> u32 {
        (self.level / period).min(self.held.into()) as u32
    }

    /// Gives `tokens` back and keeps `left`.
    pub(super) fn give_back(&mut self, tokens: u32, left: u32, period: u64) {
        self.level -= u64::from(tokens) * period;
        self.held = left;
        if tokens > 0 {
            self.returned = self.returned.wrapping_add(tokens);
            self.owes = true;
        }
    }
}

//! The answers of the ledger to the asks of a holder, and their absence.

use core::time::Duration;

use super::{CHECKS, COLD_CHECKS, DOUBLINGS_MAX, Holder, period_ns};
use crate::lease::balance::{Balance, LedgerLevel};
use crate::lease::fault::Fault;
use crate::lease::message::Grant;
use crate::lease::phase::{Contact, Supply};
use crate::lease::terms::{Terms, TermsKind};
use crate::lease::{DEPTH, DRIFT, SPACING};
use crate::time::Timestamp;

impl Holder {
    /// Takes over an answer that arrived at `now`, and says how many units are good for the
    /// requests that wait right now and for nothing else: the ledger grants so for keys with few
    /// requests, and where it has no place for another holder. `level` is what the ledger then says
    /// is used.
    ///
    /// Answers to other asks than the one in flight are ignored, as are those from an epoch that
    /// has passed. One that arrives when what it grants has ended, or a tenth of a second late with
    /// a spot grant, counts as no answer.
    pub fn granted(&mut self, terms: &Terms, grant: &Grant, level: LedgerLevel, now: Timestamp) -> u64 {
        if !self.contact.is_asking() || grant.seq != self.seq {
            return 0;
        }
        self.gather(terms, now);
        self.is_lost = false;
        let is_silence_over = !terms.has(Fault::AloneWhenAnswered);
        self.contact = if is_silence_over { Contact::Answered } else { self.contact.land() };
        let sent = self.asked;
        (self.asked, self.ended) = (now, now);
        if grant.epoch < self.epoch {
            return 0;
        }
        if grant.epoch > self.epoch {
            // Tokens granted in an earlier epoch are not spent any more.
            (self.level, self.held, self.rate, self.until) = (0, 0, 0, self.until.min(now));
        }
        self.epoch = grant.epoch;
        self.asked = now.saturating_add(grant.again);
        self.is_lost = grant.is_lost;
        let units = self.take_lease(terms, grant, sent, now);
        self.balance = Balance::new(terms, level, self.level / period_ns(terms) + units, now);
        units
    }

    /// Takes over what an ask of `sent` was granted; units for the requests that wait.
    fn take_lease(&mut self, terms: &Terms, grant: &Grant, sent: Timestamp, now: Timestamp) -> u64 {
        if grant.ttl.is_zero() {
            return 0;
        }
        let from = if terms.has(Fault::ExpiryFromReply) { now } else { sent };
        let lasts = grant.ttl.saturating_sub(grant.ttl / DRIFT);
        let has_ended = from.saturating_add(lasts) <= now;
        let is_late = sent.saturating_add(DEPTH) < now;
        // The ledger counts as spent what is only for the requests that wait, so it must not be
        // spent much later.
        if has_ended || (is_late && grant.is_spot()) {
            // The next ask tells the ledger that the grant did not arrive in time.
            self.owes = true;
            if is_late {
                // As if there had been no answer.
                self.contact = self.contact.miss();
                self.asked = now.saturating_add(SPACING);
            }
            return 0;
        }
        if grant.is_spot() {
            // It is counted among the holders if it has a place, and then the ledger wants to know
            // that this has arrived.
            (self.acked, self.members) = (self.seq, members_of(grant));
            self.take_over(terms, grant.held, 0);
            return grant.lump.into();
        }
        let took_us = now.saturating_since(sent).as_micros().min(1 << 24) as u32;
        self.rtt_us = if self.acked == 0 { took_us } else { self.rtt_us - self.rtt_us / 8 + took_us / 8 };
        let old_until = core::mem::replace(&mut self.until, from.saturating_add(lasts));
        let ahead = lasts / 12 + Duration::from_micros(2 * u64::from(self.rtt_us)).min(lasts / 2);
        self.renew_at = self.until.saturating_sub(ahead);
        self.check_at = now.saturating_add(terms.period() / CHECKS);
        if now >= old_until {
            // The tokens of the previous lease have ended with it.
            self.level = 0;
        }
        self.acked = self.seq;
        let is_cold = match terms.kind {
            TermsKind::Bucket(_) => grant.rate == 0,
            TermsKind::Window(_) => u64::from(self.demand.told()) < terms.leased_min(),
        };
        if is_cold {
            // Unused tokens are returned soon.
            self.renew_at = self.renew_at.min(now.saturating_add(terms.period() / COLD_CHECKS));
        }
        self.supply = match (is_cold, grant.is_scarce) {
            (true, _) => Supply::Cold,
            (false, false) => Supply::Ample,
            (false, true) if grant.again > SPACING => Supply::Short,
            (false, true) => Supply::Scarce,
        };
        (self.rate, self.members, self.keep) = (grant.rate, members_of(grant), grant.keep);
        self.take_over(terms, grant.held - grant.lump, grant.lump);
        0
    }

    /// Brings what is in hand in line with what the ledger knows of, and adds what it lent.
    fn take_over(&mut self, terms: &Terms, known: u32, lump: u32) {
        // Tokens that ended while the ask was in flight were given back, if the ledger had them on
        // record at all.
        let returned = self.returned.wrapping_sub(self.told);
        self.returned = self.told.wrapping_add(returned.min(known));
        let period = period_ns(terms);
        let unknown = self.held - self.held.min(known - returned.min(known));
        self.held = self.held - unknown + lump;
        self.level = self.level.saturating_sub(u64::from(unknown).saturating_mul(period));
        self.level = self.level.saturating_add(u64::from(lump).saturating_mul(period));
        let level = self.level.min(self.most(terms, self.rate.into(), true));
        self.count_unused(self.level - level, period);
        self.level = level;
    }

    /// No answer came, or an error. The lease lasts as long as it does. The next ask makes sense
    /// after [`SPACING`], which doubles with each that is not answered, to 800 ms.
    pub fn lost(&mut self, now: Timestamp) {
        if !self.contact.is_asking() {
            return;
        }
        // The ledger may have granted something; the next ask tells it that the grant did not
        // arrive.
        self.owes = true;
        let wait = SPACING * (1 << self.contact.unanswered().min(DOUBLINGS_MAX));
        self.contact = self.contact.miss();
        (self.asked, self.ended) = (now.saturating_add(wait), now);
    }
}

/// The holders with a lease, as a grant counts them.
fn members_of(grant: &Grant) -> u16 {
    u16::try_from(grant.members).unwrap_or(u16::MAX)
}

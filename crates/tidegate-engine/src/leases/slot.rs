//! One holder with what this member knows about its key.

use core::time::Duration;
use std::sync::Arc;

use tidegate_core::Timestamp;
use tidegate_core::lease::{Grant, Holder, LedgerLevel, Terms};
use tidegate_core::shares::Owner;

use super::flight::Flight;
use super::leased_key::LeasedKey;
use super::subject::{LeaseSubject, TermsId};

/// The shortest time after which a holder is looked at again.
pub(super) const LOOK_MIN: Duration = Duration::from_millis(10);

/// Units in a period: a key with a smaller demand is forgotten when its lease has ended.
const FORGOTTEN_BELOW: u64 = 2;

/// After what time a holder is looked at again that is only remembered.
const LOOK_IDLE: Duration = Duration::from_millis(500);

#[derive(Debug)]
pub(super) struct Slot {
    pub(super) holder: Holder,
    pub(super) terms: Arc<Terms>,
    /// Tells the terms from others.
    pub(super) terms_id: TermsId,
    pub(super) about: Arc<LeasedKey>,
    /// The namespace whose share of the places it counts against.
    pub(super) owner: Owner,
    /// The ask under way.
    pub(super) flight: Option<Arc<Flight>>,
    /// Whether this member has decided alone since the store answered last, or may have before this
    /// slot was made.
    pub(super) may_be_alone: bool,
    /// The units that the ledger then reported as [gone](Grant::gone), and the end of their window.
    pub(super) gone: (u64, Timestamp),
    /// When it is looked at again; [`Timestamp::MAX`] while an ask is under way.
    pub(super) look_at: Timestamp,
}

impl Slot {
    pub(super) fn new(holder: Holder, terms_id: TermsId, terms: Arc<Terms>, about: Arc<LeasedKey>) -> Self {
        Self {
            holder,
            terms,
            terms_id,
            about,
            owner: Owner::NONE,
            flight: None,
            may_be_alone: true,
            gone: (0, Timestamp::MIN),
            look_at: Timestamp::MAX,
        }
    }

    /// Takes in what the ledger granted, and what it says is used; the units that are good for the
    /// requests that wait and for no others.
    pub(super) fn granted(&mut self, grant: &Grant, level: LedgerLevel, now: Timestamp) -> u64 {
        let until = if grant.gone > 0 { self.about.algorithm.full_again(now) } else { Timestamp::MIN };
        self.gone = (grant.gone, until);
        self.holder.granted(&self.terms, grant, level, now)
    }

    /// Tokens of a window that went to holders that are gone, as far as is known.
    pub(super) fn gone(&self, now: Timestamp) -> u64 {
        let (tokens, until) = self.gone;
        if now < until { tokens } else { 0 }
    }

    /// Starts loading it, and what goes with it when it is dropped.
    pub(super) fn touch(&self) -> u64 {
        let key = self.about.key.as_bytes().last().map_or(0, |byte| u64::from(*byte));
        self.look_at.as_nanos() ^ self.holder.until().as_nanos() ^ self.about.number ^ key
    }

    /// Goes on by other terms of the same subject. An ask under way is still about the old ones,
    /// which the next puts right.
    pub(super) fn renumber(&mut self, subject: &LeaseSubject<'_>, terms: Arc<Terms>, now: Timestamp) {
        self.terms_id = subject.terms;
        self.holder.change_terms(&self.terms, &terms, now);
        self.terms = terms;
        self.about = Arc::new(self.about.renumbered(subject));
    }

    /// Whether nothing would be lost if it were dropped.
    ///
    /// Where all places of the ledger are taken, a holder has no lease that keeps its slot between
    /// two requests. Its slot is kept until its demand has faded, so that the demand is known when
    /// it finds a place.
    pub(super) fn can_go(&self, now: Timestamp) -> bool {
        self.is_hardly_used(now) && (!self.holder.is_crowded() || self.holder.has_faded(now))
    }

    /// Whether it holds nothing, nothing is under way, and so little is asked for that there is
    /// nothing to tell the ledger.
    pub(super) fn is_hardly_used(&self, now: Timestamp) -> bool {
        // A key with occasional requests is remembered, so that it gets a lease of its own. Without
        // the store, the last grant says by which share this member decides alone.
        let least = if self.holder.is_unanswered() { 1 } else { FORGOTTEN_BELOW };
        self.is_idle(now) && self.holder.demand(&self.terms, now) < least
    }

    /// Whether it holds nothing and nothing is under way.
    pub(super) fn is_idle(&self, now: Timestamp) -> bool {
        self.flight.is_none() && self.holder.is_idle(&self.terms, now)
    }

    /// When to look at it again.
    pub(super) fn next_look(&self, now: Timestamp) -> Timestamp {
        let at = self.holder.wake_at().unwrap_or_else(|| self.holder.idle_at());
        // One that is only remembered, until it is not asked for any more.
        if at <= now { now.saturating_add(LOOK_IDLE) } else { at.max(now.saturating_add(LOOK_MIN)) }
    }
}

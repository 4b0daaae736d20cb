//! The lease of one limit for one remote bucket.

use core::time::Duration;
use std::sync::Arc;

use super::assignment::{MICRO, MicroRate, Spending, tokens_in};
use super::bounds::{
    BURST_SPAN, DEMAND_MAX, FIRST_DEMAND, FIRST_LOOKS, FIRST_PART, GATHER_SPAN, LEASE_MARGIN, RETRY,
    SHORT_RETRY, SLOW_TOKENS, SPOT_PART, SPOT_SPAN, TOKENS_MIN,
};
use crate::lease::fault::Fault;
use crate::lease::message::{Ask, Grant, HolderName};
use crate::lease::phase::Contact;
use crate::lease::terms::{Terms, TermsKind};
use crate::lease::{DRIFT, LedgerLevel, SPACING};
use crate::time::{Timestamp, duration_nanos};

/// The lease that one ledger has granted for a bucket, as far as the member knows.
///
/// Tokens in hand are those that the peer's bucket may hold, and, of a slow limit, those that it
/// will refill by. The rate is the refill beside them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct RemoteHolder {
    /// Tells limits apart; of no other use here.
    pub(super) key: u64,
    pub(super) terms: Arc<Terms>,
    name: HolderName,
    contact: Contact,
    seq: u32,
    epoch: u32,
    held: u32,
    /// Tokens of the rate that it has kept, as it had none in hand. For the ledger they are spent.
    gathered: u32,
    /// Whether tokens in hand were written off that the ledger does not know of.
    has_written_off: bool,
    returned: u32,
    unused: u32,
    /// Parts of a token in `held` that were spent, and of the rate that were not, in millionths of
    /// a token by the nanosecond.
    spent_parts: u64,
    unused_parts: u64,
    /// The last grant, and the one that the peer was told by before it.
    last: Lent,
    prior: Lent,
    /// When the ask in flight was sent; otherwise when the next makes sense.
    asked: Timestamp,
    /// Until when what it holds is accounted for.
    at: Timestamp,
    pub(super) keep: u32,
    members: u32,
    portion: Portion,
    /// The demand of the last ask, in tokens each period.
    asked_for: u32,
    /// The lifetime of the last ask.
    lifetime: Duration,
    /// How many times more it asks by itself, as it is new to the ledger.
    looks: u8,
    /// Whether it has been answered since the peer last reported.
    pub(super) is_current: bool,
    /// Whether what it has in hand was granted for a peer's bucket that begins full.
    pub(super) is_fresh: bool,
}

/// A grant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Lent {
    seq: u32,
    /// Tokens each period, and those that it added to what is in hand.
    rate: u32,
    lump: u32,
    until: Timestamp,
    /// Whether the peer was told an assignment by it.
    is_told: bool,
}

/// How the last grant was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Portion {
    /// All that the ledger owes it.
    Full,
    /// Less, as others still have it.
    Short,
    /// For the moment only, as there was no place for another holder.
    Spot,
}

/// The most that a holder allows an assignment to be.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cover {
    pub(super) tokens: u32,
    pub(super) rate: MicroRate,
    /// Until when; the end of time for a member that decides alone.
    pub(super) until: Timestamp,
}

/// The length of a token in [`RemoteHolder::spent_parts`].
const WHOLE: u64 = MICRO * 1_000_000_000;

impl RemoteHolder {
    pub(super) fn new(key: u64, terms: Arc<Terms>, name: HolderName, now: Timestamp) -> Self {
        Self {
            key,
            terms,
            name,
            contact: Contact::default(),
            seq: 0,
            epoch: 0,
            held: 0,
            gathered: 0,
            has_written_off: false,
            returned: 0,
            unused: 0,
            spent_parts: 0,
            unused_parts: 0,
            last: Lent::default(),
            prior: Lent::default(),
            asked: now,
            at: now,
            keep: 0,
            members: 0,
            portion: Portion::Full,
            asked_for: 0,
            lifetime: Duration::ZERO,
            looks: 0,
            is_current: false,
            is_fresh: false,
        }
    }

    /// Whether an ask is in flight.
    pub(super) const fn is_asking(&self) -> bool {
        self.contact.is_asking()
    }

    /// Whether the last ask was not answered.
    pub(super) const fn is_silent(&self) -> bool {
        self.contact.unanswered() > 0
    }

    /// When the next ask makes sense.
    pub(super) const fn asks_at(&self) -> Timestamp {
        self.asked
    }

    /// Whether it has less than its share and than its demand, so that it asks again by itself.
    pub(super) fn is_short(&self) -> bool {
        self.portion == Portion::Short && (self.tokens() == 0 || self.last.rate < self.asked_for)
    }

    /// Whether its tokens are for once, as there was no place for another holder: the next ones are
    /// for another bucket of the peer, which begins full.
    pub(super) fn is_spot(&self) -> bool {
        self.portion == Portion::Spot
    }

    /// Whether the ledger counts a grant that the peer no longer spends by, and others may miss it.
    pub(super) fn owes(&self) -> bool {
        let rate = self.last.rate;
        let has_less = self.last.is_told && self.prior.rate > rate.saturating_add(rate / 8);
        has_less || self.has_written_off
    }

    /// Tokens in hand, for the peer's bucket to hold.
    const fn tokens(&self) -> u32 {
        self.held.saturating_add(self.gathered)
    }

    /// Whether it asks although the peer waits for nothing.
    pub(super) fn goes_on(&self) -> bool {
        self.is_short() || self.owes() || self.is_silent() || self.looks_again()
    }

    /// Whether it looks once more for others that are new to the ledger, too.
    fn looks_again(&self) -> bool {
        self.looks > 0 && self.last.rate > self.asked_for.saturating_add(self.asked_for / 4)
    }

    /// Whether it has anything that the ledger may want back.
    pub(super) const fn has_anything(&self) -> bool {
        self.held > 0 || self.last.rate > 0 || self.prior.rate > 0
    }

    /// When the ledger has nothing of it any more.
    pub(super) fn until(&self) -> Timestamp {
        self.last.until.max(self.prior.until)
    }

    /// Tokens a second of so many each period.
    fn micro(&self, rate: u32) -> MicroRate {
        let micro = u128::from(rate) * 1_000_000_000_000 / u128::from(self.terms.period_us);
        micro as MicroRate
    }

    /// The refill that the ledger counts for it at `now`, by whichever of the last two grants the
    /// peer spends.
    fn counted(&self, now: Timestamp) -> MicroRate {
        let rate = |lent: &Lent| if now < lent.until { lent.rate } else { 0 };
        self.micro(rate(&self.last).max(rate(&self.prior)))
    }

    /// Whether the limit is so slow that a lease's rate, in whole tokens each period, says little:
    /// then tokens in hand refill the peer's bucket, too.
    pub(super) fn is_slow(&self) -> bool {
        match &self.terms.kind {
            TermsKind::Bucket(_) => self.terms.quota() < SLOW_TOKENS,
            TermsKind::Window(_) => true,
        }
    }

    /// Tokens a second of the limit.
    fn limit(&self) -> MicroRate {
        match &self.terms.kind {
            TermsKind::Bucket(refill) => {
                let micro = u128::from(refill.units) * 1_000_000_000_000 / u128::from(refill.per_us);
                u64::try_from(micro).unwrap_or(u64::MAX)
            }
            TermsKind::Window(_) => 0,
        }
    }

    /// Whether the ledger may forget the grants before the last that the peer was told by.
    pub(super) fn covers(&self, spending: &Spending, now: Timestamp) -> bool {
        if !self.last.is_told || now >= self.prior.until || self.prior.rate <= self.last.rate {
            return true;
        }
        let beyond = spending.beyond(self.micro(self.last.rate), now);
        spending.tokens.saturating_add(beyond) <= self.tokens()
    }

    /// Accounts for the time until `now`, in which the peer spent by `spending` at most.
    pub(super) fn account(&mut self, spending: &Spending, now: Timestamp) {
        let nanos = u128::from(duration_nanos(now.min(self.until()).saturating_since(self.at)));
        let (whole, counted) = (u128::from(WHOLE), self.counted(self.at));
        let spends = if spending.ends > self.at { spending.rate } else { 0 };
        // Beyond the rate it spends tokens in hand.
        let spent = u128::from(spends.saturating_sub(counted)) * nanos + u128::from(self.spent_parts);
        let tokens = u32::try_from(spent / whole).unwrap_or(u32::MAX);
        self.held -= tokens.min(self.held.saturating_sub(spending.tokens));
        self.spent_parts = (spent % whole) as u64;
        let rate = counted.min(self.micro(self.last.rate));
        let unused = u128::from(rate.saturating_sub(spends)) * nanos + u128::from(self.unused_parts);
        let come = (unused / whole) as u32;
        let most = if self.held == 0 && self.last.is_told { tokens_in(rate, GATHER_SPAN, false) } else { 0 };
        let gathered = come.min(most.saturating_sub(self.gathered));
        self.gathered += gathered;
        self.unused = self.unused.wrapping_add(come - gathered);
        self.unused_parts = (unused % whole) as u64;
        if now >= self.until() {
            (self.held, self.gathered, self.last.rate, self.prior.rate) = (0, 0, 0, 0);
            (self.spent_parts, self.unused_parts) = (0, 0);
        }
        self.at = self.at.max(now);
    }

    /// Counts as spent all that it has in hand: the peer begins with another bucket.
    pub(super) fn write_off(&mut self) {
        (self.held, self.gathered, self.spent_parts) = (0, 0, 0);
    }

    /// Counts as spent so many of the tokens in hand: the peer's bucket holds fewer, and those that
    /// it lacked it has spent.
    pub(super) fn write_off_some(&mut self, tokens: u32) {
        let held = tokens.saturating_sub(self.gathered).min(self.held);
        self.gathered = self.gathered.saturating_sub(tokens);
        self.held -= held;
        self.has_written_off |= held > 0;
    }

    /// The ask to send at `now`, for a demand of so many millionths of a token a second. Tokens in
    /// hand that `spending` has no use for are given back.
    pub(super) fn ask(
        &mut self,
        spending: &Spending,
        demand: Option<MicroRate>,
        (ttl, lifetime): (Duration, Duration),
        now: Timestamp,
    ) -> Option<Ask> {
        if !self.contact.may_ask() {
            return None;
        }
        self.account(spending, now);
        self.forget_untold();
        let counted = self.counted(now);
        let demand = self.demand(demand);
        (self.asked_for, self.lifetime) = (demand, lifetime);
        let wanted = self.wanted(demand, counted, ttl);
        self.give_back(spending, counted, now);
        let need = if wanted > self.held { wanted } else { 0 };
        let ask =
            Ask { need: need.into(), need_min: u64::from(need > 0), demand, lifetime, ..self.letter(now) };
        Some(ask)
    }

    /// Gives back what is in hand beyond what the peer may still spend.
    fn give_back(&mut self, spending: &Spending, counted: MicroRate, now: Timestamp) {
        let needed = spending.tokens.saturating_add(spending.beyond(counted, now));
        // A token that is being spent is still counted in hand.
        let needed = needed.saturating_add(u32::from(self.spent_parts > 0));
        if self.portion == Portion::Spot {
            // The ledger counts it as spent.
            (self.held, self.portion) = (0, Portion::Full);
            return;
        }
        let surplus = self.held.saturating_sub(needed);
        self.held -= surplus;
        self.returned = self.returned.wrapping_add(surplus);
    }

    /// A demand in tokens each period, up to ten times what the limit gives. A demand that is not
    /// known yet is taken for a quarter of it.
    fn demand(&self, demand: Option<MicroRate>) -> u32 {
        let demand = demand.unwrap_or(self.limit() / FIRST_DEMAND);
        let most = self.terms.quota().saturating_mul(DEMAND_MAX).max(1);
        let each = u128::from(demand) * u128::from(self.terms.period_us) / 1_000_000_000_000;
        let each = u64::try_from(each).unwrap_or(u64::MAX).min(most);
        u32::try_from(each).unwrap_or(u32::MAX).max(1)
    }

    /// The tokens that are worth having in hand: what the peer's bucket holds, and of a slow limit
    /// what refills it during an assignment.
    fn wanted(&self, demand: u32, counted: MicroRate, ttl: Duration) -> u32 {
        let asked_for = self.micro(demand);
        let asked_for = asked_for.saturating_add(asked_for / 4);
        let limit = self.limit();
        let likely = asked_for.min(limit).max(counted);
        if self.is_spot() {
            return tokens_in(likely, SPOT_SPAN, true).clamp(TOKENS_MIN, SPOT_PART * self.first_tokens());
        }
        let tokens = tokens_in(likely, BURST_SPAN, true).max(TOKENS_MIN);
        let most = if self.keep > 0 { self.keep } else { self.first_tokens() };
        if !self.is_slow() {
            return tokens.min(most).max(1);
        }
        let part = limit / u64::from(self.members.max(1));
        let rate = asked_for.min(part);
        let refill = tokens_in(rate.saturating_sub(counted), ttl + LEASE_MARGIN, true);
        tokens.min(most).max(1).saturating_add(refill)
    }

    /// The tokens of a first grant, before the ledger has said how many others there are.
    fn first_tokens(&self) -> u32 {
        let part = u32::try_from(self.terms.largest() / FIRST_PART);
        part.unwrap_or(u32::MAX).max(TOKENS_MIN)
    }

    /// Gives everything back, for good, but for `spent` tokens in hand.
    pub(super) fn leave(&mut self, spending: &Spending, spent: u32, now: Timestamp) -> Option<Ask> {
        if self.is_asking() || !self.has_anything() || now >= self.until() {
            return None;
        }
        self.account(spending, now);
        self.forget_untold();
        if !self.is_spot() {
            self.returned = self.returned.wrapping_add(self.held.saturating_sub(spent));
        }
        self.held = 0;
        let ask = Ask { is_leaving: true, ..self.letter(now) };
        self.contact = Contact::default();
        (self.last, self.prior) = (Lent::default(), Lent::default());
        Some(ask)
    }

    /// Forgets a grant that the peer was told nothing by: the ledger takes it back with the next
    /// ask, which does not acknowledge it.
    fn forget_untold(&mut self) {
        if !self.last.is_told {
            self.held = self.held.saturating_sub(self.last.lump);
            self.last = Lent::default();
        }
    }

    /// The peer was told an assignment by the last grant.
    pub(super) fn told(&mut self) {
        // A silent ledger has granted nothing, and the peer goes on by the grant before.
        self.last.is_told = self.last.seq > 0;
        self.is_fresh = false;
    }

    /// Keeps the last grant although it has no token to tell the peer of yet.
    pub(super) fn gathers(&mut self) {
        self.last.is_told = self.last.rate > 0;
    }

    /// An ask for nothing.
    fn letter(&mut self, now: Timestamp) -> Ask {
        self.has_written_off = false;
        self.seq = self.seq.wrapping_add(1);
        self.contact = self.contact.ask();
        self.asked = now;
        // Of the grants before it the ledger then counts this one only.
        if self.last.is_told {
            self.prior = self.last;
        }
        self.last = Lent::default();
        Ask {
            seq: self.seq,
            acked: self.prior.seq,
            epoch: self.epoch,
            left: self.held,
            returned: self.returned,
            unused: self.unused,
            ..Ask::first(self.name, 0)
        }
    }

    /// Takes over an answer that arrived at `now`.
    pub(super) fn granted(&mut self, spending: &Spending, grant: &Grant, _: LedgerLevel, now: Timestamp) {
        if !self.is_asking() || grant.seq != self.seq {
            return;
        }
        self.account(spending, now);
        self.contact = Contact::default();
        let sent = self.asked;
        self.asked = now.saturating_add(RETRY);
        if grant.epoch < self.epoch {
            return;
        }
        if grant.epoch > self.epoch {
            (self.prior.rate, self.looks) = (0, FIRST_LOOKS);
        } else {
            self.looks = self.looks.saturating_sub(1);
        }
        (self.epoch, self.members) = (grant.epoch, grant.members);
        let lacks_token = grant.held == 0 && !grant.again.is_zero();
        self.portion = match grant.again > SPACING || lacks_token {
            _ if grant.is_spot() => Portion::Spot,
            true => Portion::Short,
            false => Portion::Full,
        };
        let wait = match (self.portion, self.looks) {
            (Portion::Short, _) => SHORT_RETRY,
            (_, 1) => 2 * RETRY,
            _ => RETRY,
        };
        self.asked = now.saturating_add(wait);
        // For the ledger, tokens that are granted for once are spent, however long that takes.
        let ttl = if self.is_spot() { self.lifetime } else { grant.ttl };
        let until = sent.saturating_add(ttl.saturating_sub(ttl / DRIFT));
        if until <= now {
            return;
        }
        self.last = Lent { seq: self.seq, rate: grant.rate, lump: grant.lump, until, is_told: false };
        if self.portion == Portion::Spot {
            (self.held, self.last.rate) = (grant.lump, 0);
        } else {
            (self.held, self.keep) = (grant.held, grant.keep.max(1));
        }
    }

    /// No answer came, or an error.
    pub(super) fn lost(&mut self, now: Timestamp) {
        if self.is_asking() {
            self.contact = self.contact.miss();
            self.asked = now.saturating_add(RETRY);
        }
    }

    /// The answer to an ask in flight is not waited for, which says nothing about the ledger.
    pub(super) fn forget_ask(&mut self, now: Timestamp) {
        self.contact = self.contact.land();
        self.ask_soon(now);
    }

    /// Goes on under other terms, by which it asks at once. With another period, the rates of its
    /// grants are brought to that, rounded down, and the answer to an ask in flight is not taken
    /// over.
    pub(super) fn set_terms(&mut self, terms: &Arc<Terms>, now: Timestamp) {
        if *self.terms == **terms {
            return;
        }
        let (old, new) = (u128::from(self.terms.period_us), u128::from(terms.period_us));
        if old != new {
            for lent in [&mut self.last, &mut self.prior] {
                lent.rate = u32::try_from(u128::from(lent.rate) * new / old).unwrap_or(u32::MAX);
            }
            self.lost(now);
        }
        self.terms = Arc::clone(terms);
        self.is_current = false;
        self.ask_soon(now);
    }

    /// The peer has reported and waits for an answer: it asks at once, unless its ledger has just
    /// not answered.
    pub(super) fn reported(&mut self, now: Timestamp) {
        self.is_current = self.is_silent() && !self.is_asking() && now < self.asked;
        if !self.is_current {
            self.ask_soon(now);
        }
    }

    /// Lets it ask at once.
    pub(super) fn ask_soon(&mut self, now: Timestamp) {
        if !self.is_asking() {
            self.asked = self.asked.min(now);
        }
    }

    /// The most that an assignment may be by the grants of the ledger.
    pub(super) fn cover(&self, now: Timestamp) -> Cover {
        if now >= self.last.until {
            // Between two answers the peer spends by the grant before.
            let rate = if now < self.prior.until { self.prior.rate } else { 0 };
            let until = self.prior.until.max(now);
            return Cover { tokens: self.tokens(), rate: self.micro(rate), until };
        }
        Cover { tokens: self.tokens(), rate: self.micro(self.last.rate), until: self.last.until }
    }

    /// How many of the tokens that are covered the peer's bucket may hold.
    pub(super) fn tokens_of(&self, cover: &Cover, demand: Option<MicroRate>, is_lent: bool) -> u32 {
        if self.terms.has(Fault::IncreaseNotGranted) {
            return cover.tokens.saturating_mul(2);
        }
        if !is_lent || self.is_spot() {
            return cover.tokens;
        }
        if !self.is_slow() {
            // There are more holders by now.
            let has_many = self.keep > 0 && cover.tokens > self.keep.saturating_add(self.keep / 4);
            return if has_many { self.keep } else { cover.tokens };
        }
        let likely = self.limit() / u64::from(self.members.max(1));
        let likely = demand.map_or(likely, |demand| likely.min(demand)).max(cover.rate);
        tokens_in(likely, BURST_SPAN, true).clamp(1, cover.tokens.max(1)).min(cover.tokens)
    }

    /// The most that an assignment may be of a member that decides alone, as the store is silent:
    /// the share of one holder.
    pub(super) fn alone(&self, members: u32, had: u32) -> Cover {
        let holders = if self.members > 0 { self.members } else { members.max(1) };
        let tokens = self.terms.largest() / u64::from(holders);
        let tokens = u32::try_from(tokens).unwrap_or(u32::MAX).max(had).max(1);
        Cover { tokens, rate: self.limit() / u64::from(holders), until: Timestamp::MAX }
    }
}

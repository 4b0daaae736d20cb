//! The part of a key's limit that one member may spend by itself.
//!
//! **Tokens.** What was lent at once is in hand from the beginning. What trickles in is gathered for at most a tenth of a
//! second of the rate; beyond that it takes the place of tokens in hand that were spent, and what finds no place is
//! reported as unused. So a holder never has more than the ledger believes, and a burst never saves itself up unseen.
//!
//! **Time.** A lease ends before the ledger thinks so, without clocks that agree: it is counted from the instant at which
//! the ask was *sent*, which was before the ledger answered, and one part in [`DRIFT`] earlier than the ledger counts. So
//! the holder is right as long as the ledger's clock runs at most a thirty-second faster than the holder's own. A clock that
//! steps back ends the lease.

use core::time::Duration;

use super::demand::Demand;
use super::fault::Fault;
use super::message::{Ask, Grant, HolderName};
use super::terms::{Kind, Safe, Terms};
use super::{DEPTH, DRIFT, FALLBACK, SPACING};
use crate::cost::Cost;
use crate::time::{Timestamp, duration_nanos};

/// The lease of one key at one member.
///
/// It is small, since a member has one for each key it meets: [`Holder::BYTES`]. Once [`Holder::is_idle`] it may be dropped;
/// dropping it earlier loses what it holds, as a crash would.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Holder {
    /// Tokens that may be spent, in parts of a token by the period in nanoseconds.
    level: u64,
    /// Trickled in for nothing and not yet a whole token, in the same parts.
    over: u64,
    /// Until when the trickle is in `level`.
    at: Timestamp,
    /// When the lease ends by the holder's own clock. The beginning of time: there was none.
    until: Timestamp,
    /// When it is time to renew, traffic or none.
    renew_at: Timestamp,
    /// When to compare demand with what the ledger was told.
    check_at: Timestamp,
    /// With an ask under way: when it was sent. Otherwise: when the next one makes sense.
    asked: Timestamp,
    /// Before that nothing more is expected from the ledger, though it is asked now and then whether that has changed.
    none_before: Timestamp,
    demand: Demand,
    rate: u32,
    /// Tokens in hand that the ledger knows of; `level` beyond is the trickle of a moment.
    held: u32,
    keep: u32,
    fallback: u32,
    members: u32,
    returned: u32,
    /// `returned` as the last ask said it.
    told: u32,
    unused: u32,
    rtt_us: u32,
    incarnation: u32,
    seq: u32,
    acked: u32,
    epoch: u32,
    /// Asks in a row that were not answered.
    unanswered: u8,
    flags: u8,
}

/// An ask is under way.
const ASKING: u8 = 1;
/// ... and a request waits for it.
const AWAITED: u8 = 2;
/// The last grant said that there is less than is asked for.
const SCARCE: u8 = 4;
/// Tokens were given back and the ledger has not said that it knows, or what it granted has not arrived.
const OWES: u8 = 8;
/// The holder has left.
const GONE: u8 = 16;
/// The last grant was less than the holder is due.
const SHORT: u8 = 32;
/// A bucket that was hardly taken from when the ledger was asked last.
const RARE: u8 = 64;

/// How often demand is compared with what the ledger was told: so often in a period.
const CHECKS: u32 = 8;

/// How long a bucket that is hardly taken from is remembered beyond its lease, in case that it was the beginning of more.
const REMEMBERED: Duration = Duration::from_millis(600);

/// Units in a period from which on a lease is renewed before it is missed.
const RENEW_MIN: u32 = 4;

/// Units in a period by which demand may differ without being called different.
const NOISE: u32 = 8;

/// Which lease tokens were taken from; see [`Holder::stamp`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Stamp {
    incarnation: u32,
    seq: u32,
    acked: u32,
    is_lease: bool,
    at: Timestamp,
}

impl Stamp {
    /// When they were taken.
    pub const fn at(self) -> Timestamp {
        self.at
    }
}

/// What a holder answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Take {
    /// Go ahead; the tokens are spent.
    Taken {
        /// Whether now is a good time to [ask](Holder::ask), without anything waiting for the answer.
        renew: bool,
    },
    /// [Ask](Holder::ask) for the cost, carry the ask to the ledger, and take again when the answer is there.
    Ask,
    /// An ask is under way that may bring the tokens: take again when the answer is there.
    Pending,
    /// Not now. At `until` the same cost is there, or is worth asking for, if nothing else is taken before.
    Wait {
        /// That instant.
        until: Timestamp,
        /// Whether now is a good time to [ask](Holder::ask), without anything waiting for the answer.
        renew: bool,
    },
    /// Not ever: the cost is larger than the limit can hold.
    Never {
        /// The largest cost that it admits.
        largest: u64,
    },
}

impl Holder {
    /// What one takes in memory.
    pub const BYTES: usize = size_of::<Self>();

    /// A holder without a lease. `incarnation` is a number that the member has not used before for this key.
    pub const fn new(incarnation: u32) -> Self {
        Self {
            level: 0,
            over: 0,
            at: Timestamp::MIN,
            until: Timestamp::MIN,
            renew_at: Timestamp::MIN,
            check_at: Timestamp::MIN,
            asked: Timestamp::MIN,
            none_before: Timestamp::MIN,
            demand: Demand::NONE,
            rate: 0,
            held: 0,
            keep: 0,
            fallback: 0,
            members: 0,
            returned: 0,
            told: 0,
            unused: 0,
            rtt_us: 0,
            incarnation,
            seq: 0,
            acked: 0,
            epoch: 0,
            unanswered: 0,
            flags: 0,
        }
    }

    /// Takes `cost` at `now` if it is there. `attempt` is 0 for a request that is made for the first time: only those count
    /// as demand, so that a caller who tries again soon gets no larger a share for it. A request that has waited for an answer
    /// was counted before, so it takes again with another attempt.
    pub fn take(&mut self, terms: &Terms, cost: Cost, attempt: u32, now: Timestamp) -> Take {
        self.gather(terms, now);
        // What can never be given is nothing that a grant could meet.
        let largest = terms.largest();
        if cost.units() > largest {
            return Take::Never { largest };
        }
        if attempt == 0 || terms.has(Fault::RetriesAsDemand) {
            self.demand.add(cost.units(), now);
        }
        let parts = cost.units().saturating_mul(period_ns(terms));
        if let Some(level) = self.level.checked_sub(parts) {
            self.level = level;
            return Take::Taken { renew: self.is_due(terms, now) };
        }
        self.lacks(terms, parts, now)
    }

    /// Which tokens those are that were just taken, for [`Holder::put_back`].
    pub fn stamp(&self) -> Stamp {
        let Self { incarnation, seq, acked, at, .. } = *self;
        Stamp { incarnation, seq, acked, is_lease: at < self.until, at }
    }

    /// Puts tokens back that were taken and not spent; how many whole ones found a place.
    ///
    /// Only while the lease lasts that they were taken from and the ledger was not asked: afterwards they count as spent, at the
    /// ledger as here. Of a rate, less what has trickled in since, as had they been there it might have found no place: so
    /// it is meant for what is put back at once.
    pub fn put_back(&mut self, terms: &Terms, cost: Cost, stamp: Stamp, now: Timestamp) -> u64 {
        self.gather(terms, now);
        let (rate, is_lease) = (self.rate_now(terms, now), now < self.until);
        if self.is(GONE) || (rate == 0 && !is_lease) || (Stamp { at: stamp.at, ..self.stamp() }) != stamp {
            return 0;
        }
        let period = period_ns(terms);
        let since = duration_nanos(self.at.saturating_since(stamp.at));
        let parts = cost.units().saturating_mul(period).saturating_sub(rate.saturating_mul(since));
        let parts = parts.min(self.most(terms, rate, is_lease).saturating_sub(self.level));
        self.level = self.level.saturating_add(parts);
        parts / period
    }

    /// Whole tokens in hand as of when it was asked last.
    pub fn left(&self, terms: &Terms) -> u64 {
        self.level / period_ns(terms)
    }

    /// Whether the last ask was not answered.
    pub const fn is_unanswered(&self) -> bool {
        self.unanswered > 0
    }

    /// Whether the store is silent and what it lent is over, or of a window spent: more than what stands in for a lease is not
    /// to be had without it.
    pub fn lacks_store(&self, terms: &Terms, now: Timestamp) -> bool {
        self.is_unanswered() && (now >= self.until || matches!(terms.kind, Kind::Window(_)))
    }

    /// Whether something still trickles in at `at` if the store stays silent until then.
    pub fn goes_on(&self, terms: &Terms, at: Timestamp) -> bool {
        self.rate_now(terms, at) > 0
    }

    /// What it was asked for, in units each period; first attempts only.
    pub fn demand(&self, terms: &Terms, now: Timestamp) -> u64 {
        self.demand.each(terms.period(), now).into()
    }

    /// What trickles in, in units each period; 0 without a lease.
    pub fn rate(&self, now: Timestamp) -> u64 {
        if now < self.until { self.rate.into() } else { 0 }
    }

    /// The answer where the tokens are not there.
    #[cold]
    fn lacks(&mut self, terms: &Terms, parts: u64, now: Timestamp) -> Take {
        let trickle = self.rate_now(terms, now);
        let fits = parts <= self.most(terms, trickle, now < self.until);
        let there_at = if trickle > 0 && fits {
            let missing = (parts - self.level).div_ceil(trickle);
            now.saturating_add(Duration::from_nanos(missing))
        } else {
            Timestamp::MAX
        };
        let may_ask = !self.is(ASKING | GONE) && now >= self.asked;
        if self.unanswered > 0 || self.is(GONE) {
            let until = there_at.min(self.asked.max(now.saturating_add(SPACING)));
            return Take::Wait { until, renew: may_ask };
        }
        // Where all have their share, asking again brings nothing but calls.
        let has_share = self.is(SCARCE) && now < self.until && there_at < Timestamp::MAX;
        if self.is(ASKING) {
            let is_awaited = self.is(AWAITED) || now >= self.until;
            if is_awaited && !has_share {
                return Take::Pending;
            }
            let answered = self.asked.saturating_add(SPACING).max(now.saturating_add(SPACING));
            return Take::Wait { until: there_at.min(answered), renew: false };
        }
        if has_share {
            let renew = self.is_due(terms, now) || (may_ask && self.is(SHORT));
            return Take::Wait { until: there_at, renew };
        }
        if may_ask {
            return Take::Ask;
        }
        Take::Wait { until: there_at.min(self.asked.max(self.none_before)), renew: false }
    }

    /// Lets the next request ask at once, as after the limit was raised or reset.
    pub fn ask_soon(&mut self, now: Timestamp) {
        self.none_before = Timestamp::MIN;
        if !self.is(ASKING) {
            self.asked = self.asked.min(now);
        }
    }

    /// The ask to send at `now`, in the name of `member`, for a request that waits and costs `need`, or 0 if none does. `None`
    /// while another is under way.
    ///
    /// Tokens that nobody is likely to want soon are given back with it, at once and for good.
    pub fn ask(&mut self, terms: &Terms, member: u64, need: u64, now: Timestamp) -> Option<Ask> {
        if self.is(ASKING | GONE) {
            return None;
        }
        self.gather(terms, now);
        let period = period_ns(terms);
        let demand = self.demand.each(terms.period(), now);
        let in_hand = self.in_hand(period);
        let left = if need > 0 {
            in_hand
        } else {
            let rate = if now < self.until { self.rate } else { 0 };
            let beyond = match &terms.kind {
                // A rate that never gathers one token needs one to gather it in.
                Kind::Bucket(_) => demand.saturating_sub(rate).max(u32::from(demand > 0)),
                Kind::Window(_) => demand.saturating_add(demand / 4),
            };
            in_hand.min(beyond).min(self.keep)
        };
        self.give_back(in_hand - left, left, period);
        self.seq = self.seq.wrapping_add(1);
        self.asked = now;
        // What is not a whole token by now is forgone: the ledger credits only what came in since the ask before.
        self.over = 0;
        self.told = self.returned;
        self.demand.tell(demand);
        self.flags = self.flags & !OWES | ASKING | if need > 0 { AWAITED } else { 0 };
        Some(self.letter(terms, member, demand, need, now))
    }

    /// Gives everything back, for good: the last ask to send, when the member stops. Nothing is taken any more afterwards.
    pub fn leave(&mut self, terms: &Terms, member: u64, now: Timestamp) -> Ask {
        self.gather(terms, now);
        let period = period_ns(terms);
        let in_hand = self.in_hand(period);
        self.give_back(in_hand, 0, period);
        (self.level, self.rate, self.until) = (0, 0, self.until.min(now));
        self.seq = self.seq.wrapping_add(1);
        self.flags = GONE;
        Ask { is_leaving: true, ..self.letter(terms, member, 0, 0, now) }
    }

    /// Takes over an answer that arrived at `now`, and says how many units are good for the requests that wait right now and
    /// for nothing else: 0 but from a ledger that has no place for another holder.
    ///
    /// Answers to other asks than the one under way are ignored, as are those from an epoch that has passed, and those
    /// that arrive when what they grant has ended.
    pub fn granted(&mut self, terms: &Terms, grant: &Grant, now: Timestamp) -> u64 {
        if !self.is(ASKING) || grant.seq != self.seq {
            return 0;
        }
        self.gather(terms, now);
        self.flags &= !(ASKING | AWAITED);
        self.unanswered = 0;
        let sent = self.asked;
        self.asked = now;
        if grant.epoch < self.epoch {
            return 0;
        }
        self.epoch = grant.epoch;
        self.none_before = Timestamp::MIN;
        if !grant.again.is_zero() {
            // A limit may be raised or reset in the meantime.
            self.asked = now.saturating_add(grant.again.min(FALLBACK));
            if grant.again > FALLBACK {
                self.none_before = now.saturating_add(grant.again);
            }
        }
        if grant.ttl.is_zero() {
            return grant.lump.into();
        }
        let from = if terms.has(Fault::ExpiryFromReply) { now } else { sent };
        let lasts = grant.ttl.saturating_sub(grant.ttl / DRIFT);
        if from.saturating_add(lasts) <= now {
            self.flags |= OWES;
            return 0;
        }
        let took_us = now.saturating_since(sent).as_micros().min(1 << 24) as u32;
        self.rtt_us = if self.acked == 0 { took_us } else { self.rtt_us - self.rtt_us / 8 + took_us / 8 };
        let old_until = core::mem::replace(&mut self.until, from.saturating_add(lasts));
        let ahead = lasts / 12 + Duration::from_micros(2 * u64::from(self.rtt_us)).min(lasts / 2);
        self.renew_at = self.until.saturating_sub(ahead);
        self.check_at = now.saturating_add(terms.period() / CHECKS);
        if now >= old_until {
            // What the fallback gave is no part of what was lent.
            self.level = 0;
        }
        self.acked = self.seq;
        self.flags &= !(SCARCE | SHORT | RARE);
        let is_rare = matches!(terms.kind, Kind::Bucket(_)) && self.demand.told() < RENEW_MIN;
        self.flags |= if is_rare { RARE } else { 0 };
        self.flags |=
            if grant.is_scarce { SCARCE } else { 0 } | if grant.again > SPACING { SHORT } else { 0 };
        (self.rate, self.fallback, self.members, self.keep) =
            (grant.rate, grant.fallback, grant.members, grant.keep);
        self.take_over(terms, grant);
        0
    }

    /// Brings what is in hand in line with what the ledger knows of, and adds what it lent.
    fn take_over(&mut self, terms: &Terms, grant: &Grant) {
        let known = grant.held - grant.lump.min(grant.held);
        // Tokens that ended while the ask was under way were given back, if the ledger had them on record at all.
        let returned = self.returned.wrapping_sub(self.told);
        self.returned = self.told.wrapping_add(returned.min(known));
        let period = period_ns(terms);
        let unknown = self.held - self.held.min(known - returned.min(known));
        self.held = self.held - unknown + grant.lump;
        self.level = self.level.saturating_sub(u64::from(unknown).saturating_mul(period));
        self.level = self.level.saturating_add(u64::from(grant.lump).saturating_mul(period));
        let level = self.level.min(self.most(terms, self.rate.into(), true));
        self.count_unused(self.level - level, period);
        self.level = level;
    }

    /// No answer came, or an error. `members` is how many members there are as far as is known, at least 1.
    ///
    /// The lease lasts as long as it does; then the fallback of the last grant for as long as
    /// [`Terms::with_fallback`] says; then what [`Terms::with_safe`] says. The next ask makes sense after [`SPACING`], doubled with each that is not answered, up to 32
    /// times.
    pub fn lost(&mut self, members: u32, now: Timestamp) {
        if !self.is(ASKING) {
            return;
        }
        // The ledger may have granted something all the same, and hears with the next ask that it did not arrive.
        self.flags = self.flags & !(ASKING | AWAITED) | OWES;
        let wait = SPACING * (1 << self.unanswered.min(5));
        self.unanswered = self.unanswered.saturating_add(1);
        self.asked = now.saturating_add(wait);
        if self.until == Timestamp::MIN {
            self.members = members.max(1);
        }
    }

    /// When to see whether the holder [is due](Holder::is_due) even if nothing is taken: its share may be missed by others.
    /// `None` if it has none.
    pub fn wake_at(&self) -> Option<Timestamp> {
        if self.is(ASKING | GONE) {
            return None;
        }
        if self.is(RARE) {
            // Whoever takes from it renews it if need be; otherwise it ends by itself.
            return Some(self.until.saturating_add(REMEMBERED).max(self.asked));
        }
        let is_worth_it = self.held > 0 || self.is(OWES) || self.rate > 0;
        // Of less than the noise nothing can have been lost.
        let check_at = if self.demand.told() > NOISE { self.check_at } else { Timestamp::MAX };
        is_worth_it.then(|| self.renew_at.min(check_at).max(self.asked))
    }

    /// Whether now is a good time to [ask](Holder::ask), without anything waiting for the answer: the lease is about to end and
    /// will be missed, few tokens of a window are left, or demand is twice or two thirds of what the ledger was told.
    pub fn is_due(&mut self, terms: &Terms, now: Timestamp) -> bool {
        if self.is(ASKING | GONE) || now < self.asked {
            return false;
        }
        if now >= self.renew_at {
            // A bucket that is hardly taken from needs no lease until the next request comes, and the old one ends by itself.
            let is_answered = matches!(terms.kind, Kind::Bucket(_)) && self.unanswered == 0;
            if is_answered && self.demand.each(terms.period(), now) < RENEW_MIN {
                self.renew_at = now.saturating_add(terms.period() / CHECKS);
                return false;
            }
            return true;
        }
        let is_window = matches!(terms.kind, Kind::Window(_));
        if now < self.check_at {
            return is_window && self.is_low(terms);
        }
        self.check_at = now.saturating_add(terms.period() / CHECKS);
        if is_window {
            return self.is_low(terms);
        }
        let (demand, told) = (self.demand.each(terms.period(), now), self.demand.told());
        demand > told.saturating_mul(2).saturating_add(NOISE)
            || told > demand.saturating_add(demand / 2 + NOISE)
    }

    /// Whether nothing would be lost if it were dropped now.
    pub fn is_idle(&self, terms: &Terms, now: Timestamp) -> bool {
        // Of a window, what is in hand when the lease ends is still to be given back. A bucket's ledger knows when it has ended.
        let owes = matches!(terms.kind, Kind::Window(_)) && (self.is(OWES) || self.held > 0);
        self.is(GONE) || (!self.is(ASKING) && !owes && now >= self.until && now >= self.asked)
    }

    /// Whole tokens that may be spent at `now`.
    pub fn tokens(&self, terms: &Terms, now: Timestamp) -> u64 {
        let mut copy = self.clone();
        copy.gather(terms, now);
        copy.level / period_ns(terms)
    }

    /// When it may be [idle](Holder::is_idle) at the earliest.
    pub fn idle_at(&self) -> Timestamp {
        self.until.max(self.asked)
    }

    /// When the lease ends, by the holder's clock.
    pub const fn until(&self) -> Timestamp {
        self.until
    }

    fn is(&self, flags: u8) -> bool {
        self.flags & flags != 0
    }

    /// Whether tokens in hand are less than a tenth of what they were, or than is asked for while an ask is under way. Of a
    /// few tokens the last is worth waiting for.
    fn is_low(&self, terms: &Terms) -> bool {
        let period = period_ns(terms);
        let on_the_way = self.demand.parts(2 * u64::from(self.rtt_us));
        self.held >= 10 && self.level / period < u64::from(self.held / 10).max(on_the_way)
    }

    /// What trickles in at `now`, in units each period.
    fn rate_now(&self, terms: &Terms, now: Timestamp) -> u64 {
        let Kind::Bucket(refill) = &terms.kind else { return 0 };
        if now < self.until {
            return self.rate.into();
        }
        if self.unanswered == 0 {
            return 0;
        }
        let fallback = u64::from(self.fallback);
        match terms.safe {
            _ if self.until > Timestamp::MIN && now < self.until.saturating_add(terms.fallback) => fallback,
            Safe::Hold => fallback,
            Safe::Share => refill.quota / u64::from(self.members.max(1)),
            Safe::Zero => 0,
        }
    }

    /// The largest that `level` grows to by trickle, of a lease or of what stands in for one.
    fn most(&self, terms: &Terms, rate: u64, is_lease: bool) -> u64 {
        let period = period_ns(terms);
        let depth = rate.saturating_mul(duration_nanos(DEPTH));
        // Without a lease the ledger knows of nothing in hand, and one token has to fit.
        let depth = if is_lease { depth } else { depth.max(period) };
        u64::from(self.held).saturating_mul(period).saturating_add(depth)
    }

    /// Brings the level to `now`.
    fn gather(&mut self, terms: &Terms, now: Timestamp) {
        if now.saturating_add(SPACING) < self.at {
            // The clock stepped back: nobody knows how long the lease has lasted.
            self.until = self.until.min(now);
            self.asked = self.asked.min(now);
            self.none_before = Timestamp::MIN;
            self.renew_at = self.renew_at.min(now);
            self.end(terms);
            self.at = now;
        }
        if self.at < self.until {
            self.trickle(terms, self.rate.into(), now.min(self.until), true);
        }
        if now >= self.until {
            if self.held > 0 || self.rate > 0 {
                self.end(terms);
            }
            let rate = self.rate_now(terms, now);
            if rate == 0 {
                self.level = 0;
            } else {
                self.trickle(terms, rate, now, false);
            }
        }
        self.at = self.at.max(now);
    }

    fn trickle(&mut self, terms: &Terms, rate: u64, until: Timestamp, is_lease: bool) {
        let since = duration_nanos(until.saturating_since(self.at)).min(period_ns(terms));
        let level = self.level.saturating_add(rate.saturating_mul(since));
        self.level = level.min(self.most(terms, rate, is_lease));
        if is_lease {
            self.count_unused(level - self.level, period_ns(terms));
        }
        self.at = self.at.max(until);
    }

    /// Counts what trickled in and found no place. Not while an ask is under way: the ledger may just be forgetting the lease
    /// that it came from.
    fn count_unused(&mut self, parts: u64, period: u64) {
        if parts == 0 || self.is(ASKING) {
            return;
        }
        let parts = self.over.saturating_add(parts);
        self.over = parts % period;
        self.unused = self.unused.wrapping_add((parts / period) as u32);
    }

    /// The lease is over: what is in hand is not spent any more.
    fn end(&mut self, terms: &Terms) {
        let period = period_ns(terms);
        let in_hand = self.in_hand(period);
        let owed = self.flags & OWES;
        self.give_back(in_hand, 0, period);
        if matches!(terms.kind, Kind::Bucket(_)) {
            // A bucket's ledger forgets a lease that has ended: it is told with the next ask, if there is one.
            self.flags = self.flags & !OWES | owed;
        }
        self.count_unused(self.level, period);
        (self.level, self.rate, self.held) = (0, 0, 0);
    }

    /// Whole tokens of those that the ledger knows to be in hand.
    fn in_hand(&self, period: u64) -> u32 {
        (self.level / period).min(self.held.into()) as u32
    }

    /// Gives `tokens` back and keeps `left`.
    fn give_back(&mut self, tokens: u32, left: u32, period: u64) {
        self.level -= u64::from(tokens) * period;
        self.held = left;
        if tokens > 0 {
            self.returned = self.returned.wrapping_add(tokens);
            self.flags |= OWES;
        }
    }

    fn letter(&self, terms: &Terms, member: u64, demand: u32, need: u64, now: Timestamp) -> Ask {
        Ask {
            holder: HolderName { member, incarnation: self.incarnation },
            seq: self.seq,
            acked: self.acked,
            epoch: self.epoch,
            rate: self.rate_now(terms, now).min(u32::MAX.into()) as u32,
            left: self.held,
            returned: self.returned,
            unused: self.unused,
            demand,
            need,
            is_leaving: false,
            was_alone: self.is_unanswered() && now >= self.until && self.rate_now(terms, now) > 0,
        }
    }
}

/// A period in nanoseconds: the parts that a token has.
fn period_ns(terms: &Terms) -> u64 {
    terms.period_us * 1000
}

//! The part of a key's limit that one member may spend by itself.
//!
//! **Tokens.** The lump of a grant is in hand from the beginning. Tokens that trickle in are
//! gathered for at most a tenth of a second of the rate; beyond that they replace tokens in hand
//! that were spent, and the rest is reported as unused. So a holder never has more than the ledger
//! believes, and no burst accumulates unseen.
//!
//! **Cold keys.** Where few requests come nothing is leased ahead: requests wait for an ask, which
//! carries the sum of their costs and is granted that many tokens. So no tokens are idle here while
//! another member needs them.
//!
//! **Refusals** report the ledger's view: [`Balance`] is the ledger's level in its last answer,
//! less the units admitted here since.
//!
//! **A silent store.** From the first unanswered ask until the next answer, a request that exceeds
//! the lease gets [`Take::Alone`]: the member decides it by its [`Share`].
//!
//! **Phases.** A holder has a [`Contact`] with the ledger and a [`Supply`] that its last lease came
//! from:
//!
//! ```text
//! Answered ── ask ──► Asking ── granted ──► Answered
//!                     Asking ── lost, or answered too late ──► Silent
//! Silent ──── ask ──► Retrying ── granted ──► Answered
//!                     Retrying ── lost, or answered too late ──► Silent
//! any ─────── leave ──► Left
//!
//! Ample, Cold, Scarce, Short ── granted a lease ──► the supply of that grant
//! ```
//!
//! **Time.** A lease ends before the ledger thinks so, without clocks that agree: it is counted
//! from the instant at which the ask was *sent*, which was before the ledger answered, and one part
//! in [`DRIFT`](super::DRIFT) earlier than the ledger counts. So the holder is right as long as the
//! ledger's clock runs at most a thirty-second faster than the holder's own. A clock that steps
//! back ends the lease.

mod answers;
mod tokens;

use core::time::Duration;

use super::balance::Balance;
use super::demand::Demand;
use super::fault::Fault;
use super::message::{Ask, HolderName};
use super::phase::{Contact, Supply};
use super::terms::{Terms, TermsKind};
use super::{DEPTH, HOLDERS_MAX, PREFETCH, SPACING};
use crate::cost::Cost;
use crate::time::{Timestamp, duration_nanos};

/// The lease of one key at one member.
///
/// It is small, since a member has one for each key it meets: [`Holder::BYTES`]. Once
/// [`Holder::is_idle`] it may be dropped. An earlier drop loses the tokens, as a crash would.
///
/// ```
/// # use tidegate_core::lease::{Epoch, Holder, Ledger, LedgerLevel, Take, Terms};
/// # use tidegate_core::{Algorithm, Cost, Rate, Timestamp};
/// # let now = Timestamp::from_secs(1_800_000_000);
/// # let terms = Terms::from_algorithm(&Algorithm::bucket(Rate::per_second(1_000)?)?, now)?;
/// # let epoch = Epoch { number: 1, began: now, is_after_loss: false };
/// # let mut ledger = Ledger::begin(&terms, &epoch);
/// let mut holder = Holder::new(1);
/// assert_eq!(holder.take(&terms, Cost::ONE, 0, now), Take::Ask);
/// let ask = holder.ask(&terms, 7, 1, now).expect("a request waits");
/// assert_eq!(holder.take(&terms, Cost::ONE, 0, now), Take::Pending);
/// let grant = ledger.ask(now, &terms, &epoch, &ask).grant.expect("no later ask has overtaken it");
/// holder.granted(&terms, &grant, LedgerLevel::default(), now);
/// assert_eq!(holder.take(&terms, Cost::ONE, 1, now), Take::Taken { renew: false });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Holder {
    /// Tokens that may be spent, in parts of a token by the period in nanoseconds.
    level: u64,
    /// Unused trickle that is not yet a whole token, in the same parts.
    over: u64,
    /// The instant up to which the trickle is in `level`.
    at: Timestamp,
    /// When the lease ends by the holder's own clock. The beginning of time: there was none.
    until: Timestamp,
    /// When it is time to renew, with or without traffic.
    renew_at: Timestamp,
    /// When to compare demand with the demand last reported to the ledger.
    check_at: Timestamp,
    /// With an ask in flight: when it was sent. Otherwise: when the next one makes sense.
    asked: Timestamp,
    /// When the last ask ended, answered or not.
    ended: Timestamp,
    /// The usage of the key, as far as this member knows.
    balance: Balance,
    demand: Demand,
    /// The cost of the requests that wait for the ask in flight or will ask again after it; the
    /// next ask includes all of them.
    waiting: u32,
    rate: u32,
    /// Tokens in hand that the ledger knows of; `level` beyond is the trickle of a moment.
    held: u32,
    keep: u32,
    returned: u32,
    /// `returned` as the last ask said it.
    told: u32,
    unused: u32,
    rtt_us: u32,
    incarnation: u32,
    seq: u32,
    acked: u32,
    epoch: u32,
    /// How many holders had a lease at the last grant, at most [`u16::MAX`].
    members: u16,
    contact: Contact,
    supply: Supply,
    /// Whether tokens were given back and the ledger has not confirmed it, or the tokens that it
    /// granted have not arrived.
    owes: bool,
    /// Whether the last grant said that the store has lost the usage of the quota.
    is_lost: bool,
    /// Whether no request waited for the last ask, so that the ledger has not refused any.
    was_unneeded: bool,
}

/// How often in a period demand is compared with the demand last reported to the ledger.
const CHECKS: u32 = 8;

/// How often a holder without a rate checks for idle tokens: so often in a period.
const COLD_CHECKS: u32 = 16;

/// Units in a period from which on a lease with a rate is renewed before it is missed.
const RENEW_MIN: u32 = 4;

/// After so long without a request a stream that was worth a lease has stopped: eight times the
/// mean distance of its requests, at least.
const STOPPED: Duration = Duration::from_millis(500);

/// Units by which a ledger may credit less than the unused trickle, since it takes back whole
/// tokens only.
const ROUNDED: u64 = 2;

/// How often the time between two asks of a silent store doubles, from [`SPACING`]: three times, to
/// 800 ms.
const DOUBLINGS_MAX: u8 = 3;

/// Units in a period by which demand may differ without being called different.
const NOISE: u32 = 8;

/// The lease that tokens were taken from; see [`Holder::stamp`].
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

/// The answer of a holder to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Take {
    /// Go ahead; the tokens are spent.
    Taken {
        /// Whether now is a good time to [ask](Holder::ask), without anything waiting for the
        /// answer.
        renew: bool,
    },
    /// [Ask](Holder::ask) for the cost, carry the ask to the ledger, and take again when the answer
    /// is there.
    Ask,
    /// An ask is in flight that may bring the tokens: take again when the answer is there.
    Pending,
    /// Not now. At `until` there is room for the same cost, as far as the ledger has said, if
    /// nothing else is admitted before.
    Wait {
        /// That instant.
        until: Timestamp,
        /// Whether now is a good time to [ask](Holder::ask), without anything waiting for the
        /// answer.
        renew: bool,
    },
    /// The store is silent, and the lease lacks the tokens: the member decides alone, by its
    /// [share](Holder::share).
    Alone {
        /// Whether now is a good time to [ask](Holder::ask), without anything waiting for the
        /// answer.
        renew: bool,
    },
    /// The rest is unknown: the store has lost the usage of the quota, and its window has not ended
    /// since.
    Lost {
        /// Whether now is a good time to [ask](Holder::ask), without anything waiting for the
        /// answer.
        renew: bool,
    },
    /// Not ever: the cost is larger than the limit can hold.
    Never {
        /// The largest cost that it admits.
        largest: u64,
    },
}

/// The part of a limit by which a member decides alone: its rate divided by `holders`, its burst or
/// the limit of its window by `members`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Share {
    /// How many members had a lease of the key when the ledger granted the last one, or `members`
    /// if it has granted none.
    pub holders: u32,
    /// How many members there are, as far as is known; at least 1.
    pub members: u32,
}

impl Holder {
    /// The size of a holder in memory.
    pub const BYTES: usize = size_of::<Self>();

    /// A holder without a lease. `incarnation` is a number that the member has not used before for
    /// this key.
    pub fn new(incarnation: u32) -> Self {
        Self { incarnation, ..Self::default() }
    }

    /// Takes `cost` at `now` if it is there. `attempt` is 0 for a request that is made for the
    /// first time: only those count as demand, so that a caller who tries again soon gets no larger
    /// a share for it. A request that has waited for an answer was counted before, so it takes
    /// again with another attempt.
    pub fn take(&mut self, terms: &Terms, cost: Cost, attempt: u32, now: Timestamp) -> Take {
        self.gather(terms, now);
        // No grant could ever meet such a cost.
        let largest = terms.largest();
        if cost.units() > largest {
            return Take::Never { largest };
        }
        if attempt == 0 || terms.has(Fault::RetriesAsDemand) {
            self.demand.add(cost.units(), now);
        }
        let parts = cost.units().saturating_mul(period_ns(terms));
        if self.is_unanswered() && terms.has(Fault::AloneWithTokens) {
            return Take::Alone { renew: false };
        }
        let answer = if let Some(level) = self.level.checked_sub(parts) {
            self.level = level;
            self.balance.charge(terms, cost.units(), now);
            Take::Taken { renew: self.poll_due(terms, now) }
        } else {
            self.lacks(terms, cost, now)
        };
        let units = u32::try_from(cost.units()).unwrap_or(u32::MAX);
        match answer {
            Take::Ask | Take::Pending => self.waiting = self.waiting.saturating_add(units),
            // The request waited before, and no longer does.
            _ if attempt > 0 => self.waiting = self.waiting.saturating_sub(units),
            _ => {}
        }
        answer
    }

    /// Identifies the tokens that were just taken, for [`Holder::put_back`].
    pub fn stamp(&self) -> Stamp {
        let Self { incarnation, seq, acked, at, .. } = *self;
        Stamp { incarnation, seq, acked, is_lease: at < self.until, at }
    }

    /// Puts tokens back that were taken and not spent, and returns how many whole tokens found a
    /// place.
    ///
    /// Only while the lease lasts that they were taken from and the ledger was not asked:
    /// afterwards they count as spent, at the ledger as here. Of a rate, less what has trickled in
    /// since, as had they been there it might have found no place: so it is meant for what is put
    /// back at once.
    pub fn put_back(&mut self, terms: &Terms, cost: Cost, stamp: Stamp, now: Timestamp) -> u64 {
        self.gather(terms, now);
        let (rate, is_lease) = (self.rate_now(terms, now), now < self.until);
        if self.contact.has_left()
            || (rate == 0 && !is_lease)
            || (Stamp { at: stamp.at, ..self.stamp() }) != stamp
        {
            return 0;
        }
        let period = period_ns(terms);
        let since = duration_nanos(self.at.saturating_since(stamp.at));
        let parts = cost.units().saturating_mul(period).saturating_sub(rate.saturating_mul(since));
        let parts = parts.min(self.most(terms, rate, is_lease).saturating_sub(self.level));
        self.level = self.level.saturating_add(parts);
        self.balance.give_back(terms, parts / period);
        parts / period
    }

    /// Lets tokens that were put back return to the ledger at once where few requests come: the
    /// next may come to another member.
    pub fn return_soon(&mut self, now: Timestamp) {
        if self.supply == Supply::Cold {
            self.renew_at = self.renew_at.min(now);
        }
    }

    /// Counts units as used that were granted to a request that waited, and not taken from the
    /// lease.
    pub fn charge(&mut self, terms: &Terms, cost: Cost, now: Timestamp) {
        self.balance.charge(terms, cost.units(), now);
        self.waiting = self.waiting.saturating_sub(u32::try_from(cost.units()).unwrap_or(u32::MAX));
    }

    /// The usage of the key, as far as this member knows.
    pub const fn balance(&self) -> Balance {
        self.balance
    }

    /// The share by which it decides alone while the store is silent. `members` is how many there
    /// are as far as is known, at least 1.
    pub fn share(&self, terms: &Terms, members: u32) -> Share {
        if terms.has(Fault::ShareOfOne) {
            return Share { holders: 1, members: 1 };
        }
        let members = members.max(1);
        Share { holders: if self.members > 0 { self.members.into() } else { members }, members }
    }

    /// Whether the last ask was not answered.
    pub const fn is_unanswered(&self) -> bool {
        self.contact.unanswered() > 0
    }

    /// The highest epoch of the store that it has seen, whose lease it spends; 0 before the first
    /// grant.
    pub const fn epoch(&self) -> u32 {
        self.epoch
    }

    /// When the last ask ended, answered or not; the beginning of time if none has.
    pub const fn ended(&self) -> Timestamp {
        self.ended
    }

    /// The demand at this holder, in units each period; first attempts only.
    pub fn demand(&self, terms: &Terms, now: Timestamp) -> u64 {
        self.demand.each(terms.period(), now).into()
    }

    /// Whether nothing is left of the demand at `now`: the next request begins a new measurement.
    pub fn has_faded(&self, now: Timestamp) -> bool {
        self.demand.has_faded(now)
    }

    /// Whether all [`HOLDERS_MAX`] places for holders of the key were taken when the ledger granted
    /// last. Its grants are then for waiting requests only, and leave no lease behind.
    pub const fn is_crowded(&self) -> bool {
        self.members as usize >= HOLDERS_MAX
    }

    /// The rate of the lease, in units each period; 0 without a lease.
    pub fn rate(&self, now: Timestamp) -> u64 {
        if now < self.until { self.rate.into() } else { 0 }
    }

    /// The answer when the tokens in hand do not suffice.
    #[cold]
    fn lacks(&mut self, terms: &Terms, cost: Cost, now: Timestamp) -> Take {
        let may_ask = self.contact.may_ask() && now >= self.asked;
        if self.is_unanswered() {
            if terms.has(Fault::NothingAlone) {
                return Take::Wait { until: now.saturating_add(SPACING), renew: may_ask };
            }
            return Take::Alone { renew: may_ask };
        }
        if self.is_lost && !may_ask {
            return if self.contact.is_asking() { Take::Pending } else { Take::Lost { renew: false } };
        }
        let parts = cost.units().saturating_mul(period_ns(terms));
        let is_lease = now < self.until;
        let trickle = self.rate_now(terms, now);
        let trickled_at = if trickle > 0 && parts <= self.most(terms, trickle, is_lease) {
            now.saturating_add(Duration::from_nanos((parts - self.level).div_ceil(trickle)))
        } else {
            Timestamp::MAX
        };
        // Where all holders have their share, another ask brings nothing but a call.
        let is_scarce = matches!(self.supply, Supply::Scarce | Supply::Short);
        let has_share = is_scarce && is_lease && trickled_at < Timestamp::MAX;
        if has_share {
            let is_short = self.supply == Supply::Short;
            let renew = !self.contact.is_asking() && (self.poll_due(terms, now) || (may_ask && is_short));
            return Take::Wait { until: trickled_at, renew };
        }
        if self.contact.is_asking() {
            return Take::Pending;
        }
        // The ledger takes back unused trickle in whole tokens only.
        let rounded = if trickle > 0 { ROUNDED } else { 0 };
        let room_at = self.balance.room_at(terms, cost.units() + rounded, now);
        // Room that has come since the ledger answered is worth asking for at once, and room that
        // the ledger was not asked for.
        let is_new = self.was_unneeded || self.balance.room_at(terms, cost.units(), self.ended) > self.ended;
        let has_room = room_at <= now && is_new;
        if (may_ask || has_room) && !self.contact.has_left() {
            return Take::Ask;
        }
        let soonest = room_at.max(now.saturating_add(Duration::from_millis(1)));
        let until = if room_at <= now { self.asked.max(soonest) } else { room_at };
        Take::Wait { until: until.min(trickled_at.max(soonest)), renew: false }
    }

    /// Takes over terms that replace `old`, as after a reload, and lets the next request ask at
    /// once.
    ///
    /// Where the lease period is another one, tokens in hand and the end of the lease stay as they
    /// are, and the rate is counted over the new period, rounded down. The answer to an ask in
    /// flight counts in the old period and is ignored; the ledger learns so with the next ask.
    pub fn change_terms(&mut self, old: &Terms, terms: &Terms, now: Timestamp) {
        if old.period_us != terms.period_us {
            self.gather(old, now);
            let rescaled = |number: u64| {
                let number = u128::from(number) * u128::from(terms.period_us) / u128::from(old.period_us);
                u64::try_from(number).unwrap_or(u64::MAX)
            };
            let rescaled_u32 = |number: u32| u32::try_from(rescaled(number.into())).unwrap_or(u32::MAX);
            (self.level, self.over) = (rescaled(self.level), rescaled(self.over));
            self.rate = rescaled_u32(self.rate);
            self.demand.tell(rescaled_u32(self.demand.told()));
            if self.contact.is_asking() {
                self.contact = self.contact.land();
                self.owes = true;
                (self.asked, self.ended) = (now, now);
            }
        }
        self.ask_soon(now);
    }

    /// Lets the next request ask at once, as after the limit was raised or reset.
    pub fn ask_soon(&mut self, now: Timestamp) {
        if !self.contact.is_asking() {
            self.asked = self.asked.min(now);
        }
    }

    /// The ask to send at `now`, in the name of `member`, for a waiting request of cost `need_min`,
    /// or 0 if no request waits. It asks for the total cost of the requests that had to wait since
    /// the previous ask. `None` while another ask is in flight.
    ///
    /// Tokens that are unlikely to be used soon are given back with it, at once and for good.
    pub fn ask(&mut self, terms: &Terms, member: u64, need_min: u64, now: Timestamp) -> Option<Ask> {
        if !self.contact.may_ask() {
            return None;
        }
        self.gather(terms, now);
        let period = period_ns(terms);
        let demand = self.demand_now(terms, now);
        let in_hand = self.in_hand(period);
        let gives_up = self.rate > 0 && self.has_fallen(demand);
        if gives_up {
            self.rate = 0;
        }
        let waiting = u64::from(self.waiting).min(terms.largest()).max(need_min);
        // Tokens that trickled in are available too, although the ledger counts them as spent.
        let trickled = self.level / period - u64::from(in_hand);
        let needed = |units: u64| if need_min > 0 { units.saturating_sub(trickled).max(1) } else { 0 };
        let (need, need_min) = (needed(waiting), needed(need_min));
        self.waiting = 0;
        self.was_unneeded = need == 0;
        let left =
            if need > 0 { in_hand } else { in_hand.min(self.wanted(terms, demand, now)).min(self.keep) };
        self.give_back(in_hand - left, left, period);
        self.seq = self.seq.wrapping_add(1);
        self.asked = now;
        // A fraction of a token is dropped: the ledger credits only tokens that came in since the
        // previous ask.
        self.over = 0;
        self.told = self.returned;
        self.demand.tell(demand);
        self.owes = false;
        self.contact = self.contact.ask();
        Some(Ask { need, need_min, gives_up, ..self.letter(member, demand) })
    }

    /// The demand to report, in units each period: zero if a stream that was worth a lease has
    /// stopped.
    fn demand_now(&self, terms: &Terms, now: Timestamp) -> u32 {
        let demand = self.demand.each(terms.period(), now);
        let has_stopped = now.saturating_since(self.demand.last()) >= STOPPED;
        if has_stopped && u64::from(demand) >= terms.leased_min() { 0 } else { demand }
    }

    /// Whether demand is at most two thirds of the demand last reported to the ledger.
    fn has_fallen(&self, demand: u32) -> bool {
        self.demand.told() > demand.saturating_add(demand / 2 + NOISE)
    }

    /// Tokens that are worth keeping in hand although nothing waits for them, where so much is
    /// asked for in a period.
    fn wanted(&self, terms: &Terms, demand: u32, now: Timestamp) -> u32 {
        if u64::from(demand) < terms.leased_min() {
            return demand / PREFETCH;
        }
        let rate = if now < self.until { self.rate } else { 0 };
        match &terms.kind {
            // A rate that never gathers one token needs one to gather it in.
            TermsKind::Bucket(_) => demand.saturating_sub(rate).max(1),
            TermsKind::Window(_) => demand.saturating_add(demand / 4),
        }
    }

    /// Gives everything back, for good: the last ask to send, when the member stops. Nothing is
    /// taken any more afterwards.
    pub fn leave(&mut self, terms: &Terms, member: u64, now: Timestamp) -> Ask {
        self.gather(terms, now);
        let period = period_ns(terms);
        let in_hand = self.in_hand(period);
        self.give_back(in_hand, 0, period);
        (self.level, self.rate, self.until) = (0, 0, self.until.min(now));
        self.seq = self.seq.wrapping_add(1);
        (self.contact, self.supply) = (Contact::Left, Supply::Ample);
        (self.owes, self.is_lost) = (false, false);
        Ask { is_leaving: true, ..self.letter(member, 0) }
    }

    /// When to call [`Holder::poll_due`] even if nothing is taken, since other members may miss its
    /// share. `None` if it has no share.
    pub fn wake_at(&self) -> Option<Timestamp> {
        if !self.contact.may_ask() {
            return None;
        }
        if self.supply == Supply::Cold {
            // Other members miss nothing but its tokens in hand.
            return (self.level > 0 || self.owes).then(|| self.renew_at.max(self.asked));
        }
        let is_worth_it = self.held > 0 || self.owes || self.rate > 0;
        // A demand below the noise cannot have fallen.
        let check_at = if self.demand.told() > NOISE { self.check_at } else { Timestamp::MAX };
        is_worth_it.then(|| self.renew_at.min(check_at).max(self.asked))
    }

    /// Checks whether now is a good time to [ask](Holder::ask) although no request waits for the
    /// answer: the lease is about to end and will be missed, few tokens of a window are left, or
    /// demand is twice or two thirds of the demand last reported to the ledger. A check that finds
    /// nothing to do also schedules the next check, so [`Holder::wake_at`] moves.
    pub fn poll_due(&mut self, terms: &Terms, now: Timestamp) -> bool {
        if !self.contact.may_ask() || now < self.asked {
            return false;
        }
        if self.supply == Supply::Cold {
            if now < self.renew_at {
                return false;
            }
            self.renew_at = now.saturating_add(terms.period() / COLD_CHECKS);
            let in_hand = self.in_hand(period_ns(terms));
            if now >= self.until {
                // A bucket's ledger knows when a lease has ended.
                return matches!(terms.kind, TermsKind::Window(_)) && (in_hand > 0 || self.owes);
            }
            // A bucket loses the tokens that are in hand when the lease ends.
            let ends_soon = self.until <= now.saturating_add(terms.period() / COLD_CHECKS);
            return in_hand > self.wanted(terms, self.demand_now(terms, now), now)
                || (ends_soon && in_hand > 0);
        }
        if now >= self.renew_at {
            // A bucket that is hardly taken from needs no lease until the next request comes, and
            // the old one ends by itself.
            let is_answered = matches!(terms.kind, TermsKind::Bucket(_)) && !self.is_unanswered();
            if is_answered && self.demand.each(terms.period(), now) < RENEW_MIN {
                self.renew_at = now.saturating_add(terms.period() / CHECKS);
                return false;
            }
            return true;
        }
        let is_window = matches!(terms.kind, TermsKind::Window(_));
        if now < self.check_at {
            return is_window && self.is_low(terms);
        }
        self.check_at = now.saturating_add(terms.period() / CHECKS);
        if is_window {
            return self.is_low(terms);
        }
        let (demand, told) = (self.demand_now(terms, now), self.demand.told());
        demand > told.saturating_mul(2).saturating_add(NOISE) || self.has_fallen(demand)
    }

    /// Whether dropping it now loses nothing.
    pub fn is_idle(&self, terms: &Terms, now: Timestamp) -> bool {
        // Tokens of a window that are in hand when the lease ends must still be returned. A
        // bucket's ledger knows when the lease has ended.
        let in_hand = self.in_hand(period_ns(terms));
        let owes = matches!(terms.kind, TermsKind::Window(_)) && (self.owes || in_hand > 0);
        self.contact.has_left()
            || (!self.contact.is_asking() && !owes && now >= self.until && now >= self.asked)
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

    /// Whether tokens in hand are less than a tenth of what they were, or less than the demand
    /// during a round trip. A few tokens are used to the last.
    fn is_low(&self, terms: &Terms) -> bool {
        let period = period_ns(terms);
        let on_the_way = self.demand.parts(2 * u64::from(self.rtt_us));
        self.held >= 10 && self.level / period < u64::from(self.held / 10).max(on_the_way)
    }

    /// The rate at which tokens trickle in at `now`, in units each period.
    fn rate_now(&self, terms: &Terms, now: Timestamp) -> u64 {
        if matches!(terms.kind, TermsKind::Bucket(_)) { self.rate(now) } else { 0 }
    }

    /// The largest that `level` grows to by trickle.
    fn most(&self, terms: &Terms, rate: u64, is_lease: bool) -> u64 {
        let period = period_ns(terms);
        let depth = if is_lease { rate.saturating_mul(duration_nanos(DEPTH)) } else { 0 };
        u64::from(self.held).saturating_mul(period).saturating_add(depth)
    }

    /// An ask for which no request waits.
    fn letter(&self, member: u64, demand: u32) -> Ask {
        Ask {
            holder: HolderName { member, incarnation: self.incarnation },
            seq: self.seq,
            acked: self.acked,
            epoch: self.epoch,
            left: self.held,
            returned: self.returned,
            unused: self.unused,
            demand,
            need: 0,
            need_min: 0,
            is_leaving: false,
            gives_up: false,
            lifetime: Duration::ZERO,
        }
    }
}

/// A period in nanoseconds: the parts that a token has.
fn period_ns(terms: &Terms) -> u64 {
    terms.period_us * 1000
}

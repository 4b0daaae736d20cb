//! Remote buckets: parts of leased limits that a peer spends which decides by itself, such as an
//! Envoy with its rate limit quota filter.
//!
//! The member makes the asks and takes the grants; the peer is told an [`Assignment`]: a token
//! bucket and how long it holds. It confirms nothing. So what a peer may be spending is the most of
//! all that it was told and may not have replaced yet, and a lease covers it:
//!
//! * *Tokens.* A peer's bucket that holds at most `M` tokens spends like a holder with `M` tokens
//!   in hand whose refill replaces those that were spent. `M` is granted when it is first sent, and
//!   again by each increase. A peer that had no bucket begins full, also after a denial and after
//!   its assignment has ended: then all of `M` is granted anew, and what was in hand counts as
//!   spent.
//! * *Rate.* It is at most the rate of the lease. Of slow limits, whose leases say little in whole
//!   tokens each period, tokens in hand refill the peer's bucket, too.
//! * *Time.* A message is taken within [`TAKEN_WITHIN`] or its stream ends. So an assignment ends
//!   at most [`LEASE_MARGIN`] after its time to live, and its lease later than that. A lower
//!   assignment counts from when it is known to be taken; until then the ledger keeps the grant
//!   before, and is not asked.
//!
//! `docs/internals/leases-envoys.md` says what follows from that for those who ask.

mod assignment;
mod bounds;
mod holder;

use core::time::Duration;
use std::sync::Arc;

use smallvec::SmallVec;

pub use self::assignment::{Assignment, TokenBucket};
use self::assignment::{MICRO, MicroRate, Sent, Spending, tokens_in};
pub use self::bounds::{LEASE_MARGIN, TAKEN_WITHIN};
use self::holder::{Cover, RemoteHolder};
use super::DRIFT;
use super::balance::LedgerLevel;
use super::fault::Fault;
use super::message::{Ask, Grant, HolderName};
use super::terms::Terms;
use crate::time::{Timestamp, duration_nanos};

/// A lease lasts so much longer, so that the ledger may be silent between two reports: 8 s.
const SPARE: Duration = Duration::from_secs(8);

/// After so many reports of nothing, and so long, a bucket is abandoned.
const IDLE_REPORTS: u8 = 3;
const IDLE_SPAN: Duration = Duration::from_secs(9);

/// By at most so much a peer says too little about the time since its last report: it says whole
/// seconds, and the report takes its time.
const REPORT_SLACK: Duration = Duration::from_secs(2);

/// Demand is measured over this time at least.
const DEMAND_SPAN: Duration = Duration::from_secs(1);

/// A peer is told so long before its assignment ends, also if a ledger owes it more.
const WAIT_MARGIN: Duration = Duration::from_secs(1);

/// The most assignments that are remembered one by one.
const SENT_MAX: usize = 8;

/// The result of a step of a bucket.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RemoteStep {
    /// Asks to carry to the ledgers, with the position of the limit.
    pub asks: SmallVec<[(usize, Ask); 1]>,
    /// The assignments to send to the peer now, in this order.
    pub tell: SmallVec<[Assignment; 2]>,
    /// When to step again if nothing else happens; `None` for not before the next report.
    pub next: Option<Timestamp>,
}

/// A bucket of a peer, with a lease of each limit that it meets.
///
/// A caller tells it of reports, grants and acts, and then [steps](RemoteBucket::step) it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RemoteBucket {
    name: HolderName,
    ttl: Duration,
    holders: Vec<RemoteHolder>,
    /// The assignments that the peer may be spending by, the last one last.
    sent: SmallVec<[Sent; 2]>,
    /// How many of them, from the last, were sent on the present stream.
    on_stream: usize,
    is_open: bool,
    /// Whether the peer waits for an answer.
    is_due: bool,
    /// Whether the peer's next token bucket begins full.
    is_fresh: bool,
    /// Until when the peer may have an assignment of another member, which a denial would end.
    spares_until: Timestamp,
    /// Until when the peer has an assignment, of this member or another one, as far as is known.
    lasts_until: Timestamp,
    treatment: Treatment,
    demand: Option<MicroRate>,
    counted: u64,
    counted_since: Option<Timestamp>,
    /// When the peer reported last.
    reported_at: Timestamp,
    idle_reports: u8,
    busy_at: Timestamp,
    /// The most tokens that the peer's bucket may hold, as far as was accounted for.
    in_bucket: u32,
    /// Tokens that have come into the peer's bucket since it spent any.
    rested: u32,
    /// The slowest refill that the peer may have had since it last reported.
    slowest: MicroRate,
}

/// Whether a bucket gets tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Treatment {
    Served,
    /// An operator, or a limit itself, denies it.
    Blocked,
    /// The peer was told to forget it.
    Abandoned,
}

impl RemoteBucket {
    /// A bucket of a peer whose assignments live for `ttl`, in whole seconds. `name` is that of its
    /// holders: the same `member` for all that the peer ever has, so that one of its leases takes
    /// the place of another, and an `incarnation` that was not used before.
    pub fn new(name: HolderName, ttl: Duration, now: Timestamp) -> Self {
        Self {
            name,
            ttl,
            holders: Vec::new(),
            sent: SmallVec::new(),
            on_stream: 0,
            is_open: true,
            is_due: false,
            is_fresh: true,
            spares_until: now,
            lasts_until: now,
            treatment: Treatment::Served,
            demand: None,
            counted: 0,
            counted_since: None,
            reported_at: now,
            idle_reports: 0,
            busy_at: now,
            in_bucket: 0,
            rested: 0,
            slowest: 0,
        }
    }

    /// How long a lease for assignments of `ttl` lasts.
    pub fn lifetime(ttl: Duration) -> Duration {
        ttl + LEASE_MARGIN + SPARE
    }

    /// The limits that it meets from now on, each with a number of its own. A limit that it met
    /// before keeps its lease, also under other terms; the lease of one that it meets no more ends
    /// by itself.
    pub fn set_limits(&mut self, limits: &[(u64, Arc<Terms>)], now: Timestamp) {
        let is_same = |(holder, (key, terms)): (&RemoteHolder, &(u64, Arc<Terms>))| {
            holder.key == *key && *holder.terms == **terms
        };
        if self.holders.len() == limits.len() && self.holders.iter().zip(limits).all(is_same) {
            return;
        }
        let mut former = core::mem::take(&mut self.holders);
        for (key, terms) in limits {
            let found = former.iter().position(|holder| holder.key == *key);
            let mut holder = match found {
                Some(at) => former.swap_remove(at),
                None => RemoteHolder::new(*key, Arc::clone(terms), self.name, now),
            };
            holder.set_terms(terms, now);
            self.holders.push(holder);
        }
        self.is_due |= self.is_open && !self.sent.is_empty();
    }

    /// The peer reports what it admitted and denied since its last report, which it says is
    /// `elapsed` ago.
    pub fn report(&mut self, allowed: u64, denied: u64, elapsed: Duration, now: Timestamp) {
        let total = allowed.saturating_add(denied);
        if self.treatment == Treatment::Abandoned {
            // It has begun anew.
            (self.treatment, self.is_fresh) = (Treatment::Served, true);
        }
        match self.counted_since {
            None => {
                self.lasts_until = now;
                if elapsed >= DEMAND_SPAN {
                    // It had the bucket before, and maybe an assignment of another member.
                    self.demand = Some(over(total, elapsed));
                    self.spares_until = now.saturating_add(self.ttl + LEASE_MARGIN);
                    self.lasts_until = now.saturating_add(self.ttl.saturating_sub(elapsed));
                    // It was not started anew, nor has it been elsewhere: it has the bucket that it
                    // had, whose tokens are in hand as before.
                    let is_back = now.saturating_since(self.reported_at) <= elapsed + REPORT_SLACK;
                    self.is_fresh &= !(is_back && self.spending(now).tokens > 0);
                }
                self.counted_since = Some(now);
            }
            Some(since) => {
                self.counted = self.counted.saturating_add(total);
                let span = now.saturating_since(since);
                if span >= DEMAND_SPAN || now < since {
                    self.demand = Some(over(self.counted, span.max(DEMAND_SPAN)));
                    (self.counted, self.counted_since) = (0, Some(now));
                }
            }
        }
        if total > 0 {
            (self.idle_reports, self.busy_at, self.rested) = (0, now, 0);
        } else {
            self.idle_reports = self.idle_reports.saturating_add(1);
            let span = now.saturating_since(self.reported_at);
            self.rested = self.rested.saturating_add(tokens_in(self.slowest, span, false));
        }
        self.slowest = self.slowest_refill(now);
        self.is_fresh |= self.holders.iter().any(RemoteHolder::is_spot);
        (self.is_due, self.reported_at) = (true, now);
        self.holders.iter_mut().for_each(|holder| holder.reported(now));
    }

    /// The peer has taken all that it was sent on the present stream. Without this it has when
    /// [`TAKEN_WITHIN`] has passed.
    pub fn taken(&mut self, now: Timestamp) {
        let own = self.sent.len() - self.on_stream;
        for sent in &mut self.sent[own..] {
            sent.taken_at = sent.taken_at.min(now);
        }
        for holder in self.holders.iter_mut().filter(|holder| holder.owes()) {
            holder.ask_soon(now);
        }
    }

    /// The stream has ended: nothing can be told, and what was sent last may not have been taken.
    pub fn closed(&mut self) {
        (self.is_open, self.is_due, self.on_stream) = (false, false, 0);
    }

    /// The peer has come back on another stream. Maybe it was started anew: its token bucket may
    /// begin full.
    pub fn opened(&mut self, now: Timestamp) {
        // Answers to what was asked for the former stream are not waited for.
        self.holders.iter_mut().for_each(|holder| holder.forget_ask(now));
        (self.is_open, self.is_fresh, self.counted_since) = (true, true, None);
        // A report that was lost may have named requests that it admitted meanwhile.
        (self.idle_reports, self.busy_at, self.rested) = (0, now, 0);
    }

    /// Denies from now on, or no more.
    pub fn set_blocked(&mut self, is_blocked: bool, now: Timestamp) {
        let treatment = if is_blocked { Treatment::Blocked } else { Treatment::Served };
        if self.treatment != treatment && self.treatment != Treatment::Abandoned {
            self.treatment = treatment;
            self.renew(now);
        }
    }

    /// Begins anew after what was used of a limit was forgotten: the peer's bucket is filled.
    pub fn reset(&mut self, now: Timestamp) {
        self.is_fresh = true;
        self.renew(now);
    }

    /// Asks all ledgers and tells the peer.
    pub fn renew(&mut self, now: Timestamp) {
        for holder in &mut self.holders {
            holder.is_current = false;
            holder.ask_soon(now);
        }
        self.is_due = self.is_open;
    }

    /// Takes over the answer to an ask of the limit with this number.
    pub fn granted(&mut self, key: u64, grant: &Grant, level: LedgerLevel, now: Timestamp) {
        let spending = self.spending(now);
        if let Some(holder) = self.holders.iter_mut().find(|holder| holder.key == key) {
            holder.granted(&spending, grant, level, now);
            holder.is_current = true;
        }
    }

    /// An ask of the limit with this number had no answer.
    pub fn lost(&mut self, key: u64, now: Timestamp) {
        if let Some(holder) = self.holders.iter_mut().find(|holder| holder.key == key) {
            holder.lost(now);
            holder.is_current = true;
        }
    }

    /// Whether nothing is left of it: the peer was told to forget it, or is gone, and no lease of
    /// it lasts.
    pub fn is_over(&self, now: Timestamp) -> bool {
        let is_held = |holder: &RemoteHolder| holder.is_asking() || now < holder.until();
        let is_gone = !self.is_open || (self.treatment == Treatment::Abandoned && !self.is_due);
        is_gone
            && self.spending(now).ends <= now
            && now >= self.spares_until
            && !self.holders.iter().any(is_held)
    }

    /// Requests in a thousand seconds by the last reports.
    pub fn demand_each_1000_s(&self) -> u64 {
        self.demand.unwrap_or(0) / (MICRO / 1_000)
    }

    /// The assignment that the peer was told last and when that ends at the latest; `None` if
    /// nothing is in force.
    pub fn told(&self, now: Timestamp) -> Option<(Option<TokenBucket>, Timestamp)> {
        let last = self.sent.last().filter(|last| last.ends() > now)?;
        Some((last.bucket, last.ends()))
    }

    /// Whether the peer was told last what this member decided alone, as a ledger is silent.
    pub fn is_alone(&self) -> bool {
        self.sent.last().is_some_and(|last| last.is_alone)
    }

    /// The most that the peer may be spending.
    fn spending(&self, now: Timestamp) -> Spending {
        let mut most = Spending { ends: now, ..Spending::default() };
        for sent in self.sent.iter().filter(|sent| sent.ends() > now) {
            if let Some(bucket) = &sent.bucket {
                most.tokens = most.tokens.max(bucket.max_tokens);
                most.rate = most.rate.max(bucket.rate());
                most.ends = most.ends.max(sent.ends());
            }
        }
        most
    }

    /// The slowest refill of all assignments that the peer may be spending by.
    fn slowest_refill(&self, now: Timestamp) -> MicroRate {
        let in_force = self.sent.iter().filter(|sent| sent.ends() > now);
        let refills = in_force.map(|sent| sent.bucket.as_ref().map_or(0, TokenBucket::rate));
        refills.min().unwrap_or(0)
    }

    /// The tokens of a peer's bucket that may have been spent, of those that count as in hand.
    ///
    /// Its refill was counted as spent all the time. While it rested that came to its bucket
    /// instead, and of that the peer may have spent a bucket since its last report.
    fn maybe_spent(&self) -> u32 {
        let unspent = self.rested.saturating_sub(self.in_bucket);
        self.in_bucket.saturating_sub(unspent)
    }

    /// Forgets what the peer no longer spends by.
    fn prune(&mut self, now: Timestamp) {
        let own = self.sent.len() - self.on_stream;
        let taken = (own..self.sent.len()).rev().find(|at| self.sent[*at].taken_at <= now);
        if let Some(taken) = taken {
            self.sent.drain(..taken);
        }
        let last = self.sent.len().saturating_sub(1);
        let mut at = 0;
        self.sent.retain(|sent| {
            at += 1;
            at > last || sent.ends() > now
        });
        self.on_stream = self.on_stream.min(self.sent.len());
    }

    /// Goes on at `now`. `members` is how many members there are as far as is known.
    pub fn step(&mut self, members: u32, now: Timestamp) -> RemoteStep {
        let mut step = RemoteStep::default();
        let before = self.spending(now);
        self.holders.iter_mut().for_each(|holder| holder.account(&before, now));
        self.prune(now);
        let spending = self.spending(now);
        if spending.tokens > 0 && spending.tokens < before.tokens {
            let fewer = before.tokens - spending.tokens;
            self.holders.iter_mut().for_each(|holder| holder.write_off_some(fewer));
        }
        if spending.tokens > 0 {
            self.in_bucket = spending.tokens;
        }
        let is_idle = self.idle_reports >= IDLE_REPORTS && now >= self.busy_at.saturating_add(IDLE_SPAN);
        if self.treatment != Treatment::Served || (is_idle && self.is_due) || !self.is_open {
            self.hold_back(&spending, is_idle, &mut step, now);
            return step;
        }
        let is_fresh = self.begins_full(now);
        self.ask(&spending, is_fresh, &mut step, now);
        let is_answered = self.holders.iter().all(|holder| holder.is_current && !holder.is_asking());
        if is_answered && !self.holders.is_empty() {
            self.tell(is_fresh, members, &mut step, now);
        }
        step.next = self.next(&self.spending(now), now);
        step
    }

    /// The step of a bucket that is denied, forgotten or gone: once the peer does not spend any
    /// more, everything is given back that it certainly has not spent.
    fn hold_back(&mut self, spending: &Spending, is_idle: bool, step: &mut RemoteStep, now: Timestamp) {
        if self.is_open && self.treatment == Treatment::Blocked {
            let is_told = self.sent.last().is_some_and(|last| last.bucket.is_none());
            if self.is_due || !is_told {
                self.send(Assignment::Deny(seconds(self.ttl)), step, now);
            }
        } else if self.is_open && is_idle && self.is_due {
            self.treatment = Treatment::Abandoned;
            self.send(Assignment::Abandon, step, now);
        }
        self.is_due = false;
        let spending_now = self.spending(now);
        // Until then a lease that it took over from another member may be spent.
        let is_spent = spending_now.ends <= now && spending.ends <= now && now >= self.spares_until;
        if is_spent {
            let spent = self.maybe_spent();
            for (place, holder) in self.holders.iter_mut().enumerate() {
                step.asks.extend(holder.leave(spending, spent, now).map(|ask| (place, ask)));
            }
        }
        let ends = spending_now.ends.max(self.spares_until);
        let taken_at = self.sent.last().map(|last| last.taken_at).filter(|at| self.is_open && *at > now);
        step.next = (!is_spent).then(|| taken_at.unwrap_or(ends).min(ends));
    }

    /// Whether the peer's next token bucket begins full: it has none, or may have none when the
    /// next message reaches it.
    fn begins_full(&self, now: Timestamp) -> bool {
        if self.has(Fault::FullAfterDenial) {
            return self.sent.is_empty();
        }
        let arrives = now.saturating_add(TAKEN_WITHIN);
        self.is_fresh || self.sent.last().is_none_or(|last| last.bucket.is_none() || last.lasts() < arrives)
    }

    fn ask(&mut self, spending: &Spending, is_fresh: bool, step: &mut RemoteStep, now: Timestamp) {
        let is_faulty = self.has(Fault::LeaseEndsWithAssignment);
        let times = (self.ttl, if is_faulty { self.ttl } else { Self::lifetime(self.ttl) });
        let is_due = self.is_due;
        let demand = self.demand;
        for (place, holder) in self.holders.iter_mut().enumerate() {
            let lacks_tokens = is_due && is_fresh && !holder.is_fresh;
            let is_wanted = (is_due && !holder.is_current) || lacks_tokens;
            let is_useful = is_wanted || holder.goes_on();
            if !is_useful || holder.is_asking() || now < holder.asks_at() || !holder.covers(spending, now) {
                continue;
            }
            if is_fresh && !holder.is_fresh {
                holder.write_off();
                holder.is_fresh = true;
            }
            let ask = holder.ask(spending, demand, times, now);
            if let Some(ask) = ask {
                holder.is_current = false;
                step.asks.push((place, ask));
            }
        }
    }

    /// Tells the peer what the leases allow, if it waits for an answer or is better off.
    fn tell(&mut self, is_fresh: bool, members: u32, step: &mut RemoteStep, now: Timestamp) {
        if is_fresh && !self.holders.iter().all(|holder| holder.is_fresh || holder.is_silent()) {
            return;
        }
        let full = now.saturating_add(self.ttl + LEASE_MARGIN);
        let had = self.sent.last().and_then(|last| last.bucket).map_or(0, |bucket| bucket.max_tokens);
        let mut has_alone = false;
        let mut all = Cover { tokens: u32::MAX, rate: MicroRate::MAX, until: full };
        for holder in &self.holders {
            let cover = holder.cover(now);
            let is_alone = holder.is_silent() && (cover.until < full || cover.tokens == 0);
            has_alone |= is_alone;
            let cover = if is_alone { holder.alone(members, had) } else { cover };
            let tokens = holder.tokens_of(&cover, self.demand, !is_alone);
            // Tokens that the peer's bucket does not hold may refill it.
            let spare = if holder.is_slow() { cover.tokens.saturating_sub(tokens) } else { 0 };
            let refill = u64::from(spare) * MICRO / u64::from(seconds(self.ttl + LEASE_MARGIN));
            all.tokens = all.tokens.min(tokens);
            all.rate = all.rate.min(cover.rate.saturating_add(if is_alone { 0 } else { refill }));
            all.until = all.until.min(cover.until);
        }
        if has_alone && !self.is_due {
            return;
        }
        let margin = if self.has(Fault::LeaseEndsWithAssignment) { Duration::ZERO } else { LEASE_MARGIN };
        let ttl = seconds(all.until.saturating_since(now).saturating_sub(margin).min(self.ttl));
        if all.tokens == 0 || ttl == 0 {
            self.holders.iter_mut().for_each(RemoteHolder::gathers);
            if self.waits(&all, now) {
                return;
            }
            let has_bucket = self.sent.last().is_some_and(|last| last.bucket.is_some() && last.ends() > now);
            let may_have = self.sent.is_empty() && now < self.spares_until;
            if self.is_due && !has_bucket && !may_have {
                self.send(Assignment::Deny(seconds(self.ttl)), step, now);
            }
            self.is_due = false;
            return;
        }
        if self.waits(&all, now) {
            return;
        }
        let mut bucket = TokenBucket::within(all.tokens, all.rate);
        for sent in &self.sent {
            bucket = sent.bucket.as_ref().map_or(bucket, |other| bucket.told_from(other));
        }
        let last = self.sent.last().and_then(|last| last.bucket);
        let is_better = last.is_none_or(|last| {
            bucket.rate() > last.rate().saturating_add(last.rate() / 16)
                || bucket.max_tokens > last.max_tokens
        });
        // Another has a part of what this one took alone.
        let is_worse = last.is_some_and(|last| bucket.rate() < last.rate() - last.rate() / 16);
        if self.is_due || is_better || is_worse {
            if self.is_fresh
                && self.sent.last().is_some_and(|last| last.bucket.is_some())
                && self.on_stream > 0
            {
                // Only after a denial does a bucket that the peer knows begin full.
                self.send(Assignment::Deny(ttl), step, now);
            }
            self.send(Assignment::Bucket(bucket, ttl), step, now);
            self.is_fresh = false;
            if let Some(last) = self.sent.last_mut() {
                last.is_alone = has_alone;
            }
            self.holders.iter_mut().for_each(RemoteHolder::told);
        }
        self.is_due = false;
    }

    /// Whether the peer is not told yet: it goes on by a better assignment, and the rest of a share
    /// may come before that ends.
    fn waits(&self, all: &Cover, now: Timestamp) -> bool {
        let last = self.sent.last().and_then(|last| last.bucket);
        let is_worse = last.is_none_or(|last| all.tokens == 0 || all.rate < last.rate());
        is_worse
            && self.holders.iter().any(RemoteHolder::is_short)
            && now.saturating_add(WAIT_MARGIN) < self.lasts_until
    }

    /// Whether the mistake is planted; always false without the cfg.
    fn has(&self, fault: Fault) -> bool {
        self.holders.iter().any(|holder| holder.terms.has(fault))
    }

    fn send(&mut self, assignment: Assignment, step: &mut RemoteStep, now: Timestamp) {
        let (bucket, ttl) = match assignment {
            Assignment::Bucket(bucket, ttl) => (Some(bucket), ttl),
            Assignment::Deny(ttl) => (None, ttl),
            Assignment::Abandon => (None, 0),
        };
        if self.sent.len() >= SENT_MAX {
            self.merge_oldest();
        }
        let ttl = Duration::from_secs(ttl.into());
        let taken_at = now.saturating_add(TAKEN_WITHIN);
        self.lasts_until = match bucket {
            Some(_) => now.saturating_add(ttl.saturating_sub(ttl / DRIFT)),
            None => now,
        };
        self.slowest = self.slowest.min(bucket.as_ref().map_or(0, TokenBucket::rate));
        self.sent.push(Sent { bucket, at: now, ttl, taken_at, is_alone: false });
        self.on_stream += 1;
        step.tell.push(assignment);
    }

    /// Remembers the two oldest assignments as one that allows as much as either.
    fn merge_oldest(&mut self) {
        let oldest = self.sent.remove(0);
        self.on_stream = self.on_stream.min(self.sent.len());
        let next = &mut self.sent[0];
        let ends = oldest.ends().max(next.ends());
        next.bucket = match (oldest.bucket, next.bucket) {
            (Some(one), Some(other)) => {
                let faster = if one.rate() > other.rate() { one } else { other };
                Some(TokenBucket { max_tokens: one.max_tokens.max(other.max_tokens), ..faster })
            }
            (one, other) => one.or(other),
        };
        next.ttl = ends.saturating_since(next.at).saturating_sub(LEASE_MARGIN);
    }

    /// When to step again.
    fn next(&self, spending: &Spending, now: Timestamp) -> Option<Timestamp> {
        let unconfirmed = self.sent.len() > 1 && self.on_stream > 0;
        let taken_at = self.sent.last().filter(|_| unconfirmed).map(|last| last.taken_at);
        let asks_at = self.holders.iter().filter(|holder| !holder.is_asking()).filter_map(|holder| {
            let is_wanted = (self.is_due && !holder.is_current) || holder.goes_on();
            (is_wanted && holder.covers(spending, now)).then(|| holder.asks_at())
        });
        let soon = now.saturating_add(Duration::from_millis(1));
        asks_at.chain(taken_at).min().map(|at| at.max(soon))
    }
}

/// Whole seconds.
fn seconds(span: Duration) -> u32 {
    u32::try_from(span.as_secs()).unwrap_or(u32::MAX)
}

/// So many in a time, as a rate.
fn over(count: u64, span: Duration) -> MicroRate {
    let nanos = u128::from(duration_nanos(span)).max(1);
    let rate = u128::from(count) * u128::from(MICRO) * 1_000_000_000 / nanos;
    // Far beyond what any limit gives, and small enough to be multiplied.
    u64::try_from(rate).unwrap_or(u64::MAX).min(1 << 52)
}

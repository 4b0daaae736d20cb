//! The leases of this member: a holder for each key it meets, what the holders want to ask the
//! store, and the requests that wait for it.
//!
//! **One ask for all requests that wait.** Requests never talk to the store about a lease. They
//! post the ask to an [`Outbox`] and wait for its [`Flight`] to land; the driver of the engine
//! empties the outbox, carries many asks in one batch, and brings the answers back. So a hot key
//! combines here, and a request that goes away leaves nothing undone.
//!
//! **Own ledgers.** Where no members share the store, the ledgers are in this process
//! ([`OwnLedgers`]). They answer an ask of a holder at once, so no request waits for its lease.
//!
//! **Bounds.** At most [`LeaseConfig::holders_max`] holders, and of one namespace its share of
//! them. Each stands in a queue by the instant at which to look at it again: to renew, or to drop
//! it once nothing would be lost. When all places are taken and none can be dropped, a key without
//! a holder is answered as one that finds no place in the table of keys.

mod flight;
mod known_terms;
mod lease_batch;
mod leased_key;
mod outbox;
mod own_answers;
mod own_ledgers;
mod silence;
mod slot;
mod subject;
mod view;

use core::hint::black_box;
use core::ops::ControlFlow;
use core::time::Duration;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::sync::Arc;

use smallvec::SmallVec;
use tidegate_core::algorithm::WindowStart;
use tidegate_core::lease::{Ask, Balance, Grant, Holder, LedgerLevel, SPACING, Share, Stamp, Take, Terms};
use tidegate_core::shares::{Owner, Shares};
use tidegate_core::table::RefundSet;
use tidegate_core::{Algorithm, Cost, Timestamp, full_retry};
use tidegate_store::{Answer, OnLedger, RequestId, StoreError};

pub use self::flight::Landing;
pub(crate) use self::flight::{Flight, Flights};
use self::known_terms::KnownTerms;
use self::lease_batch::DueAsk;
pub(crate) use self::lease_batch::RemoteAsking;
use self::lease_batch::level_of;
pub use self::lease_batch::{LeaseBatch, LeaseBatches};
pub(crate) use self::leased_key::LeasedKey;
pub(crate) use self::outbox::Outbox;
pub(crate) use self::own_ledgers::OwnLedgers;
pub(crate) use self::silence::{Silence, Silent};
use self::slot::{LOOK_MIN, Slot};
pub(crate) use self::subject::{LeaseSubject, TermsId};
pub use self::view::{LeaseTotals, LeaseView, LeasesView};
use crate::sync::{AtomicU32, AtomicU64, AtomicUsize, Mutex, MutexGuard, Ordering, lock};

/// How a member holds leases.
///
/// ```
/// # use tidegate_core::{Limit, Timestamp, limit::Consistency};
/// # use tidegate_engine::{Engine, EngineConfig, LeaseConfig, NamespaceConfig, Request, Step};
/// let mut leases = LeaseConfig::new(0x5eed_0001); // in a daemon a random number
/// leases.holders_max = 10_000;
/// let mut config = EngineConfig::default();
/// (config.asks_store, config.leases) = (true, Some(leases));
/// let limit = Limit::rate("per-user", "100/s")?.key(["user"]).consistency(Consistency::Leased);
/// let api = NamespaceConfig::new("api", [limit]);
/// let engine = Engine::builder(config).namespace(api).build()?;
/// // The first request of a key waits for its lease.
/// let now = Timestamp::from_secs(1_800_000_000);
/// let step = engine.admit(&Request::new("api", &[("user", "ada")]), now)?;
/// assert!(matches!(step, Step::Ask(_)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LeaseConfig {
    /// This run of this member: a number that no other run of any member has. Draw it at random.
    pub member: u64,
    /// How many keys may have a lease here at once, in [shares](Shares) for each namespace. Default
    /// 1 048 576, about 300 bytes each while it is used; at least 1.
    pub holders_max: usize,
    /// Over how many locks holders are spread at most, for threads that decide at once. Default 64,
    /// and fewer where `holders_max` is small; 1 where a single thread does everything, which then
    /// has less to look through. At least 1, at most 1024, and rounded up to a power of two.
    pub locks_max: usize,
}

impl LeaseConfig {
    /// The default bound, for this run of this member.
    pub const fn new(member: u64) -> Self {
        Self { member, holders_max: 1 << 20, locks_max: 64 }
    }
}

/// No more locks than this, whatever a configuration says.
const LOCKS_MAX: usize = 1024;

/// How many holders a lock is made for before there is another.
const SHARD_HOLDERS: usize = 256;

/// How far the clocks of member and store may be apart for units to be given back to a window
/// shortly before its end.
const CLOCKS_APART: Duration = Duration::from_secs(1);

/// How many holders are loaded at a time of those that are to be looked at.
const LOOKS_TOGETHER: usize = 16;

/// How many holders are looked at to make room for one more.
const RECLAIM_STEPS: usize = 8;

/// Keys by their fingerprints.
pub(crate) type Keys = SmallVec<[u64; 4]>;

/// A charge that was taken from a lease.
#[derive(Clone, Debug)]
pub(crate) struct LeaseCharge {
    pub(crate) about: Arc<LeasedKey>,
    /// The cost taken; `None` for a shadow limit that would have refused, or a limit that admits
    /// while the store is away.
    pub(crate) cost: Option<Cost>,
    /// When it was taken.
    pub(crate) taken_at: Timestamp,
    /// The use of the limit after this charge, as far as this member knows it; `None` if it was
    /// told nothing.
    pub(crate) balance: Option<Balance>,
    pub(crate) shadow_refused: bool,
    /// The endings of work on which it is given back.
    pub(crate) refund_on: RefundSet,
    /// The lease that the tokens came from; `None` for no tokens and for tokens granted to the
    /// request itself, which cannot be put back.
    pub(crate) stamp: Option<Stamp>,
    /// Whether it is a good time to ask the store, once nothing is put back any more.
    pub(crate) renew: bool,
    pub(crate) corrected_by: CorrectedBy,
}

/// The number that replaces the cost of a charge when the work has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CorrectedBy {
    /// The true cost of the request, or an end that gives it back: a limit.
    Cost,
    /// The true units of the access: a table.
    Units,
    /// Nothing: an index that a write changes.
    Nothing,
}

impl LeaseCharge {
    /// Nothing that could be put into a lease: of `cost` granted to this request alone, or of none.
    pub(crate) fn fixed(about: Arc<LeasedKey>, cost: Option<Cost>, now: Timestamp) -> Self {
        Self {
            about,
            cost,
            taken_at: now,
            balance: None,
            shadow_refused: false,
            refund_on: RefundSet::default(),
            stamp: None,
            renew: false,
            corrected_by: CorrectedBy::Cost,
        }
    }

    /// Whether the window that it was taken from lasts for certain, so that what is given back is
    /// given back to it.
    pub(crate) fn lasts(&self, now: Timestamp) -> bool {
        match &self.about.algorithm {
            Algorithm::Bucket(_) => true,
            // No member knows when it began.
            Algorithm::Fixed(fixed) if fixed.start() == WindowStart::FirstHit => false,
            algorithm => now.saturating_add(CLOCKS_APART) < algorithm.full_again(self.taken_at),
        }
    }
}

/// The decision of a lease about a request.
#[derive(Debug)]
pub(crate) enum Taken {
    /// All of it is taken.
    All(LeaseCharge),
    /// An ask is under way: try again when it has landed.
    Waits(Arc<Flight>),
    Wait {
        until: Timestamp,
        left: u64,
    },
    /// It is more than the limit ever has.
    Never {
        left: u64,
    },
    /// The store is silent and the lease has not what is asked for, or it has lost what was used of
    /// the quota.
    Silent(Silent),
    /// There is no place for another holder before then.
    Full {
        until: Timestamp,
    },
}

/// All holders of a member.
pub(crate) struct Leases {
    config: LeaseConfig,
    shards: Box<[Mutex<Shard>]>,
    /// For each shard when to look at its next holder, in nanoseconds, so that nobody takes a lock
    /// to learn that it is not yet time. Written under the shard's lock.
    next_looks: Box<[AtomicU64]>,
    held: AtomicUsize,
    incarnations: AtomicU32,
    /// How many members there are, as far as is known.
    members: AtomicU32,
    shares: Shares,
    outbox: Arc<Outbox>,
    /// The ledgers of this process; `None` where a store has them.
    ledgers: Option<OwnLedgers>,
    terms: Mutex<KnownTerms>,
    asks: AtomicU64,
    unanswered: AtomicU64,
    /// When the store answered an ask last, in nanoseconds; 0 if it never has.
    answered_at: AtomicU64,
}

#[derive(Debug)]
struct Shard {
    /// Boxed, as tables keep a good part of their places free.
    slots: HashMap<u64, Box<Slot>, ahash::RandomState>,
    /// When to look at each holder again, the next one first. Entries that are no longer a slot's
    /// own mean nothing.
    looks: Looks,
}

type Looks = BinaryHeap<Reverse<(Timestamp, u64)>>;

/// A request that comes to its lease.
#[derive(Clone, Copy)]
pub(crate) struct Asked<'a> {
    pub(crate) subject: LeaseSubject<'a>,
    /// The namespace that it counts against.
    pub(crate) owner: Owner,
    pub(crate) cost: Cost,
    pub(crate) attempt: u32,
    /// The answered asks that the request has waited for, if any.
    pub(crate) landed: &'a [Arc<Flight>],
    /// Whether it has waited so often that it must not again.
    pub(crate) must_decide: bool,
}

impl Leases {
    /// Without holders yet. Their asks go to `ledgers`, or without these into `outbox`.
    pub(crate) fn new(
        config: LeaseConfig,
        seed: [u64; 4],
        outbox: Arc<Outbox>,
        ledgers: Option<OwnLedgers>,
    ) -> Self {
        let names = ahash::RandomState::with_seeds(seed[2], seed[0], seed[1], seed[3]);
        let count = (config.holders_max / SHARD_HOLDERS).clamp(1, config.locks_max.clamp(1, LOCKS_MAX));
        let count = count.next_power_of_two();
        let shard =
            || Mutex::new(Shard { slots: HashMap::with_hasher(names.clone()), looks: BinaryHeap::new() });
        Self {
            config,
            shards: (0..count).map(|_| shard()).collect(),
            next_looks: (0..count).map(|_| AtomicU64::new(u64::MAX)).collect(),
            held: AtomicUsize::new(0),
            shares: Shares::new(config.holders_max.max(1) as u64),
            incarnations: AtomicU32::new(1),
            members: AtomicU32::new(1),
            outbox,
            ledgers,
            terms: Mutex::new(KnownTerms::new(names)),
            asks: AtomicU64::new(0),
            unanswered: AtomicU64::new(0),
            answered_at: AtomicU64::new(0),
        }
    }

    /// Divides the holders among so many namespaces.
    pub(crate) fn divide(&self, owners: usize) {
        self.shares.divide(owners);
    }

    fn shard(&self, key: u64) -> MutexGuard<'_, Shard> {
        lock(&self.shards[self.place(key)])
    }

    /// Which shard a key is in.
    fn place(&self, key: u64) -> usize {
        // Its own bits: the table inside takes the others.
        (key >> 40) as usize & (self.shards.len() - 1)
    }

    /// Has a holder looked at again at `at`; `looks` are those of its shard.
    fn look_again(&self, slot: &mut Slot, looks: &mut Looks, at: Timestamp) {
        let key = slot.about.number;
        slot.look_at = at;
        looks.push(Reverse((at, key)));
        let next = &self.next_looks[self.place(key)];
        // Relaxed: written under the lock of the shard only. A reader without the lock reads it
        // again later.
        if at.as_nanos() < next.load(Ordering::Relaxed) {
            next.store(at.as_nanos(), Ordering::Relaxed);
        }
    }

    /// Takes the cost of a request from the lease of its key. `about` says which key of the store
    /// it is, for a key without one.
    pub(crate) fn take<E>(
        &self,
        asked: &Asked<'_>,
        now: Timestamp,
        about: impl FnOnce() -> Result<LeasedKey, E>,
    ) -> Result<Taken, E> {
        let key = asked.subject.key;
        let mut shard = self.shard(key);
        let shard = &mut *shard;
        if let Some(flight) = asked.landed.iter().find(|flight| flight.key() == key)
            && flight.take(asked.cost.units())
        {
            let mut charge = LeaseCharge::fixed(flight.about(), Some(asked.cost), now);
            charge.balance = shard.slots.get_mut(&key).map(|slot| {
                slot.holder.charge(&slot.terms, asked.cost, now);
                slot.holder.balance()
            });
            return Ok(Taken::All(charge));
        }
        if let Some(slot) = shard.slots.get_mut(&key) {
            return Ok(self.take_from(slot, &mut shard.looks, asked, now));
        }
        let about = about()?;
        if let Err(until) = self.make_room(shard, asked.owner, key, now) {
            return Ok(Taken::Full { until });
        }
        // Relaxed: only the number must be new. It wraps long after the former holder of a key is
        // forgotten.
        let incarnation = self.incarnations.fetch_add(1, Ordering::Relaxed);
        let terms = lock(&self.terms).of(&asked.subject);
        let mut slot = Slot::new(Holder::new(incarnation), asked.subject.terms, terms, Arc::new(about));
        slot.owner = asked.owner;
        let slot = shard.slots.entry(key).insert_entry(Box::new(slot)).into_mut();
        self.held.fetch_add(1, Ordering::Relaxed);
        Ok(self.take_from(slot, &mut shard.looks, asked, now))
    }

    fn take_from(&self, slot: &mut Slot, looks: &mut Looks, asked: &Asked<'_>, now: Timestamp) -> Taken {
        if slot.terms_id != asked.subject.terms {
            let terms = lock(&self.terms).of(&asked.subject);
            slot.renumber(&asked.subject, terms, now);
        }
        // Relaxed: a hint. Where the store has answered other asks since, this one may be answered,
        // too.
        let answered_at = Timestamp::from_nanos(self.answered_at.load(Ordering::Relaxed));
        if slot.holder.is_unanswered()
            && answered_at > slot.holder.ended()
            && now >= slot.holder.ended().saturating_add(SPACING)
        {
            slot.holder.ask_soon(now);
        }
        let about = |slot: &Slot| Arc::clone(&slot.about);
        let members = self.members.load(Ordering::Relaxed);
        let silent = |slot: &Slot, why| {
            Taken::Silent(Silent { about: about(slot), why, share: slot.holder.share(&slot.terms, members) })
        };
        let left = |slot: &Slot| slot.holder.balance().remaining(&slot.about.algorithm, now);
        let take = slot.holder.take(&slot.terms, asked.cost, asked.attempt, now);
        let take = match self.ask_until_decided(take, slot, looks, asked, now) {
            ControlFlow::Continue(take) => take,
            ControlFlow::Break(charge) => return Taken::All(charge),
        };
        if let Take::Wait { renew: true, .. } | Take::Alone { renew: true } | Take::Lost { renew: true } =
            take
        {
            self.send(slot, looks, 0, now);
        }
        let taken = match take {
            Take::Taken { renew } => Taken::All(LeaseCharge {
                stamp: Some(slot.holder.stamp()),
                balance: Some(slot.holder.balance()),
                renew,
                ..LeaseCharge::fixed(about(slot), Some(asked.cost), now)
            }),
            Take::Never { .. } => Taken::Never { left: left(slot) },
            Take::Wait { until, .. } => Taken::Wait { until, left: left(slot) },
            Take::Alone { .. } => {
                slot.may_be_alone = true;
                silent(slot, Silence::Away)
            }
            Take::Lost { .. } => silent(slot, Silence::LostData),
            Take::Ask | Take::Pending if asked.must_decide || self.ledgers.is_some() => {
                Taken::Wait { until: now.saturating_add(SPACING), left: left(slot) }
            }
            Take::Ask => {
                self.send(slot, looks, asked.cost.units(), now);
                slot.flight.clone().map_or_else(|| silent(slot, Silence::Away), Taken::Waits)
            }
            Take::Pending => slot.flight.clone().map_or_else(|| silent(slot, Silence::Away), Taken::Waits),
        };
        if slot.flight.is_none() && slot.look_at == Timestamp::MAX {
            // A holder that was never asked for anything the ledger could give is dropped soon.
            self.look_again(slot, looks, now.saturating_add(LOOK_MIN));
        }
        taken
    }

    /// Asks the store for a key from which something was taken.
    pub(crate) fn renew(&self, charge: &LeaseCharge, now: Timestamp) {
        let mut shard = self.shard(charge.about.number);
        let shard = &mut *shard;
        if let Some(slot) = shard.slots.get_mut(&charge.about.number) {
            self.send(slot, &mut shard.looks, 0, now);
        }
    }

    /// Undoes the charge of a request that does not go ahead. Two parts of the charge go back to
    /// the ledger with the next asks: tokens granted to this request alone, and tokens of a window
    /// that has not ended that no longer fit into the lease. Tokens that trickled in come again by
    /// themselves.
    pub(crate) fn undo(&self, charge: &LeaseCharge, now: Timestamp) {
        let Some(cost) = charge.cost else { return };
        let left = cost.units() - self.put_back(charge, cost.units(), now);
        let is_refunded = match &charge.about.algorithm {
            // At the instant at which they were taken, nothing of them has drained.
            Algorithm::Bucket(_) if self.ledgers.is_some() && charge.taken_at == now => true,
            Algorithm::Bucket(_) => charge.stamp.is_none(),
            _ => charge.lasts(now),
        };
        let (Some(cost), true) = (Cost::new(left), is_refunded) else { return };
        match &self.ledgers {
            Some(ledgers) => ledgers.run(&[charge.about.operation(OnLedger::Refund { cost })], now),
            None => self.outbox.post_refund((Arc::clone(&charge.about), cost)),
        }
    }

    /// Puts back what was taken and not spent; how many units found a place.
    pub(crate) fn put_back(&self, charge: &LeaseCharge, units: u64, now: Timestamp) -> u64 {
        let (Some(cost), Some(stamp)) = (Cost::new(units), charge.stamp) else { return 0 };
        let mut shard = self.shard(charge.about.number);
        let Some(slot) = shard.slots.get_mut(&charge.about.number) else { return 0 };
        slot.holder.put_back(&slot.terms, cost, stamp, now)
    }

    /// Has tokens of a refused request return to the ledger that lie idle here.
    pub(crate) fn return_idle(&self, charge: &LeaseCharge, now: Timestamp) {
        let mut shard = self.shard(charge.about.number);
        let shard = &mut *shard;
        let Some(slot) = shard.slots.get_mut(&charge.about.number) else { return };
        slot.holder.return_soon(now);
        if charge.stamp.is_some() && slot.holder.poll_due(&slot.terms, now) {
            self.send(slot, &mut shard.looks, 0, now);
        }
    }

    /// Lets the next request of a key ask at once.
    pub(crate) fn ask_soon(&self, key: u64, now: Timestamp) {
        if let Some(slot) = self.shard(key).slots.get_mut(&key) {
            slot.holder.ask_soon(now);
        }
    }

    /// By which share this member decides a key alone while the store is silent; `None` for a key
    /// without a holder.
    pub(crate) fn share(&self, key: u64) -> Option<Share> {
        let members = self.members.load(Ordering::Relaxed);
        self.shard(key).slots.get(&key).map(|slot| slot.holder.share(&slot.terms, members))
    }

    /// The answer that a request would get that has tried before, with the units left of the limit
    /// as far as is known; `None` for a key without a holder. Changes nothing.
    pub(crate) fn peek(&self, key: u64, cost: Cost, now: Timestamp) -> Option<(Taken, u64)> {
        let shard = self.shard(key);
        let slot = shard.slots.get(&key)?;
        let (mut holder, about) = (slot.holder.clone(), Arc::clone(&slot.about));
        let left = holder.balance().remaining(&about.algorithm, now);
        let members = self.members.load(Ordering::Relaxed);
        let silent =
            |why| Silent { about: Arc::clone(&about), why, share: slot.holder.share(&slot.terms, members) };
        let taken = match holder.take(&slot.terms, cost, 1, now) {
            Take::Wait { until, .. } => Taken::Wait { until, left },
            Take::Never { .. } => Taken::Never { left },
            Take::Alone { .. } => Taken::Silent(silent(Silence::Away)),
            Take::Lost { .. } => Taken::Silent(silent(Silence::LostData)),
            // The ledger would be asked. It is expected to answer what it did last.
            Take::Ask | Take::Pending if left < cost.units() => {
                let full_at = holder.balance().reset_at(now);
                Taken::Wait { until: about.algorithm.room_at(cost.units(), full_at), left }
            }
            Take::Taken { .. } | Take::Ask | Take::Pending => {
                Taken::All(LeaseCharge::fixed(about, Some(cost), now))
            }
        };
        Some((taken, left))
    }

    /// Whole tokens in hand of a key.
    pub(crate) fn tokens(&self, key: u64, now: Timestamp) -> u64 {
        self.shard(key).slots.get(&key).map_or(0, |slot| slot.holder.tokens(&slot.terms, now))
    }

    /// Sends an ask: to the ledgers of this process, which answer it at once, or into the outbox.
    /// The units that are granted for the waiting request alone.
    fn send(&self, slot: &mut Slot, looks: &mut Looks, need: u64, now: Timestamp) -> u64 {
        let Some(ask) = slot.holder.ask(&slot.terms, self.config.member, need, now) else { return 0 };
        self.asks.fetch_add(1, Ordering::Relaxed);
        if let Some(ledgers) = &self.ledgers {
            return self.ask_own(ledgers, slot, looks, ask, now);
        }
        let flight = Arc::new(Flight::new(Arc::clone(&slot.about)));
        slot.flight = Some(Arc::clone(&flight));
        slot.look_at = Timestamp::MAX;
        self.outbox.post_ask(DueAsk { about: Arc::clone(&slot.about), ask, flight, remote: None });
        0
    }

    /// How many members there are as far as is known.
    pub(crate) fn members(&self) -> u32 {
        self.members.load(Ordering::Relaxed)
    }

    /// The terms of the leases of a subject.
    pub(crate) fn terms_of(&self, subject: &LeaseSubject<'_>) -> Arc<Terms> {
        lock(&self.terms).of(subject)
    }

    /// Whether the ledgers are in this process, which then answers asks at once.
    pub(crate) const fn has_own_ledgers(&self) -> bool {
        self.ledgers.is_some()
    }

    /// The answer of a ledger of this process to the ask of a remote holder, if there is one.
    pub(crate) fn ask_here(
        &self,
        about: &LeasedKey,
        ask: Ask,
        now: Timestamp,
    ) -> Option<(Grant, LedgerLevel)> {
        self.asks.fetch_add(1, Ordering::Relaxed);
        self.ledgers.as_ref()?.ask(about, ask, now)
    }

    /// Leaves the ask of a remote holder in the outbox.
    pub(crate) fn send_remote(&self, about: Arc<LeasedKey>, ask: Ask, remote: Box<dyn RemoteAsking>) {
        let flight = Arc::new(Flight::new(Arc::clone(&about)));
        self.asks.fetch_add(1, Ordering::Relaxed);
        self.outbox.post_ask(DueAsk { about, ask, flight, remote: Some(remote) });
    }

    /// Takes in what became of asks. The keys for which a silence has ended in which this member
    /// decided alone.
    pub(crate) fn answered(
        &self,
        asked: LeaseBatch,
        answer: Result<Answer, StoreError>,
        now: Timestamp,
    ) -> Keys {
        let mut heard = Keys::new();
        let (grants, outcomes, store_now) = match answer {
            Ok(answer) => {
                // Relaxed: a hint; see where it is read.
                self.answered_at.fetch_max(now.as_nanos(), Ordering::Relaxed);
                (answer.grants, answer.outcomes, answer.store_now)
            }
            Err(_) => Default::default(),
        };
        let levels = outcomes.iter().map(|outcome| level_of(outcome, store_now));
        let mut granted = grants.into_iter().zip(levels);
        for due in asked.asks {
            let grant = granted.next().and_then(|(grant, level)| Some((grant?, level)));
            if let Some(remote) = &due.remote {
                self.unanswered.fetch_add(u64::from(grant.is_none()), Ordering::Relaxed);
                remote.land(grant, now);
                continue;
            }
            if self.land(&due, grant, now) {
                heard.push(due.about.number);
            }
        }
        heard
    }

    /// Takes in what became of one ask; whether a silence has ended for its key in which this
    /// member decided alone.
    fn land(&self, due: &DueAsk, grant: Option<(Grant, LedgerLevel)>, now: Timestamp) -> bool {
        let (mut units, mut was_alone) = (0, false);
        {
            let key = due.about.number;
            let mut shard = self.shard(key);
            let shard = &mut *shard;
            if let Some(slot) = shard.slots.get_mut(&key)
                && slot.flight.as_ref().is_some_and(|flight| Arc::ptr_eq(flight, &due.flight))
            {
                slot.flight = None;
                if let Some((grant, level)) = grant {
                    units = slot.granted(&grant, level, now);
                    // An answer that came too late is as none.
                    was_alone = slot.may_be_alone && !slot.holder.is_unanswered();
                    slot.may_be_alone &= !was_alone;
                } else {
                    self.unanswered.fetch_add(1, Ordering::Relaxed);
                    slot.holder.lost(now);
                }
                let at = slot.next_look(now);
                self.look_again(slot, &mut shard.looks, at);
            }
        }
        due.flight.land(units);
        was_alone
    }

    /// Looks at the holders whose time has come: some ask, some are dropped. When the next is to be
    /// looked at.
    pub(crate) fn tick(&self, now: Timestamp) -> Option<Timestamp> {
        let mut next = u64::MAX;
        for (shard, at) in self.shards.iter().zip(&self.next_looks) {
            if at.load(Ordering::Relaxed) <= now.as_nanos() {
                let mut shard = lock(shard);
                loop {
                    let due = shard.take_due(now);
                    if due.is_empty() {
                        break;
                    }
                    shard.touch(&due);
                    for due in due {
                        if let Some(key) = shard.claim(due) {
                            self.look(&mut shard, key, now);
                        }
                    }
                }
                at.store(shard.first_look(), Ordering::Relaxed);
            }
            next = next.min(at.load(Ordering::Relaxed));
        }
        (next < u64::MAX).then(|| Timestamp::from_nanos(next))
    }

    /// Looks at one holder; whether it is dropped.
    fn look(&self, shard: &mut Shard, key: u64, now: Timestamp) -> bool {
        let Some(slot) = shard.slots.get_mut(&key) else { return false };
        if slot.can_go(now) {
            self.drop_slot(shard, key);
            return true;
        }
        if !slot.is_hardly_used(now) && slot.holder.poll_due(&slot.terms, now) {
            self.send(slot, &mut shard.looks, 0, now);
        } else {
            let at = slot.next_look(now);
            self.look_again(slot, &mut shard.looks, at);
        }
        false
    }

    fn drop_slot(&self, shard: &mut Shard, key: u64) {
        if let Some(slot) = shard.slots.remove(&key) {
            self.shares.give_back(slot.owner, 1);
            self.held.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Takes a place for a holder of `owner`, if there is one.
    fn take_place(&self, owner: Owner) -> bool {
        // Relaxed: the bound may be missed by as many as there are threads.
        self.held.load(Ordering::Relaxed) < self.config.holders_max.max(1) && self.shares.take(owner, 1)
    }

    /// Takes a place for a holder of `key` in its shard, or says when there may be one.
    fn make_room(&self, shard: &mut Shard, owner: Owner, key: u64, now: Timestamp) -> Result<(), Timestamp> {
        if self.take_place(owner) {
            return Ok(());
        }
        for _ in 0..RECLAIM_STEPS {
            let Some(next) = shard.next_due(now) else { break };
            let is_gone = self.look(shard, next, now);
            self.next_looks[self.place(key)].store(shard.first_look(), Ordering::Relaxed);
            if is_gone && self.take_place(owner) {
                return Ok(());
            }
        }
        let next = shard.looks.peek().map(|Reverse((at, _))| *at);
        Err(full_retry(key, next.unwrap_or(now.saturating_add(Terms::PERIOD)), now))
    }

    /// Gives all leases back, for good: the last asks of this member. Keys that are asked for
    /// afterwards get new ones.
    pub(crate) fn leave(&self, now: Timestamp, id: impl FnMut() -> RequestId) -> LeaseBatches {
        let mut posted = self.outbox.take().unwrap_or_default();
        let mut slots: Vec<Box<Slot>> = Vec::new();
        for (shard, at) in self.shards.iter().zip(&self.next_looks) {
            let mut shard = lock(shard);
            shard.looks.clear();
            at.store(u64::MAX, Ordering::Relaxed);
            self.held.fetch_sub(shard.slots.len(), Ordering::Relaxed);
            slots.extend(shard.slots.drain().map(|(_, slot)| slot));
        }
        // The order in which a hash map drains depends on its hasher. Messages are in the order of
        // the keys instead, so that a seed always gives the same run.
        slots.sort_unstable_by(|one, other| one.about.key.cmp(&other.about.key));
        for mut slot in slots {
            self.shares.give_back(slot.owner, 1);
            let ask = slot.holder.leave(&slot.terms, self.config.member, now);
            let flight = slot.flight.take().unwrap_or_else(|| Arc::new(Flight::new(Arc::clone(&slot.about))));
            posted.asks.push(DueAsk { about: slot.about, ask, flight, remote: None });
        }
        posted.into_batches(id)
    }

    pub(crate) fn set_members(&self, members: u32) {
        self.members.store(members.max(1), Ordering::Relaxed);
    }
}

impl Shard {
    /// When the next holder is looked at, in nanoseconds; at the end of time without holders.
    fn first_look(&self) -> u64 {
        self.looks.peek().map_or(u64::MAX, |Reverse((at, _))| at.as_nanos())
    }

    /// The next holder whose time has come by `now`.
    fn next_due(&mut self, now: Timestamp) -> Option<u64> {
        while let Some(due) = self.pop_due(now) {
            let key = self.claim(due);
            if key.is_some() {
                return key;
            }
        }
        None
    }

    fn pop_due(&mut self, now: Timestamp) -> Option<(Timestamp, u64)> {
        let is_due = self.looks.peek().is_some_and(|Reverse((at, _))| *at <= now);
        if is_due { self.looks.pop().map(|Reverse(due)| due) } else { None }
    }

    /// The next entries whose time has come, as many as are looked at together.
    fn take_due(&mut self, now: Timestamp) -> SmallVec<[(Timestamp, u64); LOOKS_TOGETHER]> {
        core::iter::from_fn(|| self.pop_due(now)).take(LOOKS_TOGETHER).collect()
    }

    /// Starts loading the holders of these entries, which are far apart: so the loads overlap.
    fn touch(&self, due: &[(Timestamp, u64)]) {
        let slots = due.iter().filter_map(|(_, key)| self.slots.get(key));
        // The loads must not be optimised away: they are the point.
        black_box(slots.fold(0, |near, slot| near ^ slot.touch()));
    }

    /// The key of an entry, if it still is its slot's own, which has none from then on.
    fn claim(&mut self, (at, key): (Timestamp, u64)) -> Option<u64> {
        let slot = self.slots.get_mut(&key).filter(|slot| slot.look_at == at)?;
        slot.look_at = Timestamp::MAX;
        Some(key)
    }
}

tidegate_core::debug_fields!(Leases { config, held });

#[cfg(all(test, tidegate_loom))]
mod loom;

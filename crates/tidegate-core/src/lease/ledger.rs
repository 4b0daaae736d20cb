//! The record of one key: its usage, and the leases of its holders.
//!
//! **Usage.** A grant is debited in full when it is made. For a bucket, `used`
//! therefore holds what was released and has not drained yet, and what leases will release until
//! they end. It drains at the limit's exact rate, and never below what holders may still spend:
//! their tokens in hand and what is yet to trickle in. That one rule replaces crediting expired
//! leases: a lease that ended no longer holds `used` up.
//!
//! **Arithmetic.** Everything is an integer. Three remainders make it exact: `rest`, parts of a
//! unit by the rate's denominator; `dust`, parts of a token by the length of a period; and other
//! divisions only choose how much to grant, where any rounding is right as long as all ports round
//! the same way. `docs/internals/leases-port.md` says how each product stays below 2^53.

use core::time::Duration;
use std::borrow::Cow;

use self::allocation::Sums;
use self::lease::Lease;
use self::leases::Leases;
use super::fault::Fault;
use super::message::{Ask, Epoch, Grant, HolderName};
use super::terms::{LeaseWindow, Refill, Terms, TermsKind, micros};
use super::{HOLDERS_MAX, LENT_MAX, NUMBER_MAX, RECHECK, SPACING};
use crate::algorithm::REPORT_DEBT_LIMITS;
use crate::cost::Cost;
use crate::time::Timestamp;

mod allocation;
mod bucket;
mod lease;
mod leases;
mod stored;
mod window;

pub use stored::Unreadable;

/// The ledger of one key.
///
/// Its size is bounded by [`HOLDERS_MAX`]. Stores keep it as bytes ([`Ledger::to_bytes`]) or do
/// what it does with their own means. An absent record is the same as [`Ledger::begin`], so it may
/// be forgotten once [`Ledger::is_forgettable`].
///
/// ```
/// # use tidegate_core::lease::{Ask, Epoch, HolderName, Ledger, Terms};
/// # use tidegate_core::{Algorithm, Rate, Timestamp};
/// # let now = Timestamp::from_secs(1_800_000_000);
/// let terms = Terms::from_algorithm(&Algorithm::bucket(Rate::per_second(10)?)?, now)?;
/// let epoch = Epoch { number: 1, began: now, is_after_loss: false };
/// let mut ledger = Ledger::begin(&terms, &epoch);
/// // A grant is debited when it is made, and the same ask again brings the same tokens.
/// let ask = Ask::first(HolderName { member: 7, incarnation: 1 }, 3);
/// for _ in 0..2 {
///     let grant = ledger.ask(now, &terms, &epoch, &ask).grant.expect("no ask is later");
///     assert_eq!((grant.lump, ledger.used(now, &terms)), (3, 3));
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Ledger {
    epoch: u32,
    /// Units used: debited and not drained, or counted in the window.
    used: u64,
    /// How far the next unit has drained, in parts of the rate's `per_us`.
    rest: u64,
    /// The fraction of a token that was returned beyond whole tokens, in parts of `period_us`.
    dust: u64,
    per_us: u64,
    period_us: u64,
    /// Until when `used` has drained; ahead of the ledger's time where its clock has stepped back.
    at_us: u64,
    /// The end of the window that is counted; 0 for a bucket.
    end_us: u64,
    /// Tokens that left holders' hands without being returned, wrapping.
    spent: u32,
    /// Until when half is left to holders that have found no place.
    crowded_us: u64,
    leases: Leases,
}

/// The result of an ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AskOutcome {
    /// The grant to send to the holder; `None` for an ask that a later ask has overtaken, as no
    /// request waits for it any more.
    pub grant: Option<Grant>,
    /// The change of `used` in this step.
    pub movement: Movement,
}

/// How one step changed what is used, in whole units:
/// `after = before - drained + held_up + debited - credited`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Movement {
    /// Drained by the rate since the step before, or by the end of a window.
    pub drained: u64,
    /// Of that, not drained after all because holders may still spend it.
    pub held_up: u64,
    /// Granted.
    pub debited: u64,
    /// Given back: certain to be unspent.
    pub credited: u64,
}

/// One holder, as the command `tidegate leases` shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct HolderView {
    /// The name of the holder.
    pub holder: HolderName,
    /// The demand at the holder, in units each period.
    pub demand: u32,
    /// The rate of its lease, in units each period.
    pub rate: u32,
    /// Tokens it has in hand at most.
    pub held: u32,
    /// When its lease ends by the ledger's clock. A holder of window tokens stays listed
    /// afterwards.
    pub until: Timestamp,
}

impl Ledger {
    /// The first record of a key in `epoch`. Nothing is used, whatever the reason that the record
    /// was missing.
    ///
    /// So a caller within its limit is not refused because a store is new or was wiped. Leases of a
    /// former epoch run out beside the new record: a loss costs at most one burst and one lease
    /// period of the rate, or once more the limit of a window.
    pub fn begin(terms: &Terms, epoch: &Epoch) -> Self {
        let (burst, per_us, end_us) = match &terms.kind {
            TermsKind::Bucket(refill) => (refill.burst, refill.per_us, 0),
            TermsKind::Window(window) => (window.limit, 1, window.end_us),
        };
        Self {
            epoch: epoch.number,
            used: if terms.has(Fault::EmptyAtBeginning) { burst } else { 0 },
            rest: 0,
            dust: 0,
            per_us,
            period_us: terms.period_us,
            at_us: micros(epoch.began),
            end_us,
            spent: 0,
            crowded_us: 0,
            leases: Leases::default(),
        }
    }

    /// Answers `ask` at `now`, the store's time. `terms` are those of the limit at `now`, `epoch`
    /// is the store's.
    ///
    /// A record of another epoch is begun anew first. `now` may step back: nothing drains then, and
    /// no window that has ended comes back. Of a quota nothing is granted while lost usage could
    /// still count.
    ///
    /// The same ask again gets the same `lump`, `held` and `rate`, for the rest of their time, and
    /// debits nothing. The rest of the first answer (`keep`, `is_scarce`, `again`) is not
    /// remembered: the holder is told to keep nothing, that tokens are scarce, and to ask
    /// again soon. An ask that a later one has overtaken gets no answer. A holder for which there
    /// was no place has no record, so its same ask again is another spot grant, debited like the
    /// first.
    pub fn ask(&mut self, now: Timestamp, terms: &Terms, epoch: &Epoch, ask: &Ask) -> AskOutcome {
        let now_us = micros(now);
        self.enter(now_us, terms, epoch);
        let is_lost = epoch.is_after_loss && now_us < terms.lost_until_us(micros(epoch.began), now_us);
        if is_lost && !ask.is_leaving {
            let again = RECHECK.max(SPACING);
            let nothing = Grant { seq: ask.seq, epoch: epoch.number, is_lost, again, ..Grant::NOTHING };
            return AskOutcome { grant: Some(nothing), movement: Movement::default() };
        }
        let mut step = LedgerStep { ledger: self, terms, now_us, movement: Movement::default() };
        let grant = match &terms.kind {
            TermsKind::Bucket(refill) => step.ask_bucket(refill, ask),
            TermsKind::Window(window) => step.ask_window(window, ask),
        };
        AskOutcome { grant, movement: step.movement }
    }

    /// Charges `cost` at `now` whether or not there is room, as for work already done, and says how
    /// much was booked. The debt it leaves is at most [`REPORT_DEBT_LIMITS`] times the limit beyond
    /// it, and what members have in hand is theirs all the same.
    ///
    /// A bucket lends nothing of its burst before what is owed has drained, and of its rate only
    /// what is left of a period's units when what is owed has been paid from them. A window lends
    /// nothing more.
    pub fn report(&mut self, now: Timestamp, terms: &Terms, epoch: &Epoch, cost: Cost) -> u64 {
        self.with_step(now, terms, epoch, |step| {
            // The units that leases will still release come on top; they are less than a few of the
            // largest grants.
            let most = terms.largest().saturating_mul(1 + REPORT_DEBT_LIMITS).min(NUMBER_MAX - 4 * LENT_MAX);
            let booked = cost.units().min(most.saturating_sub(step.level()));
            step.debit(booked);
            booked
        })
    }

    /// Gives `cost` back at `now`, and says how much: at most what is used and in no holder's hand.
    pub fn refund(&mut self, now: Timestamp, terms: &Terms, epoch: &Epoch, cost: Cost) -> u64 {
        self.with_step(now, terms, epoch, |step| step.give_back(cost.units()))
    }

    /// Forgets at `now` what is used, but for what members may still spend, and says how much that
    /// was.
    pub fn reset(&mut self, now: Timestamp, terms: &Terms, epoch: &Epoch) -> u64 {
        self.with_step(now, terms, epoch, |step| step.give_back(u64::MAX))
    }

    /// A step at `now` on a record that is up to date.
    fn with_step<R>(
        &mut self,
        now: Timestamp,
        terms: &Terms,
        epoch: &Epoch,
        act: impl FnOnce(&mut LedgerStep<'_>) -> R,
    ) -> R {
        let now_us = micros(now);
        self.enter(now_us, terms, epoch);
        let mut step = LedgerStep { ledger: self, terms, now_us, movement: Movement::default() };
        match &terms.kind {
            TermsKind::Bucket(refill) => {
                step.drain(refill);
            }
            TermsKind::Window(window) => step.roll(window),
        }
        act(&mut step)
    }

    /// Begins anew where the epoch is another one, takes over terms that have changed, and brings
    /// back what lies too far ahead.
    fn enter(&mut self, now_us: u64, terms: &Terms, epoch: &Epoch) {
        if self.epoch != epoch.number || terms.has(Fault::RecordBegunAnew) {
            *self = Self::begin(terms, epoch);
        }
        self.renumber(terms);
        self.bring_back(now_us, terms);
    }

    /// Brings back what a clock that was ahead has written: a bucket more than a full drain ahead
    /// is used up now, a window after the next one is the window of now. Leases end, as their
    /// instants mean nothing; what their holders have in hand stays theirs, and counts as used.
    fn bring_back(&mut self, now_us: u64, terms: &Terms) {
        if !self.is_ahead(now_us, terms) {
            return;
        }
        match &terms.kind {
            TermsKind::Bucket(refill) => {
                if self.used > 0 || !self.leases.is_empty() {
                    self.used = refill.burst;
                }
                (self.rest, self.dust, self.at_us) = (0, 0, now_us);
            }
            TermsKind::Window(window) => self.end_us = window.end_us,
        }
        self.leases.clear();
        self.crowded_us = 0;
    }

    /// Whether it lies further ahead than the limit could have written by now.
    fn is_ahead(&self, now_us: u64, terms: &Terms) -> bool {
        match &terms.kind {
            TermsKind::Bucket(refill) => self.at_us > now_us.saturating_add(refill.drain_us()),
            TermsKind::Window(window) => self.end_us > window.next_end_us,
        }
    }

    /// The epoch it was begun in.
    pub fn epoch(&self) -> u32 {
        self.epoch
    }

    /// The lease period of the terms that it was written by last.
    pub const fn period(&self) -> Duration {
        Duration::from_micros(self.period_us)
    }

    /// Units used at `now`, those that holders may still spend included.
    pub fn used(&self, now: Timestamp, terms: &Terms) -> u64 {
        self.at(now, terms).used
    }

    /// The record brought up to date.
    fn at(&self, now: Timestamp, terms: &Terms) -> Cow<'_, Self> {
        // Right after a step nothing needs to be copied, and a store looks at what is used after
        // every ask.
        if self.is_up_to_date(now, terms) {
            debug_assert_eq!(*self, self.brought_to(now, terms));
            return Cow::Borrowed(self);
        }
        Cow::Owned(self.brought_to(now, terms))
    }

    fn brought_to(&self, now: Timestamp, terms: &Terms) -> Self {
        let (mut copy, now_us) = (self.clone(), micros(now));
        copy.renumber(terms);
        copy.bring_back(now_us, terms);
        let mut step = LedgerStep { ledger: &mut copy, terms, now_us, movement: Movement::default() };
        match &terms.kind {
            TermsKind::Bucket(refill) => {
                step.drain(refill);
            }
            TermsKind::Window(window) => step.roll(window),
        }
        copy
    }

    /// Whether bringing it up to date would change nothing; sometimes false although it would not.
    fn is_up_to_date(&self, now: Timestamp, terms: &Terms) -> bool {
        let now_us = micros(now);
        match &terms.kind {
            _ if self.is_ahead(now_us, terms) => false,
            TermsKind::Window(_) => self.has_numbers(terms) && now_us < self.end_us,
            TermsKind::Bucket(_) => {
                if !self.has_numbers(terms) || self.at_us < now_us || terms.has(Fault::GrantWithoutDebit) {
                    return false;
                }
                let sums = self.leases.sums(now_us, self.at_us);
                let has_dropped_parts = match self.used.checked_sub(sums.outstanding(self.period_us)) {
                    None => false,
                    Some(0) => (self.rest, self.dust) == (0, 0),
                    Some(1) => self.dust == 0,
                    Some(_) => true,
                };
                has_dropped_parts && sums.are_all_alive(self.leases.len())
            }
        }
    }

    /// The holders and their leases, in order of their names.
    pub fn holders(&self) -> impl Iterator<Item = HolderView> + '_ {
        self.leases.iter().map(|lease| HolderView {
            holder: lease.holder,
            demand: lease.demand,
            rate: lease.rate,
            held: lease.held,
            until: instant(lease.until_us),
        })
    }

    /// Whether it has a lease of `holder` on record, which an ask then renews in its place.
    pub fn has_holder(&self, holder: HolderName) -> bool {
        self.leases.binary_search_by_key(&holder, |lease| lease.holder).is_ok()
    }

    /// The usage at `now` as a caller sees it: tokens in holders' hands count as used, tokens that
    /// leases have yet to release do not. The instant is when the usage will be zero if nothing
    /// else is charged: the end of a window, `now` if nothing is used.
    pub fn level(&self, now: Timestamp, terms: &Terms) -> (u64, Timestamp) {
        let copy = self.at(now, terms);
        let (used, at_us) = match &terms.kind {
            TermsKind::Window(_) => (copy.used, copy.end_us),
            TermsKind::Bucket(refill) => {
                let sums = copy.leases.sums(micros(now), micros(now).max(copy.at_us));
                let used = copy.used.saturating_sub(sums.to_come.saturating_add(copy.dust) / copy.period_us);
                let parts = (u128::from(used) * u128::from(refill.per_us)).saturating_sub(copy.rest.into());
                let drains_us = u64::try_from(parts.div_ceil(u128::from(refill.units))).unwrap_or(u64::MAX);
                (used, copy.at_us.saturating_add(drains_us))
            }
        };
        if used == 0 { (0, now) } else { (used, instant(at_us).max(now)) }
    }

    /// An instant before which it may not be [forgotten](Ledger::is_forgettable), at the earliest
    /// `now`: the end of its leases, or of its window.
    pub fn lasts_until(&self, now: Timestamp) -> Timestamp {
        let last_us = if self.end_us > 0 { self.end_us } else { self.leases.last_us() };
        instant(last_us).max(now)
    }

    /// When it [may be forgotten](Ledger::is_forgettable) if nothing more is lent or charged; `now`
    /// if it may be.
    pub fn forgettable_at(&self, now: Timestamp, terms: &Terms) -> Timestamp {
        match &terms.kind {
            TermsKind::Window(_) => instant(self.end_us).max(now),
            TermsKind::Bucket(_) => {
                // The usage that is left then drains from there on.
                let last = self.lasts_until(now);
                self.level(last, terms).1.max(last)
            }
        }
    }

    /// Bytes on the heap.
    pub fn heap_bytes(&self) -> usize {
        Leases::heap_bytes(self.leases.capacity())
    }

    /// The most that [`Ledger::heap_bytes`] grows by so many asks of holders that are [not on
    /// record](Ledger::has_holder); of `None` for a ledger that is yet to begin.
    pub fn heap_growth(ledger: Option<&Self>, asks: usize) -> usize {
        let (length, capacity) =
            ledger.map_or((0, 0), |ledger| (ledger.leases.len(), ledger.leases.capacity()));
        let needed = (length + asks).min(HOLDERS_MAX);
        if needed <= capacity {
            return 0;
        }
        // It grows twofold whenever it is full, which ends before twice what is needed, or at the
        // first four.
        Leases::heap_bytes((2 * needed).max(4)) - Leases::heap_bytes(capacity)
    }

    /// Whether an absent record would answer the same from `now` on, so that the store may forget
    /// this one. `epoch` is the store's; a record of another epoch is begun anew anyway.
    pub fn is_forgettable(&self, now: Timestamp, terms: &Terms, epoch: &Epoch) -> bool {
        if self.epoch != epoch.number {
            return true;
        }
        let now_us = micros(now);
        let alive = self.leases.iter().any(|lease| lease.until_us.max(lease.prior_until_us) > now_us);
        let is_over = self.end_us > 0 && now_us >= self.end_us;
        is_over || (!alive && self.end_us == 0 && self.used(now, terms) == 0)
    }

    /// Whether its remainders and rates are of these terms.
    fn has_numbers(&self, terms: &Terms) -> bool {
        (self.per_us, self.period_us) == (terms.per_us(), terms.period_us)
    }

    /// Takes over terms that have changed. Remainders count in parts of what changed and are
    /// dropped, in the limit's favour; rates are brought to the new period, rounded up.
    fn renumber(&mut self, terms: &Terms) {
        let per_us = terms.per_us();
        if per_us != self.per_us {
            (self.rest, self.per_us) = (0, per_us);
        }
        if terms.period_us != self.period_us {
            let rescaled = |rate: u32| {
                let rate = (u64::from(rate) * terms.period_us).div_ceil(self.period_us);
                u32::try_from(rate).unwrap_or(u32::MAX)
            };
            for lease in self.leases.iter_mut() {
                (lease.rate, lease.prior_rate) = (rescaled(lease.rate), rescaled(lease.prior_rate));
            }
            (self.dust, self.period_us) = (0, terms.period_us);
        }
    }
}

/// One step on a ledger.
struct LedgerStep<'a> {
    ledger: &'a mut Ledger,
    terms: &'a Terms,
    now_us: u64,
    movement: Movement,
}

impl LedgerStep<'_> {
    /// From when on leases are paid for: where the clock has stepped back, from when it had
    /// stepped, as what drained until then has paid for them.
    fn paid_from(&self) -> u64 {
        self.now_us.max(self.ledger.at_us)
    }

    /// The tokens that holders may still spend, as far as the ledger knows: in hand and yet to
    /// come. For a window this includes tokens of holders whose lease has ended, since those
    /// holders may still return them.
    fn outstanding(&self) -> u64 {
        match &self.terms.kind {
            TermsKind::Bucket(_) => self.sums().outstanding(self.ledger.period_us),
            TermsKind::Window(_) => self.ledger.leases.iter().map(|lease| u64::from(lease.held)).sum(),
        }
    }

    /// The usage without the units that leases have yet to release, rounded down.
    fn level(&self) -> u64 {
        self.ledger.used.saturating_sub(self.sums().to_come.div_ceil(self.ledger.period_us))
    }

    /// The sums over all leases.
    fn sums(&self) -> Sums {
        self.ledger.leases.sums(self.now_us, self.paid_from())
    }

    /// Credits at most `units` of the usage that no holder has in hand, and returns how many.
    fn give_back(&mut self, units: u64) -> u64 {
        let outstanding = self.outstanding();
        let units = units.min(self.ledger.used.saturating_sub(outstanding));
        self.credit(units);
        self.drop_parts(outstanding);
        units
    }

    fn debit(&mut self, units: u64) {
        if self.terms.has(Fault::GrantWithoutDebit) {
            return;
        }
        self.ledger.used = self.ledger.used.saturating_add(units);
        self.movement.debited += units;
    }

    fn credit(&mut self, units: u64) {
        let units = units.min(self.ledger.used);
        self.ledger.used -= units;
        self.movement.credited += units;
    }

    /// Credits units that count as spent and never were, but not below `floor`: they may have
    /// drained since, or a refund may have given them back.
    fn credit_spent(&mut self, units: u64, floor: u64) {
        self.credit(units.min(self.ledger.used.saturating_sub(floor)));
        self.drop_parts(floor);
    }

    /// Debits so many parts of a token by the period, exactly.
    fn debit_parts(&mut self, parts: u64) {
        if parts > self.ledger.dust {
            let units = (parts - self.ledger.dust).div_ceil(self.ledger.period_us);
            self.ledger.dust += units * self.ledger.period_us;
            self.debit(units);
        }
        self.ledger.dust -= parts.min(self.ledger.dust);
    }

    /// Credits so many parts of a token by the period, exactly.
    fn credit_parts(&mut self, parts: u64) {
        let parts = parts.saturating_add(self.ledger.dust);
        self.ledger.dust = parts % self.ledger.period_us;
        self.credit(parts / self.ledger.period_us);
    }

    /// Where the lease of `holder` is or belongs.
    fn find(&self, holder: HolderName) -> Result<usize, usize> {
        self.ledger.leases.binary_search_by_key(&holder, |lease| lease.holder)
    }

    /// The answer to an ask that was answered before: `None` if a later one was.
    fn repeat(&self, lease: &Lease, ask: &Ask) -> Option<Grant> {
        let ttl = lease.until_us.saturating_sub(self.now_us);
        (ask.seq == lease.seq && ttl > 0).then(|| Grant {
            lump: lease.lump,
            held: lease.held,
            rate: lease.rate,
            ttl: Duration::from_micros(ttl),
            ..self.nothing(ask, 0)
        })
    }

    /// A grant without tokens.
    fn nothing(&self, ask: &Ask, again_us: u64) -> Grant {
        Grant {
            seq: ask.seq,
            epoch: self.ledger.epoch,
            members: u32::try_from(self.ledger.leases.len().max(1)).unwrap_or(u32::MAX),
            again: Duration::from_micros(again_us).max(SPACING),
            ..Grant::NOTHING
        }
    }
}

const fn instant(us: u64) -> Timestamp {
    Timestamp::from_nanos(us.saturating_mul(1000))
}

#[cfg(test)]
#[cfg(not(tidegate_loom))]
impl Ledger {
    pub(super) fn tokens_out(&self, now: Timestamp) -> u64 {
        let now_us = micros(now);
        let parts: u64 = self.leases.iter().map(|lease| lease.to_come(now_us)).sum();
        parts.div_ceil(self.period_us)
            + self
                .leases
                .iter()
                .map(|lease| if lease.is_alive(now_us) { u64::from(lease.held) } else { 0 })
                .sum::<u64>()
    }

    pub(super) fn units_used(&self) -> u64 {
        self.used
    }

    /// The fastest that all holders together may spend, in tokens each period.
    pub(super) fn rates_out(&self, now: Timestamp) -> u64 {
        self.leases.iter().map(|lease| lease.fastest(micros(now))).sum()
    }

    /// [`Ledger::used`], of a record that may be of another epoch.
    pub(super) fn used_in(&self, now: Timestamp, terms: &Terms, epoch: &Epoch) -> u64 {
        let begun = (self.epoch != epoch.number).then(|| Self::begin(terms, epoch));
        begun.as_ref().unwrap_or(self).used(now, terms)
    }
}

/// How many holders there may be at once; here so that its use is next to its meaning.
const _: () = assert!(HOLDERS_MAX <= u32::MAX as usize);

//! The permit of admitted requests: everything they hold, and how their work ended.

use core::time::Duration;
use std::vec;

use smallvec::{SmallVec, smallvec};
use tidegate_capacity::{Units, UnitsHold};
pub use tidegate_core::limit::Outcome;
use tidegate_core::limit::WorkEnd;
use tidegate_core::table::RefundSet;
use tidegate_core::{Cost, Timestamp};
use tidegate_overload::LatencySample;
use tidegate_store::{Batch, Kind, Operation};

use crate::granted_level::GrantedLevel;
use crate::leases::LeaseCharge;
use crate::limit_report::LimitReport;
use crate::meter::{MeterAccount, PermitAccount, RowsKey, RowsLink};
use crate::place::{Loan, Place};
use crate::spent_ticket::SpentTicket;
use crate::stand_in_handle::StandInHandle;

/// Everything that admitted requests hold, until it is settled, expires or is dropped: those of
/// one request, or of several that were admitted together.
///
/// Dropping it returns loans (permits of concurrency limits, places in flight). Charges stay.
#[derive(Debug)]
#[must_use = "dropping a permit returns its loans"]
pub struct Permit(PermitForm);

/// Nearly all permits are of one request: that is not behind a pointer, and quick to drop.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "a box for each admission would cost more than the move")]
enum PermitForm {
    One(Holds),
    /// In the order of the requests; at least one.
    OfBatch(Box<[Holds]>),
}

impl Permit {
    /// The permit of a request.
    #[expect(clippy::inline_always, reason = "as `Holds::new`")]
    #[inline(always)]
    pub(crate) const fn of_one(holds: Holds) -> Self {
        Self(PermitForm::One(holds))
    }

    /// The permit of requests that were admitted together, in their order. An empty batch gets one
    /// of no request.
    pub(crate) fn from_batch(holds: SmallVec<[Holds; 1]>, now: Timestamp) -> Self {
        match holds.into_inner() {
            Ok([one]) => Self::of_one(one),
            Err(all) if all.is_empty() => {
                let nothing = tidegate_core::Permit::without_charges(Cost::ONE, now);
                Self::of_one(Holds::new(IssuingGate::NOWHERE, nothing))
            }
            Err(all) => Self(PermitForm::OfBatch(all.into_boxed_slice())),
        }
    }

    /// The holds of each request, in their order.
    pub(crate) fn holds(&self) -> &[Holds] {
        match &self.0 {
            PermitForm::One(holds) => core::slice::from_ref(holds),
            PermitForm::OfBatch(all) => all,
        }
    }

    /// The holds of each request, in their order.
    pub(crate) fn holds_mut(&mut self) -> &mut [Holds] {
        match &mut self.0 {
            PermitForm::One(holds) => core::slice::from_mut(holds),
            PermitForm::OfBatch(all) => all,
        }
    }

    /// The holds of the first request.
    pub(crate) fn first(&self) -> &Holds {
        &self.holds()[0]
    }

    /// The holds of each request, in their order.
    pub(crate) fn into_holds(self) -> SmallVec<[Holds; 1]> {
        match self.0 {
            PermitForm::One(holds) => smallvec![holds],
            PermitForm::OfBatch(all) => SmallVec::from_vec(all.into_vec()),
        }
    }

    /// The number of requests it was given for: 1, except for a batch.
    pub fn requests(&self) -> usize {
        if self.first().issuer == IssuingGate::NOWHERE { 0 } else { self.holds().len() }
    }

    /// When the requests were admitted.
    pub fn admitted_at(&self) -> Timestamp {
        self.first().limits.admitted_at()
    }

    /// Whether this member alone decided any of the limits or tables, by its share, while the store
    /// was silent.
    pub fn is_alone(&self) -> bool {
        self.holds().iter().any(Holds::is_alone)
    }

    /// Whether it holds a loan that should be returned when the work is done.
    pub fn must_be_settled(&self) -> bool {
        self.holds().iter().any(Holds::lends)
    }

    /// Whether a place that it held has expired.
    pub(crate) fn has_lost_place(&self) -> bool {
        self.holds().iter().any(|one| one.place().is_some_and(Place::has_expired))
    }

    /// Whether it holds a place in flight, whose resource takes the end of the work as a sample of
    /// its latency.
    pub fn holds_place(&self) -> bool {
        self.holds().iter().any(|one| one.place().is_some() || one.is_rehearsed())
    }

    /// Whether a place that it holds is given back when the answer begins: see
    /// [`Engine::begin_answer`](crate::Engine::begin_answer).
    pub fn awaits_answer(&self) -> bool {
        self.holds().iter().any(Holds::awaits_answer)
    }

    /// Counts the time for which its places were kept until `now`, and charges it to whom they were
    /// given. For a permit that is dropped instead of being settled.
    pub(crate) fn settle_places(&self, now: Timestamp) {
        for holds in self.holds() {
            if let Some(place) = holds.place() {
                place.settle(holds.limits.admitted_at(), now);
                if let Some(account) = holds.other().and_then(|other| other.account.as_ref()) {
                    account.served(now.saturating_since(holds.limits.admitted_at()));
                }
            }
        }
    }

    /// When all loans have expired by themselves; `None` without a loan, or for one that does not
    /// expire.
    pub fn expires_at(&self) -> Option<Timestamp> {
        let longest = self.holds().iter().filter_map(|one| one.rare()?.loan.as_ref()?.longest_hold).max();
        longest.map(|hold| self.admitted_at().saturating_add(hold))
    }
}

/// A permit of a batch taken apart: one permit for each request, in their order.
///
/// A part that is settled as [`Outcome::Cancelled`] refunds an exact limit whose key another part
/// was charged on as well, since an undo in the store would take back both charges. Settling the
/// whole permit undoes them all.
impl IntoIterator for Permit {
    type Item = Self;
    type IntoIter = vec::IntoIter<Self>;

    fn into_iter(self) -> Self::IntoIter {
        let count = self.requests();
        let each = self.into_holds().into_iter().take(count).map(Self::of_one);
        each.collect::<Vec<_>>().into_iter()
    }
}

/// The end of the work of an admitted request, as the caller reports it to
/// [`crate::Engine::settle`].
///
/// ```
/// # use tidegate_core::{Cost, Limit, Timestamp};
/// # use tidegate_engine::{Completion, Decision, Engine, EngineConfig, NamespaceConfig};
/// # use tidegate_engine::{Progress, Request, Step};
/// # let api = NamespaceConfig::new("api", [Limit::fixed("daily", 100, "24h")?]);
/// # let engine = Engine::builder(EngineConfig::default()).namespace(api).build()?;
/// # let now = Timestamp::from_secs(1_800_000_000);
/// let request = Request::new("api", ()).cost(Cost::new(30).unwrap());
/// let step = engine.admit(&request, now)?;
/// let Step::Decided(Decision::Admit(permit)) = step else { panic!("there is room") };
/// // The work cost 12 units rather than the 30 that were charged.
/// let settled = engine.settle(permit, Completion::from_cost(12), now);
/// assert!(settled.batches.is_empty(), "no store has to be told");
/// let Progress::Done(peek) = engine.peek(&request, now)? else { panic!("no store is asked") };
/// assert_eq!(peek.limits[0].remaining, 88);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Completion {
    /// How the work ended.
    pub outcome: Outcome,
    /// The status of its answer, 100 to 599, for limits that give their charge back by it, and for
    /// adaptive limits: 429 and 503 say that the resource had too much, 504 that it took too long.
    /// `None`: not known.
    pub status: Option<u16>,
    /// The true cost, in units of the limits: a surplus is refunded, the rest is charged, if need
    /// be as debt. `None`: the cost that was charged. Without meaning for
    /// [`Outcome::Cancelled`].
    pub true_cost: Option<u64>,
    /// The true capacity units of the access. `None`: those that were charged.
    pub true_units: Option<Units>,
    /// The time from the admission to the first byte of the answer. `None`: not known.
    pub first_byte_after: Option<Duration>,
    /// The time from the admission to the end of the work. `None`: until it is settled.
    pub ended_after: Option<Duration>,
    /// Whether the end is a sample of the latency of the resource whose place the request held.
    /// Default yes, except for [`Outcome::Abandoned`] and [`Outcome::Cancelled`], whose work was
    /// cut short or never started. Without meaning for a request that held no place.
    pub is_latency_sample: bool,
    /// Whether it failed because it took too long, which an adaptive limit counts against the
    /// resource, as a status of 504. Default no.
    pub is_timeout: bool,
}

impl Completion {
    /// Work that was done and cost this many units of the limits.
    pub fn from_cost(units: u64) -> Self {
        Self { true_cost: Some(units), ..Self::default() }
    }

    /// The same completion, of work that was answered with this status.
    #[must_use]
    pub const fn with_status(self, status: u16) -> Self {
        Self { status: Some(status), ..self }
    }

    /// The end of the work as limits see it.
    pub(crate) const fn work_end(&self) -> WorkEnd {
        WorkEnd { outcome: self.outcome, status: self.status, true_units: self.true_cost }
    }

    /// The same completion, which is no sample of latency.
    #[must_use]
    pub const fn unsampled(self) -> Self {
        Self { is_latency_sample: false, ..self }
    }

    /// The same completion, of work that timed out.
    #[must_use]
    pub const fn timed_out(self) -> Self {
        Self { is_timeout: true, ..self }
    }

    /// The time for which a request that was admitted at `admitted_at` kept its place.
    pub(crate) fn place_time(&self, admitted_at: Timestamp, now: Timestamp) -> Duration {
        self.ended_after.unwrap_or_else(|| now.saturating_since(admitted_at))
    }

    /// The sample of a request that was admitted at `admitted_at`, if the completion is one.
    pub(crate) fn sample(&self, admitted_at: Timestamp, now: Timestamp) -> Option<LatencySample> {
        let end = self.place_time(admitted_at, now);
        let sample = match (self.outcome, self.status) {
            (Outcome::Abandoned | Outcome::Cancelled, _) => return None,
            // An answer that takes a moment to say "too much" would make the resource look quick.
            (_, Some(429 | 503)) => LatencySample::Rejected,
            (Outcome::Failed, Some(504)) => LatencySample::TimedOut { after: end },
            (Outcome::Failed, _) if self.is_timeout => LatencySample::TimedOut { after: end },
            (Outcome::Failed, _) => LatencySample::Failed,
            (Outcome::Succeeded, _) => LatencySample::Succeeded { first_byte: self.first_byte_after, end },
        };
        self.is_latency_sample.then_some(sample)
    }
}

impl Default for Completion {
    /// Work that succeeded and cost what was charged.
    fn default() -> Self {
        Outcome::Succeeded.into()
    }
}

impl From<Outcome> for Completion {
    fn from(outcome: Outcome) -> Self {
        Self {
            outcome,
            status: None,
            true_cost: None,
            true_units: None,
            first_byte_after: None,
            ended_after: None,
            is_latency_sample: matches!(outcome, Outcome::Succeeded | Outcome::Failed),
            is_timeout: false,
        }
    }
}

/// The work that remains after a permit is settled.
#[derive(Debug, Default)]
#[must_use = "the store must be told what was returned"]
pub struct Settled {
    /// Batches for the store, as few as there may be and usually none, in this order; their answers
    /// change nothing any more.
    pub batches: Vec<Batch>,
    /// Whether a place of it had expired before, because a namespace below its part of the places
    /// waited: see [`Engine::keep`](crate::Engine::keep).
    pub has_lost_place: bool,
    /// The loans that these batches return. Dropped afterwards, they call the requests that wait.
    #[expect(dead_code, reason = "dropping it is its use")]
    pub(crate) loans: Vec<Loan>,
}

/// The gate that charged a request: its namespace in an engine of that generation. Needed only to
/// look up names; loans are returned without it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IssuingGate {
    pub(crate) namespace: u32,
    pub(crate) generation: u32,
}

impl IssuingGate {
    /// The home of the permit of no request.
    pub(crate) const NOWHERE: Self = Self { namespace: u32::MAX, generation: u32::MAX };
}

/// Everything one request holds, in the order of the planes. Returned in reverse.
#[derive(Debug)]
pub(crate) struct Holds {
    pub(crate) issuer: IssuingGate,
    pub(crate) limits: tidegate_core::Permit,
    /// Dropped after the limits, which lend.
    pub(crate) beside: BesideLimits,
}

/// The rest that a request has beside charges to limits that are decided here. Nearly all that are
/// not metered have nothing, and are dropped by the limits alone.
///
/// With a tag of its own it is read and dropped in fewer steps than with one inside of `Other`.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "a box for each admission would cost more than the move")]
#[repr(u8)]
pub(crate) enum BesideLimits {
    Nothing,
    /// The key of its rows of the meter, where it is enough of an account.
    Key(RowsKey),
    /// The link to its rows of the meter, where these are found by it. It holds nothing.
    Link(RowsLink),
    /// The account of the meter.
    Account(MeterAccount),
    Other {
        /// Whether a leased limit or table was decided here by this member's share of it.
        is_alone: bool,
        holds: OtherHolds,
    },
}

/// The holds of a request beside charges to limits that are decided here.
#[derive(Debug, Default)]
pub(crate) struct OtherHolds {
    /// The account of the meter, if there is one.
    account: Option<MeterAccount>,
    /// Charges to leases.
    pub(crate) leased: SmallVec<[LeaseCharge; 1]>,
    pub(crate) units: Option<UnitsHold>,
    pub(crate) place: Option<Place>,
    /// The level of the feature that the request is for.
    pub(crate) feature: Option<GrantedLevel>,
    /// The exact limits charged in the store, with what they had left.
    pub(crate) stored: Option<Box<StoreCharge>>,
    /// The holds that few requests have, in one box: most pay for one test.
    pub(crate) rare: Option<Box<RareHolds>>,
}

/// The holds that few requests have.
#[derive(Debug, Default)]
pub(crate) struct RareHolds {
    /// The requests to call when what is lent comes back.
    pub(crate) loan: Option<Loan>,
    /// Its stand-in at a resource in shadow mode.
    pub(crate) stand_in: Option<StandInHandle>,
    /// The ticket that it has spent.
    pub(crate) ticket: Option<SpentTicket>,
}

impl OtherHolds {
    pub(crate) fn rare_mut(&mut self) -> &mut RareHolds {
        self.rare.get_or_insert_default()
    }
}

impl Holds {
    /// The holds of a request of this cost before any plane has charged it.
    #[inline]
    pub(crate) fn nothing(issuer: IssuingGate, cost: Cost, now: Timestamp) -> Self {
        Self::new(issuer, tidegate_core::Permit::without_charges(cost, now))
    }

    #[expect(clippy::inline_always, reason = "it is large, and is built where it is held only so")]
    #[inline(always)]
    pub(crate) fn new(issuer: IssuingGate, limits: tidegate_core::Permit) -> Self {
        Self { issuer, limits, beside: BesideLimits::Nothing }
    }

    /// The holds beside charges to limits that are decided here.
    pub(crate) const fn other(&self) -> Option<&OtherHolds> {
        match &self.beside {
            BesideLimits::Other { holds, .. } => Some(holds),
            _ => None,
        }
    }

    /// [`Holds::other`], to be changed.
    pub(crate) const fn known_other_mut(&mut self) -> Option<&mut OtherHolds> {
        match &mut self.beside {
            BesideLimits::Other { holds, .. } => Some(holds),
            _ => None,
        }
    }

    /// [`Holds::other`], made where it is absent. Planes charge a request before it counts as
    /// admitted: it has no account yet.
    pub(crate) fn other_mut(&mut self) -> &mut OtherHolds {
        if !matches!(self.beside, BesideLimits::Other { .. }) {
            debug_assert!(matches!(self.beside, BesideLimits::Nothing), "{:?} is lost", self.beside);
            self.beside = BesideLimits::Other { is_alone: false, holds: OtherHolds::default() };
        }
        self.known_other_mut().expect("it was just made")
    }

    /// Sets the account of the meter. From now on the request is in flight.
    #[cold]
    pub(crate) fn set_account(&mut self, mut account: MeterAccount) {
        account.begin(self.limits.admitted_at());
        match &mut self.beside {
            BesideLimits::Other { holds, .. } => holds.account = Some(account),
            beside => *beside = BesideLimits::Account(account),
        }
    }

    /// Takes the account of the meter out, if there is one.
    pub(crate) fn take_account(&mut self) -> Option<PermitAccount> {
        match &mut self.beside {
            BesideLimits::Other { holds, .. } => holds.account.take().map(PermitAccount::Account),
            beside => match core::mem::replace(beside, BesideLimits::Nothing) {
                BesideLimits::Key(key) => Some(PermitAccount::Account(MeterAccount::of_key(key))),
                BesideLimits::Link(link) => Some(PermitAccount::Link(link)),
                BesideLimits::Account(account) => Some(PermitAccount::Account(account)),
                BesideLimits::Nothing | BesideLimits::Other { .. } => None,
            },
        }
    }

    /// Says that a leased limit or table was decided here by this member's share of it.
    #[cold]
    pub(crate) fn set_alone(&mut self) {
        self.other_mut();
        if let BesideLimits::Other { is_alone, .. } = &mut self.beside {
            *is_alone = true;
        }
    }

    /// Charges to leases.
    pub(crate) fn leased(&self) -> &[LeaseCharge] {
        self.other().map_or(&[], |other| &other.leased)
    }

    pub(crate) fn units(&self) -> Option<&UnitsHold> {
        self.other()?.units.as_ref()
    }

    pub(crate) fn place(&self) -> Option<&Place> {
        self.other()?.place.as_ref()
    }

    pub(crate) fn place_mut(&mut self) -> Option<&mut Place> {
        self.known_other_mut()?.place.as_mut()
    }

    /// Charges to exact limits.
    pub(crate) fn stored(&self) -> Option<&StoreCharge> {
        self.other()?.stored.as_deref()
    }

    pub(crate) fn stored_mut(&mut self) -> Option<&mut StoreCharge> {
        self.known_other_mut()?.stored.as_deref_mut()
    }

    pub(crate) fn is_alone(&self) -> bool {
        matches!(self.beside, BesideLimits::Other { is_alone: true, .. })
            || self.stored().is_some_and(|stored| stored.fallback.is_some())
    }

    fn awaits_answer(&self) -> bool {
        let stand_in = self.rare().and_then(|rare| rare.stand_in.as_ref());
        self.place().is_some_and(Place::awaits_answer) || stand_in.is_some_and(StandInHandle::awaits_answer)
    }

    fn rare(&self) -> Option<&RareHolds> {
        self.other()?.rare.as_deref()
    }

    pub(crate) fn take_loan(&mut self) -> Option<Loan> {
        self.known_other_mut()?.rare.as_mut()?.loan.take()
    }

    pub(crate) fn stand_in_mut(&mut self) -> Option<&mut StandInHandle> {
        self.known_other_mut()?.rare.as_mut()?.stand_in.as_mut()
    }

    /// Whether it has a stand-in at a resource in shadow mode, which learns the end of the work.
    pub(crate) fn is_rehearsed(&self) -> bool {
        self.rare().is_some_and(|rare| rare.stand_in.is_some())
    }

    /// Whether there is a loan among them.
    pub(crate) fn lends(&self) -> bool {
        let stored_lends = self.stored().is_some_and(StoreCharge::lends);
        self.limits.must_be_settled() || stored_lends || self.place().is_some() || self.is_rehearsed()
    }
}

/// Charges to exact limits.
#[derive(Debug)]
pub(crate) struct StoreCharge {
    /// The operations that the store admitted and counted, under the id they were sent with. `None`
    /// while the store is away.
    pub(crate) batch: Option<Batch>,
    /// The endings of work on which each operation of the batch is given back; empty if none is.
    pub(crate) refund_on: SmallVec<[RefundSet; 2]>,
    /// The operations on keys that another request of the same batch has charged as well: one bit
    /// each, the first operation the lowest. An undo of the batch would take back both charges.
    pub(crate) shared: u64,
    /// The charges made here instead, while the store is away.
    pub(crate) fallback: Option<tidegate_core::Permit>,
    pub(crate) reports: Vec<LimitReport>,
}

/// A charge to an exact limit, with the endings of work on which it is given back.
#[derive(Clone, Debug)]
pub(crate) struct StoredOperation {
    pub(crate) operation: Operation,
    pub(crate) refund_on: RefundSet,
}

impl StoreCharge {
    /// Each operation of the batch.
    pub(crate) fn operations(&self) -> impl Iterator<Item = StoredOperation> + '_ {
        let operations = self.batch.iter().flat_map(|batch| &batch.operations);
        operations.enumerate().map(|(at, operation)| StoredOperation {
            operation: operation.clone(),
            refund_on: self.refund_on.get(at).copied().unwrap_or_default(),
        })
    }

    /// Whether there is a loan among them.
    pub(crate) fn lends(&self) -> bool {
        let mut operations = self.batch.iter().flat_map(|batch| &batch.operations);
        operations.any(|one| matches!(one.kind, Kind::Acquire { .. }))
            || self.fallback.as_ref().is_some_and(tidegate_core::Permit::must_be_settled)
    }
}

//! Settlement: what a permit leaves behind when its work has ended, and taking charges back.

use smallvec::SmallVec;
use tidegate_core::{Algorithm, Cost, Gate, Timestamp};
use tidegate_store::{Batch, Kind, Operation, RequestId};

use crate::engine::Engine;
use crate::fault::Fault;
use crate::permit::{BesideLimits, Completion, Holds, OtherHolds, Outcome, Permit, Settled, StoredOperation};
use crate::place::{Loan, Place};
use crate::stand_in_handle::StandInHandle;
use crate::sync::Arc;

impl Engine {
    /// Settles a permit, of one request or of a batch: returns loans, and brings the charges to
    /// what the completion says. The limits it was charged to may have changed or be gone since.
    ///
    /// [`Outcome::Cancelled`] undoes every charge. One exception: a permit [taken apart] from a
    /// batch refunds an exact limit whose key another request of the batch was charged on as well,
    /// since an undo in the store would take back both charges.
    ///
    /// [taken apart]: Permit#impl-IntoIterator-for-Permit
    pub fn settle(&self, mut permit: Permit, completion: impl Into<Completion>, now: Timestamp) -> Settled {
        let completion = completion.into();
        let has_lost_place = permit.has_lost_place();
        if completion.outcome == Outcome::Cancelled {
            let loans = permit.holds_mut().iter_mut().filter_map(|holds| self.loan_of_all(holds)).collect();
            let mut holds = permit.into_holds();
            let batches = match (holds.pop(), holds.is_empty()) {
                (Some(one), true) => self.take_back(one, now).into_iter().collect(),
                (last, _) => self.take_back_all(holds.into_iter().chain(last), now),
            };
            return Settled { batches, has_lost_place, loans };
        }
        let (mut operations, mut loans) = (Vec::new(), Vec::new());
        // Each is settled where it lies: holds are large to move.
        for holds in permit.holds_mut() {
            self.complete(holds, completion, &mut operations, &mut loans, now);
        }
        Settled { batches: self.each_in_batches(&operations), has_lost_place, loans }
    }

    /// The answer to the requests of a permit begins: those that are [streams] give their places
    /// back. The time until now is their sample of latency, by `completion`; their settlement adds
    /// none. Nothing happens for others, or a second time.
    ///
    /// [streams]: crate::Request::is_stream
    pub fn begin_answer(&self, permit: &mut Permit, completion: impl Into<Completion>, now: Timestamp) {
        let completion = completion.into();
        for holds in permit.holds_mut() {
            let admitted = holds.limits.admitted_at();
            if let Some(work) = holds.stand_in_mut().and_then(StandInHandle::begin_stream) {
                self.begin_rehearsed_stream(work, now);
            }
            let Some(place) = holds.place_mut().filter(|place| place.awaits_answer()) else { continue };
            let kept = now.saturating_since(admitted);
            place.learn_feature(kept);
            let measured = Completion { first_byte_after: Some(kept), ended_after: Some(kept), ..completion };
            if let Some(sample) = measured.sample(admitted, now) {
                place.sample(sample, admitted, now);
            }
            place.begin_stream(admitted, now);
        }
    }

    /// Batches that do each of these operations by itself, as few as there may be.
    pub(crate) fn each_in_batches(&self, operations: &[Operation]) -> Vec<Batch> {
        if operations.is_empty() {
            return Vec::new();
        }
        let batches = operations.chunks(Batch::OPERATIONS_MAX);
        batches.map(|some| Batch::each(self.next_batch_id(), some.iter().cloned())).collect()
    }

    /// Brings what was charged here to a completion that is no cancellation, and adds what the
    /// store is to do. Afterwards the request holds nothing.
    fn complete(
        &self,
        holds: &mut Holds,
        completion: Completion,
        operations: &mut Vec<Operation>,
        loans: &mut Vec<Loan>,
        now: Timestamp,
    ) {
        if let (Some(account), Some(meter)) = (holds.take_account(), &self.shared.meter) {
            let before_stream = holds.place().and_then(Place::kept_before_stream);
            let place_time =
                before_stream.unwrap_or_else(|| completion.place_time(holds.limits.admitted_at(), now));
            let units = (completion.true_cost, holds.limits.cost().units());
            meter.settle(&account, units, place_time);
        }
        let Holds { limits, beside, .. } = holds;
        let (table, end) = (&self.shared.table, completion.work_end());
        let BesideLimits::Other { holds: other, .. } = beside else {
            limits.end_in_place(table, &end, now);
            return;
        };
        if let Some(mut rare) = other.rare.take() {
            if let Some(stand_in) = &mut rare.stand_in {
                self.end_rehearsed(stand_in, completion, now);
            }
            loans.extend(rare.loan);
        }
        if let Some(place) = other.place.as_ref().filter(|place| place.kept_before_stream().is_none()) {
            place.settle(limits.admitted_at(), now);
            if matches!(completion.outcome, Outcome::Succeeded | Outcome::Failed) {
                place.learn_settled(limits.admitted_at(), now);
                place.learn_feature(completion.place_time(limits.admitted_at(), now));
            }
            if let Some(sample) = completion.sample(limits.admitted_at(), now) {
                place.sample(sample, limits.admitted_at(), now);
            }
        }
        other.place = None;
        // Without the true units the charge stays.
        if let (Some(true_units), Some(capacity)) = (completion.true_units, &self.planes.capacity)
            && let Some(units) = other.units.take()
        {
            capacity.settle(units, Some(true_units), now);
        }
        limits.end_in_place(table, &end, now);
        if !other.leased.is_empty() {
            operations.extend(self.settle_leased(&other.leased, &end, completion.true_units, now));
        }
        if let Some(stored) = other.stored.take() {
            operations.extend(self.settling(stored.operations(), limits.cost(), completion));
            if let Some(fallback) = stored.fallback {
                fallback.end(table, &end, now);
            }
        }
    }

    /// The operations that correct charges in a store, each of `cost`, to what the end of the work
    /// says.
    pub(crate) fn settling(
        &self,
        charged: impl Iterator<Item = StoredOperation>,
        cost: Cost,
        completion: Completion,
    ) -> Vec<Operation> {
        let end = completion.work_end();
        let of_units = |true_units: u64| {
            let surplus = Cost::new(cost.units().saturating_sub(true_units));
            let rest = Cost::new(true_units.saturating_sub(cost.units()));
            let surplus = surplus.map(|cost| Kind::Refund { cost });
            surplus.or_else(|| rest.map(|cost| Kind::Report { cost }))
        };
        let units = if end.outcome == Outcome::Cancelled { Some(0) } else { end.true_units };
        let kind = |charge: &StoredOperation| match charge.operation.kind {
            Kind::Acquire { holder } => Some(Kind::Release { holder }),
            Kind::Check { .. } if self.shared.table.is_refunded(charge.refund_on, &end) => of_units(0),
            Kind::Check { .. } => units.and_then(of_units),
            _ => None,
        };
        charged.filter_map(|one| Some(Operation { kind: kind(&one)?, ..one.operation })).collect()
    }

    /// The loan of a request that is cancelled: all of its charges are returned, not only permits.
    fn loan_of_all(&self, holds: &mut Holds) -> Option<Loan> {
        if self.shared.room.count() == 0 {
            return holds.take_loan();
        }
        let leased = holds.leased().iter().map(|charge| charge.about.number);
        let keys: SmallVec<[u64; 2]> = holds.limits.keys().chain(leased).collect();
        let mut loan = holds.take_loan().unwrap_or_else(|| self.loan(SmallVec::new()));
        loan.keys.extend(keys);
        Some(loan)
    }

    /// A loan of these concurrency limits, whose permits do not expire.
    #[cold]
    pub(crate) fn loan(&self, keys: SmallVec<[u64; 2]>) -> Loan {
        Loan { room: Arc::clone(&self.shared.room), keys, longest_hold: None }
    }

    /// Adds what there is to know of a request to which concurrency limits lent permits: how long
    /// they are held, and which waiting requests to call when they are returned.
    #[cold]
    pub(crate) fn lend(&self, gate: &Gate, holds: &mut Holds) {
        let mut loan = self.loan(holds.limits.lent_keys().collect());
        loan.longest_hold = longest_hold(gate);
        holds.other_mut().rare_mut().loan = Some(loan);
    }

    /// Returns what a request holds, the last first; charges of the store are left as a batch to
    /// be sent.
    pub(crate) fn take_back(&self, mut holds: Holds, now: Timestamp) -> Option<Batch> {
        if let (Some(account), Some(meter)) = (holds.take_account(), &self.shared.meter) {
            meter.undo(&account, holds.limits.cost().units());
        }
        let Holds { limits, beside, .. } = holds;
        let BesideLimits::Other { holds: other, .. } = beside else {
            limits.take_back(&self.shared.table, now);
            return None;
        };
        let OtherHolds { leased, units, place, stored, mut rare, .. } = other;
        if let Some(stand_in) = rare.as_mut().and_then(|rare| rare.stand_in.as_mut()) {
            self.end_rehearsed(stand_in, Outcome::Cancelled.into(), now);
        }
        if let Some(ticket) = rare.as_mut().and_then(|rare| rare.ticket.take()) {
            ticket.give_back();
        }
        let mut batch = None;
        if let Some(stored) = stored {
            batch = stored.batch.map(|batch| match stored.shared {
                0 => Batch::undo_of(&batch, self.next_batch_id()),
                shared => undo_beside(&batch, shared, self.next_batch_id()),
            });
            if let Some(fallback) = stored.fallback {
                fallback.take_back(&self.shared.table, now);
            }
        }
        if let Some(place) = place {
            place.settle(limits.admitted_at(), now);
        }
        if let (Some(units), Some(capacity)) = (units, &self.planes.capacity) {
            (!Fault::UnitsKept.is_planted()).then(|| capacity.give_back(units, now));
        }
        if !leased.is_empty() {
            self.put_back(&leased, now);
            if let Some(leases) = self.shared.leases() {
                leased.iter().for_each(|charge| leases.return_idle(charge, now));
            }
        }
        limits.take_back(&self.shared.table, now);
        drop(rare);
        batch.filter(|batch| !batch.operations.is_empty())
    }

    /// Returns what requests hold, the last first; charges of the store are left as batches to be
    /// sent. All the requests of a batch are among them, so that the batch can be undone whole.
    pub(crate) fn take_back_all(
        &self,
        holds: impl IntoIterator<Item = Holds, IntoIter: DoubleEndedIterator>,
        now: Timestamp,
    ) -> Vec<Batch> {
        let mut charged: Vec<Batch> = Vec::new();
        for mut one in holds.into_iter().rev() {
            if let Some(batch) = one.stored_mut().and_then(|stored| stored.batch.take()) {
                match charged.last_mut() {
                    Some(last) if last.id == batch.id => {
                        // Back to the order in which they were charged.
                        let later = core::mem::replace(&mut last.operations, batch.operations);
                        last.operations.extend(later);
                    }
                    _ => charged.push(batch),
                }
            }
            let batch = self.take_back(one, now);
            debug_assert!(batch.is_none(), "its batch is taken out");
        }
        let undo = charged.iter().map(|batch| Batch::undo_of(batch, self.next_batch_id()));
        undo.filter(|undo| !undo.operations.is_empty()).collect()
    }
}

/// A batch that takes back what one of several requests charged, and leaves the others theirs: on
/// keys that only it has charged by undoing, on those of `shared` by giving back.
fn undo_beside(charged: &Batch, shared: u64, id: RequestId) -> Batch {
    let take_back = |(at, operation): (usize, &Operation)| {
        let kind = match operation.kind {
            kind if shared >> at & 1 == 0 && kind.may_charge() => Kind::Undo { batch: charged.id },
            Kind::Check { cost } => Kind::Refund { cost },
            Kind::Acquire { holder } => Kind::Release { holder },
            _ => return None,
        };
        Some(Operation { kind, ..operation.clone() })
    };
    let operations: Vec<_> = charged.operations.iter().enumerate().filter_map(take_back).collect();
    Batch::each(id, operations.into_iter().rev())
}

/// The longest time that a permit of the gate's concurrency limits is held.
fn longest_hold(gate: &Gate) -> Option<core::time::Duration> {
    let holds = gate.limits().filter_map(|limit| match &limit.algorithm {
        Algorithm::Concurrency(concurrency) => Some(concurrency.hold()),
        _ => None,
    });
    holds.max()
}

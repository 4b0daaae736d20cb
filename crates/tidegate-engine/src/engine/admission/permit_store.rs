//! Permits kept for callers that settle by name, also over a restart.

use std::sync::Arc;

use tidegate_core::shares::Owner;
use tidegate_core::{Cost, Timestamp};
use tidegate_store::{Batch, Note, NoteKind};

use crate::engine::Engine;
use crate::error::{AdminError, RequestError};
use crate::kept::{Kept, KeptHolds, KeptSource, PermitPage, PermitReport};
use crate::notes::{self, KeptNote, NoteError, OperationNote};
use crate::permit::{Completion, Holds, Outcome, Permit, Settled, StoreCharge, StoredOperation};
use crate::permit_id::PermitId;
use crate::progress::Progress;

impl Engine {
    /// Keeps a permit under a name until `expires`, for a caller that settles later; then it is
    /// dropped, which gives back what is lent and leaves charges as they are.
    ///
    /// A place in flight may be given back earlier, while the permit stays: [`Engine::tick`] lets
    /// it expire if a namespace below its part of the places waits for one, see
    /// [`Resource::take_overdue_places`](tidegate_overload::Resource::take_overdue_places).
    ///
    /// Where the store holds charges for the permit, this asks it to remember them under that name,
    /// before the caller is told it; a permit of local limits costs the store nothing, and is
    /// forgotten with the process as their counters are. When there are too many permits, or the
    /// store does not answer, the permit is settled as cancelled, so that nothing stays charged,
    /// and the error says why.
    pub fn keep(
        &self,
        permit: Permit,
        expires: Timestamp,
        now: Timestamp,
    ) -> Result<Progress<PermitId>, RequestError> {
        let value = match self.kept_note(&permit) {
            Ok(value) => value,
            Err(error) => return self.cancel(permit, error, now),
        };
        let gate = self.home_gate(permit.first());
        let owner = gate.map_or(Owner::NONE, |gate| gate.owner());
        let source = KeptSource::Given {
            namespace: gate.map_or_else(|| Arc::from(""), |gate| gate.shared_namespace()),
            limits: gate
                .iter()
                .flat_map(|gate| permit.holds().iter().flat_map(|holds| gate.statuses(&holds.limits)))
                .map(|status| status.name.into())
                .collect(),
            at: now,
        };
        match self.shared.kept.keep(Box::new(permit), value.is_some(), source, owner, expires) {
            Err(permit) => self.cancel(*permit, RequestError::TooManyPermits(self.shared.kept.max()), now),
            Ok(id) => Ok(match value {
                None => Progress::Done(id),
                Some(value) => {
                    let note = notes::note(NoteKind::Permit, id.to_bits(), &value, expires);
                    let batch = Batch::each(self.next_batch_id(), []);
                    Progress::ask(
                        batch.with_notes([tidegate_store::NoteChange::Put(note)]),
                        move |step, _| {
                            match step.answer {
                                Ok(_) => Ok(Progress::Done(id)),
                                Err(error) => {
                                    // The note may be there all the same: settling takes it away.
                                    let settled = step.engine.settle_kept(id, Outcome::Cancelled, step.now);
                                    let settled = settled.unwrap_or_default();
                                    then_fail(settled, RequestError::Store(error))
                                }
                            }
                        },
                    )
                }
            }),
        }
    }

    /// The note to keep about a permit; `None` if the store holds nothing for it.
    fn kept_note(&self, permit: &Permit) -> Result<Option<KeptNote>, RequestError> {
        let stored = permit.holds().iter().filter_map(Holds::stored);
        let mut operations = Vec::new();
        for charge in stored.flat_map(StoreCharge::operations) {
            let refund_on = self.shared.table.refund_on(charge.refund_on);
            let note = OperationNote::from_operation(&charge.operation, refund_on);
            let algorithm = charge.operation.algorithm.name();
            operations.push(note.ok_or(RequestError::Unstorable(algorithm))?);
        }
        if operations.is_empty() {
            return Ok(None);
        }
        let namespace = self.home_gate(permit.first()).map_or("", |gate| gate.namespace()).to_owned();
        Ok(Some(KeptNote { namespace, cost: permit.first().limits.cost().units(), operations }))
    }

    fn cancel(
        &self,
        permit: Permit,
        error: RequestError,
        now: Timestamp,
    ) -> Result<Progress<PermitId>, RequestError> {
        then_fail(self.settle(permit, Outcome::Cancelled, now), error)
    }

    /// Settles a kept permit: once. A second time, or after it expired, the permit is unknown.
    ///
    /// One that was kept before a restart holds only what the store held for it: what was charged
    /// there is settled, what this member alone had counted was forgotten with the process.
    pub fn settle_kept(
        &self,
        id: PermitId,
        completion: impl Into<Completion>,
        now: Timestamp,
    ) -> Result<Settled, RequestError> {
        // One that has expired but was not yet collected is as unknown as one that was.
        self.shared.kept.expire(now);
        let Kept { holds, is_noted, .. } =
            self.shared.kept.take(id).ok_or(RequestError::UnknownPermit(id))?;
        let mut settled = match holds {
            KeptHolds::All(permit) => self.settle(*permit, completion, now),
            KeptHolds::Stored { cost, operations } => {
                let operations = self.settling(operations.into_iter(), cost, completion.into());
                Settled { batches: self.each_in_batches(&operations), ..Settled::default() }
            }
        };
        if is_noted {
            // In the same step as what is given back, so that a crash between cannot give it back
            // twice.
            let forget = notes::remove(NoteKind::Permit, id.to_bits());
            let last = settled.batches.pop().unwrap_or_else(|| Batch::each(self.next_batch_id(), []));
            settled.batches.push(last.with_notes([forget]));
        }
        Ok(settled)
    }

    /// The kept permits of a page, the oldest first, and how many there are on all pages.
    pub fn kept_permits(&self, page: &PermitPage<'_>, now: Timestamp) -> (Vec<PermitReport>, usize) {
        self.shared.kept.page(page, now, |id, kept| {
            let mut limits: Vec<String> = Vec::new();
            let mut kept_at = None;
            let cost = match &kept.holds {
                KeptHolds::All(permit) => {
                    if let KeptSource::Given { limits: local, at, .. } = &kept.source {
                        kept_at = Some(*at);
                        limits.extend(local.iter().map(ToString::to_string));
                    }
                    for holds in permit.holds() {
                        limits.extend(Self::leased_reports(holds.leased(), now).map(|report| report.name));
                        let stored = holds.stored().into_iter().flat_map(|stored| &stored.reports);
                        limits.extend(stored.map(|report| report.name.clone()));
                    }
                    permit.first().limits.cost()
                }
                KeptHolds::Stored { cost, .. } => *cost,
            };
            PermitReport {
                number: kept.number,
                id,
                namespace: kept.source.namespace().to_owned(),
                limits,
                cost,
                kept_at,
                expires: kept.expires,
            }
        })
    }

    /// Takes up a permit that was kept before a restart, from its note of kind
    /// [`NoteKind::Permit`].
    pub fn restore_permit(&self, note: &Note) -> Result<(), AdminError> {
        let id = PermitId::from_bits(notes::name(NoteKind::Permit, note)?);
        let KeptNote { namespace, cost, operations } = notes::value(NoteKind::Permit, note)?;
        let cost = Cost::new(cost).ok_or_else(|| NoteError::new(NoteKind::Permit, "its cost is 0"))?;
        let operations: Result<Vec<_>, NoteError> = operations
            .iter()
            .map(|one| {
                // Where no number is free the charge stays on every ending, as other charges do.
                let refund_on = self.shared.table.refund_set(&one.refund_on()?).unwrap_or_default();
                Ok(StoredOperation { operation: one.operation(cost)?, refund_on })
            })
            .collect();
        let owner = self.shared.table.namespaces().owner(&namespace);
        let source = KeptSource::Before(namespace.into());
        if self.shared.kept.restore(id, source, owner, cost, operations?, note.until) {
            Ok(())
        } else {
            Err(RequestError::TooManyPermits(self.shared.kept.max()).into())
        }
    }
}

/// Fails, after the store has been told what was returned. A batch that the store did not take is
/// sent again in the background, as nobody else knows of it.
fn then_fail<T: 'static>(mut settled: Settled, error: RequestError) -> Result<Progress<T>, RequestError> {
    if settled.batches.is_empty() {
        return Err(error);
    }
    let batch = settled.batches.remove(0);
    Ok(Progress::ask(batch, move |step, batch| {
        step.engine.send_return_again(batch, &step.answer);
        then_fail(settled, error)
    }))
}

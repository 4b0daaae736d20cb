//! Permits kept for callers that settle by name, also over a restart.

use std::sync::Arc;

use tidegate::shares::Owner;
use tidegate::{Cost, Timestamp};
use tidegate_store::{Batch, Note, NoteKind};

use super::order::settling;
use super::{Engine, EngineError};
use crate::asking::Progress;
use crate::decision::{Outcome, Permit, Settled};
use crate::kept::{Holds, Kept, KeptSource, PermitId, PermitPage, PermitReport};
use crate::notes::{self, KeptNote, NoteError, OperationNote};

impl Engine {
    /// Keeps a permit under a name until `expires`, for a caller that settles later; then it is
    /// dropped, which gives back what is lent and leaves charges as they are.
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
    ) -> Result<Progress<PermitId>, EngineError> {
        let value = match self.kept_note(&permit) {
            Ok(value) => value,
            Err(error) => return self.cancel(permit, error, now),
        };
        let gate = self.home_gate(&permit);
        let owner = gate.map_or(Owner::NONE, |gate| gate.owner());
        let source = KeptSource::Given {
            namespace: gate.map_or_else(|| Arc::from(""), |gate| gate.shared_namespace()),
            limits: gate
                .iter()
                .flat_map(|gate| gate.statuses(&permit.limits))
                .map(|status| status.name.into())
                .collect(),
            at: now,
        };
        match self.shared.kept.keep(Box::new(permit), value.is_some(), source, owner, expires) {
            Err(permit) => self.cancel(*permit, EngineError::TooManyPermits(self.shared.kept.max()), now),
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
                                    let batch = settled.ok().and_then(|settled| settled.batch);
                                    then_fail(batch, EngineError::Store(error))
                                }
                            }
                        },
                    )
                }
            }),
        }
    }

    /// What to remember of a permit; `None` if the store holds nothing for it.
    fn kept_note(&self, permit: &Permit) -> Result<Option<KeptNote>, EngineError> {
        let batch = permit.remote.as_ref().and_then(|remote| remote.batch.as_ref());
        let charged = batch.map_or(&[][..], |batch| &batch.operations);
        if charged.is_empty() {
            return Ok(None);
        }
        let mut operations = Vec::with_capacity(charged.len());
        for operation in charged {
            let note = OperationNote::of(operation);
            operations.push(note.ok_or_else(|| EngineError::Unstorable(format!("{:?}", operation.kind)))?);
        }
        let namespace = self.home_of(permit).map_or("", |gate| gate.namespace()).to_owned();
        Ok(Some(KeptNote { namespace, cost: permit.limits.cost().units(), operations }))
    }

    fn cancel(
        &self,
        permit: Permit,
        error: EngineError,
        now: Timestamp,
    ) -> Result<Progress<PermitId>, EngineError> {
        then_fail(self.settle(permit, Outcome::Cancelled, now).batch, error)
    }

    /// Settles a kept permit: once. A second time, or after it expired, the permit is unknown.
    ///
    /// One that was kept before a restart holds only what the store held for it: what was charged
    /// there is settled, what this member alone had counted was forgotten with the process.
    pub fn settle_kept(
        &self,
        id: PermitId,
        outcome: Outcome,
        now: Timestamp,
    ) -> Result<Settled, EngineError> {
        // One that has expired but was not yet collected is as unknown as one that was.
        drop(self.shared.kept.expire(now));
        let Kept { holds, is_noted, .. } = self.shared.kept.take(id).ok_or(EngineError::UnknownPermit(id))?;
        let mut settled = match holds {
            Holds::All(permit) => self.settle(*permit, outcome, now),
            Holds::Stored { cost, operations } => {
                let operations = settling(&operations, cost, outcome);
                Settled { batch: Some(Box::new(Batch::each(self.next_batch_id(), operations))) }
            }
        };
        if is_noted {
            // In the same step as what is given back, so that a crash between cannot give it back
            // twice.
            let batch = settled.batch.take();
            let batch = batch.unwrap_or_else(|| Box::new(Batch::each(self.next_batch_id(), [])));
            let forget = notes::remove(NoteKind::Permit, id.to_bits());
            settled.batch = Some(Box::new(batch.with_notes([forget])));
        }
        Ok(settled)
    }

    /// The kept permits of a page, the oldest first, and how many there are on all pages.
    pub fn kept_permits(&self, page: &PermitPage<'_>, now: Timestamp) -> (Vec<PermitReport>, usize) {
        self.shared.kept.page(page, now, |id, kept| {
            let mut limits: Vec<String> = Vec::new();
            let mut kept_at = None;
            let cost = match &kept.holds {
                Holds::All(permit) => {
                    if let KeptSource::Given { limits: local, at, .. } = &kept.source {
                        kept_at = Some(*at);
                        limits.extend(local.iter().map(ToString::to_string));
                    }
                    limits.extend(Self::leased_reports(&permit.leased, now).map(|report| report.name));
                    let remote = permit.remote.iter().flat_map(|remote| &remote.reports);
                    limits.extend(remote.map(|report| report.name.clone()));
                    permit.limits.cost()
                }
                Holds::Stored { cost, .. } => *cost,
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
    pub fn restore_permit(&self, note: &Note) -> Result<(), EngineError> {
        let id = PermitId::from_bits(notes::name(NoteKind::Permit, note)?);
        let KeptNote { namespace, cost, operations } = notes::value(NoteKind::Permit, note)?;
        let cost = Cost::new(cost).ok_or_else(|| NoteError::new(NoteKind::Permit, "its cost is 0"))?;
        let operations: Result<Vec<_>, _> = operations.iter().map(|one| one.operation(cost)).collect();
        let owner = self.shared.table.namespaces().owner(&namespace);
        let source = KeptSource::Before(namespace.into());
        if self.shared.kept.restore(id, source, owner, cost, operations?, note.until) {
            Ok(())
        } else {
            Err(EngineError::TooManyPermits(self.shared.kept.max()))
        }
    }
}

/// Fails, after the store has heard what was given back; its answer changes nothing any more.
fn then_fail<T>(batch: Option<Box<Batch>>, error: EngineError) -> Result<Progress<T>, EngineError> {
    match batch {
        None => Err(error),
        Some(batch) => Ok(Progress::ask(*batch, move |_, _| Err(error))),
    }
}

//! Everything a caller may do besides asking and looking: report, refund, reset, block.
//!
//! Each begins here, and goes on after the store has answered where exact limits or a durable
//! memory are concerned. Local changes are made after the store has done its part, so that an error
//! leaves nothing half done here.

use tidegate_core::gate::{ExactLimit, LocalLimit};
use tidegate_core::limit::{Missing, OnStoreFailure};
use tidegate_core::refusal::ScopeValues;
use tidegate_core::shares::Owner;
use tidegate_core::{
    Algorithm, Attributes, Cost, Gate, Limit, Reason, RefusalView, Retry, ScopeView, Timestamp,
};
use tidegate_store::{
    Batch, Kind, Note, NoteChange, NoteKind, OnLedger, Operation, Outcome, RequestId, StoreError,
};

use crate::access_report::AccessCharge;
use crate::blocks::{BlockCause, BlockPlace, BlockReport};
use crate::continuation::ExactName;
use crate::engine::Engine;
use crate::engine::admission::exact_limit::{block_exhausted, exact_name, key_of, reports};
use crate::engine::admission::store_silence::{decided_here, is_away};
use crate::error::{AdminError, RequestError};
use crate::limit_report::LimitReport;
use crate::notes::{self, BlockNote, NoteError, RefundNote};
use crate::permit::{Holds, Permit};
use crate::progress::Progress;
use crate::refunds::{Known, REFUND_KEY_KEPT, RefundKey, RefundKeysFull, RefundName, Refunded};
use crate::request::{OwnedPairs, Request};
use crate::stable_hash::name_of;
use crate::sync::lock_plain;

impl Engine {
    /// The remaining quota of the limits that a permit was charged to, when it was given.
    ///
    /// The names of local limits are known to the engine that gave it only; another one leaves them
    /// out.
    pub fn statuses(&self, permit: &Permit) -> Vec<LimitReport> {
        let mut reports: Vec<LimitReport> = Vec::new();
        for holds in permit.holds() {
            self.add_statuses(holds, &mut reports);
        }
        reports
    }

    /// [`Engine::statuses`] of one request of a batch, by its position; empty for a position past
    /// the last.
    pub fn statuses_of(&self, permit: &Permit, at: usize) -> Vec<LimitReport> {
        let mut reports: Vec<LimitReport> = Vec::new();
        if let Some(holds) = permit.holds().get(at) {
            self.add_statuses(holds, &mut reports);
        }
        reports
    }

    /// The units that the access of a request of the permit was charged, by the position of the
    /// request, and those that are left there at `now`; `None` for a request without an access.
    pub fn access_charge(&self, permit: &Permit, at: usize, now: Timestamp) -> Option<AccessCharge> {
        let hold = permit.holds().get(at)?.units()?;
        let left = self.planes.capacity.as_ref()?.left_of(hold, now)?;
        Some(AccessCharge { units: hold.units(), left })
    }

    fn add_statuses(&self, holds: &Holds, reports: &mut Vec<LimitReport>) {
        if let Some(gate) = self.home_gate(holds) {
            reports.extend(gate.statuses(&holds.limits).map(LimitReport::from));
        }
        reports.extend(Self::leased_reports(holds.leased(), holds.limits.admitted_at()));
        reports.extend(holds.stored().iter().flat_map(|stored| stored.reports.iter().cloned()));
    }

    /// Charges the limits whether or not there is room, as for work already done; what they have
    /// left then. Concurrency limits are left alone.
    ///
    /// A limit that blocks keys that exceed it
    /// ([`OnExceed::Block`](tidegate_core::limit::OnExceed)) blocks the key when the report leaves
    /// nothing of it: an exact limit in the store, for every member, other limits at this member.
    ///
    /// While the store is away, exact limits are charged as their [`OnStoreFailure`] says; if one
    /// of them refuses, nothing is charged and the error says so.
    pub fn report(
        &self,
        request: &Request<'_>,
        now: Timestamp,
    ) -> Result<Progress<Vec<LimitReport>>, RequestError> {
        let gate = self.gate(request.namespace)?;
        let exact = counting_limits(gate, request, now);
        if exact.is_empty() {
            let limits = gate.report(request.attributes, request.cost, now)?;
            self.meter_report(request, now);
            let limits: Vec<_> = limits.into_iter().map(LimitReport::from).collect();
            self.list_blocks(gate, request.attributes, &limits, now);
            return Ok(Progress::Done(limits));
        }
        let batch = self.batch_of(gate, &exact, now, |_| Some(Kind::Report { cost: request.cost }))?;
        let exact: Vec<_> = exact.iter().map(exact_name).collect();
        let (attributes, cost) = (OwnedPairs::from_attributes(request.attributes), request.cost);
        let metered = self.metered_later(request);
        let gate = gate.clone();
        self.ask(batch, now, move |step, batch| {
            let refuses = |one: &ExactName| one.on_store_failure == OnStoreFailure::Refuse;
            let mut blocks = Vec::new();
            let remote = match step.answer {
                Ok(mut answer) => {
                    step.engine.with_leases(&exact, &mut answer.outcomes, None, step.now);
                    blocks =
                        block_exhausted(&batch.operations, &exact, &mut answer.outcomes, answer.store_now);
                    attributes.with(|attributes| {
                        block_exhausted_leases(&gate, attributes, &exact, &mut answer.outcomes, step.now);
                    });
                    reports(&exact, &answer.outcomes)
                }
                Err(error) if !is_away(&error) || exact.iter().any(refuses) => {
                    return Err(RequestError::Store(error));
                }
                Err(_) => {
                    let (_, places) = decided_here(step.engine, &gate, &exact);
                    let limits = gate.report_located(&places, cost, step.now)?;
                    limits.into_iter().map(LimitReport::from).collect()
                }
            };
            let mut limits: Vec<LimitReport> = attributes.with(|attributes| {
                let limits = gate.report(attributes, cost, step.now)?;
                Ok::<_, RequestError>(limits.into_iter().map(LimitReport::from).collect())
            })?;
            limits.extend(remote);
            if let Some(metered) = &metered {
                step.engine.meter_report(&metered.with(&metered.lists()), step.now);
            }
            attributes.with(|attributes| step.engine.list_blocks(&gate, attributes, &limits, step.now));
            if blocks.is_empty() {
                return Ok(Progress::Done(limits));
            }
            // Units are charged by now, so a store that fails here leaves the limit exhausted and
            // the key without its block; the caller is not told to report again.
            let batch = Batch::each(step.engine.next_batch_id(), blocks);
            Ok(Progress::ask(batch, move |_, _| Ok(Progress::Done(limits))))
        })
    }

    /// Lists the blocks that a report found or started.
    fn list_blocks(&self, gate: &Gate, attributes: Attributes<'_>, limits: &[LimitReport], now: Timestamp) {
        for (limit, until) in limits.iter().filter_map(|one| Some((&one.name, one.blocked_until?))) {
            self.shared.blocks.set(gate, attributes, limit, BlockCause::Refusal, until, now);
        }
    }

    /// Gives the cost of a request back to the limits, once for each `key`.
    ///
    /// [`crate::REFUND_KEYS_MAX`] keys are remembered, each for [`REFUND_KEY_KEPT`]. With a store,
    /// what it gives back and its memory of the key are one step, so that neither a crash nor two
    /// callers at once give back twice; the local limits follow when it has answered. If it does
    /// not, nothing is given back here: repeat it with the same key.
    pub fn refund(
        &self,
        request: &Request<'_>,
        key: &str,
        now: Timestamp,
    ) -> Result<Progress<Refunded>, RequestError> {
        let gate = self.gate(request.namespace)?;
        let name = RefundName::new(request.namespace, key);
        let refund = RefundKey { owner: gate.owner(), name };
        let refunds = &self.shared.refunds;
        let full = |RefundKeysFull(until)| RequestError::RefundKeysFull { until };
        let exact = counting_limits(gate, request, now);
        let operations =
            self.operations_of(gate, &exact, now, |_| Some(Kind::Refund { cost: request.cost }))?;
        let leased = leased_keys(&exact);
        if !self.shared.config.asks_store {
            let is_new = refunds.remember(refund, now).map_err(full)?;
            if is_new {
                gate.refund(request.attributes, request.cost, now);
                if let Some(ledgers) = self.own_ledgers() {
                    ledgers.run(&operations, now);
                }
                self.ask_soon(&leased, now);
                self.meter_refund(request, now);
            }
            return Ok(Progress::Done(if is_new { Refunded::Applied } else { Refunded::AlreadyApplied }));
        }
        let value = RefundNote {
            namespace: request.namespace.to_owned(),
            key: key.chars().take(RefundNote::KEY_CHARS_MAX).collect(),
        };
        let batch = || {
            let note = notes::note(NoteKind::Refund, name.0, &value, now.saturating_add(REFUND_KEY_KEPT));
            Batch::each(RequestId(name.0), operations).with_notes([NoteChange::Create(note)])
        };
        let (batch, again) = match refunds.ask(refund, now, batch).map_err(full)? {
            Known::Applied => return Ok(Progress::Done(Refunded::AlreadyApplied)),
            Known::Ask { batch, again } => (*batch, again),
        };
        let (attributes, cost) = (OwnedPairs::from_attributes(request.attributes), request.cost);
        let metered = self.metered_later(request);
        let gate = gate.clone();
        self.ask(batch, now, move |step, _| {
            let refunds = &step.engine.shared.refunds;
            let is_known = match step.answer {
                Ok(answer) => answer.refused,
                // The store knows another batch by the name of this refund: somebody gave it in
                // other words.
                Err(StoreError::IdReused { .. }) => true,
                Err(error) => {
                    if !error.is_outcome_unknown() {
                        refunds.give_up(name, step.now);
                    }
                    return Err(RequestError::Store(error));
                }
            };
            if is_known && !again {
                // Another member gave it, or this one before it was started anew.
                let _ = refunds.remember(refund, step.now);
                return Ok(Progress::Done(Refunded::AlreadyApplied));
            }
            // The first to hear of it gives back here; whoever asked at the same time finds it
            // done. The store remembers it in any case, so no room here is no reason to say that it
            // was not applied.
            let is_first = refunds.remember(refund, step.now).unwrap_or(true);
            if is_first {
                step.engine.ask_soon(&leased, step.now);
                attributes.with(|attributes| gate.refund(attributes, cost, step.now));
                if let Some(metered) = &metered {
                    step.engine.meter_refund(&metered.with(&metered.lists()), step.now);
                }
            }
            Ok(Progress::Done(if is_first { Refunded::Applied } else { Refunded::AlreadyApplied }))
        })
    }

    /// Gives the cost of a request back to the limits, never more than is used, and again each time
    /// it is asked.
    ///
    /// For protocols that have no name for a refund. Where there is one, [`Engine::refund`] may be
    /// repeated without harm. With a store, the local limits follow when it has answered; if it
    /// does not, nothing is given back here.
    pub fn give_back(&self, request: &Request<'_>, now: Timestamp) -> Result<Progress<()>, RequestError> {
        let gate = self.gate(request.namespace)?;
        let exact = counting_limits(gate, request, now);
        if exact.is_empty() {
            gate.refund(request.attributes, request.cost, now);
            self.meter_refund(request, now);
            return Ok(Progress::Done(()));
        }
        let batch = self.batch_of(gate, &exact, now, |_| Some(Kind::Refund { cost: request.cost }))?;
        let leased = leased_keys(&exact);
        let (attributes, cost) = (OwnedPairs::from_attributes(request.attributes), request.cost);
        let metered = self.metered_later(request);
        let gate = gate.clone();
        self.ask(batch, now, move |step, _| {
            step.answer.map_err(RequestError::Store)?;
            step.engine.ask_soon(&leased, step.now);
            attributes.with(|attributes| gate.refund(attributes, cost, step.now));
            if let Some(metered) = &metered {
                step.engine.meter_refund(&metered.with(&metered.lists()), step.now);
            }
            Ok(Progress::Done(()))
        })
    }

    /// Remembers a refund that was given before a restart, from its note of kind
    /// [`NoteKind::Refund`].
    pub fn restore_refund(&self, note: &Note, now: Timestamp) -> Result<(), AdminError> {
        let name = RefundName(notes::name(NoteKind::Refund, note)?);
        let RefundNote { namespace, .. } = notes::value(NoteKind::Refund, note)?;
        let owner = self.shared.table.namespaces().owner(&namespace);
        let full = |RefundKeysFull(until)| RequestError::RefundKeysFull { until };
        // A key that is kept for longer was remembered under a clock that was ahead.
        let until = note.until.min(now.saturating_add(REFUND_KEY_KEPT));
        self.shared.refunds.restore(RefundKey { owner, name }, until, now).map_err(full)?;
        Ok(())
    }

    /// Forgets what is used by the counters of a request, of one limit or of all, and lifts their
    /// blocks; how many were in use or blocked. Where the limit is named, the attributes of its key
    /// are enough.
    pub fn reset(
        &self,
        request: &Request<'_>,
        limit: Option<&str>,
        now: Timestamp,
    ) -> Result<Progress<usize>, RequestError> {
        let gate = self.gate(request.namespace)?;
        if let Some(name) = limit {
            check_key(gate, request, name)?;
        }
        let exact = match limit {
            Some(name) => gate.store_limits_named(request.attributes, name, now),
            None => gate.store_limits_of(request.attributes, now),
        };
        let asks_store = self.shared.config.asks_store;
        if !asks_store && exact.is_empty() {
            let counters = gate.reset(request.attributes, limit, now);
            self.shared.blocks.lift_all(gate, request.attributes, limit);
            self.shared.remote.act();
            return Ok(Progress::Done(counters));
        }
        // Looking first says which were in use, where the batch has room for that.
        let looks = exact.len() * 2 <= Batch::OPERATIONS_MAX;
        let peeks =
            |one: &ExactLimit<'_>| (looks && counts_units(one)).then_some(Kind::Peek { cost: Cost::ONE });
        let mut operations = self.operations_of(gate, &exact, now, peeks)?;
        let looked = operations.len();
        operations.extend(self.operations_of(gate, &exact, now, |_| Some(Kind::Reset))?);
        let unseen = exact.len() - looked;
        let leased = leased_keys(&exact);
        let names: Vec<String> =
            exact.iter().filter(|one| one.is_leased).map(|one| one.name.to_owned()).collect();
        // Keys of leased limits are blocked here.
        let blocked: Vec<bool> =
            exact.iter().filter(|one| counts_units(one)).map(|one| one.blocked_until.is_some()).collect();
        let local = gate.local_limits(request.attributes, limit, now);
        let lifted = local.iter().filter(|_| asks_store).flat_map(|one| {
            // Others are told of blocks that there are, not of each key that is reset.
            let is_told = self.shared.has_shared_store() && one.blocked_until.is_some();
            block_notes(gate, one, Timestamp::MIN, now, is_told)
        });
        let batch = Batch::each(self.next_batch_id(), operations).with_notes(lifted.take(Batch::NOTES_MAX));
        let attributes = OwnedPairs::from_attributes(request.attributes);
        let gate = gate.clone();
        let limit = limit.map(str::to_owned);
        self.ask(batch, now, move |step, batch| {
            let answer = step.answer.map_err(RequestError::Store)?;
            let seen = answer.outcomes.iter().take(looked).zip(blocked);
            let is_in_use = |(one, is_blocked): &(&Outcome, bool)| {
                one.used > 0 || one.blocked_until.is_some() || *is_blocked
            };
            let in_use = seen.filter(is_in_use).count();
            step.engine.ask_soon(&leased, step.now);
            let local = attributes.with(|attributes| {
                for leased in &names {
                    // Lifting a block that there is cannot fail for lack of room.
                    let _ = gate.block(attributes, leased, Timestamp::MIN, step.now);
                }
                step.engine.shared.blocks.lift_all(&gate, attributes, limit.as_deref());
                gate.reset(attributes, limit.as_deref(), step.now)
            });
            step.engine.has_lifted(&batch.notes);
            // Once the blocks are lifted: streams look at once.
            step.engine.shared.remote.reset(&leased);
            Ok(Progress::Done(local + in_use + unseen))
        })
    }

    /// The counters that [`Engine::reset`] would forget: each by its limit, with the attributes
    /// that name it and the numbers that are in force for them.
    pub fn counters_of<'e>(
        &'e self,
        request: &Request<'e>,
        limit: Option<&str>,
        now: Timestamp,
    ) -> Result<Vec<(&'e Limit, ScopeValues, &'e Algorithm)>, RequestError> {
        let gate = self.gate(request.namespace)?;
        if let Some(name) = limit {
            check_key(gate, request, name)?;
        }
        let counters = gate.counters(request.attributes, limit).into_iter();
        Ok(counters
            .filter_map(|(name, scope)| {
                let limit = gate.limits().find(|limit| limit.name == name)?;
                let in_force = gate.numbers_in_force(request.attributes, name, now);
                Some((limit, scope, in_force.unwrap_or(&limit.algorithm)))
            })
            .collect())
    }

    /// Refuses the key of a request under one limit until an instant; one that has passed lifts the
    /// block.
    ///
    /// Of an exact limit the store refuses the key, for every member, by its own clock. Of a local
    /// limit this member does, and a durable store remembers it over a restart.
    pub fn block(
        &self,
        request: &Request<'_>,
        limit: &str,
        until: Timestamp,
        now: Timestamp,
    ) -> Result<Progress<()>, RequestError> {
        let gate = self.gate(request.namespace)?;
        check_key(gate, request, limit)?;
        let unknown = || unknown_limit(request, limit);
        if !self.shared.config.asks_store {
            let applies = gate.block(request.attributes, limit, until, now)?;
            self.shared.blocks.set(gate, request.attributes, limit, BlockCause::Operation, until, now);
            self.shared.remote.act();
            return applies.then_some(Progress::Done(())).ok_or_else(unknown);
        }
        let mut exact = gate.store_limits_named(request.attributes, limit, now);
        // A leased limit is blocked by each member for itself.
        exact.retain(|one| !one.is_leased);
        let is_local = exact.is_empty();
        let batch = if is_local {
            let local = gate.local_limits(request.attributes, Some(limit), now);
            let is_told = self.shared.has_shared_store();
            let notes = block_notes(gate, local.first().ok_or_else(unknown)?, until, now, is_told);
            Batch::each(self.next_batch_id(), []).with_notes(notes)
        } else {
            self.batch_of(gate, &exact, now, |_| Some(Kind::Block { until }))?
        };
        let attributes = OwnedPairs::from_attributes(request.attributes);
        let (gate, limit) = (gate.clone(), limit.to_owned());
        Ok(Progress::ask(batch, move |step, batch| {
            step.answer.map_err(RequestError::Store)?;
            let blocks = &step.engine.shared.blocks;
            attributes.with(|attributes| {
                if is_local {
                    gate.block(attributes, &limit, until, step.now)?;
                }
                blocks.set(&gate, attributes, &limit, BlockCause::Operation, until, step.now);
                step.engine.has_lifted(&batch.notes);
                step.engine.shared.remote.act();
                Ok(Progress::Done(()))
            })
        }))
    }

    /// This member has written these notes: it does not make their lifts again when it reads them.
    fn has_lifted(&self, changes: &[NoteChange]) {
        let lifts = changes.iter().filter_map(|change| match change {
            NoteChange::Put(note) => Some((notes::name(NoteKind::LiftedBlock, note).ok()?, note.until)),
            _ => None,
        });
        lock_plain(&self.shared.lifts_seen).extend(lifts);
    }

    /// Blocks a key again that was blocked before a restart, or by another member, from its note of
    /// kind [`NoteKind::Block`]; `false` if its limit is gone.
    pub fn restore_block(&self, note: &Note, now: Timestamp) -> Result<bool, AdminError> {
        self.apply_block(&notes::value(NoteKind::Block, note)?, note.until, now)
    }

    /// Lifts the blocks that other members have lifted, from all notes of kind
    /// [`NoteKind::LiftedBlock`]; how many lifts there were that this engine had not seen. To be
    /// called before [`restore_block`](Engine::restore_block) with notes that were read later.
    ///
    /// Each lift is made once: a key that is blocked after it stays blocked.
    pub fn lift_blocks(&self, notes: &[Note], now: Timestamp) -> usize {
        let seen = &mut *lock_plain(&self.shared.lifts_seen);
        seen.retain(|_, until| *until > now);
        let mut lifted = 0;
        for note in notes {
            // A note that cannot be read was written by a later version.
            let Ok(name) = notes::name(NoteKind::LiftedBlock, note) else { continue };
            let Ok(value) = notes::value(NoteKind::LiftedBlock, note) else { continue };
            if seen.get(&name) == Some(&note.until) {
                continue;
            }
            // A lift of a limit that this engine lacks is made when the limit is back.
            if self.apply_block(&value, Timestamp::MIN, now).is_ok_and(|is_made| is_made) {
                seen.insert(name, note.until);
                lifted += 1;
            }
        }
        lifted
    }

    /// Refuses the key of a note until an instant, or lifts its block; whether its limit is there.
    fn apply_block(&self, note: &BlockNote, until: Timestamp, now: Timestamp) -> Result<bool, AdminError> {
        let identity = notes::unhex(&note.identity)
            .ok_or_else(|| NoteError::new(NoteKind::Block, "its limit is not in hexadecimal digits"))?;
        let Ok(gate) = self.gate(&note.namespace) else { return Ok(false) };
        let pairs: Vec<_> =
            note.attributes.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let attributes = Attributes::new(&pairs);
        let is_applied = gate.restore_block(&identity, attributes, until, now).map_err(RequestError::from)?;
        if let (true, Some((limit, scope))) = (is_applied, gate.counter_of(&identity, attributes)) {
            let place = BlockPlace { owner: gate.owner(), namespace: gate.namespace(), limit };
            let scope = ScopeView::Texts(&scope);
            // Notes that are known already come with each look at the store, and change nothing.
            if self.shared.blocks.put(place, &scope, BlockCause::Operation, until, now) {
                self.shared.remote.act();
            }
        }
        Ok(is_applied)
    }

    /// The blocks in force at `now`, as far as this engine knows them, in no order: those it set or
    /// restored, and those it was told of with [`Engine::note_blocked`]. At most
    /// [`crate::BLOCKS_KNOWN_MAX`].
    pub fn blocks(&self, now: Timestamp) -> Vec<BlockReport> {
        self.shared.blocks.all(now)
    }

    /// How many refusals by a block were not remembered for lack of room.
    pub fn blocks_unlisted(&self) -> u64 {
        self.shared.blocks.unlisted()
    }

    /// Remembers the block that a refusal shows, for [`Engine::blocks`]. Other refusals change
    /// nothing.
    pub fn note_blocked(&self, refusal: &RefusalView<'_>, now: Timestamp) {
        if let (Reason::Blocked, Retry::At(until)) = (refusal.reason, refusal.retry) {
            let (namespace, limit) = (refusal.namespace, refusal.name);
            let owner = self.shared.table.namespaces().known(namespace).unwrap_or(Owner::NONE);
            let place = BlockPlace { owner, namespace, limit };
            self.shared.blocks.put(place, &refusal.scope, BlockCause::Refusal, until, now);
        }
    }

    /// Lets the next requests of leased keys ask at once, as the ledgers may have more room.
    fn ask_soon(&self, leased: &[u64], now: Timestamp) {
        if let Some(leases) = self.shared.leases() {
            for key in leased {
                leases.ask_soon(*key, now);
            }
        }
    }

    /// A batch of the same operation on the counters of these limits.
    pub(crate) fn batch_of(
        &self,
        gate: &Gate,
        exact: &[ExactLimit<'_>],
        now: Timestamp,
        kind: impl Fn(&ExactLimit<'_>) -> Option<Kind>,
    ) -> Result<Batch, RequestError> {
        Ok(Batch::each(self.next_batch_id(), self.operations_of(gate, exact, now, kind)?))
    }

    /// Operations on the counters of these limits, or on their ledgers. A ledger of this process
    /// has taken the usage of its key over by then.
    pub(crate) fn operations_of(
        &self,
        gate: &Gate,
        exact: &[ExactLimit<'_>],
        now: Timestamp,
        kind: impl Fn(&ExactLimit<'_>) -> Option<Kind>,
    ) -> Result<Vec<Operation>, RequestError> {
        let mut operations = Vec::with_capacity(exact.len());
        for one in exact {
            let Some(kind) = kind(one) else { continue };
            let kind = if one.is_leased { of_ledger(kind) } else { kind };
            let key = key_of(gate, one).map_err(RequestError::KeyTooLong)?;
            let operation = Operation::new(key, one.algorithm.clone(), kind);
            let operation = operation.with_lease_period(one.lease_period);
            if let (true, Some(ledgers)) = (one.is_leased, self.own_ledgers()) {
                // Without room for a ledger the table of keys counts the key, and nothing is lent.
                let _ = ledgers.take_over_for(one.place.key(), &operation, now);
            }
            operations.push(operation);
        }
        Ok(operations)
    }
}

/// Blocks the keys of leased limits at this member that a report has left nothing of.
fn block_exhausted_leases(
    gate: &Gate,
    attributes: Attributes<'_>,
    exact: &[ExactName],
    outcomes: &mut [Outcome],
    now: Timestamp,
) {
    for (name, outcome) in exact.iter().zip(outcomes) {
        let is_exhausted = name.lease.is_some() && outcome.left() == 0 && outcome.blocked_until.is_none();
        if let (true, Some(span)) = (is_exhausted, name.block_on_exceed) {
            let until = now.saturating_add(span);
            // A table too full to remember the block leaves the limit exhausted.
            if gate.block(attributes, &name.name, until, now) == Ok(true) {
                outcome.blocked_until = Some(until);
            }
        }
    }
}

/// The fingerprints of the keys of those limits that are leased.
fn leased_keys(exact: &[ExactLimit<'_>]) -> Vec<u64> {
    exact.iter().filter(|one| one.is_leased).map(|one| one.place.key()).collect()
}

/// The limits of a request that a store decides or lends, and that count units.
fn counting_limits<'a>(gate: &'a Gate, request: &Request<'a>, now: Timestamp) -> Vec<ExactLimit<'a>> {
    let mut exact = gate.store_limits_of(request.attributes, now);
    exact.retain(counts_units);
    exact
}

/// Whether a limit counts units, which can be reported and refunded; a concurrency limit lends
/// permits.
fn counts_units(limit: &ExactLimit<'_>) -> bool {
    !matches!(limit.algorithm, tidegate_core::Algorithm::Concurrency(_))
}

/// The same done to a ledger instead of a counter.
fn of_ledger(kind: Kind) -> Kind {
    match kind {
        Kind::Peek { .. } => Kind::Ledger(OnLedger::Look),
        Kind::Report { cost } => Kind::Ledger(OnLedger::Report { cost }),
        Kind::Refund { cost } => Kind::Ledger(OnLedger::Refund { cost }),
        Kind::Reset => Kind::Ledger(OnLedger::Reset),
        other => other,
    }
}

/// The changes of notes for a block of a local limit: the store remembers the block, or forgets one
/// that has ended. Other members learn of the end by a note of its own if they are to be told.
fn block_notes(
    gate: &Gate,
    limit: &LocalLimit<'_>,
    until: Timestamp,
    now: Timestamp,
    is_told: bool,
) -> impl Iterator<Item = NoteChange> {
    let name = name_of([&b"block"[..], gate.namespace().as_bytes(), limit.identity, &limit.key]);
    let change = |kind, until: Option<Timestamp>| match until {
        Some(until) => NoteChange::Put(notes::note(kind, name, &block_value(gate, limit), until)),
        None => notes::remove(kind, name),
    };
    let is_lifted = until <= now;
    let block = change(NoteKind::Block, (!is_lifted).then_some(until));
    let told_until = now.saturating_add(NoteKind::LIFTED_BLOCK_KEPT);
    let lift = is_told.then(|| change(NoteKind::LiftedBlock, is_lifted.then_some(told_until)));
    [block].into_iter().chain(lift)
}

fn block_value(gate: &Gate, limit: &LocalLimit<'_>) -> BlockNote {
    let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    BlockNote {
        namespace: gate.namespace().to_owned(),
        identity: notes::hex(limit.identity),
        attributes: limit.attributes.iter().map(owned).collect(),
    }
}

/// Fails unless there is a limit of this name, and the request has the attributes of its key.
fn check_key(gate: &Gate, request: &Request<'_>, limit: &str) -> Result<(), RequestError> {
    let Some(known) = gate.limits().find(|known| known.name == limit) else {
        return Err(unknown_limit(request, limit));
    };
    let mut names = known.key.iter().map(|part| part.attribute.as_str());
    // Under `group` those without an attribute are one key.
    let lacks = names.clone().find(|name| request.attributes.get(name).is_none());
    let Some(lacks) = lacks.filter(|_| known.missing != Missing::Group) else { return Ok(()) };
    let first = names.next().unwrap_or_default().to_owned();
    let key = names.fold(first, |key, name| format!("{key}, {name}"));
    Err(RequestError::KeyIncomplete { limit: known.name.clone(), key, lacks: lacks.to_owned() })
}

fn unknown_limit(request: &Request<'_>, limit: &str) -> RequestError {
    RequestError::UnknownLimit {
        namespace: request.namespace.to_owned(),
        limit: limit.chars().take(128).collect(),
    }
}

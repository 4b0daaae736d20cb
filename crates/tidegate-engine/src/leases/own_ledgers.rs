//! The ledgers of limits that this process lends by itself, because no members share its store.
//!
//! They are in memory: the usage of a rate need not outlive the process, and what was lent ends
//! with it. Each namespace has a [`Keeper`], the batch logic that every store in this process has.
//!
//! **Taking over.** Until its namespace is lent, a limit is counted in the table of keys. Ahead of
//! each operation on a ledger, under the lock of the ledgers, the usage that the table has of the
//! key is moved to the ledger. So no holder is granted anything before the ledger knows that usage,
//! whichever holder comes first. It is done each time, since requests that an earlier engine
//! decides are still counted in the table for as long as they are under way.
//!
//! **Bounds.** The ledgers of a namespace take at most its part of [`TableConfig::bytes`], at least
//! [`MemoryConfig::BYTES_MIN`]. A key that finds no room is decided as one whose store is silent:
//! its usage stays in the table of keys, which counts it by the complete limit.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard};

use tidegate_core::lease::{Ask, Grant, LedgerLevel};
use tidegate_core::{Cost, KeyTable, TableConfig, Timestamp, WhenFull};
use tidegate_store::{
    Answer, Batch, Grants, Keeper, Key, Kind, MemoryConfig, OnLedger, Operation, Outcome, Outcomes,
    RequestId, StoreError,
};

use super::lease_batch::{LeaseBatch, level_of};
use super::leased_key::LeasedKey;
use crate::sync::lock_plain;

/// How many batches on ledgers are remembered by their ids, of each namespace: two callers that
/// give one refund at the same time give it back once.
const ANSWERS: usize = 4096;

/// The bits of the id of a batch that tell its parts apart.
const PART_SHIFT: u32 = 112;

/// All ledgers of this process.
pub(crate) struct OwnLedgers {
    table: Arc<KeyTable>,
    pub(super) config: TableConfig,
    /// This process, as its own holders name it.
    pub(super) member: u64,
    /// By the bytes of their namespace. Locked after the shards of the leases, and with nothing
    /// locked meanwhile.
    keepers: Mutex<Keepers>,
}

#[derive(Debug, Default)]
struct Keepers {
    of: HashMap<Box<[u8]>, Keeper>,
    /// Counts batches, as each has an id of its own.
    batches: u64,
}

impl OwnLedgers {
    pub(crate) fn new(table: &Arc<KeyTable>, config: TableConfig, member: u64) -> Self {
        Self { table: Arc::clone(table), config, member, keepers: Mutex::default() }
    }

    fn keepers(&self) -> MutexGuard<'_, Keepers> {
        // Nothing in a batch panics once it has begun to change ledgers.
        lock_plain(&self.keepers)
    }

    /// The configuration of the ledgers of one namespace.
    fn memory(&self) -> MemoryConfig {
        let mut config = MemoryConfig::new(self.config.seed);
        config.bytes = self.config.bytes / self.table.namespaces().owners().max(1);
        // The table of keys then counts the key, and refuses or admits what it has no room for.
        config.when_full = WhenFull::Refuse;
        (config.answers, config.notes, config.note_bytes) = (ANSWERS, 0, 0);
        config
    }

    /// The answer to an ask about a key, with what the ledger says is used; `None` if there is no
    /// room for its ledger.
    pub(super) fn ask(&self, about: &LeasedKey, ask: Ask, now: Timestamp) -> Option<(Grant, LedgerLevel)> {
        let mut keepers = self.keepers();
        let (grant, outcome) = self.ask_in(&mut keepers, about, ask, now).ok()?;
        Some((grant?, level_of(&outcome, now)))
    }

    fn ask_in(
        &self,
        keepers: &mut Keepers,
        about: &LeasedKey,
        ask: Ask,
        now: Timestamp,
    ) -> Result<(Option<Grant>, Outcome), StoreError> {
        let operation = about.operation(OnLedger::Ask(ask));
        self.take_over(keepers, about.number, &operation, now)?;
        let answer = self.run_one(keepers, operation, now)?;
        Ok((answer.grants.first().copied().flatten(), answer.outcomes[0]))
    }

    /// Answers a batch of asks, or of refunds, that came by the outbox.
    pub(super) fn answer(&self, asked: &LeaseBatch, now: Timestamp) -> Answer {
        let mut keepers = self.keepers();
        let (mut outcomes, mut grants) = (Outcomes::new(), Grants::new());
        let numbers = asked.asks.iter().map(|due| Some(due.about.number)).chain(core::iter::repeat(None));
        for (operation, number) in asked.batch().operations.iter().zip(numbers) {
            let ready = number.map_or(Ok(()), |number| self.take_over(&mut keepers, number, operation, now));
            let answer = ready.and_then(|()| self.run_one(&mut keepers, operation.clone(), now));
            let unused = || Outcome::unused(operation.algorithm.limit(), now);
            outcomes.push(answer.as_ref().map_or_else(|_| unused(), |answer| answer.outcomes[0]));
            if operation.kind.ask().is_some() {
                grants.push(answer.ok().and_then(|answer| answer.grants.first().copied().flatten()));
            }
        }
        Answer::new(outcomes, false, now).with_grants(grants)
    }

    /// Moves the usage that the table of keys has of a key to its ledger, ahead of `operation`.
    pub(crate) fn take_over_for(
        &self,
        number: u64,
        operation: &Operation,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        self.take_over(&mut self.keepers(), number, operation, now)
    }

    fn take_over(
        &self,
        keepers: &mut Keepers,
        number: u64,
        operation: &Operation,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        self.table.move_usage(number, now, |cost| self.report(keepers, cost, operation, now))
    }

    #[cold]
    fn report(
        &self,
        keepers: &mut Keepers,
        cost: Cost,
        on: &Operation,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let kind = Kind::Ledger(OnLedger::Report { cost });
        let report = Operation::new(on.key.clone(), on.algorithm.clone(), kind);
        self.run_one(keepers, report.with_lease_period(on.lease_period), now).map(drop)
    }

    /// Carries out operations on ledgers, each by itself. One that finds no room does nothing.
    pub(crate) fn run(&self, operations: &[Operation], now: Timestamp) {
        let mut keepers = self.keepers();
        for operation in operations {
            let _ = self.run_one(&mut keepers, operation.clone(), now);
        }
    }

    /// Carries out a batch of operations on ledgers, of any number. A second call with the same
    /// batch changes nothing, as of a store.
    pub(crate) fn run_batch(&self, batch: &Batch, now: Timestamp) -> Result<Answer, StoreError> {
        let mut keepers = self.keepers();
        let mut outcomes = Outcomes::new();
        let mut parts = 0_u128;
        let mut rest = &batch.operations[..];
        while let Some(first) = rest.first() {
            let namespace = namespace_of(&first.key);
            let same = rest.iter().take_while(|one| namespace_of(&one.key) == namespace);
            let (these, others) = rest.split_at(same.take(Batch::OPERATIONS_MAX).count());
            // Ids of batches differ in their low bits.
            let part = Batch::each(RequestId(batch.id.0 ^ parts << PART_SHIFT), these.iter().cloned());
            outcomes.extend(self.keeper(&mut keepers, namespace).run(&part, now)?.answer.outcomes);
            (rest, parts) = (others, parts + 1);
        }
        Ok(Answer::new(outcomes, false, now))
    }

    fn run_one(
        &self,
        keepers: &mut Keepers,
        operation: Operation,
        now: Timestamp,
    ) -> Result<Answer, StoreError> {
        keepers.batches += 1;
        let id = RequestId(keepers.batches.into());
        let namespace = namespace_of(&operation.key).to_vec();
        Ok(self.keeper(keepers, &namespace).run(&Batch::each(id, [operation]), now)?.answer)
    }

    fn keeper<'k>(&self, keepers: &'k mut Keepers, namespace: &[u8]) -> &'k mut Keeper {
        match keepers.of.entry(namespace.into()) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => new.insert(Keeper::new(self.memory())),
        }
    }
}

fn namespace_of(key: &Key) -> &[u8] {
    Key::first_part_of(key.as_bytes())
}

tidegate_core::debug_fields!(OwnLedgers { config });

#[cfg(test)]
#[cfg(not(tidegate_loom))]
mod tests;

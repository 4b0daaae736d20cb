//! The leases of a process that has the ledgers itself: asks are answered in the call that makes
//! them.

use core::ops::ControlFlow;
use std::sync::Arc;

use tidegate_core::lease::{Ask, Take};
use tidegate_core::{Cost, Timestamp};
use tidegate_store::{Answer, Batch, Kind, OnLedger};

use super::lease_batch::LeaseBatch;
use super::own_ledgers::OwnLedgers;
use super::slot::Slot;
use super::{Asked, LeaseCharge, LeaseConfig, Leases, Looks};
use crate::sync::Ordering;

/// Bytes of the table of keys for each holder: holders take about as much memory as the table.
const TABLE_BYTES_EACH: usize = 256;

/// The fewest and the most holders.
const HOLDERS_LEAST: usize = 1024;
const HOLDERS_MOST: usize = 1 << 20;

/// How often a request has the ledger asked before it is refused.
const ASKS_MAX: usize = 3;

impl OwnLedgers {
    /// The configuration of the holders that ask these ledgers.
    pub(crate) fn lease_config(&self) -> LeaseConfig {
        let mut config = LeaseConfig::new(self.member);
        config.holders_max = (self.config.bytes / TABLE_BYTES_EACH).clamp(HOLDERS_LEAST, HOLDERS_MOST);
        config
    }
}

impl Leases {
    /// The ledgers of this process; `None` where a store has them.
    pub(crate) fn own_ledgers(&self) -> Option<&OwnLedgers> {
        self.ledgers.as_ref()
    }

    /// Has the ledgers of this process answer what was to be sent to a store.
    pub(crate) fn answer_here(&self, asked: &LeaseBatch, now: Timestamp) -> Option<Answer> {
        let ledgers = self.ledgers.as_ref()?;
        let Batch { operations, notes, .. } = asked.batch();
        // A batch that takes back or gives back of other limits is for the store.
        let is_for_ledgers = operations.iter().all(|one| matches!(one.kind, Kind::Ledger(_)));
        let is_own = is_for_ledgers && !operations.is_empty() && notes.is_empty();
        is_own.then(|| ledgers.answer(asked, now))
    }

    /// Has the ledgers of this process asked until they have decided the request of which `take`
    /// is the first answer; the charge if they granted its cost to it alone. Where a store has the
    /// ledgers, `take` as it is.
    pub(super) fn ask_until_decided(
        &self,
        mut take: Take,
        slot: &mut Slot,
        looks: &mut Looks,
        asked: &Asked<'_>,
        now: Timestamp,
    ) -> ControlFlow<LeaseCharge, Take> {
        let Some(ledgers) = &self.ledgers else { return ControlFlow::Continue(take) };
        for _ in 0..ASKS_MAX {
            if matches!(take, Take::Wait { .. }) && may_have_room(slot, asked.cost, now) {
                // A holder spares a store the asks of others that a refused request has not helped.
                slot.holder.ask_soon(now);
                take = slot.holder.take(&slot.terms, asked.cost, asked.attempt.max(1), now);
            }
            if take != Take::Ask {
                break;
            }
            let units = self.send(slot, looks, asked.cost.units(), now);
            if units >= asked.cost.units() {
                slot.holder.charge(&slot.terms, asked.cost, now);
                let mut charge = LeaseCharge::fixed(Arc::clone(&slot.about), Some(asked.cost), now);
                charge.balance = Some(slot.holder.balance());
                return ControlFlow::Break(charge);
            }
            if let Some(cost) = Cost::new(units) {
                // Of no use to this request, and nobody else waits.
                ledgers.run(&[slot.about.operation(OnLedger::Refund { cost })], now);
            }
            take = slot.holder.take(&slot.terms, asked.cost, asked.attempt.max(1), now);
        }
        ControlFlow::Continue(take)
    }

    /// Has an ask answered by the ledgers of this process; the units that are granted for the
    /// waiting request alone.
    pub(super) fn ask_own(
        &self,
        ledgers: &OwnLedgers,
        slot: &mut Slot,
        looks: &mut Looks,
        ask: Ask,
        now: Timestamp,
    ) -> u64 {
        let units = if let Some((grant, level)) = ledgers.ask(&slot.about, ask, now) {
            slot.granted(&grant, level, now)
        } else {
            // Relaxed: a metric, ordered with nothing.
            self.unanswered.fetch_add(1, Ordering::Relaxed);
            slot.holder.lost(now);
            0
        };
        let at = slot.next_look(now);
        // A look that comes too early finds nothing to do, and sets the next.
        if at < slot.look_at {
            self.look_again(slot, looks, at);
        }
        units
    }
}

/// Whether the ledger of a holder has room for a cost, as far as it has said.
fn may_have_room(slot: &Slot, cost: Cost, now: Timestamp) -> bool {
    slot.holder.balance().remaining(&slot.about.algorithm, now) >= cost.units()
}

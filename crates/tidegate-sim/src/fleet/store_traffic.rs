//! The traffic between members and the store, as the checkers see it.

use std::collections::BTreeMap;

use tidegate_core::Timestamp;
use tidegate_core::algorithm::Verdict;
use tidegate_core::lease::Ask;
use tidegate_engine::LeaseBatch;
use tidegate_store::{Answer, Batch, Kind, OnLedger, RequestId};

use crate::fleet::member::KeyName;
use crate::fleet::watch::Watch;

/// Shows the checkers what the store has done.
pub(super) fn watch_served(
    watch: &mut Watch,
    batch: &Batch,
    answer: &Answer,
    again: bool,
    now: u64,
    store_now: Timestamp,
) {
    let store_now = store_now.as_nanos();
    let mut grants = answer.grants.iter();
    for (operation, outcome) in batch.operations.iter().zip(&answer.outcomes) {
        let key = || KeyName::read(operation.key.as_bytes());
        match operation.kind {
            Kind::Check { cost } if !again => {
                let charged = !answer.refused && outcome.verdict == Verdict::Admit;
                // Of a refused batch only what refused it says anything.
                if charged || outcome.verdict != Verdict::Admit {
                    watch.decided_in_store(key(), cost.units(), charged, now, store_now);
                }
            }
            Kind::Ledger(OnLedger::Ask(ask)) => {
                let grant = grants.next().copied().flatten();
                if ask.is_leaving {
                    watch.left(key(), ask.holder.member);
                } else if let Some(grant) = grant {
                    watch.granted(key(), &ask, &grant, now, store_now);
                }
            }
            _ => {}
        }
    }
}

/// Shows the checkers what a member was answered.
pub(super) fn watch_answered(
    watch: &mut Watch,
    batch: &LeaseBatch,
    answer: Option<&Answer>,
    run: u64,
    now: u64,
) {
    for (at, operation) in batch.batch().operations.iter().enumerate() {
        if let Kind::Ledger(OnLedger::Ask(Ask { .. })) = operation.kind {
            let grant = answer.and_then(|answer| answer.grants.get(at)?.as_ref());
            watch.answered(KeyName::read(operation.key.as_bytes()), run, grant, now);
        }
    }
}

/// Remembers what a batch charged; the charges that it has undone.
pub(super) fn keep_charges(
    charged: &mut BTreeMap<RequestId, (u32, u64)>,
    batch: &Batch,
    answer: &Answer,
) -> Vec<(u32, u64)> {
    let mut undone = Vec::new();
    for (operation, outcome) in batch.operations.iter().zip(&answer.outcomes) {
        match operation.kind {
            Kind::Check { cost } if !answer.refused && outcome.verdict == Verdict::Admit => {
                charged.insert(batch.id, (KeyName::read(operation.key.as_bytes()), cost.units()));
            }
            Kind::Undo { batch } => undone.extend(charged.remove(&batch)),
            _ => {}
        }
    }
    undone
}

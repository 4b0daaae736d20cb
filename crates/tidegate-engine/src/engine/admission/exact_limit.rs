//! Exact limits as the store is asked about them, and its outcomes as this engine reads them.

use core::time::Duration;

use tidegate_core::algorithm::Verdict;
use tidegate_core::gate::ExactLimit;
use tidegate_core::{Algorithm, Gate, Text, Timestamp};
use tidegate_store::{Key, Kind, Operation, Outcome, StoreError};

use crate::continuation::{ExactName, LeaseName};
use crate::limit_report::LimitReport;

/// The key of a request under an exact limit, as stores have it.
pub(crate) fn key_of(gate: &Gate, limit: &ExactLimit<'_>) -> Result<Key, StoreError> {
    Key::new(gate.namespace(), limit.identity, &limit.key)
}

/// Whether the store has charged something for an operation: for one of a shadow limit only where
/// there was room.
pub(crate) fn is_charged(outcome: &Outcome) -> bool {
    outcome.verdict == Verdict::Admit && outcome.counted
}

/// Operations that block the keys that exceeded a limit with a block; the answer then says that
/// they are blocked.
pub(crate) fn block_exceeded(
    operations: &[Operation],
    exact: &[ExactName],
    outcomes: &mut [Outcome],
    store_now: Timestamp,
) -> Vec<Operation> {
    let mut blocks = Vec::new();
    for ((operation, limit), outcome) in operations.iter().zip(exact).zip(outcomes) {
        if matches!(outcome.verdict, Verdict::Wait { .. }) {
            blocks.extend(block(operation, limit, outcome, store_now));
        }
    }
    blocks
}

/// Operations that block the keys of which a report has left nothing, where their limit blocks keys
/// that exceed it; the answer then says that they are blocked. Leased keys are blocked elsewhere.
pub(crate) fn block_exhausted(
    operations: &[Operation],
    exact: &[ExactName],
    outcomes: &mut [Outcome],
    store_now: Timestamp,
) -> Vec<Operation> {
    let mut blocks = Vec::new();
    for ((operation, limit), outcome) in operations.iter().zip(exact).zip(outcomes) {
        if limit.lease.is_none() && outcome.left() == 0 {
            blocks.extend(block(operation, limit, outcome, store_now));
        }
    }
    blocks
}

/// The block of a key that is not blocked yet, if its limit has one.
fn block(
    operation: &Operation,
    limit: &ExactName,
    outcome: &mut Outcome,
    store_now: Timestamp,
) -> Option<Operation> {
    let span = limit.block_on_exceed.filter(|_| outcome.blocked_until.is_none())?;
    let until = store_now.saturating_add(span);
    outcome.blocked_until = Some(until);
    Some(Operation { kind: Kind::Block { until }, ..operation.clone() })
}

/// The remaining quota of an exact limit.
pub(crate) fn report_of(limit: &ExactName, outcome: &Outcome) -> LimitReport {
    LimitReport {
        name: limit.name.to_string(),
        limit: limit.limit,
        remaining: outcome.left(),
        reset_at: outcome.free_at(),
        window: limit.window,
        civil_zone: limit.civil_zone.clone().map(String::from),
        shadow_refused: limit.is_shadow && outcome.verdict != Verdict::Admit,
        blocked_until: outcome.blocked_until,
    }
}

/// Whether an exact limit that enforces refuses what it was asked.
pub(crate) fn refuses(limit: &ExactName, outcome: &Outcome) -> bool {
    !limit.is_shadow && outcome.verdict != Verdict::Admit
}

pub(crate) fn exact_name(limit: &ExactLimit<'_>) -> ExactName {
    ExactName {
        name: Text::from(limit.name),
        limit: limit.algorithm.limit(),
        window: limit.algorithm.window(),
        civil_zone: limit.algorithm.civil_zone().map(Text::from),
        reason: limit.reason,
        is_shadow: limit.is_shadow,
        on_store_failure: limit.on_store_failure,
        block_on_exceed: limit.block_on_exceed,
        refund_on: limit.refund_on,
        place: limit.place,
        hold: match limit.algorithm {
            Algorithm::Concurrency(concurrency) => Some(concurrency.hold()),
            _ => None,
        },
        lease: limit.is_leased.then(|| {
            Box::new(LeaseName {
                key: limit.place.key(),
                algorithm: limit.algorithm.clone(),
                blocked_until: limit.blocked_until,
            })
        }),
        scope: limit.scope.clone(),
    }
}

/// The remaining quota of exact limits.
pub(crate) fn reports(exact: &[ExactName], outcomes: &[Outcome]) -> Vec<LimitReport> {
    let answered = exact.iter().zip(outcomes);
    answered.map(|(name, outcome)| report_of(name, outcome)).collect()
}

/// How long an operation holds a permit, if it does.
pub(crate) fn hold_of(operation: &Operation) -> Option<Duration> {
    match (&operation.kind, &operation.algorithm) {
        (Kind::Acquire { .. }, Algorithm::Concurrency(concurrency)) => Some(concurrency.hold()),
        _ => None,
    }
}

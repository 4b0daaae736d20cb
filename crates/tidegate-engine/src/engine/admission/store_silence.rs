//! Exact limits while the store is silent: each decided as its policy says, by this member's share.

use core::sync::atomic::Ordering;

use smallvec::SmallVec;
use tidegate_core::gate::CounterPlace;
use tidegate_core::lease::Share;
use tidegate_core::limit::OnStoreFailure;
use tidegate_core::{Cost, Gate, Reason, Refusal, Retry, Text, Timestamp, Violated};
use tidegate_store::StoreError;

use super::refusal::{STORE_RETRY, refusal_by, store_failed};
use crate::continuation::ExactName;
use crate::engine::Engine;
use crate::leases::Silence;
use crate::limit_report::LimitReport;
use crate::permit::StoreCharge;

/// Whether an error says that the store is away, so that limits may go on without it.
pub(crate) fn is_away(error: &StoreError) -> bool {
    matches!(
        error,
        StoreError::Unavailable { .. }
            | StoreError::NoStore
            | StoreError::NoRuntime
            | StoreError::NotAsked
            | StoreError::Timeout { .. }
            | StoreError::Conflict { .. }
            | StoreError::DataLost { .. }
    )
}

/// Those of some exact limits that refuse without an answer of the store.
pub(crate) fn refusing_without<'a>(exact: &'a [ExactName], error: &StoreError) -> Vec<&'a ExactName> {
    let refuses = |one: &&ExactName| {
        !one.is_shadow && (!is_away(error) || one.on_store_failure == OnStoreFailure::Refuse)
    };
    exact.iter().filter(refuses).collect()
}

/// Those of some limits that are decided here while the store is away, and where: each by this
/// member's share of it.
pub(crate) fn decided_here<'a>(
    engine: &Engine,
    gate: &Gate,
    exact: &'a [ExactName],
) -> (Vec<&'a ExactName>, Vec<CounterPlace>) {
    let here = |one: &&ExactName| one.on_store_failure == OnStoreFailure::Local;
    let local = exact.iter().filter(here);
    local.map(|one| (one, engine.alone_place(gate, one))).unzip()
}

/// Why a member that decides alone refuses, and when to come back: the store is missing until this
/// member alone has admitted the whole limit, and from then on it is exceeded.
pub(crate) fn alone_denial(violated: &Violated, whole: u64, cost: Cost, now: Timestamp) -> (Reason, Retry) {
    let used = violated.limit.saturating_sub(violated.remaining);
    let is_exceeded = used.saturating_add(cost.units()) > whole;
    if is_exceeded || matches!(violated.reason, Reason::Blocked | Reason::TableFull) {
        return (violated.reason, violated.retry);
    }
    let soon = now.saturating_add(STORE_RETRY);
    let retry = match violated.retry {
        Retry::At(until) => until.min(soon),
        _ => soon,
    };
    (Reason::StoreUnavailable, Retry::At(retry))
}

/// Applies the policy of each exact limit for a store that is away; returns a refusal if one of
/// them refuses.
pub(crate) fn charge_instead(
    engine: &Engine,
    gate: &Gate,
    exact: &[ExactName],
    error: &StoreError,
    cost: Cost,
    now: Timestamp,
) -> Result<StoreCharge, Refusal> {
    let refusing = refusing_without(exact, error);
    if !refusing.is_empty() {
        return Err(store_failed(gate, &refusing, error, now));
    }
    let (local, places) = decided_here(engine, gate, exact);
    match gate.check_located(&places, cost, now) {
        Ok(permit) => {
            engine.decided_alone(gate, &permit, now);
            let reports = gate.statuses(&permit).map(LimitReport::from).collect();
            Ok(StoreCharge {
                batch: None,
                refund_on: SmallVec::new(),
                shared: 0,
                fallback: Some(permit),
                reports,
            })
        }
        Err(violated) => Err(denied_alone(gate, violated, &local, error, cost, now)),
    }
}

/// The refusal by limits that this member decides alone.
pub(crate) fn denied_alone(
    gate: &Gate,
    violated: Vec<(usize, Violated)>,
    local: &[&ExactName],
    error: &StoreError,
    cost: Cost,
    now: Timestamp,
) -> Refusal {
    let violated = violated.into_iter().map(|(at, one)| {
        let (reason, retry) = alone_denial(&one, local[at].limit, cost, now);
        (Violated { reason, retry, limit: local[at].limit, ..one }, local[at])
    });
    let mut refusal = refusal_by(gate, violated.collect());
    if refusal.reason() == Reason::StoreUnavailable {
        refusal.detail = Some(Text::from_static(Silence::from_error(error).detail()));
    }
    refusal
}

impl Engine {
    /// Where this member counts a key while it decides alone.
    pub(crate) fn alone_place(&self, gate: &Gate, limit: &ExactName) -> CounterPlace {
        let members = self.members();
        let leases = self.shared.leases();
        let share = leases.zip(limit.lease.as_ref()).and_then(|(leases, lease)| leases.share(lease.key));
        let share = share.unwrap_or(Share { holders: members, members });
        gate.alone(limit.place, share.holders, share.members)
    }

    /// How many members divide what is divided, as far as is known; at least 1.
    pub(crate) fn members(&self) -> u32 {
        self.shared.members.load(Ordering::Relaxed).max(1)
    }

    /// Remembers until when something counts that this member has decided alone.
    pub(crate) fn decided_alone(&self, gate: &Gate, permit: &tidegate_core::Permit, now: Timestamp) {
        let until = gate.statuses(permit).map(|status| status.reset_at).max().unwrap_or(now);
        // Relaxed: who reads an older one leaves a count where it is, which is as if no answer had
        // come.
        self.shared.alone_until.fetch_max(until.as_nanos(), Ordering::Relaxed);
    }

    /// Whether something still counts that this member has decided alone.
    pub(crate) fn has_decided_alone(&self, now: Timestamp) -> bool {
        // Relaxed: as where it is written.
        now.as_nanos() < self.shared.alone_until.load(Ordering::Relaxed)
    }

    /// Forgets what this member has decided alone of exact limits that the store has just decided.
    pub(crate) fn forget_alone(&self, exact: &[ExactName], now: Timestamp) {
        if !self.has_decided_alone(now) {
            return;
        }
        for one in exact.iter().filter(|one| one.lease.is_none()) {
            self.shared.table.forget_key(one.place.key(), now);
        }
    }
}

//! The refusals of each plane, and which of several comes first.

use core::time::Duration;
use std::sync::Arc;

use smallvec::smallvec;
use tidegate_capacity::table_config::full_name;
use tidegate_capacity::{Bound, Throttled};
use tidegate_core::algorithm::Verdict;
use tidegate_core::permits::retry_hint;
use tidegate_core::refusal::ScopeValues;
use tidegate_core::{
    FeatureDetails, Gate, Reason, Refusal, RefusalDetails, Retry, Text, Timestamp, Violated,
};
use tidegate_overload::{FeatureId, Overload, Shed};
use tidegate_store::StoreError;

use super::exact_limit::refuses;
use crate::continuation::ExactName;
use crate::leases::Silence;
use crate::request::Request;

/// How long a caller is told to stay away when the store does not answer.
pub(crate) const STORE_RETRY: Duration = Duration::from_secs(1);

/// The scope of a refusal by the overload plane: the class of the request, and its tenant if it has
/// one.
pub(crate) fn scope_of(request: &Request<'_>) -> ScopeValues {
    let mut scope = ScopeValues::new();
    scope.push((Text::from_static("class"), Text::from_static(request.class.as_str())));
    if let Some(tenant) = request.tenant {
        scope.push((Text::from_static("tenant"), Text::from(tenant)));
    }
    scope
}

/// The bound that refuses a request where no units are counted.
#[inline]
pub(super) fn without_numbers(name: Text, reason: Reason, retry: Retry) -> Violated {
    Violated { name, reason, retry, limit: 0, remaining: 0, window: None }
}

/// The refusal of a request past its deadline.
pub(crate) fn past_deadline(request: &Request<'_>) -> Refusal {
    let violated = without_numbers(Text::from_static("deadline"), Reason::DeadlineUnmeetable, Retry::Never);
    Refusal::new(request.namespace, scope_of(request), violated)
}

/// The refusal of a request to which its deadline leaves too little time at a resource.
pub(crate) fn late_for(request: &Request<'_>, shed: &Shed) -> Refusal {
    let mut refusal = past_deadline(request);
    refusal.details = Some(Box::new(shed.details()));
    refusal
}

/// The refusal of a request that would have waited, or did, but for the bounds of the waiting room.
pub(crate) fn queue_full(request: &Request<'_>, retry_hint: Duration) -> Refusal {
    let violated = without_numbers(Text::from_static("queue"), Reason::QueueFull, Retry::Backoff);
    let mut refusal = Refusal::new(request.namespace, scope_of(request), violated);
    refusal.retry_hint = Some(retry_hint);
    refusal
}

/// The refusal of a request that waited when the process stopped.
pub(crate) fn drained(request: &Request<'_>, retry_hint: Duration) -> Refusal {
    let mut refusal = queue_full(request, retry_hint);
    refusal.detail = Some(Text::from_static("the process stops, and no request waits for it"));
    refusal
}

pub(crate) fn shed_by(namespace: &str, shed: &Shed, request: &Request<'_>) -> Refusal {
    let violated = without_numbers(Text::from_static(shed.name()), Reason::OverloadShed, Retry::Backoff);
    let violated = Violated { limit: shed.limit(), ..violated };
    let mut refusal = Refusal::new(namespace, scope_of(request), violated);
    refusal.retry_hint = Some(shed.retry_after_hint());
    refusal.details = Some(Box::new(shed.details()));
    refusal
}

/// The refusal in a namespace and a scope because a feature is off at this level.
#[cold]
pub(crate) fn disabled_feature(
    (namespace, scope): (&str, ScopeValues),
    overload: &Overload,
    feature: FeatureId,
    level: &Arc<str>,
    now: Timestamp,
) -> Refusal {
    let name = overload.feature(feature).name();
    let retry = Retry::At(overload.feature_retry(feature, now));
    let violated = without_numbers(Text::from(&**name), Reason::FeatureDisabled, retry);
    let mut refusal = Refusal::new(namespace, scope, violated);
    let resource = overload.resource_name(overload.feature_resource(feature));
    let details = FeatureDetails::new(Arc::clone(name), Arc::clone(level), resource);
    refusal.details = Some(Box::new(RefusalDetails::Feature(details)));
    refusal
}

pub(crate) fn throttled_by(namespace: &str, throttled: &Throttled<'_>, now: Timestamp) -> Refusal {
    // Once the store answers, the whole table counts and not this member's share of it.
    let is_share = throttled.bound == Bound::TableShare;
    let latest = if is_share { now.saturating_add(STORE_RETRY) } else { Timestamp::MAX };
    let violated = Violated {
        name: Text::from(&*full_name(throttled.table, throttled.index)),
        reason: throttled.reason,
        retry: match throttled.retry.min(latest) {
            Timestamp::MAX => Retry::Never,
            until => Retry::At(until),
        },
        limit: throttled.limit.whole_left(),
        remaining: throttled.remaining.whole_left(),
        window: Some(Duration::from_secs(1)),
    };
    let partition = Text::from(throttled.partition.to_string());
    let scope: ScopeValues = smallvec![(Text::from_static("partition"), partition)];
    let mut refusal = Refusal::new(namespace, scope, violated);
    refusal.details = Some(Box::new(throttled.details()));
    refusal.detail = is_share.then(|| Text::from_static(Silence::Away.detail()));
    refusal
}

pub(crate) fn denied_by_store(
    gate: &Gate,
    exact: &[ExactName],
    outcomes: &[tidegate_store::Outcome],
    store_now: Timestamp,
) -> Refusal {
    let mut violated: Vec<(Violated, &ExactName)> = Vec::new();
    let mut hint = None;
    for (name, outcome) in exact.iter().zip(outcomes).filter(|(name, outcome)| refuses(name, outcome)) {
        let Some((reason, retry)) = denial(name, outcome) else { continue };
        let violation = Violated {
            name: name.name.clone(),
            reason,
            retry,
            limit: match outcome.verdict {
                Verdict::Never { largest } => largest,
                _ => name.limit,
            },
            remaining: outcome.left(),
            window: name.window,
        };
        if reason == Reason::ConcurrencyExceeded {
            hint = Some(permit_hint(name, outcome, store_now));
        }
        violated.push((violation, name));
    }
    let mut refusal = refusal_by(gate, violated);
    refusal.retry_hint = hint.filter(|_| refusal.retry() == Retry::Backoff);
    refusal
}

/// How long a caller waits before its first retry of a request that an exact concurrency limit
/// refused: the age of the oldest permit divided by how many are held, which is how often one comes
/// back while all are given back.
fn permit_hint(limit: &ExactName, outcome: &tidegate_store::Outcome, store_now: Timestamp) -> Duration {
    let Verdict::Wait { until } = outcome.verdict else { return retry_hint(Duration::ZERO) };
    let age = limit.hold.unwrap_or_default().saturating_sub(until.saturating_since(store_now));
    let held = u32::try_from(outcome.used).unwrap_or(u32::MAX).max(1);
    retry_hint(age / held)
}

/// Why an exact limit denies, and until when, if it does.
pub(crate) fn denial(limit: &ExactName, outcome: &tidegate_store::Outcome) -> Option<(Reason, Retry)> {
    match (outcome.verdict, outcome.blocked_until) {
        (_, Some(until)) => Some((Reason::Blocked, Retry::At(until))),
        (Verdict::Never { .. }, None) => Some((Reason::CostExceedsLimit, Retry::Never)),
        (Verdict::Wait { .. }, None) if limit.hold.is_some() => Some((limit.reason, Retry::Backoff)),
        (Verdict::Wait { until }, None) => Some((limit.reason, Retry::At(until))),
        (Verdict::Admit, None) => None,
    }
}

/// The reason for which exact limits refuse where the store does not answer, and when to come back.
pub(crate) fn failure(error: &StoreError, now: Timestamp) -> (Reason, Retry) {
    match error {
        StoreError::Full { until } => (Reason::TableFull, Retry::At(*until)),
        _ => (Reason::StoreUnavailable, Retry::At(now.saturating_add(STORE_RETRY))),
    }
}

pub(crate) fn store_failed(gate: &Gate, exact: &[&ExactName], error: &StoreError, now: Timestamp) -> Refusal {
    let (reason, retry) = failure(error, now);
    let violated = exact.iter().map(|name| {
        let violation = Violated {
            name: name.name.clone(),
            reason,
            retry,
            limit: name.limit,
            remaining: 0,
            window: name.window,
        };
        (violation, *name)
    });
    let mut refusal = refusal_by(gate, violated.collect());
    if reason == Reason::StoreUnavailable {
        refusal.detail = Some(Text::from_static(Silence::from_error(error).detail()));
    }
    refusal
}

/// The refusal of a request that cannot be decided any more after it has waited.
pub(crate) fn undecidable(namespace: &str, why: String) -> Refusal {
    let mut refusal = refused_by_store(namespace);
    refusal.detail = Some(Text::from(why));
    refusal
}

/// The refusal where nobody says what refuses.
fn refused_by_store(namespace: &str) -> Refusal {
    let unknown = without_numbers(Text::from_static("store"), Reason::StoreUnavailable, Retry::Backoff);
    Refusal::new(namespace, ScopeValues::new(), unknown)
}

/// The refusal by these limits, the one that binds longest first.
pub(crate) fn refusal_by(gate: &Gate, mut violated: Vec<(Violated, &ExactName)>) -> Refusal {
    if violated.is_empty() {
        // A store that refuses must say why; one that does not is taken at its word all the same.
        return refused_by_store(gate.namespace());
    }
    // A permit that is expected back soon binds for less long than anything else.
    let binds = |one: &Violated| match one.reason {
        Reason::ConcurrencyExceeded => Retry::At(Timestamp::MIN),
        _ => one.retry,
    };
    violated.sort_by(|(one, _), (other, _)| Retry::longest_first(binds(one), binds(other)));
    let scope = violated[0].1.scope.clone();
    let civil_zone = violated[0].1.civil_zone.clone();
    let mut all = violated.into_iter().map(|(violation, _)| violation);
    let first = all.next().expect("checked above");
    let mut refusal = Refusal::new(gate.namespace(), scope, first);
    refusal.violated.extend(all);
    refusal.civil_zone = civil_zone;
    refusal
}

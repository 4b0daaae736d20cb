//! Checks the bounds of Envoy's rate limit quota service, and whether Envoys can hold the limits of
//! the namespaces that it names.

use core::time::Duration;

use tidegate_core::Algorithm;
use tidegate_core::lease::{RemoteObstacle, remote_obstacle};
use tidegate_core::limit::{Limit, Mode};
use tidegate_core::rate::format_span;

use crate::measure::span;
use crate::path::Path;
use crate::policy::rlqs::Rlqs;
use crate::policy::{ListenerRole, NamespacePolicy, Policy};
use crate::printable::shown;
use crate::problem::{Report, split};
use crate::raw::NamespaceConfig;
use crate::raw::name_map::NameMap;
use crate::raw::rlqs::RlqsConfig;
use crate::suggestion::nearest;

pub(super) fn rlqs(
    raw: &RlqsConfig,
    namespaces: Option<&NameMap<NamespaceConfig>>,
    path: &Path,
    report: &mut Report<'_>,
) -> Rlqs {
    // The schema bounds the numbers.
    Rlqs {
        ttl: ttl(raw.ttl.as_deref(), &path.key("ttl"), report),
        holders: raw.holders.map_or(Rlqs::HOLDERS_MAX, u32::from),
        buckets: raw.buckets.map_or(Rlqs::BUCKETS_MAX, u32::from),
        namespaces: names(raw.namespaces.as_deref(), namespaces, &path.key("namespaces"), report),
    }
}

fn ttl(text: Option<&str>, path: &Path, report: &mut Report<'_>) -> Duration {
    let Some(text) = text else { return Rlqs::TTL_DEFAULT };
    match span("ttl", text) {
        Ok(given) if (Rlqs::TTL_MIN..=Rlqs::TTL_MAX).contains(&given) && given.subsec_nanos() == 0 => {
            report.effective(path, format_span(given));
            return given;
        }
        Ok(_) => {
            let what = format!("ttl \"{}\" is out of range", shown(text));
            report.value(path, what, "use whole seconds from 10s to 60s");
        }
        Err((what, fix)) => report.value(path, what, fix),
    }
    Rlqs::TTL_DEFAULT
}

fn names(
    raw: Option<&[String]>,
    namespaces: Option<&NameMap<NamespaceConfig>>,
    path: &Path,
    report: &mut Report<'_>,
) -> Vec<String> {
    let raw = raw.unwrap_or_default();
    if !report.check_count(path, raw.len(), "namespaces", NamespacePolicy::COUNT_MAX) {
        return Vec::new();
    }
    let known = || namespaces.into_iter().flatten().map(|(name, _)| name.as_str());
    for (index, name) in raw.iter().enumerate() {
        let at = path.index(index);
        if !known().any(|known| known == name) {
            let what = format!("namespace \"{}\" is not under `namespaces:`", shown(name));
            let fix = match nearest(name, known()) {
                Some(near) => format!("did you mean {near}?"),
                None => "add it there, or name one that is".to_owned(),
            };
            report.value(&at, what, fix);
        } else if raw[..index].contains(name) {
            report.value(&at, format!("namespace \"{}\" is listed twice", shown(name)), "remove one of them");
        }
    }
    raw.to_vec()
}

/// Warns about bounds that bound nothing, and about limits that no Envoy can hold.
pub(super) fn warn(policy: &Policy, is_given: bool, report: &mut Report<'_>) {
    let top = Path::default();
    if is_given && policy.listener(ListenerRole::Grpc).is_none() {
        let what = "`rlqs` has no effect, because no listener speaks gRPC";
        report.warn(&top.key("rlqs"), what, "add `grpc: 127.0.0.1:8081` under `listen:`");
    }
    for name in &policy.rlqs.namespaces {
        let Some(namespace) = policy.namespace(name) else { continue };
        let path = top.key("namespaces").key(name);
        // A shadow limit refuses nothing, whoever counts.
        let limits = namespace.limits.iter().enumerate().filter(|(_, limit)| limit.mode == Mode::Enforce);
        for (index, limit) in limits {
            warn_of_limit(limit, (&path, index), report);
        }
    }
}

/// Warns about the numbers of a limit, or about those for some keys and plans if only these cannot
/// be held.
fn warn_of_limit(limit: &Limit, (path, index): (&Path, usize), report: &mut Report<'_>) {
    let obstacle = |algorithm: &Algorithm| remote_obstacle(algorithm, limit.consistency);
    let at = path.key("limits").index(index);
    if let Some(obstacle) = obstacle(&limit.algorithm) {
        warn_of(&obstacle, &limit.name, "", &at, report);
        return;
    }
    if let Some(obstacle) = limit.overrides.iter().find_map(|one| obstacle(&one.algorithm)) {
        warn_of(&obstacle, &limit.name, " for some keys", &at.key("overrides"), report);
    }
    for plan in &limit.plans {
        if let Some(obstacle) = plan.algorithm.as_ref().and_then(obstacle) {
            let at = path.key("plans").key("numbers").key(&plan.plan).key(&limit.name);
            warn_of(&obstacle, &limit.name, " in this plan", &at, report);
        }
    }
}

fn warn_of(obstacle: &RemoteObstacle, limit: &str, whose: &str, path: &Path, report: &mut Report<'_>) {
    let obstacle = obstacle.to_string();
    let (what, fix) = split(&obstacle);
    let what = format!("no Envoy is assigned a part of limit \"{}\"{whose}: {what}", shown(limit));
    report.warn(path, what, fix);
}

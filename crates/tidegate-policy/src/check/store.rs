//! Checks where the counters of exact limits are kept, and whether the limits of a namespace fit that.

use tidegate::limit::{Consistency, Limit};

use super::service::check_path;
use crate::measure::{size, span};
use crate::path::Path;
use crate::policy::{Durability, Embedded, NamespacePolicy, StoreKind};
use crate::problem::{Report, shown};
use crate::raw::limit::LimitConfig;
use crate::raw::service::{DurabilityConfig, Store, StoreKindConfig};

/// How many limits one warning names.
const NAMED_MAX: usize = 3;

/// The store that `raw` asks for.
pub(super) fn store(raw: &Store, path: &Path, report: &mut Report<'_>) -> StoreKind {
    match raw.kind.unwrap_or_default() {
        StoreKindConfig::Memory => {
            for (name, is_given) in [
                ("path", raw.path.is_some()),
                ("durability", raw.durability.is_some()),
                ("interval", raw.interval.is_some()),
                ("memory", raw.memory.is_some()),
            ] {
                if is_given {
                    let fix = format!("use `kind: embedded`, or remove `{name}`");
                    report.key(&path.key(name), format!("`{name}` belongs to `kind: embedded`"), fix);
                }
            }
            StoreKind::Memory
        }
        StoreKindConfig::Embedded => StoreKind::Embedded(embedded(raw, path, report)),
    }
}

fn embedded(raw: &Store, path: &Path, report: &mut Report<'_>) -> Embedded {
    let mut embedded = Embedded {
        path: raw.path.as_deref().unwrap_or(Embedded::PATH_DEFAULT).to_owned(),
        durability: durability(raw, path, report),
        memory_bytes: Embedded::MEMORY_BYTES_DEFAULT,
    };
    check_path("the store", &embedded.path, &path.key("path"), report);
    if let Some(text) = &raw.memory {
        match size("memory", text, Embedded::MEMORY_BYTES_MIN, Embedded::MEMORY_BYTES_MAX) {
            Ok(bytes) => embedded.memory_bytes = usize::try_from(bytes).unwrap_or(usize::MAX),
            Err((what, fix)) => report.value(&path.key("memory"), what, fix),
        }
    }
    embedded
}

fn durability(raw: &Store, path: &Path, report: &mut Report<'_>) -> Durability {
    let at = path.key("interval");
    match raw.durability.unwrap_or_default() {
        DurabilityConfig::Sync => {
            if raw.interval.is_some() {
                let fix = "use `durability: interval`, or remove `interval`";
                report.key(&at, "`interval` belongs to `durability: interval`", fix);
            }
            Durability::Sync
        }
        DurabilityConfig::Interval => {
            let given = raw.interval.as_deref().map(|text| (text, span("interval", text)));
            Durability::Interval(match given {
                None => Durability::INTERVAL_DEFAULT,
                Some((_, Ok(span)))
                    if (Durability::INTERVAL_MIN..=Durability::INTERVAL_MAX).contains(&span) =>
                {
                    span
                }
                Some((text, Ok(_))) => {
                    let what = format!("interval \"{}\" is out of range", shown(text));
                    report.value(&at, what, "use a span from 1ms to 1m");
                    Durability::INTERVAL_DEFAULT
                }
                Some((_, Err((what, fix)))) => {
                    report.value(&at, what, fix);
                    Durability::INTERVAL_DEFAULT
                }
            })
        }
    }
}

/// Checks that the limits of a namespace fit the store, and warns about promises that a restart forgets.
pub(super) fn check(
    namespace: &NamespacePolicy,
    raw: &[LimitConfig],
    store: &StoreKind,
    path: &Path,
    report: &mut Report<'_>,
) {
    let quotas = || namespace.limits.iter().filter(|limit| limit.algorithm.is_quota());
    match store {
        StoreKind::Memory => {
            if let Some(names) = named(quotas()) {
                let fix = "use `store: { kind: embedded }`";
                report.warn(&path.key("limits"), format!("a restart forgets {names}"), fix);
            }
        }
        StoreKind::Embedded(_) => {
            let exact =
                namespace.limits.iter().filter(|limit| limit.consistency == Consistency::Exact).count();
            if exact > Embedded::EXACT_LIMITS_MAX {
                let what = format!("{exact} limits of one namespace are exact");
                let fix = format!(
                    "use at most {}, since a request may ask for all of them at once; make some `consistency: local`, or split the namespace",
                    Embedded::EXACT_LIMITS_MAX
                );
                report.value(&path.key("limits"), what, fix);
            }
            for limit in quotas().filter(|limit| limit.consistency == Consistency::Local) {
                let index = raw.iter().position(|one| one.name == limit.name).unwrap_or_default();
                let at = path.key("limits").index(index);
                let (name, fix) = match raw.get(index) {
                    Some(one) if one.consistency.is_none() => ("share", "remove `share`"),
                    _ => ("consistency", "use `consistency: exact`"),
                };
                let what =
                    format!("a restart forgets quota \"{}\", because no store keeps it", shown(&limit.name));
                report.warn(&at.key(name), what, fix);
            }
        }
    }
}

/// `quota "a"`, or `quotas "a", "b", "c" and 4 more`.
fn named<'a>(limits: impl Iterator<Item = &'a Limit>) -> Option<String> {
    let names: Vec<&str> = limits.map(|limit| limit.name.as_str()).collect();
    let quoted: Vec<String> =
        names.iter().take(NAMED_MAX).map(|name| format!("\"{}\"", shown(name))).collect();
    match names.len() {
        0 => None,
        1 => Some(format!("quota {}", quoted[0])),
        count if count <= NAMED_MAX => Some(format!("quotas {}", quoted.join(", "))),
        count => Some(format!("quotas {} and {} more", quoted.join(", "), count - NAMED_MAX)),
    }
}

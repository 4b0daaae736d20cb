//! Checks the plans of a namespace and their numbers.

use tidegate_core::GateError;
use tidegate_core::limit::{Limit, PlanAssignment, PlanNumbers, Plans};

use super::algorithm::{ChangedBy, WrittenAlgorithm};
use super::name_and_path::{ATTRIBUTE_NAME_BYTES_MAX, check_name};
use crate::path::Path;
use crate::printable::shown;
use crate::problem::Report;
use crate::raw::NamespaceConfig;
use crate::raw::name_map::NameMap;
use crate::raw::plans::PlansConfig;
use crate::raw::text_or::TextOr;
use crate::suggestion::{listed, nearest};

/// The longest name of a plan in bytes.
const NAME_BYTES_MAX: usize = 128;

/// The longest value that a plan is assigned to, in bytes.
const VALUE_BYTES_MAX: usize = 1024;

/// The word for a plan without a limit.
const UNLIMITED: &str = "unlimited";

/// The plans of a namespace; `path` is that of `plans`.
pub(super) fn plans(namespace: &NamespaceConfig, path: &Path, report: &mut Report<'_>) -> Option<Plans> {
    let raw = namespace.plans.as_ref()?;
    let count = raw.numbers.len();
    let at = path.key("numbers");
    if count == 0 || count > Plans::MAX {
        let what = if count == 0 { "there is no plan".to_owned() } else { format!("{count} plans") };
        report.value(&at, what, format!("use 1 to {}", Plans::MAX));
        return None;
    }
    let limits = || namespace.limits.iter().flatten().map(|limit| limit.name.as_str());
    for (plan, numbers) in &raw.numbers {
        let at = at.key(plan);
        check_name("plan", plan, NAME_BYTES_MAX, |what, fix| report.key(&at, what, fix));
        for name in numbers.keys().filter(|name| !limits().any(|known| known == name.as_str())) {
            let what = format!(
                "plan \"{}\" has numbers of \"{}\", which is no limit here",
                shown(plan),
                shown(name)
            );
            let fix = match nearest(name, limits()) {
                Some(near) => format!("did you mean {near}?"),
                None => "name one of the limits of the namespace".to_owned(),
            };
            report.key(&at.key(name), what, fix);
        }
    }
    if raw.numbers.values().all(NameMap::is_empty) {
        report.warn(
            &at,
            "no plan changes a number, so plans have no effect",
            "give the plans numbers of limits",
        );
    }
    let mut plans = Plans::new(raw.numbers.keys());
    if let Some(attribute) = &raw.attribute {
        let at = path.key("attribute");
        check_name("attribute", attribute, ATTRIBUTE_NAME_BYTES_MAX, |what, fix| {
            report.value(&at, what, fix);
        });
        plans.attribute.clone_from(attribute);
    }
    if let Some(default) = &raw.default {
        is_known(raw, default, &path.key("default"), report);
        plans.default = Some(default.clone());
    }
    plans.assigned = assigned(raw, &path.key("assigned"), report);
    Some(plans)
}

fn assigned(raw: &PlansConfig, path: &Path, report: &mut Report<'_>) -> Vec<PlanAssignment> {
    let count = raw.assigned.iter().flatten().map(|(_, by_value)| by_value.len()).sum::<usize>();
    if count > Plans::ASSIGNED_MAX {
        let fix = format!("use at most {}, or send the plan as an attribute", Plans::ASSIGNED_MAX);
        report.value(path, format!("{count} assignments"), fix);
        return Vec::new();
    }
    let mut all = Vec::with_capacity(count);
    for (attribute, by_value) in raw.assigned.iter().flatten() {
        let at = path.key(attribute);
        check_name("attribute", attribute, ATTRIBUTE_NAME_BYTES_MAX, |what, fix| report.key(&at, what, fix));
        for (value, plan) in by_value {
            if report.is_full() {
                return all;
            }
            let at = at.key(value);
            if value.len() > VALUE_BYTES_MAX {
                let what = format!("a value of {} bytes", value.len());
                report.key(&at, what, format!("use at most {VALUE_BYTES_MAX}"));
            }
            is_known(raw, plan, &at, report);
            let (attribute, value, plan) = (attribute.clone(), value.clone(), plan.clone());
            all.push(PlanAssignment { attribute, value, plan });
        }
    }
    all
}

fn is_known(raw: &PlansConfig, plan: &str, path: &Path, report: &mut Report<'_>) {
    if raw.numbers.contains_key(plan) {
        return;
    }
    let known = || raw.numbers.keys().map(String::as_str);
    let fix = match nearest(plan, known()) {
        Some(near) => format!("did you mean {near}?"),
        None => format!("use {}", listed(known().take(8), "or")),
    };
    report.value(path, format!("there is no plan \"{}\" under `numbers`", shown(plan)), fix);
}

/// The numbers of a limit for the plans, each with its place in the file.
pub(super) fn numbers_of(
    limit: &str,
    plans: Option<&PlansConfig>,
    written: Option<&WrittenAlgorithm<'_>>,
    path: &Path,
    report: &mut Report<'_>,
) -> Vec<(Path, PlanNumbers)> {
    let mut all = Vec::new();
    for (plan, numbers) in plans.iter().flat_map(|plans| &plans.numbers) {
        let Some(raw) = numbers.get(limit) else { continue };
        let at = path.key("numbers").key(plan).key(limit);
        match raw {
            TextOr::Text(text) if text == UNLIMITED => {
                all.push((at, PlanNumbers { plan: plan.clone(), algorithm: None }));
            }
            TextOr::Text(text) => {
                let what = format!("\"{}\" is not the numbers of a limit", shown(text));
                let fix = match nearest(text, [UNLIMITED]) {
                    Some(near) => format!("did you mean {near}?"),
                    None => "write `unlimited`, or a mapping such as { rate: 50/s }".to_owned(),
                };
                report.value(&at, what, fix);
            }
            TextOr::Form(numbers) if numbers.zone.is_some() => {
                let fix = "remove it; set it for a key in `overrides`, or for a request with `zone_from`";
                report.key(&at.key("zone"), "a plan does not change the time zone", fix);
            }
            TextOr::Form(numbers) => {
                let changed = written
                    .and_then(|written| written.overridden(numbers, None, ChangedBy::Plan, &at, report));
                if let Some(algorithm) = changed.and_then(|changed| changed.build_changed(written, report)) {
                    all.push((at, PlanNumbers { plan: plan.clone(), algorithm: Some(algorithm) }));
                }
            }
        }
    }
    all
}

/// Adds the numbers of plans to a limit, of which everything else is known.
pub(super) fn add(limit: &mut Limit, numbers: Vec<(Path, PlanNumbers)>, report: &mut Report<'_>) {
    for (at, one) in numbers {
        // The other errors were found where the numbers were read.
        if let Some(Err(GateError::NotLeasable { why, .. })) =
            one.algorithm.as_ref().map(|algorithm| limit.check_numbers(algorithm))
        {
            report.value(&at, why.to_string(), "lower it, or use `consistency: exact`");
        }
        limit.plans.push(one);
    }
}

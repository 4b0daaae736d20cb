//! Warns about features with levels that do not fit the requests of the policy.

use tidegate_overload::{FeatureConfig, FeatureLevelConfig, FeatureScope, OnDisable};

use super::feature_callers::{CallerReach, FeatureCallers};
use crate::path::Path;
use crate::policy::Policy;
use crate::printable::shown;
use crate::problem::Report;

/// `policy` has no problem. `has_api_callers` says whether requests arrive at other listeners than
/// the proxy.
pub(in crate::check) fn warn(policy: &Policy, has_api_callers: bool, report: &mut Report<'_>) {
    let callers = FeatureCallers::new(policy, has_api_callers);
    let within = Path::default().key("features");
    for (index, feature) in policy.features.iter().enumerate() {
        if report.has_all_warnings() {
            return;
        }
        if feature.levels.is_empty() {
            continue;
        }
        let path = within.index(index);
        match callers.reach_of(&feature.name) {
            Some(reach) => beyond_reach(feature, reach, &path, report),
            None => unnamed(feature, &path, report),
        }
        uncancelled(feature, &path.key("on_disable"), report);
    }
}

/// Warns about a feature that no request can name.
fn unnamed(feature: &FeatureConfig, path: &Path, report: &mut Report<'_>) {
    let name = shown(&feature.name);
    let what = format!(
        "no request can name feature \"{name}\", so its levels change nothing: no route with a namespace has a \
         `feature` that gives this name"
    );
    report.warn(path, what, format!("add `feature: '\"{name}\"'` to a route"));
}

/// Warns about a feature whose requests are shed before it degrades, and about one that tells
/// tenants apart where there are none.
fn beyond_reach(feature: &FeatureConfig, reach: CallerReach, path: &Path, report: &mut Report<'_>) {
    let name = shown(&feature.name);
    if feature.class > reach.class {
        let what = format!(
            "feature \"{name}\" has class {}, but its requests have at most class {}, so they are shed before the \
             feature degrades",
            feature.class, reach.class
        );
        let fix = format!("use `class: {}`, or let its requests have a higher class", reach.class);
        report.warn(&path.key("class"), what, fix);
    }
    if feature.scope == FeatureScope::Tenant && !reach.has_tenant {
        let what = format!("`scope: tenant` divides nothing: no request of feature \"{name}\" has a tenant");
        report.warn(&path.key("scope"), what, "add `tenant` to the routes of the feature, or remove `scope`");
    }
}

/// Warns about `on_disable: cancel` of a feature that is never off.
fn uncancelled(feature: &FeatureConfig, path: &Path, report: &mut Report<'_>) {
    let is_off_at_last = feature.levels.last().is_some_and(FeatureLevelConfig::is_off);
    if feature.on_disable != OnDisable::Finish && !is_off_at_last {
        let what = format!(
            "feature \"{}\" is never off, so `on_disable: cancel` cancels nothing",
            shown(&feature.name)
        );
        report.warn(path, what, "add the level `{ name: off, cost: 0 }`, or remove `on_disable`");
    }
}

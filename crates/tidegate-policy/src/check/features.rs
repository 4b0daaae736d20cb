//! Checks the list of features, and warns of requests that name a feature for nothing.

mod feature_callers;
mod feature_levels;
pub(super) mod feature_mismatch;

use core::time::Duration;
use std::collections::BTreeMap;

use tidegate_core::Class;
use tidegate_overload::{FeatureConfig, FeatureMode, FeatureScope, OnDisable, OverloadBuilder};

use self::feature_levels::check_header_text;
use super::bounded_span::between;
use super::claims::class_of;
use super::name_and_path::check_name;
use crate::grammar::ValueSource;
use crate::path::Path;
use crate::policy::NamespacePolicy;
use crate::policy::proxy::Route;
use crate::printable::shown;
use crate::problem::Report;
use crate::raw::NamespaceConfig;
use crate::raw::features::{FeatureForm, FeatureModeForm, FeatureScopeForm, OnDisableForm};
use crate::raw::name_map::NameMap;
use crate::raw::text_or::TextOr;
use crate::suggestion::{listed, nearest};

/// The most features in one configuration.
const FEATURES_MAX: usize = OverloadBuilder::FEATURES_MAX;

/// The most resources that a message lists.
const RESOURCES_LISTED_MAX: usize = 8;

/// The names of the resources that features may follow.
#[derive(Clone, Copy, Debug)]
pub(super) struct ResourceNames<'a> {
    pub(super) names: &'a [&'a str],
    /// The key under which a document has them.
    pub(super) key: &'static str,
}

pub(super) fn features(
    raw: Option<&[TextOr<FeatureForm>]>,
    resources: ResourceNames<'_>,
    path: &Path,
    report: &mut Report<'_>,
) -> Vec<FeatureConfig> {
    let raw = raw.unwrap_or_default();
    if !report.check_count(path, raw.len(), "features", FEATURES_MAX) {
        return Vec::new();
    }
    let mut known: BTreeMap<&str, usize> = BTreeMap::new();
    let mut features = Vec::with_capacity(raw.len());
    for (index, entry) in raw.iter().enumerate() {
        if report.is_full() {
            break;
        }
        let at = path.index(index);
        let name = name_of(entry);
        let name_at = name_path(entry, &at);
        check_name("feature", name, FeatureConfig::NAME_BYTES_MAX, |what, fix| {
            report.value(&name_at, what, fix);
        });
        if let Some(first) = known.get(name) {
            let line = report.line_of(&name_path(&raw[*first], &path.index(*first)));
            let what = format!("duplicate feature \"{}\"", shown(name));
            report.value(&name_at, what, format!("first named at line {line}; remove one of them"));
        } else {
            known.insert(name, index);
        }
        features.push(match entry {
            TextOr::Text(name) => FeatureConfig::new(name, Class::default()),
            TextOr::Form(form) => feature(form, resources, &at, report),
        });
    }
    features
}

fn name_of(entry: &TextOr<FeatureForm>) -> &str {
    match entry {
        TextOr::Text(name) => name,
        TextOr::Form(form) => &form.name,
    }
}

/// Where the name of the entry at `at` stands.
fn name_path(entry: &TextOr<FeatureForm>, at: &Path) -> Path {
    match entry {
        TextOr::Text(_) => at.clone(),
        TextOr::Form(_) => at.key("name"),
    }
}

/// The feature as the overload plane takes it.
fn feature(
    raw: &FeatureForm,
    resources: ResourceNames<'_>,
    path: &Path,
    report: &mut Report<'_>,
) -> FeatureConfig {
    let mut feature = FeatureConfig::new(&raw.name, raw.class.map(class_of).unwrap_or_default());
    let Some(levels) = raw.levels.as_ref().filter(|levels| !levels.is_empty()) else {
        needless_keys(raw, path, report);
        return feature;
    };
    check_header_text("feature", &raw.name, &path.key("name"), report);
    feature.levels = feature_levels::levels(levels, &path.key("levels"), report);
    feature.resource = resource(raw, resources, path, report);
    if let Some(utility) = raw.utility {
        if utility > 0.0 {
            feature.utility = utility;
        } else {
            let what = format!("utility {utility} is not above 0");
            report.value(&path.key("utility"), what, "use the worth beside other features, as 1 or 3");
        }
    }
    let bounds = (Duration::ZERO, FeatureConfig::MIN_DWELL_MAX);
    feature.min_dwell =
        between(("min_dwell", raw.min_dwell.as_ref()), FeatureConfig::MIN_DWELL, bounds, path, report);
    feature.on_disable = on_disable(raw, path, report);
    feature.scope = match raw.scope.unwrap_or_default() {
        FeatureScopeForm::Global => FeatureScope::Global,
        FeatureScopeForm::Class => FeatureScope::Class,
        FeatureScopeForm::Tenant => FeatureScope::Tenant,
    };
    feature.mode = match raw.mode.unwrap_or_default() {
        FeatureModeForm::Enforce => FeatureMode::Enforce,
        FeatureModeForm::Shadow => FeatureMode::Shadow,
    };
    feature
}

/// Reports settings of levels at a feature without levels.
fn needless_keys(raw: &FeatureForm, path: &Path, report: &mut Report<'_>) {
    let keys = [
        ("`resource`", raw.resource.is_some()),
        ("`class`", raw.class.is_some()),
        ("`utility`", raw.utility.is_some()),
        ("`min_dwell`", raw.min_dwell.is_some()),
        ("`on_disable`", raw.on_disable.is_some()),
        ("`grace`", raw.grace.is_some()),
        ("`scope`", raw.scope.is_some()),
        ("`mode`", raw.mode.is_some()),
    ];
    let keys = listed(keys.into_iter().filter(|(_, is_written)| *is_written).map(|(key, _)| key), "and");
    if keys.is_empty() {
        return;
    }
    let what = format!("feature \"{}\" has {keys} and no levels, so it never degrades", shown(&raw.name));
    let fix = "add `levels: [{ name: full, cost: 1 }, { name: off, cost: 0 }]`, or keep the name alone";
    report.value(path, what, fix);
}

/// The resource whose load the levels follow.
fn resource(
    raw: &FeatureForm,
    resources: ResourceNames<'_>,
    path: &Path,
    report: &mut Report<'_>,
) -> Option<String> {
    let ResourceNames { names: all, key } = resources;
    let names = || all.iter().copied();
    if let Some(name) = &raw.resource {
        if !names().any(|known| known == name) {
            let fix = match nearest(name, names()) {
                Some(near) => format!("did you mean {}?", shown(near)),
                None if all.is_empty() => format!("add it under `{key}:`"),
                None => format!("use {}, or add it under `{key}:`", resource_list(resources)),
            };
            let what = format!("resource \"{}\" does not exist", shown(name));
            report.value(&path.key("resource"), what, fix);
        }
        return Some(name.clone());
    }
    let name = shown(&raw.name);
    match all {
        [] => {
            let what =
                format!("feature \"{name}\" has levels, and there is no resource whose load they follow");
            report.value(
                path,
                what,
                "add one under `resources:`, as `resources: { app: { concurrency: 64 } }`",
            );
            None
        }
        [only] => {
            report.effective(&path.key("resource"), (*only).to_owned());
            Some((*only).to_owned())
        }
        _ => {
            let what = format!("feature \"{name}\" does not say the resource whose load its levels follow");
            report.value(path, what, format!("add `resource:` with {}", resource_list(resources)));
            None
        }
    }
}

/// `a, b or c`.
fn resource_list(resources: ResourceNames<'_>) -> String {
    let ResourceNames { names, key } = resources;
    let mut first: Vec<String> = names.iter().take(RESOURCES_LISTED_MAX).map(|name| shown(name)).collect();
    if names.len() > RESOURCES_LISTED_MAX {
        first.push(format!("another of `{key}:`"));
    }
    listed(first.iter().map(String::as_str), "or")
}

fn on_disable(raw: &FeatureForm, path: &Path, report: &mut Report<'_>) -> OnDisable {
    match raw.on_disable.unwrap_or_default() {
        OnDisableForm::Finish => {
            if raw.grace.is_some() {
                let what = "only `on_disable: cancel` has `grace`";
                report.value(&path.key("grace"), what, "remove it, or add `on_disable: cancel`");
            }
            OnDisable::Finish
        }
        OnDisableForm::Cancel => {
            let bounds = (Duration::ZERO, FeatureConfig::GRACE_MAX);
            let grace = between(("grace", raw.grace.as_ref()), FeatureConfig::GRACE, bounds, path, report);
            OnDisable::Cancel { grace }
        }
    }
}

/// Warns of sources whose requests all count as `other`. `namespaces` are the checked namespaces of
/// `raw`, in the same order.
pub(super) fn warn(
    features: &[FeatureConfig],
    namespaces: &[NamespacePolicy],
    raw: Option<&NameMap<NamespaceConfig>>,
    routes: &[Route],
    report: &mut Report<'_>,
) {
    let top = Path::default();
    for (namespace, raw) in namespaces.iter().zip(raw.into_iter().flat_map(NameMap::values)) {
        if raw.request.as_ref().is_some_and(|request| request.feature.is_some()) {
            let at = top.key("namespaces").key(&namespace.name).key("request");
            warn_unlisted(features, &namespace.request.feature, &at.key("feature"), report);
        }
    }
    for (index, route) in routes.iter().enumerate() {
        if let Some(source) = &route.feature {
            let at = top.key("proxy").key("routes").index(index).key("feature");
            warn_unlisted(features, source, &at, report);
        }
    }
}

fn warn_unlisted(features: &[FeatureConfig], source: &ValueSource, path: &Path, report: &mut Report<'_>) {
    let names = features.iter().map(|feature| feature.name.as_str());
    let (what, fix) = match source {
        ValueSource::Constant(name) if !names.clone().any(|known| known == name) => {
            let what =
                format!("feature \"{}\" is not under `features:`, so it counts as `other`", shown(name));
            let fix = match nearest(name, names) {
                Some(near) => format!("did you mean {near}?"),
                None => "add it there".to_owned(),
            };
            (what, fix)
        }
        _ if features.is_empty() => {
            let what = "no feature is under `features:`, so each request counts as `other`";
            (what.to_owned(), "add the names there".to_owned())
        }
        _ => return,
    };
    report.warn(path, what, fix);
}

//! Checks the list of features, and warns of requests that name a feature for nothing.

use std::collections::BTreeMap;

use super::name_and_path::check_name;
use crate::grammar::ValueSource;
use crate::path::Path;
use crate::policy::proxy::Route;
use crate::policy::{FeaturePolicy, NamespacePolicy};
use crate::printable::shown;
use crate::problem::Report;
use crate::raw::NamespaceConfig;
use crate::raw::name_map::NameMap;
use crate::suggestion::nearest;

pub(super) fn features(raw: Option<&[String]>, path: &Path, report: &mut Report<'_>) -> Vec<FeaturePolicy> {
    let raw = raw.unwrap_or_default();
    if !report.check_count(path, raw.len(), "features", FeaturePolicy::COUNT_MAX) {
        return Vec::new();
    }
    let mut known: BTreeMap<&str, usize> = BTreeMap::new();
    for (index, name) in raw.iter().enumerate() {
        if report.is_full() {
            break;
        }
        let at = path.index(index);
        check_name("feature", name, FeaturePolicy::NAME_BYTES_MAX, |what, fix| report.value(&at, what, fix));
        if let Some(first) = known.get(name.as_str()) {
            let line = report.line_of(&path.index(*first));
            let what = format!("duplicate feature \"{}\"", shown(name));
            report.value(&at, what, format!("first named at line {line}; remove one of them"));
        } else {
            known.insert(name, index);
        }
    }
    raw.iter().map(|name| FeaturePolicy { name: name.clone() }).collect()
}

/// Warns of sources whose requests all count as `other`. `namespaces` are the checked namespaces of
/// `raw`, in the same order.
pub(super) fn warn(
    features: &[FeaturePolicy],
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

fn warn_unlisted(features: &[FeaturePolicy], source: &ValueSource, path: &Path, report: &mut Report<'_>) {
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

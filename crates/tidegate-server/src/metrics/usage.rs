//! The series of the meter: requests, units and times by namespace, feature and resource.
//!
//! No series is of a tenant. A row has at most 15 series for each class: ten outcomes, units, two
//! times, and two kinds of requests that Envoys have decided. An outcome that no request had and a
//! class that counted nothing have none, so that the page does not grow with names that nobody
//! uses.

use core::fmt;
use std::borrow::Cow;

use tidegate_core::{Class, RequestOutcome};
use tidegate_engine::{Engine, RowName, Usage};

use super::series::SeriesEncoder;

/// The label of requests without a name. A name of a policy is never empty, and one that looks like
/// this label is quoted.
const NONE: &str = "(none)";
/// The label of requests with names that have no row of their own.
const OTHER: &str = "(other)";

/// The metrics of one dimension.
struct UsageMetrics {
    label: &'static str,
    requests: &'static str,
    units: &'static str,
    place_seconds: &'static str,
    wait_seconds: &'static str,
    /// `None` for resources, which requests that Envoys decide have none of.
    reported: Option<&'static str>,
}

const NAMESPACES: UsageMetrics = UsageMetrics {
    label: "namespace",
    requests: "tidegate_usage_requests",
    units: "tidegate_usage_units",
    place_seconds: "tidegate_usage_place_seconds",
    wait_seconds: "tidegate_usage_wait_seconds",
    reported: Some("tidegate_usage_reported_requests"),
};

const FEATURES: UsageMetrics = UsageMetrics {
    label: "feature",
    requests: "tidegate_feature_requests",
    units: "tidegate_feature_units",
    place_seconds: "tidegate_feature_place_seconds",
    wait_seconds: "tidegate_feature_wait_seconds",
    reported: Some("tidegate_feature_reported_requests"),
};

const RESOURCES: UsageMetrics = UsageMetrics {
    label: "resource",
    requests: "tidegate_resource_requests",
    units: "tidegate_resource_units",
    place_seconds: "tidegate_resource_place_seconds",
    wait_seconds: "tidegate_resource_wait_seconds",
    reported: None,
};

/// A row of the meter.
type UsageOfName<'a> = (&'a RowName, &'a [Usage; 4]);

/// Writes the series of the meter; nothing for an engine without one.
pub(super) fn encode(page: &mut SeriesEncoder<'_, '_>, engine: &Engine) -> fmt::Result {
    let Some(report) = engine.usage() else { return Ok(()) };
    let namespaces: Vec<_> = report.namespaces.iter().map(|row| (&row.name, &row.classes)).collect();
    let features: Vec<_> = report.features.iter().map(|row| (&row.name, &row.classes)).collect();
    let resources: Vec<_> = report.resources.iter().map(|row| (&row.name, &row.classes)).collect();
    encode_rows(page, &NAMESPACES, &namespaces)?;
    // Without a feature or a resource there is nothing to divide by.
    for (metrics, rows) in [(&FEATURES, &features), (&RESOURCES, &resources)] {
        if rows.iter().any(|(name, _)| matches!(name, RowName::Named(_))) {
            encode_rows(page, metrics, rows)?;
        }
    }
    Ok(())
}

fn encode_rows(
    page: &mut SeriesEncoder<'_, '_>,
    metrics: &UsageMetrics,
    rows: &[UsageOfName<'_>],
) -> fmt::Result {
    let rows: Vec<(Cow<'_, str>, &[Usage; 4])> =
        rows.iter().map(|(name, classes)| (label(name), *classes)).collect();
    let all = || {
        rows.iter().flat_map(|(name, classes)| {
            let classes = Class::ALL.into_iter().zip(*classes);
            classes.map(move |(class, usage)| ([(metrics.label, &**name), ("class", class.as_str())], usage))
        })
    };
    let by_class = || all().filter(|(_, usage)| usage.offered() > 0);
    let requests = by_class().flat_map(|([name, class], usage)| {
        RequestOutcome::ALL
            .map(|outcome| ([name, class, ("outcome", outcome.as_str())], usage.outcome(outcome)))
    });
    page.counters(metrics.requests, requests.filter(|(_, count)| *count > 0))?;
    let units = by_class().map(|(labels, usage)| (labels, usage.units));
    page.counters(metrics.units, units)?;
    let seconds = |time: fn(&Usage) -> core::time::Duration| {
        by_class().map(move |(labels, usage)| (labels, time(usage).as_secs_f64()))
    };
    page.counters(metrics.place_seconds, seconds(|usage| usage.place_time))?;
    page.counters(metrics.wait_seconds, seconds(|usage| usage.waited))?;
    let Some(reported) = metrics.reported else { return Ok(()) };
    let requests = all().flat_map(|([name, class], usage)| {
        [("admitted", usage.reported_admitted), ("denied", usage.reported_denied)]
            .map(|(outcome, count)| ([name, class, ("outcome", outcome)], count))
    });
    page.counters(reported, requests.filter(|(_, count)| *count > 0))
}

fn label(name: &RowName) -> Cow<'_, str> {
    match name {
        RowName::None => Cow::Borrowed(NONE),
        RowName::Other => Cow::Borrowed(OTHER),
        RowName::Named(name) if matches!(&**name, NONE | OTHER) => Cow::Owned(format!("\"{name}\"")),
        RowName::Named(name) => Cow::Borrowed(name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_looks_like_a_label_of_others_has_a_label_of_its_own() {
        let named = |name: &str| label(&RowName::Named(name.into())).into_owned();
        assert_eq!([label(&RowName::None), label(&RowName::Other)], ["(none)", "(other)"]);
        assert_eq!([named("(none)"), named("other"), named("none")], ["\"(none)\"", "other", "none"]);
    }
}

//! Gives the limits of a namespace the settings that the namespace has for all of them.
//!
//! A default counts for the limits that can have it, and is no problem of the others. The
//! settings are checked once, where they are written; from then on a limit is checked as if its
//! defaults stood in it.

use std::collections::BTreeSet;

use tidegate_core::algorithm::{Calendar, CivilUnit};
use tidegate_core::lease::Terms;
use tidegate_core::limit::Consistency;
use tidegate_core::{Algorithm, Timestamp};

use super::algorithm::WrittenAlgorithm;
use super::bounded_span::between;
use super::limit;
use super::name_and_path::{ATTRIBUTE_NAME_BYTES_MAX, check_name};
use super::zone;
use crate::path::Path;
use crate::printable::shown;
use crate::problem::Report;
use crate::raw::NamespaceConfig;
use crate::raw::limit::{ConsistencyConfig, LimitConfig};
use crate::raw::plans::DefaultsConfig;

/// Completes the limits of a namespace. `is_shared` tells whether members share the store.
pub(super) fn apply(namespace: &mut NamespaceConfig, is_shared: bool, path: &Path, report: &mut Report<'_>) {
    let (Some(defaults), Some(limits)) = (&namespace.defaults, &mut namespace.limits) else { return };
    let within = path.key("defaults");
    let defaults = checked(defaults, &within, report);
    let mut used = BTreeSet::new();
    for raw in limits.iter_mut() {
        complete(raw, &defaults, is_shared, &mut used);
    }
    for (name, is_given) in [
        ("consistency", defaults.consistency.is_some()),
        ("on_store_failure", defaults.on_store_failure.is_some()),
        ("lease_period", defaults.lease_period.is_some()),
        ("zone", defaults.zone.is_some()),
        ("zone_from", defaults.zone_from.is_some()),
    ] {
        if is_given && !used.contains(name) {
            let what = format!("`{name}` has no effect: no limit of the namespace takes it from here");
            report.warn(&within.key(name), what, "remove it");
        }
    }
}

/// The defaults without those that have a problem, which is reported.
fn checked(raw: &DefaultsConfig, path: &Path, report: &mut Report<'_>) -> DefaultsConfig {
    let mut good = raw.clone();
    keep_if_good(&mut good.key, report, |key, report| {
        limit::key(key, &path.key("key"), report);
    });
    keep_if_good(&mut good.on_exceed, report, |on_exceed, report| {
        limit::block(on_exceed, &path.key("on_exceed"), report);
    });
    keep_if_good(&mut good.refund_on, report, |endings, report| {
        limit::refund_on(endings, &path.key("refund_on"), report);
    });
    keep_if_good(&mut good.lease_period, report, |period, report| {
        let bounds = (Terms::PERIOD_MIN, Terms::PERIOD_MAX);
        between(("lease_period", Some(period)), Terms::PERIOD, bounds, path, report);
    });
    keep_if_good(&mut good.zone, report, |zone, report| {
        if Calendar::new(1, CivilUnit::Day, zone).is_err() {
            let fix =
                zone::meant(zone).unwrap_or_else(|| "use an IANA name such as Europe/Berlin".to_owned());
            report.value(&path.key("zone"), format!("there is no time zone \"{}\"", shown(zone)), fix);
        }
    });
    keep_if_good(&mut good.zone_from, report, |attribute, report| {
        let at = path.key("zone_from");
        check_name("attribute", attribute, ATTRIBUTE_NAME_BYTES_MAX, |what, fix| {
            report.value(&at, what, fix);
        });
    });
    good
}

/// Drops a default of which `check` reports a problem.
fn keep_if_good<'r, T>(
    default: &mut Option<T>,
    report: &mut Report<'r>,
    check: impl FnOnce(&T, &mut Report<'r>),
) {
    let before = report.count();
    if let Some(value) = default.as_ref() {
        check(value, report);
    }
    if report.count() > before {
        *default = None;
    }
}

/// Gives a limit the defaults that it can have and does not set itself, and adds to `used` those
/// that not every limit can have.
fn complete(
    raw: &mut LimitConfig,
    defaults: &DefaultsConfig,
    is_shared: bool,
    used: &mut BTreeSet<&'static str>,
) {
    take(&mut raw.key, defaults.key.as_ref());
    take(&mut raw.missing, defaults.missing.as_ref());
    take(&mut raw.mode, defaults.mode.as_ref());
    take(&mut raw.on_exceed, defaults.on_exceed.as_ref());
    take(&mut raw.refund_on, defaults.refund_on.as_ref());
    take(&mut raw.status, defaults.status.as_ref());
    if let Some(calendar) = &mut raw.calendar {
        if take(&mut calendar.zone, defaults.zone.as_ref()) {
            used.insert("zone");
        }
        if take(&mut calendar.zone_from, defaults.zone_from.as_ref()) {
            used.insert("zone_from");
        }
    }
    // Faults of the limit are reported when it is checked.
    let mut unreported = Report::new("");
    let top = Path::default();
    let Some(written) = WrittenAlgorithm::new(raw, &top, &mut unreported) else { return };
    let consistencies = written.consistencies();
    let Some(algorithm) = written.build(&mut unreported) else { return };
    let fits = |wanted: &ConsistencyConfig| match wanted {
        ConsistencyConfig::Leased
            if is_shared && Terms::from_algorithm(&algorithm, Timestamp::MIN).is_err() =>
        {
            false
        }
        wanted => consistencies.contains(wanted),
    };
    if raw.share.is_none()
        && defaults.consistency.as_ref().is_some_and(fits)
        && take(&mut raw.consistency, defaults.consistency.as_ref())
    {
        used.insert("consistency");
    }
    let decided = limit::decided_where(raw, &algorithm, is_shared, &top, &mut unreported);
    if decided != Consistency::Local && take(&mut raw.on_store_failure, defaults.on_store_failure.as_ref()) {
        used.insert("on_store_failure");
    }
    if decided == Consistency::Leased
        && lasts(defaults.lease_period.as_ref(), &algorithm)
        && take(&mut raw.lease_period, defaults.lease_period.as_ref())
    {
        used.insert("lease_period");
    }
}

/// Whether leases of a limit may last so long.
fn lasts(period: Option<&String>, algorithm: &Algorithm) -> bool {
    let mut unreported = Report::new("");
    let bounds = (Terms::PERIOD_MIN, Terms::PERIOD_MAX);
    let period = between(("", period), Terms::PERIOD, bounds, &Path::default(), &mut unreported);
    Terms::from_algorithm(algorithm, Timestamp::MIN).is_ok_and(|terms| terms.with_period(period).is_ok())
}

/// Takes the default where the limit says nothing; whether the default counts.
fn take<T: Clone>(own: &mut Option<T>, default: Option<&T>) -> bool {
    let is_taken = own.is_none() && default.is_some();
    if is_taken {
        *own = default.cloned();
    }
    is_taken
}

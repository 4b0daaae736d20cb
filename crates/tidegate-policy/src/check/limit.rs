//! Checks one limit.

use std::collections::BTreeSet;

use tidegate_core::algorithm::{WINDOW_MAX, WINDOW_MIN};
use tidegate_core::lease::{Terms, TermsError};
use tidegate_core::limit::{Consistency, KeyPart, Limit, Missing, OnStoreFailure, Override, RefundOn};
use tidegate_core::{Algorithm, GateError, Timestamp};

use super::algorithm::{ChangedBy, WrittenAlgorithm};
use super::bounded_span::between;
use super::matcher::matcher;
use super::name_and_path::{ATTRIBUTE_NAME_BYTES_MAX, check_name};
use super::{plans, zone};
use crate::measure::span;
use crate::path::Path;
use crate::policy::NamespacePolicy;
use crate::printable::shown;
use crate::problem::Report;
use crate::raw::limit::{
    ConsistencyConfig, KeyPartForm, LimitConfig, MissingConfig, ModeConfig, NumbersConfig, OnExceedConfig,
    OnStoreFailureConfig, OverrideConfig,
};
use crate::raw::matcher::MatcherConfig;
use crate::raw::name_map::NameMap;
use crate::raw::plans::PlansConfig;
use crate::raw::text_or::TextOr;
use crate::suggestion::{listed, nearest};

/// The largest `n` of a `share: 1/n`.
const SHARE_MAX: u32 = 10_000;

/// The settings that a limit is checked against.
#[derive(Clone, Copy)]
pub(super) struct LimitSurroundings<'a> {
    /// Whether members share the store.
    pub(super) is_shared: bool,
    /// The plans of the namespace, and their place in the file.
    pub(super) plans: Option<&'a PlansConfig>,
    pub(super) plans_path: &'a Path,
}

/// Checks `raw` and adds what it says to `namespace`; nothing where it says too little for that.
pub(super) fn check(
    raw: &LimitConfig,
    around: LimitSurroundings<'_>,
    path: &Path,
    namespace: &mut NamespacePolicy,
    report: &mut Report<'_>,
) -> Option<()> {
    let is_shared = around.is_shared;
    check_name("limit", &raw.name, Limit::NAME_BYTES_MAX, |what, fix| {
        report.value(&path.key("name"), what, fix);
    });
    if let Some(was) = &raw.was {
        check_name("limit it was", was, Limit::NAME_BYTES_MAX, |what, fix| {
            report.value(&path.key("was"), what, fix);
        });
    }
    let key = key(raw.key.as_deref().unwrap_or_default(), &path.key("key"), report);
    let matches = conditions(raw.matches.as_ref(), &path.key("match"), report);
    let refund_on = raw.refund_on.as_ref().and_then(|raw| refund_on(raw, &path.key("refund_on"), report));
    if let Some(attribute) = raw.calendar.as_ref().and_then(|calendar| calendar.zone_from.as_ref()) {
        let at = path.key("calendar").key("zone_from");
        check_name("attribute", attribute, ATTRIBUTE_NAME_BYTES_MAX, |what, fix| {
            report.value(&at, what, fix);
        });
    }
    let block = raw.on_exceed.as_ref().and_then(|raw| block(raw, &path.key("on_exceed"), report));
    let mut written = WrittenAlgorithm::new(raw, path, report);
    let share = share(raw, is_shared, path, report);
    if let Some(written) = &mut written {
        written.share = share;
        consistency(raw, written, path, report);
    }
    let algorithm = written.as_ref().and_then(|written| written.build(report));
    if let (Some(algorithm), Some(written)) = (&algorithm, &written)
        && algorithm.limit() == 0
    {
        let what = format!("limit \"{}\" refuses every request that it applies to", shown(&raw.name));
        report.warn(&path.key(written.name()).key("limit"), what, "use at least 1, unless that is meant");
    }
    if let (Some(_), Some(written)) = (&algorithm, &written)
        && let Some((what, fix)) = written.zone().and_then(zone::without_daylight_saving)
    {
        report.warn(&path.key("calendar").key("zone"), what, fix);
    }
    let key = key?;
    let numbers = written.as_ref().filter(|_| algorithm.is_some());
    let overrides = overrides(raw, numbers, &key, &path.key("overrides"), report);
    let of_plans = plans::numbers_of(&raw.name, around.plans, numbers, around.plans_path, report);
    let algorithm = algorithm?;

    let consistency = decided_where(raw, &algorithm, is_shared, path, report);
    let is_local = consistency == Consistency::Local;
    let lease_period = lease_period(raw, &algorithm, consistency, path, report);
    if raw.on_store_failure.is_some() && is_local {
        let what = "`on_store_failure` has no effect, because no store decides the limit";
        report.warn(&path.key("on_store_failure"), what, "remove it, or use `consistency: exact`");
    }
    if let Some(status) = raw.status {
        namespace.statuses.insert(raw.name.clone(), status);
    }

    let mut limit =
        Limit::new(&raw.name, algorithm).key(key).missing(match raw.missing.unwrap_or_default() {
            MissingConfig::Skip => Missing::Skip,
            MissingConfig::Refuse => Missing::Refuse,
            MissingConfig::Group => Missing::Group,
        });
    for (attribute, matcher) in matches {
        limit = limit.when(attribute, matcher);
    }
    if raw.mode == Some(ModeConfig::Shadow) {
        limit = limit.shadow();
    }
    if let Some(span) = block {
        limit = limit.block_on_exceed(span);
    }
    limit.has_default_burst = raw.rate.is_some() && raw.burst.is_none();
    limit.refund_on = refund_on.unwrap_or_default();
    limit.zone_from = raw.calendar.as_ref().and_then(|calendar| calendar.zone_from.clone());
    if !is_local {
        let failure = match raw.on_store_failure {
            Some(OnStoreFailureConfig::Allow) => OnStoreFailure::Allow,
            Some(OnStoreFailureConfig::Refuse) => OnStoreFailure::Refuse,
            None if limit.algorithm.is_quota() => OnStoreFailure::Refuse,
            Some(OnStoreFailureConfig::Local) | None => OnStoreFailure::Local,
        };
        limit = limit.consistency(consistency).on_store_failure(failure);
    }
    limit.is_divided = is_divided(raw) && is_local;
    let is_left_open = matches!(raw.consistency, None | Some(ConsistencyConfig::Leased));
    limit.is_lendable = is_local && !is_shared && is_left_open && raw.share.is_none();
    limit.lease_period = lease_period;
    for (at, one) in overrides {
        // The other errors of an override were found where it was read.
        if let Err(GateError::NotLeasable { why, .. }) = limit.check_override(&one) {
            report.value(&at, why.to_string(), "lower it, or use `consistency: exact`");
        }
        limit.overrides.push(one);
    }
    plans::add(&mut limit, of_plans, report);
    limit.was.clone_from(&raw.was);
    namespace.limits.push(limit);
    Some(())
}

/// The attribute an entry of a key names.
pub(super) fn attribute_of(part: &TextOr<KeyPartForm>) -> &str {
    match part {
        TextOr::Text(name) => name,
        TextOr::Form(form) => &form.attribute,
    }
}

/// The attributes of a key; `None` if there are too many to look at.
pub(super) fn key(raw: &[TextOr<KeyPartForm>], path: &Path, report: &mut Report<'_>) -> Option<Vec<KeyPart>> {
    if !report.check_count(path, raw.len(), "attributes in one key", Limit::KEY_PARTS_MAX) {
        return None;
    }
    let mut parts: Vec<KeyPart> = Vec::new();
    for (index, entry) in raw.iter().enumerate() {
        let at = match entry {
            TextOr::Text(_) => path.index(index),
            TextOr::Form(_) => path.index(index).key("attribute"),
        };
        let mut part = KeyPart::from(attribute_of(entry));
        if let TextOr::Form(form) = entry {
            part.ipv6_prefix = form.ipv6_prefix.or(part.ipv6_prefix);
        }
        check_name("attribute", &part.attribute, ATTRIBUTE_NAME_BYTES_MAX, |what, fix| {
            report.value(&at, what, fix);
        });
        if parts.iter().any(|earlier| earlier.attribute == part.attribute) {
            let what = format!("duplicate attribute \"{}\" in `key`", shown(&part.attribute));
            report.value(&at, what, "remove one");
        }
        parts.push(part);
    }
    Some(parts)
}

/// The conditions of a limit or of a row of the cost table.
pub(super) fn conditions(
    raw: Option<&NameMap<MatcherConfig>>,
    path: &Path,
    report: &mut Report<'_>,
) -> Vec<(String, tidegate_core::Matcher)> {
    let mut all = Vec::new();
    for (attribute, raw) in raw.into_iter().flatten() {
        let at = path.key(attribute);
        check_name("attribute", attribute, ATTRIBUTE_NAME_BYTES_MAX, |what, fix| report.key(&at, what, fix));
        if let Some((what, fix)) = super::matcher::pattern_as_text(raw) {
            report.warn(&at, what, fix);
        }
        all.extend(matcher(raw, &at, report).map(|matcher| (attribute.clone(), matcher)));
    }
    all
}

/// The outcomes on which a limit gives its charge back; `None` after a problem has been reported.
pub(super) fn refund_on(raw: &[String], path: &Path, report: &mut Report<'_>) -> Option<RefundOn> {
    if raw.len() > RefundOn::MAX {
        let what = format!("{} outcomes", raw.len());
        report.value(path, what, format!("use at most {}, or classes such as 4xx", RefundOn::MAX));
        return None;
    }
    let mut is_good = true;
    for (index, text) in raw.iter().enumerate() {
        if RefundOn::parse([text.as_str()]).is_err() {
            is_good = false;
            let what = format!("\"{}\" is no outcome", shown(text));
            let fix = match nearest(text, ["succeeded", "failed"]) {
                Some(near) => format!("did you mean {near}?"),
                None if text == "cancelled" => "leave it out: cancelled work is never charged".to_owned(),
                None if text == "abandoned" => {
                    "leave it out: abandoned work gets its charge back by the status alone".to_owned()
                }
                None => "use succeeded, failed, a status such as 404, or a class such as 5xx".to_owned(),
            };
            report.value(&path.index(index), what, fix);
        }
    }
    if !is_good {
        return None;
    }
    RefundOn::parse(raw.iter().map(String::as_str)).ok()
}

pub(super) fn block(
    raw: &OnExceedConfig,
    path: &Path,
    report: &mut Report<'_>,
) -> Option<core::time::Duration> {
    let at = path.key("block");
    match span("block", &raw.block) {
        Ok(span) if (WINDOW_MIN..=WINDOW_MAX).contains(&span) => Some(span),
        Ok(_) => {
            let what = format!("block \"{}\" is not between 1us and 366d", shown(&raw.block));
            report.value(&at, what, "use a span in that range");
            None
        }
        Err((what, fix)) => {
            report.value(&at, what, fix);
            None
        }
    }
}

fn consistency(raw: &LimitConfig, written: &WrittenAlgorithm<'_>, path: &Path, report: &mut Report<'_>) {
    let Some(wanted) = raw.consistency else { return };
    let at = path.key("consistency");
    let has: Vec<String> = written.consistencies().iter().map(ToString::to_string).collect();
    if !written.consistencies().contains(&wanted) {
        let what = format!("`{}` has no consistency \"{wanted}\"", written.name());
        report.value(&at, what, format!("use {}", listed(has.iter().map(String::as_str), "or")));
    }
}

/// Where a limit is decided: as it says, or by default.
///
/// Nothing is lent by a store that is not shared: what a single member is promised is then decided
/// by itself, and a quota where it outlives a restart.
pub(super) fn decided_where(
    raw: &LimitConfig,
    algorithm: &Algorithm,
    is_shared: bool,
    path: &Path,
    report: &mut Report<'_>,
) -> Consistency {
    let alone = if algorithm.is_quota() { Consistency::Exact } else { Consistency::Local };
    // An instant decides nothing about whether it can be leased.
    let leasable = Terms::from_algorithm(algorithm, Timestamp::MIN);
    match raw.consistency {
        Some(ConsistencyConfig::Exact) => Consistency::Exact,
        Some(ConsistencyConfig::Leased) if !is_shared => alone,
        Some(ConsistencyConfig::Leased) => {
            // An algorithm without this consistency is a problem that was reported already.
            if let Err(error) = &leasable
                && !matches!(error, TermsError::Algorithm(_))
            {
                let fix = "use `consistency: exact`";
                report.value(&path.key("consistency"), error.to_string(), fix);
            }
            Consistency::Leased
        }
        Some(_) => Consistency::Local,
        // A share is a member's own.
        None if raw.share.is_some() => Consistency::Local,
        // A quota over an hour or longer must outlive a restart.
        None if algorithm.is_quota() => Consistency::Exact,
        None if !is_shared => Consistency::Local,
        None if leasable.is_ok() => Consistency::Leased,
        None => {
            let what = format!(
                "limit \"{}\" is decided by each member for itself, because `{}` with these numbers cannot be leased",
                shown(&raw.name),
                algorithm.name(),
            );
            let fix = "use `consistency: exact`, or `consistency: local` if that is meant";
            report.warn(&path.key("consistency"), what, fix);
            Consistency::Local
        }
    }
}

/// How long a lease of the limit lasts.
fn lease_period(
    raw: &LimitConfig,
    algorithm: &Algorithm,
    consistency: Consistency,
    path: &Path,
    report: &mut Report<'_>,
) -> core::time::Duration {
    const NAME: &str = "lease_period";
    let bounds = (Terms::PERIOD_MIN, Terms::PERIOD_MAX);
    let period = between((NAME, raw.lease_period.as_ref()), Terms::PERIOD, bounds, path, report);
    if raw.lease_period.is_some() && consistency != Consistency::Leased {
        let what = "`lease_period` has no effect, because the limit is not leased";
        let fix = "remove it, or use `consistency: leased` and a store that the members share";
        report.warn(&path.key(NAME), what, fix);
    } else if let Ok(terms) = Terms::from_algorithm(algorithm, Timestamp::MIN)
        && let Err(error) = terms.with_period(period)
    {
        report.value(&path.key(NAME), error.to_string(), "use a shorter lease period");
    }
    period
}

/// Whether the members divide the limit among themselves.
fn is_divided(raw: &LimitConfig) -> bool {
    raw.share.as_deref() == Some("auto")
}

/// The `n` of `share: 1/n`; 1 without a share.
fn share(raw: &LimitConfig, is_shared: bool, path: &Path, report: &mut Report<'_>) -> u32 {
    let Some(text) = &raw.share else { return 1 };
    let at = path.key("share");
    if is_divided(raw) && !is_shared {
        let what = "share \"auto\" needs a store that the members share, to know how many there are";
        report.value(&at, what, "use `store: { kind: redis }`, or write 1/n for n members");
        return 1;
    }
    if raw.consistency.unwrap_or_default() != ConsistencyConfig::Local {
        report.value(&at, "`share` belongs to `consistency: local`", "remove one of the two");
        return 1;
    }
    if is_divided(raw) {
        return 1;
    }
    let members = text.strip_prefix("1/").filter(|n| n.bytes().all(|byte| byte.is_ascii_digit()));
    if let Some(n) = members.and_then(|n| n.parse().ok()).filter(|n| (1..=SHARE_MAX).contains(n)) {
        return n;
    }
    let what = format!("share \"{}\" is not written as 1/n", shown(text));
    report.value(&at, what, format!("write for example 1/3, with at most {SHARE_MAX} members, or auto"));
    1
}

/// The overrides, each with its place in the file.
fn overrides(
    raw: &LimitConfig,
    written: Option<&WrittenAlgorithm<'_>>,
    key: &[KeyPart],
    path: &Path,
    report: &mut Report<'_>,
) -> Vec<(Path, Override)> {
    let mut all = Vec::new();
    let mut seen: BTreeSet<Vec<(&String, &String)>> = BTreeSet::new();
    for (index, one) in raw.overrides.iter().flatten().enumerate() {
        let at = path.index(index);
        let (when, zone) = split_zone(one, written, key);
        override_attributes(&when, key, &at, report);
        if !when.is_empty() && !seen.insert(when.clone()) {
            report.value(&at, "duplicate override for the same attributes and values", "remove one");
        }
        let changed = written
            .and_then(|written| written.overridden(&one.numbers, zone, ChangedBy::Override, &at, report));
        if let Some(algorithm) = changed.and_then(|changed| changed.build_changed(written, report)) {
            let when = when.into_iter().map(|(name, value)| (name.clone(), value.clone())).collect();
            let fixes_zone = zone.is_some();
            all.push((at, Override { fixes_zone, ..Override::new(when, algorithm) }));
        }
    }
    all
}

/// The attributes of an override with their values, and the time zone it sets. `zone` is a number
/// of a calendar, unless the limit counts by an attribute of this name.
fn split_zone<'r>(
    raw: &'r OverrideConfig,
    written: Option<&WrittenAlgorithm<'_>>,
    key: &[KeyPart],
) -> (Vec<(&'r String, &'r String)>, Option<&'r str>) {
    let is_calendar = written.is_some_and(|written| written.zone().is_some());
    let is_number = is_calendar && !key.iter().any(|part| part.attribute == ZONE);
    let zone = raw.when.get(ZONE).filter(|_| is_number);
    let when = (&raw.when).into_iter().filter(|(name, _)| zone.is_none() || *name != ZONE).collect();
    (when, zone.map(String::as_str))
}

/// The number of a calendar that may also be an attribute.
const ZONE: &str = "zone";

fn override_attributes(when: &[(&String, &String)], key: &[KeyPart], path: &Path, report: &mut Report<'_>) {
    let names = || key.iter().map(|part| part.attribute.as_str());
    if when.is_empty() {
        let fix = match names().next() {
            Some(name) => format!("add one of `key` with its value, for example {name}: \"1234\""),
            None => "a limit without `key` has one counter, which cannot be overridden; remove the override"
                .to_owned(),
        };
        report.value(path, "the override names no attribute", fix);
    }
    let attributes = when.iter().map(|(attribute, _)| *attribute);
    for attribute in attributes.filter(|attribute| !names().any(|name| name == attribute.as_str())) {
        let what = format!("attribute \"{}\" is not in the `key` of the limit", shown(attribute));
        let fix = match nearest(attribute, names().chain(NumbersConfig::NAMES)) {
            Some(near) => format!("did you mean `{near}`?"),
            None if key.is_empty() => "add it to `key`, or remove the override".to_owned(),
            None => format!("use {}", listed(names(), "or")),
        };
        report.key(&path.key(attribute), what, fix);
    }
}

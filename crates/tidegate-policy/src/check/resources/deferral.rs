//! Checks how a resource defers requests.

use core::time::Duration;
use std::collections::BTreeMap;

use tidegate_core::Class;
use tidegate_core::rate::format_span;
use tidegate_overload::{DeferralConfig, QueueConfig, Share};

use crate::check::bounded_part::{Part, part};
use crate::check::claims::{class_of, source};
use crate::check::name_and_path::check_file;
use crate::grammar::{SourceScope, ValueSource};
use crate::measure::span;
use crate::path::Path;
use crate::policy::deferral::DeferralPolicy;
use crate::policy::proxy::Route;
use crate::policy::resources::ResourcePolicy;
use crate::printable::shown;
use crate::problem::Report;
use crate::raw::deferral::DeferForm;

/// The settings as the plane takes them, for a resource with this queue.
pub(in crate::check) fn config(
    raw: &DeferForm,
    queue: &QueueConfig,
    path: &Path,
    report: &mut Report<'_>,
) -> DeferralConfig {
    let defaults = DeferralConfig::new([Class::Sheddable]);
    DeferralConfig {
        share: share(raw.share.as_deref(), (&defaults, queue), &path.key("share"), report),
        horizon: horizon(raw.horizon.as_deref(), &defaults, &path.key("horizon"), report),
        // The schema bounds it.
        max_deferrals: raw.max_deferrals.map_or(defaults.max_deferrals, |count| {
            u8::try_from(count).unwrap_or(DeferralConfig::DEFERRALS_BOUND)
        }),
        ..classes(raw, (&defaults, queue), &path.key("classes"), report)
    }
}

fn classes(
    raw: &DeferForm,
    (defaults, queue): (&DeferralConfig, &QueueConfig),
    path: &Path,
    report: &mut Report<'_>,
) -> DeferralConfig {
    let mut config = DeferralConfig { classes: [false; Class::ALL.len()], ..*defaults };
    for (index, class) in raw.classes.iter().enumerate() {
        let class = class_of(*class);
        if core::mem::replace(&mut config.classes[class as usize], true) {
            report.value(&path.index(index), format!("class {class} is listed twice"), "remove one of them");
        }
    }
    if let Err(error) = config.check(Some(queue)) {
        report.error(path, &error);
    }
    config
}

/// The reserved share; the default after a problem has been reported.
fn share(
    text: Option<&str>,
    (defaults, queue): (&DeferralConfig, &QueueConfig),
    path: &Path,
    report: &mut Report<'_>,
) -> Share {
    let Some(text) = text else { return defaults.share };
    let count = report.count();
    let share = part(text, Part { name: "share", most: DeferralConfig::SHARE_MAX }, path, report);
    if report.count() > count {
        return defaults.share;
    }
    let config = DeferralConfig { share, ..*defaults };
    if let Err(error) = config.check(Some(queue)) {
        report.error(path, &error);
    }
    share
}

/// The horizon; the default after a problem has been reported.
fn horizon(text: Option<&str>, defaults: &DeferralConfig, path: &Path, report: &mut Report<'_>) -> Duration {
    let Some(text) = text else { return defaults.horizon };
    let bounds = DeferralConfig::HORIZON_MIN..=DeferralConfig::HORIZON_MAX;
    match span("horizon", text) {
        Ok(given) if bounds.contains(&given) && given.subsec_nanos() == 0 => {
            report.effective(path, format_span(given));
            return given;
        }
        Ok(_) => {
            let what = format!("horizon \"{}\" is out of range", shown(text));
            let (least, most) = (format_span(*bounds.start()), format_span(*bounds.end()));
            report.value(path, what, format!("use whole seconds from {least} to {most}"));
        }
        Err((what, fix)) => report.value(path, what, fix),
    }
    defaults.horizon
}

/// The settings that the plane does not need. `has_token_keys` says whether the proxy verifies
/// tokens.
pub(in crate::check) fn policy(
    raw: &DeferForm,
    has_token_keys: bool,
    path: &Path,
    report: &mut Report<'_>,
) -> DeferralPolicy {
    if let Some(file) = &raw.key_file {
        check_file(file, &path.key("key_file"), report);
    }
    let at = path.key("operation");
    let operation = raw.operation.as_deref().and_then(|text| source(text, SourceScope::Any, &at, report));
    if let Some(source @ ValueSource::Claim(_)) = &operation
        && !has_token_keys
    {
        let what = format!("\"{source}\" reads a token, and there are no keys to verify tokens with");
        report.value(&at, what, "add `jwt:` under `proxy:`");
    }
    DeferralPolicy { operation, key_file: raw.key_file.clone() }
}

/// Reports resources that name different key files: a ticket is verified with one key.
pub(super) fn one_key_file(resources: &[ResourcePolicy], path: &Path, report: &mut Report<'_>) {
    let mut named = resources.iter().filter_map(|resource| {
        let file = resource.deferral.as_ref()?.key_file.as_deref()?;
        Some((resource.name.as_str(), file))
    });
    let Some((first, file)) = named.next() else { return };
    for (other, _) in named.filter(|(_, other)| *other != file) {
        let what = format!(
            "resource \"{}\" has another key file than resource \"{}\", and all tickets have one key",
            shown(other),
            shown(first)
        );
        let fix = format!("write `key_file: {}`, or remove it here", shown(file));
        report.value(&path.key(other).key("defer").key("key_file"), what, fix);
    }
}

/// Gives each route with a namespace the source of the operation at the resource of its upstream,
/// where a proxied request has that source.
pub(in crate::check) fn give_operations(routes: &mut [Route], resources: &[ResourcePolicy]) {
    let source = |resource: &ResourcePolicy| {
        let source = resource.deferral.as_ref()?.operation.clone()?;
        SourceScope::Proxied.has(&source).then(|| (resource.name.clone(), source))
    };
    let sources: BTreeMap<String, ValueSource> = resources.iter().filter_map(source).collect();
    for route in routes.iter_mut().filter(|route| route.namespace.is_some()) {
        route.operation = sources.get(&route.upstream).cloned();
    }
}

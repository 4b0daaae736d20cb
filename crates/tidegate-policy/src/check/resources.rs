//! Checks resources, their queues, and signals.

use core::time::Duration;

use tidegate_core::Class;
use tidegate_overload::{
    AdaptiveLimitConfig, FleetShare, LimitAlgorithm, PushedValue, QueueConfig, ResourceConfig as PlaneConfig,
    ResourceMode, RoomUse, Share, SignalConfig, SignalSource,
};

use super::bounded_part::{Part, part};
use super::bounded_size::memory_between;
use super::bounded_span::{MILLI, between};
use super::claims::class_of;
use super::name_and_path::check_name;
use super::planes::check_names;
use crate::path::Path;
use crate::policy::resources::ResourcePolicy;
use crate::printable::shown;
use crate::problem::Report;
use crate::raw::NamespaceConfig;
use crate::raw::name_map::NameMap;
use crate::raw::resources::{
    AdaptiveAlgorithmForm, AdaptiveForm, ConcurrencyEntry, QueueForm, ResourceConfig, ResourceModeForm,
    ResourceShareForm, SignalForm, SignalSourceForm,
};

pub(super) mod deferral;
mod deferral_mismatch;
pub(super) mod load_levels;
mod namespace_shares;
pub(super) mod queue_mismatch;
mod queue_wait;
pub(super) mod resource_mismatch;

/// The most signals in one configuration.
const SIGNALS_MAX: usize = 1000;

/// The longest unit of a signal in bytes.
const UNIT_BYTES_MAX: usize = 32;

/// The largest target of a signal.
const TARGET_MAX: f64 = 1e15;

/// How long a pushed value counts unless told otherwise.
const PUSH_TTL: Duration = Duration::from_secs(10);

/// The longest span of any setting of a resource or signal.
const SPAN_MAX: Duration = Duration::from_hours(1);

/// The resources. `has_token_keys` says whether the proxy verifies tokens.
pub(super) fn resources(
    raw: Option<&NameMap<ResourceConfig>>,
    namespaces: Option<&NameMap<NamespaceConfig>>,
    has_token_keys: bool,
    path: &Path,
    report: &mut Report<'_>,
) -> Vec<ResourcePolicy> {
    if !report.check_count(path, raw.map_or(0, NameMap::len), "resources", ResourcePolicy::COUNT_MAX) {
        return Vec::new();
    }
    let resource = |(name, raw): (&String, &ResourceConfig)| {
        let at = path.key(name);
        check_name("resource", name, ResourcePolicy::NAME_BYTES_MAX, |what, fix| report.key(&at, what, fix));
        ResourcePolicy {
            name: name.clone(),
            config: config(raw, &at, report),
            waits: raw.queue.as_ref().and_then(|queue| {
                let wait = queue.wait.as_ref()?;
                Some(queue_wait::wait(wait, &at.key("queue").key("wait"), report))
            }),
            deferral: raw
                .defer
                .as_ref()
                .map(|defer| deferral::policy(defer, has_token_keys, &at.key("defer"), report)),
            shares: namespace_shares::shares(raw.shares.as_ref(), namespaces, &at.key("shares"), report),
            status: raw.status,
            show_load: raw.show_load.unwrap_or(false),
        }
    };
    let resources: Vec<ResourcePolicy> = raw.into_iter().flatten().map(resource).collect();
    deferral::one_key_file(&resources, path, report);
    resources
}

/// The resource as the overload plane takes it.
fn config(raw: &ResourceConfig, path: &Path, report: &mut Report<'_>) -> PlaneConfig {
    let mut config = match &raw.concurrency {
        ConcurrencyEntry::Fixed(places) => PlaneConfig::new(*places),
        ConcurrencyEntry::Auto => {
            let form = AdaptiveForm::default();
            PlaneConfig::adaptive(adaptive(&form, &path.key("concurrency"), report))
        }
        ConcurrencyEntry::Adaptive(form) => {
            PlaneConfig::adaptive(adaptive(form, &path.key("concurrency"), report))
        }
    };
    if let Some(streams) = raw.streams {
        if (1..=PlaneConfig::STREAMS_MAX).contains(&streams) {
            config.streams_max = streams;
        } else {
            let (what, fix) = match streams {
                0 => (
                    "streams 0 would refuse every request of routes with `hold: first_byte`".to_owned(),
                    "; or remove `hold` from the routes, whose requests then keep their places to the end",
                ),
                _ => (format!("streams {streams} is out of range"), ""),
            };
            let fix = format!("use 1 to {}{fix}", PlaneConfig::STREAMS_MAX);
            report.value(&path.key("streams"), what, fix);
        }
    }
    if let Some(text) = &raw.reserve {
        let bounds = Part { name: "reserve", most: Share::percent(PlaneConfig::RESERVE_MAX) };
        config.reserve = part(text, bounds, &path.key("reserve"), report).as_percent();
    }
    config.levels = load_levels::levels(raw.levels.as_ref(), &path.key("levels"), report);
    let bounds = (PlaneConfig::DEMAND_HALF_LIFE_MIN, PlaneConfig::DEMAND_HALF_LIFE_MAX);
    let half_life = ("demand_half_life", raw.demand_half_life.as_ref());
    config.demand_half_life = between(half_life, config.demand_half_life, bounds, path, report);
    config.mode = match raw.mode.unwrap_or_default() {
        ResourceModeForm::Enforce => ResourceMode::Enforce,
        ResourceModeForm::Shadow => ResourceMode::Shadow,
    };
    config.share = match (raw.share.unwrap_or_default(), config.adaptive) {
        (ResourceShareForm::Full, _) => FleetShare::None,
        // Each member finds its own part.
        (ResourceShareForm::Auto, Some(_)) => FleetShare::Queue,
        (ResourceShareForm::Auto, None) => FleetShare::PlacesAndQueue,
    };
    let has_queue = raw.queue.is_some() || raw.defer.is_some();
    if has_queue {
        let default = QueueForm::default();
        let form = raw.queue.as_ref().unwrap_or(&default);
        config = queue(form, &config, &path.key("queue"), report);
    }
    if let (Some(raw), Some(queue)) = (&raw.defer, &config.queue) {
        config.defer = Some(deferral::config(raw, queue, &path.key("defer"), report));
    }
    config
}

fn adaptive(raw: &AdaptiveForm, path: &Path, report: &mut Report<'_>) -> AdaptiveLimitConfig {
    let default = AdaptiveLimitConfig::default();
    // The schema bounds each of them; see [`AdaptiveLimitConfig::LIMIT_MAX`].
    let places = |text: Option<u64>| {
        text.map(|places| u32::try_from(places).unwrap_or(AdaptiveLimitConfig::LIMIT_MAX))
    };
    let (written_min, written_max) = (places(raw.min), places(raw.max));
    let max = written_max.unwrap_or(default.max.max(written_min.unwrap_or(0)));
    let min = written_min.unwrap_or(default.min.min(max));
    if min > max {
        let what = format!("min {min} is above max {max}");
        report.value(&path.key("min"), what, format!("use at most {max}, or raise `max`"));
    }
    let initial = places(raw.initial).unwrap_or(default.initial.max(min).min(max));
    if min <= max && !(min..=max).contains(&initial) {
        let what = format!("initial {initial} is outside of min {min} and max {max}");
        report.value(&path.key("initial"), what, format!("use a number from {min} to {max}"));
    }
    for (key, places) in [("min", min), ("max", max), ("initial", initial)] {
        report.effective(&path.key(key), places);
    }
    let ceiling = raw
        .ceiling
        .as_ref()
        .map(|text| between(("ceiling", Some(text)), MILLI, (MILLI, SPAN_MAX), path, report));
    let algorithm = match raw.algorithm.unwrap_or_default() {
        AdaptiveAlgorithmForm::Vegas => LimitAlgorithm::Vegas,
        AdaptiveAlgorithmForm::Aimd => LimitAlgorithm::Aimd,
        AdaptiveAlgorithmForm::Gradient => LimitAlgorithm::Gradient,
    };
    AdaptiveLimitConfig { algorithm, min, max, initial, ceiling, ..default }
}

/// `config` with a queue.
fn queue(raw: &QueueForm, config: &PlaneConfig, path: &Path, report: &mut Report<'_>) -> PlaneConfig {
    let requests = raw.requests.map_or(ResourcePolicy::REQUESTS_DEFAULT, |requests| requests as usize);
    let bounds = (ResourcePolicy::BYTES_MIN, ResourcePolicy::BYTES_MAX);
    let bytes =
        memory_between(("bytes", raw.bytes.as_ref()), ResourcePolicy::BYTES_DEFAULT, bounds, path, report);
    let mut queue = QueueConfig::default();
    queue.weights = weights(raw, queue.weights, path, report);
    queue.delay_targets = delay_targets(raw, queue.delay_targets, path, report);
    queue.min_shares = min_shares(raw, path, report);
    if let Some(text) = &raw.priority_share {
        let bounds = Part { name: "priority_share", most: Share::percent(100) };
        queue.reserve_share = part(text, bounds, &path.key("priority_share"), report);
    }
    queue.lifo = lifo(raw, path, report);
    config.waiting_max(RoomUse::new(requests, bytes)).queue(queue)
}

fn weights(
    raw: &QueueForm,
    mut weights: [u32; Class::ALL.len()],
    path: &Path,
    report: &mut Report<'_>,
) -> [u32; Class::ALL.len()] {
    let Some(raw) = &raw.weights else { return weights };
    for (class, written) in Class::ALL.into_iter().zip(raw.by_class()) {
        let Some(written) = written else { continue };
        let weight = u32::try_from(written).unwrap_or(u32::MAX);
        if (1..=QueueConfig::WEIGHT_MAX).contains(&weight) {
            weights[class as usize] = weight;
            continue;
        }
        let what = format!("weight {written} of class {class} is out of range");
        let fix = match written {
            0 => format!(
                "use 1 to {}, or `min_share: {{ {class}: 0 }}` for a class that is served only when no other waits",
                QueueConfig::WEIGHT_MAX
            ),
            _ => format!("use 1 to {}", QueueConfig::WEIGHT_MAX),
        };
        report.value(&path.key("weights").key(class.as_str()), what, fix);
    }
    weights
}

fn delay_targets(
    raw: &QueueForm,
    mut targets: [Option<Duration>; Class::ALL.len()],
    path: &Path,
    report: &mut Report<'_>,
) -> [Option<Duration>; Class::ALL.len()] {
    let Some(raw) = &raw.delay_target else { return targets };
    for (class, text) in Class::ALL.into_iter().zip(raw.by_class()) {
        let Some(text) = text else { continue };
        targets[class as usize] = (text != "off").then(|| {
            let bounds = (MILLI, SPAN_MAX);
            between((class.as_str(), Some(text)), MILLI, bounds, &path.key("delay_target"), report)
        });
    }
    targets
}

fn min_shares(raw: &QueueForm, path: &Path, report: &mut Report<'_>) -> [Option<Share>; Class::ALL.len()] {
    let mut shares = [None; Class::ALL.len()];
    let Some(raw) = &raw.min_share else { return shares };
    let by_class = [&raw.sheddable, &raw.sheddable_plus, &raw.critical];
    for (class, text) in Class::ALL.into_iter().zip(by_class) {
        let Some(text) = text else { continue };
        let at = path.key("min_share").key(class.as_str());
        let bounds = Part { name: "min_share", most: QueueConfig::MIN_SHARE_MAX };
        shares[class as usize] = Some(part(text, bounds, &at, report));
    }
    shares
}

fn lifo(raw: &QueueForm, path: &Path, report: &mut Report<'_>) -> [bool; Class::ALL.len()] {
    let mut lifo = [false; Class::ALL.len()];
    for (index, class) in raw.lifo.iter().flatten().enumerate() {
        let class = class_of(*class);
        if core::mem::replace(&mut lifo[class as usize], true) {
            let what = format!("class {class} is listed twice");
            report.value(&path.key("lifo").index(index), what, "remove one of them");
        }
    }
    lifo
}

pub(super) fn signals(
    raw: Option<&[SignalForm]>,
    resources: &[ResourcePolicy],
    path: &Path,
    report: &mut Report<'_>,
) -> Vec<SignalConfig> {
    let raw = raw.unwrap_or_default();
    if !report.check_count(path, raw.len(), "signals", SIGNALS_MAX) {
        return Vec::new();
    }
    check_names("signal", raw.iter().map(|signal| signal.name.as_str()), path, report);
    let signal = |(index, raw): (usize, &SignalForm)| signal(raw, resources, &path.index(index), report);
    raw.iter().enumerate().map(signal).collect()
}

fn signal(
    raw: &SignalForm,
    resources: &[ResourcePolicy],
    path: &Path,
    report: &mut Report<'_>,
) -> SignalConfig {
    if let Some(name) = &raw.resource
        && !resources.iter().any(|resource| resource.name == *name)
    {
        let what = format!("resource \"{}\" does not exist", shown(name));
        report.value(&path.key("resource"), what, "add it under `resources:`, or remove `resource`");
    }
    let unit = raw.unit.clone().unwrap_or_default();
    if unit.len() > UNIT_BYTES_MAX {
        let what = format!("a unit of {} bytes", unit.len());
        report.value(&path.key("unit"), what, format!("use at most {UNIT_BYTES_MAX}"));
    }
    let bounds = (Duration::ZERO, SPAN_MAX);
    let smoothing =
        between(("smoothing", raw.smoothing.as_ref()), SignalConfig::SMOOTHING, bounds, path, report);
    let (source, ttl) = source(raw, path, report);
    let target = target(raw, source, path, report);
    report.effective(&path.key("target"), target.to_string());
    SignalConfig {
        target,
        unit,
        ttl,
        smoothing,
        resource: raw.resource.clone(),
        ..SignalConfig::new(&raw.name, source)
    }
}

/// The source, and how long a value of it counts.
fn source(raw: &SignalForm, path: &Path, report: &mut Report<'_>) -> (SignalSource, Option<Duration>) {
    let needless = [
        (raw.ttl.is_some() && raw.source != SignalSourceForm::Push, "ttl", "push"),
        (
            raw.slower_than.is_some() && raw.source != SignalSourceForm::SlowAnswers,
            "slower_than",
            "slow_answers",
        ),
    ];
    for (_, key, source) in needless.into_iter().filter(|(is_needless, ..)| *is_needless) {
        let what = format!("only `source: {source}` has `{key}`");
        report.value(&path.key(key), what, "remove it");
    }
    match raw.source {
        SignalSourceForm::InFlight => (SignalSource::InFlight, None),
        SignalSourceForm::QueueDelay => (SignalSource::QueueDelay, None),
        SignalSourceForm::SlowAnswers => {
            if raw.slower_than.is_none() {
                let fix = "add `slower_than: 200ms`, the latency above which an answer is slow";
                report.value(path, "`source: slow_answers` needs `slower_than`", fix);
            }
            let bounds = (MILLI, SPAN_MAX);
            let slower_than = between(("slower_than", raw.slower_than.as_ref()), MILLI, bounds, path, report);
            (SignalSource::SlowAnswers { slower_than }, None)
        }
        SignalSourceForm::Push => {
            let bounds = (PushedValue::TTL_MIN, PushedValue::TTL_MAX);
            let ttl = between(("ttl", raw.ttl.as_ref()), PUSH_TTL, bounds, path, report);
            (SignalSource::Pushed, Some(ttl))
        }
    }
}

fn target(raw: &SignalForm, source: SignalSource, path: &Path, report: &mut Report<'_>) -> f64 {
    let Some(text) = &raw.target else {
        return source.default_target().unwrap_or_else(|| {
            let fix = "add `target: 100`, the value at which the pressure is 1";
            report.value(path, "`source: push` needs a `target`", fix);
            1.0
        });
    };
    let target = text.parse().ok().filter(|target: &f64| *target > 0.0 && *target <= TARGET_MAX);
    target.unwrap_or_else(|| {
        let what = format!("target \"{}\" is not a number above 0", shown(text));
        report.value(&path.key("target"), what, "write a decimal, for example 0.9 or 1000");
        1.0
    })
}

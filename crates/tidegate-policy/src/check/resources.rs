//! Checks resources, their queues, and signals.

use core::time::Duration;

use tidegate_core::Class;

use super::bounded_span::{MILLI, between};
use super::claims::class_of;
use super::name_and_path::check_name;
use super::planes::check_names;
use super::{namespace_shares, queue_wait};
use crate::measure::{percent, size};
use crate::path::Path;
use crate::policy::resources::{
    AdaptiveAlgorithm, AdaptivePolicy, ConcurrencyPolicy, QueuePolicy, ResourcePolicy, ResourceShare,
    SignalPolicy, SignalSourcePolicy,
};
use crate::printable::shown;
use crate::problem::Report;
use crate::raw::NamespaceConfig;
use crate::raw::name_map::NameMap;
use crate::raw::resources::{
    AdaptiveAlgorithmForm, AdaptiveForm, ConcurrencyEntry, QueueForm, ResourceConfig, ResourceShareForm,
    SignalForm, SignalSourceForm,
};

pub(super) fn resources(
    raw: Option<&NameMap<ResourceConfig>>,
    namespaces: Option<&NameMap<NamespaceConfig>>,
    path: &Path,
    report: &mut Report<'_>,
) -> Vec<ResourcePolicy> {
    let count = raw.map_or(0, NameMap::len);
    if count > ResourcePolicy::COUNT_MAX {
        let what = format!("{count} resources");
        report.value(path, what, format!("use at most {}", ResourcePolicy::COUNT_MAX));
        return Vec::new();
    }
    let resource = |(name, raw): (&String, &ResourceConfig)| {
        let at = path.key(name);
        check_name("resource", name, ResourcePolicy::NAME_BYTES_MAX, |what, fix| report.key(&at, what, fix));
        let concurrency = match &raw.concurrency {
            ConcurrencyEntry::Fixed(places) => ConcurrencyPolicy::Fixed(*places),
            ConcurrencyEntry::Auto => ConcurrencyPolicy::Adaptive(AdaptivePolicy::default()),
            ConcurrencyEntry::Adaptive(form) => {
                ConcurrencyPolicy::Adaptive(adaptive(form, &at.key("concurrency"), report))
            }
        };
        let reserve = raw.reserve.as_deref().map_or(ResourcePolicy::RESERVE_PERCENT, |text| {
            let bounds = Part { name: "reserve", most: ResourcePolicy::RESERVE_PERCENT_MAX };
            part(text, bounds, &at.key("reserve"), report)
        });
        ResourcePolicy {
            name: name.clone(),
            concurrency,
            share: match raw.share.unwrap_or_default() {
                ResourceShareForm::Full => ResourceShare::Full,
                ResourceShareForm::Auto => ResourceShare::Auto,
            },
            reserve_percent: reserve,
            queue: raw.queue.as_ref().map(|raw| queue(raw, &at.key("queue"), report)),
            shares: namespace_shares::shares(raw.shares.as_ref(), namespaces, &at.key("shares"), report),
            status: raw.status,
            show_load: raw.show_load.unwrap_or(false),
        }
    };
    raw.into_iter().flatten().map(resource).collect()
}

fn adaptive(raw: &AdaptiveForm, path: &Path, report: &mut Report<'_>) -> AdaptivePolicy {
    let max = raw.max.unwrap_or(AdaptivePolicy::MAX.max(raw.min.unwrap_or(0)));
    let min = raw.min.unwrap_or(AdaptivePolicy::MIN.min(max));
    if min > max {
        let what = format!("min {min} is above max {max}");
        report.value(&path.key("min"), what, format!("use at most {max}, or raise `max`"));
    }
    let initial = raw.initial.unwrap_or(AdaptivePolicy::INITIAL.max(min).min(max));
    if min <= max && !(min..=max).contains(&initial) {
        let what = format!("initial {initial} is outside of min {min} and max {max}");
        report.value(&path.key("initial"), what, format!("use a number from {min} to {max}"));
    }
    let ceiling = raw
        .ceiling
        .as_ref()
        .map(|text| between(("ceiling", Some(text)), MILLI, (MILLI, QueuePolicy::WAIT_MAX), path, report));
    let algorithm = match raw.algorithm.unwrap_or_default() {
        AdaptiveAlgorithmForm::Vegas => AdaptiveAlgorithm::Vegas,
        AdaptiveAlgorithmForm::Aimd => AdaptiveAlgorithm::Aimd,
        AdaptiveAlgorithmForm::Gradient => AdaptiveAlgorithm::Gradient,
    };
    AdaptivePolicy { algorithm, min, max, initial, ceiling }
}

fn queue(raw: &QueueForm, path: &Path, report: &mut Report<'_>) -> QueuePolicy {
    let bytes = raw.bytes.as_deref().map(|text| {
        size("bytes", text, QueuePolicy::BYTES_MIN, QueuePolicy::BYTES_MAX).unwrap_or_else(|(what, fix)| {
            report.value(&path.key("bytes"), what, fix);
            0
        })
    });
    let wait = queue_wait::wait(raw.wait.as_ref(), &path.key("wait"), report);
    let priority = raw.priority_share.as_deref().map_or(QueuePolicy::PRIORITY_SHARE_PERCENT, |text| {
        let bounds = Part { name: "priority_share", most: 100 };
        part(text, bounds, &path.key("priority_share"), report)
    });
    QueuePolicy {
        requests: raw.requests.map_or(QueuePolicy::REQUESTS_DEFAULT, |requests| requests as usize),
        bytes: bytes.map_or(QueuePolicy::BYTES_DEFAULT, |bytes| bytes as usize),
        wait,
        bounds_waits: raw.wait.is_some(),
        weights: weights(raw, path, report),
        delay_targets: delay_targets(raw, path, report),
        min_share_percent: min_shares(raw, path, report),
        priority_share_percent: priority,
        lifo: lifo(raw, path, report),
    }
}

fn weights(raw: &QueueForm, path: &Path, report: &mut Report<'_>) -> [u64; Class::ALL.len()] {
    let mut weights = QueuePolicy::WEIGHTS;
    let Some(raw) = &raw.weights else { return weights };
    for (class, weight) in Class::ALL.into_iter().zip(raw.by_class()) {
        let Some(weight) = weight else { continue };
        if (1..=QueuePolicy::WEIGHT_MAX).contains(&weight) {
            weights[class as usize] = weight;
            continue;
        }
        let what = format!("weight {weight} of class {class} is out of range");
        let fix = match weight {
            0 => format!(
                "use 1 to {}, or `min_share: {{ {class}: 0 }}` for a class that is served only when no other waits",
                QueuePolicy::WEIGHT_MAX
            ),
            _ => format!("use 1 to {}", QueuePolicy::WEIGHT_MAX),
        };
        report.value(&path.key("weights").key(class.as_str()), what, fix);
    }
    weights
}

fn delay_targets(
    raw: &QueueForm,
    path: &Path,
    report: &mut Report<'_>,
) -> [Option<Duration>; Class::ALL.len()] {
    let mut targets = QueuePolicy::DELAY_TARGETS;
    let Some(raw) = &raw.delay_target else { return targets };
    for (class, text) in Class::ALL.into_iter().zip(raw.by_class()) {
        let Some(text) = text else { continue };
        targets[class as usize] = (text != "off").then(|| {
            let bounds = (MILLI, QueuePolicy::WAIT_MAX);
            between((class.as_str(), Some(text)), MILLI, bounds, &path.key("delay_target"), report)
        });
    }
    targets
}

fn min_shares(raw: &QueueForm, path: &Path, report: &mut Report<'_>) -> [Option<u8>; Class::ALL.len()] {
    let mut shares = [None; Class::ALL.len()];
    let Some(raw) = &raw.min_share else { return shares };
    let by_class = [&raw.sheddable, &raw.sheddable_plus, &raw.critical];
    for (class, text) in Class::ALL.into_iter().zip(by_class) {
        let Some(text) = text else { continue };
        let at = path.key("min_share").key(class.as_str());
        let bounds = Part { name: "min_share", most: QueuePolicy::MIN_SHARE_PERCENT_MAX };
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
) -> Vec<SignalPolicy> {
    let raw = raw.unwrap_or_default();
    if raw.len() > SignalPolicy::COUNT_MAX {
        let what = format!("{} signals", raw.len());
        report.value(path, what, format!("use at most {}", SignalPolicy::COUNT_MAX));
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
) -> SignalPolicy {
    if let Some(name) = &raw.resource
        && !resources.iter().any(|resource| resource.name == *name)
    {
        let what = format!("resource \"{}\" does not exist", shown(name));
        report.value(&path.key("resource"), what, "add it under `resources:`, or remove `resource`");
    }
    let unit = raw.unit.clone().unwrap_or_default();
    if unit.len() > SignalPolicy::UNIT_BYTES_MAX {
        let what = format!("a unit of {} bytes", unit.len());
        report.value(&path.key("unit"), what, format!("use at most {}", SignalPolicy::UNIT_BYTES_MAX));
    }
    let bounds = (Duration::ZERO, SignalPolicy::SPAN_MAX);
    let smoothing =
        between(("smoothing", raw.smoothing.as_ref()), SignalPolicy::SMOOTHING, bounds, path, report);
    SignalPolicy {
        name: raw.name.clone(),
        source: source(raw, path, report),
        target: target(raw, path, report),
        unit,
        smoothing,
        resource: raw.resource.clone(),
    }
}

fn source(raw: &SignalForm, path: &Path, report: &mut Report<'_>) -> SignalSourcePolicy {
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
        SignalSourceForm::InFlight => SignalSourcePolicy::InFlight,
        SignalSourceForm::QueueDelay => SignalSourcePolicy::QueueDelay,
        SignalSourceForm::SlowAnswers => {
            if raw.slower_than.is_none() {
                let fix = "add `slower_than: 200ms`, the latency above which an answer is slow";
                report.value(path, "`source: slow_answers` needs `slower_than`", fix);
            }
            let bounds = (MILLI, SignalPolicy::SPAN_MAX);
            let slower_than = between(("slower_than", raw.slower_than.as_ref()), MILLI, bounds, path, report);
            SignalSourcePolicy::SlowAnswers { slower_than }
        }
        SignalSourceForm::Push => {
            let bounds = (SignalPolicy::TTL_MIN, SignalPolicy::SPAN_MAX);
            let ttl = between(("ttl", raw.ttl.as_ref()), SignalPolicy::TTL, bounds, path, report);
            SignalSourcePolicy::Push { ttl }
        }
    }
}

fn target(raw: &SignalForm, path: &Path, report: &mut Report<'_>) -> f64 {
    let Some(text) = &raw.target else {
        return match raw.source {
            SignalSourceForm::InFlight => 1.0,
            SignalSourceForm::QueueDelay => 20.0,
            SignalSourceForm::SlowAnswers => 0.1,
            SignalSourceForm::Push => {
                let fix = "add `target: 100`, the value at which the pressure is 1";
                report.value(path, "`source: push` needs a `target`", fix);
                1.0
            }
        };
    };
    let target =
        text.parse().ok().filter(|target: &f64| *target > 0.0 && *target <= SignalPolicy::TARGET_MAX);
    target.unwrap_or_else(|| {
        let what = format!("target \"{}\" is not a number above 0", shown(text));
        report.value(&path.key("target"), what, "write a decimal, for example 0.9 or 1000");
        1.0
    })
}

/// The largest part of a whole in hundredths, with its name in messages.
#[derive(Clone, Copy)]
struct Part {
    name: &'static str,
    most: u8,
}

fn part(text: &str, bounds: Part, path: &Path, report: &mut Report<'_>) -> u8 {
    percent(text).filter(|percent| *percent <= bounds.most).unwrap_or_else(|| {
        let most = f64::from(bounds.most) / 100.0;
        let what = format!("{} \"{}\" is not a part from 0 to {most}", bounds.name, shown(text));
        report.value(path, what, "write a decimal with at most two places, for example 0.05");
        0
    })
}

//! Warns about settings of one queue that work against each other.

use core::time::Duration;

use tidegate_core::Class;
use tidegate_core::rate::format_span;
use tidegate_overload::QueueConfig;

use crate::check::claims::class_of;
use crate::path::Path;
use crate::policy::proxy::Route;
use crate::policy::resources::ResourcePolicy;
use crate::problem::Report;
use crate::raw::resources::{DelayTargetForm, QueueForm, ResourceConfig, WeightsForm};
use crate::raw::text_or::TextOr;

/// The waits by class, from the least important one.
type Waits = [Duration; Class::ALL.len()];

/// Warns about the queue of each resource, beside what the checks made it of. `routes` and
/// resources have no problem.
pub(in crate::check) fn warn_all<'a>(
    resources: impl Iterator<Item = (&'a ResourcePolicy, &'a ResourceConfig)>,
    routes: &[Route],
    top: &Path,
    report: &mut Report<'_>,
) {
    for (resource, raw) in resources {
        if let (Some(raw), Some(queue)) = (&raw.queue, &resource.config.queue) {
            let path = top.key("resources").key(&resource.name).key("queue");
            warn(raw, queue, waits(resource, routes), &path, report);
        }
    }
}

/// How long requests wait in the queue of a resource: as it says, and where it says nothing as long
/// as the routes to its upstream let them.
fn waits(resource: &ResourcePolicy, routes: &[Route]) -> Waits {
    if let Some(waits) = resource.waits {
        return waits;
    }
    // A route without a namespace asks no resource.
    let asks = |route: &&Route| route.upstream == resource.name && route.namespace.is_some();
    let longest = routes.iter().filter(asks).map(|route| route.wait).max();
    [longest.unwrap_or_default(); Class::ALL.len()]
}

/// `queue` is what the checks made of `raw`, which has no problem and stands at `path`; its
/// requests wait for `waits`.
fn warn(raw: &QueueForm, queue: &QueueConfig, waits: Waits, path: &Path, report: &mut Report<'_>) {
    if waits.iter().all(Duration::is_zero) {
        report.warn(path, "no class may wait, so the queue is never used", "write `wait: 500ms`");
    }
    shorter_waits(raw, waits, &path.key("wait"), report);
    inverted_weights(raw, queue, &path.key("weights"), report);
    unreached_delay_targets(raw, queue, waits, path, report);
    idle_lifo(raw, waits, &path.key("lifo"), report);
}

/// The classes with their place in arrays by class, the least important first.
fn classes() -> impl DoubleEndedIterator<Item = (usize, Class)> + ExactSizeIterator + Clone {
    Class::ALL.into_iter().enumerate()
}

/// Whether a class has a wait of its own.
fn has_own_wait(raw: &QueueForm, at: usize) -> bool {
    match &raw.wait {
        Some(TextOr::Form(form)) => form.by_class()[at].is_some(),
        Some(TextOr::Text(_)) | None => false,
    }
}

/// Warns about classes that wait less than a lower class. A class that is left out never does.
fn shorter_waits(raw: &QueueForm, waits: Waits, path: &Path, report: &mut Report<'_>) {
    for (at, class) in classes().filter(|(at, _)| has_own_wait(raw, *at)) {
        let own = waits[at];
        // Of several the lowest, whose wait the others may have by being left out.
        let lower = classes().take(at).rev().max_by_key(|(lower, _)| waits[*lower]);
        let Some((lower_at, lower)) = lower.filter(|(lower, _)| waits[*lower] > own) else { continue };
        let longest = format_span(waits[lower_at]);
        let (what, fix) = if own.is_zero() {
            let what = format!("class {class} does not wait, but the lower class {lower} waits {longest}");
            (what, format!("remove `{class}: off`, unless its callers cannot wait"))
        } else {
            let own = format_span(own);
            let what =
                format!("class {class} waits {own}, less than the {longest} of the lower class {lower}");
            (what, format!("write `{class}: {longest}`, unless its callers leave sooner"))
        };
        report.warn(&path.key(class.as_str()), what, fix);
    }
}

/// Warns about a higher class with a smaller weight than a lower one. The weight of a class with
/// `min_share` does not count.
fn inverted_weights(raw: &QueueForm, queue: &QueueConfig, path: &Path, report: &mut Report<'_>) {
    let written = raw.weights.as_ref().map(WeightsForm::by_class).unwrap_or_default();
    let weights = &queue.weights;
    let counted = classes().filter(|(at, _)| queue.min_shares[*at].is_none());
    for (at, class) in counted.clone().filter(|(at, _)| written[*at].is_some()) {
        let weight = weights[at];
        // A pair of two written weights is told at the higher class.
        let lower = counted.clone().filter(|(lower, _)| *lower < at).max_by_key(|(lower, _)| weights[*lower]);
        if let Some((lower_at, lower)) = lower.filter(|(lower, _)| weights[*lower] > weight) {
            let most = weights[lower_at];
            let what = format!(
                "class {class} has the weight {weight}, less than the {most} of the lower class {lower}"
            );
            let fix = format!("write at least `{class}: {most}`, or a smaller weight for {lower}");
            report.warn(&path.key(class.as_str()), what, fix);
        }
        let omitted = counted.clone().filter(|(higher, _)| *higher > at && written[*higher].is_none());
        let higher = omitted.min_by_key(|(higher, _)| weights[*higher]);
        if let Some((higher_at, higher)) = higher.filter(|(higher, _)| weights[*higher] < weight) {
            let least = weights[higher_at];
            let what = format!(
                "class {class} has the weight {weight}, more than the {least} of the higher class {higher}"
            );
            let fix = format!("write at most `{class}: {least}`, or a larger weight for {higher}");
            report.warn(&path.key(class.as_str()), what, fix);
        }
    }
}

/// Warns about delay targets above the wait: requests leave before the queue can stand that long.
fn unreached_delay_targets(
    raw: &QueueForm,
    queue: &QueueConfig,
    waits: Waits,
    path: &Path,
    report: &mut Report<'_>,
) {
    let written = raw.delay_target.as_ref().map(DelayTargetForm::by_class).unwrap_or_default();
    let above = classes().filter_map(|(at, class)| {
        let wait = waits[at];
        let target = queue.delay_targets[at].filter(|target| !wait.is_zero() && *target > wait)?;
        Some((at, class, format_span(target), format_span(wait)))
    });
    let (told, defaults): (Vec<_>, Vec<_>) = above.partition(|(at, ..)| written[*at].is_some());
    for (_, class, target, wait) in told {
        let what = format!(
            "the delay target {target} of class {class} is above its wait of {wait}, so it sheds nothing"
        );
        let fix = format!("use at most {wait}, or write `{class}: off`");
        report.warn(&path.key("delay_target").key(class.as_str()), what, fix);
    }
    // One wait may be below the default of several classes.
    if let Some((at, class, target, wait)) = defaults.first() {
        let off: Vec<String> = defaults.iter().map(|(_, class, ..)| format!("{class}: off")).collect();
        let what = format!(
            "the wait {wait} of class {class} is below its default delay target of {target}, which then sheds nothing"
        );
        let fix = format!("use at least {target}, or write `delay_target: {{ {} }}`", off.join(", "));
        let within = path.key("wait");
        let place = if has_own_wait(raw, *at) { within.key(class.as_str()) } else { within };
        report.warn(&place, what, fix);
    }
}

/// Warns about an order of service for classes that never wait.
fn idle_lifo(raw: &QueueForm, waits: Waits, path: &Path, report: &mut Report<'_>) {
    for (index, class) in raw.lifo.iter().flatten().copied().map(class_of).enumerate() {
        if waits[class as usize].is_zero() {
            let what = format!("class {class} does not wait, so `lifo` has no effect on it");
            let fix = format!("write `wait: {{ {class}: 500ms }}`, or remove {class} here");
            report.warn(&path.index(index), what, fix);
        }
    }
}

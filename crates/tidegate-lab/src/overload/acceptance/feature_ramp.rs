//! E4: the figure of the pattern. B is off at T1 and on again at T2, and A and C go on as normal.

use tidegate_sim::kit::GateLine;
use tidegate_sim::overload::{LoadPhase, OverloadResult, OverloadRun, OverloadScenario};

use super::feature_parts::{B, LIMIT, SECONDS, ServiceSize, THRESHOLD, b, ramp, t1_and_t2, transitions};
use super::figures::{FigureUnit, at_least, at_most, values};

pub(super) const DESCRIPTION: &str = "A and C are essential and ask for 40, then 80, then 40 % of the capacity in 300 s; B is a feature that takes 25 %. \
     From a smoothed pressure of 0.90 on features degrade. B should be off at once, its work gone within the grace of \
     2 s, and on again a settle time after it fits below 0.80, not earlier and not much later; A and C should lose \
     nothing and wait no longer. Even: 200 workers, 100 ms, arrivals at equal distances. Chance: 1000 workers, \
     exponential 100 ms, Poisson arrivals. Stops: the callers of B stop asking while it is off. Doubled: the callers \
     of B ask for twice as much from 150 s on, while it is off, so that it fits much later.";

/// The variants: their names, and the part of the capacity that B asks for when it comes back;
/// `None` where its callers ask for nothing and the plane goes by what it remembers.
const VARIANTS: [(&str, Option<f64>); 4] =
    [("even", Some(B)), ("chance", Some(B)), ("stops", None), ("doubled", Some(2.0 * B))];
/// The seconds between two ticks of the plane.
const TICK: f64 = 0.1;
/// The grace of B.
const GRACE_MS: f64 = 2000.0;
/// From the instant from which B fits to its return: a settle time of 5 s, and one more.
const BACK_AFTER_MS: f64 = 6000.0;

pub(super) fn scenarios(seed: u64) -> Vec<OverloadScenario> {
    let chance = ServiceSize::BY_CHANCE.scenario("chance", seed, SECONDS, ramp);
    [chance].into_iter().chain(gate_scenarios(seed)).collect()
}

/// Those at equal distances, which have a fifth of the requests.
pub(super) fn gate_scenarios(seed: u64) -> Vec<OverloadScenario> {
    let even = |variant: &str, seconds| ServiceSize::EVEN.scenario(variant, seed, seconds, ramp);
    let mut stops = even("stops", SECONDS);
    stops.clients[1].stops_while_off = true;
    let mut doubled = even("doubled", SECONDS + 100);
    doubled.clients[1].phases = vec![LoadPhase { from: 150.0, factor: 2.0 }];
    vec![even("even", SECONDS), stops, doubled]
}

pub(super) fn judge(runs: &[&OverloadRun]) -> Vec<GateLine> {
    let mut lines = Vec::new();
    for (variant, back) in VARIANTS {
        let of = |value: fn(&OverloadResult) -> f64| values(runs, variant, |_, result| value(result));
        let named = |what: &str| format!("{variant}: {what}");
        let ms = FigureUnit::Ms;
        lines.push(at_most(named("changes of B"), &of(transitions), 2.0, FigureUnit::Count));
        lines.push(at_least(named("changes of B"), &of(transitions), 2.0, FigureUnit::Count));
        // Noise touches the threshold for a tick now and then, which is no load level yet.
        let (ticks, what) = match variant {
            "chance" => (2, "from two ticks with a smoothed pressure of 0.90 to B off"),
            _ => (1, "from a smoothed pressure of 0.90 to B off"),
        };
        let off = values(runs, variant, |_, result| off_after_ms(result, ticks));
        lines.push(at_most(named(what), &off, 500.0, ms));
        let released = of(|result| b(result).released_after_ms.iter().copied().fold(0.0, f64::max));
        lines.push(at_most(named("from B off to the end of its work"), &released, GRACE_MS, ms));
        if let Some(back) = back {
            let after = values(runs, variant, |_, result| back_after_ms(result, back));
            let what = named("from the instant from which B fits below 0.80 to B on");
            lines.push(at_most(what, &after, BACK_AFTER_MS, ms));
            let asked = values(runs, variant, |_, result| ramp(t1_and_t2(result).1) + back);
            let what = named("part of the capacity that A, C and B ask for when B is on again");
            lines.push(at_most(what, &asked, LIMIT, FigureUnit::Share));
        }
        let success = of(|result| essential(|name| success_degraded(result, name), f64::min));
        lines.push(at_least(named("A and C answered between T1 and T2"), &success, 1.0, FigureUnit::Share));
        let slower = of(|result| essential(|name| p99_ratio(result, name), f64::max));
        let what = named("p99 of A and C between T1 and T2, relative to their p99 before and after");
        lines.push(at_most(what.clone(), &slower, 1.10, FigureUnit::Times));
        let quicker = of(|result| essential(|name| p99_ratio(result, name), f64::min));
        lines.push(at_least(what, &quicker, 0.90, FigureUnit::Times));
        lines.push(at_most(named("time with a pressure above 1.0"), &of(above_one_ms), 0.0, ms));
    }
    lines
}

/// A figure of A and C, the worse of both.
fn essential(figure: impl Fn(&str) -> f64, worse: impl Fn(f64, f64) -> f64) -> f64 {
    worse(figure("a"), figure("c"))
}

/// Milliseconds from the first so many ticks in a row with a smoothed pressure at the threshold to
/// the switch-off. A step shows the pressure of the tick before its end.
fn off_after_ms(result: &OverloadResult, ticks: usize) -> f64 {
    let (t1, _) = t1_and_t2(result);
    let steps = &result.services[0].steps;
    let is_at =
        |step: &tidegate_sim::overload::ServiceStep| step.pressure.is_some_and(|one| one >= THRESHOLD);
    let reached = steps.windows(ticks).position(|steps| steps.iter().all(is_at));
    reached.map_or(f64::INFINITY, |place| (t1 - end_of(place + ticks - 1) + TICK) * 1000.0)
}

/// Milliseconds from the first instant from which the smoothed pressure and what B asks for fit
/// below the limit, to the switch-on.
fn back_after_ms(result: &OverloadResult, back: f64) -> f64 {
    let (t1, t2) = t1_and_t2(result);
    if t2.is_infinite() {
        return f64::INFINITY;
    }
    let is_above = |(place, pressure): (usize, Option<f64>)| {
        let at = end_of(place);
        (at > t1 && at < t2 && pressure.is_none_or(|pressure| pressure + back > LIMIT)).then_some(at)
    };
    let pressures = result.services[0].steps.iter().map(|step| step.pressure).enumerate();
    let last = pressures.filter_map(is_above).next_back().unwrap_or(t1);
    (t2 - last) * 1000.0
}

/// The second at which the step at a position ends.
fn end_of(place: usize) -> f64 {
    (place + 1) as f64 / 10.0
}

/// The part of the operations of a client between T1 and T2 that succeeded.
fn success_degraded(result: &OverloadResult, client: &str) -> f64 {
    let (t1, t2) = t1_and_t2(result);
    let steps = result.client(client).map_or(&[][..], |client| client.steps_in(t1, t2.min(1e6)));
    let began: u32 = steps.iter().map(|step| step.began).sum();
    f64::from(steps.iter().map(|step| step.succeeded).sum::<u32>()) / f64::from(began.max(1))
}

fn p99_ratio(result: &OverloadResult, client: &str) -> f64 {
    result.client(client).map_or(f64::INFINITY, |client| client.p99_degraded_ms / client.p99_normal_ms)
}

fn above_one_ms(result: &OverloadResult) -> f64 {
    let is_above =
        |step: &&tidegate_sim::overload::ServiceStep| step.pressure.is_some_and(|value| value > 1.0);
    result.services[0].steps.iter().filter(is_above).count() as f64 * 100.0
}

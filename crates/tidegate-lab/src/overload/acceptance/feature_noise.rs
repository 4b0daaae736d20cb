//! E5: noise, a wave at the threshold, and a day below it change a feature no more than needed.

use tidegate_sim::kit::GateLine;
use tidegate_sim::overload::{ArrivalPattern, OverloadDesign, OverloadRun, OverloadScenario, ServiceTime};

use super::feature_parts::{B, SECONDS, ServiceSize, ramp, shortest_dwell_ms, transitions};
use super::figures::{FigureUnit, at_least, at_most, values};
use crate::overload::FEATURE_DESIGNS;

pub(super) const DESCRIPTION: &str = "The service of E4 with a second signal: the part of the workers in use, measured ten times a second with normal \
     noise of 3 %. Noise: the ramp of E4, one episode. Sine: A and C ask for 65 %, and 5 % more and less in turn for 300 s, \
     so that with B the load is at the threshold; the period is 2, 7, 20, 60 or 150 s by the seed; one episode. Day: the \
     load with B goes from 60 to 85 % and back in 24 hours, in a service of 200 workers and 4 s; no episode. B should \
     change twice in an episode, not in the day, and never twice within 10 s.";

/// The deviation of the noise.
const NOISE: f64 = 0.03;
/// The periods of the sine, by the seed.
const PERIODS: [f64; 5] = [2.0, 7.0, 20.0, 60.0, 150.0];
/// The length of a day.
const DAY: u32 = 86_400;
/// The length of the run of the sine, and when it begins and ends.
const SINE_SECONDS: u32 = 400;
const SINE: core::ops::Range<f64> = 30.0..330.0;

/// The service of the day: as many workers, and a fortieth of the requests.
const LONG: ServiceSize =
    ServiceSize { workers: 200, time: ServiceTime::Constant { ms: 4000.0 }, arrivals: ArrivalPattern::Even };

pub(super) fn scenarios(seed: u64) -> Vec<OverloadScenario> {
    vec![noise(seed), sine(seed), day(seed, DAY)]
}

/// Those with a tenth of a day.
pub(super) fn gate_scenarios(seed: u64) -> Vec<OverloadScenario> {
    vec![noise(seed), sine(seed), day(seed, DAY / 10)]
}

/// The noise at the ramp.
fn noise(seed: u64) -> OverloadScenario {
    noisy(ServiceSize::EVEN.scenario("noise", seed, SECONDS, ramp))
}

/// The sine.
fn sine(seed: u64) -> OverloadScenario {
    let period = PERIODS[(seed % PERIODS.len() as u64) as usize];
    let part = move |second: f64| {
        let wave = libm::sin(second * core::f64::consts::TAU / period);
        if SINE.contains(&second) { 0.65 + 0.05 * wave } else { 0.40 }
    };
    noisy(ServiceSize::EVEN.scenario("sine", seed, SINE_SECONDS, part))
}

/// A day of this length.
fn day(seed: u64, seconds: u32) -> OverloadScenario {
    let part = move |second: f64| {
        let wave = 0.5 - 0.5 * libm::cos(second / f64::from(seconds) * core::f64::consts::TAU);
        0.60 + 0.25 * wave - B
    };
    let scenario = noisy(LONG.scenario("day", seed, seconds, part));
    // A day has millions of requests, which a run keeps; one rule beside the product is enough.
    OverloadScenario { designs: vec![FEATURE_DESIGNS[0], OverloadDesign::TIDEGATE], ..scenario }
}

fn noisy(mut scenario: OverloadScenario) -> OverloadScenario {
    scenario.services[0].measured_noise = Some(NOISE);
    scenario
}

pub(super) fn judge(runs: &[&OverloadRun]) -> Vec<GateLine> {
    let mut lines = Vec::new();
    for (variant, most) in [("noise", 2.0), ("sine", 2.0), ("day", 0.0)] {
        let changes = values(runs, variant, |_, result| transitions(result));
        lines.push(at_most(format!("{variant}: changes of B"), &changes, most, FigureUnit::Count));
        let dwell = values(runs, variant, |_, result| shortest_dwell_ms(result));
        let what = format!("{variant}: shortest time between two changes of B");
        lines.push(at_least(what, &dwell, 10_000.0, FigureUnit::Ms));
    }
    lines
}

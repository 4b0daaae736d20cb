//! The load that a resource bears and the load that is asked of it, and what a request costs.
//!
//! Pressure is what the signals say. That of the places stands at 1.0 whatever is offered, so the
//! demand is found beside it: first attempts a second times the place time of one, by the places.
//! Requests with a feature count at its level in force, so a step takes its relief out of the
//! demand at once; all others count by their common mean.

use crate::features::control_load::ControlLoad;
use crate::features::exponential_average::{ExponentialAverage, FAST, SLOW};
use crate::features::feature_meter::LevelTick;
use crate::features::feature_part::FeaturePart;
use crate::features::level_costs::LevelCosts;
use crate::features::resource_load::ResourceLoad;
use crate::levels::signal::SignalSource;

/// The time constant of the pressure that a place in use makes, which hardly changes.
const STEADY: f64 = 10.0;
/// Less than this in use says nothing of the pressure that it makes.
const USE_MIN: f64 = 0.05;
/// The most pressure by the places in use.
const SCALE_MAX: f64 = 10.0;
/// The highest pressure that counts.
const PRESSURE_MAX: f64 = 2.0;

/// The averages of one resource.
#[derive(Clone, Debug)]
pub(crate) struct LoadEstimate {
    /// The requests that are no part of a feature: their cost, and their number a second.
    other_cost: LevelCosts,
    others_fast: ExponentialAverage,
    others_slow: ExponentialAverage,
    units: ExponentialAverage,
    in_use: ExponentialAverage,
    pressure: ExponentialAverage,
    scale: ExponentialAverage,
    /// Their number a second in the last tick.
    others_last: f64,
}

impl Default for LoadEstimate {
    fn default() -> Self {
        let none = ExponentialAverage::default;
        Self {
            other_cost: LevelCosts::new(1),
            others_fast: none(),
            others_slow: none(),
            units: none(),
            in_use: none(),
            pressure: none(),
            scale: none(),
            others_last: 0.0,
        }
    }
}

/// The work of all features of a resource in a tick.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FeaturesTick {
    /// The requests that were not refused because a feature is off.
    pub(crate) offered: f64,
    pub(crate) work: LevelTick,
}

/// The costs of requests, as parts of the capacity for a second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct CostScale {
    /// For each second that it keeps a place.
    pub(crate) second: f64,
    /// For each unit.
    pub(crate) unit: f64,
    /// Where nothing is known of it.
    pub(crate) mean: f64,
}

impl LoadEstimate {
    /// Takes in the measures of a tick of `seconds`, which came after no gap.
    #[expect(clippy::cast_precision_loss, reason = "counts of a tick are far below 2^53")]
    pub(crate) fn observe(&mut self, load: &ResourceLoad, features: &FeaturesTick, seconds: f64) {
        let work = features.work;
        let rest = LevelTick {
            ended: load.ended.saturating_sub(work.ended),
            held_us: load.held_us.saturating_sub(work.held_us),
            ..LevelTick::default()
        };
        self.other_cost.learn(&[rest]);
        let others = (load.offered as f64 - features.offered).max(0.0) / seconds;
        self.others_last = others;
        self.others_fast.observe(others, seconds, FAST);
        self.others_slow.observe(others, seconds, SLOW);
        // A request without units counts for one.
        let plain = load.served.saturating_sub(work.ended).saturating_sub(work.priced);
        self.units.observe((work.units + plain) as f64 / seconds, seconds, SLOW);
        self.in_use.observe(load.in_use, seconds, SLOW);
        if let Some(pressure) = &load.pressure {
            self.pressure.observe(pressure.smoothed, seconds, SLOW);
            let is_outside = pressure.source == SignalSource::Pushed;
            if is_outside && load.in_use > USE_MIN {
                let scale = (pressure.last / load.in_use).clamp(1.0, SCALE_MAX);
                self.scale.observe(scale, seconds, STEADY);
            }
        }
    }

    /// The pressure that a part of the places makes at the signal that binds: more than the part
    /// itself where a signal from outside is higher than the use of the places, which it is taken
    /// to follow in proportion.
    pub(crate) fn pressure_scale(&self, load: &ResourceLoad) -> f64 {
        let is_outside = load.pressure.as_ref().is_some_and(|worst| worst.source == SignalSource::Pushed);
        self.scale.known().filter(|_| is_outside).unwrap_or(1.0)
    }

    /// The costs of requests.
    #[expect(clippy::cast_precision_loss, reason = "at most a million places")]
    pub(crate) fn costs(&self, load: &ResourceLoad) -> CostScale {
        let second = 1.0 / load.places.max(1) as f64;
        let is_used = self.in_use.get() > USE_MIN;
        let used = if is_used { self.in_use.get() } else { self.pressure.get() };
        let unit = if self.units.get() > 0.0 { used / self.units.get() } else { 0.0 };
        let mean = self.other_cost.only_place_time().map(|time| time * second);
        // A request of which nothing is known counts for a unit.
        CostScale { second, unit, mean: mean.unwrap_or(unit) }
    }

    /// The load of the resource while its features have these positions.
    pub(crate) fn load<'a>(
        &self,
        load: &ResourceLoad,
        parts: impl Iterator<Item = &'a FeaturePart>,
        costs: &CostScale,
    ) -> ControlLoad {
        let other_cost = costs.mean;
        let [mut fast, mut slow, mut last] =
            [self.others_fast.get(), self.others_slow.get(), self.others_last].map(|rate| rate * other_cost);
        let mut variance = self.others_fast.get() * other_cost * other_cost;
        for part in parts {
            let cost = part.footprint(part.in_force, 1.0);
            fast += part.demand_fast * cost;
            slow += part.demand * cost;
            last += part.demand_last * cost;
            variance += part.demand_fast * cost * cost;
        }
        let pressure = load.pressure.as_ref().map(|worst| {
            // Delays and slow answers are not in proportion to the load: how far they are above the
            // threshold says that relief is needed, and the demand says how much.
            let max = match worst.source {
                SignalSource::InFlight | SignalSource::Pushed => PRESSURE_MAX,
                SignalSource::QueueDelay | SignalSource::SlowAnswers { .. } => {
                    (load.levels.brownout + load.levels.margin).max(1.0)
                }
            };
            (worst.smoothed.min(max), worst.last.min(max))
        });
        ControlLoad {
            pressure: pressure.map(|(smoothed, _)| smoothed),
            last_pressure: pressure.map_or(0.0, |(_, last)| last),
            demand: fast,
            last_demand: last,
            demand_slow: slow,
            demand_variance: variance,
            scale: self.pressure_scale(load),
        }
    }
}

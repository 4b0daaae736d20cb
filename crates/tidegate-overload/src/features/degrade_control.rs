//! When features degrade, by how much, and when one of them gets a better level.
//!
//! Relief is needed once the smoothed pressure or the demand was at the threshold for two ticks, or
//! far above it for one. A step leaves the load just below the threshold, where noise alone would
//! ask for the next step, which therefore takes a little more load or a whole settle time.
//!
//! The need is the larger of what the pressure and the demand exceed the threshold by. A step takes
//! its relief out of the demand at once. Out of the pressure it is felt later, so it counts as
//! given until the work of the step has had the time to end.

use tidegate_core::Timestamp;

use crate::fault::Fault;
use crate::features::change_reason::ChangeReason;
use crate::features::clock_step::ClockStep;
use crate::features::control_load::ControlLoad;
use crate::features::exponential_average::FAST;
use crate::features::feature_part::FeaturePart;
use crate::features::level_exchange::{ExchangeSteps, LevelExchange, RESERVE};
use crate::features::settle_window::SettleWindow;
use crate::features::step_choice::{LevelStep, choose_return};
use crate::levels::load_level::LevelThresholds;
use crate::levels::threshold_entry::ThresholdEntry;
use crate::tick::TICK;

/// Features that are degraded already degrade further at a load that is so far above the threshold,
/// or whose mean over the settle time is at the threshold.
const REPEAT_EXCESS: f64 = 0.01;
/// The last ticks whose mean shows where a moving average is heading.
const RECENT: u32 = 3;
/// So many deviations of the mean of the last ticks are noise.
const RECENT_NOISE: f64 = 1.5;
/// A mean of the last ticks that is less above the average is noise.
const HEADING_MIN: f64 = 0.05;

/// The last values of a load since the levels changed.
#[derive(Clone, Debug, Default)]
struct LastLoads {
    loads: [f64; RECENT as usize],
    count: u32,
}

impl LastLoads {
    fn push(&mut self, load: f64) {
        self.loads.rotate_left(1);
        self.loads[RECENT as usize - 1] = load;
        self.count = self.count.saturating_add(1);
    }

    /// Where the average is heading: higher than it is, if the last ticks were by more than noise.
    fn heading(&self, average: f64, noise: f64) -> f64 {
        if self.count < RECENT {
            return average;
        }
        let mean = self.loads.iter().sum::<f64>() / f64::from(RECENT) - noise;
        if mean > average + HEADING_MIN { mean } else { average }
    }
}

/// Relief that was ordered, and until when it counts as given. Negative: capacity that a better
/// level takes.
#[derive(Clone, Copy, Debug)]
struct OrderedRelief {
    pressure: f64,
    until: Timestamp,
}

/// The control of the features of one resource that follow their levels, or of those that only show
/// them.
#[derive(Clone, Debug, Default)]
pub(crate) struct DegradeControl {
    pressure_entry: ThresholdEntry,
    demand_entry: ThresholdEntry,
    pressures: LastLoads,
    demands: LastLoads,
    ordered: Vec<OrderedRelief>,
    window: SettleWindow,
    /// When the last relief that was ordered is felt.
    felt_at: Option<Timestamp>,
    /// The exchange of levels that follows the last need.
    exchange: Option<LevelExchange>,
}

/// The load that made features degrade.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum NeedSource {
    Pressure,
    Demand,
}

/// The relief that is needed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ReliefNeed {
    /// As a part of the places.
    pub(crate) relief: f64,
    pub(crate) source: NeedSource,
    /// The load that is above the threshold.
    pub(crate) load: f64,
}

impl DegradeControl {
    /// The relief that is needed now, if any is.
    pub(crate) fn need(
        &mut self,
        load: &ControlLoad,
        is_degraded: bool,
        levels: &LevelThresholds,
        now: Timestamp,
    ) -> Option<ReliefNeed> {
        let threshold = levels.brownout;
        let entry = threshold + if is_degraded { REPEAT_EXCESS } else { 0.0 };
        self.ordered.retain(|one| now < one.until);
        let given: f64 = self.ordered.iter().map(|one| one.pressure).sum();
        self.pressures.push(load.last_pressure);
        self.demands.push(load.last_demand);
        // The deviation of an average of chance arrivals is that of twice its time constant.
        let noise = (load.demand_variance / (2.0 * FAST)).sqrt();
        let is_demand_over = self.demand_entry.observe(load.demand - noise, entry);
        let pressure = load.pressure.unwrap_or(0.0);
        let is_over_for_long = self.window.mean(levels.settle, now).is_some_and(|mean| mean >= threshold);
        let is_pressure_over = self.pressure_entry.observe(pressure, entry) || is_over_for_long;
        if !is_demand_over && !is_pressure_over {
            return None;
        }
        let by_pressure = self.pressures.heading(pressure, 0.0) - threshold - given;
        let recent_noise =
            (load.demand_variance / (f64::from(RECENT) * TICK.as_secs_f64())).sqrt() * RECENT_NOISE;
        let mut by_demand = self.demands.heading(load.demand, recent_noise) - threshold;
        if Fault::ReliefCountedTwice.is_planted() {
            by_demand -= given;
        }
        let need = if by_pressure / load.scale >= by_demand {
            ReliefNeed { relief: by_pressure / load.scale, source: NeedSource::Pressure, load: pressure }
        } else {
            ReliefNeed { relief: by_demand, source: NeedSource::Demand, load: load.demand }
        };
        (need.relief > 0.0).then_some(need)
    }

    /// Takes in the load for which there may be room; `None`: better levels are held, and no time
    /// passes for them.
    pub(crate) fn settle(&mut self, load: Option<&ControlLoad>, levels: &LevelThresholds, now: Timestamp) {
        match load.and_then(|load| load.pressure) {
            Some(pressure) => self.window.observe(pressure, levels.settle, now),
            None => self.window.restart(),
        }
    }

    /// The step back that fits, but for one beside an exchange that has begun: there, a level that
    /// takes little could come back first, and leave too little room for the one that is due.
    pub(crate) fn restore(
        &self,
        parts: &[FeaturePart],
        load: &ControlLoad,
        levels: &LevelThresholds,
        now: Timestamp,
    ) -> Option<LevelStep> {
        if self.exchange.as_ref().is_some_and(LevelExchange::has_begun) {
            return None;
        }
        let limit = levels.brownout - levels.margin;
        let room = self.window.room(levels.settle, limit, levels.brownout, now)?;
        // A better level that was given lately and is not felt yet leaves less room.
        let taken: f64 = self.ordered.iter().map(|one| one.pressure.min(0.0)).sum();
        let room = (room + taken) / load.scale;
        choose_return(parts, |growth| growth <= room && load.demand_slow + growth <= limit)
    }

    /// The steps of the exchange that follows the last need, where that is worth it.
    pub(crate) fn exchange_steps(
        &mut self,
        parts: &[FeaturePart],
        load: &ControlLoad,
        levels: &LevelThresholds,
        now: Timestamp,
    ) -> Vec<LevelStep> {
        let settled = self.felt_since(now).saturating_add(levels.settle);
        let Some(exchange) = &mut self.exchange else { return Vec::new() };
        if now < settled {
            return Vec::new();
        }
        let limit = levels.brownout - RESERVE;
        let Some(room) = self.window.room(levels.settle, limit, levels.brownout, now) else {
            return Vec::new();
        };
        match exchange.steps(parts, (room / load.scale).min(limit - load.demand_slow)) {
            ExchangeSteps::Now(steps) => steps,
            ExchangeSteps::Later => Vec::new(),
            // The load is known to a percent: a level that just does not fit may fit a tick later.
            ExchangeSteps::None if now < settled.saturating_add(levels.settle) => Vec::new(),
            ExchangeSteps::None => {
                self.exchange = None;
                Vec::new()
            }
        }
    }

    /// Begins anew with an exchange that may follow a need, before the steps of the need are taken.
    pub(crate) fn plan_exchange(&mut self, need: f64, reason: &ChangeReason) {
        self.exchange = Some(LevelExchange::after(need, reason.clone()));
    }

    /// The exchange that may follow the last need.
    pub(crate) fn exchange(&self) -> Option<&LevelExchange> {
        self.exchange.as_ref()
    }

    /// Takes a step in the account of the exchange, if there is one.
    pub(crate) fn moved(&mut self, relief: f64) {
        if let Some(exchange) = &mut self.exchange {
            exchange.moved(relief);
        }
    }

    /// Other levels than those that the exchange has reckoned with are in force.
    pub(crate) fn drop_exchange(&mut self) {
        self.exchange = None;
    }

    /// Notes that levels have changed, with the relief that they give and until when it counts.
    pub(crate) fn changed(&mut self, relief: f64, until: Timestamp) {
        self.window.restart();
        (self.pressures, self.demands) = (LastLoads::default(), LastLoads::default());
        if relief != 0.0 {
            self.ordered.push(OrderedRelief { pressure: relief, until });
            self.felt_at = self.felt_at.max(Some(until));
        }
    }

    /// Since when the load is known without a change of levels.
    pub(crate) fn settled_since(&self, now: Timestamp) -> Timestamp {
        self.window.since(now)
    }

    /// Since when the load is known, or will be, with every change of levels felt.
    pub(crate) fn felt_since(&self, now: Timestamp) -> Timestamp {
        self.settled_since(now).max(self.felt_at.unwrap_or(Timestamp::MIN))
    }

    /// The ticks so far say nothing of the time now.
    pub(crate) fn step(&mut self, step: ClockStep) {
        self.window.restart();
        self.exchange = None;
        self.felt_at = self.felt_at.map(|at| step.shifted(at));
        (self.pressure_entry, self.demand_entry) = (ThresholdEntry::default(), ThresholdEntry::default());
        (self.pressures, self.demands) = (LastLoads::default(), LastLoads::default());
        for one in &mut self.ordered {
            one.until = step.shifted(one.until);
        }
    }
}

//! The state of one feature that only ticks, pins and reloads change.

use core::time::Duration;
use std::sync::Arc;

use tidegate_core::{Class, Timestamp};

use crate::cursor::COHORTS;
use crate::features::clock_step::ClockStep;
use crate::features::config::{FeatureConfig, FeatureScope};
use crate::features::exponential_average::{ExponentialAverage, FAST, SLOW};
use crate::features::feature_meter::MeterTick;
use crate::features::feature_pin::FeaturePin;
use crate::features::level_costs::LevelCosts;
use crate::features::level_word::LevelWord;

/// The state of one feature.
#[derive(Clone, Debug)]
pub(crate) struct FeatureState {
    /// Since when it has its level; `None`: it has never changed.
    pub(crate) since: Option<Timestamp>,
    pub(crate) transitions: u64,
    /// The load at the last change, and the signal with it.
    pub(crate) pressure: Option<f64>,
    pub(crate) signal: Option<String>,
    pub(crate) pin: Option<FeaturePin>,
    /// Since when it is off with work in flight from before.
    pub(crate) releasing_since: Option<Timestamp>,
    pub(crate) released_after: Option<Duration>,
    /// One for each class where these have levels of their own, else one.
    pub(crate) parts: Vec<PartState>,
    pub(crate) costs: LevelCosts,
    /// The requests a second of each cohort, where cohorts have levels of their own.
    pub(crate) cohorts: Option<Box<[ExponentialAverage; COHORTS as usize]>>,
    /// The levels before a pin that the control has not seen yet.
    pub(crate) moved_from: Option<LevelWord>,
    /// The level before a reload that took it away, of which nobody was told yet.
    pub(crate) reloaded_from: Option<Arc<str>>,
    /// The parts of the capacity that it takes at its level and at the next better one.
    pub(crate) footprint: f64,
    pub(crate) footprint_better: f64,
    /// The part of the capacity that an exchange has for better levels of its class.
    pub(crate) exchange_room: Option<f64>,
}

/// The state of the requests that have one level.
#[derive(Clone, Debug, Default)]
pub(crate) struct PartState {
    /// The requests a second that ask for it.
    pub(crate) fast: ExponentialAverage,
    pub(crate) slow: ExponentialAverage,
    pub(crate) last: f64,
    /// Those that asked when it was degraded, which fade.
    pub(crate) remembered: f64,
    /// When it changed last, without the time in which nothing ran.
    pub(crate) changed_at: Option<Timestamp>,
    /// Since when a better level fits at each tick.
    pub(crate) fits_since: Option<Timestamp>,
}

impl FeatureState {
    pub(crate) fn new(config: &FeatureConfig) -> Self {
        let parts = if config.scope == FeatureScope::Class { Class::ALL.len() } else { 1 };
        let has_cohorts = config.scope == FeatureScope::Tenant;
        Self {
            since: None,
            transitions: 0,
            pressure: None,
            signal: None,
            pin: None,
            releasing_since: None,
            released_after: None,
            parts: vec![PartState::default(); parts],
            costs: LevelCosts::new(config.levels.len()),
            cohorts: has_cohorts.then(|| Box::new([ExponentialAverage::default(); COHORTS as usize])),
            moved_from: None,
            reloaded_from: None,
            footprint: 0.0,
            footprint_better: 0.0,
            exchange_room: None,
        }
    }

    /// The state under other settings: a pin of a level that is not there any more ends, and so do
    /// the averages of requests that have no level of their own any more.
    pub(crate) fn under(&self, from: &FeatureConfig, to: &FeatureConfig) -> Self {
        let is_same_scope = from.scope == to.scope;
        let new = Self::new(to);
        let pin = self.pin.and_then(|pin| {
            let name = &from.levels.get(usize::from(pin.level))?.name;
            let level = to.levels.iter().position(|level| level.name == *name)? as u8;
            Some(FeaturePin { level, ..pin })
        });
        Self {
            pin,
            costs: self.costs.under(from, to),
            parts: if is_same_scope { self.parts.clone() } else { new.parts },
            cohorts: if is_same_scope { self.cohorts.clone() } else { new.cohorts },
            signal: self.signal.clone(),
            moved_from: None,
            reloaded_from: self.reloaded_from.clone(),
            ..*self
        }
    }

    /// Takes in the requests of a tick of `seconds`, which came after no gap.
    #[expect(clippy::cast_precision_loss, reason = "counts of a tick are far below 2^53")]
    pub(crate) fn observe(&mut self, tick: &MeterTick, seconds: f64, half_life: Duration) {
        let by_class = self.parts.len() > 1;
        for (index, part) in self.parts.iter_mut().enumerate() {
            let offered = if by_class { tick.offered[index] } else { tick.offered.iter().sum() };
            part.last = offered as f64 / seconds;
            part.fast.observe(part.last, seconds, FAST);
            part.slow.observe(part.last, seconds, SLOW);
            let constant = half_life.as_secs_f64() / core::f64::consts::LN_2;
            part.remembered *= constant / (constant + seconds);
        }
        if let (Some(rates), Some(offered)) = (&mut self.cohorts, &tick.cohorts) {
            for (rate, offered) in rates.iter_mut().zip(offered.iter()) {
                rate.observe(*offered as f64 / seconds, seconds, SLOW);
            }
        }
    }

    pub(crate) fn step(&mut self, step: ClockStep) {
        let shift = |at: &mut Option<Timestamp>| *at = at.map(|at| step.shifted(at));
        shift(&mut self.releasing_since);
        for part in &mut self.parts {
            shift(&mut part.changed_at);
            part.fits_since = None;
        }
    }
}

impl PartState {
    /// Notes a change of level at `now`.
    pub(crate) fn changed(&mut self, now: Timestamp) {
        self.changed_at = Some(now);
        self.fits_since = None;
        self.remembered = self.remembered.max(self.slow.get());
    }
}

/// The levels under other settings: each keeps its name, else it becomes the best one that costs at
/// most as much.
pub(crate) fn levels_under(from: &FeatureConfig, word: LevelWord, to: &FeatureConfig) -> LevelWord {
    if from.levels.is_empty() || to.levels.is_empty() {
        return LevelWord::default();
    }
    let position = |level: u8| position_under(from, level, to);
    if to.scope != from.scope {
        // The requests no longer have levels of their own in the same parts: the worst holds.
        let worst = Class::ALL.into_iter().map(|class| word.of_class(class)).max().unwrap_or(0);
        return LevelWord::uniform(position(worst + u8::from(word.moved() > 0)), 0);
    }
    if word.moved() > 0 {
        let (level, next) = (word.of_class(Class::Sheddable), word.of_class(Class::Sheddable) + 1);
        let is_next = position(next) == position(level) + 1;
        return match word.moved() {
            moved if is_next => LevelWord::uniform(position(level), moved),
            _ => LevelWord::uniform(position(next), 0),
        };
    }
    let with = |new: LevelWord, class| new.with_class(class, position(word.of_class(class)));
    Class::ALL.into_iter().fold(LevelWord::default(), with)
}

fn position_under(from: &FeatureConfig, level: u8, to: &FeatureConfig) -> u8 {
    let Some(old) = from.levels.get(usize::from(level)) else { return 0 };
    let same = to.levels.iter().position(|new| new.name == old.name);
    let cheaper = || to.levels.iter().position(|new| new.cost <= old.cost);
    same.or_else(cheaper).unwrap_or(to.levels.len() - 1) as u8
}

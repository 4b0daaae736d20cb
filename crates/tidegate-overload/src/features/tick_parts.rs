//! The features as the control of a tick sees them: their parts, with the costs and the worth of
//! each level.

use core::time::Duration;

use tidegate_core::{Class, Timestamp};

use crate::cursor::COHORTS;
use crate::features::config::{FeatureConfig, FeatureMode, FeatureScope, OnDisable};
use crate::features::feature::{Feature, FeatureId};
use crate::features::feature_meter::MeterTick;
use crate::features::feature_part::{FeaturePart, PartHold};
use crate::features::feature_state::FeatureState;
use crate::features::level_position::LevelPosition;
use crate::features::level_word::LevelWord;
use crate::features::load_estimate::CostScale;

/// Relief is felt this long after the work that gives it had the time to end.
const FELT_AFTER: Duration = Duration::from_secs(1);
/// Work in flight that finishes is waited for at most so long.
const FINISH_MAX: Duration = Duration::from_mins(1);

/// The requests of a feature that bring work to its resource: those that are not refused because
/// it is off.
#[expect(clippy::cast_precision_loss, reason = "counts of a tick are far below 2^53")]
pub(crate) fn offered_to_resource(feature: &Feature, counts: &MeterTick) -> f64 {
    let word = feature.word();
    let is_refused = |level: u8| feature.is_off(level) && feature.config().mode == FeatureMode::Enforce;
    if let Some(cohorts) = &counts.cohorts {
        let level = |cohort: usize| word.level(Class::Sheddable, cohort as u16);
        let on = cohorts.iter().enumerate().filter(|(cohort, _)| !is_refused(level(*cohort)));
        return on.map(|(_, offered)| *offered as f64).sum();
    }
    let on = Class::ALL.into_iter().filter(|class| !is_refused(word.of_class(*class)));
    on.map(|class| counts.offered[class as usize] as f64).sum()
}

/// The position of a part in a word.
pub(crate) fn position_of(word: LevelWord, config: &FeatureConfig, part: usize) -> LevelPosition {
    match config.scope {
        FeatureScope::Global => LevelPosition::at(word.of_class(Class::Sheddable)),
        FeatureScope::Class => LevelPosition::at(word.of_class(Class::ALL[part])),
        FeatureScope::Tenant => LevelPosition::between(word.of_class(Class::Sheddable), word.moved()),
    }
}

/// The time after which the relief of a step is felt: the grace of work that is cancelled, and what
/// work that finishes takes, at least the default grace; and a second for the signals.
pub(crate) fn felt_after(config: &FeatureConfig, state: &FeatureState) -> Duration {
    let ends_after = match config.on_disable {
        OnDisable::Cancel { grace } => grace,
        OnDisable::Finish => {
            let time = state.costs.place_time(config, 0).unwrap_or(0.0);
            let time = Duration::try_from_secs_f64(time).unwrap_or(FINISH_MAX);
            time.clamp(FeatureConfig::GRACE, FINISH_MAX)
        }
    };
    ends_after.saturating_add(FELT_AFTER)
}

/// Adds the parts of a feature.
pub(crate) fn parts_of(
    id: FeatureId,
    feature: &Feature,
    state: &FeatureState,
    scale: &CostScale,
    (now, settle): (Timestamp, Duration),
    parts: &mut Vec<FeaturePart>,
) {
    let config = feature.config();
    let mut costs = [0.0; FeatureConfig::LEVELS_MAX];
    for (level, cost) in costs.iter_mut().enumerate().take(config.levels.len().max(1)) {
        let part = config.levels.get(level).map_or(1.0, |level| level.cost);
        let by_places = state.costs.place_time(config, level).map(|time| time * scale.second);
        let by_units = || state.costs.units(config, level).map(|units| units * scale.unit);
        *cost = match by_places {
            Some(cost) if state.costs.is_learned_by_places() => cost,
            _ => by_units().filter(|_| state.costs.is_learned_by_units()).unwrap_or(scale.mean * part),
        };
    }
    let (mut all, mut even) = (0.0, 0.0);
    for part in &state.parts {
        all += part.slow.get();
        even += 1.0;
    }
    for (index, own) in state.parts.iter().enumerate() {
        let demand = own.slow.get();
        let class = if config.scope == FeatureScope::Class { Class::ALL[index] } else { config.class };
        let is_beyond = class > config.class;
        let share = if all > 0.0 { demand / all } else { 1.0 / even };
        let mut utilities = [0.0; FeatureConfig::LEVELS_MAX];
        for (utility, level) in utilities.iter_mut().zip(&config.levels) {
            *utility = config.utility * share * level.cost.sqrt();
        }
        let position = position_of(feature.word(), config, index);
        let has_dwelt =
            |by: Timestamp| own.changed_at.is_none_or(|at| by.saturating_since(at) >= config.min_dwell);
        parts.push(FeaturePart {
            feature: id.index(),
            part: index,
            class,
            position,
            in_force: if config.mode == FeatureMode::Shadow { LevelPosition::BEST } else { position },
            worst: if is_beyond { 0 } else { feature.worst() },
            demand,
            demand_fast: own.fast.get(),
            demand_last: own.last,
            remembered: demand.max(own.remembered),
            costs,
            utilities,
            cohorts: state.cohorts.as_ref().map(|rates| {
                let rates = rates.each_ref().map(|rate| rate.get());
                let all: f64 = rates.iter().sum();
                let mut below = [0.0; COHORTS as usize + 1];
                for (cohort, rate) in rates.into_iter().enumerate() {
                    let part = if all > 0.0 { rate / all } else { 1.0 / f64::from(COHORTS) };
                    below[cohort + 1] = below[cohort] + part;
                }
                Box::new(below)
            }),
            hold: match state.pin {
                Some(_) => PartHold::Pinned,
                None if has_dwelt(now) => PartHold::Free,
                None if has_dwelt(now.saturating_add(settle)) => PartHold::DwellsShortly,
                None => PartHold::Dwells,
            },
            has_off: !is_beyond && feature.is_off(feature.worst()),
        });
    }
}

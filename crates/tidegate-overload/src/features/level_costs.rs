//! The cost of one request of a feature at each of its levels, learned while the level was in use.

use crate::features::config::FeatureConfig;
use crate::features::feature_meter::LevelTick;

/// The part that a tick leaves of the work before it: a time constant of 3 s.
const KEPT: f64 = 0.97;
/// Less work than this fades no further, so that the last average stays known.
const COUNT_KEPT: f64 = 0.01;

/// The learned costs of the levels of one feature.
#[derive(Clone, Debug, Default)]
pub(crate) struct LevelCosts(Vec<LevelCost>);

/// The work of one level of late.
#[derive(Clone, Copy, Debug, Default)]
struct LevelCost {
    /// The requests that ended, and the seconds for which they kept their places.
    ended: f64,
    held: f64,
    /// The requests that were admitted without a known end, and their units.
    priced: f64,
    units: f64,
}

impl LevelCost {
    fn place_time(&self) -> Option<f64> {
        (self.ended > 0.0).then(|| self.held / self.ended)
    }

    fn units(&self) -> Option<f64> {
        (self.priced > 0.0).then(|| self.units / self.priced)
    }
}

impl LevelCosts {
    pub(crate) fn new(levels: usize) -> Self {
        Self(vec![LevelCost::default(); levels.max(1)])
    }

    /// The costs that levels of the same name keep under other settings.
    pub(crate) fn under(&self, from: &FeatureConfig, to: &FeatureConfig) -> Self {
        let mut new = Self::new(to.levels.len());
        for (cost, level) in new.0.iter_mut().zip(&to.levels) {
            let old = from.levels.iter().position(|old| old.name == level.name);
            *cost = old.and_then(|old| self.0.get(old)).copied().unwrap_or_default();
        }
        if from.levels.is_empty() || to.levels.is_empty() {
            // The only level and the best one are the same work.
            new.0[0] = self.0[0];
        }
        new
    }

    /// Takes in the work of a tick.
    #[expect(clippy::cast_precision_loss, reason = "an average needs three digits")]
    pub(crate) fn learn(&mut self, ticks: &[LevelTick]) {
        for (cost, tick) in self.0.iter_mut().zip(ticks) {
            if cost.ended > COUNT_KEPT {
                cost.ended *= KEPT;
                cost.held *= KEPT;
            }
            if cost.priced > COUNT_KEPT {
                cost.priced *= KEPT;
                cost.units *= KEPT;
            }
            cost.ended += tick.ended as f64;
            cost.held += tick.held_us as f64 / 1e6;
            cost.priced += tick.priced as f64;
            cost.units += tick.units as f64;
        }
    }

    /// The seconds for which one request keeps its place at a level; `None`: no level has shown it.
    pub(crate) fn place_time(&self, config: &FeatureConfig, level: usize) -> Option<f64> {
        self.learned(config, level, LevelCost::place_time)
    }

    /// Whether any level has shown how long work keeps its place.
    pub(crate) fn is_learned_by_places(&self) -> bool {
        self.0.iter().any(|cost| cost.place_time().is_some())
    }

    /// Whether any level has shown its units.
    pub(crate) fn is_learned_by_units(&self) -> bool {
        self.0.iter().any(|cost| cost.units().is_some())
    }

    /// The place time of the first level alone.
    pub(crate) fn only_place_time(&self) -> Option<f64> {
        self.0.first().and_then(LevelCost::place_time)
    }

    /// The units of one request at a level; `None`: no level has shown it.
    pub(crate) fn units(&self, config: &FeatureConfig, level: usize) -> Option<f64> {
        self.learned(config, level, LevelCost::units)
    }

    /// The cost that a level has shown, else that of the nearest level that has shown one, by the
    /// configured parts of both.
    fn learned(
        &self,
        config: &FeatureConfig,
        level: usize,
        cost: impl Fn(&LevelCost) -> Option<f64>,
    ) -> Option<f64> {
        let part = |level: usize| config.levels.get(level).map_or(1.0, |level| level.cost);
        if part(level) <= 0.0 {
            return Some(0.0);
        }
        let known = |at: usize| self.0.get(at).and_then(&cost).filter(|_| part(at) > 0.0);
        let nearest =
            (0..self.0.len()).filter(|at| known(*at).is_some()).min_by_key(|at| at.abs_diff(level))?;
        Some(known(nearest)? * part(level) / part(nearest))
    }
}

#[cfg(test)]
#[cfg(not(tidegate_loom))]
mod tests {
    use tidegate_core::Class;

    use super::*;
    use crate::features::config::FeatureLevelConfig;

    fn config(levels: &[(&str, f64)]) -> FeatureConfig {
        let mut config = FeatureConfig::new("video", Class::Sheddable);
        config.levels = levels.iter().map(|(name, cost)| FeatureLevelConfig::new(*name, *cost)).collect();
        config
    }

    fn near(found: Option<f64>, expected: f64) {
        let found = found.unwrap();
        assert!((found - expected).abs() < 1e-9, "{found}, where {expected} is right");
    }

    #[test]
    fn a_level_that_never_ran_costs_its_part_of_what_the_nearest_one_has_shown() {
        let config = config(&[("1080p", 1.0), ("720p", 0.5), ("480p", 0.2), ("off", 0.0)]);
        let mut costs = LevelCosts::new(4);
        assert_eq!(costs.place_time(&config, 1), None);
        let work = |ended, held_us| LevelTick { ended, held_us, ..LevelTick::default() };
        costs.learn(&[work(10, 1_000_000), LevelTick::default(), LevelTick::default()]);
        near(costs.place_time(&config, 0), 0.1);
        near(costs.place_time(&config, 2), 0.02);
        near(costs.place_time(&config, 3), 0.0);
        costs.learn(&[LevelTick::default(), work(10, 700_000)]);
        near(costs.place_time(&config, 1), 0.07);
        near(costs.place_time(&config, 2), 0.07 * 0.2 / 0.5);
        (0..100_000).for_each(|_| costs.learn(&[]));
        near(costs.place_time(&config, 1), 0.07);
    }

    #[test]
    fn a_level_keeps_what_it_has_shown_by_its_name() {
        let from = config(&[("1080p", 1.0), ("480p", 0.2), ("off", 0.0)]);
        let to = config(&[("2160p", 1.0), ("1080p", 0.4), ("480p", 0.1), ("off", 0.0)]);
        let mut costs = LevelCosts::new(3);
        let units = |priced, units| LevelTick { priced, units, ..LevelTick::default() };
        costs.learn(&[units(1, 40), units(1, 8)]);
        let costs = costs.under(&from, &to);
        near(costs.units(&to, 0), 100.0);
        near(costs.units(&to, 1), 40.0);
        near(costs.units(&to, 2), 8.0);
    }
}

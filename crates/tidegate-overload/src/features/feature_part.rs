//! The requests of a feature that have one level, as the control of a tick sees them.
//!
//! A feature of a scope of classes has a part for each class that it may degrade, any other one
//! has a single part.

use tidegate_core::Class;

use crate::cursor::COHORTS;
use crate::features::config::FeatureConfig;
use crate::features::level_position::LevelPosition;

/// A smaller change of the footprint counts as no change.
pub(crate) const LEAST_RELIEF: f64 = 1e-6;

/// The cohorts of tenants below a number, and the part of the demand that they have.
pub(crate) type CohortParts = Box<[f64; COHORTS as usize + 1]>;

/// The reason for which a part may not move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PartHold {
    /// Nothing: it may move.
    Free,
    /// Its minimal dwell, which ends within a settle time.
    DwellsShortly,
    /// Its minimal dwell.
    Dwells,
    /// A pin.
    Pinned,
}

/// One part of a feature.
#[derive(Clone, Debug)]
pub(crate) struct FeaturePart {
    /// The position of the feature in its plane, and of the part in it.
    pub(crate) feature: usize,
    pub(crate) part: usize,
    /// The class whose turn it has.
    pub(crate) class: Class,
    pub(crate) position: LevelPosition,
    /// The position of the requests: the best one where the feature only shows its level.
    pub(crate) in_force: LevelPosition,
    pub(crate) worst: u8,
    /// The requests a second that ask for it: over some seconds, over the time of a signal, and in
    /// the last tick alone; and the first with what callers asked for before it was degraded, which
    /// fades.
    pub(crate) demand: f64,
    pub(crate) demand_fast: f64,
    pub(crate) demand_last: f64,
    pub(crate) remembered: f64,
    /// The part of the capacity that one request a second takes at each level.
    pub(crate) costs: [f64; FeatureConfig::LEVELS_MAX],
    /// Its worth at each level: the feature's utility times the root of the part of the cost
    /// that the level has left. The first pixels are worth the most: were a level worth just its
    /// part of the cost, one feature that is off would be as good as two that are degraded, and
    /// levels would be of no use.
    pub(crate) utilities: [f64; FeatureConfig::LEVELS_MAX],
    /// `None`: all cohorts have one level.
    pub(crate) cohorts: Option<CohortParts>,
    pub(crate) hold: PartHold,
    /// Whether it is off at the worst level.
    pub(crate) has_off: bool,
}

impl FeaturePart {
    /// The part of the capacity that so many requests a second take at a position.
    pub(crate) fn footprint(&self, position: LevelPosition, demand: f64) -> f64 {
        demand * self.blend(position, &self.costs)
    }

    /// The part of the capacity that it takes where it is.
    pub(crate) fn at_position(&self) -> f64 {
        self.footprint(self.position, self.demand)
    }

    /// Its worth at a position.
    pub(crate) fn utility(&self, position: LevelPosition) -> f64 {
        self.blend(position, &self.utilities)
    }

    /// The capacity that a worse position gives.
    pub(crate) fn relief(&self, to: LevelPosition) -> f64 {
        self.footprint(self.position, self.demand) - self.footprint(to, self.demand)
    }

    /// The capacity that a better position takes. The demand from before it was degraded counts, as
    /// callers will ask for it again.
    pub(crate) fn growth(&self, to: LevelPosition) -> f64 {
        let grown = self.footprint(to, self.remembered) - self.footprint(self.position, self.demand);
        grown.max(0.0)
    }

    /// The worse positions that give anything, from the next one on.
    pub(crate) fn worse(&self) -> impl Iterator<Item = LevelPosition> {
        let has_cohorts = self.cohorts.is_some();
        let worse = self.position.until(self.worst).filter(move |to| has_cohorts || to.moved() == 0);
        worse.filter(|to| self.relief(*to) > LEAST_RELIEF)
    }

    pub(crate) fn can_move(&self) -> bool {
        self.hold == PartHold::Free
    }

    pub(crate) fn is_pinned(&self) -> bool {
        self.hold == PartHold::Pinned
    }

    /// Whether it has a worse level than the best one, for another reason than a pin.
    pub(crate) fn is_degraded(&self) -> bool {
        self.position > LevelPosition::BEST && !self.is_pinned()
    }

    /// The worst position at which it is not off, at least the one that it has.
    pub(crate) fn last_on(&self) -> LevelPosition {
        LevelPosition::at(self.worst - u8::from(self.has_off && self.worst > 0)).max(self.position)
    }

    /// Whether a worse position would give anything, now or once nothing holds it.
    pub(crate) fn can_give(&self) -> bool {
        !self.is_pinned()
            && self.position < LevelPosition::at(self.worst)
            && self.relief(LevelPosition::at(self.worst)) > LEAST_RELIEF
    }

    /// A measure of each level, at a position between two of them by the demand of the cohorts.
    fn blend(&self, position: LevelPosition, levels: &[f64; FeatureConfig::LEVELS_MAX]) -> f64 {
        let at = levels[usize::from(position.level())];
        match (position.moved(), &self.cohorts) {
            (0, _) => at,
            (moved, cohorts) => {
                let even = f64::from(moved) / f64::from(COHORTS);
                let part = cohorts.as_ref().map_or(even, |parts| parts[usize::from(moved)]);
                at + (levels[usize::from(position.level()) + 1] - at) * part
            }
        }
    }
}

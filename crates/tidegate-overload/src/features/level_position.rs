//! The position of a feature between its best and its worst level.

use crate::cursor::COHORTS;

/// A level, and how many cohorts of tenants have the next one already.
///
/// Positions are ordered from best to worst. Only a scope of tenants has positions between levels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LevelPosition(u16);

impl LevelPosition {
    pub(crate) const BEST: Self = Self(0);

    pub(crate) const fn at(level: u8) -> Self {
        Self(level as u16 * COHORTS)
    }

    /// So many cohorts, at most all of them, beyond a level.
    pub(crate) const fn between(level: u8, moved: u16) -> Self {
        Self(level as u16 * COHORTS + moved)
    }

    pub(crate) const fn level(self) -> u8 {
        (self.0 / COHORTS) as u8
    }

    /// The cohorts that have the next level.
    pub(crate) const fn moved(self) -> u16 {
        self.0 % COHORTS
    }

    /// The position of the next better level.
    pub(crate) const fn better(self) -> Self {
        match self.moved() {
            0 => Self::at(self.level().saturating_sub(1)),
            _ => Self::at(self.level()),
        }
    }

    /// So many cohorts better, at most as many as there are.
    pub(crate) const fn better_by(self, cohorts: u16) -> Self {
        Self(self.0.saturating_sub(cohorts))
    }

    /// The positions from the next one to a level, in steps of a cohort.
    pub(crate) fn until(self, worst: u8) -> impl Iterator<Item = Self> {
        (self.0 + 1..=Self::at(worst).0).map(Self)
    }
}

#[cfg(test)]
#[cfg(not(tidegate_loom))]
mod tests {
    use super::*;

    #[test]
    fn positions_lie_between_levels_and_the_better_one_is_the_level_before() {
        let between = LevelPosition::between(2, 40);
        assert_eq!((between.level(), between.moved()), (2, 40));
        assert_eq!((between.better(), between.better_by(40)), (LevelPosition::at(2), LevelPosition::at(2)));
        assert_eq!(
            (LevelPosition::at(2).better(), LevelPosition::BEST.better()),
            (LevelPosition::at(1), LevelPosition::BEST)
        );
        assert_eq!(LevelPosition::between(1, 128), LevelPosition::at(2));
        assert_eq!(LevelPosition::at(1).until(2).count(), 128);
        assert_eq!(LevelPosition::at(1).until(2).last(), Some(LevelPosition::at(2)));
    }
}

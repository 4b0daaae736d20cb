//! The levels of a feature in one word, which a request reads with one load.

use tidegate_core::Class;

use crate::cursor::COHORTS;

/// The bits of the level of one class: [`FeatureConfig::LEVELS_MAX`] levels.
///
/// [`FeatureConfig::LEVELS_MAX`]: crate::FeatureConfig::LEVELS_MAX
const LEVEL_BITS: u32 = 4;
const LEVEL_MASK: u64 = (1 << LEVEL_BITS) - 1;
/// The cohorts that have the next level stand above the levels of the classes.
const MOVED_SHIFT: u32 = LEVEL_BITS * Class::ALL.len() as u32;
const MOVED_MASK: u64 = 0xff;

/// The level of each class, and how many cohorts of tenants, the lowest first, have the next level
/// already. The cursor sheds the same cohorts first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LevelWord(u64);

impl LevelWord {
    pub(crate) const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    pub(crate) const fn to_bits(self) -> u64 {
        self.0
    }

    /// One level for all classes, with so many cohorts, below [`COHORTS`], at the next one.
    pub(crate) fn uniform(level: u8, moved: u16) -> Self {
        debug_assert!(moved < COHORTS, "all cohorts moved is the next level");
        let levels = Class::ALL.iter().fold(0, |word, _| (word << LEVEL_BITS) | u64::from(level));
        Self(levels | (u64::from(moved) << MOVED_SHIFT))
    }

    /// The same with another level for one class.
    pub(crate) const fn with_class(self, class: Class, level: u8) -> Self {
        let shift = LEVEL_BITS * class as u32;
        Self((self.0 & !(LEVEL_MASK << shift)) | ((level as u64) << shift))
    }

    /// The level of a class, without the cohorts.
    pub(crate) const fn of_class(self, class: Class) -> u8 {
        ((self.0 >> (LEVEL_BITS * class as u32)) & LEVEL_MASK) as u8
    }

    /// The cohorts that have the next level.
    pub(crate) const fn moved(self) -> u16 {
        ((self.0 >> MOVED_SHIFT) & MOVED_MASK) as u16
    }

    /// The worst level that any request has.
    pub(crate) fn worst(self) -> u8 {
        let levels = Class::ALL.into_iter().map(|class| self.of_class(class));
        levels.max().unwrap_or(0) + u8::from(self.moved() > 0)
    }

    /// The level of a request.
    #[inline]
    pub(crate) const fn level(self, class: Class, cohort: u16) -> u8 {
        self.of_class(class) + (cohort < self.moved()) as u8
    }
}

#[cfg(test)]
#[cfg(not(tidegate_loom))]
mod tests {
    use super::*;

    #[test]
    fn a_word_keeps_the_level_of_each_class_and_the_cohorts() {
        let word = LevelWord::uniform(14, 127).with_class(Class::Critical, 3);
        assert_eq!((word.of_class(Class::Sheddable), word.of_class(Class::Critical)), (14, 3));
        assert_eq!((word.level(Class::CriticalPlus, 126), word.level(Class::CriticalPlus, 127)), (15, 14));
        assert_eq!(word.moved(), 127);
        assert_eq!((word.worst(), LevelWord::uniform(2, 0).worst()), (15, 2));
        assert_eq!(LevelWord::from_bits(word.to_bits()), word);
        assert_eq!(LevelWord::default(), LevelWord::uniform(0, 0));
    }
}

//! The state of one feature that only ticks, pins and reloads change.

use core::time::Duration;

use tidegate_core::{Class, Timestamp};

use crate::features::config::FeatureConfig;
use crate::features::feature_pin::FeaturePin;
use crate::features::level_word::LevelWord;

/// The state of one feature.
#[derive(Clone, Debug, Default)]
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
}

impl FeatureState {
    /// Goes on under other settings: a pin of a level that may be another one ends.
    pub(crate) fn reconfigure(&mut self) {
        self.pin = None;
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
        let moved = if position(next) == position(level) + 1 { word.moved() } else { 0 };
        return match moved {
            0 => LevelWord::uniform(position(next), 0),
            moved => LevelWord::uniform(position(level), moved),
        };
    }
    Class::ALL
        .into_iter()
        .fold(LevelWord::default(), |new, class| new.with_class(class, position(word.of_class(class))))
}

fn position_under(from: &FeatureConfig, level: u8, to: &FeatureConfig) -> u8 {
    let Some(old) = from.levels.get(usize::from(level)) else { return 0 };
    let same = to.levels.iter().position(|new| new.name == old.name);
    let cheaper = || to.levels.iter().position(|new| new.cost <= old.cost);
    same.or_else(cheaper).unwrap_or(to.levels.len() - 1) as u8
}

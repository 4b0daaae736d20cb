//! An operator's pin: one level until an instant, whatever the load is.

use core::time::Duration;

use tidegate_core::Timestamp;

/// The longest pin: 30 days.
pub const FEATURE_PIN_MAX: Duration = Duration::from_hours(30 * 24);

/// The most names that an error lists.
const LISTED_MAX: usize = 8;

/// A pin in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FeaturePin {
    /// The position of the level, best first.
    pub level: u8,
    /// Its end.
    pub until: Timestamp,
}

/// A pin that is not set. Nothing has changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FeaturePinError {
    /// No feature has the name.
    #[error("feature \"{feature}\" does not exist; {}", instead("use one of", known))]
    UnknownFeature {
        /// The name.
        feature: String,
        /// Some of the features, in order and separated by commas.
        known: String,
    },
    /// The feature has no levels.
    #[error("feature \"{feature}\" has no levels to pin; add `levels` to it")]
    NoLevels {
        /// The feature.
        feature: String,
    },
    /// The feature has no level of the name.
    #[error("feature \"{feature}\" has no level \"{level}\"; use one of: {known}")]
    UnknownLevel {
        /// The feature.
        feature: String,
        /// The name.
        level: String,
        /// The levels, best first and separated by commas.
        known: String,
    },
    /// The pin would be over.
    #[error("the pin of feature \"{feature}\" would end {ago:?} ago; use an instant to come")]
    Past {
        /// The feature.
        feature: String,
        /// How long ago it would have ended.
        ago: Duration,
    },
    /// The pin would last too long.
    #[error("the pin of feature \"{feature}\" would last {lasts:?}, more than 30 days; use a shorter time")]
    TooLong {
        /// The feature.
        feature: String,
        /// How long it would last.
        lasts: Duration,
    },
}

impl FeaturePinError {
    /// No feature has this name, but these have, which are in order.
    pub fn unknown_feature<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Self {
        Self::UnknownFeature { feature: shortened(name), known: listed(known) }
    }

    pub(crate) fn unknown_level<'a>(
        feature: &str,
        level: &str,
        known: impl Iterator<Item = &'a str>,
    ) -> Self {
        let known = known.collect::<Vec<_>>().join(", ");
        Self::UnknownLevel { feature: feature.to_owned(), level: shortened(level), known }
    }
}

/// A name that strangers may have chosen.
fn shortened(name: &str) -> String {
    name.chars().take(64).collect()
}

fn listed<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let mut names: Vec<_> = names.take(LISTED_MAX + 1).collect();
    if names.len() > LISTED_MAX {
        names[LISTED_MAX] = "...";
    }
    names.join(", ")
}

fn instead(what: &str, known: &str) -> String {
    if known.is_empty() { "no feature is configured".to_owned() } else { format!("{what}: {known}") }
}

//! The settings of a feature: its levels from best to worst, and when they change.

use core::time::Duration;

use tidegate_core::Class;

/// One level of a feature.
#[derive(Clone, Debug, PartialEq)]
pub struct FeatureLevelConfig {
    /// The name, unique in its feature: 1 to [`FeatureConfig::LEVEL_NAME_BYTES_MAX`] bytes, as
    /// `480p`.
    pub name: String,
    /// The part of the cost of a request at the first level that one costs at this level: 0 to 1,
    /// and less than at the level before. A level of cost 0 is off: its requests are refused.
    pub cost: f64,
}

impl FeatureLevelConfig {
    /// The name of a level that is off.
    pub const OFF: &'static str = "off";

    /// A level of this cost.
    pub fn new(name: impl Into<String>, cost: f64) -> Self {
        Self { name: name.into(), cost }
    }

    /// Whether requests of the feature are refused at this level.
    pub fn is_off(&self) -> bool {
        self.cost == 0.0
    }
}

/// The end of work in flight when its feature is switched off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnDisable {
    /// It is finished.
    #[default]
    Finish,
    /// It is cancelled after a grace.
    Cancel {
        /// The time that work in flight has to end by itself: 0 to an hour, default
        /// [`FeatureConfig::GRACE`].
        grace: Duration,
    },
}

/// The requests of a feature that have one level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FeatureScope {
    /// All of them.
    #[default]
    Global,
    /// Those of a class: a lower class degrades before a higher one.
    Class,
    /// Those of a cohort of tenants: a step moves a part of the tenants, which changes every hour.
    Tenant,
}

/// Whether a feature follows its level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FeatureMode {
    /// Requests get the level.
    #[default]
    Enforce,
    /// The level is found and shown, and requests get the best one.
    Shadow,
}

/// The settings of a feature.
///
/// ```
/// # use tidegate_core::Class;
/// # use tidegate_overload::{FeatureConfig, FeatureLevelConfig};
/// let mut thumbnails = FeatureConfig::new("thumbnails", Class::Sheddable);
/// thumbnails.levels = vec![
///     FeatureLevelConfig::new("full", 1.0),
///     FeatureLevelConfig::new("480p", 0.3),
///     FeatureLevelConfig::new(FeatureLevelConfig::OFF, 0.0),
/// ];
/// thumbnails.check()?;
/// # Ok::<(), tidegate_overload::FeatureConfigError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct FeatureConfig {
    /// The name, unique: 1 to [`FeatureConfig::NAME_BYTES_MAX`] bytes.
    pub name: String,
    /// The resource that its work takes places of; `None`: the default resource.
    pub resource: Option<String>,
    /// The class: features of a lower class give up their levels first.
    pub class: Class,
    /// The worth of the feature to its users beside others of its class: above 0 and finite,
    /// default 1. Among features of one class, those with the most relief for it degrade first.
    pub utility: f64,
    /// The levels from best to worst, 2 to [`FeatureConfig::LEVELS_MAX`]; the first has the cost
    /// 1. None: the feature is counted and never degraded.
    pub levels: Vec<FeatureLevelConfig>,
    /// The shortest time between two changes of its level: at most a day, default 10 s; 0: none.
    pub min_dwell: Duration,
    /// The end of its work in flight when it is switched off.
    pub on_disable: OnDisable,
    /// The requests that have one level.
    pub scope: FeatureScope,
    /// Whether it follows its level.
    pub mode: FeatureMode,
}

impl FeatureConfig {
    /// The longest name of a feature: 128 bytes.
    pub const NAME_BYTES_MAX: usize = 128;
    /// The longest name of a level: 64 bytes.
    pub const LEVEL_NAME_BYTES_MAX: usize = 64;
    /// The most levels of a feature: 16.
    pub const LEVELS_MAX: usize = 16;
    /// The shortest time between two changes of level unless told otherwise: 10 s.
    pub const MIN_DWELL: Duration = Duration::from_secs(10);
    /// The longest such time: a day.
    pub const MIN_DWELL_MAX: Duration = Duration::from_hours(24);
    /// The grace of cancelled work unless told otherwise: 2 s.
    pub const GRACE: Duration = Duration::from_secs(2);
    /// The longest grace: an hour.
    pub const GRACE_MAX: Duration = Duration::from_hours(1);

    /// A feature that is counted and has no levels.
    pub fn new(name: impl Into<String>, class: Class) -> Self {
        Self {
            name: name.into(),
            resource: None,
            class,
            utility: 1.0,
            levels: Vec::new(),
            min_dwell: Self::MIN_DWELL,
            on_disable: OnDisable::Finish,
            scope: FeatureScope::Global,
            mode: FeatureMode::Enforce,
        }
    }

    /// Checks the settings. Fails with the first problem found.
    pub fn check(&self) -> Result<(), FeatureConfigError> {
        if !(1..=Self::NAME_BYTES_MAX).contains(&self.name.len()) {
            return Err(FeatureConfigError::Name { bytes: self.name.len() });
        }
        if !(self.utility > 0.0 && self.utility.is_finite()) {
            return Err(FeatureConfigError::Utility { utility: self.utility });
        }
        if self.min_dwell > Self::MIN_DWELL_MAX {
            return Err(FeatureConfigError::MinDwell { min_dwell: self.min_dwell });
        }
        if let OnDisable::Cancel { grace } = self.on_disable
            && grace > Self::GRACE_MAX
        {
            return Err(FeatureConfigError::Grace { grace });
        }
        if self.levels.is_empty() {
            return Ok(());
        }
        if !(2..=Self::LEVELS_MAX).contains(&self.levels.len()) {
            return Err(FeatureConfigError::LevelCount { count: self.levels.len() });
        }
        let mut above: Option<&FeatureLevelConfig> = None;
        for (at, level) in self.levels.iter().enumerate() {
            let of = |problem| FeatureConfigError::Level { level: level.name.clone(), problem };
            if !(1..=Self::LEVEL_NAME_BYTES_MAX).contains(&level.name.len()) {
                return Err(of("the name must have 1 to 64 bytes"));
            }
            if self.levels[..at].iter().any(|other| other.name == level.name) {
                return Err(of("another level of the feature has this name"));
            }
            if !(0.0..=1.0).contains(&level.cost) {
                return Err(of("the cost must be a number from 0 to 1"));
            }
            match above {
                None if level.cost < 1.0 => return Err(of("the first level has the cost 1")),
                Some(above) if level.cost >= above.cost => {
                    return Err(of("the cost must be less than that of the level before"));
                }
                _ => above = Some(level),
            }
        }
        Ok(())
    }
}

/// A setting of a feature that it cannot have.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum FeatureConfigError {
    /// The name is empty or too long.
    #[error("a name of {bytes} bytes is not between 1 and 128 bytes; shorten it")]
    Name {
        /// Its bytes.
        bytes: usize,
    },
    /// The utility is no positive number.
    #[error("utility {utility} is not above 0; use what the feature is worth beside others, as 1 or 3")]
    Utility {
        /// The utility.
        utility: f64,
    },
    /// The time between two changes is too long.
    #[error("min_dwell {min_dwell:?} is longer than a day; use a shorter time")]
    MinDwell {
        /// The time.
        min_dwell: Duration,
    },
    /// The grace is too long.
    #[error("grace {grace:?} is longer than an hour; use a shorter time")]
    Grace {
        /// The grace.
        grace: Duration,
    },
    /// The levels are too few or too many.
    #[error("{count} levels are not between 2 and 16; list the best, and the worst down to `off`")]
    LevelCount {
        /// The number of levels.
        count: usize,
    },
    /// A level has a setting that it cannot have.
    #[error("level \"{level}\": {problem}; change it")]
    Level {
        /// The name of the level.
        level: String,
        /// The setting and what it must be.
        problem: &'static str,
    },
}

//! The load levels of a resource, and their thresholds.

use core::time::Duration;

/// How loaded a resource is, by the use of what it has. Features, deferral and scaling follow it;
/// the admission cursor does not.
///
/// ```
/// # use tidegate_overload::LoadLevel;
/// assert!(LoadLevel::Soft < LoadLevel::Emergency);
/// assert_eq!(LoadLevel::Brownout.as_str(), "brownout");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum LoadLevel {
    /// There is room.
    #[default]
    Normal,
    /// Time to ask for more capacity.
    Soft,
    /// Features degrade.
    Brownout,
    /// Low classes are deferred.
    Hard,
    /// A part of the places is kept for the highest class.
    Emergency,
}

impl LoadLevel {
    /// All levels, the lowest first.
    pub const ALL: [Self; 5] = [Self::Normal, Self::Soft, Self::Brownout, Self::Hard, Self::Emergency];

    /// The name in metrics: `normal`, `soft`, `brownout`, `hard` or `emergency`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "normal",
            Self::Soft => "soft",
            Self::Brownout => "brownout",
            Self::Hard => "hard",
            Self::Emergency => "emergency",
        }
    }

    /// The pressure at which it is entered; 0 for [`LoadLevel::Normal`].
    pub const fn threshold(self) -> f64 {
        let enter = LevelThresholds::DEFAULT.enter;
        match self {
            Self::Normal => 0.0,
            Self::Soft => enter[0],
            Self::Brownout => enter[1],
            Self::Hard => enter[2],
            Self::Emergency => enter[3],
        }
    }
}

/// When a level is entered and left.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct LevelThresholds {
    /// The pressure at which each level above normal is entered, ascending.
    pub(crate) enter: [f64; 4],
    /// A level is held until the mean pressure is so far below.
    pub(crate) margin: f64,
    /// The time without a tick at the level after which it is left.
    pub(crate) settle: Duration,
}

impl LevelThresholds {
    pub(crate) const DEFAULT: Self =
        Self { enter: [0.70, 0.80, 0.90, 0.97], margin: 0.10, settle: Duration::from_secs(5) };
}

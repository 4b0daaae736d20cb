//! The demand of a table: how many units a second, and for which keys.

pub mod keys;
pub mod request;
pub mod shaper;

pub(super) mod arrivals;
pub(super) mod stream_source;

use serde::Serialize;

/// The demand of a table over the run, in phases.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Demand {
    /// Keys of the table, 1 to [`Demand::KEYS_MAX`].
    pub keys: u32,
    /// Units of each request, 1 to [`Demand::UNITS_MAX`].
    pub units: u32,
    /// The phases. Each begins where the one before it ends; the last one lasts to the end.
    pub phases: Vec<Phase>,
}

impl Demand {
    /// The most keys.
    pub const KEYS_MAX: u32 = 1_000_000;
    /// The most units of one request.
    pub const UNITS_MAX: u32 = 400;
}

/// A time of steady demand.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Phase {
    /// When it begins, in seconds.
    pub from: f64,
    /// Units asked for, a second.
    pub units_per_second: f64,
    /// The keys asked for.
    pub pattern: Pattern,
}

/// The keys that requests ask for.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Pattern {
    /// All alike.
    Uniform,
    /// By Zipf's law: the key of rank `k` in proportion to `k^-exponent`.
    Zipf {
        /// The exponent, above 0 and at most 4.
        exponent: f64,
    },
    /// A part of the requests for the keys of one configured partition, which changes; the others
    /// for all keys alike.
    HotPartition {
        /// The part, in hundredths.
        percent: u32,
        /// Seconds until another partition is hot.
        every: u32,
    },
    /// A part of the requests for one key; the others for all keys alike.
    OneKey {
        /// The part, in hundredths.
        percent: u32,
    },
    /// A part of the requests for new keys, each right behind the one before it, which pass through
    /// one configured partition in a minute; the others for all keys alike.
    Tail {
        /// The part, in hundredths.
        percent: u32,
    },
    /// The same arrivals as `Tail` with the order of the new keys permuted: each of them lies at a
    /// scattered place of one configured partition, so that the tail is a hot range that stays. All
    /// other keys lie where they lay.
    ScatteredTail {
        /// The part, in hundredths.
        percent: u32,
    },
}

impl Pattern {
    /// The part of the requests that do not ask for all keys alike, in hundredths; `None` where all
    /// of them follow one law.
    pub(crate) const fn percent(self) -> Option<u32> {
        match self {
            Self::Uniform | Self::Zipf { .. } => None,
            Self::HotPartition { percent, .. }
            | Self::OneKey { percent }
            | Self::Tail { percent }
            | Self::ScatteredTail { percent } => Some(percent),
        }
    }
}

impl Demand {
    /// The phase at `seconds`.
    pub(crate) fn phase_at(&self, seconds: f64) -> usize {
        self.phases.iter().rposition(|phase| phase.from <= seconds).unwrap_or(0)
    }

    /// Whether most requests are for new keys in order at `seconds`.
    pub(crate) fn is_tail_at(&self, seconds: f64) -> bool {
        matches!(self.phases[self.phase_at(seconds)].pattern, Pattern::Tail { .. })
    }

    /// The units asked for a second at `seconds`.
    pub(crate) fn rate_at(&self, seconds: f64) -> f64 {
        self.phases[self.phase_at(seconds)].units_per_second
    }
}

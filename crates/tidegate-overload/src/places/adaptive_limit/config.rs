//! The settings of an adaptive limit, checked.

use core::time::Duration;

use thiserror::Error;

/// How the limit is found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum LimitAlgorithm {
    /// TCP Vegas on the median latency with a verified baseline, a covariance veto and a latency
    /// ceiling; the default.
    #[default]
    Vegas,
    /// One more for each good window, a tenth less after a failure (Netflix concurrency-limits).
    Aimd,
    /// Gradient2 (Netflix concurrency-limits), for comparison: grows to the maximum under constant
    /// timeouts.
    Gradient,
}

/// The settings of an [`AdaptiveLimit`](crate::AdaptiveLimit).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdaptiveLimitConfig {
    /// The algorithm; default Vegas.
    pub algorithm: LimitAlgorithm,
    /// The smallest limit, from 1 on; default 4. Below 4 a single slow request is a large part of
    /// what a decision is made from.
    pub min: u32,
    /// The largest limit, at most [`Self::LIMIT_MAX`]; default 1000.
    pub max: u32,
    /// The first limit, `min` to `max`; default 20.
    pub initial: u32,
    /// The median latency above which the limit falls whatever the baseline says; above zero;
    /// default none. Only [`LimitAlgorithm::Vegas`] uses it.
    pub ceiling: Option<Duration>,
    /// A success that took this long or longer counts as a failure; above zero; default 5 s.
    pub timeout: Duration,
    /// The shortest time between two decisions, 100 ms to [`Self::WINDOW_MAX`]; default 1 s.
    pub window: Duration,
    /// The samples that a decision needs at least, from 1 on; default 10. A window that does not
    /// get them within [`Self::WINDOW_MAX`] is discarded.
    pub samples_min: u32,
}

impl AdaptiveLimitConfig {
    /// The largest value of `max`.
    pub const LIMIT_MAX: u32 = 1_000_000;
    /// The longest window, and the age at which a window with too few samples is discarded.
    pub const WINDOW_MAX: Duration = Duration::from_secs(30);

    /// Checks the settings. Fails with the first problem found.
    pub fn check(&self) -> Result<(), AdaptiveLimitError> {
        let Self { min, max, initial, window, samples_min, .. } = *self;
        if min == 0 {
            return Err(AdaptiveLimitError::MinZero);
        }
        if max < min || max > Self::LIMIT_MAX {
            return Err(AdaptiveLimitError::Max { max, min });
        }
        if !(min..=max).contains(&initial) {
            return Err(AdaptiveLimitError::Initial { initial, min, max });
        }
        if self.ceiling.is_some_and(|ceiling| ceiling.is_zero()) {
            return Err(AdaptiveLimitError::CeilingZero);
        }
        if self.timeout.is_zero() {
            return Err(AdaptiveLimitError::TimeoutZero);
        }
        if window < crate::TICK || window > Self::WINDOW_MAX {
            return Err(AdaptiveLimitError::Window { window });
        }
        if samples_min == 0 {
            return Err(AdaptiveLimitError::SamplesZero);
        }
        Ok(())
    }
}

impl Default for AdaptiveLimitConfig {
    fn default() -> Self {
        Self {
            algorithm: LimitAlgorithm::Vegas,
            min: 4,
            max: 1000,
            initial: 20,
            ceiling: None,
            timeout: Duration::from_secs(5),
            window: Duration::from_secs(1),
            samples_min: 10,
        }
    }
}

/// A setting that cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum AdaptiveLimitError {
    /// `min` is 0, which would stop all work, and all samples with it.
    #[error("adaptive limit: `min` 0 would stop all work for good; use at least 1")]
    MinZero,
    /// `max` is below `min` or too large.
    #[error(
        "adaptive limit: `max` {max} is outside `min` {min} to {limit}; use a value between them",
        limit = AdaptiveLimitConfig::LIMIT_MAX
    )]
    Max {
        /// The value.
        max: u32,
        /// The smallest limit.
        min: u32,
    },
    /// `initial` is outside the bounds.
    #[error("adaptive limit: `initial` {initial} is outside {min} to {max}; use a value between them")]
    Initial {
        /// The value.
        initial: u32,
        /// The smallest limit.
        min: u32,
        /// The largest limit.
        max: u32,
    },
    /// `ceiling` is zero.
    #[error("adaptive limit: `ceiling` 0 is below any latency; use more, or remove `ceiling`")]
    CeilingZero,
    /// `timeout` is zero.
    #[error("adaptive limit: `timeout` 0 makes every request a failure; use a longer one, such as 5s")]
    TimeoutZero,
    /// `window` is outside its range.
    #[error("adaptive limit: `window` {window:?} is outside 100ms to 30s; use 1s, or a value between them")]
    Window {
        /// The value.
        window: Duration,
    },
    /// `samples_min` is 0.
    #[error("adaptive limit: `samples_min` 0 decides from nothing; use at least 1")]
    SamplesZero,
}

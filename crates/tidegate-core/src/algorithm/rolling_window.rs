//! The numbers of the two algorithms that keep more than a word for each key.

use core::time::Duration;

use super::error::{AlgorithmError, WINDOW_MAX, WINDOW_MIN};
use crate::time::duration_nanos;

/// Never more than `limit` units in *any* window; the instants are kept in [`crate::ring`].
///
/// ```
/// # use std::time::Duration;
/// # use tidegate_core::algorithm::Rolling;
/// # use tidegate_core::{Algorithm, Cost, Gate, Limit, Timestamp};
/// let rolling = Algorithm::Rolling(Rolling::new(2, Duration::from_secs(10))?);
/// let gate = Gate::builder("api").limit(Limit::new("logins", rolling)).build()?;
/// let admitted = [0, 8, 9, 10, 11].map(|second| {
///     gate.check((), Cost::ONE, Timestamp::from_secs(1_800_000_000 + second)).is_admit()
/// });
/// assert_eq!(admitted, [true, true, false, true, false]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rolling {
    limit: u64,
    window: Duration,
}

impl Rolling {
    /// The largest limit: each unit keeps an instant of 4 bytes, so 4 MiB for one key.
    pub const LIMIT_MAX: u64 = 1 << 20;

    /// At most `limit` units in any `window`; 0 admits nothing, at most [`Rolling::LIMIT_MAX`].
    pub fn new(limit: u64, window: Duration) -> Result<Self, AlgorithmError> {
        if !(WINDOW_MIN..=WINDOW_MAX).contains(&window) {
            return Err(AlgorithmError::Window(window));
        }
        if limit > Self::LIMIT_MAX {
            return Err(AlgorithmError::LimitTooLarge { limit, largest: Self::LIMIT_MAX });
        }
        Ok(Self { limit, window })
    }

    /// The numbers under which rings of retired specs are kept: the largest limit, and the window
    /// rounded up to a power of two. A ring itself reports when it has drained; these numbers only
    /// decide when to check again.
    pub(crate) fn at_rest(self) -> Self {
        let window = Duration::from_nanos(duration_nanos(self.window).next_power_of_two()).min(WINDOW_MAX);
        Self { limit: Self::LIMIT_MAX, window }
    }

    /// The most units in any window.
    pub const fn limit(&self) -> u64 {
        self.limit
    }

    /// The length of the window.
    pub const fn window(&self) -> Duration {
        self.window
    }
}

/// At most `limit` permits held at once; each expires after `hold` unless given back before.
///
/// It counts requests: a request takes one permit whatever it costs. Permits are kept in
/// [`crate::permits`].
///
/// ```
/// # use std::time::Duration;
/// # use tidegate_core::algorithm::Concurrency;
/// # use tidegate_core::{Algorithm, Cost, Gate, Limit, Timestamp};
/// let exports = Algorithm::Concurrency(Concurrency::new(1, Duration::from_secs(30))?);
/// let gate = Gate::builder("api").limit(Limit::new("exports", exports)).build()?;
/// let at = |second: u64| Timestamp::from_secs(1_800_000_000 + second);
/// let _held = gate.check((), Cost::ONE, at(0)).into_result()?;
/// assert!(!gate.check((), Cost::ONE, at(29)).is_admit());
/// // The permit was not given back, so it expires.
/// assert!(gate.check((), Cost::ONE, at(30)).is_admit());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Concurrency {
    limit: u64,
    hold: Duration,
}

impl Concurrency {
    /// The largest limit; a permit keeps 24 bytes, so 1.5 MiB for one key.
    pub const LIMIT_MAX: u64 = 1 << 16;

    /// The numbers under which permits of retired specs are kept. Permits carry their own expiry.
    pub(crate) const AT_REST: Self = Self { limit: Self::LIMIT_MAX, hold: WINDOW_MAX };

    /// At most `limit` permits at once, each for at most `hold`; limit 0 admits nothing.
    pub fn new(limit: u64, hold: Duration) -> Result<Self, AlgorithmError> {
        if !(WINDOW_MIN..=WINDOW_MAX).contains(&hold) {
            return Err(AlgorithmError::Hold(hold));
        }
        if limit > Self::LIMIT_MAX {
            return Err(AlgorithmError::LimitTooLarge { limit, largest: Self::LIMIT_MAX });
        }
        Ok(Self { limit, hold })
    }

    /// The most permits held at once.
    pub const fn limit(&self) -> u64 {
        self.limit
    }

    /// How long a permit lasts if it is not released.
    pub const fn hold(&self) -> Duration {
        self.hold
    }
}

//! The limits that cannot be held by a remote holder: an Envoy, which decides by a token bucket of
//! its own and reports afterwards.

use super::{LIFETIME_MAX, NUMBER_MAX, Terms, TermsError};
use crate::algorithm::Algorithm;
use crate::limit::Consistency;
use crate::rate::Rate;
use crate::time::{Timestamp, duration_nanos};

/// The least burst of a limit that remote holders can share. A part is at least one token, and
/// each holder has the tokens of its part in hand: with less, the first few holders have it all.
pub const REMOTE_BURST_MIN: u64 = 16;

/// The longest time in which a limit of remote holders gives a unit: a minute. A token of a slower
/// one would outlast the assignment that brought it.
pub const REMOTE_UNIT_MAX: core::time::Duration = core::time::Duration::from_mins(1);

/// The most units a second of a limit that remote holders share: 1 667 999. Every store then counts
/// exactly what its leases release in [`LIFETIME_MAX`], in parts of the longest lease period.
pub const REMOTE_RATE_MAX: u64 = NUMBER_MAX / LIFETIME_MAX.as_micros() as u64 / Terms::PERIOD_MAX.as_secs();

/// Why a limit cannot be held by an Envoy. The text is `what; fix`, without the name of the limit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RemoteObstacle {
    /// A rolling window, of either accuracy.
    #[error("`rolling` counts in a window, and an Envoy has a token bucket; use `rate`, or Envoy's RLS")]
    Rolling,
    /// A fixed or calendar window, by its name in a policy.
    #[error("`{0}` counts in a window, and an Envoy has a token bucket; use `rate`, or Envoy's RLS")]
    Window(&'static str),
    /// Permits that are held and given back.
    #[error(
        "`concurrency` needs the end of each request; use `circuit_breakers` of the cluster in Envoy, or the proxy"
    )]
    Concurrency,
    /// A rate over an hour or longer.
    #[error(
        "rate {0} is over an hour or longer, and an Envoy that stops would take its part with it; use a rate over less than an hour, or Envoy's RLS"
    )]
    Quota(Rate),
    /// Decided in the store, request by request.
    #[error("`consistency: exact` asks the store at each request; use `consistency: leased`, or Envoy's RLS")]
    Exact,
    /// Slower than a unit each [`REMOTE_UNIT_MAX`].
    #[error("rate {0} gives less than one a minute; use at least 1/m, or Envoy's RLS")]
    Slow(Rate),
    /// Faster than [`REMOTE_RATE_MAX`].
    #[error(
        "rate {0} is above {REMOTE_RATE_MAX}/s, the most that an Envoy's lease counts; use a lower rate, or Envoy's RLS"
    )]
    Fast(Rate),
    /// A burst below [`REMOTE_BURST_MIN`].
    #[error("burst {0} is too little to share; use at least {REMOTE_BURST_MIN}, or Envoy's RLS")]
    Burst(u64),
    /// Numbers that cannot be leased at all.
    #[error(transparent)]
    Terms(#[from] TermsError),
}

impl RemoteObstacle {
    /// A word for logs and metrics.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Rolling => "rolling",
            Self::Window(_) => "window",
            Self::Concurrency => "concurrency",
            Self::Quota(_) => "quota",
            Self::Exact => "exact",
            Self::Slow(_) => "slow",
            Self::Fast(_) => "fast",
            Self::Burst(_) => "burst",
            Self::Terms(_) => "numbers",
        }
    }
}

/// Why a limit with these numbers, decided there, cannot be held by an Envoy; `None` if it can.
///
/// A limit that each member decides alone has no obstacle here: the member is its ledger.
///
/// ```
/// # use tidegate_core::lease::remote_obstacle;
/// # use tidegate_core::limit::Consistency;
/// # use tidegate_core::{Algorithm, Rate};
/// let obstacle = |rate: Rate| remote_obstacle(&Algorithm::bucket(rate).unwrap(), Consistency::Leased);
/// assert_eq!(obstacle("20/s".parse()?), None);
/// let text = obstacle("5/s".parse()?).unwrap().to_string();
/// assert_eq!(text, "burst 5 is too little to share; use at least 16, or Envoy's RLS");
/// # Ok::<(), tidegate_core::RateError>(())
/// ```
pub fn remote_obstacle(algorithm: &Algorithm, consistency: Consistency) -> Option<RemoteObstacle> {
    let bucket = match algorithm {
        Algorithm::Bucket(bucket) => bucket,
        Algorithm::Rolling(_) | Algorithm::SlidingCounter(_) => return Some(RemoteObstacle::Rolling),
        Algorithm::Concurrency(_) => return Some(RemoteObstacle::Concurrency),
        Algorithm::Fixed(_) => return Some(RemoteObstacle::Window(algorithm.name())),
        #[cfg(feature = "calendar")]
        Algorithm::Calendar(_) => return Some(RemoteObstacle::Window(algorithm.name())),
    };
    let rate = bucket.rate();
    let (units, per_ns) = (u128::from(rate.units()), u128::from(rate.per_ns()));
    let is_slow = units * u128::from(duration_nanos(REMOTE_UNIT_MAX)) < per_ns;
    let is_fast = units * 1_000_000_000 > u128::from(REMOTE_RATE_MAX) * per_ns;
    if algorithm.is_quota() {
        Some(RemoteObstacle::Quota(rate))
    } else if consistency == Consistency::Exact {
        Some(RemoteObstacle::Exact)
    } else if is_slow {
        Some(RemoteObstacle::Slow(rate))
    } else if is_fast {
        Some(RemoteObstacle::Fast(rate))
    } else if bucket.burst() < REMOTE_BURST_MIN {
        Some(RemoteObstacle::Burst(bucket.burst()))
    } else {
        // The terms of a bucket are the same at each instant.
        Terms::from_algorithm(algorithm, Timestamp::from_nanos(0)).err().map(RemoteObstacle::Terms)
    }
}

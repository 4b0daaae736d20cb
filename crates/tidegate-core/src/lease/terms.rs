//! The numbers of a leased limit: what ledger and holder both have to know, and nothing that
//! changes with a key.

use core::time::Duration;

use super::fault::Fault;
use super::{LEASED_PER_S, LENT_MAX, NUMBER_MAX, UNLEASED_PER_S};
use crate::algorithm::{Algorithm, WindowStart};
use crate::planted_fault::planted;
use crate::rate::gcd;
use crate::time::Timestamp;

/// The numbers of one limit under `leased`, checked.
///
/// Ledger and holder are given the same terms in every call. Made anew for every ask where the
/// limit counts in windows, as they say which window the ledger's `now` lies in; a holder does not
/// use the window and may keep old terms.
///
/// ```
/// # use std::time::Duration;
/// # use tidegate_core::algorithm::Rolling;
/// # use tidegate_core::{Algorithm, Rate, Timestamp, lease::Terms};
/// let now = Timestamp::from_secs(1_800_000_000);
/// let terms = Terms::from_algorithm(&Algorithm::bucket(Rate::per_second(1_000)?)?, now)?;
/// assert_eq!((terms.period(), terms.quota()), (Duration::from_secs(5), 5_000));
/// let rolling = Algorithm::Rolling(Rolling::new(1_000, Duration::from_secs(1))?);
/// assert!(Terms::from_algorithm(&rolling, now).is_err(), "only buckets, fixed and calendar windows are lent");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Terms {
    pub(super) kind: TermsKind,
    pub(super) period_us: u64,
    pub(super) is_quota: bool,
    /// Another [`Terms::leased_min`] and nothing unleased, for tests of few requests.
    leased_min: Option<u64>,
    fault: Option<Fault>,
}

/// Of a period's units at least one in so many is never leased: it goes into the burst, where a
/// holder that has only just come finds it before the others have renewed.
const UNLEASED_PART: u64 = 64;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum TermsKind {
    Bucket(Refill),
    Window(LeaseWindow),
}

/// A bucket that refills by `units` each `per_us` microseconds, in lowest terms.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Refill {
    pub(super) units: u64,
    pub(super) per_us: u64,
    pub(super) burst: u64,
    /// The refill in a period, rounded down: the largest sum of the rates of all leases.
    pub(super) quota: u64,
    /// Nanoseconds in which a unit refills, in parts of 2^16, rounded up.
    pub(super) unit_ns: u128,
}

impl Refill {
    /// In how many microseconds a full bucket drains, rounded up.
    pub(super) fn drain_us(&self) -> u64 {
        let drains = (u128::from(self.burst) * u128::from(self.per_us)).div_ceil(self.units.into());
        u64::try_from(drains).unwrap_or(u64::MAX)
    }
}

/// A window that may take `limit`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct LeaseWindow {
    pub(super) limit: u64,
    /// The earliest instant at which a window that lasts at `now` may have begun.
    pub(super) start_us: u64,
    pub(super) end_us: u64,
    /// The end of the window after it.
    pub(super) next_end_us: u64,
}

/// Why an algorithm cannot be leased. The text names the value and the fix, without the name of the
/// limit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TermsError {
    /// Only buckets, fixed and calendar windows are lent.
    #[error(
        "`{0}` cannot be leased; use `consistency: exact` or `local`, or a rate, fixed or calendar limit"
    )]
    Algorithm(&'static str),
    /// The rate gives more in a period than a lease can hold.
    #[error("{0} units in a lease period are more than {max}, the most that is lent; count in larger units", max = LENT_MAX)]
    TooFast(u64),
    /// The burst or the limit of a window is too large to count in every store.
    #[error("limit {0} is above {max}, the largest that every store counts exactly; count in larger units", max = Terms::LIMIT_MAX)]
    TooLarge(u64),
    /// The span of the rate is both long and no multiple of a microsecond.
    #[error("a rate over {0}ns cannot be counted exactly in microseconds; use a span of whole microseconds")]
    Span(u64),
    /// The period is out of range.
    #[error("lease period {period} is not between 4 s and 60 s; use a few seconds", period = crate::display::HumanDuration(*.0))]
    Period(Duration),
}

impl Terms {
    /// How long a lease lasts by default.
    pub const PERIOD: Duration = Duration::from_secs(5);
    /// The shortest lease: with a shorter one, a key with a hundred requests a second at each of
    /// its members costs more than one call to the store in four hundred decisions.
    pub const PERIOD_MIN: Duration = Duration::from_secs(4);
    /// The longest lease: what a member that died takes with it is missing for that long.
    pub const PERIOD_MAX: Duration = Duration::from_mins(1);
    /// The largest burst, or limit of a window: 2^52 - 1.
    pub const LIMIT_MAX: u64 = NUMBER_MAX / 2;

    /// The terms of `algorithm`; of windows those of the window that holds `now`, the ledger's
    /// time.
    ///
    /// A bucket that may be overdrawn is lent without its debt.
    pub fn from_algorithm(algorithm: &Algorithm, now: Timestamp) -> Result<Self, TermsError> {
        let kind = match algorithm {
            Algorithm::Bucket(bucket) => {
                // Units a microsecond, as a ratio in lowest terms.
                let (units, per) =
                    (u128::from(bucket.rate().units()) * 1000, u128::from(bucket.rate().per_ns()));
                let divisor = gcd(units, per);
                let (units, per_us) = (units / divisor, per / divisor);
                if per_us >= 1 << 45 || units > u128::from(NUMBER_MAX) {
                    return Err(TermsError::Span(bucket.rate().per_ns()));
                }
                let (units, per_us) = (units as u64, per_us as u64);
                let unit_ns = ((u128::from(per_us) * 1000) << UNIT_BITS).div_ceil(units.into());
                TermsKind::Bucket(Refill {
                    units,
                    per_us,
                    burst: checked(bucket.burst())?,
                    quota: 0,
                    unit_ns,
                })
            }
            Algorithm::Fixed(fixed) => {
                let limit = checked(fixed.limit())?;
                let window = u64::try_from(fixed.window().as_micros()).unwrap_or(u64::MAX).max(1);
                let now = micros(now);
                let (start_us, end_us, next_end_us) = match fixed.start() {
                    WindowStart::Epoch => {
                        // A border within a microsecond counts as its end; the holder's margin is
                        // larger than that.
                        let ns = u64::try_from(fixed.window().as_nanos()).unwrap_or(u64::MAX);
                        let index = now.saturating_mul(1000) / ns;
                        (
                            index.saturating_mul(ns).div_ceil(1000),
                            (index.saturating_add(1).saturating_mul(ns)).div_ceil(1000),
                            (index.saturating_add(2).saturating_mul(ns)).div_ceil(1000),
                        )
                    }
                    WindowStart::FirstHit => (
                        now.saturating_sub(window),
                        now.saturating_add(window),
                        now.saturating_add(window.saturating_mul(2)),
                    ),
                };
                TermsKind::Window(LeaseWindow { limit, start_us, end_us, next_end_us })
            }
            #[cfg(feature = "calendar")]
            Algorithm::Calendar(calendar) => {
                let (start, end) = calendar.window_bounds(now);
                TermsKind::Window(LeaseWindow {
                    limit: checked(calendar.limit())?,
                    start_us: micros(start),
                    end_us: micros(end),
                    next_end_us: micros(calendar.next_end(end)),
                })
            }
            other => return Err(TermsError::Algorithm(other.name())),
        };
        Self { kind, period_us: 0, is_quota: algorithm.is_quota(), leased_min: None, fault: planted() }
            .with_period(Self::PERIOD)
    }

    /// The [terms](Terms::from_algorithm) of `algorithm`, [with leases](Terms::with_period) of
    /// `period`.
    pub fn for_period(algorithm: &Algorithm, period: Duration, now: Timestamp) -> Result<Self, TermsError> {
        Self::from_algorithm(algorithm, now)?.with_period(period)
    }

    /// The same with leases of `period`, from [`Terms::PERIOD_MIN`] to [`Terms::PERIOD_MAX`];
    /// default [`Terms::PERIOD`].
    pub fn with_period(mut self, period: Duration) -> Result<Self, TermsError> {
        if !(Self::PERIOD_MIN..=Self::PERIOD_MAX).contains(&period) {
            return Err(TermsError::Period(period));
        }
        self.period_us = period.as_micros() as u64;
        let lent_max = self.lent_max();
        if let TermsKind::Bucket(refill) = &mut self.kind {
            let quota = u128::from(refill.units) * u128::from(self.period_us) / u128::from(refill.per_us);
            refill.quota = u64::try_from(quota).unwrap_or(u64::MAX);
            if refill.quota > lent_max {
                return Err(TermsError::TooFast(refill.quota));
            }
        }
        Ok(self)
    }

    /// The same with a mistake built in, for tests of the tests.
    #[cfg(tidegate_planted_faults)]
    #[must_use]
    pub fn with_fault(self, fault: Fault) -> Self {
        Self { fault: Some(fault), ..self }
    }

    /// The same with leases ahead from a demand of so many units each period and nothing left
    /// unleased, for models of few requests.
    #[doc(hidden)]
    #[must_use]
    pub fn with_leased_min(self, units: u64) -> Self {
        Self { leased_min: Some(units), ..self }
    }

    /// How long a lease lasts; the rate of a grant is over this span.
    pub const fn period(&self) -> Duration {
        Duration::from_micros(self.period_us)
    }

    /// The largest cost that is ever admitted: the burst, or the limit of a window.
    pub const fn largest(&self) -> u64 {
        match &self.kind {
            TermsKind::Bucket(refill) => refill.burst,
            TermsKind::Window(window) => window.limit,
        }
    }

    /// Units that the limit gives in a period, rounded down; 0 for windows, which give nothing
    /// until their end.
    pub const fn quota(&self) -> u64 {
        match &self.kind {
            TermsKind::Bucket(refill) => refill.quota,
            TermsKind::Window(_) => 0,
        }
    }

    /// Whether the limit is a quota, which after a loss waits for its window's end or an
    /// acknowledgement.
    pub const fn is_quota(&self) -> bool {
        self.is_quota
    }

    /// Demand in units each period from which a holder is leased a rate, [`LEASED_PER_S`]; below it
    /// is granted what waits, request by request. A bucket whose burst is less than a second of its
    /// rate takes as much more, up to a quarter of the rate, as there is less to make up for tokens
    /// that lie at the wrong member.
    pub fn leased_min(&self) -> u64 {
        let least = LEASED_PER_S * self.period_us / 1_000_000;
        match &self.kind {
            _ if self.leased_min.is_some() => self.leased_min.unwrap_or(0),
            // A limit that gives less never leases anything ahead.
            TermsKind::Bucket(refill) if refill.quota < least => NUMBER_MAX,
            TermsKind::Bucket(refill) => {
                let more = LEASED_PER_S.saturating_mul(refill.quota) / refill.burst;
                least.max(more.min(refill.quota / 4))
            }
            TermsKind::Window(_) => least,
        }
    }

    /// Units of a period that are never leased, of a bucket.
    pub fn unleased(&self) -> u64 {
        if self.leased_min.is_some() {
            return 0;
        }
        (self.quota() / UNLEASED_PART).max(UNLEASED_PER_S * self.period_us / 1_000_000).min(self.quota())
    }

    /// Units of a period that are never leased to a remote holder: a 64th, and at least one. More
    /// would be of no use to Envoys, which spend by their rates.
    pub(super) fn unleased_remote(&self) -> u64 {
        (self.quota() / UNLEASED_PART).max(1).min(self.quota() / 2)
    }

    /// Until when a loss in the epoch that began at `began_us` matters to the limit: of a quota
    /// until all that may have been used before has drained or its window has ended. 0 if it does
    /// not, or if the epoch begins more than a drain after `now_us`: the clock had been ahead.
    pub(super) fn lost_until_us(&self, began_us: u64, now_us: u64) -> u64 {
        match &self.kind {
            _ if !self.is_quota => 0,
            TermsKind::Bucket(refill) if began_us > now_us.saturating_add(refill.drain_us()) => 0,
            TermsKind::Bucket(refill) => began_us.saturating_add(refill.drain_us()),
            TermsKind::Window(window) if began_us >= window.start_us => window.end_us,
            TermsKind::Window(_) => 0,
        }
    }

    /// The most tokens one holder has at once, so that they can be counted in parts of a period.
    pub(super) fn lent_max(&self) -> u64 {
        (NUMBER_MAX / self.period_us).min(LENT_MAX)
    }

    /// Of what parts a unit of the rate's remainder is; 1 for windows.
    pub(super) const fn per_us(&self) -> u64 {
        match &self.kind {
            TermsKind::Bucket(refill) => refill.per_us,
            TermsKind::Window(_) => 1,
        }
    }

    /// Whether the mistake is planted; always false without the cfg.
    pub(super) fn has(&self, fault: Fault) -> bool {
        cfg!(tidegate_planted_faults) && self.fault == Some(fault)
    }
}

/// Of what parts of a nanosecond [`Refill::unit_ns`] counts, as a power of two.
pub(super) const UNIT_BITS: u32 = 16;

fn checked(limit: u64) -> Result<u64, TermsError> {
    if limit > Terms::LIMIT_MAX { Err(TermsError::TooLarge(limit)) } else { Ok(limit) }
}

/// Whole microseconds since 1970, rounded down: how a ledger tells time. Below 2^53 until the
/// year 2255.
pub(super) const fn micros(now: Timestamp) -> u64 {
    now.as_nanos() / 1000
}

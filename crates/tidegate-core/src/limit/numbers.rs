//! Limits in the words of a policy: a name, the numbers of one algorithm, and settings of it.

use super::{Limit, LimitError, LimitProblem};
use crate::algorithm::{Algorithm, Bucket, Concurrency, Fixed, Rolling, SlidingCounter, WindowStart};
use crate::rate::{Rate, TimeSpan};

impl Limit {
    /// A token bucket: so many units for each span, such as `"100/s"` or [`Rate`]. It holds the
    /// units of the rate unless [`Limit::burst`] says otherwise.
    ///
    /// ```
    /// # use tidegate_core::Limit;
    /// let limit = Limit::rate("per-user", "100/s")?.burst(200).key(["user"]);
    /// # Ok::<(), tidegate_core::limit::LimitError>(())
    /// ```
    pub fn rate<R>(name: impl Into<String>, rate: R) -> Result<Self, LimitError>
    where
        R: TryInto<Rate>,
        LimitProblem: From<R::Error>,
    {
        Self::try_new(name, || Ok(Algorithm::bucket(rate.try_into()?)?))
    }

    /// An exact sliding window: never more than `limit` units in any window of this length.
    ///
    /// ```
    /// # use tidegate_core::Limit;
    /// let limit = Limit::rolling("logins", 5, "10m")?.key(["client_ip"]);
    /// # Ok::<(), tidegate_core::limit::LimitError>(())
    /// ```
    pub fn rolling<W>(name: impl Into<String>, limit: u64, window: W) -> Result<Self, LimitError>
    where
        W: TryInto<TimeSpan>,
        LimitProblem: From<W::Error>,
    {
        Self::try_new(name, || Ok(Algorithm::Rolling(Rolling::new(limit, window.try_into()?.0)?)))
    }

    /// Windows of one length, aligned to the epoch: at most `limit` units in each.
    ///
    /// ```
    /// # use tidegate_core::Limit;
    /// let limit = Limit::fixed("exports", 20, "1h")?.key(["tenant"]);
    /// # Ok::<(), tidegate_core::limit::LimitError>(())
    /// ```
    pub fn fixed<W>(name: impl Into<String>, limit: u64, window: W) -> Result<Self, LimitError>
    where
        W: TryInto<TimeSpan>,
        LimitProblem: From<W::Error>,
    {
        Self::try_new(name, || {
            Ok(Algorithm::Fixed(Fixed::new(limit, window.try_into()?.0, WindowStart::Epoch)?))
        })
    }

    /// Civil windows: at most `limit` units in each `"minute"`, `"hour"`, `"day"`, `"week"`,
    /// `"month"` or `"year"` on the clocks of a time zone, by its IANA name.
    ///
    /// ```
    /// # use tidegate_core::Limit;
    /// let limit = Limit::calendar("daily", 1000, "day", "America/Los_Angeles")?.key(["account"]);
    /// # Ok::<(), tidegate_core::limit::LimitError>(())
    /// ```
    #[cfg(feature = "calendar")]
    pub fn calendar<U>(name: impl Into<String>, limit: u64, unit: U, zone: &str) -> Result<Self, LimitError>
    where
        U: TryInto<crate::algorithm::CivilUnit>,
        LimitProblem: From<U::Error>,
    {
        Self::try_new(name, || {
            Ok(Algorithm::Calendar(crate::algorithm::Calendar::new(limit, unit.try_into()?, zone)?))
        })
    }

    /// Permits: at most `limit` requests at once. A permit that is not given back expires after
    /// `hold`, the longest time that a request may take.
    ///
    /// ```
    /// # use tidegate_core::Limit;
    /// let limit = Limit::concurrency("parallel", 32, "30s")?.key(["tenant"]);
    /// # Ok::<(), tidegate_core::limit::LimitError>(())
    /// ```
    pub fn concurrency<H>(name: impl Into<String>, limit: u64, hold: H) -> Result<Self, LimitError>
    where
        H: TryInto<TimeSpan>,
        LimitProblem: From<H::Error>,
    {
        Self::try_new(name, || Ok(Algorithm::Concurrency(Concurrency::new(limit, hold.try_into()?.0)?)))
    }

    fn try_new(
        name: impl Into<String>,
        algorithm: impl FnOnce() -> Result<Algorithm, LimitProblem>,
    ) -> Result<Self, LimitError> {
        let name = name.into();
        match algorithm() {
            Ok(algorithm) => Ok(Self::new(name, algorithm)),
            Err(problem) => Err(LimitError { limit: name, problem }),
        }
    }

    /// Sets how many units the bucket of a [rate](Limit::rate) holds, which is what a caller that
    /// was quiet may use at once; at least 1. Building a gate fails for 0, and for other limits.
    #[must_use]
    pub fn burst(self, burst: u64) -> Self {
        let changed = match &self.algorithm {
            Algorithm::Bucket(bucket) => {
                let new = Bucket::new(bucket.rate(), burst).and_then(|new| new.with_debt(bucket.debt()));
                new.map(Algorithm::Bucket).map_err(LimitProblem::from)
            }
            other => Err(foreign("burst", "`rate`", other)),
        };
        self.with_algorithm(changed)
    }

    /// Sets how many units a request may overdraw the bucket of a [rate](Limit::rate) by, as long
    /// as at least one is left. They are paid back before anything else is admitted. Default 0.
    #[must_use]
    pub fn debt(self, debt: u64) -> Self {
        let changed = match &self.algorithm {
            Algorithm::Bucket(bucket) => {
                bucket.clone().with_debt(debt).map(Algorithm::Bucket).map_err(LimitProblem::from)
            }
            other => Err(foreign("debt", "`rate`", other)),
        };
        self.with_algorithm(changed)
    }

    /// Counts a [rolling](Limit::rolling) window in one word, approximately; the error is in
    /// [`SlidingCounter`].
    #[must_use]
    pub fn approximate(self) -> Self {
        let changed = match &self.algorithm {
            Algorithm::Rolling(rolling) => SlidingCounter::new(rolling.limit(), rolling.window())
                .map(Algorithm::SlidingCounter)
                .map_err(LimitProblem::from),
            other => Err(foreign("approximate", "`rolling`", other)),
        };
        self.with_algorithm(changed)
    }

    /// Begins each [fixed](Limit::fixed) window of a key with the first request in it, instead of
    /// at a multiple of its length.
    #[must_use]
    pub fn from_first_hit(self) -> Self {
        let changed = match &self.algorithm {
            Algorithm::Fixed(fixed) => Fixed::new(fixed.limit(), fixed.window(), WindowStart::FirstHit)
                .map(Algorithm::Fixed)
                .map_err(LimitProblem::from),
            other => Err(foreign("from_first_hit", "`fixed`", other)),
        };
        self.with_algorithm(changed)
    }

    /// Takes the changed algorithm. The first problem is kept until a gate is built.
    fn with_algorithm(mut self, changed: Result<Algorithm, LimitProblem>) -> Self {
        match changed {
            Ok(algorithm) => self.algorithm = algorithm,
            Err(problem) => {
                self.problem.get_or_insert(problem);
            }
        }
        self
    }

    /// The first problem with the settings of the limit.
    pub(crate) fn check_settings(&self) -> Result<(), LimitError> {
        match &self.problem {
            Some(problem) => Err(LimitError { limit: self.name.clone(), problem: problem.clone() }),
            None => Ok(()),
        }
    }
}

/// The problem of a setting of other algorithms.
fn foreign(setting: &'static str, of: &'static str, algorithm: &Algorithm) -> LimitProblem {
    LimitProblem::Setting { setting, of, algorithm: algorithm.name() }
}

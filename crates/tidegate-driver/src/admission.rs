//! The public face of the driver: admission for any service, with or without HTTP.

use core::time::Duration;
use std::sync::Arc;

use tidegate_clock::Clock;
use tidegate_core::{Limit, Refusal, Timestamp};
use tidegate_engine::{
    BuildError, Decision, Engine, EngineConfig, LeaseConfig, LimitReport, NamespaceConfig, Request,
    RequestError, Step,
};
use tidegate_store::DynStore;

use crate::driver::Driver;
use crate::engine_handle::EngineHandle;
use crate::hold::Hold;
use crate::retry::{NextTry, RetrySchedule, is_lent};

/// The namespace of an admission that is built from limits alone.
pub const NAMESPACE: &str = "default";

/// The decision about a request.
#[derive(Debug)]
#[must_use = "dropping an admission settles it as abandoned"]
#[expect(clippy::large_enum_variant, reason = "a box for each admission would cost more than the move")]
pub enum Verdict {
    /// The request may go ahead. Settle the hold when the work is done.
    Admit(Hold),
    /// The request may not, and the refusal says why and when to come back.
    Refuse(Refusal),
}

impl Verdict {
    /// The hold of an admitted request, or the refusal as an error.
    #[expect(clippy::missing_errors_doc, reason = "the error is the refusal")]
    pub fn into_result(self) -> Result<Hold, Refusal> {
        match self {
            Self::Admit(hold) => Ok(hold),
            Self::Refuse(refusal) => Err(refusal),
        }
    }

    /// The refusal of a refused request.
    pub fn refusal(&self) -> Option<&Refusal> {
        match self {
            Self::Admit(_) => None,
            Self::Refuse(refusal) => Some(refusal),
        }
    }
}

/// Why [`Admission::until_ready`] returned without an admission.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UntilReadyError {
    /// No wait helps, such as for a cost that is more than the limit ever has.
    #[error("limit \"{}\" never admits this request: {}", _0.name(), _0.reason())]
    Never(Refusal),
    /// The request could not be decided.
    #[error(transparent)]
    Undecided(#[from] RequestError),
}

/// Admits requests by an engine, and drives whatever that takes: store calls, lease renewal, ticks
/// and cancellation. Clones share everything.
///
/// It runs on tokio and needs no task of its own: requests drive renewals and ticks. The first
/// request of an engine with features starts a task that ticks between requests, and ends with the
/// admission.
///
/// ```
/// # use tidegate_core::{Limit, Reason};
/// # use tidegate_driver::Admission;
/// # use tidegate_engine::Request;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let exports = Limit::concurrency("exports", 1, "30s")?;
/// let admission = Admission::builder().limit(exports).build()?;
/// let request = Request::new("default", ());
/// let hold = admission.admit(&request).await?.into_result()?;
/// let verdict = admission.admit(&request).await?;
/// assert_eq!(verdict.refusal().map(|one| one.reason()), Some(Reason::ConcurrencyExceeded));
/// hold.succeeded();
/// // The permit is free again, so this does not wait.
/// admission.until_ready(&request).await?.succeeded();
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Admission {
    driver: Driver,
}

impl Admission {
    /// An admission by this engine, without a store; or by a [`Driver`] with a store and a clock of
    /// its own.
    pub fn new(engine: impl Into<EngineHandle>) -> Self {
        Self { driver: Driver::new(engine) }
    }

    /// Builds an admission from limits.
    pub fn builder() -> AdmissionBuilder {
        AdmissionBuilder { config: EngineConfig::default(), limits: Vec::new(), store: None, clock: None }
    }

    /// The driver, to settle, replace the engine, or drive operations such as `peek`.
    pub fn driver(&self) -> &Driver {
        &self.driver
    }

    /// Decides a request. It waits for the store and for leases, where limits need them, and not
    /// for its turn.
    pub async fn admit(&self, request: &Request<'_>) -> Result<Verdict, RequestError> {
        let driver = &self.driver;
        let now = driver.now();
        driver.tick_if_due(now);
        let engine = driver.engine();
        let step = engine.admit(request, now);
        driver.renew_leases();
        let decision = match step? {
            Step::Decided(decision) => decision,
            Step::Ask(pending) => driver.drive(pending).decided().await.decision,
        };
        Ok(match decision {
            Decision::Admit(permit) => Verdict::Admit(Hold::new(driver, permit)),
            Decision::Refuse(refused) => Verdict::Refuse(refused.into_refusal()),
        })
    }

    /// Decides a request, and waits at most this long for its turn if it is refused. The last
    /// refusal is returned when the time ends, and at once where waiting that long cannot help.
    pub async fn admit_within(&self, request: &Request<'_>, wait: Duration) -> Result<Verdict, RequestError> {
        let until = self.driver.now().saturating_add(wait);
        // At its deadline a request is late already.
        let deadline = request.deadline.map(|at| at.saturating_sub(Duration::from_nanos(1)));
        self.admit_until(request, until.min(deadline.unwrap_or(Timestamp::MAX))).await
    }

    /// Waits until a request is admitted, as long as it takes. Dropping the future leaves nothing
    /// behind.
    ///
    /// A request with a deadline is not refused when it passes but fails with
    /// [`UntilReadyError::Never`].
    pub async fn until_ready(&self, request: &Request<'_>) -> Result<Hold, UntilReadyError> {
        match self.admit_until(request, Timestamp::MAX).await? {
            Verdict::Admit(hold) => Ok(hold),
            Verdict::Refuse(refusal) => Err(UntilReadyError::Never(refusal)),
        }
    }

    async fn admit_until(&self, request: &Request<'_>, until: Timestamp) -> Result<Verdict, RequestError> {
        let driver = &self.driver;
        // The engine lets the request wait for its turn. It does not wait for a block to end, for a
        // store or for room in a table; such a request is tried again from here.
        let mut request = request.may_wait_until(until);
        let mut schedule = RetrySchedule::default();
        loop {
            let refusal = match self.admit(&request).await? {
                Verdict::Refuse(refusal) => refusal,
                admitted @ Verdict::Admit(_) => return Ok(admitted),
            };
            let now = driver.now();
            let at = match schedule.next(&refusal, now) {
                NextTry::At(at) if now < until && (at <= until || is_lent(&refusal)) => at.min(until),
                NextTry::At(_) | NextTry::Never => return Ok(Verdict::Refuse(refusal)),
            };
            driver.tick_until(at).await;
            request.attempt = request.attempt.max(1);
        }
    }

    /// The state of the limits that apply to a request, without charging them.
    pub async fn peek(&self, request: &Request<'_>) -> Result<Vec<LimitReport>, RequestError> {
        let begun = self.driver.engine().peek(request, self.driver.now())?;
        Ok(self.driver.complete(begun).await?.limits)
    }

    /// Returns all leases to the store, when the program ends; whether the store has all of them.
    pub async fn close(&self) -> bool {
        self.driver.return_leases().await
    }
}

impl From<Driver> for Admission {
    fn from(driver: Driver) -> Self {
        Self { driver }
    }
}

/// Makes an [`Admission`].
///
/// ```
/// # use std::{sync::Arc, time::Duration};
/// # use tidegate_core::{Limit, Timestamp};
/// # use tidegate_driver::{Admission, ManualClock};
/// # use tidegate_engine::Request;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let clock = Arc::new(ManualClock::new(Timestamp::from_secs(1_800_000_000)));
/// let admission = Admission::builder()
///     .limit(Limit::rate("jobs", "1/s")?.key(["queue"]))
///     .clock(clock.clone())
///     .configure(|config| config.table.bytes = 1 << 20)
///     .build()?;
/// let request = Request::new("default", &[("queue", "mail")]);
/// admission.admit(&request).await?.into_result()?.succeeded();
/// assert!(admission.admit(&request).await?.refusal().is_some());
/// clock.advance(Duration::from_secs(1));
/// assert!(admission.admit(&request).await?.refusal().is_none());
/// # Ok(())
/// # }
/// ```
#[must_use = "nothing is made before `build`"]
pub struct AdmissionBuilder {
    config: EngineConfig,
    limits: Vec<Limit>,
    store: Option<Arc<dyn DynStore>>,
    clock: Option<Arc<dyn Clock>>,
}

impl AdmissionBuilder {
    /// Adds a limit of the namespace [`NAMESPACE`].
    pub fn limit(mut self, limit: Limit) -> Self {
        self.limits.push(limit);
        self
    }

    /// Adds limits of the namespace [`NAMESPACE`].
    pub fn limits(mut self, limits: impl IntoIterator<Item = Limit>) -> Self {
        self.limits.extend(limits);
        self
    }

    /// Sets the store that decides `exact` limits and grants leases. Without one, the admission is
    /// the only member and decides every limit itself. A store that several share is given as an
    /// `Arc<dyn DynStore>`.
    pub fn store(mut self, store: impl DynStore + 'static) -> Self {
        self.store = Some(Arc::new(store));
        self
    }

    /// Sets the seed of keys and names, which is random otherwise: for tests that need the same run
    /// twice. Members that share a store need different ones.
    pub fn seed(mut self, seed: [u64; 4]) -> Self {
        let EngineConfig { table, permit_key, .. } = EngineConfig::seeded(seed);
        (self.config.table.seed, self.config.permit_key) = (table.seed, permit_key);
        self
    }

    /// Sets the clock that decisions use. Default: the time of the machine.
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = Some(clock);
        self
    }

    /// Changes the configuration of the engine, such as the size of its table.
    pub fn configure(mut self, change: impl FnOnce(&mut EngineConfig)) -> Self {
        change(&mut self.config);
        self
    }

    /// Checks everything and makes the admission.
    pub fn build(mut self) -> Result<Admission, BuildError> {
        if self.store.is_some() {
            self.config.asks_store = true;
            // The seed is another one in each run of each member, so this number is too.
            let [a, b, c, d] = self.config.table.seed;
            let member = a ^ b.rotate_left(16) ^ c.rotate_left(32) ^ d.rotate_left(48);
            self.config.leases.get_or_insert_with(|| LeaseConfig::new(member));
        }
        let namespace = NamespaceConfig::new(NAMESPACE, self.limits);
        let engine = Engine::builder(self.config).namespace(namespace).build()?;
        let mut driver = Driver::new(engine);
        if let Some(store) = self.store {
            driver = driver.store(store);
        }
        if let Some(clock) = self.clock {
            driver = driver.clock(clock);
        }
        Ok(Admission { driver })
    }
}

tidegate_core::debug_fields!(AdmissionBuilder { limits });

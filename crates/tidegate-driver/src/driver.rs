//! The parts that all driven requests share: the engine in force, the clock and the store.

use core::time::Duration;
use std::sync::{Arc, Weak};

use arc_swap::Guard;
use tidegate_clock::{Clock, SystemClock};
use tidegate_core::Timestamp;
use tidegate_engine::{
    Asking, Completion, Engine, Permit, Progress, RequestError, Settled, Tick, TickAction,
};
use tidegate_store::{Answer, Batch, DynStore, StoreError};
use tokio::runtime::Handle;
use tokio::sync::Semaphore;

use crate::engine_handle::{EngineHandle, TICK_PAUSE_MIN};
use crate::store_call::{NoHooks, STORE_TIMEOUT, StoreHooks, StoreLink};
use crate::timer;
use crate::undo::{UNDOS_MAX, UndoQueue};

/// How many batches of lease asks are in flight at once. While there are as many, asks gather and
/// are sent together.
pub const RENEWALS_MAX: usize = 16;

/// Drives the requests and operations of an engine. Clones share everything.
///
/// ```
/// # use std::sync::Arc;
/// # use tidegate_core::{Limit, limit::Consistency};
/// # use tidegate_driver::Driver;
/// # use tidegate_engine::{Decision, Engine, EngineConfig, NamespaceConfig, Outcome, Request};
/// # use tidegate_store::{MemoryConfig, MemoryStore};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let now = || tidegate_core::Timestamp::from(std::time::SystemTime::now());
/// # let store = Arc::new(MemoryStore::new(MemoryConfig::new([1, 2, 3, 4]), now));
/// let mut config = EngineConfig::default();
/// config.asks_store = true;
/// let daily = Limit::rate("daily", "100/1d")?.consistency(Consistency::Exact);
/// let engine = Engine::builder(config).namespace(NamespaceConfig::new("api", [daily])).build()?;
/// let driver = Driver::new(engine).store(store);
/// let request = Request::new("api", ());
/// let decision = driver.decide(&driver.handle().engine(), &request).await?;
/// let Decision::Admit(permit) = decision else { panic!("there is room") };
/// driver.settle(permit, Outcome::Succeeded);
/// let peek = driver.engine().peek(&request, driver.now())?;
/// assert_eq!(driver.complete(peek).await?.limits[0].remaining, 99);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Driver(Arc<DriverParts>);

/// A driver that is not kept: `None` from [`WeakDriver::upgrade`] once all clones are dropped.
pub(crate) struct WeakDriver(Weak<DriverParts>);

impl WeakDriver {
    pub(crate) fn upgrade(&self) -> Option<Driver> {
        self.0.upgrade().map(Driver)
    }
}

#[derive(Clone)]
struct DriverParts {
    engine: EngineHandle,
    clock: Arc<dyn Clock>,
    link: StoreLink,
    undos: UndoQueue,
    /// Places for batches of lease asks in flight.
    renewals: Arc<Semaphore>,
}

impl Driver {
    /// A driver of this engine, with the time of the machine and without a store.
    pub fn new(engine: impl Into<EngineHandle>) -> Self {
        let link = StoreLink { store: None, timeout: STORE_TIMEOUT, hooks: Arc::new(NoHooks) };
        Self(Arc::new(DriverParts {
            engine: engine.into(),
            clock: Arc::new(SystemClock::new()),
            link,
            undos: UndoQueue::new(UNDOS_MAX),
            renewals: Arc::new(Semaphore::new(RENEWALS_MAX)),
        }))
    }

    /// Sets the store that decides limits of an engine with `EngineConfig::asks_store`. Without a
    /// store, such limits are decided as their `on_store_failure` says.
    ///
    /// This and the other settings change this driver only, not its clones.
    #[must_use]
    pub fn store(self, store: Arc<dyn DynStore>) -> Self {
        self.with(|parts| parts.link.store = Some(store))
    }

    /// Sets how long one store call may take. Default [`STORE_TIMEOUT`]. Zero never waits for a
    /// store that does not answer at once.
    #[must_use]
    pub fn store_timeout(self, timeout: Duration) -> Self {
        self.with(|parts| parts.link.timeout = timeout)
    }

    /// Sets the hooks by which the program takes part in store calls.
    #[must_use]
    pub fn hooks(self, hooks: Arc<dyn StoreHooks>) -> Self {
        self.with(|parts| parts.link.hooks = hooks)
    }

    /// Sets how many batches may wait to be undone. Default [`UNDOS_MAX`]; half of them is
    /// guaranteed to the namespaces in equal shares. One more is not undone, and is reported to
    /// [`StoreHooks::undo_failed`].
    #[must_use]
    pub fn undos_max(self, max: usize) -> Self {
        self.with(|parts| parts.undos = UndoQueue::new(max))
    }

    /// Sets the clock that decisions use.
    #[must_use]
    pub fn clock(self, clock: Arc<dyn Clock>) -> Self {
        self.with(|parts| parts.clock = clock)
    }

    fn with(mut self, change: impl FnOnce(&mut DriverParts)) -> Self {
        change(Arc::make_mut(&mut self.0));
        self
    }

    /// The handle by which the engine is replaced.
    pub fn handle(&self) -> &EngineHandle {
        &self.0.engine
    }

    /// The engine in force, borrowed for a moment. Do not keep the guard across an await.
    #[inline]
    pub fn engine(&self) -> Guard<Arc<Engine>> {
        self.0.engine.load()
    }

    /// The present instant by the clock of decisions.
    #[inline]
    pub fn now(&self) -> Timestamp {
        self.0.clock.now()
    }

    /// The clock of decisions.
    pub fn time(&self) -> &dyn Clock {
        &*self.0.clock
    }

    /// Sends a batch to the store within the store timeout.
    pub async fn call_store(&self, batch: &Batch) -> Result<Answer, StoreError> {
        self.0.link.call(batch).await
    }

    /// Drives an operation to its end. It is resumed by the engine in force.
    ///
    /// Dropping the future leaves the operation undone here; a batch that the store has carried out
    /// stands.
    pub async fn complete<T>(&self, begun: Progress<T>) -> Result<T, RequestError> {
        let mut progress = begun;
        loop {
            match progress {
                Progress::Done(value) => return Ok(value),
                Progress::Ask(asking) => {
                    let answer = self.call_store(asking.batch()).await;
                    progress = self.resume_operation(*asking, answer)?;
                }
            }
        }
    }

    /// Resumes an operation by the engine in force, and sends what the store did not take of what
    /// it gives back.
    pub(crate) fn resume_operation<T>(
        &self,
        asking: Asking<T>,
        answer: Result<Answer, StoreError>,
    ) -> Result<Progress<T>, RequestError> {
        let progress = asking.resume(&self.engine(), answer, self.now());
        self.renew_leases();
        progress
    }

    /// Settles a permit by the engine in force, and tells the store in the background.
    pub fn settle(&self, permit: Permit, completion: impl Into<Completion>) {
        let settled = self.engine().settle(permit, completion, self.now());
        self.return_settled(settled);
    }

    /// The answer to the requests of a permit begins: those that are streams give their places
    /// back.
    pub fn begin_answer(&self, permit: &mut Permit, completion: impl Into<Completion>) {
        self.engine().begin_answer(permit, completion, self.now());
    }

    /// Tells the store what a settled permit returns. A batch that fails is retried in the
    /// background as an undo is, since the permit is known no more and nobody can repeat it.
    ///
    /// All batches are sent; the error is that of the first that failed.
    pub async fn send_settled(&self, settled: Settled) -> Result<(), StoreError> {
        let mut sent = Ok(());
        for batch in &settled.batches {
            sent = sent.and(self.send_return(batch).await);
        }
        sent
    }

    /// Sends a batch that gives something back, and again in the background if it fails.
    async fn send_return(&self, batch: &Batch) -> Result<(), StoreError> {
        let sent = self.call_store(batch).await;
        if sent.as_ref().is_err_and(StoreError::is_transient) {
            self.undo(batch.clone());
        }
        sent.map(drop)
    }

    /// Sends the batches of a settled permit to the store in the background, one after the other. A
    /// batch that fails is retried as an undo is.
    ///
    /// Outside of a tokio runtime the batches are not sent. The store's part then stays charged
    /// until it drains or expires: less is admitted, never more.
    pub(crate) fn return_settled(&self, mut settled: Settled) {
        if settled.batches.is_empty() {
            return;
        }
        let Ok(runtime) = Handle::try_current() else { return };
        let driver = self.clone();
        runtime.spawn(async move {
            for batch in core::mem::take(&mut settled.batches) {
                // Undoing has what failed, and nobody waits for the rest.
                let _ = driver.send_return(&batch).await;
            }
            // Requests that wait for what was lent are called once the store has it back.
            drop(settled);
        });
    }

    /// Undoes a batch, or sends one again that gives something back, in the background: it is
    /// retried with growing pauses as long as the store remembers it.
    pub fn undo(&self, batch: Batch) {
        self.0.undos.start(&self.0.link, &self.engine(), batch);
    }

    pub(crate) fn link(&self) -> &StoreLink {
        &self.0.link
    }

    pub(crate) fn shared_clock(&self) -> Arc<dyn Clock> {
        Arc::clone(&self.0.clock)
    }

    pub(crate) fn downgrade(&self) -> WeakDriver {
        WeakDriver(Arc::downgrade(&self.0))
    }

    pub(crate) fn renewals(&self) -> &Arc<Semaphore> {
        &self.0.renewals
    }

    /// Ticks the engine if a tick is due, and carries out what the tick asks for. For programs
    /// without a task that [ticks](Driver::tick_at): called before each request.
    ///
    /// That is enough for an engine without features, which needs no tick while it is idle. With
    /// features, the first call starts a task that ticks from then on, and ends with the driver.
    /// Outside of a tokio runtime, or while it does not run, only calls tick: a feature then comes
    /// back only while they are less than a second apart.
    #[inline]
    pub fn tick_if_due(&self, now: Timestamp) {
        if let Some(tick) = self.0.engine.tick_if_due(now) {
            self.carry_out(&tick, now);
        }
    }

    #[cold]
    fn carry_out(&self, tick: &Tick, now: Timestamp) {
        self.start_tick_task();
        self.publish_feature_changes();
        for action in &tick.actions {
            match action {
                TickAction::RenewLeases => self.renew_leases(),
                TickAction::RebuildOverrides => self.0.engine.rebuild_overrides(now),
                // A program without a task of its own has no metrics to count them in.
                TickAction::CountExpiredPermits(_) => {}
            }
        }
    }

    /// Waits until `at`, and ticks the engine whenever a tick is due. The caller may be the only
    /// one there is, and what it waits for may need ticks.
    pub(crate) async fn tick_until(&self, at: Timestamp) {
        loop {
            let now = self.now();
            self.tick_if_due(now);
            if now >= at {
                return;
            }
            timer::sleep_until(self.time(), at.min(self.0.engine.next_tick(now))).await;
        }
    }

    /// Waits until `at` and ticks the engine in force then. For a task that ticks, whose next call
    /// waits until [`Tick::next`]. The task carries out the [actions](TickAction) of the tick.
    pub async fn tick_at(&self, at: Timestamp) -> Tick {
        timer::sleep_until(self.time(), at).await;
        let now = self.now();
        let mut tick = self.engine().tick(now);
        // Time must pass between two ticks even if the engine asks for none.
        tick.next = tick.next.max(now.saturating_add(TICK_PAUSE_MIN));
        self.publish_feature_changes();
        tick
    }
}

tidegate_core::debug_fields!(Driver { link: 0.link });

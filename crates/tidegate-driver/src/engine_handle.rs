//! The engine in force, which a reload replaces while requests are served.

use core::time::Duration;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::{ArcSwap, Guard};
use tidegate_core::Timestamp;
use tidegate_engine::{Engine, Tick};

use crate::feature_cancels::FeatureCancels;
use crate::tick_claim::TickClaims;

/// The shortest time between two ticks, whatever the engine asks for.
pub(crate) const TICK_PAUSE_MIN: Duration = Duration::from_millis(1);

/// A shared engine that can be replaced by one of a later configuration.
///
/// Clones are the same handle. A permit is settled by the engine in force at that time, so a
/// replacement must come from `Engine::reconfigured` or its like, which keep the state.
///
/// ```
/// # use tidegate_core::Limit;
/// # use tidegate_driver::{Driver, EngineHandle};
/// # use tidegate_engine::{Engine, EngineConfig, NamespaceConfig};
/// let api = NamespaceConfig::new("api", [Limit::rate("all", "100/s")?]);
/// let engine = Engine::builder(EngineConfig::default()).namespace(api.clone()).build()?;
/// let handle = EngineHandle::new(engine);
/// let driver = Driver::new(handle.clone());
/// // A reload adds a namespace; the state of the others goes on.
/// let admin = NamespaceConfig::new("admin", []);
/// let (engine, _report) = handle.engine().reconfigured(vec![api, admin])?;
/// handle.replace(engine);
/// assert!(driver.engine().namespaces().eq(["api", "admin"]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct EngineHandle(Arc<EngineInForce>);

#[derive(Debug)]
struct EngineInForce {
    engine: ArcSwap<Engine>,
    /// When the engine wants its next tick, in nanoseconds.
    next_tick: AtomicU64,
    /// Whichever driver ticks, the work of all of them hears of changes.
    cancels: FeatureCancels,
    tick_claims: TickClaims,
}

impl EngineHandle {
    /// A handle to this engine.
    pub fn new(engine: impl Into<Arc<Engine>>) -> Self {
        Self(Arc::new(EngineInForce {
            engine: ArcSwap::new(engine.into()),
            next_tick: AtomicU64::new(0),
            cancels: FeatureCancels::default(),
            tick_claims: TickClaims::default(),
        }))
    }

    /// The engine in force.
    pub fn engine(&self) -> Arc<Engine> {
        self.0.engine.load_full()
    }

    /// Puts another engine in force. Requests that are pending are resumed by it.
    pub fn replace(&self, engine: impl Into<Arc<Engine>>) {
        self.0.engine.store(engine.into());
    }

    /// The engine in force, borrowed for a moment. Do not keep the guard across an await.
    pub fn load(&self) -> Guard<Arc<Engine>> {
        self.0.engine.load()
    }

    /// Ticks the engine if a tick is due, and returns the tick, whose actions are the caller's. Use
    /// `Driver::tick_if_due`, which carries them out.
    pub fn tick_if_due(&self, now: Timestamp) -> Option<Tick> {
        // Relaxed: the number orders nothing; a second tick at the same time does nothing.
        let due = self.0.next_tick.load(Ordering::Relaxed);
        let latest = now.saturating_add(Engine::TICK_MAX).as_nanos();
        // A due time beyond `latest` was computed before the clock stepped back.
        if now.as_nanos() < due && due <= latest {
            return None;
        }
        let claimed =
            self.0.next_tick.compare_exchange(due, latest, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        claimed.then(|| {
            let tick = self.load().tick(now);
            let next = tick.next.max(now.saturating_add(TICK_PAUSE_MIN)).as_nanos();
            self.0.next_tick.store(next.min(latest), Ordering::Relaxed);
            tick
        })
    }

    pub(crate) fn feature_cancels(&self) -> &FeatureCancels {
        &self.0.cancels
    }

    pub(crate) fn tick_claims(&self) -> &TickClaims {
        &self.0.tick_claims
    }

    /// When the next tick is due, after `now`.
    pub(crate) fn next_tick(&self, now: Timestamp) -> Timestamp {
        let due = Timestamp::from_nanos(self.0.next_tick.load(Ordering::Relaxed));
        due.clamp(now.saturating_add(TICK_PAUSE_MIN), now.saturating_add(Engine::TICK_MAX))
    }

    /// Puts an engine without the overrides that have expired in force. Does nothing if another
    /// engine has come in force meanwhile; the next tick of that one asks for it again.
    pub(crate) fn rebuild_overrides(&self, now: Timestamp) {
        let before = self.engine();
        // An error is one of the table, which is full of numbers for a while; the next tick asks
        // again.
        if let Ok((engine, _)) = before.without_expired(now) {
            self.0.engine.compare_and_swap(&before, Arc::new(engine));
        }
    }
}

impl From<Engine> for EngineHandle {
    fn from(engine: Engine) -> Self {
        Self::new(engine)
    }
}

impl From<Arc<Engine>> for EngineHandle {
    fn from(engine: Arc<Engine>) -> Self {
        Self::new(engine)
    }
}

//! The engine that layers decide by, which may be replaced while they serve.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::{ArcSwap, Guard};
use tidegate::Timestamp;
use tidegate_engine::Engine;

/// An engine that several layers share and that can be replaced by one of a later configuration.
///
/// Clones are the same handle. Permits given by an engine before are settled by the one in force
/// then, so a replacement must come from `Engine::reconfigured` or its like, which keep the state.
#[derive(Clone, Debug)]
pub struct EngineHandle(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    engine: ArcSwap<Engine>,
    /// When the engine wants its next tick, in nanoseconds.
    next_tick: AtomicU64,
}

impl EngineHandle {
    /// A handle to this engine.
    pub fn new(engine: impl Into<Arc<Engine>>) -> Self {
        Self(Arc::new(Shared { engine: ArcSwap::new(engine.into()), next_tick: AtomicU64::new(0) }))
    }

    /// The engine in force.
    pub fn engine(&self) -> Arc<Engine> {
        self.0.engine.load_full()
    }

    /// Puts another engine in force for requests from now on.
    pub fn replace(&self, engine: impl Into<Arc<Engine>>) {
        self.0.engine.store(engine.into());
    }

    /// The engine in force, for a moment: not to be held while waiting.
    pub(crate) fn load(&self) -> Guard<Arc<Engine>> {
        self.0.engine.load()
    }

    /// Lets the control loops of the engine run if they are due. Requests drive them: without
    /// requests there is nothing to control, so no task of its own is needed.
    pub(crate) fn tick_if_due(&self, now: Timestamp) {
        // Relaxed: the number orders nothing; an engine that is ticked twice does nothing the
        // second time.
        let due = self.0.next_tick.load(Ordering::Relaxed);
        let latest = now.saturating_add(Engine::TICK_MAX).as_nanos();
        // A due time far ahead is from before the clock stepped back.
        if now.as_nanos() < due && due <= latest {
            return;
        }
        let claimed =
            self.0.next_tick.compare_exchange(due, latest, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        if claimed {
            let next = self.load().tick(now).next;
            self.0.next_tick.store(next.as_nanos().min(latest), Ordering::Relaxed);
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

//! The states of the daemon that its service manager is told, and the watchdog that is fed while
//! the daemon can decide.

use core::time::Duration;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tidegate_engine::Engine;
use tokio::time::Instant;

use crate::context::DaemonContext;
use crate::service_manager::ServiceState;

/// How long the engine may be without a tick while the watchdog is fed. It asks for one each
/// [`Engine::TICK_MAX`].
const WITHOUT_TICK_MAX: Duration = Engine::TICK_MAX.saturating_mul(5);

impl DaemonContext {
    /// Tells the service manager, if one wants to know, that the daemon is in `state`.
    pub(crate) async fn tell_service_manager(&self, state: ServiceState) {
        let Some(report) = self.service.report.get() else { return };
        let status = match state {
            ServiceState::Ready => self.ready_status(&report.listening),
            ServiceState::Reloading => "reading the policy again".to_owned(),
            ServiceState::Stopping => format!("draining, open connections: {}", self.connections.count()),
        };
        report.manager.tell(state, &status).await;
    }

    fn ready_status(&self, listening: &str) -> String {
        let version = self.in_force.load().version.number;
        let rejected = if self.changes.status().last_error.is_some() {
            "; the policy file was changed and rejected, the log says why"
        } else {
            ""
        };
        format!("policy version {version} is in force{rejected}; {listening}")
    }
}

/// Feeds the watchdog of the service manager until the daemon ends. The watchdog starves when the
/// runtime no longer runs its tasks, and when the engine no longer ticks.
pub(crate) async fn keep_watchdog(daemon: Arc<DaemonContext>) {
    let Some(report) = daemon.service.report.get() else { return };
    let Some(pause) = report.manager.feed_each() else { return };
    let mut ticks = daemon.service.ticks.load(Ordering::Relaxed);
    let mut ticked_at = Instant::now();
    let mut is_starving = false;
    loop {
        tokio::time::sleep(pause).await;
        // Relaxed: a tick that is seen late is seen at the next look.
        let now_ticks = daemon.service.ticks.load(Ordering::Relaxed);
        if now_ticks != ticks {
            (ticks, ticked_at) = (now_ticks, Instant::now());
        }
        let without_tick = ticked_at.elapsed();
        if without_tick <= WITHOUT_TICK_MAX {
            is_starving = false;
            report.manager.feed_watchdog().await;
        } else if !core::mem::replace(&mut is_starving, true) {
            tracing::error!(
                target: "tidegate::service",
                without_tick_s = without_tick.as_secs(),
                "the engine no longer ticks, so the watchdog of the service manager is not fed and will end this process"
            );
        }
    }
}

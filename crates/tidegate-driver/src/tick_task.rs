//! The task that ticks an engine with features.
//!
//! Requests tick an engine as often as its limits need. Features also need the ticks between
//! requests: they come back when the load was low for a while, and ticks that are more than a
//! second apart look like a machine that was suspended, after which nothing is concluded. So the
//! first tick by a request starts a task that ticks from then on, as a daemon does.
//!
//! There is one task for each engine handle. It ends when its driver is dropped, when a reload
//! takes the last feature away, and with its runtime; the next tick by a request starts another
//! one.

use tokio::runtime::Handle;

use crate::driver::Driver;
use crate::timer;

impl Driver {
    /// Starts the task that ticks, if the engine has features and no such task runs. Outside of a
    /// tokio runtime only requests tick.
    pub(crate) fn start_tick_task(&self) {
        if !self.engine().has_features() {
            return;
        }
        let Ok(runtime) = Handle::try_current() else { return };
        let Some(claim) = self.handle().tick_claims().take() else { return };
        let mut at = self.handle().next_tick(self.now());
        let (clock, driver) = (self.shared_clock(), self.downgrade());
        runtime.spawn(async move {
            let _claim = claim;
            loop {
                timer::sleep_until(&*clock, at).await;
                let Some(driver) = driver.upgrade() else { return };
                if !driver.engine().has_features() {
                    return;
                }
                let now = driver.now();
                driver.tick_if_due(now);
                at = driver.handle().next_tick(now);
            }
        });
    }
}

//! The claim of a task to be the only one that ticks an engine.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether a task ticks the engine. Clones are the same.
#[derive(Clone, Debug, Default)]
pub(crate) struct TickClaims(Arc<AtomicBool>);

/// The claim of the task that ticks. Dropping it lets another task tick.
pub(crate) struct TickClaim(TickClaims);

impl TickClaims {
    /// Takes the claim, unless another task has it.
    pub(crate) fn take(&self) -> Option<TickClaim> {
        // Relaxed: the flag orders nothing; two tasks would only tick no more often than one.
        let is_taken = self.0.swap(true, Ordering::Relaxed);
        (!is_taken).then(|| TickClaim(self.clone()))
    }
}

impl Drop for TickClaim {
    fn drop(&mut self) {
        // A runtime without timers panics at the first wait, and would at each further one.
        if !std::thread::panicking() {
            self.0.0.store(false, Ordering::Relaxed);
        }
    }
}

//! The time since the first clock of the process was made, which all its clocks share.
//!
//! One for all clocks: a thread then keeps one last reading, however many clocks it reads.

use std::sync::OnceLock;
use std::time::Instant;

use crate::anchored_counter::{AnchoredCounter, Readings, ThreadReadings};
use crate::counter;

/// The clocks of the machine.
#[derive(Debug)]
pub(crate) struct MachineReadings {
    started: Instant,
}

impl Readings for MachineReadings {
    #[inline]
    fn ticks(&self) -> u64 {
        counter::ticks()
    }

    fn elapsed_ns(&self) -> u64 {
        let elapsed = self.started.elapsed();
        elapsed.as_secs().saturating_mul(1_000_000_000).saturating_add(u64::from(elapsed.subsec_nanos()))
    }

    #[inline]
    fn on_thread<T>(&self, read: impl FnOnce(&ThreadReadings) -> T) -> T {
        thread_local! {
            static READINGS: ThreadReadings = const { ThreadReadings::new() };
        }
        READINGS.with(read)
    }
}

/// The time of the process. It begins with the first call.
pub(crate) fn process_time() -> &'static AnchoredCounter<MachineReadings> {
    static TIME: OnceLock<AnchoredCounter<MachineReadings>> = OnceLock::new();
    TIME.get_or_init(|| {
        AnchoredCounter::new(MachineReadings { started: Instant::now() }, counter::is_invariant())
    })
}

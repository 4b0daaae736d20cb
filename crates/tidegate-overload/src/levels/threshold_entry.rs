//! When a load counts as being at a threshold: after two ticks in a row, or one far above it.

/// The ticks in a row at the threshold.
const ENTER_TICKS: u32 = 2;
/// From this multiple of the threshold on, one tick is enough.
const ENTER_AT_ONCE: f64 = 1.2;

/// Whether a load is at its threshold for long enough.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ThresholdEntry {
    ticks: u32,
}

impl ThresholdEntry {
    /// Takes in the load of a tick and says whether it is at the threshold for long enough.
    pub(crate) fn observe(&mut self, load: f64, threshold: f64) -> bool {
        self.ticks = if load >= threshold { self.ticks.saturating_add(1) } else { 0 };
        self.ticks >= ENTER_TICKS || load > ENTER_AT_ONCE * threshold
    }

    /// Takes in a tick that says nothing of the load.
    pub(crate) const fn reset(&mut self) {
        self.ticks = 0;
    }
}

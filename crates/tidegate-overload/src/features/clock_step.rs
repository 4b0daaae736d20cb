//! A step of the clock between two ticks, or a time in which nothing ran.

use core::time::Duration;

use tidegate_core::Timestamp;

use crate::tick::TICK;

/// Ticks that are further apart leave a gap.
const GAP: Duration = Duration::from_secs(1);

/// The time from one tick to the next where it is no time in which the control has run. Instants
/// that are measured from move with it, so that it counts for none of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClockStep {
    Forward(Duration),
    Backward(Duration),
}

impl ClockStep {
    /// The step between two ticks, if there was one.
    pub(crate) fn between(last: Timestamp, now: Timestamp) -> Option<Self> {
        if now < last {
            return Some(Self::Backward(last.saturating_since(now).saturating_add(TICK)));
        }
        let passed = now.saturating_since(last);
        (passed > GAP).then(|| Self::Forward(passed.saturating_sub(TICK)))
    }

    /// An instant as many before the time now as it was before the step.
    pub(crate) fn shifted(self, at: Timestamp) -> Timestamp {
        match self {
            Self::Forward(by) => at.saturating_add(by),
            Self::Backward(by) => at.saturating_sub(by),
        }
    }
}

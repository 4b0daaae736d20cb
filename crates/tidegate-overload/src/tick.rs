//! The tick of the plane.

use core::time::Duration;

/// The time between two ticks.
pub const TICK: Duration = Duration::from_millis(100);

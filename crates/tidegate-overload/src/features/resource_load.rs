//! The load of one resource in a tick, as its features see it.

use core::time::Duration;

use crate::levels::load_level::LevelThresholds;
use crate::levels::signal::SignalSource;

/// The load of one resource in a tick.
#[derive(Clone, Debug)]
pub(crate) struct ResourceLoad {
    /// The worst smoothed pressure; `None`: no signal is fresh.
    pub(crate) pressure: Option<WorstPressure>,
    /// The pushed signals that had a value and have none that counts.
    pub(crate) stale: Vec<String>,
    /// The part of the places in use.
    pub(crate) in_use: f64,
    /// The requests that were offered and not withdrawn, and those that began to be served.
    pub(crate) offered: u64,
    pub(crate) served: u64,
    /// The requests whose work has ended, and the microseconds for which they kept their places.
    pub(crate) ended: u64,
    pub(crate) held_us: u64,
    pub(crate) places: u64,
    pub(crate) levels: LevelThresholds,
    pub(crate) demand_half_life: Duration,
}

/// The worst pressure of a resource.
#[derive(Clone, Debug)]
pub(crate) struct WorstPressure {
    pub(crate) smoothed: f64,
    /// The same signal's last value by its target.
    pub(crate) last: f64,
    pub(crate) signal: String,
    pub(crate) source: SignalSource,
}

//! The load that the control of features acts on.

/// The load of a resource in a tick.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ControlLoad {
    /// The worst smoothed pressure; `None`: no signal is fresh.
    pub(crate) pressure: Option<f64>,
    /// The last value of the same signal.
    pub(crate) last_pressure: f64,
    /// The demand at the levels in force, as a part of the capacity.
    pub(crate) demand: f64,
    /// The same in the last tick alone, and over some seconds.
    pub(crate) last_demand: f64,
    pub(crate) demand_slow: f64,
    /// The variance of the demand of a second, if requests come by chance.
    pub(crate) demand_variance: f64,
    /// The pressure that a part of the places makes.
    pub(crate) scale: f64,
}

impl ControlLoad {
    /// The same with so much relief that is not in force.
    pub(crate) fn relieved(self, relief: f64) -> Self {
        Self {
            pressure: self.pressure.map(|pressure| pressure - relief * self.scale),
            last_pressure: self.last_pressure - relief * self.scale,
            demand: self.demand - relief,
            last_demand: self.last_demand - relief,
            demand_slow: self.demand_slow - relief,
            ..self
        }
    }
}

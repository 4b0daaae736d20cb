//! The mean pressure between two samples.

use core::time::Duration;

use super::history_sample::PRESSURE_MAX;

/// The mean of a pressure that is looked at again and again, weighted by the time since the look
/// before.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PressureMean {
    weighted: f64,
    seconds: f64,
}

impl PressureMean {
    /// Takes in a pressure that held for `lasted`. One that is no number counts as absent.
    pub fn observe(&mut self, pressure: Option<f64>, lasted: Duration) {
        let Some(pressure) = pressure.filter(|pressure| !pressure.is_nan()) else { return };
        // The first look of a span has lasted for no time; without another it is the mean.
        let seconds = lasted.as_secs_f64().max(1e-9);
        self.weighted += pressure.clamp(0.0, PRESSURE_MAX) * seconds;
        self.seconds += seconds;
    }

    /// The mean since the last call; `None` if nothing was observed.
    pub fn take(&mut self) -> Option<f64> {
        let Self { weighted, seconds } = core::mem::take(self);
        (seconds > 0.0).then(|| weighted / seconds)
    }
}

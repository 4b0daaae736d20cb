//! An average that follows its samples with a time constant.

/// The time constant, in seconds, of a rate that must be acted on at once: that of the signals.
pub(crate) const FAST: f64 = 0.5;
/// The time constant of a rate that is compared with a settle time.
pub(crate) const SLOW: f64 = 2.0;

/// The average; nothing before the first sample, which it then equals.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct ExponentialAverage(Option<f64>);

impl ExponentialAverage {
    /// Takes in the average of `seconds`, with a time constant in seconds.
    pub(crate) fn observe(&mut self, sample: f64, seconds: f64, time_constant: f64) {
        self.0 = Some(match self.0 {
            // Backward Euler: no `exp`, which differs between machines.
            Some(before) => before + (sample - before) * (seconds / (time_constant + seconds)),
            None => sample,
        });
    }

    /// The average; 0 before the first sample.
    pub(crate) fn get(self) -> f64 {
        self.0.unwrap_or(0.0)
    }

    /// The average, if there was a sample.
    pub(crate) const fn known(self) -> Option<f64> {
        self.0
    }
}

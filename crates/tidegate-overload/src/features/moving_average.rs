//! An average that follows its samples with a time constant.

/// The average; nothing before the first sample, which it then equals.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct MovingAverage(Option<f64>);

impl MovingAverage {
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

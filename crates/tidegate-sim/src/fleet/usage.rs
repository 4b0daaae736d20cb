//! The units asked for and admitted while all should be well.

/// The units asked for and admitted since all should be well.
#[derive(Debug)]
pub(crate) struct Measured {
    pub(crate) from: u64,
    /// Of the keys that are looked at.
    pub(crate) keys: Vec<Used>,
    pub(crate) members: Vec<Used>,
}

/// Units asked for in first attempts, and units admitted in any.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Used {
    pub(crate) offered: f64,
    pub(crate) admitted: f64,
}

impl Used {
    /// Which part was admitted of what was asked for.
    pub(crate) fn odds(&self) -> Option<f64> {
        (self.offered >= 200.0).then(|| self.admitted / self.offered)
    }
}

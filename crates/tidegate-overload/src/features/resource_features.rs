//! The state of the features of one resource.

use crate::features::degrade_control::DegradeControl;
use crate::features::load_estimate::LoadEstimate;
use crate::features::signal_loss::SignalLoss;

/// The state of the features of one resource.
#[derive(Clone, Debug, Default)]
pub(crate) struct ResourceFeatures {
    pub(crate) estimate: LoadEstimate,
    pub(crate) enforced: DegradeControl,
    pub(crate) shadow: DegradeControl,
    pub(crate) loss: SignalLoss,
    /// The room for better levels at the last tick.
    pub(crate) room: f64,
}

impl ResourceFeatures {
    /// Other features or other settings are in force.
    pub(crate) fn drop_exchanges(&mut self) {
        self.enforced.drop_exchange();
        self.shadow.drop_exchange();
    }

    /// The signal for which better levels wait.
    pub(crate) fn held_by(&self) -> Option<&str> {
        self.loss.held_by()
    }
}

//! The reason of a change of level, as the control notes it.

use crate::features::feature_event::FeatureCause;

/// The reason of a change of level.
#[derive(Clone, Debug)]
pub(crate) struct ChangeReason {
    pub(crate) cause: FeatureCause,
    /// The load at the time, and the signal with it.
    pub(crate) pressure: Option<f64>,
    pub(crate) signal: Option<String>,
}

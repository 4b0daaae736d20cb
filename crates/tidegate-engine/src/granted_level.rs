//! The level of a feature that a request was granted.

use tidegate_overload::{FeatureGrant, FeatureId};

/// The level of a feature that a request was granted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GrantedLevel {
    pub(crate) id: FeatureId,
    pub(crate) grant: FeatureGrant,
}

//! The level of a feature that a request was granted, for the code that serves the request.

use std::sync::Arc;

use tidegate_engine::GrantedFeature;

/// The level of a feature that an admitted request was granted.
///
/// ```
/// # use tidegate_driver::FeatureLevel;
/// let level = FeatureLevel::new("thumbnails", "480p");
/// let width = match level.name() {
///     "480p" => 854,
///     _ => 1280,
/// };
/// assert_eq!((level.feature(), width), ("thumbnails", 854));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FeatureLevel {
    feature: Arc<str>,
    name: Arc<str>,
}

impl FeatureLevel {
    /// The level of this name of a feature, such as for a test of a handler.
    pub fn new(feature: impl Into<Arc<str>>, name: impl Into<Arc<str>>) -> Self {
        Self { feature: feature.into(), name: name.into() }
    }

    /// The feature.
    pub fn feature(&self) -> &str {
        &self.feature
    }

    /// The name of the level, as the feature lists it.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl From<GrantedFeature<'_>> for FeatureLevel {
    fn from(granted: GrantedFeature<'_>) -> Self {
        Self::new(granted.name, granted.level)
    }
}

//! The features of the services, by which requests are told apart beside tenant and class.

/// A feature of a service, such as thumbnails or search. A request names the one that it is for; a
/// name that is not listed counts as `other`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FeaturePolicy {
    /// Its name, unique, 1 to [`FeaturePolicy::NAME_BYTES_MAX`] bytes.
    pub name: String,
}

impl FeaturePolicy {
    /// The longest name in bytes. A request with a longer one names no listed feature.
    pub const NAME_BYTES_MAX: usize = 128;
    /// The most features in one configuration.
    pub const COUNT_MAX: usize = 1000;
}

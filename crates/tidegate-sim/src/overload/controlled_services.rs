//! The facts about the services of a scenario from which a design is made.

use super::feature_spec::FeatureSpec;
use super::service::ServiceSpec;

/// The facts about the services of a scenario from which a design is made.
#[derive(Clone, Debug, PartialEq)]
pub struct ControlledServices {
    /// The seed of all randomness.
    pub seed: u64,
    /// The services, at least one.
    pub services: Vec<ServiceSpec>,
    /// The features.
    pub features: Vec<FeatureSpec>,
    /// The namespaces of clients are below this number.
    pub namespaces: u32,
    /// Whether the admission cursors of the engine are pinned open.
    pub pins_cursor_open: bool,
}

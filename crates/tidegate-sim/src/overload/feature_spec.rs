//! A feature of a simulated service: requests of it are served at a level, or refused.

use serde::ser::SerializeStruct as _;
use serde::{Serialize, Serializer};
use tidegate_overload::{FeatureConfig, FeatureLevelConfig, OnDisable};

/// A feature. A request of it takes the service time times the cost share of its level.
#[derive(Clone, Debug, PartialEq)]
pub struct FeatureSpec {
    /// The settings, as the engine takes them. Its resource is the name of a service.
    pub config: FeatureConfig,
}

impl FeatureSpec {
    /// A feature of the service called `service`, with levels of these names and cost shares.
    pub fn new(config: FeatureConfig, service: &str, levels: &[(&str, f64)]) -> Self {
        let levels = levels.iter().map(|(name, cost)| FeatureLevelConfig::new(*name, *cost)).collect();
        let mut config = config;
        (config.resource, config.levels) = (Some(service.to_owned()), levels);
        Self { config }
    }

    /// The cost share of a level; 1 for a feature without levels.
    pub fn cost_share(&self, level: u8) -> f64 {
        self.config.levels.get(usize::from(level)).map_or(1.0, |level| level.cost)
    }

    /// Whether requests are refused at a level.
    pub fn is_off(&self, level: u8) -> bool {
        self.config.levels.get(usize::from(level)).is_some_and(FeatureLevelConfig::is_off)
    }

    /// The name of a level; `on` for a feature without levels.
    pub fn level_name(&self, level: u8) -> &str {
        self.config.levels.get(usize::from(level)).map_or("on", |level| &level.name)
    }

    /// The position of the level of this name; the best one for an unknown name.
    pub fn position(&self, level: &str) -> u8 {
        self.config.levels.iter().position(|known| known.name == level).unwrap_or(0) as u8
    }

    /// The utility of a request that is answered in time at a level: that of the feature times the
    /// root of the cost share, as the plane weighs it. The first half of the cost of a picture is
    /// worth more than the second one.
    pub fn utility(&self, level: u8) -> f64 {
        self.config.utility * libm::sqrt(self.cost_share(level))
    }

    /// Whether work in flight is cut short when it is switched off.
    pub(crate) const fn cancels(&self) -> bool {
        matches!(self.config.on_disable, OnDisable::Cancel { .. })
    }
}

impl Serialize for FeatureSpec {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let FeatureConfig { name, resource, class, utility, levels, min_dwell, on_disable, .. } =
            &self.config;
        let grace = match on_disable {
            OnDisable::Cancel { grace } => Some(grace.as_secs_f64()),
            _ => None,
        };
        let levels: Vec<(&str, f64)> = levels.iter().map(|level| (level.name.as_str(), level.cost)).collect();
        let mut fields = serializer.serialize_struct("FeatureSpec", 7)?;
        fields.serialize_field("name", name)?;
        fields.serialize_field("service", resource)?;
        fields.serialize_field("class", class.as_str())?;
        fields.serialize_field("utility", utility)?;
        fields.serialize_field("levels", &levels)?;
        fields.serialize_field("min_dwell_seconds", &min_dwell.as_secs_f64())?;
        fields.serialize_field("cancelled_after_seconds", &grace)?;
        fields.end()
    }
}

//! From named resources to a checked overload plane.

use std::collections::BTreeSet;

use crate::overload::Overload;
use crate::resource::{Resource, ResourceConfig};

/// The settings of a plane with one resource, the default one.
#[derive(Clone, Copy, Debug)]
pub struct OverloadConfig {
    /// The most requests in flight at once, 1 to [`OverloadConfig::IN_FLIGHT_MAX`].
    pub in_flight_max: u64,
    /// Seeds the cohorts. Random where strangers choose tenants.
    pub seed: u64,
}

impl OverloadConfig {
    /// The largest bound: a million requests in flight.
    pub const IN_FLIGHT_MAX: u64 = ResourceConfig::IN_FLIGHT_MAX;
}

/// The resources of an [`Overload`] plane to be.
#[derive(Clone, Debug)]
#[must_use]
pub struct OverloadBuilder {
    seed: u64,
    default_resource: Option<ResourceConfig>,
    named: Vec<(String, ResourceConfig)>,
}

impl Overload {
    /// A plane with one resource, which takes every request: no pressure, the cursor open.
    pub fn new(config: OverloadConfig) -> Result<Self, OverloadError> {
        Self::builder(config.seed).default_resource(ResourceConfig::new(config.in_flight_max)).build()
    }

    /// A plane without resources yet. `seed` seeds the cohorts; random where strangers choose
    /// tenants, and the same on all members of a fleet.
    pub const fn builder(seed: u64) -> OverloadBuilder {
        OverloadBuilder { seed, default_resource: None, named: Vec::new() }
    }
}

impl OverloadBuilder {
    /// The most resources of a plane, the default one included; each takes 5 KiB.
    pub const RESOURCES_MAX: usize = 1024;

    /// The resource of all requests whose resource is not configured by name. Without it, such
    /// requests pass the plane unseen.
    pub const fn default_resource(mut self, config: ResourceConfig) -> Self {
        self.default_resource = Some(config);
        self
    }

    /// A resource of its own for the requests that name it.
    pub fn resource(mut self, name: impl Into<String>, config: ResourceConfig) -> Self {
        self.named.push((name.into(), config));
        self
    }

    /// Checks the resources. Fails with the first problem found.
    pub fn build(self) -> Result<Overload, OverloadError> {
        let count = self.named.len() + usize::from(self.default_resource.is_some());
        if count > Self::RESOURCES_MAX {
            return Err(OverloadError::TooManyResources { count });
        }
        if let Some(config) = self.default_resource.filter(|config| !is_valid(*config)) {
            return Err(OverloadError::InFlightMax(config.in_flight_max));
        }
        let named = self.named.iter().map(|(name, config)| (Some(name.as_str()), config));
        for (name, config) in named.chain(self.default_resource.iter().map(|config| (None, config))) {
            if let Some(places) = config.places_per_instance.filter(|places| !is_bound(*places)) {
                let resource = name.map(str::to_owned);
                return Err(OverloadError::PlacesPerInstance { resource, places });
            }
        }
        let mut known = BTreeSet::new();
        for (name, config) in &self.named {
            if !is_valid(*config) {
                let (resource, in_flight_max) = (name.clone(), config.in_flight_max);
                return Err(OverloadError::ResourceInFlightMax { resource, in_flight_max });
            }
            if !known.insert(name) {
                return Err(OverloadError::DuplicateResource { resource: name.clone() });
            }
        }
        let default_resource = self.default_resource.map(|config| Resource::new(None, config));
        let named =
            self.named.iter().map(|(name, config)| Resource::new(Some(name.as_str().into()), *config));
        Ok(Overload::of(default_resource.into_iter().chain(named).collect(), self.seed))
    }
}

fn is_valid(config: ResourceConfig) -> bool {
    is_bound(config.in_flight_max)
}

fn is_bound(places: u64) -> bool {
    (1..=ResourceConfig::IN_FLIGHT_MAX).contains(&places)
}

/// Settings of which no overload plane can be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OverloadError {
    /// The bound on work in flight of the default resource is zero or too large.
    #[error(
        "in_flight_max {0} is not between 1 and 1000000; use how many requests the system works on at once"
    )]
    InFlightMax(u64),
    /// The bound on work in flight of a named resource is zero or too large.
    #[error(
        "resource \"{resource}\": in_flight_max {in_flight_max} is not between 1 and 1000000; use how many requests \
         it works on at once"
    )]
    ResourceInFlightMax {
        /// The name of the resource.
        resource: String,
        /// The bound.
        in_flight_max: u64,
    },
    /// The places of one instance are zero or too many.
    #[error(
        "{}places_per_instance {places} is not between 1 and 1000000; use how many requests one instance works on at \
         once",
        resource.as_ref().map_or_else(String::new, |name| format!("resource \"{name}\": "))
    )]
    PlacesPerInstance {
        /// The name of the resource; `None` for the default resource.
        resource: Option<String>,
        /// The places.
        places: u64,
    },
    /// Two resources have one name.
    #[error("duplicate resource \"{resource}\"; rename one of them")]
    DuplicateResource {
        /// The name.
        resource: String,
    },
    /// There are more than [`OverloadBuilder::RESOURCES_MAX`] resources.
    #[error(
        "{count} resources are too many; configure at most {max}, and let the others use the default resource",
        max = OverloadBuilder::RESOURCES_MAX
    )]
    TooManyResources {
        /// The number of resources.
        count: usize,
    },
}

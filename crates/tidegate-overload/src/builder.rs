//! From named resources to a checked overload plane.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::fair_queue::QueueConfigError;
use crate::overload::{Overload, ResourceSlot};
use crate::resource::{Resource, ResourceConfig};

/// The resources of an [`Overload`] plane to be.
#[derive(Clone, Debug)]
#[must_use]
pub struct OverloadBuilder {
    seed: u64,
    default_resource: Option<ResourceConfig>,
    named: Vec<(String, ResourceConfig)>,
}

impl Overload {
    /// A plane with one resource, which takes every request: no pressure, the cursor open. The seed
    /// is that of [`Overload::builder`].
    pub fn new(resource: ResourceConfig, seed: u64) -> Result<Self, OverloadError> {
        Self::builder(seed).default_resource(resource).build()
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

    /// Whether there is any resource.
    pub fn has_resources(&self) -> bool {
        self.default_resource.is_some() || !self.named.is_empty()
    }

    /// Checks the resources. Fails with the first problem found.
    pub fn build(self) -> Result<Overload, OverloadError> {
        self.check()?;
        let Self { seed, .. } = self;
        Ok(Overload::of(self.slots(Vec::new()), seed, None))
    }

    /// Checks the resources and goes on from the state of `earlier`, which may still decide until
    /// everybody uses the new one. Fails with the first problem found; then nothing has changed.
    ///
    /// A resource of the same name is shared by both: its requests in flight, cursor, pin and
    /// counts go on under the new settings. One that is not configured any more takes back the
    /// places that it gave, and starts anew if it is configured again after all are back. The seed
    /// is that of `earlier`.
    pub fn build_over(self, earlier: &Overload) -> Result<Overload, OverloadError> {
        self.check()?;
        let (slots, ticks) = earlier.state();
        let busy = slots.iter().filter(|slot| slot.resource.in_flight.count() > 0).count();
        if busy + self.named.len() >= usize::from(u16::MAX) {
            return Err(OverloadError::TooManyResources { count: busy + self.named.len() });
        }
        Ok(Overload::of(self.slots(slots), earlier.seed(), Some(ticks)))
    }

    /// The resources of the plane, at the positions that those of an earlier one have.
    fn slots(self, mut slots: Vec<ResourceSlot>) -> Vec<ResourceSlot> {
        for slot in &mut slots {
            slot.is_configured = false;
        }
        let default_resource = self.default_resource.map(|config| (None, config));
        let named = self.named.into_iter().map(|(name, config)| (Some(name), config));
        let all: Vec<_> = default_resource.into_iter().chain(named).collect();
        let mut fresh = Vec::new();
        for (name, config) in all {
            match slots.iter_mut().find(|slot| slot.resource.name.as_deref() == name.as_deref()) {
                Some(slot) => {
                    slot.resource.reconfigure(config);
                    slot.is_configured = true;
                }
                None => fresh.push((name, config)),
            }
        }
        let mut unused = 0;
        for (name, config) in fresh {
            let resource = Arc::new(Resource::new(name.map(Arc::from), config));
            let slot = ResourceSlot { resource, is_configured: true };
            let is_unused = |slot: &ResourceSlot| !slot.is_configured && slot.resource.in_flight.count() == 0;
            unused += slots[unused..].iter().position(is_unused).unwrap_or(slots.len() - unused);
            match slots.get_mut(unused) {
                Some(old) => *old = slot,
                None => slots.push(slot),
            }
        }
        slots
    }

    fn check(&self) -> Result<(), OverloadError> {
        let count = self.named.len() + usize::from(self.default_resource.is_some());
        if count > Self::RESOURCES_MAX {
            return Err(OverloadError::TooManyResources { count });
        }
        if let Some(config) = self.default_resource.filter(|config| !is_valid(*config)) {
            return Err(OverloadError::InFlightMax(config.in_flight_max));
        }
        let named = self.named.iter().map(|(name, config)| (Some(name.as_str()), config));
        for (name, config) in named.chain(self.default_resource.iter().map(|config| (None, config))) {
            if let Some(Err(source)) = config.queue.map(|queue| queue.check()) {
                return Err(OverloadError::Queue { resource: name.map(str::to_owned), source });
            }
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
        Ok(())
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
    /// A queue cannot work with its settings.
    #[error("{}{source}", resource.as_ref().map_or_else(String::new, |name| format!("resource \"{name}\": ")))]
    Queue {
        /// The name of the resource; `None` for the default resource.
        resource: Option<String>,
        /// The mistake.
        source: QueueConfigError,
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

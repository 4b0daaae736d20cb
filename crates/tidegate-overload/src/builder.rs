//! From named resources to a checked overload plane.

use core::time::Duration;
use std::collections::BTreeSet;
use std::sync::Arc;

use crate::deferral::deferral_config::DeferralConfigError;
use crate::features::config::{FeatureConfig, FeatureConfigError, FeatureMode};
use crate::features::feature_set::FeatureSet;
use crate::levels::load_level::LevelThresholdsError;
use crate::levels::signal::{SignalConfig, SignalSource};
use crate::overload::{Overload, ResourceSlot};
use crate::places::adaptive_limit::AdaptiveLimitError;
use crate::queue::fair_queue::QueueConfigError;
use crate::resource::Resource;
use crate::resource_config::{ResourceConfig, ResourceMode};
use crate::resource_id::ResourceId;

/// The resources of an [`Overload`] plane to be.
#[derive(Clone, Debug)]
#[must_use]
pub struct OverloadBuilder {
    seed: u64,
    default_resource: Option<ResourceConfig>,
    named: Vec<(String, ResourceConfig)>,
    signals: Vec<SignalConfig>,
    features: Vec<FeatureConfig>,
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
        OverloadBuilder {
            seed,
            default_resource: None,
            named: Vec::new(),
            signals: Vec::new(),
            features: Vec::new(),
        }
    }
}

impl OverloadBuilder {
    /// The most resources of a plane, the default one included; each takes 5 KiB, and 5 KiB for
    /// each of up to [`NAMESPACES_MAX`](crate::NAMESPACES_MAX) namespaces that ask for it.
    pub const RESOURCES_MAX: usize = 1024;

    /// The most features of a plane.
    pub const FEATURES_MAX: usize = 1000;

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

    /// A signal of one resource, or of all, from which load levels follow.
    pub fn signal(mut self, config: SignalConfig) -> Self {
        self.signals.push(config);
        self
    }

    /// A feature of one resource, which degrades while that is loaded.
    pub fn feature(mut self, config: FeatureConfig) -> Self {
        self.features.push(config);
        self
    }

    /// The signals of a resource.
    fn signals_of(signals: &[SignalConfig], resource: Option<&str>) -> Vec<SignalConfig> {
        let own =
            |config: &&SignalConfig| config.resource.is_none() || config.resource.as_deref() == resource;
        signals.iter().filter(own).cloned().collect()
    }

    /// Whether there is any resource.
    pub fn has_resources(&self) -> bool {
        self.default_resource.is_some() || !self.named.is_empty()
    }

    /// Checks the resources. Fails with the first problem found.
    pub fn build(self) -> Result<Overload, OverloadError> {
        self.check()?;
        let (seed, features) = (self.seed, self.features.clone());
        let slots = self.slots(Vec::new(), 1);
        let features = FeatureSet::new(features_of(features, &slots), seed, None);
        Ok(Overload::from_slots(slots, features, seed, None))
    }

    /// Checks the resources and goes on from the state of `earlier`, which may still decide until
    /// everybody uses the new one. Fails with the first problem found; then nothing has changed.
    ///
    /// A resource of the same name is shared by both: its requests in flight, cursor, pin and
    /// counts go on under the new settings. One that is not configured any more takes back the
    /// places that it gave, and starts anew if it is configured again after all are back. The seed
    /// is that of `earlier`.
    ///
    /// A feature of the same name goes on as well: at the level of the same name, else at the best
    /// one that costs at most as much. Work in flight of a feature that is not configured any more
    /// can still end.
    pub fn build_over(self, earlier: &Overload) -> Result<Overload, OverloadError> {
        self.check()?;
        let (slots, shared) = earlier.state();
        let busy = slots.iter().filter(|slot| slot.resource.in_flight.count() > 0).count();
        if busy + self.named.len() >= usize::from(u16::MAX) {
            return Err(OverloadError::TooManyResources { count: busy + self.named.len() });
        }
        let busy = earlier.feature_set().busy();
        if busy + 2 * Self::FEATURES_MAX >= usize::from(u16::MAX) {
            return Err(OverloadError::TooManyFeatures { count: busy + self.features.len() });
        }
        let (seed, features) = (earlier.seed(), self.features.clone());
        let slots = self.slots(slots, shared.members());
        let features = FeatureSet::new(features_of(features, &slots), seed, Some(earlier.feature_set()));
        Ok(Overload::from_slots(slots, features, seed, Some(shared)))
    }

    /// The resources of the plane, at the positions that those of an earlier one have.
    fn slots(self, mut slots: Vec<ResourceSlot>, members: u32) -> Vec<ResourceSlot> {
        for slot in &mut slots {
            slot.is_configured = false;
        }
        let signals = self.signals;
        let default_resource = self.default_resource.map(|config| (None, config));
        let named = self.named.into_iter().map(|(name, config)| (Some(name), config));
        let all: Vec<_> = default_resource.into_iter().chain(named).collect();
        let mut fresh = Vec::new();
        for (name, config) in all {
            match slots.iter_mut().find(|slot| slot.resource.name.as_deref() == name.as_deref()) {
                Some(slot) => {
                    slot.resource.reconfigure(&config, Self::signals_of(&signals, name.as_deref()));
                    slot.is_configured = true;
                    slot.is_shadow = config.mode == ResourceMode::Shadow;
                }
                None => fresh.push((name, config)),
            }
        }
        let mut unused = 0;
        for (name, config) in fresh {
            let own = Self::signals_of(&signals, name.as_deref());
            let resource = Arc::new(Resource::new(name.map(Arc::from), &config, members, own));
            let is_shadow = config.mode == ResourceMode::Shadow;
            let slot = ResourceSlot { resource, is_configured: true, is_shadow };
            let is_unused = |slot: &ResourceSlot| !slot.is_configured && slot.resource.in_flight.count() == 0;
            unused += slots[unused..].iter().position(is_unused).unwrap_or(slots.len() - unused);
            match slots.get_mut(unused) {
                Some(old) => *old = slot,
                None => slots.push(slot),
            }
        }
        slots
    }

    fn check_signals(&self) -> Result<(), OverloadError> {
        for (index, config) in self.signals.iter().enumerate() {
            let fail = |problem| Err(OverloadError::Signal { name: config.name.clone(), problem });
            if !(1..=64).contains(&config.name.len()) {
                return fail("the name must have 1 to 64 bytes");
            }
            if !(config.target > 0.0 && config.target.is_finite()) {
                return fail("the target must be a finite number above 0");
            }
            if config.interval.is_zero() || config.ttl.is_some_and(|ttl| ttl.is_zero()) {
                return fail("the interval and the ttl must be above 0");
            }
            let zero = SignalSource::SlowAnswers { slower_than: Duration::ZERO };
            if config.source == zero {
                return fail("`slower_than` must be above 0");
            }
            let is_known = |name: &String| self.named.iter().any(|(known, _)| known == name);
            if config.resource.as_ref().is_some_and(|name| !is_known(name)) {
                return fail("its resource is not configured");
            }
            let overlaps = |other: &SignalConfig| {
                let apart = other.resource.is_some() && config.resource.is_some();
                other.name == config.name && (!apart || other.resource == config.resource)
            };
            if self.signals[..index].iter().any(overlaps) {
                return fail("another signal of the same resource has this name");
            }
        }
        Ok(())
    }

    fn check_features(&self) -> Result<(), OverloadError> {
        if self.features.len() > Self::FEATURES_MAX {
            return Err(OverloadError::TooManyFeatures { count: self.features.len() });
        }
        let mut known = BTreeSet::new();
        for config in &self.features {
            let fail = |problem| Err(OverloadError::Feature { name: config.name.clone(), problem });
            if let Err(source) = config.check() {
                return fail(FeatureProblem::Settings(source));
            }
            if !known.insert(&config.name) {
                return fail(FeatureProblem::Duplicate);
            }
            match &config.resource {
                Some(name) if !self.named.iter().any(|(known, _)| known == name) => {
                    return fail(FeatureProblem::UnknownResource { resource: name.clone() });
                }
                None if self.default_resource.is_none() && self.named.len() != 1 => {
                    return fail(FeatureProblem::NoResource);
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn check(&self) -> Result<(), OverloadError> {
        let count = self.named.len() + usize::from(self.default_resource.is_some());
        if count > Self::RESOURCES_MAX {
            return Err(OverloadError::TooManyResources { count });
        }
        if let Some(config) = self.default_resource.filter(|config| !is_valid(config)) {
            return Err(OverloadError::InFlightMax(config.in_flight_max));
        }
        let named = self.named.iter().map(|(name, config)| (Some(name.as_str()), config));
        for (name, config) in named.chain(self.default_resource.iter().map(|config| (None, config))) {
            if let Some(Err(source)) = config.queue.map(|queue| queue.check()) {
                return Err(OverloadError::Queue { resource: name.map(str::to_owned), source });
            }
            if let Some(Err(source)) = config.defer.map(|defer| defer.check(config.queue.as_ref())) {
                return Err(OverloadError::Deferral { resource: name.map(str::to_owned), source });
            }
            let own = || name.map(str::to_owned);
            if let Some(Err(source)) = config.adaptive.map(|adaptive| adaptive.check()) {
                return Err(OverloadError::Adaptive { resource: own(), source });
            }
            if !(1..=ResourceConfig::STREAMS_MAX).contains(&config.streams_max) {
                let streams_max = config.streams_max;
                return Err(OverloadError::StreamsMax { resource: own(), streams_max });
            }
            if let Err(source) = config.levels.check() {
                return Err(OverloadError::Levels { resource: own(), source });
            }
            let half_lives = ResourceConfig::DEMAND_HALF_LIFE_MIN..=ResourceConfig::DEMAND_HALF_LIFE_MAX;
            if !half_lives.contains(&config.demand_half_life) {
                let demand_half_life = config.demand_half_life;
                return Err(OverloadError::DemandHalfLife { resource: own(), demand_half_life });
            }
            if config.adaptive.is_some() && config.places_per_instance.is_some() {
                return Err(OverloadError::TwoBounds { resource: own() });
            }
            if let Some(places) = config.places_per_instance.filter(|places| !is_bound(*places)) {
                let resource = name.map(str::to_owned);
                return Err(OverloadError::PlacesPerInstance { resource, places });
            }
        }
        for (name, config) in
            named_of(&self.named).chain(self.default_resource.iter().map(|config| (None, config)))
        {
            if config.reserve > ResourceConfig::RESERVE_MAX {
                let resource = name.map(str::to_owned);
                return Err(OverloadError::Reserve { resource, reserve: config.reserve });
            }
        }
        self.check_signals()?;
        self.check_features()?;
        let mut known = BTreeSet::new();
        for (name, config) in &self.named {
            if !is_valid(config) {
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

/// The features, each with the number of its resource, which a check has found: the default one if
/// it names none, and the only one where there is no default. Those of a resource in shadow mode
/// are in shadow mode, too.
fn features_of(features: Vec<FeatureConfig>, slots: &[ResourceSlot]) -> Vec<(FeatureConfig, ResourceId)> {
    let find = |name: Option<&str>| {
        let is_it = |slot: &ResourceSlot| {
            slot.is_configured && (name.is_none() || slot.resource.name.as_deref() == name)
        };
        let is_default = |slot: &ResourceSlot| slot.is_configured && slot.resource.name.is_none();
        let default_one = slots.iter().position(is_default).filter(|_| name.is_none());
        default_one.or_else(|| slots.iter().position(is_it))
    };
    let with_resource = |mut config: FeatureConfig| {
        let found = find(config.resource.as_deref()).expect("the resource of each feature was checked");
        if slots[found].is_shadow {
            config.mode = FeatureMode::Shadow;
        }
        (config, ResourceId(found as u16))
    };
    features.into_iter().map(with_resource).collect()
}

fn named_of(named: &[(String, ResourceConfig)]) -> impl Iterator<Item = (Option<&str>, &ResourceConfig)> {
    named.iter().map(|(name, config)| (Some(name.as_str()), config))
}

fn is_valid(config: &ResourceConfig) -> bool {
    is_bound(config.in_flight_max)
}

fn is_bound(places: u64) -> bool {
    (1..=ResourceConfig::IN_FLIGHT_MAX).contains(&places)
}

/// Settings of which no overload plane can be made.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
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
    /// The bound on streams is zero or too large.
    #[error(
        "{}streams_max {streams_max} is not between 1 and 1000000; use how many streams may be open at once",
        resource.as_ref().map_or_else(String::new, |name| format!("resource \"{name}\": "))
    )]
    StreamsMax {
        /// The name of the resource; `None` for the default resource.
        resource: Option<String>,
        /// The bound.
        streams_max: u64,
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
    /// An adaptive limit cannot work with its settings.
    #[error("{}{source}", resource.as_ref().map_or_else(String::new, |name| format!("resource \"{name}\": ")))]
    Adaptive {
        /// The name of the resource; `None` for the default resource.
        resource: Option<String>,
        /// The mistake.
        source: AdaptiveLimitError,
    },
    /// A bound can follow the latency or the instances, not both.
    #[error(
        "{}the bound cannot follow the latency and the instances at once; remove `adaptive` or `places_per_instance`",
        resource.as_ref().map_or_else(String::new, |name| format!("resource \"{name}\": "))
    )]
    TwoBounds {
        /// The name of the resource; `None` for the default resource.
        resource: Option<String>,
    },
    /// A queue cannot work with its settings.
    #[error("{}{source}", resource.as_ref().map_or_else(String::new, |name| format!("resource \"{name}\": ")))]
    Queue {
        /// The name of the resource; `None` for the default resource.
        resource: Option<String>,
        /// The mistake.
        source: QueueConfigError,
    },
    /// A resource cannot defer with its settings.
    #[error("{}defer: {source}", resource.as_ref().map_or_else(String::new, |name| format!("resource \"{name}\": ")))]
    Deferral {
        /// The name of the resource; `None` for the default resource.
        resource: Option<String>,
        /// The mistake.
        source: DeferralConfigError,
    },
    /// The reserve of a resource is too large.
    #[error(
        "{}reserve {reserve} is not between 0 and 50; use the hundredths of the places that an emergency keeps for \
         the highest class",
        resource.as_ref().map_or_else(String::new, |name| format!("resource \"{name}\": "))
    )]
    Reserve {
        /// The name of the resource; `None` for the default resource.
        resource: Option<String>,
        /// The reserve in hundredths.
        reserve: u8,
    },
    /// The thresholds of the load levels of a resource are not in order.
    #[error("{}levels: {source}", resource.as_ref().map_or_else(String::new, |name| format!("resource \"{name}\": ")))]
    Levels {
        /// The name of the resource; `None` for the default resource.
        resource: Option<String>,
        /// The mistake.
        source: LevelThresholdsError,
    },
    /// The half-life of demand is too short or too long.
    #[error(
        "{}demand_half_life {demand_half_life:?} is not between 1s and 24h; use one of some minutes",
        resource.as_ref().map_or_else(String::new, |name| format!("resource \"{name}\": "))
    )]
    DemandHalfLife {
        /// The name of the resource; `None` for the default resource.
        resource: Option<String>,
        /// The half-life.
        demand_half_life: Duration,
    },
    /// A feature has a setting that it cannot have.
    #[error("feature \"{name}\": {problem}")]
    Feature {
        /// The name of the feature.
        name: String,
        /// The setting and what it must be.
        #[source]
        problem: FeatureProblem,
    },
    /// There are more than [`OverloadBuilder::FEATURES_MAX`] features.
    #[error("{count} features are too many; configure at most {max}", max = OverloadBuilder::FEATURES_MAX)]
    TooManyFeatures {
        /// The number of features.
        count: usize,
    },
    /// A signal has a setting that it cannot have.
    #[error("signal \"{name}\": {problem}; change it")]
    Signal {
        /// The name of the signal.
        name: String,
        /// The setting and what it must be.
        problem: &'static str,
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

/// A problem of one feature.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum FeatureProblem {
    /// It cannot work with its settings.
    #[error(transparent)]
    Settings(FeatureConfigError),
    /// Its resource is not configured.
    #[error(
        "resource \"{resource}\" does not exist; use the name of a resource, or leave it out for the default one"
    )]
    UnknownResource {
        /// The name of the resource.
        resource: String,
    },
    /// It names no resource, and there is no default resource and not exactly one other.
    #[error("it names no resource, and there is no default one; add `resource`")]
    NoResource,
    /// Another feature has its name.
    #[error("another feature has this name; rename one of them")]
    Duplicate,
}

//! The settings of the overload plane for a scenario, in one place.

use tidegate_core::Class;
use tidegate_engine::ResourceStats;
use tidegate_overload::{
    AdaptiveLimitConfig, Overload, OverloadError, QueueConfig, ResourceConfig, ResourceMode, RoomBounds,
    RoomUse, Share, SignalConfig, SignalSource,
};

use super::controlled_services::ControlledServices;
use super::service::ServiceSpec;

/// The most requests that wait for one service.
const WAITING_MAX: usize = 1000;

/// The plane with a resource for each service. It draws from the seed alone.
pub(crate) fn overload_plane(
    settings: &ControlledServices,
    mode: ResourceMode,
) -> Result<Overload, OverloadError> {
    let resource = |service: &ServiceSpec| (service.name.clone(), resource_config(service).mode(mode));
    let resources = settings.services.iter().map(resource);
    let plane = resources
        .fold(Overload::builder(settings.seed), |plane, (name, config)| plane.resource(name, config));
    let measured = settings.services.iter().filter(|service| service.measured_noise.is_some());
    let plane = measured.fold(plane, |plane, service| plane.signal(measured_signal(service)));
    settings.features.iter().fold(plane, |plane, feature| plane.feature(feature.config.clone())).build()
}

/// The settings of one service: the defaults of the plane but for what the service names.
fn resource_config(service: &ServiceSpec) -> ResourceConfig {
    let places = service.places.unwrap_or(service.workers);
    let config = if service.is_adaptive {
        let defaults = AdaptiveLimitConfig::default();
        ResourceConfig::adaptive(AdaptiveLimitConfig {
            initial: places,
            min: defaults.min.min(places),
            max: defaults.max.max(places),
            ..defaults
        })
    } else {
        ResourceConfig::new(places.into())
    };
    let config = config
        .waiting_max(RoomUse::new(WAITING_MAX, 64 << 20))
        .queue(queue_config(service))
        .levels(service.levels);
    match service.defer {
        Some(defer) => config.defer(defer),
        None => config,
    }
}

/// The signal of the measured use of a service.
pub(crate) fn measured_signal(service: &ServiceSpec) -> SignalConfig {
    let mut signal = SignalConfig::new(measured_name(service), SignalSource::Pushed);
    (signal.resource, signal.unit) = (Some(service.name.clone()), "of the workers".to_owned());
    signal
}

/// The name of that signal.
pub(crate) fn measured_name(service: &ServiceSpec) -> String {
    format!("{}-in-use", service.name)
}

/// The fair queue of one service.
fn queue_config(service: &ServiceSpec) -> QueueConfig {
    let mut queue = QueueConfig::default();
    if let Some(weights) = service.weights {
        queue.weights = weights;
    }
    for (class, share) in Class::ALL.into_iter().zip(service.min_shares) {
        if let Some(share) = share.and_then(Share::from_ratio) {
            queue = queue.min_share(class, share);
        }
    }
    match service.priority_share.and_then(Share::from_ratio) {
        Some(share) => queue.reserve_share(share),
        None => queue,
    }
}

/// The bounds of the waiting room of the engine.
pub(crate) const fn waiting_bounds() -> RoomBounds {
    RoomBounds::new(16 * WAITING_MAX, 64 << 20)
}

/// The load level of a resource, 0 normal to 4 emergency.
pub(crate) const fn load_level(stats: &ResourceStats<'_>) -> u8 {
    stats.level as u8
}

//! The resources and signals of a policy, as the overload plane takes them.

use tidegate_core::Class;
use tidegate_engine::RoomUse;
use tidegate_overload::{
    AdaptiveLimitConfig, FleetShare, LimitAlgorithm, NAMESPACES_MAX, NamespaceShares, Overload,
    OverloadBuilder, QueueConfig, ResourceConfig, Share, SignalConfig, SignalSource,
};
use tidegate_policy::Policy;
use tidegate_policy::policy::resources::{
    AdaptiveAlgorithm, AdaptivePolicy, ConcurrencyPolicy, QueuePolicy, ResourcePolicy, ResourceShare,
    SignalPolicy, SignalSourcePolicy,
};

/// The seed of the cohorts: the same on all members of a fleet, so that all shed the same tenants.
/// The cohorts move with time, so that no tenant is always among the first.
const COHORT_SEED: u64 = 0x7469_6465_6761_7465;

// A policy takes exactly the shares that the plane takes.
const _: () = assert!(ResourcePolicy::SHARE_MAX == NamespaceShares::MAX);
const _: () = assert!(ResourcePolicy::SHARES_MAX == NAMESPACES_MAX);

/// The overload plane of a policy.
pub(crate) fn overload(policy: &Policy) -> OverloadBuilder {
    let resources = policy
        .resources
        .iter()
        .fold(Overload::builder(COHORT_SEED), |builder, one| builder.resource(&one.name, resource(one)));
    policy.signals.iter().fold(resources, |builder, one| builder.signal(signal(one)))
}

fn resource(policy: &ResourcePolicy) -> ResourceConfig {
    let mut config = match policy.concurrency {
        ConcurrencyPolicy::Fixed(places) => ResourceConfig::new(places),
        ConcurrencyPolicy::Adaptive(limit) => ResourceConfig::adaptive(adaptive(limit)),
        _ => ResourceConfig::new(ResourcePolicy::CONCURRENCY_MAX),
    };
    config.reserve = policy.reserve_percent;
    config.share = match (policy.share, policy.concurrency) {
        (ResourceShare::Full, _) => FleetShare::None,
        // Each member finds its own part.
        (ResourceShare::Auto, ConcurrencyPolicy::Adaptive(_)) => FleetShare::Queue,
        (ResourceShare::Auto, _) => FleetShare::PlacesAndQueue,
    };
    if let Some(waiting) = &policy.queue {
        config = config.waiting_max(RoomUse::new(waiting.requests, waiting.bytes)).queue(queue(waiting));
    }
    config
}

fn adaptive(policy: AdaptivePolicy) -> AdaptiveLimitConfig {
    // Checked by the policy: a million at most.
    let places = |places: u64| u32::try_from(places).unwrap_or(AdaptiveLimitConfig::LIMIT_MAX);
    AdaptiveLimitConfig {
        algorithm: match policy.algorithm {
            AdaptiveAlgorithm::Aimd => LimitAlgorithm::Aimd,
            AdaptiveAlgorithm::Gradient => LimitAlgorithm::Gradient,
            _ => LimitAlgorithm::Vegas,
        },
        min: places(policy.min),
        max: places(policy.max),
        initial: places(policy.initial),
        ceiling: policy.ceiling,
        ..AdaptiveLimitConfig::default()
    }
}

fn queue(policy: &QueuePolicy) -> QueueConfig {
    let mut config = QueueConfig::default().reserve_share(hundredths(policy.priority_share_percent));
    for class in Class::ALL {
        let at = class as usize;
        // Checked by the policy: weights are far below 2^32.
        let weight = u32::try_from(policy.weights[at]).unwrap_or(u32::MAX);
        config = config.weight(class, weight).delay_target(class, policy.delay_targets[at]);
        if let Some(percent) = policy.min_share_percent[at] {
            config = config.min_share(class, hundredths(percent));
        }
        if policy.lifo[at] {
            config = config.lifo(class);
        }
    }
    config
}

fn hundredths(percent: u8) -> Share {
    Share::ten_thousandths(u16::from(percent) * 100)
}

fn signal(policy: &SignalPolicy) -> SignalConfig {
    let (source, ttl) = match policy.source {
        SignalSourcePolicy::InFlight => (SignalSource::InFlight, None),
        SignalSourcePolicy::QueueDelay => (SignalSource::QueueDelay, None),
        SignalSourcePolicy::SlowAnswers { slower_than } => (SignalSource::SlowAnswers { slower_than }, None),
        SignalSourcePolicy::Push { ttl } => (SignalSource::Pushed, Some(ttl)),
        _ => (SignalSource::Pushed, None),
    };
    SignalConfig {
        unit: policy.unit.clone(),
        resource: policy.resource.clone(),
        target: policy.target,
        ttl,
        smoothing: policy.smoothing,
        ..SignalConfig::new(&policy.name, source)
    }
}

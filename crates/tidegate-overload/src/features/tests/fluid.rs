//! A service without single requests: its load is the admitted part of the demand, and a signal
//! reports it with noise. A simulated day takes seconds.

use core::time::Duration;

use tidegate_core::{Class, Timestamp};

use super::world::{Chance, START};
use crate::{
    FeatureChange, FeatureConfig, FeatureEvent, Overload, PushedValue, RequestRecord, ResourceConfig,
    ResourceId, SignalConfig, SignalSource, TICK, WaitsForPlace,
};

/// The places, and the place time of one request at the best level.
const PLACES: u32 = 20;
const SERVICE: Duration = Duration::from_millis(100);
/// The requests a second that the places can serve.
pub(crate) const CAPACITY: f64 = 200.0;

/// The requests of one kind.
pub(crate) struct RequestFlow {
    pub(crate) feature: Option<&'static str>,
    pub(crate) class: Class,
    /// The requests of the tick that are not whole yet.
    rest: f64,
}

pub(crate) struct FluidService {
    pub(crate) overload: Overload,
    pub(crate) resource: ResourceId,
    pub(crate) now: Timestamp,
    pub(crate) flows: Vec<RequestFlow>,
    pub(crate) chance: Chance,
    /// The deviation of the signal.
    pub(crate) noise: f64,
    pub(crate) events: Vec<FeatureEvent>,
    /// The load of the last tick, as it was.
    pub(crate) load: f64,
    /// The same of the ticks before.
    pub(crate) loads: Vec<f64>,
    /// Whether the signal is silent, and what it shows instead of the load.
    pub(crate) is_silent: bool,
    pub(crate) shown: Option<f64>,
}

impl FluidService {
    pub(crate) fn new(
        config: impl Fn(ResourceConfig) -> ResourceConfig,
        features: Vec<FeatureConfig>,
        flows: &[(Option<&'static str>, Class)],
        noise: f64,
        seed: u64,
    ) -> Self {
        let in_flight = SignalConfig::new("in_flight", SignalSource::InFlight);
        let mut builder = Overload::builder(7)
            .default_resource(config(ResourceConfig::new(PLACES.into())))
            .signal(SignalConfig { target: 1e6, ..in_flight })
            .signal(SignalConfig::new("u", SignalSource::Pushed));
        for feature in features {
            builder = builder.feature(feature);
        }
        let overload = builder.build().unwrap();
        Self {
            resource: overload.find(None).unwrap(),
            overload,
            now: START,
            flows: flows
                .iter()
                .map(|(feature, class)| RequestFlow { feature: *feature, class: *class, rest: 0.0 })
                .collect(),
            chance: Chance::new(seed),
            noise,
            events: Vec::new(),
            load: 0.0,
            loads: Vec::new(),
            is_silent: false,
            shown: None,
        }
    }

    pub(crate) fn seconds(&self) -> f64 {
        self.now.saturating_since(START).as_secs_f64()
    }

    /// Runs a tick in which each flow asks for so much of the capacity.
    pub(crate) fn tick(&mut self, asked: &[f64]) {
        let (overload, now) = (&self.overload, self.now);
        let mut load = 0.0;
        for (flow, asked) in self.flows.iter_mut().zip(asked) {
            flow.rest += asked * CAPACITY * TICK.as_secs_f64();
            while flow.rest >= 1.0 {
                flow.rest -= 1.0;
                let tenant = format!("t{}", self.chance.next() % 50);
                let level = overload.request_level(1, flow.class, Some(&tenant), now);
                let feature = flow.feature.map(|name| overload.feature(overload.find_feature(name).unwrap()));
                let grant = feature.map(|feature| {
                    feature.count_offered(level);
                    feature.grant(level)
                });
                if grant.is_some_and(|grant| grant.is_refused()) {
                    continue;
                }
                let mut record = RequestRecord::new(self.resource, level);
                overload.offer(&mut record, now);
                let permit = overload.take_place(&mut record, WaitsForPlace::No, now).unwrap();
                overload.end(record, crate::OfferOutcome::Admitted);
                let cost = feature.zip(grant).map_or(1.0, |(feature, grant)| {
                    feature
                        .config()
                        .levels
                        .get(usize::from(grant.level_in_force()))
                        .map_or(1.0, |level| level.cost)
                });
                let held = SERVICE.mul_f64(cost);
                if let Some((feature, grant)) = feature.zip(grant) {
                    let used = feature.begin(grant);
                    feature.end(used, Some(held));
                }
                overload.resource(self.resource).count_held(&permit, held);
                overload.give_back(permit);
                load += cost * SERVICE.as_secs_f64();
            }
        }
        self.load = load / (TICK.as_secs_f64() * f64::from(PLACES));
        self.loads.push(self.load);
        if !self.is_silent {
            let value = (self.shown.unwrap_or(self.load) + self.noise * self.chance.normal()).max(0.0);
            overload.push_signal("u", PushedValue::new(value), now).unwrap();
        }
        overload.tick(now);
        self.events.extend(overload.take_feature_events());
        self.now = now.saturating_add(TICK);
    }

    pub(crate) fn run(&mut self, seconds: f64, asked: impl Fn(f64) -> Vec<f64>) {
        let mut passed = 0.05;
        while passed < seconds {
            let asked = asked(self.seconds());
            self.tick(&asked);
            passed += TICK.as_secs_f64();
        }
    }

    /// The mean load of the last seconds.
    pub(crate) fn mean_load(&self, seconds: u32) -> f64 {
        let last = self.loads.iter().rev().take(10 * seconds as usize);
        last.sum::<f64>() / f64::from(10 * seconds)
    }

    pub(crate) fn transitions(&self) -> u64 {
        self.overload.feature_views(self.now).iter().map(|view| view.transitions).sum()
    }

    pub(crate) fn changes(&self) -> impl Iterator<Item = &FeatureChange> {
        self.events.iter().filter_map(|event| match event {
            FeatureEvent::Changed(change) => Some(change),
            _ => None,
        })
    }
}

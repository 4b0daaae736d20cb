//! A service in virtual time: streams of requests, some with a feature, on the places of one
//! resource.

use core::time::Duration;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

use tidegate_core::{Class, Timestamp};

use crate::{
    FeatureConfig, FeatureEvent, FeatureLevelConfig, FeatureUse, InFlightPermit, LevelThresholds,
    OfferOutcome, Overload, RequestRecord, ResourceConfig, ResourceId, SignalConfig, TICK, WaitsForPlace,
};

pub(crate) const START: Timestamp = Timestamp::from_secs(1_800_000_000);

/// Seeds that the settings were tuned with, and seeds that they were not.
pub(crate) const TUNED: [u64; 5] = [1, 2, 3, 4, 5];
pub(crate) const UNTUNED: [u64; 5] = [101, 202, 303, 404, 505];

/// Numbers by chance (`splitmix64`), the same for a seed everywhere.
#[derive(Clone, Debug)]
pub(crate) struct Chance(u64);

impl Chance {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// From 0 to 1.
    #[expect(clippy::cast_precision_loss, reason = "53 bits fit")]
    pub(crate) fn part(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Normal, with mean 0 and deviation 1.
    pub(crate) fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.part()).sum::<f64>() - 6.0
    }
}

/// A feature with levels of these names and costs.
pub(crate) fn feature(name: &str, class: Class, levels: &[(&str, f64)]) -> FeatureConfig {
    let mut config = FeatureConfig::new(name, class);
    config.levels = levels.iter().map(|(name, cost)| FeatureLevelConfig::new(*name, *cost)).collect();
    config
}

/// Thresholds with features that degrade at this one.
pub(crate) fn thresholds(brownout: f64) -> LevelThresholds {
    LevelThresholds {
        soft: 0.70,
        brownout,
        hard: brownout + 0.05,
        emergency: 0.99,
        ..LevelThresholds::DEFAULT
    }
}

/// Requests of one kind.
pub(crate) struct RequestStream {
    pub(crate) feature: Option<&'static str>,
    pub(crate) class: Class,
    /// The requests a second, by the seconds since the start.
    pub(crate) rate: Box<dyn Fn(f64) -> f64>,
    /// The place time of one at the best level.
    pub(crate) service: Duration,
    pub(crate) tenants: u64,
}

impl RequestStream {
    pub(crate) fn new(
        feature: Option<&'static str>,
        class: Class,
        service: Duration,
        rate: impl Fn(f64) -> f64 + 'static,
    ) -> Self {
        Self { feature, class, rate: Box::new(rate), service, tenants: 50 }
    }
}

/// The counts of one stream.
#[derive(Clone, Debug, Default)]
pub(crate) struct StreamCounts {
    pub(crate) offered: u64,
    pub(crate) admitted: u64,
    /// Refused because the feature is off, and for want of a place or by the cursor.
    pub(crate) disabled: u64,
    pub(crate) refused: u64,
    /// The worth of the admitted requests, of which one at the best level is worth 1.
    pub(crate) quality: f64,
}

/// The state after a tick.
#[derive(Clone, Debug)]
pub(crate) struct TickSample {
    pub(crate) seconds: f64,
    pub(crate) pressure: f64,
    /// The worst level of each feature, in their order, and its requests in flight.
    pub(crate) levels: Vec<u8>,
    pub(crate) in_flight: Vec<u64>,
}

struct Work {
    permit: InFlightPermit,
    feature: Option<(crate::FeatureId, FeatureUse)>,
    held: Duration,
}

pub(crate) struct World {
    pub(crate) overload: Overload,
    pub(crate) resource: ResourceId,
    pub(crate) now: Timestamp,
    pub(crate) streams: Vec<RequestStream>,
    pub(crate) counts: Vec<StreamCounts>,
    pub(crate) ticks: Vec<TickSample>,
    pub(crate) events: Vec<FeatureEvent>,
    pub(crate) chance: Chance,
    next: Vec<Timestamp>,
    ends: BinaryHeap<Reverse<(Timestamp, usize)>>,
    work: Vec<Option<Work>>,
    free: Vec<usize>,
    tick_due: Timestamp,
    /// Whether callers stop asking for a feature while it is off.
    pub(crate) gives_up: bool,
}

impl World {
    pub(crate) fn new(
        config: &ResourceConfig,
        signals: Vec<SignalConfig>,
        features: Vec<FeatureConfig>,
        streams: Vec<RequestStream>,
        seed: u64,
    ) -> Self {
        let mut builder = Overload::builder(seed).default_resource(*config);
        for signal in signals {
            builder = builder.signal(signal);
        }
        for feature in features {
            builder = builder.feature(feature);
        }
        let overload = builder.build().unwrap();
        let resource = overload.find(None).unwrap();
        let mut chance = Chance::new(seed);
        let first =
            |chance: &mut Chance| START.saturating_add(Duration::from_secs_f64(chance.part() / 100.0));
        Self {
            resource,
            overload,
            now: START,
            counts: vec![StreamCounts::default(); streams.len()],
            next: streams.iter().map(|_| first(&mut chance)).collect(),
            streams,
            ticks: Vec::new(),
            events: Vec::new(),
            chance,
            ends: BinaryHeap::new(),
            work: Vec::new(),
            free: Vec::new(),
            tick_due: START,
            gives_up: false,
        }
    }

    pub(crate) fn seconds(&self) -> f64 {
        self.now.saturating_since(START).as_secs_f64()
    }

    /// Runs until so many seconds after the start.
    pub(crate) fn run_until(&mut self, seconds: f64) {
        let end = START.saturating_add(Duration::from_secs_f64(seconds));
        loop {
            let (stream, arrival) =
                self.next.iter().copied().enumerate().min_by_key(|(_, at)| *at).expect("there are streams");
            let ends = self.ends.peek().map_or(Timestamp::MAX, |Reverse((at, _))| *at);
            let at = arrival.min(ends).min(self.tick_due);
            if at > end {
                return;
            }
            self.now = at;
            if ends == at {
                self.end_work();
            } else if self.tick_due == at {
                self.tick();
            } else {
                self.arrive(stream);
            }
        }
    }

    fn arrive(&mut self, index: usize) {
        let rate = (self.streams[index].rate)(self.seconds());
        // At intervals that differ by a part of themselves.
        let spread = 0.8 + 0.4 * self.chance.part();
        // A stream that is silent is asked again soon.
        let wait = if rate > 0.0 { (spread / rate).min(1.0) } else { 0.01 };
        self.next[index] = self.now.saturating_add(Duration::from_secs_f64(wait.max(1e-9)));
        if rate > 0.0 {
            self.request(index);
        }
    }

    fn request(&mut self, index: usize) {
        let (overload, now) = (&self.overload, self.now);
        let stream = &self.streams[index];
        let tenant = format!("t{}", self.chance.next() % stream.tenants);
        let level = overload.request_level(1, stream.class, Some(&tenant), now);
        let counts = &mut self.counts[index];
        let feature = stream.feature.map(|name| overload.find_feature(name).unwrap());
        let grant = feature.map(|id| overload.feature(id).grant(level));
        let is_off = grant.is_some_and(|grant| grant.is_refused());
        if is_off && self.gives_up {
            return;
        }
        counts.offered += 1;
        if let Some(id) = feature {
            overload.feature(id).count_offered(level);
        }
        if is_off {
            counts.disabled += 1;
            return;
        }
        let mut record = RequestRecord::new(self.resource, level);
        overload.offer(&mut record, now);
        if overload.shed(&record).is_some() {
            counts.refused += 1;
            overload.end(record, OfferOutcome::Shed);
            return;
        }
        let Ok(permit) = overload.take_place(&mut record, WaitsForPlace::No, now) else {
            counts.refused += 1;
            overload.end(record, OfferOutcome::NoPlace);
            return;
        };
        overload.end(record, OfferOutcome::Admitted);
        counts.admitted += 1;
        let in_force = grant.map_or(0, |grant| grant.level_in_force());
        let cost = feature.map_or(1.0, |id| {
            let levels = &overload.feature(id).config().levels;
            levels.get(usize::from(in_force)).map_or(1.0, |level| level.cost)
        });
        counts.quality += cost.sqrt();
        let spread = 0.95 + 0.1 * self.chance.part();
        let held = stream.service.mul_f64(cost * spread);
        let feature = feature.zip(grant).map(|(id, grant)| (id, overload.feature(id).begin(grant)));
        let work = Some(Work { permit, feature, held });
        let slot = self.free.pop().unwrap_or(self.work.len());
        if slot == self.work.len() {
            self.work.push(work);
        } else {
            self.work[slot] = work;
        }
        self.ends.push(Reverse((now.saturating_add(held), slot)));
    }

    fn end_work(&mut self) {
        let Some(Reverse((_, slot))) = self.ends.pop() else { return };
        let work = self.work[slot].take().unwrap();
        self.free.push(slot);
        self.overload.resource(self.resource).count_held(&work.permit, work.held);
        if let Some((id, used)) = work.feature {
            self.overload.feature(id).end(used, Some(work.held));
        }
        self.overload.give_back(work.permit);
    }

    fn tick(&mut self) {
        self.tick_due = self.overload.tick(self.now);
        assert_eq!(self.tick_due, self.now.saturating_add(TICK));
        self.events.extend(self.overload.take_feature_events());
        let pressure = self.overload.resource(self.resource).pressure().unwrap_or(0.0);
        let features = || self.overload.features().map(|(_, feature)| feature);
        self.ticks.push(TickSample {
            seconds: self.seconds(),
            pressure,
            levels: features().map(crate::Feature::worst_level).collect(),
            in_flight: features().map(crate::Feature::in_flight).collect(),
        });
    }

    /// The seconds at which features changed, and the levels that they changed to.
    pub(crate) fn changes(&self) -> Vec<(f64, String, String)> {
        let changed = self.events.iter().filter_map(|event| match event {
            FeatureEvent::Changed(change) => {
                let seconds = change.at.saturating_since(START).as_secs_f64();
                Some((seconds, change.feature.to_string(), change.to.to_string()))
            }
            _ => None,
        });
        changed.collect()
    }
}

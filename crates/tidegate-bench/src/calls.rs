//! One decision of each kind, as small closures that every measurement calls: the timing, criterion
//! and callgrind.

use std::sync::{Arc, Mutex, PoisonError};

use std::collections::VecDeque;
use std::time::Duration;

use tidegate_capacity::{Access, AccessOperation, Capacity, TableMode};
use tidegate_core::algorithm::Rolling;
use tidegate_core::ring::{RingHandle, Rings};
use tidegate_core::{Algorithm, Class, Cost, Gate, KeyTable, Limit, TableConfig, Timestamp};
use tidegate_engine::{
    Decision, Engine, EngineBuilder, EngineConfig, MeterConfig, NamespaceConfig, Request, Step,
};
use tidegate_overload::{FeatureConfig, FeatureLevelConfig, Overload, ResourceConfig};

use crate::workload::{self, SEED, START, Visitors};

/// The key of the scenarios with one.
pub const HOT: &str = "session-000000000042";

/// A gate with one bucket by session.
pub fn gate_of_one(algorithm: Algorithm, table: TableConfig) -> Gate {
    gate([Limit::new("per-session", algorithm).key(["session"])], table)
}

/// A gate with these limits over a table of its own.
pub fn gate(limits: impl IntoIterator<Item = Limit>, table: TableConfig) -> Gate {
    gate_over("bench", limits, Arc::new(KeyTable::new(table)))
}

/// A gate with one bucket by session that never refuses, over a table in which another namespace
/// has blocked a key for long.
pub fn gate_beside_block(table: TableConfig) -> Gate {
    let table = Arc::new(KeyTable::new(table));
    let limits = || [Limit::new("per-session", workload::endless()).key(["session"])];
    let other = gate_over("other", limits(), Arc::clone(&table));
    let until = START.saturating_add(Duration::from_hours(24));
    let blocked = other.block(&[("session", "blocked")], "per-session", until, START);
    assert_eq!(blocked, Ok(true), "the table has room for a block");
    gate_over("bench", limits(), table)
}

fn gate_over(namespace: &str, limits: impl IntoIterator<Item = Limit>, table: Arc<KeyTable>) -> Gate {
    Gate::builder(namespace).limits(limits).table(table).build().expect("the limits of a benchmark are valid")
}

/// Checks one session.
#[inline]
pub fn check_one(gate: &Gate, session: &str, now: Timestamp) -> bool {
    gate.check(&[("session", session)], Cost::ONE, now).is_admit()
}

/// [`check_one`] for a caller that reads why it is refused.
#[inline]
pub fn check_one_and_read(gate: &Gate, session: &str, now: Timestamp) -> bool {
    gate.check(&[("session", session)], Cost::ONE, now).into_result().is_ok()
}

/// Checks three limits.
#[inline]
pub fn check_three(gate: &Gate, [api_key, user, session]: [&str; 3], now: Timestamp) -> bool {
    gate.check(&[("api_key", api_key), ("user", user), ("session", session)], Cost::ONE, now).is_admit()
}

/// [`check_three`] for a caller that reads why it is refused.
#[inline]
pub fn check_three_and_read(gate: &Gate, [api_key, user, session]: [&str; 3], now: Timestamp) -> bool {
    let attributes = [("api_key", api_key), ("user", user), ("session", session)];
    gate.check(&attributes, Cost::ONE, now).into_result().is_ok()
}

/// Checks eight limits, which all count by this value.
#[inline]
pub fn check_eight(gate: &Gate, value: &str, now: Timestamp) -> bool {
    let attributes = workload::EIGHT_NAMES.map(|name| (name, value));
    gate.check(&attributes, Cost::ONE, now).is_admit()
}

/// Checks sessions together; how many were admitted.
#[inline]
pub fn check_sixteen(gate: &Gate, sessions: [&str; Gate::BATCH], now: Timestamp) -> u64 {
    let pairs: [_; Gate::BATCH] = core::array::from_fn(|index| [("session", sessions[index])]);
    let requests: [_; Gate::BATCH] =
        core::array::from_fn(|index| (pairs[index].as_slice().into(), Cost::ONE));
    let mut admitted = 0;
    gate.check_batch(&requests, now, |_, decision| admitted += u64::from(decision.is_admit()));
    admitted
}

/// One ring and its numbers.
#[derive(Debug)]
pub struct OneRing {
    rings: Rings,
    ring: RingHandle,
    rolling: Rolling,
}

impl OneRing {
    /// A ring that admits `limit` in any `window`.
    pub fn new(limit: u64, window: Duration) -> Self {
        let rings = Rings::new(16 << 20);
        let ring = rings.create().expect("there is room for one ring");
        let rolling = Rolling::new(limit, window).expect("the numbers of a benchmark are valid");
        Self { rings, ring, rolling }
    }

    /// Charges one unit, if there is room.
    #[inline]
    pub fn admit(&self, now: Timestamp) -> bool {
        self.rings.admit(self.ring, &self.rolling, Cost::ONE, now).is_ok()
    }
}

/// The common implementation: a lock around the instants of the last window.
#[derive(Debug)]
pub struct MutexedLog {
    log: Mutex<VecDeque<u64>>,
    limit: usize,
    window_ns: u64,
}

impl MutexedLog {
    /// A log that admits `limit` in any `window`.
    pub fn new(limit: usize, window: Duration) -> Self {
        Self { log: Mutex::new(VecDeque::with_capacity(limit)), limit, window_ns: window.as_nanos() as u64 }
    }

    /// Records one unit, if there is room.
    #[inline]
    pub fn admit(&self, now: Timestamp) -> bool {
        let now = now.as_nanos();
        let mut log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        while log.front().is_some_and(|oldest| oldest + self.window_ns <= now) {
            log.pop_front();
        }
        let has_room = log.len() < self.limit;
        if has_room {
            log.push_back(now);
        }
        has_room
    }
}

/// Tables of the capacity plane, and nodes: as many as it takes for none to throttle a benchmark.
const TABLES: [&str; 16] = [
    "t00", "t01", "t02", "t03", "t04", "t05", "t06", "t07", "t08", "t09", "t10", "t11", "t12", "t13", "t14",
    "t15",
];

/// Which planes an engine has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planes {
    /// Limits alone.
    Limits,
    /// Limits, capacity and overload.
    All,
}

/// An engine that never refuses.
pub fn engine(limits: impl IntoIterator<Item = Limit>, planes: Planes) -> Engine {
    engine_with(limits, (planes == Planes::All).then(capacity))
}

/// An engine that never refuses; with this capacity plane it has the overload plane as well.
pub fn engine_with(limits: impl IntoIterator<Item = Limit>, capacity: Option<Capacity>) -> Engine {
    engine_builder(limits, capacity).build().expect("the engine of a benchmark is valid")
}

/// The builder of [`engine_with`].
pub fn engine_builder(limits: impl IntoIterator<Item = Limit>, capacity: Option<Capacity>) -> EngineBuilder {
    let mut config = EngineConfig::seeded(SEED);
    config.table.bytes = 64 << 20;
    let namespace = NamespaceConfig::new("bench", limits);
    let mut builder = Engine::builder(config).namespace(namespace);
    if let Some(capacity) = capacity {
        let resource = ResourceConfig::new(ResourceConfig::IN_FLIGHT_MAX);
        builder = builder
            .capacity(capacity)
            .overload(Overload::new(resource, 1).expect("a million is a valid bound"));
    }
    builder
}

/// The names of a metered request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MeteredNames {
    /// Neither tenant nor feature.
    Nothing,
    /// A feature, and one tenant for all requests.
    OneTenant,
    /// A feature, and a tenant for each key.
    ManyTenants,
}

/// The feature of metered requests.
const FEATURE: &str = "search";

/// The engine that meters, with a feature.
pub fn metered(builder: EngineBuilder) -> Engine {
    let builder = builder.metering(MeterConfig::new(10_000), START).features([FEATURE]);
    builder.build().expect("the engine of a benchmark is valid")
}

/// Admits a request under one limit, with a feature if it has a tenant.
#[inline]
pub fn admit_metered(engine: &Engine, session: &str, tenant: Option<&str>, now: Timestamp) -> bool {
    let attributes = [("session", session)];
    let mut request = Request::new("bench", &attributes);
    (request.tenant, request.feature) = (tenant, tenant.map(|_| FEATURE));
    admit(engine, &request, now)
}

/// The name of the feature with this number.
pub fn feature_name(number: usize) -> String {
    format!("feature-{number:03}")
}

/// An engine with a resource that has so many features, each with four levels.
pub fn engine_with_features(limits: impl IntoIterator<Item = Limit>, features: usize) -> Engine {
    let mut overload =
        Overload::builder(1).default_resource(ResourceConfig::new(ResourceConfig::IN_FLIGHT_MAX));
    for number in 0..features {
        let mut feature = FeatureConfig::new(feature_name(number), Class::Sheddable);
        let levels = [("full", 1.0), ("720p", 0.55), ("480p", 0.3), ("off", 0.0)];
        feature.levels = levels.map(|(name, cost)| FeatureLevelConfig::new(name, cost)).into();
        overload = overload.feature(feature);
    }
    let overload = overload.build().expect("the features of a benchmark are valid");
    let builder = engine_builder(limits, None).overload(overload);
    builder.build().expect("the engine of a benchmark is valid")
}

/// Admits a request under one limit that takes a place, for this feature.
#[inline]
pub fn admit_feature(engine: &Engine, session: &str, feature: Option<&str>, now: Timestamp) -> bool {
    let attributes = [("session", session)];
    let mut request = Request::new("bench", &attributes);
    request.feature = feature;
    admit(engine, &request, now)
}

/// A capacity plane that can do eight million reads a second and more.
pub fn capacity() -> Capacity {
    capacity_of(TableMode::Static)
}

/// As [`capacity`], with tables of this mode.
pub fn capacity_of(mode: TableMode) -> Capacity {
    let mut builder = Capacity::builder();
    for (number, table) in TABLES.into_iter().enumerate() {
        let node = format!("node-{number}");
        let table = tidegate_capacity::TableConfig::new("bench", table, 900_000, 90_000);
        builder = builder.node(&node, 1_000_000).table(table.partitions(16).nodes([node]).mode(mode));
    }
    builder.build().expect("the tables of a benchmark are valid")
}

/// As [`capacity_of`] with global admission, every partition of which has its keys sampled.
pub fn warm_capacity(now: Timestamp) -> Capacity {
    let capacity = capacity_of(TableMode::Global);
    for table in TABLES {
        let ids: Vec<_> =
            capacity.partitions("bench", table, now).expect("it exists").map(|one| one.id).collect();
        for id in ids {
            let sampled = capacity.sample_keys(("bench", table), id, AccessOperation::Read, Some(1), now);
            sampled.expect("the partition exists");
        }
    }
    capacity
}

/// The access of the request with this number.
#[inline]
pub fn access(index: usize, key: &str) -> Access<'_> {
    Access::read(TABLES[index % TABLES.len()], key.as_bytes(), 100)
}

/// Admits a request at an engine; the permit is given back at once.
#[inline]
pub fn admit(engine: &Engine, request: &Request<'_>, now: Timestamp) -> bool {
    matches!(engine.admit(request, now), Ok(Step::Decided(Decision::Admit(_))))
}

/// Admits a request under one limit, with an access when all planes are asked.
#[inline]
pub fn admit_one(engine: &Engine, planes: Planes, index: usize, session: &str, now: Timestamp) -> bool {
    let attributes = [("session", session)];
    let request = Request::new("bench", &attributes);
    match planes {
        Planes::Limits => admit(engine, &request, now),
        Planes::All => admit(engine, &request.tenant(session).access(access(index, session)), now),
    }
}

/// Admits a request under three limits, with an access when all planes are asked.
#[inline]
pub fn admit_three(engine: &Engine, planes: Planes, index: usize, keys: [&str; 3], now: Timestamp) -> bool {
    let [api_key, user, session] = keys;
    let attributes = [("api_key", api_key), ("user", user), ("session", session)];
    let request = Request::new("bench", &attributes);
    match planes {
        Planes::Limits => admit(engine, &request, now),
        Planes::All => admit(engine, &request.tenant(user).access(access(index, session)), now),
    }
}

/// Brings every session once, so that a measurement meets keys that are there.
pub fn fill_one(gate: &Gate, sessions: &[String]) {
    for session in sessions {
        assert!(check_one(gate, session, START), "the table has room for every session");
    }
}

/// Brings every session of the visitors once.
pub fn fill_three(gate: &Gate, visitors: &Visitors) {
    for session in 0..workload::SESSIONS {
        assert!(
            check_three(gate, visitors.of_session(session), START),
            "the table has room for every session"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_that_always_slides_admits_and_a_long_one_denies() {
        let (sliding, full) =
            (OneRing::new(100, Duration::from_micros(1)), OneRing::new(100, workload::SECOND));
        let admitted = |ring: &OneRing| {
            (0..1_000_u64).filter(|i| ring.admit(Timestamp::from_nanos(START.as_nanos() + i * 20))).count()
        };
        assert_eq!((admitted(&sliding), admitted(&full)), (1_000, 100));
        let log = MutexedLog::new(100, workload::SECOND);
        assert_eq!((0..1_000).filter(|_| log.admit(START)).count(), 100);
    }

    #[test]
    fn an_engine_with_all_planes_admits_a_second_of_a_benchmark() {
        let engine = engine(workload::three_limits(), Planes::All);
        for index in 0..1_000 {
            assert!(admit_three(&engine, Planes::All, index, ["a", "b", HOT], START));
        }
    }
}

//! A world with all three planes and a store, in which one can make any of them refuse.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};

use core::time::Duration;
use tidegate_capacity::{Access, Capacity, TableConfig};
use tidegate_core::algorithm::{Bucket, Concurrency, Rolling};
use tidegate_core::limit::Consistency;
use tidegate_core::{Algorithm, Class, Cost, Limit, Rate, Refusal, Timestamp};
use tidegate_engine::{
    Answered, Decision, Engine, EngineBuilder, EngineConfig, LeaseConfig, NamespaceConfig, Pending, Permit,
    Progress, Request, RequestError, ResourceStats, Settled, Step, Turn, Wants,
};
use tidegate_overload::{FeatureConfig, FeatureLevelConfig, Overload, ResourceConfig};
use tidegate_store::{Batch, MemoryConfig, MemoryStore, Store, StoreError};

pub(crate) const NOW: Timestamp = Timestamp::from_secs(1_800_000_000);
pub(crate) const SEED: [u64; 4] = [1, 2, 3, 4];

pub(crate) fn bucket(units: u64, per: Duration) -> Algorithm {
    Algorithm::Bucket(Bucket::new(Rate::new(units, per).unwrap(), units).unwrap())
}

pub(crate) struct World {
    pub(crate) engine: Engine,
    pub(crate) store: MemoryStore,
    pub(crate) store_is_down: bool,
    pub(crate) clock: Arc<AtomicU64>,
    /// The batches that the store was asked.
    pub(crate) store_calls: AtomicU64,
}

/// The stage that a request has reached.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "a stage of a test is moved once")]
pub(crate) enum Stage {
    Admitted(Permit),
    Refused(Refusal),
    Waits(Pending),
}

impl Stage {
    pub(crate) fn admitted(self) -> Permit {
        match self {
            Self::Admitted(permit) => permit,
            other => panic!("should be admitted: {other:?}"),
        }
    }

    pub(crate) fn refused(self) -> Refusal {
        match self {
            Self::Refused(refused) => refused,
            other => panic!("should be refused: {other:?}"),
        }
    }

    pub(crate) fn waits(self) -> Pending {
        match self {
            Self::Waits(pending) => pending,
            other => panic!("should wait: {other:?}"),
        }
    }
}

/// The turn that a request waits for.
pub(crate) fn turn(pending: &Pending) -> Turn<'_> {
    match pending.wants() {
        Wants::Turn(turn) => turn,
        other => panic!("should wait for its turn: {other:?}"),
    }
}

/// The defaults with a small table, which is made quickly.
pub(crate) fn config() -> EngineConfig {
    let mut config = EngineConfig::seeded(SEED);
    config.table.bytes = 1 << 20;
    config
}

/// As [`config`], for an engine that asks a store.
pub(crate) fn store_config() -> EngineConfig {
    let mut config = config();
    config.asks_store = true;
    config
}

/// As [`store_config`], for an engine that leases.
pub(crate) fn lease_config() -> EngineConfig {
    let mut config = store_config();
    config.leases = Some(LeaseConfig::new(1));
    config
}

/// As [`config`], for an engine that keeps at most so many permits.
pub(crate) fn permits_config(permits_max: usize) -> EngineConfig {
    let mut config = config();
    config.permits_max = permits_max;
    config
}

/// An engine that asks a store.
pub(crate) fn stored(limits: impl IntoIterator<Item = Limit>) -> EngineBuilder {
    stored_by(store_config(), limits)
}

pub(crate) fn stored_by(config: EngineConfig, limits: impl IntoIterator<Item = Limit>) -> EngineBuilder {
    Engine::builder(config).namespace(NamespaceConfig::new("api", limits))
}

/// The number of requests that each position of the order admits.
#[derive(Clone, Copy)]
pub(crate) struct Room {
    pub(crate) local: u64,
    pub(crate) capacity: u64,
    pub(crate) exact: u64,
    pub(crate) in_flight: u64,
}

impl Room {
    pub(crate) const WIDE: Self = Self { local: 1000, capacity: 1000, exact: 1000, in_flight: 1000 };
}

impl World {
    /// Local limits of four kinds, an exact limit, a table, and places in flight.
    pub(crate) fn new(room: Room) -> Self {
        let minute = Duration::from_mins(1);
        let limits = vec![
            Limit::new("rate", bucket(room.local, minute)).key(["user"]),
            Limit::new("rolling", Algorithm::Rolling(Rolling::new(1000, minute).unwrap())).key(["user"]),
            Limit::new("parallel", Algorithm::Concurrency(Concurrency::new(1000, minute).unwrap()))
                .key(["user"]),
            Limit::new("quota", bucket(room.exact, Duration::from_hours(2)))
                .key(["user"])
                .consistency(Consistency::Exact),
        ];
        let table =
            TableConfig::new("api", "orders", room.capacity, room.capacity).partitions(1).nodes(["node"]);
        let capacity = Capacity::builder().node("node", 1_000_000).table(table).build().unwrap();
        let overload = Overload::builder(5).default_resource(ResourceConfig::new(room.in_flight));
        let overload = overload.feature(thumbnails()).build().unwrap();
        Self::of(stored(limits).capacity(capacity).overload(overload).build().unwrap())
    }

    /// These limits and a store, nothing else.
    pub(crate) fn with_limits(limits: impl IntoIterator<Item = Limit>) -> Self {
        Self::of(stored(limits).build().unwrap())
    }

    pub(crate) fn of(engine: Engine) -> Self {
        let clock = Arc::new(AtomicU64::new(NOW.as_nanos()));
        let reads = Arc::clone(&clock);
        let now = move || Timestamp::from_nanos(reads.load(Ordering::Relaxed));
        let store = MemoryStore::new(MemoryConfig::new(SEED), now);
        Self { engine, store, store_is_down: false, clock, store_calls: AtomicU64::new(0) }
    }

    pub(crate) fn now(&self) -> Timestamp {
        Timestamp::from_nanos(self.clock.load(Ordering::Relaxed))
    }

    pub(crate) fn advance(&self, span: Duration) {
        let now = self.now().saturating_add(span);
        self.clock.store(now.as_nanos(), Ordering::Relaxed);
    }

    /// Carries a request through to its decision.
    pub(crate) fn decide(&self, request: &Request<'_>) -> Decision<'static> {
        let mut step = self.engine.admit(request, self.now()).unwrap();
        loop {
            match step {
                Step::Decided(decision) => return decision.into_owned(),
                Step::Ask(pending) => {
                    let answer = self.ask(pending.batch().unwrap());
                    step = self.engine.resume(pending, answer, self.now());
                }
            }
        }
    }

    /// An admitted request of the user, of so many units.
    pub(crate) fn admit(&self, units: u64) -> Option<Permit> {
        match self.decide(&Request::new("api", &USER).cost(Cost::new(units).unwrap())) {
            Decision::Admit(permit) => Some(permit),
            Decision::Refuse(_) => None,
        }
    }

    /// The remaining quota of each limit of the user.
    pub(crate) fn left(&self) -> Vec<(String, u64)> {
        let peek = self.carry(self.engine.peek(&Request::new("api", &USER), self.now())).unwrap();
        peek.limits.into_iter().map(|one| (one.name, one.remaining)).collect()
    }

    /// Carries a request to its decision, or into the waiting room.
    pub(crate) fn begin(&self, request: &Request<'_>) -> Stage {
        self.go_on(self.engine.admit(request, self.now()).unwrap())
    }

    /// Goes on with a request that waits for its turn.
    pub(crate) fn resume(&self, pending: Pending) -> Stage {
        self.go_on(self.engine.resume(pending, Answered::Turn, self.now()))
    }

    pub(crate) fn go_on(&self, mut step: Step<'_>) -> Stage {
        loop {
            match step {
                Step::Decided(Decision::Admit(permit)) => return Stage::Admitted(permit),
                Step::Decided(Decision::Refuse(refused)) => return Stage::Refused(refused.into_refusal()),
                Step::Ask(pending) => match pending.batch() {
                    Some(batch) => {
                        let answer = self.ask(batch);
                        step = self.engine.resume(pending, answer, self.now());
                    }
                    None => return Stage::Waits(pending),
                },
            }
        }
    }

    /// The numbers of the first resource of the overload plane.
    pub(crate) fn stats(&self) -> ResourceStats<'_> {
        self.engine.resource_stats(self.now()).next().unwrap()
    }

    pub(crate) fn store_calls(&self) -> u64 {
        self.store_calls.load(Ordering::Relaxed)
    }

    pub(crate) fn ask(&self, batch: &Batch) -> Result<tidegate_store::Answer, StoreError> {
        self.store_calls.fetch_add(1, Ordering::Relaxed);
        if self.store_is_down {
            return Err(StoreError::Unavailable { at: "the test".into(), sent: false, source: None });
        }
        let mut running = core::pin::pin!(self.store.run(batch));
        match running.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(answer) => answer,
            Poll::Pending => panic!("the memory store answers at once"),
        }
    }

    /// Carries an operation through to its end.
    pub(crate) fn carry<T>(&self, begun: Result<Progress<T>, RequestError>) -> Result<T, RequestError> {
        let mut progress = begun?;
        loop {
            match progress {
                Progress::Done(value) => return Ok(value),
                Progress::Ask(asking) => {
                    let answer = self.ask(asking.batch());
                    progress = asking.resume(&self.engine, answer, self.now())?;
                }
            }
        }
    }

    pub(crate) fn finish(&self, settled: Settled) {
        for batch in settled.batches {
            self.ask(&batch).unwrap();
        }
    }

    /// Everything that can be charged, as one value to compare: limits, capacity, store and
    /// overload plane.
    pub(crate) fn state(&self) -> (u64, String, String, String) {
        let overload = self.engine.resource_stats(self.now());
        let overload: Vec<_> = overload
            .map(|one| (one.in_flight, one.cursor, one.pinned_until, one.undecided(), one.deferral))
            .collect();
        let features = self.engine.feature_views(self.now());
        let features: Vec<_> = features.into_iter().map(|one| (one.level, one.in_flight)).collect();
        let overload = format!("{overload:?}, features {features:?}, waiting {}", self.engine.waiting());
        (self.engine.fingerprint(), self.engine.capacity_state(), self.store.dump(), overload)
    }
}

/// A feature of the default resource with three levels, of which the last is off.
pub(crate) fn thumbnails() -> FeatureConfig {
    let mut feature = FeatureConfig::new("thumbnails", Class::Sheddable);
    let levels = [("full", 1.0), ("480p", 0.3), ("off", 0.0)];
    feature.levels = levels.map(|(name, cost)| FeatureLevelConfig::new(name, cost)).into();
    feature
}

/// The result of an operation that needs no store.
pub(crate) fn done<T>(progress: Result<Progress<T>, RequestError>) -> T {
    progress.unwrap().done().unwrap()
}

pub(crate) const USER: [(&str, &str); 1] = [("user", "ada")];

/// A request that meets every plane.
pub(crate) fn request() -> Request<'static> {
    Request::new("api", &USER)
        .class(Class::Sheddable)
        .tenant("acme")
        .access(Access::write("orders", b"order-7", 1000))
}

//! A server with a manual clock, and the limits most tests use.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tidegate_core::algorithm::{Bucket, Calendar, CivilUnit, Concurrency, Fixed, WindowStart};
use tidegate_core::limit::Missing;
use tidegate_core::{Algorithm, Limit, Rate, Timestamp};
use tidegate_engine::{Engine, EngineBuilder, EngineConfig, LeaseConfig, NamespaceConfig};
use tidegate_overload::{Overload, QueueConfig, ResourceConfig};
use tidegate_server::{Clock, Handle, ManualClock, Server, ServerConfig};
use tidegate_store::{DynStore, MemoryConfig, MemoryStore};

use crate::client::{Answer, Client};

/// 2026-11-20T23:00:00Z.
pub(crate) const START: Timestamp = Timestamp::from_secs(1_795_215_600);

pub(crate) struct World {
    pub(crate) handle: Handle,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) engine: Arc<Engine>,
}

pub(crate) fn bucket(name: &str, per_second: u64, burst: u64) -> Limit {
    Limit::new(name, Algorithm::Bucket(Bucket::new(Rate::per_second(per_second).unwrap(), burst).unwrap()))
}

pub(crate) fn fixed(name: &str, limit: u64, window: Duration) -> Limit {
    Limit::new(name, Algorithm::Fixed(Fixed::new(limit, window, WindowStart::Epoch).unwrap()))
}

/// The namespace `api`: 1/s with a burst of 3 for each user, 5 a minute for each app, 2 at a time
/// for each tenant, 10 a day for each account.
pub(crate) fn api() -> NamespaceConfig {
    let concurrency = Algorithm::Concurrency(Concurrency::new(2, Duration::from_secs(30)).unwrap());
    let calendar = Algorithm::Calendar(Calendar::new(10, CivilUnit::Day, "America/Los_Angeles").unwrap());
    NamespaceConfig::new(
        "api",
        [
            bucket("per-user", 1, 3).key(["user"]),
            fixed("per-app", 5, Duration::from_mins(1)).key(["app"]),
            Limit::new("parallel", concurrency).key(["tenant"]),
            Limit::new("daily", calendar).key(["account"]),
        ],
    )
}

/// The namespace `jobs`: one at a time, for an hour at most.
pub(crate) fn jobs() -> NamespaceConfig {
    let concurrency = Algorithm::Concurrency(Concurrency::new(1, Duration::from_hours(1)).unwrap());
    NamespaceConfig::new("jobs", [Limit::new("one", concurrency)])
}

/// The namespace `missing`: what happens to a request without `user` under each choice.
pub(crate) fn missing(choice: Missing) -> NamespaceConfig {
    let name = format!("missing-{choice:?}").to_lowercase();
    NamespaceConfig::new(name, [bucket("per-user", 1, 1).key(["user"]).missing(choice)])
}

/// On a free port; a drain closes idle connections at once, so that no test waits.
pub(crate) fn loopback() -> ServerConfig {
    let mut config = ServerConfig::listening_on(["127.0.0.1:0".parse().unwrap()]);
    config.bounds.drain_grace = Duration::ZERO;
    config
}

pub(crate) fn memory_store(clock: &Arc<ManualClock>) -> Arc<dyn DynStore> {
    let time = Arc::clone(clock);
    Arc::new(MemoryStore::new(MemoryConfig::new([5, 6, 7, 8]), move || time.now()))
}

fn engine(namespaces: impl IntoIterator<Item = NamespaceConfig>, asks_store: bool) -> Arc<Engine> {
    Arc::new(builder(namespaces, asks_store).build().unwrap())
}

fn builder(namespaces: impl IntoIterator<Item = NamespaceConfig>, asks_store: bool) -> EngineBuilder {
    Engine::builder(engine_config(asks_store)).namespaces(namespaces)
}

fn engine_config(asks_store: bool) -> EngineConfig {
    let mut config = EngineConfig::seeded([1, 2, 3, 4]);
    config.table.bytes = 4 << 20;
    config.permits_max = 8;
    config.asks_store = asks_store;
    config
}

impl World {
    /// The namespace `api` with the defaults.
    pub(crate) async fn api() -> Self {
        Self::with([api()], loopback()).await
    }

    pub(crate) async fn with(
        namespaces: impl IntoIterator<Item = NamespaceConfig>,
        config: ServerConfig,
    ) -> Self {
        let clock = Arc::new(ManualClock::new(START));
        let store = memory_store(&clock);
        Self::start(engine(namespaces, false), config, clock, store).await
    }

    /// At most `in_flight_max` requests are in flight.
    pub(crate) async fn in_flight(in_flight_max: u64, config: ServerConfig) -> Self {
        Self::with_resource(&ResourceConfig::new(in_flight_max), config).await
    }

    /// All requests are for this resource; the namespace `free` has no limits.
    pub(crate) async fn with_resource(resource: &ResourceConfig, config: ServerConfig) -> Self {
        let clock = Arc::new(ManualClock::new(START));
        let store = memory_store(&clock);
        let overload = Overload::new(*resource, 5).unwrap();
        let engine =
            builder([api(), NamespaceConfig::new("free", [])], false).overload(overload).build().unwrap();
        Self::start(Arc::new(engine), config, clock, store).await
    }

    /// So many requests are in flight, and others wait for a place; in the namespace `jobs` one at
    /// a time holds a permit of an hour.
    pub(crate) async fn queued(in_flight_max: u64, config: ServerConfig) -> Self {
        let clock = Arc::new(ManualClock::new(START));
        let store = memory_store(&clock);
        let overload =
            Overload::new(ResourceConfig::new(in_flight_max).queue(QueueConfig::default()), 5).unwrap();
        let engine = builder([api(), jobs()], false).overload(overload).build().unwrap();
        Self::start(Arc::new(engine), config, clock, store).await
    }

    /// Exact limits are decided by `store`.
    pub(crate) async fn asking(
        namespaces: impl IntoIterator<Item = NamespaceConfig>,
        config: ServerConfig,
        clock: Arc<ManualClock>,
        store: Arc<dyn DynStore>,
    ) -> Self {
        Self::start(engine(namespaces, true), config, clock, store).await
    }

    /// Leased limits are lent by a store in memory.
    pub(crate) async fn leasing(
        namespaces: impl IntoIterator<Item = NamespaceConfig>,
        config: ServerConfig,
    ) -> Self {
        let clock = Arc::new(ManualClock::new(START));
        let mut engine = engine_config(true);
        engine.leases = Some(LeaseConfig::new(7));
        let engine = Engine::builder(engine).namespaces(namespaces).build().unwrap();
        let store = memory_store(&clock);
        Self::start(Arc::new(engine), config, clock, store).await
    }

    /// The daemon reads `time`, which `clock` moves.
    pub(crate) async fn timed_by(
        namespaces: impl IntoIterator<Item = NamespaceConfig>,
        config: ServerConfig,
        clock: Arc<ManualClock>,
        time: Arc<dyn Clock>,
    ) -> Self {
        let (engine, store) = (engine(namespaces, false), memory_store(&clock));
        let handle = Server::start(config, Arc::clone(&engine), store, time).await.unwrap();
        Self { handle, clock, engine }
    }

    async fn start(
        engine: Arc<Engine>,
        config: ServerConfig,
        clock: Arc<ManualClock>,
        store: Arc<dyn DynStore>,
    ) -> Self {
        let time = Arc::clone(&clock) as Arc<dyn Clock>;
        let handle = Server::start(config, Arc::clone(&engine), store, time).await.unwrap();
        Self { handle, clock, engine }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.handle.http().unwrap().tcp().unwrap()
    }

    pub(crate) async fn client(&self) -> Client {
        Client::connect(self.address()).await
    }

    /// One request on a connection of its own.
    pub(crate) async fn post(&self, path: &str, body: &str) -> Answer {
        self.client().await.post(path, body).await
    }

    pub(crate) async fn check(&self, attributes: &str) -> Answer {
        self.post("/v1/check", &format!(r#"{{"namespace":"api","attributes":{attributes}}}"#)).await
    }
}

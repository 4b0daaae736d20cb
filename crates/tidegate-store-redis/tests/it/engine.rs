//! Servers and stores that the tests start and stop.

use std::ops::{Deref, DerefMut};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tidegate_store::FleetStore as _;

use tidegate_core::Timestamp;
use tidegate_store_redis::{Circuit, Clock, RedisConfig, RedisStore};
use tidegate_test_support::RedisServer;
pub(crate) use tidegate_test_support::{
    MachineInstant, PATIENCE, free_port, holds_within, program, skip, within,
};

/// One server, with connections of the client and the store to it.
#[derive(Debug)]
pub(crate) struct Server(RedisServer);

impl Deref for Server {
    type Target = RedisServer;

    fn deref(&self) -> &RedisServer {
        &self.0
    }
}

impl DerefMut for Server {
    fn deref_mut(&mut self) -> &mut RedisServer {
        &mut self.0
    }
}

impl Server {
    /// A server with these further arguments; `None` if the program is missing.
    pub(crate) fn start(arguments: &[&str]) -> Option<Self> {
        RedisServer::start(arguments).map(Self)
    }

    pub(crate) fn start_on(port: u16, arguments: &[&str]) -> Option<Self> {
        RedisServer::start_on(port, arguments).map(Self)
    }

    /// A server on a copy of the dump at `path`.
    pub(crate) fn start_on_dump(path: &Path) -> Option<Self> {
        RedisServer::start_on_dump(path).map(Self)
    }

    pub(crate) fn client(&self) -> redis::Connection {
        redis::Client::open(self.url()).unwrap().get_connection().unwrap()
    }

    /// A configuration that waits long, since tests run beside others.
    pub(crate) fn config(&self) -> RedisConfig {
        patient(RedisConfig::new([self.url()]))
    }
}

/// A configuration for tests that are not about time.
pub(crate) fn patient(mut config: RedisConfig) -> RedisConfig {
    config.deadline = Duration::from_secs(20);
    config.answers_kept = Duration::from_mins(10);
    config
}

/// A clock that tests set, whole microseconds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Hands(Arc<AtomicU64>);

impl Hands {
    pub(crate) fn set(&self, now: Timestamp) {
        // Set by the thread that then asks.
        self.0.store(now.as_nanos(), Ordering::Relaxed);
    }

    pub(crate) fn now(&self) -> Timestamp {
        Timestamp::from_nanos(self.0.load(Ordering::Relaxed))
    }

    pub(crate) fn clock(&self) -> Clock {
        let hands = self.clone();
        Clock::Given(Arc::new(move || hands.now()))
    }
}

/// A store of a server of its own, on a clock that tests set, and a connection to look behind it.
pub(crate) struct Stand {
    pub(crate) store: RedisStore,
    pub(crate) hands: Hands,
    pub(crate) client: redis::Connection,
    /// Last, since fields are dropped in order.
    _server: Server,
}

impl Stand {
    /// As [`Server::config`] has it; `None` if the program is missing.
    pub(crate) fn start() -> Option<Self> {
        Self::start_with(|_| ())
    }

    /// One call after the other, so that all is done in the order in which it was sent.
    pub(crate) fn start_in_order() -> Option<Self> {
        Self::start_with(|config| config.calls = 1)
    }

    fn start_with(change: impl FnOnce(&mut RedisConfig)) -> Option<Self> {
        let (server, hands) = (Server::start(&[])?, Hands::default());
        let mut config = server.config();
        config.clock = hands.clock();
        change(&mut config);
        let (store, client) = (RedisStore::open(config).unwrap(), server.client());
        Some(Self { store, hands, client, _server: server })
    }
}

/// How often a store probes a server that does not answer.
pub(crate) const PROBE_EVERY: Duration = Duration::from_millis(250);

/// How soon a store is used again once it can be.
pub(crate) const FOUND_WITHIN: Duration = Duration::from_secs(1);

/// Waits, without traffic, until the store has been found again, which takes no longer than a
/// second.
pub(crate) async fn is_found_within_a_second(store: &RedisStore) {
    let since = MachineInstant::now();
    within(FOUND_WITHIN, async || {
        let stats = store.stats();
        if stats.circuit == Circuit::Closed { Ok(()) } else { Err(format!("{stats:?}")) }
    })
    .await;
    println!("found again after {:?}", since.elapsed());
}

//! The suite of every store.

use std::fmt::Write as _;
use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use redis::Value;
use tidegate_core::Timestamp;
use tidegate_store::conformance::{Capabilities, ConformanceStore, run};
use tidegate_store_redis::{RedisConfig, RedisStore};
use tokio::runtime::Runtime;

use crate::engine::{Hands, Server, skip};

pub(crate) struct Harness {
    config: RedisConfig,
    hands: Hands,
    runtime: Runtime,
    opened: AtomicU64,
    /// Where all keys are, for dumps.
    dump: Option<redis::Client>,
    operations: usize,
}

impl Harness {
    pub(crate) fn new(config: RedisConfig, dump: Option<redis::Client>, operations: usize) -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        Self { config, hands: Hands::default(), runtime, opened: AtomicU64::new(0), dump, operations }
    }

    fn config(&self, number: u64) -> RedisConfig {
        let mut config = self.config.clone();
        config.prefix = format!("tg{number}:");
        config.clock = self.hands.clock();
        config
    }
}

impl ConformanceStore for Harness {
    type Store = RedisStore;

    fn open(&self) -> RedisStore {
        let number = self.opened.fetch_add(1, Ordering::Relaxed) + 1;
        let _runtime = self.runtime.enter();
        RedisStore::open(self.config(number)).unwrap()
    }

    fn set_now(&self, now: Timestamp) {
        self.hands.set(now);
    }

    fn reopen(&self, store: RedisStore) -> Option<RedisStore> {
        drop(store);
        let _runtime = self.runtime.enter();
        Some(RedisStore::open(self.config(self.opened.load(Ordering::Relaxed))).unwrap())
    }

    fn dump(&self, _store: &RedisStore) -> Option<String> {
        let mut connection = self.dump.as_ref()?.get_connection().unwrap();
        let prefix = format!("tg{}:*", self.opened.load(Ordering::Relaxed));
        let mut keys: Vec<Vec<u8>> = redis::cmd("KEYS").arg(prefix).query(&mut connection).unwrap();
        keys.sort();
        let mut text = String::new();
        for key in
            keys.iter().filter(|key| !key.ends_with(b"epoch") && !key.windows(2).any(|part| part == b"a:"))
        {
            let kind: String = redis::cmd("TYPE").arg(key).query(&mut connection).unwrap();
            let mut command = match kind.as_str() {
                "string" => redis::cmd("GET"),
                "list" => redis::cmd("LRANGE"),
                "zset" => redis::cmd("ZRANGE"),
                _ => redis::cmd("HGETALL"),
            };
            command.arg(key);
            if matches!(kind.as_str(), "list" | "zset") {
                command.arg(0).arg(-1);
            }
            if kind == "zset" {
                command.arg("WITHSCORES");
            }
            let mut value: Value = command.query(&mut connection).unwrap();
            if let Value::BulkString(bytes) = &mut value {
                forget_when_charged(bytes);
            }
            // A hash has no order of its own.
            if let (Value::Array(parts), "hash") = (&mut value, kind.as_str()) {
                let mut pairs: Vec<_> = parts.chunks(2).map(|pair| format!("{pair:?}")).collect();
                pairs.sort();
                writeln!(text, "{} {pairs:?}", key.escape_ascii()).unwrap();
                continue;
            }
            writeln!(text, "{} {value:?}", key.escape_ascii()).unwrap();
        }
        Some(text)
    }

    fn capabilities(&self) -> Capabilities {
        let mut can = Capabilities::default();
        can.resolution = Duration::from_micros(1);
        can.operations = self.operations;
        can
    }

    fn block_on<T>(&self, future: impl Future<Output = T> + Send) -> T {
        self.runtime.block_on(future)
    }
}

#[test]
fn a_single_server_passes() {
    let Some(server) = Server::start(&[]) else { return skip("a_single_server_passes") };
    let client = redis::Client::open(server.url()).unwrap();
    let report = run(&Harness::new(server.config(), Some(client), 5000));
    assert!(report.failed.is_empty(), "{report}");
    assert!(report.skipped.is_empty(), "{report}");
}

/// Leaves the latest charge's instant out of the record of a bucket or of permits: it stays when a
/// charge is taken back, and no answer depends on it.
fn forget_when_charged(record: &mut [u8]) {
    const CHARGED_AT: core::ops::Range<usize> = 41..49;
    const ALGORITHM: usize = 50;
    let keeps_it =
        record.first() == Some(&1) && record.get(ALGORITHM).is_some_and(|byte| [1, 6].contains(byte));
    if keeps_it {
        record[CHARGED_AT].fill(0);
    }
}

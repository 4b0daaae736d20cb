//! The server's cost of an ask of a ledger, by how many holders the key has and how many ask at
//! once.
//!
//! ```sh
//! redis-server --port 6390 --save "" --appendonly no &
//! cargo run --profile dist -p tidegate-store-redis --example asks -- redis://127.0.0.1:6390
//! ```

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use redis::aio::MultiplexedConnection;
use tidegate_core::lease::{Ask, HolderName};
use tidegate_core::{Algorithm, Rate};
use tidegate_store::{Batch, FleetStore as _, Key, Kind, OnLedger, Operation, RequestId, Store};
use tidegate_store_redis::{RedisConfig, RedisStore};
use tokio::task::JoinSet;

/// How long each figure is measured.
const SPAN: Duration = Duration::from_secs(4);

/// Holders in all, each of which asks again before its lease has ended.
const HOLDERS: u64 = 2000;

type Failed = Box<dyn Error + Send + Sync>;

/// Seconds of CPU the server has used.
async fn cpu(connection: &mut MultiplexedConnection) -> Result<f64, Failed> {
    let info: String = redis::cmd("INFO").arg("cpu").query_async(connection).await?;
    let used =
        |name: &str| info.lines().find_map(|line| line.strip_prefix(name)).unwrap_or("0").parse::<f64>();
    Ok(used("used_cpu_sys:")? + used("used_cpu_user:")?)
}

/// The next ask of each holder in turn: of every key one, and then of every key the next.
struct Asking {
    store: RedisStore,
    algorithm: Algorithm,
    holders: u64,
    next: AtomicU64,
}

impl Asking {
    async fn once(&self) -> Result<(), Failed> {
        // A number of its own for each ask; nothing is ordered by it.
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let (round, place) = (number / HOLDERS, number % HOLDERS);
        let keys = HOLDERS / self.holders;
        let scope = [self.holders.to_be_bytes(), (place % keys).to_be_bytes()].concat();
        let seq = u32::try_from(round)? + 1;
        let first = Ask::first(HolderName { member: place / keys + 1, incarnation: 1 }, 0);
        let ask = Ask { seq, acked: seq - 1, epoch: u32::MAX, left: 1, unused: seq, demand: 100, ..first };
        let key = Key::new("api", b"limit", &scope)?;
        let operation = Operation::new(key, self.algorithm.clone(), Kind::Ledger(OnLedger::Ask(ask)));
        let answer = self.store.run(&Batch::each(RequestId(u128::from(number)), [operation])).await?;
        answer.grants[0].map(|_| ()).ok_or_else(|| "an ask was overtaken".into())
    }
}

async fn measure(
    url: &str,
    connection: &mut MultiplexedConnection,
    algorithm: &Algorithm,
    holders: u64,
    callers: u64,
) -> Result<(), Failed> {
    let _: () = redis::cmd("FLUSHALL").query_async(connection).await?;
    let mut config = RedisConfig::new([url]);
    config.deadline = Duration::from_secs(5);
    let store = RedisStore::open(config)?;
    let (algorithm, next) = (algorithm.clone(), AtomicU64::new(0));
    let asking = Arc::new(Asking { store: store.clone(), algorithm, holders, next });
    // Until leases last a whole period.
    while asking.next.load(Ordering::Relaxed) < 4 * HOLDERS {
        let warm: JoinSet<_> = (0..200)
            .map(|_| {
                let asking = Arc::clone(&asking);
                async move { asking.once().await }
            })
            .collect();
        warm.join_all().await.into_iter().collect::<Result<(), _>>()?;
    }
    let (before, since, stats) = (cpu(connection).await?, Instant::now(), store.stats());
    let mut tasks = JoinSet::<Result<(), Failed>>::new();
    for _ in 0..callers {
        let asking = Arc::clone(&asking);
        tasks.spawn(async move {
            while since.elapsed() < SPAN {
                asking.once().await?;
            }
            Ok(())
        });
    }
    tasks.join_all().await.into_iter().collect::<Result<(), _>>()?;
    let (used, span, after) = (cpu(connection).await? - before, since.elapsed(), store.stats());
    #[expect(clippy::cast_precision_loss, reason = "figures to look at")]
    let (asks, calls) = ((after.asks - stats.asks) as f64, (after.calls - stats.calls) as f64);
    println!(
        "| {holders} | {callers} | {:.0} | {:.2} | {:.1} |",
        asks / span.as_secs_f64(),
        used * 1e6 / asks,
        asks / calls
    );
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failed> {
    let url = std::env::args().nth(1).ok_or("name a server, such as redis://127.0.0.1:6390")?;
    let mut connection = redis::Client::open(url.as_str())?.get_multiplexed_async_connection().await?;
    let rate = Algorithm::bucket(Rate::per_second(1_000_000)?)?;
    println!("| holders of a key | callers | asks/s | server CPU us an ask | asks a call |");
    println!("|---|---|---|---|---|");
    for callers in [1, 400] {
        for holders in [1, 10, 100] {
            measure(&url, &mut connection, &rate, holders, callers).await?;
        }
    }
    Ok(())
}

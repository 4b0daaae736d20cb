//! The server's cost of a decision: this store beside a script as it is often written, one call a
//! decision.
//!
//! ```sh
//! redis-server --port 6390 --save "" --appendonly no &
//! cargo run --profile dist -p tidegate-store-redis --example decisions -- redis://127.0.0.1:6390
//! ```

use std::error::Error;
use std::time::{Duration, Instant};

use redis::aio::MultiplexedConnection;
use tidegate_core::{Algorithm, Cost, Rate};
use tidegate_store::{Batch, FleetStore as _, Key, Kind, Operation, RequestId, Store};
use tidegate_store_redis::{RedisConfig, RedisStore};
use tokio::task::JoinSet;

/// GCRA with a string a key, as one finds it written by hand.
const BY_HAND: &str = r"
local time = redis.call('TIME')
local now = tonumber(time[1]) + tonumber(time[2]) / 1000000
local interval, burst, cost = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local tat = tonumber(redis.call('GET', KEYS[1])) or now
tat = math.max(tat, now)
local next = tat + interval * cost
local allow_at = next - interval * burst
if allow_at > now then return { 0, 0, tostring(allow_at - now) } end
redis.call('SET', KEYS[1], string.format('%.9f', next), 'PX', math.ceil((next - now) * 1000))
return { 1, math.floor((now - allow_at) / interval), '0' }
";

/// How long each figure is measured.
const SPAN: Duration = Duration::from_secs(4);

type Failed = Box<dyn Error + Send + Sync>;

/// Seconds of CPU the server has used.
async fn cpu(connection: &mut MultiplexedConnection) -> Result<f64, Failed> {
    let info: String = redis::cmd("INFO").arg("cpu").query_async(connection).await?;
    let used =
        |name: &str| info.lines().find_map(|line| line.strip_prefix(name)).unwrap_or("0").parse::<f64>();
    Ok(used("used_cpu_sys:")? + used("used_cpu_user:")?)
}

fn report(name: &str, callers: u64, decisions: u64, cpu: f64, span: Duration, calls: u64) {
    #[expect(clippy::cast_precision_loss, reason = "figures to look at")]
    let (decisions, calls) = (decisions as f64, calls as f64);
    println!(
        "| {name} | {callers} | {:.0} | {:.2} | {:.1} |",
        decisions / span.as_secs_f64(),
        cpu * 1e6 / decisions,
        decisions / calls,
    );
}

async fn ours(
    url: &str,
    connection: &mut MultiplexedConnection,
    callers: u64,
    limits: u64,
) -> Result<(), Failed> {
    let mut config = RedisConfig::new([url]);
    config.deadline = Duration::from_secs(5);
    let store = RedisStore::open(config)?;
    store.now().await?;
    let algorithm = Algorithm::bucket(Rate::per_second(1_000_000)?)?;
    let (calls, before, since) = (store.stats().calls, cpu(connection).await?, Instant::now());
    let mut tasks = JoinSet::<Result<u64, Failed>>::new();
    for caller in 0..callers {
        let (store, algorithm) = (store.clone(), algorithm.clone());
        tasks.spawn(async move {
            let mut decisions = 0;
            while since.elapsed() < SPAN {
                let id = RequestId(
                    u128::from(limits) << 96 | u128::from(caller + callers) << 64 | u128::from(decisions),
                );
                let operations = (0..limits).map(|limit| {
                    let key = Key::new("api", b"limit", &limit.to_be_bytes()).expect("short");
                    Operation::new(key, algorithm.clone(), Kind::Check { cost: Cost::ONE })
                });
                store.run(&Batch::all_or_nothing(id, operations)).await?;
                decisions += 1;
            }
            Ok(decisions)
        });
    }
    let mut decisions = 0;
    while let Some(done) = tasks.join_next().await {
        decisions += done??;
    }
    let name = if limits == 1 {
        "this store, one limit".to_owned()
    } else {
        format!("this store, {limits} limits at once")
    };
    report(
        &name,
        callers,
        decisions,
        cpu(connection).await? - before,
        since.elapsed(),
        store.stats().calls - calls,
    );
    Ok(())
}

async fn by_hand(connection: &mut MultiplexedConnection, callers: u64) -> Result<(), Failed> {
    let hash: String = redis::cmd("SCRIPT").arg("LOAD").arg(BY_HAND).query_async(connection).await?;
    let (before, since) = (cpu(connection).await?, Instant::now());
    let mut tasks = JoinSet::<Result<u64, Failed>>::new();
    for _ in 0..callers {
        let (mut connection, hash) = (connection.clone(), hash.clone());
        tasks.spawn(async move {
            let mut decisions = 0;
            while since.elapsed() < SPAN {
                let mut call = redis::cmd("EVALSHA");
                call.arg(&hash).arg(1).arg("by hand").arg(0.000_001).arg(1_000_000).arg(1);
                let _: redis::Value = call.query_async(&mut connection).await?;
                decisions += 1;
            }
            Ok(decisions)
        });
    }
    let mut decisions = 0;
    while let Some(done) = tasks.join_next().await {
        decisions += done??;
    }
    report(
        "script by hand, one limit",
        callers,
        decisions,
        cpu(connection).await? - before,
        since.elapsed(),
        decisions,
    );
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failed> {
    let url = std::env::args().nth(1).ok_or("name a server, such as redis://127.0.0.1:6390")?;
    let mut connection = redis::Client::open(url.as_str())?.get_multiplexed_async_connection().await?;
    println!("| what | callers of one key | decisions/s | server CPU us a decision | decisions a call |");
    println!("|---|---|---|---|---|");
    for callers in [1, 400] {
        by_hand(&mut connection, callers).await?;
        ours(&url, &mut connection, callers, 1).await?;
        ours(&url, &mut connection, callers, 3).await?;
    }
    Ok(())
}

//! How many charges a second the durable store takes, and how many of them one `fsync` carries.
//!
//! ```sh
//! cargo run --profile dist -p tidegate-store-redb --example throughput -- [DIRECTORY] [SECONDS]
//! ```
//!
//! The directory stands in for the disk that is measured; a file system in memory measures nothing.
//! The default is a directory of its own among the temporary ones, and two seconds for each line.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};
use std::{env, fs, process};

use tidegate_core::algorithm::{Fixed, WindowStart};
use tidegate_core::{Algorithm, Cost, Timestamp};
use tidegate_store::{Batch, Key, Kind, Operation, RequestId, Store};
use tidegate_store_redb::{Durability, RedbConfig, RedbStore};

type Failed = Box<dyn std::error::Error + Send + Sync>;

fn main() -> Result<(), Failed> {
    let mut arguments = env::args().skip(1);
    let temporary = env::temp_dir().join(format!("tidegate-throughput-{}", process::id()));
    let directory = arguments.next().map_or(temporary, PathBuf::from);
    let seconds = arguments.next().map_or(Ok(2.0), |seconds| seconds.parse())?;
    fs::create_dir_all(&directory)?;
    println!("| durability | keys | callers | charges/s | commits/s | charges a commit | p50 | p99 |");
    println!("|---|---|---|---|---|---|---|---|");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build()?;
    for durability in [Durability::Sync, Durability::Interval(Duration::from_millis(100))] {
        for keys in [1, 100_000] {
            for callers in [1, 8, 64, 512] {
                let path = directory.join(format!("{keys}-{callers}"));
                let line = runtime.block_on(measure(path.clone(), durability, keys, callers, seconds))?;
                println!("{line}");
                fs::remove_dir_all(path)?;
            }
        }
    }
    fs::remove_dir(&directory)?;
    Ok(())
}

/// One line: so many callers charge random keys one after another for so many seconds.
#[expect(clippy::cast_precision_loss, reason = "figures of a few digits")]
async fn measure(
    path: PathBuf,
    durability: Durability,
    keys: u64,
    callers: u64,
    seconds: f64,
) -> Result<String, Failed> {
    let mut config = RedbConfig::new(path, [1, 2, 3, 4]);
    config.durability = durability;
    let store = Arc::new(RedbStore::open(&config, || Timestamp::from(SystemTime::now()))?);
    let (stop, ids) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let fixed = Fixed::new(1 << 40, Duration::from_hours(24), WindowStart::Epoch)?;
    let algorithm = Algorithm::Fixed(fixed);
    let begun = Instant::now();
    let callers: Vec<_> = (0..callers)
        .map(|caller| {
            let (store, stop, ids) = (Arc::clone(&store), Arc::clone(&stop), Arc::clone(&ids));
            let algorithm = algorithm.clone();
            tokio::spawn(async move {
                let (mut times, mut random) = (Vec::new(), caller.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
                // Only says when to stop, and only has to differ: neither orders anything.
                while !stop.load(Ordering::Relaxed) {
                    random = random
                        .wrapping_mul(6_364_136_223_846_793_005)
                        .wrapping_add(1_442_695_040_888_963_407);
                    let name = ((random >> 33) % keys).to_be_bytes();
                    let key = Key::new("api", b"quota", &name)?;
                    let check = Operation::new(key, algorithm.clone(), Kind::Check { cost: Cost::ONE });
                    let id = RequestId(u128::from(ids.fetch_add(1, Ordering::Relaxed)));
                    let asked = Instant::now();
                    store.run(&Batch::all_or_nothing(id, [check])).await?;
                    times.push(asked.elapsed());
                    if times.len() % 64 == 0 {
                        tokio::task::yield_now().await;
                    }
                }
                Ok::<_, Failed>(times)
            })
        })
        .collect();
    let count = callers.len();
    let stopper = std::thread::spawn({
        let stop = Arc::clone(&stop);
        move || {
            std::thread::sleep(Duration::from_secs_f64(seconds));
            stop.store(true, Ordering::Relaxed);
        }
    });
    let mut times = Vec::new();
    for caller in callers {
        times.extend(caller.await??);
    }
    let took = begun.elapsed().as_secs_f64();
    store.flush().await?;
    stopper.join().expect("it only sleeps");
    times.sort_unstable();
    let stats = store.stats();
    let part = |hundredths: usize| times.get(times.len() * hundredths / 100).copied().unwrap_or_default();
    let how = match durability {
        Durability::Sync => "sync".to_owned(),
        Durability::Interval(interval) => format!("interval, {interval:?}"),
    };
    Ok(format!(
        "| {how} | {keys} | {count} | {:.0} | {:.0} | {:.1} | {:.1?} | {:.1?} |",
        stats.batches as f64 / took,
        stats.commits as f64 / took,
        stats.batches_mean(),
        part(50),
        part(99),
    ))
}

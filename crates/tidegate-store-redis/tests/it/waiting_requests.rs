//! The load that a server sees from an engine whose resource is full.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tidegate_store::FleetStore as _;

use tidegate_core::algorithm::{Fixed, WindowStart};
use tidegate_core::limit::Consistency;
use tidegate_core::{Algorithm, Limit};
use tidegate_driver::{Admission, Driver, Verdict};
use tidegate_engine::{Engine, EngineConfig, NamespaceConfig, Request};
use tidegate_overload::{Overload, ResourceConfig};
use tidegate_store_redis::RedisStore;
use tokio::task::JoinSet;

use crate::engine::{PATIENCE, Server, skip, within};

/// The places of the resource.
const PLACES: usize = 8;
/// Callers at the same time, ten for each place. Every second one waits.
const CALLERS: usize = 10 * PLACES;
/// The requests of each caller that waits for its turn, one after the other.
const PATIENT_REQUESTS: u64 = 16;
/// The requests of each other caller.
const IMPATIENT_REQUESTS: u64 = 64;
/// How long a place is held.
const WORK: Duration = Duration::from_millis(2);
/// Much more than is admitted.
const QUOTA: u64 = 1_000_000;

const USER: [(&str, &str); 1] = [("user", "ada")];

fn request() -> Request<'static> {
    Request::new("api", &USER).tenant("acme")
}

/// An admission with [`PLACES`] places and an exact limit with room, decided by `store`.
fn admission(store: RedisStore) -> Admission {
    let quota = Fixed::new(QUOTA, Duration::from_hours(24), WindowStart::FirstHit).unwrap();
    let quota = Limit::new("quota", Algorithm::Fixed(quota)).key(["user"]).consistency(Consistency::Exact);
    let mut config = EngineConfig::seeded([1, 2, 3, 4]);
    config.table.bytes = 1 << 20;
    config.asks_store = true;
    let overload = Overload::new(ResourceConfig::new(PLACES as u64), 5).unwrap();
    let namespace = NamespaceConfig::new("api", [quota]);
    let engine = Engine::builder(config).namespace(namespace).overload(overload).build().unwrap();
    // Long, since tests run beside others.
    Admission::from(Driver::new(engine).store(Arc::new(store)).store_timeout(Duration::from_secs(20)))
}

/// The script calls that the server has carried out.
fn calls_of(client: &mut redis::Connection) -> u64 {
    let info: String = redis::cmd("INFO").arg("commandstats").query(client).unwrap();
    let calls_in = |line: &str| {
        let numbers = ["evalsha", "eval", "fcall"]
            .into_iter()
            .find_map(|name| line.strip_prefix(&format!("cmdstat_{name}:calls=")));
        numbers.and_then(|numbers| numbers.split(',').next()?.parse::<u64>().ok())
    };
    info.lines().filter_map(calls_in).sum()
}

/// The units of the quota that are used.
async fn used(admission: &Admission) -> u64 {
    QUOTA - admission.peek(&request()).await.unwrap()[0].remaining
}

/// Waits until so many requests wait for their turn.
async fn until_waiting(admission: &Admission, count: usize) {
    within(PATIENCE, async || {
        let waiting = admission.driver().engine().waiting();
        if waiting == count { Ok(()) } else { Err(format!("{waiting} wait, not {count}")) }
    })
    .await;
}

/// Waits for a place as long as it takes.
async fn patient(admission: &Admission) -> Verdict {
    admission.admit_within(&request(), Duration::from_mins(10)).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn at_ten_times_the_load_a_server_sees_one_call_for_each_admitted_request() {
    let name = "at_ten_times_the_load_a_server_sees_one_call_for_each_admitted_request";
    let Some(server) = Server::start(&[]) else { return skip(name) };
    let store = RedisStore::open(server.config()).unwrap();
    store.now().await.unwrap();
    let admission = admission(store.clone());
    // The script is loaded before its calls are counted.
    assert_eq!(used(&admission).await, 0);
    let mut client = server.client();
    let (calls_before, batches_before) = (calls_of(&mut client), store.stats().batches);
    let (offered, admitted) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let mut callers = JoinSet::new();
    for caller in 0..CALLERS {
        let (admission, offered, admitted) = (admission.clone(), Arc::clone(&offered), Arc::clone(&admitted));
        let is_patient = caller % 2 == 0;
        callers.spawn(async move {
            for _ in 0..if is_patient { PATIENT_REQUESTS } else { IMPATIENT_REQUESTS } {
                // Counters; nothing is ordered by them.
                offered.fetch_add(1, Ordering::Relaxed);
                let verdict = if is_patient {
                    patient(&admission).await
                } else {
                    admission.admit(&request()).await.unwrap()
                };
                let hold = verdict.into_result().ok();
                // Sleeps: the work of a request holds its place, while the server is a real one.
                tokio::time::sleep(WORK).await;
                if let Some(hold) = hold {
                    admitted.fetch_add(1, Ordering::Relaxed);
                    hold.succeeded();
                }
            }
        });
    }
    callers.join_all().await;
    let (calls, batches) = (calls_of(&mut client) - calls_before, store.stats().batches - batches_before);
    let (offered, admitted) = (offered.load(Ordering::Relaxed), admitted.load(Ordering::Relaxed));
    println!("calls {calls}, batches {batches}, admitted {admitted}, offered {offered}");
    assert!(offered >= 3000, "{offered} offered");
    assert!(admitted >= CALLERS as u64 / 2 * PATIENT_REQUESTS, "all that wait are admitted: {admitted}");
    assert!(admitted < offered, "some are refused");
    assert!(calls * 100 <= admitted * 105, "{calls} calls for {admitted} admitted requests");
    // The store sends several batches in one call, so this bound is the stricter one.
    assert!(batches * 100 <= admitted * 105, "{batches} batches for {admitted} admitted requests");
    assert_eq!(used(&admission).await, admitted, "a refused request leaves nothing");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_peek_at_a_server_shows_no_unit_of_a_request_that_waits() {
    let name = "a_peek_at_a_server_shows_no_unit_of_a_request_that_waits";
    let Some(server) = Server::start(&[]) else { return skip(name) };
    let store = RedisStore::open(server.config()).unwrap();
    let admission = admission(store.clone());
    let mut held = Vec::new();
    for _ in 0..PLACES {
        held.push(patient(&admission).await.into_result().unwrap());
    }
    let batches = store.stats().batches;
    let mut waiting = JoinSet::new();
    for _ in 0..CALLERS {
        let admission = admission.clone();
        waiting.spawn(async move { patient(&admission).await.into_result().unwrap() });
    }
    until_waiting(&admission, CALLERS).await;
    assert_eq!(store.stats().batches, batches, "no request that waits asks the server");
    assert_eq!(used(&admission).await, PLACES as u64);
    // One place is returned: one more is admitted, and the others wait on.
    held.pop().unwrap().succeeded();
    let next = waiting.join_next().await.unwrap().unwrap();
    until_waiting(&admission, CALLERS - 1).await;
    assert_eq!(used(&admission).await, PLACES as u64 + 1);
    // Callers that leave while they wait have used nothing.
    waiting.shutdown().await;
    until_waiting(&admission, 0).await;
    assert_eq!(used(&admission).await, PLACES as u64 + 1);
    drop((next, held));
}

//! A store that answers, but too late: what it charged for nothing is taken back.

use std::time::Duration;

use tidegate_core::algorithm::{Fixed, WindowStart};
use tidegate_core::{Algorithm, Cost, error_chain};
use tidegate_store::{Batch, FleetStore as _, Key, Kind, Operation, RequestId, Store};
use tidegate_store_redis::{Circuit, RedisConfig, RedisStore};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::cluster::Cluster;
use crate::engine::{PATIENCE, Server, patient, skip, within};

/// How many checks stand for an hour of them.
const CHECKS: u128 = 200;

/// How many of them come too late at least.
const LATE_MIN: u64 = 5;

fn quota() -> Algorithm {
    Algorithm::Fixed(Fixed::new(100_000, Duration::from_hours(24), WindowStart::Epoch).unwrap())
}

fn key(name: &str) -> Key {
    Key::new("api", b"quota", name.as_bytes()).unwrap()
}

fn check(id: u128, name: &str) -> Batch {
    Batch::all_or_nothing(
        RequestId(id),
        [Operation::new(key(name), quota(), Kind::Check { cost: Cost::ONE })],
    )
}

async fn used(server: &Server, name: &str) -> u64 {
    let store = RedisStore::open(server.config()).unwrap();
    let peek = Operation::new(key(name), quota(), Kind::Peek { cost: Cost::ONE });
    store.run(&Batch::each(RequestId(0), [peek])).await.unwrap().outcomes[0].used
}

/// A relay before a server. Replies pass it late, and not at all while they are held.
struct LateReplies {
    port: u16,
    are_held: watch::Sender<bool>,
}

impl LateReplies {
    /// Each reply comes later by `delay`, at least.
    async fn start(server: &Server, delay: Duration) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (port, to) = (listener.local_addr().unwrap().port(), server.port());
        let (are_held, seen) = watch::channel(false);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let server = TcpStream::connect(("127.0.0.1", to)).await.unwrap();
                let (mut from_client, to_client) = client.into_split();
                let (from_server, mut to_server) = server.into_split();
                tokio::spawn(async move { tokio::io::copy(&mut from_client, &mut to_server).await });
                tokio::spawn(pass(from_server, to_client, delay, seen.clone()));
            }
        });
        Self { port, are_held }
    }

    /// A store behind the relay, which has connected. A batch is given up after 50 ms, and an undo
    /// is waited for.
    async fn store(&self) -> RedisStore {
        let mut config = RedisConfig::new([format!("redis://127.0.0.1:{}", self.port)]);
        (config.deadline, config.undo_deadline) = (Duration::from_millis(50), PATIENCE);
        let store = RedisStore::open(config).unwrap();
        // A question that is waited for as long as connecting may take.
        within(PATIENCE, async || {
            store.eviction_policy().await.map(drop).map_err(|error| error_chain(&error))
        })
        .await;
        store
    }

    /// Keeps the replies that have not passed yet.
    fn hold(&self) {
        self.are_held.send_replace(true);
    }

    fn release(&self) {
        self.are_held.send_replace(false);
    }
}

async fn pass(
    mut from: tokio::net::tcp::OwnedReadHalf,
    mut to: tokio::net::tcp::OwnedWriteHalf,
    delay: Duration,
    mut are_held: watch::Receiver<bool>,
) {
    let (sender, mut pieces) = tokio::sync::mpsc::unbounded_channel::<(Instant, Vec<u8>)>();
    tokio::spawn(async move {
        while let Some((at, piece)) = pieces.recv().await {
            // Sleeps: a reply takes a while, in real time.
            tokio::time::sleep_until(at).await;
            let is_over = are_held.wait_for(|are_held| !are_held).await.is_err();
            if is_over || to.write_all(&piece).await.is_err() {
                return;
            }
        }
    });
    let mut buffer = vec![0; 1 << 16];
    while let Ok(length @ 1..) = from.read(&mut buffer).await {
        let _ = sender.send((Instant::now() + delay, buffer[..length].to_vec()));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_slow_store_charged_for_nothing_is_taken_back() {
    let name = "what_a_slow_store_charged_for_nothing_is_taken_back";
    let Some(server) = Server::start(&[]) else { return skip(name) };
    RedisStore::open(server.config()).unwrap().run(&check(1, "ada")).await.unwrap();
    let relay = LateReplies::start(&server, Duration::from_millis(60)).await;
    let store = relay.store().await;
    let (mut id, mut late, mut undos) = (0, 0, tokio::task::JoinSet::new());
    let since = Instant::now();
    while id < CHECKS || late < LATE_MIN {
        assert!(since.elapsed() < PATIENCE, "{late} of {id} came too late: {:?}", store.stats());
        id += 1;
        let batch = check(1000 + id, "ada");
        // However late the machine notices the deadline, the reply comes after it.
        relay.hold();
        let error = store.run(&batch).await.unwrap_err();
        relay.release();
        if !error.is_outcome_unknown() {
            // It was not sent: the breaker is open most of the time.
            // Sleeps: the breaker cools down in real time, and then lets one through.
            tokio::time::sleep(Duration::from_millis(10)).await;
            continue;
        }
        late += 1;
        let (store, undo) = (store.clone(), Batch::undo_of(&batch, RequestId(1_000_000 + id)));
        undos.spawn(async move { store.undo(&undo).await });
    }
    let undone = undos.join_all().await;
    assert!(undone.iter().all(Result::is_ok), "{late} late, {undone:?}");
    let stats = store.stats();
    assert_eq!((stats.undone, stats.undo_failed), (late, 0), "{stats:?}");
    assert_eq!(used(&server, "ada").await, 1, "{late} batches came too late");
    println!("{late} batches came too late and were undone");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_undo_that_overtakes_its_batch_wins() {
    let Some(server) = Server::start(&[]) else { return skip("an_undo_that_overtakes_its_batch_wins") };
    let store = RedisStore::open(server.config()).unwrap();
    let (batch, other) = (check(1, "ada"), check(2, "ada"));
    let undo = |batch: &Batch, id| Batch::undo_of(batch, RequestId(id));
    store.undo(&undo(&batch, 11)).await.unwrap();
    let late = store.run(&batch).await;
    assert!(late.is_err(), "{late:?}");
    assert_eq!(used(&server, "ada").await, 0);
    // Neither sending the undo again nor undoing what was carried out changes more.
    store.undo(&undo(&batch, 11)).await.unwrap();
    store.undo(&undo(&batch, 12)).await.unwrap();
    store.run(&other).await.unwrap();
    assert_eq!(used(&server, "ada").await, 1);
    store.undo(&undo(&other, 13)).await.unwrap();
    store.undo(&undo(&other, 14)).await.unwrap();
    assert_eq!(used(&server, "ada").await, 0);
    assert_eq!(store.stats().undone, 5);
    // Several operations of one batch, and batches that ask the same together.
    let both = Batch::all_or_nothing(
        RequestId(3),
        ["bob", "eve"].map(|name| Operation::new(key(name), quota(), Kind::Check { cost: Cost::ONE })),
    );
    store.undo(&undo(&both, 15)).await.unwrap();
    assert!(store.run(&both).await.is_err());
    assert_eq!((used(&server, "bob").await, used(&server, "eve").await), (0, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn undos_go_past_an_open_breaker_and_do_not_close_it() {
    let name = "undos_go_past_an_open_breaker_and_do_not_close_it";
    let Some(server) = Server::start(&[]) else { return skip(name) };
    let direct = RedisStore::open(server.config()).unwrap();
    direct.run(&check(1, "ada")).await.unwrap();
    let relay = LateReplies::start(&server, Duration::from_millis(120)).await;
    let store = relay.store().await;
    relay.hold();
    let mut id = 100;
    within(PATIENCE, async || {
        id += 1;
        assert!(store.run(&check(id, "other")).await.is_err());
        let is_open = store.stats().circuit != Circuit::Closed;
        if id >= 110 && is_open { Ok(()) } else { Err(format!("{:?}", store.stats())) }
    })
    .await;
    relay.release();
    store.undo(&Batch::undo_of(&check(1, "ada"), RequestId(11))).await.unwrap();
    assert_ne!(store.stats().circuit, Circuit::Closed);
    assert_eq!(used(&server, "ada").await, 0);
}

#[tokio::test(flavor = "current_thread")]
async fn only_undos_are_undone() {
    let Some(server) = Server::start(&[]) else { return skip("only_undos_are_undone") };
    let store = RedisStore::open(patient(RedisConfig::new([server.url()]))).unwrap();
    let error = store.undo(&check(1, "ada")).await.unwrap_err();
    assert!(!error.is_transient(), "{error}");
    assert_eq!((used(&server, "ada").await, store.stats().undone), (0, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_undo_reaches_every_slot_of_a_batch_also_before_the_batch() {
    let name = "an_undo_reaches_every_slot_of_a_batch_also_before_the_batch";
    let Some(cluster) = Cluster::start() else { return skip(name) };
    let store = RedisStore::open(cluster.config()).unwrap();
    let names = ["a", "b", "c", "d", "e"];
    let batch = |id| {
        let check = |name| Operation::new(key(name), quota(), Kind::Check { cost: Cost::ONE });
        Batch::all_or_nothing(RequestId(id), names.map(check))
    };
    let used = async |id| {
        let peek = |name| Operation::new(key(name), quota(), Kind::Peek { cost: Cost::ONE });
        let answer = store.run(&Batch::each(RequestId(id), names.map(peek))).await.unwrap();
        answer.outcomes.iter().map(|outcome| outcome.used).collect::<Vec<_>>()
    };
    store.run(&batch(1)).await.unwrap();
    store.run(&batch(2)).await.unwrap();
    store.undo(&Batch::undo_of(&batch(1), RequestId(11))).await.unwrap();
    assert_eq!(used(100).await, [1; 5]);
    store.undo(&Batch::undo_of(&batch(3), RequestId(13))).await.unwrap();
    let late = store.run(&batch(3)).await;
    assert!(late.is_err(), "{late:?}");
    assert_eq!(used(101).await, [1; 5]);
    assert_eq!((store.stats().undone, store.stats().undo_failed), (2, 0));
}

//! Requests that wait for a limit or a permit.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Waker;
use std::time::{Duration, Instant};

use tidegate_core::Timestamp;
use tidegate_policy::policy::proxy::{Proxy, Route};
use tidegate_server::{Clock, ClockWait, ListenerRole, ManualClock, ProxyConfig};
use tidegate_test_support::eventually;
use tokio::io::AsyncReadExt;
use tokio::sync::mpsc;

use super::upstream::{Connection, serve, well};
use super::{get, namespaces, route, to, world};
use crate::client::Client;
use crate::departures::Caller;
use crate::departures::http2::{begun, call, preface};
use crate::world::{START, World, loopback};

fn patient(namespace: &str) -> Route {
    let mut patient = route(namespace);
    patient.wait = Duration::from_mins(5);
    patient
}

/// A server that hands its connections, each with a request read, to the test.
async fn handed() -> (std::net::SocketAddr, mpsc::UnboundedReceiver<(String, Connection)>) {
    let (give, take) = mpsc::unbounded_channel();
    let address = serve(move |mut connection| {
        let give = give.clone();
        async move {
            if let Some(request) = connection.request().await {
                let _ = give.send((request, connection));
            }
        }
    })
    .await;
    (address, take)
}

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";

impl World {
    async fn asked(&self, target: &str, headers: &str) -> Client {
        let mut client = self.proxied().await;
        client.send(get(target, headers)).await;
        client
    }

    async fn until_waiting(&self, count: usize) {
        let what = format!("{count} wait");
        eventually(&what, async || self.handle.proxy_waiting() == count).await;
    }
}

#[tokio::test]
async fn a_request_waits_for_its_limit_and_goes_on_when_it_may() {
    let (server, seen) = well().await;
    let world = world(to(&[server], patient("api"))).await;
    for _ in 0..3 {
        assert_eq!(world.through("/", "x-user: ada\r\n").await.status, 200);
    }
    let mut waiting = world.asked("/", "x-user: ada\r\n").await;
    world.until_waiting(1).await;
    assert_eq!(seen.lock().unwrap().len(), 3);
    assert_eq!(world.through("/", "x-user: bob\r\n").await.status, 200, "others do not");
    world.clock.advance(Duration::from_secs(1));
    assert_eq!(waiting.answer().await.unwrap().status, 200);
    world.settled().await;
}

#[tokio::test]
async fn who_would_wait_too_long_is_refused_at_once() {
    let (server, _) = well().await;
    let mut short = route("api");
    short.wait = Duration::from_millis(999);
    let world = world(to(&[server], short)).await;
    for _ in 0..3 {
        world.through("/", "x-user: ada\r\n").await;
    }
    assert_eq!(world.through("/", "x-user: ada\r\n").await.status, 429);
    // So is who has no time left, however long the route would wait.
    let world = super::world(to(&[server], patient("api"))).await;
    for _ in 0..3 {
        world.through("/", "x-user: ada\r\n").await;
    }
    assert_eq!(world.through("/", "x-user: ada\r\ngrpc-timeout: 900m\r\n").await.status, 429);
}

#[tokio::test]
async fn permits_go_to_the_highest_class_and_then_to_whoever_came_first() {
    let (server, mut at_work) = handed().await;
    let mut classes = patient("parallel");
    classes.class.from = Some("header.x-class".parse().unwrap());
    let world = world(to(&[server], classes)).await;
    let mut clients = vec![world.asked("/0", "x-user: ada\r\n").await];
    let (_, mut working) = at_work.recv().await.unwrap();
    let arrivals = [
        ("/1", "sheddable"),
        ("/2", "critical"),
        ("/3", "sheddable"),
        ("/4", "critical"),
        ("/5", "critical_plus"),
    ];
    for (count, (target, class)) in arrivals.into_iter().enumerate() {
        clients.push(world.asked(target, &format!("x-user: ada\r\nx-class: {class}\r\n")).await);
        world.until_waiting(count + 1).await;
    }
    let mut order = String::new();
    for _ in arrivals {
        working.send(OK).await;
        let (request, next) = at_work.recv().await.unwrap();
        order.push_str(&request[5..6]);
        working = next;
    }
    working.send(OK).await;
    assert_eq!(order, "52413");
    for client in &mut clients {
        assert_eq!(client.answer().await.unwrap().status, 200);
    }
    world.settled().await;
}

#[tokio::test]
async fn a_thousand_clients_that_leave_while_they_wait_leave_nothing_behind() {
    let (server, mut at_work) = handed().await;
    let world = world(to(&[server], patient("parallel"))).await;
    let mut first = world.asked("/", "x-user: ada\r\n").await;
    let (_, mut working) = at_work.recv().await.unwrap();
    for round in 0..10 {
        let mut clients = Vec::new();
        for _ in 0..100 {
            clients.push(world.asked("/", "x-user: ada\r\n").await);
        }
        world.until_waiting(100).await;
        drop(clients);
        world.until_waiting(0).await;
        assert_eq!(world.handle.proxy_in_flight(), 1, "round {round}");
    }
    working.send(OK).await;
    assert_eq!(first.answer().await.unwrap().status, 200);
    world.settled().await;
    assert!(world.is_free("ada").await);
}

#[tokio::test]
async fn a_client_that_leaves_while_its_body_lies_unread_is_noticed_too() {
    let (server, mut at_work) = handed().await;
    let world = world(to(&[server], patient("parallel"))).await;
    let _first = world.asked("/", "x-user: ada\r\n").await;
    let _working = at_work.recv().await.unwrap();
    let mut client = world.proxied().await;
    client.send("POST / HTTP/1.1\r\nhost: t\r\nx-user: ada\r\ncontent-length: 4\r\n\r\nbody").await;
    world.until_waiting(1).await;
    drop(client);
    world.until_waiting(0).await;
}

#[tokio::test]
async fn a_client_that_leaves_with_much_of_its_body_unread_is_noticed_too() {
    let (server, mut at_work) = handed().await;
    let world = world(to(&[server], patient("parallel"))).await;
    let _first = world.asked("/", "x-user: ada\r\n").await;
    let _working = at_work.recv().await.unwrap();
    let mut client = world.proxied().await;
    client.send("POST / HTTP/1.1\r\nhost: t\r\nx-user: ada\r\ncontent-length: 100000000\r\n\r\n").await;
    world.until_waiting(1).await;
    client.send("a".repeat(100_000)).await;
    drop(client);
    world.until_waiting(0).await;
}

#[tokio::test]
async fn only_so_many_wait() {
    let (server, mut at_work) = handed().await;
    let mut config: Proxy = to(&[server], patient("parallel"));
    config.waiting = 2;
    let world = world(config).await;
    let _first = world.asked("/", "x-user: ada\r\n").await;
    let _working = at_work.recv().await.unwrap();
    let _waiting = [world.asked("/", "x-user: ada\r\n").await, world.asked("/", "x-user: ada\r\n").await];
    world.until_waiting(2).await;
    let refused = world.through("/", "x-user: ada\r\n").await;
    assert_eq!((refused.status, refused.json()["reason"].as_str()), (429, Some("concurrency_exceeded")));
}

#[tokio::test]
async fn a_drain_refuses_those_that_wait_and_finishes_what_is_under_way() {
    let (server, mut at_work) = handed().await;
    let world = world(to(&[server], patient("parallel"))).await;
    let mut first = world.asked("/", "x-user: ada\r\n").await;
    let (_, mut working) = at_work.recv().await.unwrap();
    let mut waiting = world.asked("/", "x-user: ada\r\n").await;
    world.until_waiting(1).await;
    let shutdown = tokio::spawn(world.handle.shutdown());
    let refused = waiting.answer().await.unwrap();
    assert_eq!((refused.status, refused.header("connection")), (503, Some("close")));
    assert_eq!(refused.header("retry-after"), Some("1"));
    // The answer may come in pieces and is still sent whole.
    working.send("HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nsl").await;
    working.send("ow").await;
    assert_eq!(first.answer().await.unwrap().body, "slow");
    assert_eq!(shutdown.await.unwrap().cut_off, 0);
}

#[tokio::test]
async fn killing_the_client_or_the_server_at_any_moment_leaves_no_permit_held() {
    let (server, mut at_work) = handed().await;
    let world = world(to(&[server], route("parallel"))).await;
    for moment in 0..60 {
        let mut client = world.asked("/", "x-user: ada\r\n").await;
        let (_, mut working) = at_work.recv().await.unwrap();
        match moment % 6 {
            0 => drop(client),
            1 => drop(working),
            2 => {
                working.send("HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nsome").await;
                drop(client);
            }
            3 => {
                working.send("HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nsome").await;
                drop(working);
                assert_eq!(client.answer().await, None);
            }
            4 => {
                working.stream.set_zero_linger().unwrap();
                drop(working);
                assert_eq!(client.answer().await.unwrap().status, 502);
            }
            _ => {
                working.send("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\nsome\r\n").await;
                let mut rest = Vec::new();
                drop(client);
                let _ = working.stream.read_buf(&mut rest).await;
            }
        }
        world.settled().await;
        assert!(world.is_free("ada").await, "moment {moment}");
    }
}

/// Sends `count` requests of this client, one after the other.
async fn ask_quickly(client: &mut Client, count: usize) {
    for _ in 0..count {
        client.send(get("/quick", "x-user: other\r\n")).await;
        assert_eq!(client.answer().await.unwrap().status, 200);
    }
}

/// The processor time that this thread has had; `None` where the system does not tell.
fn processor_time() -> Option<Duration> {
    // Giving way brings the number up to date.
    std::thread::yield_now();
    let told = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    let nanos = told.split(' ').next()?.parse().ok()?;
    Some(Duration::from_nanos(nanos)).filter(|time| !time.is_zero())
}

/// A clock that stands still and counts what is done with it. Its numbers are those of one thread.
#[derive(Debug)]
struct CountingClock {
    clock: Arc<ManualClock>,
    /// How often it was looked at, as each attempt to be admitted does.
    looks: AtomicUsize,
    /// How often a request that waits was polled, since each waits on the clock too.
    polls: AtomicUsize,
}

impl Clock for CountingClock {
    fn now(&self) -> Timestamp {
        self.looks.fetch_add(1, Ordering::Relaxed);
        self.clock.now()
    }

    fn wake_at(&self, at: Timestamp, waker: &Waker) -> ClockWait {
        self.polls.fetch_add(1, Ordering::Relaxed);
        self.clock.wake_at(at, waker)
    }
}

/// As [`world`], with a clock that counts.
async fn counting(config: Proxy) -> (World, Arc<CountingClock>) {
    let mut server = loopback();
    server.listen(ListenerRole::Proxy, "127.0.0.1:0".parse().unwrap());
    server.proxying = ProxyConfig::open(config).unwrap();
    let clock = Arc::new(ManualClock::new(START));
    let counting = Arc::new(CountingClock {
        clock: Arc::clone(&clock),
        looks: AtomicUsize::new(0),
        polls: AtomicUsize::new(0),
    });
    let time = Arc::clone(&counting) as Arc<dyn Clock>;
    (World::timed_by(namespaces(), server, clock, time).await, counting)
}

/// A server that answers `/quick` at once and keeps all other requests until the test ends.
async fn keeping() -> std::net::SocketAddr {
    serve(|mut connection| async move {
        while let Some(request) = connection.request().await {
            if !request.starts_with("GET /quick ") {
                connection.until(b"never").await;
            }
            connection.send("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await;
        }
    })
    .await
}

/// On one thread, whose processor time no other program and no other test adds to.
#[tokio::test]
async fn issue_16_requests_that_wait_take_no_throughput_from_others() {
    const TEST: &str = "issue_16_requests_that_wait_take_no_throughput_from_others";
    const WAITING: usize = 500;
    const PAIRS: usize = 41;
    const COUNT: usize = 100;
    let (alone, alone_clock) = counting(to(&[keeping().await], patient("parallel"))).await;
    let (beside, beside_clock) = counting(to(&[keeping().await], patient("parallel"))).await;
    let mut clients = Vec::new();
    for user in 0..WAITING {
        // The first has the permit of its user, the second waits for it, at the head of a line of
        // its own.
        for _ in 0..2 {
            clients.push(beside.asked("/", &format!("x-user: u{user}\r\n")).await);
        }
    }
    beside.until_waiting(WAITING).await;
    let (mut one, mut other) = (alone.proxied().await, beside.proxied().await);
    ask_quickly(&mut one, COUNT).await;
    ask_quickly(&mut other, COUNT).await;
    let looks = || [&alone_clock, &beside_clock].map(|clock| clock.looks.load(Ordering::Relaxed));
    let polls = || beside_clock.polls.load(Ordering::Relaxed);
    let (looks_before, polls_before, began) = (looks(), polls(), Instant::now());
    // The two are measured in turns, and the median leaves out the pairs of which something hit
    // only one.
    let mut ratios = Vec::new();
    for _ in 0..PAIRS {
        let start = processor_time();
        ask_quickly(&mut one, COUNT).await;
        let middle = processor_time();
        ask_quickly(&mut other, COUNT).await;
        let end = processor_time();
        if let (Some(start), Some(middle), Some(end)) = (start, middle, end) {
            let [with, without] = [end.saturating_sub(middle), middle.saturating_sub(start)];
            ratios.push(with.as_secs_f64() / without.as_secs_f64());
        }
    }
    let looks_after = looks();
    let [without, with] = [0, 1].map(|at| looks_after[at] - looks_before[at]);
    let polls = polls() - polls_before;
    let seconds = usize::try_from(began.elapsed().as_secs()).unwrap();
    beside.until_waiting(WAITING).await;
    assert!(with <= without + COUNT, "{with} attempts beside {WAITING} that wait, {without} without");
    // The sweep wakes each of them once a second, which polls it a few times; nothing else does.
    assert!(polls <= 4 * WAITING * (seconds + 2), "{polls} polls of {WAITING} that wait in {seconds} s");
    drop(clients);
    if ratios.is_empty() {
        let _ = writeln!(
            std::io::stdout(),
            "skipped: {TEST}: the system does not tell the processor time of a thread"
        );
        return;
    }
    ratios.sort_unstable_by(f64::total_cmp);
    let median = ratios[ratios.len() / 2];
    eprintln!("beside {WAITING} that wait {COUNT} requests take {median:.2} times as long: {ratios:.2?}");
    assert!(median < 3.0, "{median:.2} times as long beside {WAITING} that wait; all pairs: {ratios:.2?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_of_many_lines_are_all_admitted_in_order_of_arrival_whatever_leaves_meanwhile() {
    let order = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let notes = std::sync::Arc::clone(&order);
    let server = serve(move |mut connection| {
        let notes = std::sync::Arc::clone(&notes);
        async move {
            while let Some(request) = connection.request().await {
                let target = request.split(' ').nth(1).unwrap().to_owned();
                notes.lock().unwrap().push(target);
                tokio::task::yield_now().await;
                connection.send("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await;
            }
        }
    })
    .await;
    // The clock stands still, so that nothing is asked again by time: a wake-up that is lost is
    // never made up for.
    let world = world(to(&[server], patient("parallel"))).await;
    let mut clients = Vec::new();
    for round in 0..40 {
        for user in 0..5 {
            clients.push((
                user,
                round,
                world.asked(&format!("/{user}/{round}"), &format!("x-user: u{user}\r\n")).await,
            ));
        }
    }
    // Every seventh goes away at some moment; all others are answered.
    let (leaving, staying): (Vec<_>, Vec<_>) =
        clients.into_iter().partition(|(user, round, _)| (user + round) % 7 == 3);
    drop(leaving);
    for (user, round, mut client) in staying {
        let answer = tokio::time::timeout(Duration::from_secs(20), client.answer()).await;
        assert_eq!(answer.unwrap().map(|answer| answer.status), Some(200), "/{user}/{round}");
    }
    world.settled().await;
}

#[tokio::test]
async fn one_namespace_cannot_take_the_places_in_which_another_waits() {
    let (server, mut at_work) = handed().await;
    let mut config: Proxy = to(&[server], patient("parallel"));
    let mut other = patient("api");
    other.name = "other".to_owned();
    other.path = Some(tidegate_policy::grammar::PathPattern::parse("/api/*").unwrap());
    config.routes.insert(0, other);
    config.waiting = 4;
    let world = world(config).await;
    let _first = world.asked("/", "x-user: ada\r\n").await;
    let _working = at_work.recv().await.unwrap();
    let mut waiting = Vec::new();
    for _ in 0..2 {
        waiting.push(world.asked("/", "x-user: ada\r\n").await);
    }
    world.until_waiting(2).await;
    assert_eq!(world.through("/", "x-user: ada\r\n").await.status, 429, "half of the places is its share");
    for _ in 0..3 {
        let mut client = world.asked("/api/x", "x-user: ada\r\n").await;
        at_work.recv().await.unwrap().1.send(OK).await;
        assert_eq!(client.answer().await.unwrap().status, 200);
    }
    for count in [3, 4] {
        waiting.push(world.asked("/api/x", "x-user: ada\r\n").await);
        world.until_waiting(count).await;
    }
    assert_eq!(world.through("/api/x", "x-user: ada\r\n").await.status, 429);
}

#[tokio::test]
async fn issue_39_the_body_of_a_waiting_request_is_bounded_by_the_window_of_its_stream_and_counts() {
    const WINDOW: usize = 64 << 10;
    let (server, _) = well().await;
    let world = world(to(&[server], patient("api"))).await;
    for _ in 0..3 {
        assert_eq!(world.through("/", "x-user: ada\r\n").await.status, 200);
    }
    let ada = [("x-user", "ada")];
    let mut caller = Caller::connect(world.proxy());
    caller.send(&preface(65_535));
    caller.send(&call(1, "/", &ada, b""));
    world.until_waiting(1).await;
    let without = world.engine.waiting_use().bytes;
    caller.send(&begun(3, "/", &ada, &[7; 16_384]));
    world.until_waiting(2).await;
    let both = world.engine.waiting_use().bytes;
    assert!(both >= without + (16 << 10) + 2 * WINDOW, "{without}, {both}");
    // The settings of the daemon tell the window of a stream: number 4.
    let greeting = caller.read_bytes().await;
    let settings = greeting[9..][..usize::from(greeting[2])].chunks(6);
    let window = settings.filter(|one| one[..2] == [0, 4]).map(|one| &one[2..]).next_back();
    assert_eq!(window, Some(&u32::try_from(WINDOW).unwrap().to_be_bytes()[..]), "{greeting:?}");
    // Over HTTP/1 the body is in the buffer for reading, which the connection counts.
    let mut http1 = Caller::connect(world.proxy());
    http1.send(b"POST / HTTP/1.1\r\nhost: t\r\nx-user: ada\r\ncontent-length: 90000\r\n\r\nbegun");
    world.until_waiting(3).await;
    assert!(world.engine.waiting_use().bytes >= both + (40 << 10));
    drop((caller, http1));
    world.until_waiting(0).await;
}

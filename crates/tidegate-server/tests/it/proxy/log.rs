//! The access log and the span of each request.

use std::io::Write;
use std::net::SocketAddr;
use std::sync::{Arc, LazyLock, Mutex};
use std::time::{Duration, Instant};

use serde_json::Value;
use tidegate_policy::grammar::PathPattern;
use tidegate_policy::policy::proxy::Proxy;
use tidegate_test_support::eventually;
use tracing::Dispatch;
use tracing_subscriber::Registry;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::format::FmtSpan;
use tracing_subscriber::layer::SubscriberExt;

use super::upstream::{nobody, serve, well};
use super::{get, route, to, world};
use crate::world::World;

/// The written text.
#[derive(Clone, Default)]
pub(crate) struct Written(Arc<Mutex<Vec<u8>>>);

impl Write for Written {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Written {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }

    /// Each line as an object.
    pub(crate) fn lines(&self) -> Vec<Value> {
        self.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Waits until there are so many lines, and sees that there are no more.
    async fn settled(&self, world: &World, count: usize) -> Vec<Value> {
        world.settled().await;
        let what = format!("{count} lines are written");
        eventually(&what, async || self.lines().len() >= count).await;
        let lines = self.lines();
        assert_eq!(lines.len(), count, "{}", self.text());
        lines
    }
}

/// Two subscribers that are interested in everything and are the default of no thread.
///
/// A log statement asks once, when it is first reached, whether any subscriber wants it. With a
/// single subscriber alive `tracing` asks the one of the thread that reaches the statement. If that
/// thread belongs to another test and has none, the statement stays disabled for the test that
/// listens.
static INTERESTED: LazyLock<[Dispatch; 2]> =
    LazyLock::new(|| [(); 2].map(|()| Dispatch::new(Registry::default())));

/// Writes what this thread logs, until the guard is dropped: the tests run on one thread each.
pub(crate) fn listen(filter: &str) -> (Written, tracing::subscriber::DefaultGuard) {
    LazyLock::force(&INTERESTED);
    let written = Written::default();
    let writer = written.clone();
    let lines = tracing_subscriber::fmt::layer()
        .json()
        .with_span_events(FmtSpan::CLOSE)
        .with_writer(move || writer.clone());
    let filter: Targets = filter.parse().unwrap();
    let subscriber = tracing_subscriber::registry().with(lines).with(filter);
    (written, tracing::subscriber::set_default(subscriber))
}

#[test]
fn a_log_statement_that_another_thread_reaches_first_is_written_here() {
    let (written, _guard) = listen("said=info");
    let say = || tracing::info!(target: "said", "a word");
    std::thread::spawn(say).join().unwrap();
    say();
    assert_eq!(written.lines().len(), 1, "{}", written.text());
}

fn logged(server: SocketAddr) -> Proxy {
    let mut shop = route("api");
    shop.path = Some(PathPattern::parse("/v1/*").unwrap());
    let mut config = to(&[server], shop);
    config.access_log = true;
    config
}

const SECRETS: &str =
    "x-user: ada\r\nauthorization: Bearer s3cret\r\ncookie: session=s3cret\r\nx-key: s3cret\r\n";

#[tokio::test]
async fn every_request_gets_one_line_whatever_became_of_it_and_none_tells_a_secret() {
    let (written, _guard) = listen("tidegate::access=info");
    let (server, _) = well().await;
    let world = world(logged(server)).await;
    for _ in 0..4 {
        world.through("/v1/buy?token=s3cret", SECRETS).await;
    }
    world.through("/other?token=s3cret", SECRETS).await;
    world.through("/v1/../other", SECRETS).await;
    let lines = written.settled(&world, 6).await;
    assert!(!written.text().contains("s3cret"), "{}", written.text());
    let told = |line: &Value| {
        let fields = &line["fields"];
        assert_eq!((&line["target"], &fields["client"]), (&"tidegate::access".into(), &"127.0.0.1".into()));
        assert_eq!((&line["level"], &fields["method"]), (&"INFO".into(), &"GET".into()));
        assert!(fields["took_ms"].as_f64().unwrap() > 0.0 && fields["waited_ms"] == 0.0, "{fields}");
        let upstream = fields["upstream_ms"].as_f64();
        assert!(upstream.is_none_or(|took| took > 0.0 && took <= fields["took_ms"].as_f64().unwrap()));
        let text = |name: &str| fields[name].as_str().unwrap().to_owned();
        let status = fields["status"].as_u64().unwrap();
        (text("route"), text("path"), status, text("decision"), text("ending"), upstream.is_some())
    };
    let row = |route: &str, path: &str, status, decision: &str, has_upstream| {
        let [route, path, decision, ending] = [route, path, decision, "whole"].map(str::to_owned);
        (route, path, status, decision, ending, has_upstream)
    };
    let expected = [
        row("all", "/v1/buy", 200, "admit", true),
        row("all", "/v1/buy", 200, "admit", true),
        row("all", "/v1/buy", 200, "admit", true),
        row("all", "/v1/buy", 429, "refuse", false),
        row("", "/other", 404, "none", false),
        row("", "/v1/../other", 400, "none", false),
    ];
    assert_eq!(lines.iter().map(told).collect::<Vec<_>>(), expected);
}

#[tokio::test]
async fn requests_that_break_off_get_their_line_too() {
    let (written, _guard) = listen("tidegate::access=info");
    let world_of = |server| async move { world(logged(server)).await };
    let short = |line: &Value| {
        let fields = &line["fields"];
        (fields["status"].as_u64().unwrap(), fields["ending"].as_str().unwrap().to_owned())
    };
    // The upstream accepts no connection.
    let world = world_of(nobody().await).await;
    world.through("/v1/a", SECRETS).await;
    assert_eq!(short(&written.settled(&world, 1).await[0]), (502, "whole".to_owned()));
    // The answer breaks off.
    let server = serve(|mut connection| async move {
        let _ = connection.request().await;
        connection.send("HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nsome").await;
    })
    .await;
    let world = world_of(server).await;
    let mut client = world.proxied().await;
    client.send(get("/v1/b", SECRETS)).await;
    assert_eq!(client.answer().await, None);
    assert_eq!(short(&written.settled(&world, 2).await[1]), (200, "broken".to_owned()));
    // The client leaves before there is an answer.
    let server = serve(|mut connection| async move {
        connection.until(b"never").await;
    })
    .await;
    let world = world_of(server).await;
    let mut client = world.proxied().await;
    client.send(get("/v1/c", SECRETS)).await;
    world.until_in_flight().await;
    drop(client);
    assert_eq!(short(&written.settled(&world, 3).await[2]), (499, "abandoned".to_owned()));
}

#[tokio::test]
async fn without_being_asked_for_no_line_is_written() {
    let (written, _guard) = listen("tidegate::access=info");
    let (server, _) = well().await;
    let mut config = logged(server);
    config.access_log = false;
    let world = world(config).await;
    world.through("/v1/a", SECRETS).await;
    written.settled(&world, 0).await;
}

#[tokio::test]
async fn the_span_of_a_request_has_its_decision_and_how_long_its_server_took() {
    let (written, _guard) = listen("tidegate::proxy=debug");
    let server = serve(|mut connection| async move {
        while connection.request().await.is_some() {
            // Sleeps: the span tells how long the server took, in real time.
            tokio::time::sleep(Duration::from_millis(20)).await;
            connection.send("HTTP/1.1 201 Created\r\ncontent-length: 0\r\n\r\n").await;
        }
    })
    .await;
    let world = world(logged(server)).await;
    let mut measured_ms = Vec::new();
    for _ in 0..4 {
        let asked = Instant::now();
        world.through("/v1/buy", SECRETS).await;
        measured_ms.push(asked.elapsed().as_secs_f64() * 1e3);
    }
    let spans = written.settled(&world, 4).await;
    for (index, line) in spans.iter().enumerate() {
        let span = &line["span"];
        let is_admitted = index < 3;
        let (status, decision) = if is_admitted { (201, "admit") } else { (429, "refuse") };
        assert_eq!(
            (&span["name"], &span["route"], &span["decision"], &span["status"]),
            (&"proxied".into(), &"all".into(), &decision.into(), &status.into()),
            "{line}"
        );
        let took = span["upstream_ms"].as_f64();
        let whole = measured_ms[index];
        let is_told = took.is_some_and(|took| (20.0..=whole).contains(&took));
        assert_eq!(is_told, is_admitted, "{whole} ms in all: {line}");
    }
}

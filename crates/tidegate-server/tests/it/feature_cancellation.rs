//! Requests in flight through the proxy whose feature is switched off: those of a feature with
//! `on_disable: cancel` end after its grace, those of any other feature are finished.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Empty};
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tidegate_server::Clock;
use tidegate_test_support::eventually;
use tokio::net::TcpStream;
use tokio::sync::{Notify, mpsc};

use crate::client::Client;
use crate::doors::Daemon;
use crate::proxy::upstream::serve;

const POLICY: &str = r#"
store: { kind: memory }
listen: { http: 127.0.0.1:0, proxy: 127.0.0.1:0 }
features:
  - { name: exports, resource: app, class: sheddable, on_disable: cancel, grace: 2s, levels: LEVELS }
  - { name: reports, resource: app, class: sheddable, levels: LEVELS }
  - { name: trials, resource: app, class: sheddable, on_disable: cancel, grace: 2s, mode: shadow, levels: LEVELS }
namespaces: { shop: { limits: [{ name: all, rate: 100000/s }] } }
resources: { app: { concurrency: 64 } }
proxy:
  upstreams: { app: ["http://SERVER"] }
  routes:
    - { upstream: app, namespace: shop, feature: header.x-feature, upgrades: [websocket] }
"#;

/// The grace of `exports`.
const GRACE: Duration = Duration::from_secs(2);

/// How far a request has come when its feature is switched off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Moment {
    /// It was sent, and nothing was answered.
    Work,
    /// Half of its answer was sent.
    Answer,
    /// Its connection speaks another protocol.
    Tunnel,
}

/// The news of the upstream about a request.
#[derive(Debug, PartialEq, Eq)]
enum News {
    Begun,
    /// The connection has ended.
    Ended,
}

/// An upstream that does not end the work on a request before it is told to.
struct Upstream {
    address: SocketAddr,
    news: mpsc::UnboundedReceiver<News>,
    /// Each notice ends the work on one request that has come as far as [`Moment::Work`].
    finish: Arc<Notify>,
}

async fn upstream(moment: Moment) -> Upstream {
    let (tell, news) = mpsc::unbounded_channel();
    let finish = Arc::new(Notify::new());
    let finished = Arc::clone(&finish);
    let address = serve(move |mut connection| {
        let (tell, finished) = (tell.clone(), Arc::clone(&finished));
        async move {
            if connection.until(b"\r\n\r\n").await.is_none() {
                return;
            }
            let _ = tell.send(News::Begun);
            let head = match moment {
                Moment::Work => "",
                Moment::Answer => "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nsome",
                Moment::Tunnel => {
                    "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\nsome"
                }
            };
            connection.send(head).await;
            tokio::select! {
                _ = connection.until(b"never") => {}
                () = finished.notified() => {
                    connection.send("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await;
                }
            }
            let _ = tell.send(News::Ended);
        }
    })
    .await;
    Upstream { address, news, finish }
}

/// The bytes of the body of an answer that no buffer on its way has room for.
const FLOOD_BYTES: u64 = 256 << 20;

/// An upstream whose answer is as long as [`FLOOD_BYTES`], and how much of it has been sent.
async fn flooding() -> (Upstream, Arc<AtomicU64>) {
    let (tell, news) = mpsc::unbounded_channel();
    let sent = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&sent);
    let address = serve(move |mut connection| {
        let (tell, count) = (tell.clone(), Arc::clone(&count));
        async move {
            if connection.until(b"\r\n\r\n").await.is_none() {
                return;
            }
            let _ = tell.send(News::Begun);
            connection.send(format!("HTTP/1.1 200 OK\r\ncontent-length: {FLOOD_BYTES}\r\n\r\n")).await;
            while connection.send(&[b'x'; 16 << 10]).await {
                count.fetch_add(16 << 10, Ordering::Relaxed);
            }
            let _ = tell.send(News::Ended);
        }
    })
    .await;
    (Upstream { address, news, finish: Arc::default() }, sent)
}

impl Daemon {
    async fn before(upstream: &Upstream) -> Self {
        Self::with_levels(&POLICY.replace("SERVER", &upstream.address.to_string())).await
    }

    /// A request that the upstream works on.
    async fn begin(&self, feature: &str, moment: Moment, upstream: &mut Upstream) -> Client {
        let mut client = Client::connect(self.handle.proxy().unwrap().tcp().unwrap()).await;
        let change = match moment {
            Moment::Tunnel => "connection: upgrade\r\nupgrade: websocket\r\n",
            Moment::Work | Moment::Answer => "",
        };
        client.send(format!("GET / HTTP/1.1\r\nhost: a\r\nx-feature: {feature}\r\n{change}\r\n")).await;
        assert_eq!(upstream.news.recv().await, Some(News::Begun));
        if moment != Moment::Work {
            client.has_received("some").await;
        }
        client
    }

    /// The places of the resource that are taken.
    fn places(&self) -> u64 {
        self.engine.resource_stats(self.clock.now()).map(|stats| stats.in_flight).sum()
    }

    /// The streams of the resource that are open.
    fn streams(&self) -> u64 {
        let stats = self.engine.resource_stats(self.clock.now());
        stats.filter_map(|stats| Some(stats.streams?.open)).sum()
    }

    /// The requests of `exports` that are in flight.
    fn exports(&self) -> u64 {
        let features = self.engine.feature_views(self.clock.now());
        features.iter().find(|feature| &*feature.name == "exports").expect("it has levels").in_flight
    }

    /// Returns when no more of an answer is sent, because nobody reads it.
    async fn stalled(&self, sent: &AtomicU64) {
        let mut before = 0;
        eventually("the answer stalls", async || {
            for _ in 0..50 {
                self.act().await;
            }
            let now = sent.load(Ordering::Relaxed);
            core::mem::replace(&mut before, now) == now && now > 0
        })
        .await;
        assert!(before < FLOOD_BYTES / 2, "{before} bytes were sent");
    }

    /// Switches `exports` off and sees that the request in flight is over after the grace, though
    /// its client reads nothing.
    async fn ends_unread(&self, upstream: &mut Upstream) {
        assert_eq!((self.places(), self.exports()), (1, 1));
        self.pin("exports", "off");
        self.pass(GRACE.saturating_sub(Duration::from_millis(1))).await;
        assert_eq!((self.places(), self.exports()), (1, 1), "within the grace");
        self.pass(Duration::from_millis(1)).await;
        eventually("nothing is held", async || (self.places(), self.exports()) == (0, 0)).await;
        assert_eq!(upstream.news.recv().await, Some(News::Ended));
        let page = Client::connect(self.http()).await.get("/metrics").await.body;
        let ended = page.lines().filter(|line| line.starts_with("tidegate_proxy_endings_total"));
        let ended: Vec<&str> = ended.filter(|line| line.ends_with(" 1")).collect();
        assert!(matches!(ended[..], [line] if line.contains("ending=\"cancelled\"")), "{ended:?}");
    }

    /// Lets time pass tick by tick: a step of seconds would be a machine that was suspended, whose
    /// work has as long as before.
    async fn pass(&self, time: Duration) {
        let mut left = time;
        while !left.is_zero() {
            let step = left.min(Duration::from_millis(100));
            self.clock.advance(step);
            self.act().await;
            left = left.saturating_sub(step);
        }
    }

    /// Lets the daemon do what is due at this instant: it answers a request that came after.
    async fn act(&self) {
        for _ in 0..2 {
            assert_eq!(Client::connect(self.http()).await.get("/healthz").await.status, 200);
        }
    }
}

#[tokio::test]
async fn issue_39_a_stream_ends_after_the_grace_of_its_feature_too() {
    for moment in [Moment::Answer, Moment::Tunnel] {
        let mut upstream = upstream(moment).await;
        let policy = POLICY.replace("upgrades:", "hold: first_byte, upgrades:");
        let daemon = Daemon::with_levels(&policy.replace("SERVER", &upstream.address.to_string())).await;
        let _client = daemon.begin("exports", moment, &mut upstream).await;
        let held = || (daemon.places(), daemon.streams(), daemon.exports());
        assert_eq!(held(), (0, 1, 1), "{moment:?}");
        daemon.pin("exports", "off");
        daemon.pass(GRACE.saturating_sub(Duration::from_millis(1))).await;
        assert_eq!(held(), (0, 1, 1), "{moment:?}: within the grace");
        daemon.pass(Duration::from_millis(1)).await;
        assert_eq!(upstream.news.recv().await, Some(News::Ended), "{moment:?}");
        eventually("nothing is held", async || held() == (0, 0, 0)).await;
    }
}

#[tokio::test]
async fn a_request_in_flight_ends_after_the_grace_of_its_feature_and_gives_back_its_place() {
    for moment in [Moment::Work, Moment::Answer, Moment::Tunnel] {
        let mut upstream = upstream(moment).await;
        let daemon = Daemon::before(&upstream).await;
        let mut client = daemon.begin("exports", moment, &mut upstream).await;
        assert_eq!(daemon.places(), 1, "{moment:?}");
        daemon.pin("exports", "off");
        daemon.pass(GRACE.saturating_sub(Duration::from_millis(1))).await;
        assert_eq!(daemon.places(), 1, "{moment:?}: within the grace");
        daemon.pass(Duration::from_millis(1)).await;
        match moment {
            Moment::Work => {
                let answer = client.answer().await.expect("an answer");
                assert_eq!(answer.status, 503, "{answer:?}");
                assert_eq!(answer.header("tidegate-feature"), Some("exports=off"), "{answer:?}");
                assert_eq!(answer.header("x-tidegate-reason"), Some("feature_disabled"), "{answer:?}");
                assert!(answer.header("retry-after").is_some(), "{answer:?}");
                let body = answer.json();
                assert_eq!((&body["feature"], &body["feature_level"]), (&"exports".into(), &"off".into()));
                assert_eq!(body["namespace"], "shop");
            }
            // The answer breaks off, and never looks complete.
            Moment::Answer => assert_eq!(client.answer().await, None),
            Moment::Tunnel => {
                // The bytes received before stay; nothing more comes.
                assert!(!client.is_ended().await);
            }
        }
        assert_eq!(upstream.news.recv().await, Some(News::Ended), "{moment:?}");
        eventually("the place is free", async || daemon.places() == 0).await;
        // A request that is cut short says nothing about the latency of the upstream.
        let latency = daemon.engine.resource_stats(daemon.clock.now()).map(|stats| stats.latency);
        let samples: u64 = latency.map(|latency| latency.succeeded + latency.failed).sum();
        assert_eq!(samples, 0, "{moment:?}");
        let page = Client::connect(daemon.http()).await.get("/metrics").await.body;
        let ended = page.lines().filter(|line| line.starts_with("tidegate_proxy_endings_total"));
        let ended: Vec<&str> = ended.filter(|line| line.ends_with(" 1")).collect();
        assert!(matches!(ended[..], [line] if line.contains("ending=\"cancelled\"")), "{ended:?}");
    }
}

#[tokio::test]
async fn a_feature_that_is_on_again_within_its_grace_cancels_nothing() {
    let mut upstream = upstream(Moment::Work).await;
    let daemon = Daemon::before(&upstream).await;
    let mut client = daemon.begin("exports", Moment::Work, &mut upstream).await;
    daemon.pin("exports", "off");
    daemon.pass(GRACE / 2).await;
    daemon.pin("exports", "480p");
    daemon.pass(10 * GRACE).await;
    assert_eq!(daemon.places(), 1);
    upstream.finish.notify_one();
    assert_eq!(client.answer().await.expect("an answer").status, 200);
}

#[tokio::test]
async fn a_feature_that_finishes_its_work_or_only_shows_its_level_cancels_nothing() {
    for feature in ["reports", "trials"] {
        let mut upstream = upstream(Moment::Work).await;
        let daemon = Daemon::before(&upstream).await;
        let mut client = daemon.begin(feature, Moment::Work, &mut upstream).await;
        daemon.pin(feature, "off");
        daemon.pin("exports", "off");
        daemon.pass(10 * GRACE).await;
        assert_eq!(daemon.places(), 1, "{feature}");
        upstream.finish.notify_one();
        assert_eq!(client.answer().await.expect("an answer").status, 200, "{feature}");
    }
}

#[tokio::test]
async fn a_request_whose_client_reads_nothing_ends_after_the_grace_too() {
    let (mut upstream, sent) = flooding().await;
    let daemon = Daemon::before(&upstream).await;
    let mut client = Client::connect(daemon.handle.proxy().unwrap().tcp().unwrap()).await;
    client.send("GET / HTTP/1.1\r\nhost: a\r\nx-feature: exports\r\n\r\n").await;
    assert_eq!(upstream.news.recv().await, Some(News::Begun));
    daemon.stalled(&sent).await;
    daemon.ends_unread(&mut upstream).await;
    assert_eq!(client.answer().await, None, "the connection ends within the answer");
}

#[tokio::test]
async fn a_stream_whose_client_opens_no_window_ends_after_the_grace_and_the_connection_goes_on() {
    let (mut upstream, sent) = flooding().await;
    let daemon = Daemon::before(&upstream).await;
    let address = daemon.handle.proxy().unwrap().tcp().unwrap();
    let stream = TokioIo::new(TcpStream::connect(address).await.unwrap());
    let (mut sender, connection) = http2::handshake(TokioExecutor::new(), stream).await.unwrap();
    tokio::spawn(connection);
    let get = |feature: &str| {
        let request = http::Request::get("http://a/").header("x-feature", feature);
        request.body(Empty::<Bytes>::new()).unwrap()
    };
    let answer = sender.send_request(get("exports")).await.unwrap();
    assert_eq!(upstream.news.recv().await, Some(News::Begun));
    daemon.stalled(&sent).await;
    daemon.ends_unread(&mut upstream).await;
    assert!(answer.into_body().collect().await.is_err(), "the answer never looks complete");
    let other = sender.send_request(get("exports")).await.unwrap();
    assert_eq!(other.status(), 503, "the connection serves other requests");
}

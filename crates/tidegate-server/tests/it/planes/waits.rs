//! Requests of the API and of Envoy's service that wait, callers that leave while they do, and
//! requests that take no place.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::Message as _;
use serde_json::json;
use tidegate_test_support::eventually;
use tidegate_wire::envoy::SHOULD_RATE_LIMIT;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::Daemon;
use crate::client::{Client, post};
use crate::departures::http2::{call, preface, reset};
use crate::departures::{Caller, WAYS};
use crate::grpc::{Envoy, descriptor, request};
use crate::paused_clock::at_this_instant;
use crate::resp;

/// Within this time a client that has left is out of the queue, also where unread bytes hide its
/// end.
const NOTICED_WITHIN: Duration = Duration::from_millis(100);

const QUEUED: &str = "
namespaces:
  shop: { limits: [{ name: slow, key: [user], rate: 6/m, burst: 1 }] }
  blog: { limits: [] }
resources:
  app:
    concurrency: 1
    status: 529
    queue: { requests: 1000, wait: { sheddable_plus: 30s, critical: 2s } }
  bare: { concurrency: 1 }
";

const PLACE: &str = r#"{"namespace":"shop","resource":"app","wait_ms":60000}"#;

impl Daemon {
    /// Takes the only place of a resource; its permit.
    async fn take(&self, resource: &str) -> String {
        let answer = self.post("/v1/check", &json!({"namespace": "shop", "resource": resource})).await;
        answer.json()["permit"].as_str().unwrap_or_else(|| panic!("{answer:?}")).to_owned()
    }

    async fn release(&self, permit: &str) {
        assert_eq!(self.post("/v1/release", &json!({ "permit": permit })).await.status, 200);
    }

    /// A client whose check is sent, and not answered yet.
    async fn asked(&self, body: &str) -> Client {
        let mut client = self.client().await;
        client.send(post("/v1/check", body)).await;
        client
    }

    pub(super) async fn until_waiting(&self, count: usize) {
        let what = format!("{count} wait");
        eventually(&what, async || self.handle.proxy_waiting() == count).await;
    }

    /// The same, before any timer fires.
    async fn until_waiting_now(&self, count: usize, how: &str) {
        let waiting = async {
            while self.handle.proxy_waiting() != count {
                tokio::task::yield_now().await;
            }
        };
        at_this_instant(&format!("{how}: {count} wait"), waiting).await;
    }

    async fn redis(&self) -> resp::Client {
        resp::Client::connect(self.handle.resp().unwrap().tcp().unwrap()).await
    }

    async fn in_flight(&self) -> String {
        self.series(r#"tidegate_resource_in_flight{resource="app"}"#).await
    }
}

/// A connection of HTTP/2.
struct Http2 {
    sender: http2::SendRequest<Full<Bytes>>,
    connection: JoinHandle<()>,
    address: SocketAddr,
}

impl Http2 {
    async fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).await.unwrap();
        let handshake = http2::handshake(TokioExecutor::new(), TokioIo::new(stream));
        let (sender, connection) = handshake.await.unwrap();
        let connection = tokio::spawn(async move { drop(connection.await) });
        Self { sender, connection, address }
    }

    /// A check on a stream of its own, which aborting the task resets.
    fn ask(&self, body: &'static str) -> JoinHandle<()> {
        let (mut sender, target) = (self.sender.clone(), format!("http://{}/v1/check", self.address));
        let request = http::Request::post(target).body(Full::from(body)).unwrap();
        tokio::spawn(async move { drop(sender.send_request(request).await) })
    }
}

#[tokio::test]
async fn a_check_waits_for_the_place_it_lacks_and_has_it_then() {
    let daemon = Daemon::start(QUEUED).await;
    let held = daemon.take("app").await;
    let mut waiting = daemon.asked(PLACE).await;
    daemon.until_waiting(1).await;
    daemon.release(&held).await;
    let admitted = waiting.answer().await.unwrap();
    assert_eq!(admitted.status, 200, "{admitted:?}");
    assert_eq!(daemon.in_flight().await, "1");
    daemon.release(admitted.json()["permit"].as_str().unwrap()).await;
    assert_eq!((daemon.in_flight().await.as_str(), daemon.handle.proxy_waiting()), ("0", 0));
}

#[tokio::test]
async fn a_check_waits_for_its_limit_and_not_past_what_it_says_or_its_caller_does() {
    let daemon = Daemon::start(QUEUED).await;
    let body = |wait: u64| json!({"namespace": "shop", "attributes": {"user": "ada"}, "wait_ms": wait});
    assert_eq!(daemon.post("/v1/check", &body(0)).await.status, 200);
    // The next unit is there in 10 s: a shorter wait is of no use, and is refused at once.
    let refused = daemon.post("/v1/check", &body(9_999)).await;
    assert_eq!((refused.status, refused.header("retry-after")), (429, Some("10")), "{refused:?}");
    let mut hurried = daemon.client().await;
    let late = post("/v1/check", &body(60_000).to_string());
    hurried.send(late.replace("\r\n\r\n", "\r\ntidegate-deadline-ms: 10000\r\n\r\n")).await;
    assert_eq!(hurried.answer().await.unwrap().status, 429, "the deadline is the smaller one");
    let mut waiting = daemon.asked(&body(10_000).to_string()).await;
    daemon.until_waiting(1).await;
    daemon.clock.advance(Duration::from_secs(10));
    assert_eq!(waiting.answer().await.unwrap().status, 200);
}

#[tokio::test]
async fn a_check_waits_no_longer_than_its_class_may_for_the_resource() {
    let daemon = Daemon::start(QUEUED).await;
    let held = daemon.take("app").await;
    let critical = r#"{"namespace":"shop","resource":"app","class":"critical","wait_ms":60000}"#;
    let mut waiting = daemon.asked(critical).await;
    daemon.until_waiting(1).await;
    daemon.clock.advance(Duration::from_millis(2_001));
    let refused = waiting.answer().await.unwrap();
    assert_eq!(refused.status, 529, "{refused:?}");
    // A class that the queue does not name does not wait, whatever it says.
    let sheddable = json!({"namespace": "shop", "resource": "app", "class": "sheddable", "wait_ms": 60_000});
    assert_eq!(daemon.post("/v1/check", &sheddable).await.status, 529);
    daemon.release(&held).await;
}

/// The clock moves for [`NOTICED_WITHIN`] at most, and the sweep, which looks once a second, has
/// just looked: it ends no wait.
#[tokio::test(start_paused = true)]
async fn a_client_that_leaves_is_out_of_the_queue_at_once_however_it_leaves() {
    let begun = Instant::now();
    let daemon = Daemon::start(QUEUED).await;
    let held = daemon.take("app").await;
    for how in ["half-close", "close", "reset", "half-close behind another request", "http2"] {
        let next_look = begun + Duration::from_secs(begun.elapsed().as_secs() + 1);
        // Sleeps: on tokio's paused clock, until the sweep has looked.
        tokio::time::sleep_until(next_look + NOTICED_WITHIN).await;
        let address = daemon.handle.http().unwrap().tcp().unwrap();
        if how == "http2" {
            let client = Http2::connect(address).await;
            let asked = client.ask(PLACE);
            daemon.until_waiting_now(1, how).await;
            asked.abort();
            daemon.until_waiting_now(0, how).await;
            continue;
        }
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(post("/v1/check", PLACE).as_bytes()).await.unwrap();
        daemon.until_waiting_now(1, how).await;
        if how.contains("behind") {
            stream.write_all(post("/v1/check", PLACE).as_bytes()).await.unwrap();
            // The daemon has seen it when it answers another client.
            at_this_instant("an answer", daemon.get("/healthz")).await;
        }
        match how {
            "close" => drop(stream),
            "reset" => {
                stream.set_zero_linger().unwrap();
                drop(stream);
            }
            _ => {
                stream.shutdown().await.unwrap();
                if how.contains("behind") {
                    // Sleeps: on tokio's paused clock, for as long as the end may stay hidden.
                    tokio::time::sleep(NOTICED_WITHIN).await;
                }
            }
        }
        daemon.until_waiting_now(0, how).await;
    }
    assert_eq!(daemon.in_flight().await, "1");
    daemon.release(&held).await;
    assert_eq!(daemon.in_flight().await, "0");
}

#[tokio::test]
async fn a_client_that_ends_its_output_is_answered_where_nothing_waits_in_a_queue() {
    let daemon = Daemon::start(QUEUED).await;
    for wait in ["", r#","wait_ms":60000"#] {
        let body = format!(r#"{{"namespace":"shop","resource":"bare"{wait}}}"#);
        let address = daemon.handle.http().unwrap().tcp().unwrap();
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(post("/v1/check", &body).as_bytes()).await.unwrap();
        stream.shutdown().await.unwrap();
        let answer = Client::over(stream).answer().await.expect("an answer");
        daemon.release(answer.json()["permit"].as_str().unwrap()).await;
    }
}

#[tokio::test]
async fn a_thousand_waits_of_clients_that_leave_give_everything_back_and_more_are_turned_away() {
    let daemon = Daemon::start(QUEUED).await;
    let held = daemon.take("app").await;
    let address = daemon.handle.http().unwrap().tcp().unwrap();
    let mut clients = Vec::new();
    for _ in 0..4 {
        // A connection takes 256 requests of HTTP/2 at a time.
        let client = Http2::connect(address).await;
        let asked: Vec<_> = (0..250).map(|_| client.ask(PLACE)).collect();
        clients.push((client, asked));
    }
    daemon.until_waiting(1000).await;
    let refused = daemon.client().await.post("/v1/check", PLACE).await;
    assert_eq!(refused.status, 529, "the status of the resource: {refused:?}");
    assert_eq!(refused.json()["reason"], "queue_full");
    let detail = refused.json()["detail"].as_str().unwrap().to_owned();
    assert!(detail.contains("refused: queue full"), "{detail}");
    // The client's library ends a connection when the last request on it is gone.
    for (client, asked) in clients {
        asked.iter().for_each(JoinHandle::abort);
        client.connection.abort();
    }
    daemon.until_waiting(0).await;
    assert_eq!(daemon.in_flight().await, "1");
    daemon.release(&held).await;
    assert_eq!(daemon.in_flight().await, "0");
    assert_eq!(daemon.series("tidegate_buffered_bytes").await, "0");
}

#[tokio::test]
async fn bad_waits_classes_deadlines_and_tenants_are_answered_clearly() {
    let daemon = Daemon::start(QUEUED).await;
    for (more, hint) in [
        (r#""wait_ms":60001"#, "wait_ms 60001 is out of range"),
        (r#""wait_ms":5,"peek":true"#, "does not wait"),
        (r#""wait_ms":-1"#, "wait_ms"),
        (r#""wait_ms":"100""#, "wait_ms"),
        (r#""wait_ms":1.5"#, "wait_ms"),
        (r#""class":"urgent""#, "urgent"),
    ] {
        let body = format!(r#"{{"namespace":"shop",{more}}}"#);
        let answer = daemon.client().await.post("/v1/check", &body).await;
        assert_eq!(answer.status, 400, "{more}: {answer:?}");
        assert!(answer.body.contains(hint), "{more}: {answer:?}");
    }
    for (deadline, status) in [("-1", 400), ("soon", 400), ("0", 503), ("99999999999", 400), ("5", 200)] {
        let mut client = daemon.client().await;
        let text = post("/v1/check", r#"{"namespace":"shop","resource":"bare","wait_ms":9}"#);
        client.send(text.replace("\r\n\r\n", &format!("\r\ntidegate-deadline-ms: {deadline}\r\n\r\n"))).await;
        let answer = client.answer().await.unwrap();
        assert_eq!(answer.status, status, "{deadline}: {answer:?}");
    }
    let tenant = "t".repeat(2048);
    let body = json!({"namespace": "shop", "attributes": {"tenant": tenant}, "wait_ms": 5});
    let answer = daemon.post("/v1/check", &body).await;
    assert!([200, 400].contains(&answer.status), "{answer:?}");
}

#[tokio::test]
async fn a_drain_answers_checks_and_a_call_of_envoy_that_wait_at_once() {
    let daemon = Daemon::start(QUEUED).await;
    let _held = daemon.take("app").await;
    let ada = [("user", "ada"), ("resource", "app")];
    let mut envoy = Envoy::at(daemon.handle.grpc().unwrap().tcp().unwrap()).await;
    assert_eq!(envoy.call(request("shop", &[descriptor(&ada)])).await.unwrap().overall_code, 1);
    let mut for_place = daemon.asked(PLACE).await;
    let limit = r#"{"namespace":"shop","attributes":{"user":"ada"},"wait_ms":60000}"#;
    let mut for_limit = daemon.asked(limit).await;
    let call = tokio::spawn(async move { envoy.call(request("shop", &[descriptor(&ada)])).await });
    let mut redis = daemon.redis().await;
    redis.send_lines(&["TG.CHECK shop user ada tidegate-wait-ms 60000"]).await;
    daemon.until_waiting(4).await;
    let shutdown = tokio::spawn(daemon.handle.shutdown());
    for waiting in [&mut for_place, &mut for_limit] {
        let refused = waiting.answer().await.unwrap();
        assert_eq!(refused.status, 503, "{refused:?}");
        // The hint of a resource is scattered over half a second.
        assert!(matches!(refused.header("retry-after"), Some("1" | "2")), "{refused:?}");
        assert_eq!(refused.header("connection"), Some("close"));
    }
    assert_eq!(call.await.unwrap().unwrap().overall_code, 2);
    let refused = redis.reply_text().await;
    assert!(refused.starts_with("[decision, refuse, reason, queue_full"), "{refused}");
    assert_eq!(shutdown.await.unwrap().cut_off, 0);
}

#[tokio::test]
async fn an_answer_to_envoy_is_held_until_5_ms_before_envoy_gives_up_at_the_latest() {
    let daemon = Daemon::start(QUEUED).await;
    let mut envoy = Envoy::at(daemon.handle.grpc().unwrap().tcp().unwrap()).await;
    let ada = || request("shop", &[descriptor(&[("user", "ada"), ("resource", "app")])]);
    assert_eq!(envoy.call(ada()).await.unwrap().overall_code, 1);
    // The next unit is there in 10 s.
    let seconds = Duration::from_secs;
    assert_eq!(envoy.call_within(ada(), seconds(10)).await.unwrap().overall_code, 2, "10 s less 5 ms");
    let bob = || request("shop", &[descriptor(&[("user", "ada")])]);
    assert_eq!(envoy.call_within(bob(), seconds(60)).await.unwrap().overall_code, 2, "no resource, no wait");
    let mut held = envoy.clone();
    let held = tokio::spawn(async move { held.call_within(ada(), seconds(11)).await });
    daemon.until_waiting(1).await;
    daemon.clock.advance(seconds(10));
    assert_eq!(held.await.unwrap().unwrap().overall_code, 1);
}

#[tokio::test]
async fn a_check_over_redis_or_envoys_service_waits_as_long_as_it_says() {
    let daemon = Daemon::start(QUEUED).await;
    let seconds = Duration::from_secs;
    let ada = |millis: &str| request("shop", &[descriptor(&[("user", "ada"), ("tidegate-wait-ms", millis)])]);
    let mut envoy = Envoy::at(daemon.handle.grpc().unwrap().tcp().unwrap()).await;
    let mut redis = daemon.redis().await;
    assert!(redis.ask("TG.CHECK shop user ada").await.starts_with("[decision, admit"));
    // The next unit is there in 10 s.
    for millis in ["0", "9999"] {
        assert_eq!(envoy.call(ada(millis)).await.unwrap().overall_code, 2, "{millis}");
        let refused = redis.ask(&format!("TG.CHECK shop user ada tidegate-wait-ms {millis}")).await;
        assert!(refused.starts_with("[decision, refuse, reason, rate_exceeded"), "{refused}");
    }
    let mut waiting = envoy.clone();
    let call = tokio::spawn(async move { waiting.call(ada("60000")).await });
    daemon.until_waiting(1).await;
    daemon.clock.advance(seconds(10));
    assert_eq!(call.await.unwrap().unwrap().overall_code, 1);

    let other = daemon.redis().await;
    let check = "TG.CHECK shop user ada tidegate-wait-ms 60000";
    let asked = tokio::spawn(async move {
        let mut redis = redis;
        // The reply before it is sent before it waits, and those behind it come behind it.
        redis.send_lines(&["PING", check, "ECHO behind"]).await;
        let first = redis.reply_text().await;
        (first, redis)
    });
    let (first, mut redis) = asked.await.unwrap();
    assert_eq!(first, "+PONG");
    daemon.until_waiting(1).await;
    daemon.clock.advance(seconds(10));
    let admitted = redis.reply_text().await;
    assert!(admitted.starts_with("[decision, admit, remaining, 0"), "{admitted}");
    assert_eq!(redis.reply_text().await, "behind");
    // As in Redis, nothing waits between MULTI and EXEC.
    let mut redis = other;
    for (line, expected) in [("MULTI", "+OK"), (check, "+QUEUED"), ("EXEC", "[[decision, refuse")] {
        let reply = redis.ask(line).await;
        assert!(reply.starts_with(expected), "{line}: {reply}");
    }
    for (millis, hint) in [("60001", "out of range"), ("-1", "send digits"), ("", "send digits")] {
        let status = envoy.call(ada(millis)).await.unwrap_err();
        assert!(status.message().contains(hint), "{millis}: {status:?}");
        let reply = redis.ask_for(&["TG.CHECK", "shop", "tidegate-wait-ms", millis]).await;
        assert!(reply.starts_with("-ERR tidegate-wait-ms") && reply.contains(hint), "{millis}: {reply}");
    }
    let reply = redis.ask("TG.CHECK shop COST 0 user ada tidegate-wait-ms 5").await;
    assert!(reply.starts_with("-ERR ") && reply.contains("does not wait"), "{reply}");
}

#[tokio::test]
async fn a_client_of_redis_that_leaves_while_its_check_waits_is_out_of_the_queue() {
    let daemon = Daemon::start(QUEUED).await;
    let address = daemon.handle.resp().unwrap().tcp().unwrap();
    let check = "TG.CHECK shop user ada tidegate-wait-ms 60000\r\n";
    let mut redis = daemon.redis().await;
    assert!(redis.ask("TG.CHECK shop user ada").await.starts_with("[decision, admit"));
    for behind in ["", "PING\r\n"] {
        for how in WAYS {
            let mut caller = Caller::connect(address);
            caller.send(format!("{check}{behind}").as_bytes());
            daemon.until_waiting(1).await;
            let left = caller.leave(how);
            daemon.until_waiting_now(0, &format!("{behind:?}, {how:?}")).await;
            drop(left);
        }
    }
    // In the instant of its turn it has left as well, and is not charged.
    for how in WAYS {
        let mut caller = Caller::connect(address);
        caller.send(check.as_bytes());
        daemon.until_waiting(1).await;
        let left = caller.leave(how);
        daemon.clock.advance(Duration::from_secs(10));
        daemon.until_waiting(0).await;
        drop(left);
        assert!(redis.ask("TG.CHECK shop user ada").await.starts_with("[decision, admit"), "{how:?}");
    }
}

#[tokio::test]
async fn a_held_call_of_envoy_that_leaves_in_the_instant_of_its_turn_is_not_charged() {
    let daemon = Daemon::start(QUEUED).await;
    let address = daemon.handle.grpc().unwrap().tcp().unwrap();
    let check = json!({"namespace": "shop", "attributes": {"user": "ada"}});
    let message = request("shop", &[descriptor(&[("user", "ada"), ("resource", "app")])]).encode_to_vec();
    let mut body = vec![0];
    body.extend(u32::try_from(message.len()).unwrap().to_be_bytes());
    body.extend(message);
    let fields = [("content-type", "application/grpc"), ("te", "trailers"), ("grpc-timeout", "60S")];
    for how in WAYS.map(Some).into_iter().chain([None]) {
        assert_eq!(daemon.post("/v1/check", &check).await.status, 200, "before {how:?}");
        let mut caller = Caller::connect(address);
        caller.send(&preface(65_535));
        caller.send(&call(1, SHOULD_RATE_LIMIT, &fields, &body));
        daemon.until_waiting(1).await;
        let _left = if let Some(how) = how {
            caller.leave(how)
        } else {
            caller.send(&reset(1));
            Some(caller)
        };
        // The next unit is there, and nothing of the daemon has run since the caller left.
        daemon.clock.advance(Duration::from_secs(10));
        daemon.until_waiting(0).await;
    }
    assert_eq!(daemon.post("/v1/check", &check).await.status, 200);
}

#[tokio::test]
async fn envoys_calls_hold_at_most_half_of_the_streams_of_a_connection() {
    let daemon = Daemon::start(QUEUED).await;
    let envoy = Envoy::at(daemon.handle.grpc().unwrap().tcp().unwrap()).await;
    let ada = || request("shop", &[descriptor(&[("user", "ada"), ("resource", "app")])]);
    assert_eq!(envoy.clone().call(ada()).await.unwrap().overall_code, 1);
    let calls: Vec<_> = (0..128)
        .map(|_| {
            let mut envoy = envoy.clone();
            tokio::spawn(async move { envoy.call_within(ada(), Duration::from_mins(1)).await })
        })
        .collect();
    daemon.until_waiting(128).await;
    for _ in 0..3 {
        let answer = envoy.clone().call_within(ada(), Duration::from_mins(1)).await;
        assert_eq!(answer.unwrap().overall_code, 2, "answered at once");
    }
    let mut other = Envoy::at(daemon.handle.grpc().unwrap().tcp().unwrap()).await;
    let of_other = tokio::spawn(async move { other.call_within(ada(), Duration::from_mins(1)).await });
    daemon.until_waiting(129).await;
    for call in calls {
        call.abort();
    }
    of_other.abort();
    daemon.until_waiting(0).await;
}

#[tokio::test]
async fn requests_whose_end_is_not_reported_take_no_place_and_leave_no_permit() {
    let daemon = Daemon::start(QUEUED).await;
    let address = daemon.handle.resp().unwrap().tcp().unwrap();
    let mut envoy = Envoy::at(daemon.handle.grpc().unwrap().tcp().unwrap()).await;
    let mut redis = resp::Client::over(TcpStream::connect(address).await.unwrap());
    let mut http = daemon.client().await;
    for _ in 0..100 {
        let target = "/v1/authorize?namespace=shop&resource=app";
        assert_eq!(http.get(target).await.status, 200);
        let answer = envoy.call(request("shop", &[descriptor(&[("resource", "app")])])).await.unwrap();
        assert_eq!(answer.overall_code, 1);
        let answer = redis.ask("TG.CHECK shop resource app").await;
        assert!(answer.starts_with("[decision, admit") && !answer.contains("permit"), "{answer}");
    }
    assert_eq!(daemon.in_flight().await, "0");
    assert_eq!(daemon.series("tidegate_permits_kept").await, "0");
    // With the place taken they are admitted as well: they lack nothing.
    let held = daemon.take("app").await;
    assert_eq!(http.get("/v1/authorize?namespace=shop&resource=app").await.status, 200);
    daemon.release(&held).await;
}

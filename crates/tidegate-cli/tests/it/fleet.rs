//! Several daemons on one Redis: one limit for all of them, what one sets the others follow, and
//! what they do without it.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use tidegate_test_support::{MachineInstant, RedisServer, TemporaryFile, skip, until};

use crate::process::{Daemon, answer, post, send};

mod leases;

const ADA: &str = r#"{"namespace":"api","attributes":{"user":"ada"}}"#;

/// A Redis server; `None`, said past the test harness, if the program is missing.
fn redis_or_skip(test: &str) -> Option<RedisServer> {
    let server = RedisServer::start(&[]);
    if server.is_none() {
        skip(test);
    }
    server
}

/// A member on the Redis of this port, which waits long for its store.
fn member(port: u16, limits: &str) -> (Daemon, String, TemporaryFile) {
    member_of(port, "10s", limits)
}

/// A member on the Redis of this port, which waits so long for its store.
fn member_of(port: u16, deadline: &str, limits: &str) -> (Daemon, String, TemporaryFile) {
    let policy = format!(
        "listen: {{ http: 127.0.0.1:0 }}\n\
         store: {{ kind: redis, urls: [redis://127.0.0.1:{port}], deadline: {deadline} }}\n\
         namespaces: {{ api: {{ limits: [{limits}] }} }}\n"
    );
    let file = TemporaryFile::new(&policy);
    let mut daemon = Daemon::start(&["--config", file.as_str()]);
    let address = daemon.address();
    (daemon, address, file)
}

/// Two members on the Redis of this port, both ready.
fn two_members(port: u16, limits: &str) -> [(Daemon, String, TemporaryFile); 2] {
    let members = [member(port, limits), member(port, limits)];
    until("both are ready", || members.iter().all(|(_, address, _)| is_ready(address)));
    members
}

fn get(address: &str, path: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    send(&mut stream, &format!("GET {path} HTTP/1.1\r\nhost: t\r\n\r\n"));
    answer(&mut stream)
}

fn is_ready(address: &str) -> bool {
    get(address, "/readyz").0 == 200
}

/// The sample of a metric with these labels; 0 before its first event.
fn sample(address: &str, metric: &str) -> u64 {
    let page = get(address, "/metrics").1;
    let sample = page.lines().find_map(|line| line.strip_prefix(metric)?.strip_prefix(' '));
    sample.map_or(0, |value| value.parse().unwrap())
}

fn body(text: &str) -> Value {
    serde_json::from_str(text.split_once("\r\n\r\n").unwrap().1).unwrap()
}

#[test]
fn ten_members_admit_together_what_one_limit_has_and_not_one_more() {
    let Some(redis) = redis_or_skip("ten_members_admit_together_what_one_limit_has_and_not_one_more") else {
        return;
    };
    // One more comes every five minutes.
    let members: Vec<_> =
        (0..10).map(|_| member(redis.port(), "{ name: a, key: [user], rate: 288/d, burst: 300 }")).collect();
    let admitted = AtomicU64::new(0);
    thread::scope(|scope| {
        for (_, address, _) in &members {
            until("it is ready", || is_ready(address));
            let admitted = &admitted;
            scope.spawn(move || {
                let mut stream = TcpStream::connect(address).unwrap();
                for _ in 0..60 {
                    let head = format!(
                        "POST /v1/check HTTP/1.1\r\nhost: t\r\ncontent-length: {}\r\n\r\n",
                        ADA.len()
                    );
                    send(&mut stream, &(head + ADA));
                    match answer(&mut stream) {
                        (200, _) => admitted.fetch_add(1, Ordering::Relaxed),
                        (429, _) => 0,
                        other => panic!("{other:?}"),
                    };
                }
            });
        }
    });
    assert_eq!(admitted.load(Ordering::Relaxed), 300);
}

#[test]
fn a_member_that_refuses_without_its_store_is_ready_when_the_store_answers() {
    let name = "a_member_that_refuses_without_its_store_is_ready_when_the_store_answers";
    let Some(mut redis) = redis_or_skip(name) else { return };
    redis.kill();
    let (_daemon, address, _file) = member(
        redis.port(),
        "{ name: day, key: [user], rate: 100/d }, { name: short, key: [app], rate: 2/h, consistency: local }",
    );
    let (status, text) = get(&address, "/readyz");
    let says = "waiting for the store: limit \\\"api/day\\\" refuses without it";
    assert_eq!((status, text.contains(says)), (503, true), "{text}");
    let (status, text) = post(&address, "/v1/check", ADA);
    assert_eq!((status, &body(&text)["reason"]), (503, &"store_unavailable".into()), "{text}");
    assert!(text.contains("\r\nretry-after: "), "{text}");
    let app = r#"{"namespace":"api","attributes":{"app":"shop"}}"#;
    let statuses: Vec<_> = (0..3).map(|_| post(&address, "/v1/check", app).0).collect();
    assert_eq!(statuses, [200, 200, 429], "what needs no store is decided without it");
    redis.start_again(&[]);
    until("it is ready", || is_ready(&address));
    assert_eq!(post(&address, "/v1/check", ADA).0, 200);
}

#[test]
fn a_member_that_starts_while_its_store_is_away_is_ready_and_decides_alone() {
    let name = "a_member_that_starts_while_its_store_is_away_is_ready_and_decides_alone";
    let Some(mut redis) = redis_or_skip(name) else { return };
    redis.kill();
    let (_daemon, address, _file) = member_of(
        redis.port(),
        "50ms",
        "{ name: exact, key: [user], rate: 100/s, consistency: exact }, \
         { name: open, key: [app], rate: 100/d, on_store_failure: allow }",
    );
    let (status, text) = get(&address, "/readyz");
    assert_eq!(status, 200, "{text}");
    let app = r#"{"namespace":"api","attributes":{"app":"shop"}}"#;
    assert_eq!((post(&address, "/v1/check", ADA).0, post(&address, "/v1/check", app).0), (200, 200));
    redis.start_again(&[]);
    until("it has joined", || get(&address, "/metrics").1.contains("\ntidegate_store_circuit_open 0\n"));
    assert!(is_ready(&address));
    assert_eq!((post(&address, "/v1/check", ADA).0, post(&address, "/v1/check", app).0), (200, 200));
}

#[test]
fn a_member_of_an_older_protocol_than_its_store_decides_alone_and_is_not_ready() {
    let name = "a_member_of_an_older_protocol_than_its_store_decides_alone_and_is_not_ready";
    let Some(redis) = redis_or_skip(name) else { return };
    let limit = "{ name: rate, key: [user], rate: 100/s, consistency: exact }";
    let (_daemon, address, _file) = member(redis.port(), limit);
    until("it is ready", || is_ready(&address));
    redis.send("SET tidegate:epoch 0123.1800000000.1800000000000000.0.3");
    until("it is not ready", || !is_ready(&address));
    let (status, text) = get(&address, "/readyz");
    let says = "the store is used by a newer lease protocol (3, this member speaks 2); upgrade this member";
    assert_eq!((status, text.contains(says)), (503, true), "{text}");
    assert_eq!(post(&address, "/v1/check", ADA).0, 200, "it decides alone");
    assert!(get(&address, "/metrics").1.contains("\ntidegate_store_newer_protocol 1\n"));
}

#[test]
fn a_fresh_store_admits_the_whole_limit_and_says_what_is_left_of_it() {
    let name = "a_fresh_store_admits_the_whole_limit_and_says_what_is_left_of_it";
    let Some(redis) = redis_or_skip(name) else { return };
    let (_daemon, address, _file) = member(redis.port(), "{ name: slow, key: [user], rate: 5/m }");
    until("it is ready", || is_ready(&address));
    // Until it has a connection it decides alone.
    let bob = r#"{"namespace":"api","attributes":{"user":"bob"},"peek":true}"#;
    until("the store decides", || body(&post(&address, "/v1/check", bob).1)["limits"][0].is_object());
    let since = Instant::now();
    for remaining in (0..5).rev() {
        let (status, text) = post(&address, "/v1/check", ADA);
        assert_eq!((status, &body(&text)["limits"][0]["remaining"]), (200, &remaining.into()), "{text}");
    }
    let (status, text) = post(&address, "/v1/check", ADA);
    let refused = body(&text);
    assert_eq!((status, &refused["reason"]), (429, &"rate_exceeded".into()), "{text}");
    let retry_after = u128::from(refused["retry_after_ms"].as_u64().unwrap());
    let elapsed = since.elapsed().as_millis();
    assert!(
        retry_after <= 12_000 && retry_after + elapsed >= 9_000,
        "one unit comes back in 12 s, of which {elapsed} ms have passed: {text}"
    );
}

#[test]
fn keys_that_a_member_has_never_seen_are_admitted_while_the_store_is_away() {
    let name = "keys_that_a_member_has_never_seen_are_admitted_while_the_store_is_away";
    let Some(mut redis) = redis_or_skip(name) else { return };
    // One more comes every ten minutes.
    let limits = "{ name: fast, key: [app], rate: 100/s }, { name: slow, key: [user], rate: 5/50m }";
    let (_daemon, address, _file) = member_of(redis.port(), "50ms", limits);
    until("it is ready", || is_ready(&address));
    redis.kill();
    for attribute in ["app", "user"] {
        for number in 0..20 {
            let check = format!(r#"{{"namespace":"api","attributes":{{"{attribute}":"{number}"}}}}"#);
            let (status, text) = post(&address, "/v1/check", &check);
            assert_eq!(status, 200, "{attribute} {number}: {text}");
        }
    }
    let statuses: Vec<_> = (0..6).map(|_| post(&address, "/v1/check", ADA).0).collect();
    assert_eq!(statuses, [200, 200, 200, 200, 200, 429], "alone it admits its share, all of the limit");
}

/// Whether bytes on their way to a store are kept.
#[derive(Default)]
struct Gate {
    is_closed: Mutex<bool>,
    changed: Condvar,
}

impl Gate {
    fn close(&self) {
        *self.is_closed.lock().unwrap() = true;
    }

    fn open(&self) {
        *self.is_closed.lock().unwrap() = false;
        self.changed.notify_all();
    }

    /// Waits until the gate is open.
    fn pass(&self) {
        drop(self.changed.wait_while(self.is_closed.lock().unwrap(), |is_closed| *is_closed).unwrap());
    }
}

/// Passes bytes on to this port, on the way there through the gate; where it listens.
fn gated(to: u16, gate: &Arc<Gate>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let gate = Arc::clone(gate);
    let pass = |mut from: TcpStream, mut to: TcpStream, gate: Option<Arc<Gate>>| {
        thread::spawn(move || {
            let mut buffer = vec![0; 1 << 16];
            while let Ok(length @ 1..) = from.read(&mut buffer) {
                if let Some(gate) = &gate {
                    gate.pass();
                }
                if to.write_all(&buffer[..length]).is_err() {
                    break;
                }
            }
            let _ = to.shutdown(Shutdown::Both);
        });
    };
    thread::spawn(move || {
        for client in listener.incoming() {
            let (Ok(client), Ok(server)) = (client, TcpStream::connect(("127.0.0.1", to))) else { continue };
            let (Ok(there), Ok(back)) = (client.try_clone(), server.try_clone()) else { continue };
            pass(there, server, Some(Arc::clone(&gate)));
            pass(back, client, None);
        }
    });
    port
}

#[test]
fn what_a_late_store_charged_for_refused_requests_is_undone() {
    let name = "what_a_late_store_charged_for_refused_requests_is_undone";
    let Some(redis) = redis_or_skip(name) else { return };
    let gate = Arc::new(Gate::default());
    let port = gated(redis.port(), &gate);
    // One more unit comes every eight hours.
    let limit = "{ name: quota, key: [user], rate: 1000/365d, consistency: exact }";
    let (_daemon, address, _file) = member_of(port, "50ms", limit);
    until("it is ready", || is_ready(&address));
    until("a check is admitted", || post(&address, "/v1/check", ADA).0 == 200);
    let remaining = || {
        let peek = r#"{"namespace":"api","attributes":{"user":"ada"},"peek":true}"#;
        body(&post(&address, "/v1/check", peek).1)["limits"][0]["remaining"].as_u64()
    };
    // Earlier checks may have come late as well.
    until("nothing is charged but one check that was admitted", || remaining() == Some(999));
    let undone = || sample(&address, "tidegate_store_undone_total");
    let before = undone();
    // The store gets the checks after their deadline, however late the machine notices that.
    gate.close();
    for _ in 0..40 {
        assert_eq!(post(&address, "/v1/check", ADA).0, 503);
    }
    gate.open();
    until("a late check is undone, and a metric counts it", || undone() > before);
    until("nothing is charged but what was admitted", || remaining() == Some(999));
}

#[test]
fn an_override_set_at_one_member_applies_at_the_others() {
    let Some(redis) = redis_or_skip("an_override_set_at_one_member_applies_at_the_others") else { return };
    let limit = "{ name: a, key: [user], rate: 10/d }";
    let [(_first, one, _one_file), (_second, other, _other_file)] = two_members(redis.port(), limit);
    let limit_at = |address: &str| {
        let peek = r#"{"namespace":"api","attributes":{"user":"ada"},"peek":true}"#;
        body(&post(address, "/v1/check", peek).1)["limits"][0]["limit"].as_u64()
    };
    assert_eq!(limit_at(&other), Some(10));
    let change = |method: &str, body: &str| {
        let mut stream = TcpStream::connect(&one).unwrap();
        let head = format!(
            "{method} /v1/overrides/api/a?user=ada HTTP/1.1\r\nhost: t\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        send(&mut stream, &(head + body));
        assert_eq!(answer(&mut stream).0, 200);
    };
    change("PUT", r#"{"numbers":{"rate":"25/d"},"reason":"a good customer"}"#);
    until("it applies there", || limit_at(&other) == Some(25));
    change("DELETE", "{}");
    until("it no longer applies there", || limit_at(&other) == Some(10));
}

#[test]
fn a_block_set_and_lifted_at_one_member_is_set_and_lifted_at_the_others() {
    let name = "a_block_set_and_lifted_at_one_member_is_set_and_lifted_at_the_others";
    let Some(redis) = redis_or_skip(name) else { return };
    let limit = "{ name: leased, key: [user], rate: 100/s }, { name: here, key: [user], rolling: { limit: 100, window: 1m } }";
    let [(_first, one, _one_file), (_second, other, _other_file)] = two_members(redis.port(), limit);
    for limit in ["leased", "here"] {
        let block = |at: &str, ms: u64| {
            let attributes = r#"{"user":"ada"}"#;
            let body =
                format!(r#"{{"namespace":"api","attributes":{attributes},"limit":"{limit}","for_ms":{ms}}}"#);
            assert_eq!(post(at, "/v1/block", &body).0, 200);
        };
        let is_blocked = |at: &str| body(&post(at, "/v1/check", ADA).1)["reason"] == "blocked";
        let is_listed = |at: &str| get(at, "/v1/blocks").1.contains("ada");
        block(&one, 600_000);
        assert!(is_blocked(&one));
        until("it is blocked there", || is_blocked(&other) && is_listed(&other));
        // Either member may lift it.
        block(&other, 0);
        assert!(!is_blocked(&other));
        until("it is lifted here", || !is_blocked(&one) && !is_listed(&one));
    }
}

#[test]
fn a_store_that_has_lost_its_data_decides_no_quota_until_somebody_says_so() {
    let name = "a_store_that_has_lost_its_data_decides_no_quota_until_somebody_says_so";
    let Some(redis) = redis_or_skip(name) else { return };
    let limits = "{ name: quota, key: [user], rate: 10/d }, { name: rate, key: [app], rate: 1000/s, consistency: exact }";
    let [(_daemon, address, _file), (_other_daemon, other, _other_file)] = two_members(redis.port(), limits);
    let app = r#"{"namespace":"api","attributes":{"app":"shop"}}"#;
    assert_eq!((post(&address, "/v1/check", ADA).0, post(&address, "/v1/check", app).0), (200, 200));
    redis.send("FLUSHALL");
    for _ in 0..3 {
        let (status, text) = post(&address, "/v1/check", ADA);
        assert_eq!((status, &body(&text)["reason"]), (503, &"store_unavailable".into()), "{text}");
    }
    assert_eq!(post(&address, "/v1/check", app).0, 200, "a rate is full again within a second in any case");
    assert!(get(&address, "/metrics").1.contains("\ntidegate_store_loss 1\n"));
    assert_eq!(post(&other, "/v1/check", ADA).0, 503);
    // A member that starts after the loss follows it, too.
    let (_late_daemon, late, _late_file) = member(redis.port(), limits);
    until("it is ready", || is_ready(&late));
    assert_eq!(post(&late, "/v1/check", ADA).0, 503);
    // One acknowledgement, at a member that need not have noticed the loss, counts for all with
    // their next call.
    let (status, text) = post(&late, "/v1/leases/acknowledge", "");
    assert_eq!((status, &body(&text)["acknowledged"]), (200, &true.into()));
    for member in [&address, &other, &late] {
        let (status, text) = post(member, "/v1/check", ADA);
        assert_eq!(status, 200, "{text}");
    }
    let limits = body(&post(&address, "/v1/check", ADA).1)["limits"].clone();
    assert_eq!(limits[0]["remaining"], 6, "what was refused meanwhile was not charged: {limits}");
    let (_, text) = post(&address, "/v1/leases/acknowledge", "");
    assert_eq!(body(&text)["acknowledged"], false, "there is nothing more to acknowledge");
}

#[test]
fn a_store_that_is_killed_is_told_of_and_serves_again_when_it_is_back() {
    let Some(mut redis) = redis_or_skip("a_store_that_is_killed_is_told_of_and_serves_again_when_it_is_back")
    else {
        return;
    };
    let limit = "{ name: a, key: [user], rate: 100000/s, consistency: exact, on_store_failure: refuse }";
    let (_daemon, address, _file) = member(redis.port(), limit);
    until("it is ready", || is_ready(&address));
    assert_eq!(post(&address, "/v1/check", ADA).0, 200);
    redis.kill();
    until("it is missed", || post(&address, "/v1/check", ADA).0 == 503);
    let (_, text) = post(&address, "/v1/check", ADA);
    assert_eq!(body(&text)["reason"], "store_unavailable", "{text}");
    assert!(is_ready(&address), "it goes on with what needs no store");
    let rejected = "tidegate_store_batches_rejected_total{cause=\"circuit_open\"}";
    until("the breaker rejects batches", || {
        post(&address, "/v1/check", ADA);
        sample(&address, rejected) > 0
    });
    redis.start_again(&[]);
    let since = MachineInstant::now();
    until("it serves again", || post(&address, "/v1/check", ADA).0 == 200);
    assert!(since.elapsed() < Duration::from_secs(1), "after {:?}", since.elapsed());
}

//! Callers that leave around their turn: an answer that does not reach its caller gives everything
//! back, and an answer that was read is its caller's.
//!
//! The daemon and the test share one thread, so that nothing of the daemon runs between two
//! statements of a test without an `await`: a caller leaves *in the instant* of its turn.

pub(crate) mod http2;
mod protocols;
mod store;

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr};
use std::time::Duration;

use tidegate_engine::{Decision, Permit, PermitPage, Request, Step};
use tidegate_net::connections::RESET_WINDOW;
use tidegate_server::Clock as _;
use tidegate_test_support::{eventually, eventually_some};
use tokio::net::TcpStream;

use crate::client::post;
use crate::world::{World, loopback};

const PLACE: &str = r#"{"namespace":"api","wait_ms":60000}"#;
pub(crate) const JOB: &str = r#"{"namespace":"jobs","wait_ms":60000}"#;

/// How a caller leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leave {
    Close,
    HalfClose,
    Reset,
}

pub(crate) const WAYS: [Leave; 3] = [Leave::Close, Leave::HalfClose, Leave::Reset];

/// Waits for the time in which a reset counts. One that came would be seen afterwards.
pub(crate) async fn reset_window() {
    // Sleeps: the daemon and the system of the caller need this time, and announce nothing.
    tokio::time::sleep(RESET_WINDOW + Duration::from_millis(100)).await;
}

/// A connection whose calls take effect at once, without the runtime.
pub(crate) struct Caller(std::net::TcpStream);

impl Caller {
    pub(crate) fn connect(address: SocketAddr) -> Self {
        let stream = std::net::TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_nonblocking(true).unwrap();
        Self(stream)
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.0.write_all(bytes).unwrap();
    }

    /// Leaves; what is returned keeps a half-closed connection open.
    pub(crate) fn leave(self, how: Leave) -> Option<Self> {
        match how {
            Leave::Close => return None,
            Leave::Reset => {
                TcpStream::from_std(self.0).unwrap().set_zero_linger().unwrap();
                return None;
            }
            Leave::HalfClose => self.0.shutdown(Shutdown::Write).unwrap(),
        }
        Some(self)
    }

    /// Whether bytes have come that were not read.
    fn has_unread(&self) -> bool {
        matches!(self.0.peek(&mut [0]), Ok(1..))
    }

    /// Waits until something has come.
    async fn until_answered(&self) {
        eventually("an answer has come", async || self.has_unread()).await;
    }

    /// Reads what has come as text.
    async fn read(&mut self) -> String {
        String::from_utf8_lossy(&self.read_bytes().await).into_owned()
    }

    /// Reads what has come.
    pub(crate) async fn read_bytes(&mut self) -> Vec<u8> {
        self.until_answered().await;
        let mut buffer = [0; 8192];
        let count = self.0.read(&mut buffer).unwrap();
        buffer[..count].to_vec()
    }
}

impl World {
    fn kept(&self) -> usize {
        self.engine.stats(self.clock.now()).permits_kept
    }

    /// The namespaces of the permits that are kept, the oldest first.
    fn holders(&self) -> Vec<String> {
        let page = PermitPage { namespace: None, after: 0, n: 10 };
        let (permits, _) = self.engine.kept_permits(&page, self.clock.now());
        permits.into_iter().map(|permit| permit.namespace).collect()
    }

    async fn until_kept(&self, count: usize, how: &str) {
        eventually(&format!("{how}: {count} permits are kept"), async || self.kept() == count).await;
    }

    /// Admits a request without the daemon.
    pub(crate) fn hold(&self, namespace: &str) -> Option<Permit> {
        let step = self.engine.admit(&Request::new(namespace, ()), self.clock.now()).unwrap();
        match step {
            Step::Decided(Decision::Admit(permit)) => Some(permit),
            _ => None,
        }
    }

    /// Waits until nothing is held in a namespace, so that another request is admitted.
    async fn until_free(&self, namespace: &str, how: &str) {
        let what = format!("{how}: nothing is held in {namespace}");
        drop(eventually_some(&what, async || self.hold(namespace)).await);
        self.until_kept(0, how).await;
    }

    async fn until_in_line(&self, count: usize) {
        let what = format!("{count} wait");
        eventually(&what, async || self.handle.proxy_waiting() == count).await;
    }

    /// A caller that waits for its turn behind the permit that is returned.
    async fn waiting(&self, namespace: &str, body: &str) -> (Caller, Permit) {
        let held = self.hold(namespace).expect("nothing is held yet");
        let mut caller = Caller::connect(self.address());
        caller.send(post("/v1/check", body).as_bytes());
        self.until_in_line(1).await;
        (caller, held)
    }
}

#[tokio::test]
async fn a_caller_that_leaves_in_the_instant_of_its_turn_holds_nothing() {
    let world = World::queued(1, loopback()).await;
    for (namespace, body) in [("api", PLACE), ("jobs", JOB)] {
        for how in WAYS {
            let (caller, held) = world.waiting(namespace, body).await;
            let left = caller.leave(how);
            drop(held);
            let seen = format!("{namespace}, {how:?}");
            eventually(&seen, async || world.handle.proxy_waiting() == 0).await;
            world.until_free(namespace, &seen).await;
            assert!(!left.is_some_and(|left| left.has_unread()), "{seen}: no answer");
        }
    }
}

#[tokio::test]
async fn a_caller_that_leaves_without_reading_its_answer_holds_nothing() {
    let world = World::queued(1, loopback()).await;
    for (namespace, body) in [("api", PLACE), ("jobs", JOB)] {
        for how in WAYS {
            let (caller, held) = world.waiting(namespace, body).await;
            drop(held);
            caller.until_answered().await;
            assert_eq!(world.kept(), 1);
            let left = caller.leave(how);
            if left.is_some() {
                // Sleeps: the daemon sees the half-close within this time; the caller closes later.
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            drop(left);
            world.until_free(namespace, &format!("{namespace}, {how:?}")).await;
        }
    }
}

#[tokio::test]
async fn an_answer_that_was_read_is_its_callers_whatever_becomes_of_the_connection() {
    let world = World::queued(1, loopback()).await;
    let release = |answer: &str| {
        let (_, rest) = answer.split_once(r#""permit":""#).unwrap_or_else(|| panic!("no permit: {answer}"));
        format!(r#"{{"permit":"{}"}}"#, &rest[..32])
    };
    for how in ["close", "half-close", "another request, then a reset"] {
        let (mut caller, held) = world.waiting("jobs", JOB).await;
        drop(held);
        let answer = caller.read().await;
        let _open = match how {
            "close" => caller.leave(Leave::Close),
            "half-close" => caller.leave(Leave::HalfClose),
            _ => {
                caller.send(b"GET /healthz HTTP/1.1\r\nhost: t\r\n\r\n");
                caller.until_answered().await;
                caller.leave(Leave::Reset)
            }
        };
        reset_window().await;
        assert_eq!(world.kept(), 1, "{how}");
        assert_eq!(world.post("/v1/release", &release(&answer)).await.status, 200, "{how}");
    }
    let (mut caller, held) = world.waiting("jobs", JOB).await;
    drop(held);
    let answer = caller.read().await;
    reset_window().await;
    caller.leave(Leave::Reset);
    reset_window().await;
    assert_eq!(world.post("/v1/release", &release(&answer)).await.status, 200);
}

#[tokio::test]
async fn a_request_that_did_not_wait_is_given_back_too_when_its_answer_is_not_read() {
    let world = World::queued(1, loopback()).await;
    for (path, body) in [
        ("/v1/check", r#"{"namespace":"jobs"}"#),
        ("/v1/reserve", r#"{"namespace":"jobs"}"#),
        ("/v1/check", r#"{"namespace":"api"}"#),
    ] {
        for how in WAYS {
            let mut caller = Caller::connect(world.address());
            caller.send(post(path, body).as_bytes());
            caller.until_answered().await;
            assert_eq!(world.kept(), 1);
            drop(caller.leave(how));
            world.until_kept(0, &format!("{path} {body} {how:?}")).await;
        }
    }
}

#[tokio::test]
async fn a_reset_gives_back_what_is_lent_and_leaves_charges() {
    let world = World::queued(1, loopback()).await;
    // Three of the rate, two at a time.
    let body = r#"{"namespace":"api","attributes":{"user":"ada","tenant":"t"}}"#;
    let left = async || {
        let peek = r#"{"namespace":"api","attributes":{"user":"ada","tenant":"t"},"peek":true}"#;
        let answer = world.post("/v1/check", peek).await.json();
        let limits = answer["limits"].as_array().unwrap().clone();
        limits.iter().map(|one| one["remaining"].as_u64().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(left().await, [3, 2]);
    let mut caller = Caller::connect(world.address());
    caller.send(post("/v1/reserve", body).as_bytes());
    caller.until_answered().await;
    caller.leave(Leave::Reset);
    world.until_kept(0, "reset").await;
    assert_eq!(left().await, [2, 2], "the charge stays");
}

#[tokio::test]
async fn a_caller_that_leaves_in_the_instant_of_its_turn_for_a_rate_is_not_charged() {
    let world = World::queued(1, loopback()).await;
    let body = r#"{"namespace":"api","attributes":{"app":"a"},"cost":5,"wait_ms":60000}"#;
    let mut first = Caller::connect(world.address());
    first.send(post("/v1/check", body).as_bytes());
    first.read().await;
    drop(first);
    for how in WAYS {
        let mut caller = Caller::connect(world.address());
        caller.send(post("/v1/check", body).as_bytes());
        world.until_in_line(1).await;
        let _left = caller.leave(how);
        world.clock.advance(Duration::from_mins(1));
        world.until_in_line(0).await;
        let charged = async || {
            let peek = r#"{"namespace":"api","attributes":{"app":"a"},"cost":5,"peek":true}"#;
            world.post("/v1/check", peek).await.status != 200
        };
        eventually(&format!("{how:?}: no charge"), async || !charged().await).await;
        let mut next = Caller::connect(world.address());
        next.send(post("/v1/check", body).as_bytes());
        next.read().await;
    }
}

//! Callers of HTTP/2 that leave: their streams, and their connections.

use std::time::Duration;

use tidegate_test_support::eventually;

use super::{Caller, JOB, Leave, PLACE, WAYS, reset_window};
use crate::world::{World, loopback};

const SETTINGS: u8 = 4;
const GOAWAY: u8 = 7;

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = u32::try_from(payload.len()).unwrap().to_be_bytes()[1..].to_vec();
    bytes.extend([kind, flags]);
    bytes.extend(stream.to_be_bytes());
    bytes.extend(payload);
    bytes
}

/// The frames of a POST.
fn request(stream: u32, path: &str, body: &str) -> Vec<u8> {
    call(stream, path, &[], body.as_bytes())
}

/// The frames of a POST with these fields, which need no table.
pub(crate) fn call(stream: u32, path: &str, fields: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
    [head(stream, path, fields), frame(0, 1, stream, body)].concat()
}

/// The frames of a POST whose body has begun with `body`, and does not end.
pub(crate) fn begun(stream: u32, path: &str, fields: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
    [head(stream, path, fields), frame(0, 0, stream, body)].concat()
}

fn head(stream: u32, path: &str, fields: &[(&str, &str)]) -> Vec<u8> {
    let mut block = vec![0x83, 0x86];
    // `:path` and `:authority` by their numbers, others by their names.
    let known = [(4_u8, None, path), (1, None, "t")];
    let others = fields.iter().map(|(name, value)| (0_u8, Some(*name), *value));
    for (number, name, value) in known.into_iter().chain(others) {
        block.push(number);
        for text in name.into_iter().chain([value]) {
            block.push(u8::try_from(text.len()).unwrap());
            block.extend(text.as_bytes());
        }
    }
    frame(1, 4, stream, &block)
}

pub(crate) fn reset(stream: u32) -> Vec<u8> {
    frame(3, 0, stream, &8_u32.to_be_bytes())
}

/// The beginning of a connection, whose answers have a window of so many bytes.
pub(crate) fn preface(window: u32) -> Vec<u8> {
    let mut setting = vec![0, 4];
    setting.extend(window.to_be_bytes());
    [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(), frame(SETTINGS, 0, 0, &setting)].concat()
}

impl Caller {
    fn http2(world: &World, window: u32) -> Self {
        let mut caller = Self::connect(world.address());
        caller.send(&preface(window));
        caller
    }

    /// Reads until the daemon has ended a stream.
    async fn until_stream_ends(&mut self, stream: u32) {
        use std::io::Read as _;
        let mut bytes = Vec::new();
        eventually(&format!("stream {stream} ends"), async || {
            let mut buffer = [0; 8192];
            if let Ok(count) = self.0.read(&mut buffer) {
                bytes.extend(&buffer[..count]);
            }
            has_end_of(&bytes, stream)
        })
        .await;
    }
}

fn has_end_of(mut bytes: &[u8], stream: u32) -> bool {
    while let [l0, l1, l2, kind, flags, s0, s1, s2, s3, rest @ ..] = bytes {
        let length = u32::from_be_bytes([0, *l0, *l1, *l2]) as usize;
        let on = u32::from_be_bytes([*s0, *s1, *s2, *s3]);
        if rest.len() < length {
            return false;
        }
        if on == stream && *kind <= 1 && flags & 1 == 1 {
            return true;
        }
        bytes = &rest[length..];
    }
    false
}

#[tokio::test]
async fn a_stream_that_is_reset_in_the_instant_of_its_turn_holds_nothing_and_the_others_go_on() {
    let world = World::queued(1, loopback()).await;
    for (namespace, body) in [("api", PLACE), ("jobs", JOB)] {
        let held = world.hold(namespace).unwrap();
        let mut caller = Caller::http2(&world, 65_535);
        caller.send(&request(1, "/v1/check", body));
        world.until_in_line(1).await;
        caller.send(&request(3, "/v1/check", body));
        world.until_in_line(2).await;
        caller.send(&reset(1));
        drop(held);
        caller.until_stream_ends(3).await;
        world.until_kept(1, namespace).await;
        drop(caller);
        // It has read its answer, so that it holds the permit on.
        assert!(world.hold(namespace).is_none());
        world.clock.advance(Duration::from_hours(2));
        world.until_free(namespace, namespace).await;
    }
}

#[tokio::test]
async fn a_connection_that_ends_in_the_instant_of_its_turn_holds_nothing() {
    let world = World::queued(1, loopback()).await;
    for (namespace, body) in [("api", PLACE), ("jobs", JOB)] {
        for how in WAYS {
            let held = world.hold(namespace).unwrap();
            let mut caller = Caller::http2(&world, 65_535);
            caller.send(&request(1, "/v1/check", body));
            world.until_in_line(1).await;
            let left = caller.leave(how);
            drop(held);
            world.until_in_line(0).await;
            world.until_free(namespace, &format!("{namespace}, {how:?}")).await;
            drop(left);
        }
    }
}

#[tokio::test]
async fn a_reset_after_the_end_of_a_stream_gives_back_the_permit_of_that_stream_and_no_other() {
    let world = World::queued(2, loopback()).await;
    for (first, second) in [("api", "jobs"), ("jobs", "api")] {
        let mut caller = Caller::http2(&world, 65_535);
        let body = |namespace: &str| format!(r#"{{"namespace":"{namespace}"}}"#);
        // Answers without a permit lie between, and before.
        let peek = r#"{"namespace":"api","peek":true}"#;
        for (stream, body) in [(1, peek), (3, &body(first)), (5, peek), (7, &body(second)), (9, peek)] {
            caller.send(&request(stream, "/v1/check", body));
        }
        caller.until_stream_ends(9).await;
        assert_eq!(world.kept(), 2);
        for unrelated in [1, 5, 9] {
            caller.send(&reset(unrelated));
        }
        caller.send(&reset(3));
        world.until_kept(1, first).await;
        assert_eq!(world.holders(), [second]);
        caller.send(&reset(7));
        world.until_kept(0, second).await;
    }
}

#[tokio::test]
async fn an_answer_that_was_not_read_holds_nothing_when_its_connection_is_reset() {
    let world = World::queued(2, loopback()).await;
    for how in WAYS {
        let mut caller = Caller::http2(&world, 65_535);
        caller.send(&request(1, "/v1/check", r#"{"namespace":"jobs"}"#));
        caller.send(&request(3, "/v1/check", r#"{"namespace":"api"}"#));
        world.until_kept(2, "both").await;
        drop(caller.leave(how));
        world.until_kept(0, &format!("{how:?}")).await;
    }
}

#[tokio::test]
async fn an_answer_that_its_window_holds_back_is_undelivered_however_its_connection_ends() {
    let world = World::queued(1, loopback()).await;
    for how in WAYS {
        let mut caller = Caller::http2(&world, 0);
        caller.send(&request(1, "/v1/check", r#"{"namespace":"jobs"}"#));
        world.until_kept(1, "an answer waits for its window").await;
        reset_window().await;
        drop(caller.leave(how));
        world.until_free("jobs", &format!("{how:?}")).await;
    }
    let mut caller = Caller::http2(&world, 0);
    caller.send(&request(1, "/v1/check", r#"{"namespace":"jobs"}"#));
    world.until_kept(1, "an answer waits for its window").await;
    caller.send(&reset(1));
    world.until_free("jobs", "its stream is reset").await;
}

#[tokio::test]
async fn an_answer_that_was_read_is_kept_over_goaway_and_close() {
    let world = World::queued(1, loopback()).await;
    for is_gentle in [true, false] {
        let mut caller = Caller::http2(&world, 65_535);
        caller.send(&request(1, "/v1/check", r#"{"namespace":"jobs"}"#));
        caller.until_stream_ends(1).await;
        if is_gentle {
            caller.send(&frame(GOAWAY, 0, 0, &[0; 8]));
        } else {
            // The answer of the daemon to a ping lies unread when the caller closes.
            caller.send(&frame(6, 0, 0, &[7; 8]));
            caller.until_answered().await;
        }
        drop(caller.leave(Leave::Close));
        reset_window().await;
        assert_eq!(world.kept(), 1, "gentle: {is_gentle}");
        world.clock.advance(Duration::from_hours(2));
        world.until_free("jobs", "its hold is over").await;
    }
}

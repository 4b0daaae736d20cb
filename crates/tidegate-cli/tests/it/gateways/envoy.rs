//! Envoy: the HTTP rate limit filter, which asks over gRPC.

use std::process::Command;

use tidegate_test_support::until;

use super::claims::{self, Fields, Without};
use super::exchange::{Answer, get, send};
use super::stand::Stand;
use super::tools::fetched_or_skip;

fn stand(file: &str, test: &str) -> Option<Stand> {
    start(|| Stand::of("envoy"), file, test)
}

/// The gateway with this file, in a stand of its recipe.
pub(super) fn start(make: impl FnOnce() -> Stand, file: &str, test: &str) -> Option<Stand> {
    let program = fetched_or_skip("envoy", "lib/*/site-packages/envoy/_bin/envoy", test)?;
    let mut stand = make();
    let mut command = Command::new(program);
    command.args(["-c", file, "--concurrency", "2", "--disable-hot-restart", "-l", "warning"]);
    stand.start_gateway(command);
    Some(stand)
}

fn ask(stand: &Stand, path: &str, key: &str) -> Answer {
    send(&stand.public, "GET", path, &[("X-Api-Key", key.as_bytes())], b"")
}

fn statuses(stand: &Stand, path: &str, key: &str, count: usize) -> Vec<u16> {
    (0..count).map(|_| ask(stand, path, key).status).collect()
}

#[test]
fn envoy_that_fails_closed_lets_nobody_through_without_tidegate() {
    let test = "envoy_that_fails_closed_lets_nobody_through_without_tidegate";
    let Some(mut stand) = stand("fail-closed.yaml", test) else { return };
    claims::hold_without_the_daemon(&mut stand, Without::Refused(503));
    claims::hold_while_the_daemon_is_silent(&mut stand, Without::Refused(503));
}

#[test]
fn envoy_that_fails_open_lets_everybody_through_without_tidegate_and_only_then() {
    let test = "envoy_that_fails_open_lets_everybody_through_without_tidegate_and_only_then";
    let Some(mut stand) = stand("fail-open.yaml", test) else { return };
    claims::hold(&stand, Fields::Everywhere);
    claims::hold_without_the_daemon(&mut stand, Without::Admitted);
    claims::hold_while_the_daemon_is_silent(&mut stand, Without::Admitted);
}

#[test]
fn envoy_shows_callers_what_tidegate_answered() {
    let Some(stand) = stand("fail-closed.yaml", "envoy_shows_callers_what_tidegate_answered") else { return };
    claims::hold(&stand, Fields::Everywhere);
    let refused = ask(&stand, "/", "in-a-row");
    assert!(refused.text().contains("\"reason\":\"rate_exceeded\""), "{refused:?}");
    assert_eq!(refused.header("content-type"), Some("application/problem+json"), "{refused:?}");
    assert_eq!(refused.header("x-envoy-ratelimited"), Some("true"), "{refused:?}");
}

#[test]
fn envoy_makes_its_own_fields_of_the_statuses() {
    let Some(stand) = stand("fail-closed.yaml", "envoy_makes_its_own_fields_of_the_statuses") else { return };
    // An hour may end between two requests, but not between six.
    let shown = (0..6).any(|_| {
        let answer = ask(&stand, "/bulk", "fields");
        let left = answer.header("x-ratelimit-remaining").unwrap();
        let reset: u32 = answer.header("x-ratelimit-reset").unwrap().parse().unwrap();
        assert_eq!(answer.header("x-ratelimit-limit"), Some("10, 10;w=3600;name=\"bulk\""), "{answer:?}");
        assert!((1..=3600).contains(&reset), "{answer:?}");
        left == "1"
    });
    assert!(shown, "the third request leaves one of ten");
}

#[test]
fn a_weight_of_the_request_is_charged_only_if_it_fits() {
    let Some(stand) = stand("fail-closed.yaml", "a_weight_of_the_request_is_charged_only_if_it_fits") else {
        return;
    };
    // An hour may end between two requests, but not between those of two callers.
    let charged = ["ada", "bob"]
        .into_iter()
        .find(|caller| statuses(&stand, "/bulk", caller, 5) == [200, 200, 200, 429, 429]);
    let caller = charged.expect("three weights of three fit into ten");
    assert!(claims::has_room(&stand, &[("bulk", caller)], 1), "one of ten is left");
}

#[test]
fn a_weight_of_the_descriptor_is_booked_even_if_it_does_not_fit() {
    let test = "a_weight_of_the_descriptor_is_booked_even_if_it_does_not_fit";
    let Some(stand) = stand("fail-closed.yaml", test) else { return };
    assert_eq!(statuses(&stand, "/uploads", "ada", 4), [200, 200, 429, 429]);
    assert!(!claims::has_room(&stand, &[("uploads", "ada")], 1), "eight and four are more than ten");
}

#[test]
fn what_is_charged_after_the_answer_is_booked_and_refuses_the_next() {
    let test = "what_is_charged_after_the_answer_is_booked_and_refuses_the_next";
    let Some(stand) = stand("fail-closed.yaml", test) else { return };
    for left in [6, 2, 0] {
        assert_eq!(ask(&stand, "/tokens", "ada").status, 200);
        // Envoy charges after it has sent its answer, and does not wait.
        until("the charge has arrived", || {
            let room = |cost| claims::has_room(&stand, &[("tokens", "ada")], cost);
            !room(left + 1) && (left == 0 || room(left))
        });
    }
    assert_eq!(statuses(&stand, "/tokens", "ada", 2), [429, 429]);
}

#[test]
fn a_limit_that_comes_with_the_request_is_the_one_that_counts() {
    let test = "a_limit_that_comes_with_the_request_is_the_one_that_counts";
    let Some(stand) = stand("fail-closed.yaml", test) else { return };
    assert_eq!(statuses(&stand, "/own", "ada", 4), [200, 200, 429, 429]);
    assert_eq!(statuses(&stand, "/own", "grace", 1), [200]);
}

#[test]
fn of_two_descriptors_both_are_charged_or_none() {
    let Some(stand) = stand("fail-closed.yaml", "of_two_descriptors_both_are_charged_or_none") else {
        return;
    };
    assert_eq!(statuses(&stand, "/reports", "ada", 6), [200, 200, 200, 429, 429, 429]);
    assert!(claims::has_room(&stand, &[("api_key", "ada")], 2), "two of five are left: three were admitted");
    assert!(!claims::has_room(&stand, &[("api_key", "ada")], 3));
}

#[test]
fn of_two_keys_the_service_sees_the_one_that_envoy_had_counted() {
    let test = "of_two_keys_the_service_sees_the_one_that_envoy_had_counted";
    let Some(stand) = stand("fail-open.yaml", test) else { return };
    let answer = get(&stand.public, &[("X-Api-Key", b"first"), ("X-Api-Key", b"second")]);
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(stand.service.take_seen()[0].keys, [b"first"]);
    assert_eq!(statuses(&stand, "/", "first", 5), [200, 200, 200, 200, 429]);
}

#[test]
fn a_key_that_is_long_or_no_text_does_not_pass_uncounted_where_envoy_fails_open() {
    let test = "a_key_that_is_long_or_no_text_does_not_pass_uncounted_where_envoy_fails_open";
    let Some(stand) = stand("fail-open.yaml", test) else { return };
    let long = "x".repeat(4096);
    assert_eq!(statuses(&stand, "/", &long, 6), [200, 200, 200, 200, 200, 429]);
    stand.service.take_seen();
    let (readable, not): (&[u8], &[u8]) = (b"text", b"\xff\xfe");
    for keys in [[not].as_slice(), &[not, readable], &[not, not], &[readable, not]] {
        let headers: Vec<_> = keys.iter().map(|key| ("X-Api-Key", *key)).collect();
        let statuses: Vec<u16> = (0..6).map(|_| get(&stand.public, &headers).status).collect();
        let counted = [200, 200, 200, 200, 200, 429];
        assert!(statuses == [403; 6] || statuses == counted, "{keys:?}: {statuses:?}");
    }
}

//! `haproxy`: an action in Lua that asks with the gateway's own HTTP client.

use std::process::Command;

use super::claims::{self, Fields, Without};
use super::exchange::get;
use super::stand::Stand;
use super::tools::find_or_skip;

fn stand(file: &str, test: &str) -> Option<Stand> {
    start(|| Stand::of("haproxy"), file, test)
}

/// The gateway with this file, in a stand of its recipe.
pub(super) fn start(make: impl FnOnce() -> Stand, file: &str, test: &str) -> Option<Stand> {
    let program = find_or_skip("haproxy", test)?;
    let mut stand = make();
    let mut command = Command::new(program);
    command.args(["-db", "-f", file]);
    stand.start_gateway(command);
    Some(stand)
}

#[test]
fn haproxy_shows_callers_what_tidegate_answered() {
    let test = "haproxy_shows_callers_what_tidegate_answered";
    let Some(stand) = stand("fail-closed.cfg", test) else { return };
    claims::hold_over_http(&stand, Fields::Everywhere);
    let refused = get(&stand.public, &[("X-Api-Key", b"in-a-row")]);
    assert!(refused.text().contains("\"status\":429,\"reason\":\"rate_exceeded\""), "{refused:?}");
    assert_eq!(refused.header("content-type"), Some("application/problem+json"));
}

#[test]
fn haproxy_that_fails_closed_lets_nobody_through_without_tidegate() {
    let test = "haproxy_that_fails_closed_lets_nobody_through_without_tidegate";
    let Some(mut stand) = stand("fail-closed.cfg", test) else { return };
    claims::hold_without_the_daemon(&mut stand, Without::Refused(503));
    claims::hold_while_the_daemon_is_silent(&mut stand, Without::Refused(503));
}

#[test]
fn haproxy_that_fails_open_lets_everybody_through_without_tidegate_and_only_then() {
    let test = "haproxy_that_fails_open_lets_everybody_through_without_tidegate_and_only_then";
    let Some(mut stand) = stand("fail-open.cfg", test) else { return };
    claims::hold_over_http(&stand, Fields::Everywhere);
    claims::hold_without_the_daemon(&mut stand, Without::Admitted);
    claims::hold_while_the_daemon_is_silent(&mut stand, Without::Admitted);
    claims::hold_without_the_namespace(&mut stand, 503);
}

#[test]
fn two_keys_behind_haproxy_are_an_error_rather_than_a_choice() {
    let test = "two_keys_behind_haproxy_are_an_error_rather_than_a_choice";
    let Some(stand) = stand("fail-open.cfg", test) else { return };
    let answer = get(&stand.public, &[("X-Api-Key", b"first"), ("X-Api-Key", b"second")]);
    assert_eq!(answer.status, 400, "{answer:?}");
    assert_eq!(stand.service.take_seen().len(), 0);
}

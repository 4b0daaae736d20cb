//! Caddy: `forward_auth`, and what it is short for.

use std::process::Command;

use super::claims::{self, Fields, Without};
use super::exchange::get;
use super::stand::Stand;
use super::tools::find_or_skip;

fn stand(file: &str, test: &str) -> Option<Stand> {
    start(|| Stand::of("caddy"), file, test)
}

/// The gateway with this file, in a stand of its recipe.
pub(super) fn start(make: impl FnOnce() -> Stand, file: &str, test: &str) -> Option<Stand> {
    let program = find_or_skip("caddy", test)?;
    let mut stand = make();
    let mut command = Command::new(program);
    command.args(["run", "--adapter", "caddyfile", "--config", file]);
    // It keeps certificates and its last configuration at home.
    for variable in ["HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"] {
        command.env(variable, stand.file(""));
    }
    stand.start_gateway(command);
    Some(stand)
}

#[test]
fn caddy_shows_callers_what_tidegate_answered() {
    let Some(mut stand) = stand("forward-auth.Caddyfile", "caddy_shows_callers_what_tidegate_answered")
    else {
        return;
    };
    claims::hold_over_http(&stand, Fields::InRefusals);
    claims::hold_without_the_daemon(&mut stand, Without::Refused(502));
}

#[test]
fn caddy_shows_the_ratelimit_fields_on_admitted_answers_too() {
    let test = "caddy_shows_the_ratelimit_fields_on_admitted_answers_too";
    let Some(mut stand) = stand("fail-closed.Caddyfile", test) else { return };
    claims::hold_over_http(&stand, Fields::Everywhere);
    claims::hold_without_the_daemon(&mut stand, Without::Refused(502));
    claims::hold_while_the_daemon_is_silent(&mut stand, Without::Refused(504));
}

#[test]
fn caddy_that_fails_open_lets_everybody_through_without_tidegate_and_only_then() {
    let test = "caddy_that_fails_open_lets_everybody_through_without_tidegate_and_only_then";
    let Some(mut stand) = stand("fail-open.Caddyfile", test) else { return };
    claims::hold_over_http(&stand, Fields::Everywhere);
    claims::hold_without_the_daemon(&mut stand, Without::Admitted);
    claims::hold_while_the_daemon_is_silent(&mut stand, Without::Admitted);
    claims::hold_without_the_namespace(&mut stand, 404);
}

#[test]
fn two_keys_behind_caddy_are_an_error_rather_than_a_choice() {
    let test = "two_keys_behind_caddy_are_an_error_rather_than_a_choice";
    let Some(stand) = stand("fail-open.Caddyfile", test) else { return };
    let answer = get(&stand.public, &[("X-Api-Key", b"first"), ("X-Api-Key", b"second")]);
    assert!(answer.status == 400 && answer.text().contains("duplicate header"), "{answer:?}");
    assert_eq!(stand.service.take_seen().len(), 0);
}

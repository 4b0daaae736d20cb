//! nginx: `auth_request`, which knows 2xx, 401 and 403, and turns a 429 into its own 500.

use std::fs;
use std::process::Command;

use super::claims::{self, Fields, Without};
use super::exchange::get;
use super::stand::Stand;
use super::tools::find_or_skip;

fn stand(file: &str, test: &str) -> Option<Stand> {
    start(|| Stand::of("nginx"), file, test)
}

/// nginx with the file of the recipe in its `http` block, as `/etc/nginx/conf.d` is in Debian's.
pub(super) fn start(make: impl FnOnce() -> Stand, file: &str, test: &str) -> Option<Stand> {
    let program = find_or_skip("nginx", test)?;
    let mut stand = make();
    let main = format!(
        "pid nginx.pid; error_log stderr error; worker_processes 2;\n\
         events {{ }}\n\
         http {{ access_log off; client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path f; uwsgi_temp_path u;\n\
         scgi_temp_path s; include {file}; }}\n"
    );
    fs::write(stand.file("nginx.conf"), main).unwrap();
    let mut command = Command::new(program);
    command.arg("-p").arg(stand.file("")).args(["-c", "nginx.conf", "-e", "stderr", "-g", "daemon off;"]);
    stand.start_gateway(command);
    Some(stand)
}

#[test]
fn nginx_shows_callers_what_tidegate_answered() {
    let Some(stand) = stand("fail-closed.conf", "nginx_shows_callers_what_tidegate_answered") else { return };
    claims::hold_over_http(&stand, Fields::Everywhere);
    let refused = get(&stand.public, &[("X-Api-Key", b"in-a-row")]);
    assert!(refused.text().contains("\"status\":429,\"reason\":\"rate_exceeded\""), "{refused:?}");
    assert_eq!(refused.header("content-type"), Some("application/problem+json"));
    assert!(stand.gateway_log().contains("auth request unexpected status: 429"), "the price of this variant");
}

#[test]
fn nginx_refuses_quietly_where_tidegate_answers_403() {
    let Some(mut stand) = stand("quiet.conf", "nginx_refuses_quietly_where_tidegate_answers_403") else {
        return;
    };
    claims::hold_over_http(&stand, Fields::Everywhere);
    let log = stand.gateway_log();
    assert!(!log.contains("unexpected status: 403") && !log.contains("unexpected status: 429"), "{log}");
    claims::hold_without_the_daemon(&mut stand, Without::Refused(503));
}

#[test]
fn nginx_that_fails_closed_lets_nobody_through_without_tidegate() {
    let test = "nginx_that_fails_closed_lets_nobody_through_without_tidegate";
    let Some(mut stand) = stand("fail-closed.conf", test) else { return };
    claims::hold_without_the_daemon(&mut stand, Without::Refused(503));
    claims::hold_while_the_daemon_is_silent(&mut stand, Without::Refused(503));
}

#[test]
fn nginx_that_fails_open_lets_everybody_through_without_tidegate_and_only_then() {
    let test = "nginx_that_fails_open_lets_everybody_through_without_tidegate_and_only_then";
    let Some(mut stand) = stand("fail-open.conf", test) else { return };
    claims::hold_over_http(&stand, Fields::Everywhere);
    claims::hold_without_the_daemon(&mut stand, Without::Admitted);
    claims::hold_while_the_daemon_is_silent(&mut stand, Without::Admitted);
    claims::hold_without_the_namespace(&mut stand, 503);
}

#[test]
fn of_two_keys_the_service_sees_the_one_that_nginx_had_counted() {
    let test = "of_two_keys_the_service_sees_the_one_that_nginx_had_counted";
    let Some(stand) = stand("fail-closed.conf", test) else { return };
    let answer = get(&stand.public, &[("X-Api-Key", b"first"), ("X-Api-Key", b"second")]);
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(stand.service.take_seen()[0].keys, [b"first"]);
    let left: Vec<u16> = (0..5).map(|_| get(&stand.public, &[("X-Api-Key", b"first")]).status).collect();
    assert_eq!(left, [200, 200, 200, 200, 429]);
}

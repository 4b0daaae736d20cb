//! `tidegate serve` as a process: the first minute, a request in flight at the end, exit codes.

use std::io::Read;
use std::net::TcpStream;

use tidegate_test_support::{TemporaryFile, TemporaryFolder, until};

use crate::gateways::exchange::send as send_request;
use crate::process::{Daemon, answer, post, send};

/// The JSON body in the first line that holds a check.
fn printed_check(printed: &str) -> String {
    let line = printed.lines().find(|line| line.contains("/v1/check -d '")).unwrap();
    line.split('\'').nth(1).unwrap().to_owned()
}

#[test]
fn without_a_configuration_the_first_minute_shows_a_200_and_then_a_429_that_explains_itself() {
    let mut daemon = Daemon::start(&["--listen", "127.0.0.1:0"]);
    let address = daemon.address();
    daemon.read_until("/metrics");
    let printed = daemon.printed.clone();
    assert!(
        printed.contains("built-in example") && printed.contains(&format!("http://{address}")),
        "{printed}"
    );
    let check = printed_check(&printed);
    let mut statuses = Vec::new();
    let last = loop {
        let (status, text) = post(&address, "/v1/check", &check);
        statuses.push(status);
        if status != 200 {
            break text;
        }
        assert!(statuses.len() < 10, "the printed loop of six must reach the refusal");
    };
    assert_eq!(statuses, [200, 200, 200, 200, 200, 429]);
    assert!(last.contains("\"reason\":\"rate_exceeded\"") && last.contains("come back in"), "{last}");
    daemon.signal("TERM");
    let (code, err) = daemon.end();
    assert_eq!(code, Some(0), "{err}");
    assert!(err.contains("rate_exceeded") && err.contains("drained"), "{err}");
}

#[test]
fn a_request_in_flight_at_sigterm_is_answered_whole_before_the_end() {
    let mut daemon = Daemon::start(&["--listen", "127.0.0.1:0", "--log-format", "json"]);
    let address = daemon.address();
    daemon.read_until("/metrics");
    let check = printed_check(&daemon.printed);
    let mut stream = TcpStream::connect(&address).unwrap();
    let head = format!(
        "POST /v1/check HTTP/1.1\r\nhost: t\r\nexpect: 100-continue\r\ncontent-length: {}\r\n\r\n",
        check.len()
    );
    send(&mut stream, &head);
    let mut proceed = [0; 25];
    stream.read_exact(&mut proceed).unwrap();
    assert_eq!(&proceed, b"HTTP/1.1 100 Continue\r\n\r\n");
    daemon.signal("TERM");
    until("it accepts no more, since it is draining", || TcpStream::connect(&address).is_err());
    send(&mut stream, &check);
    let (status, text) = answer(&mut stream);
    assert_eq!(status, 200, "{text}");
    assert!(text.contains("connection: close") && text.contains("\"decision\":\"admit\""), "{text}");
    let (code, err) = daemon.end();
    assert_eq!(code, Some(0), "{err}");
    for line in err.lines() {
        let _: serde_json::Value = serde_json::from_str(line).unwrap();
    }
}

#[test]
fn a_second_signal_ends_it_at_once() {
    let mut daemon = Daemon::start(&["--listen", "127.0.0.1:0"]);
    let address = daemon.address();
    let mut stream = TcpStream::connect(&address).unwrap();
    send(
        &mut stream,
        "POST /v1/check HTTP/1.1\r\nhost: t\r\nexpect: 100-continue\r\ncontent-length: 9\r\n\r\n",
    );
    stream.read_exact(&mut [0; 25]).unwrap();
    daemon.signal("INT");
    until("it accepts no more", || TcpStream::connect(&address).is_err());
    daemon.signal("INT");
    assert_eq!(daemon.end().0, Some(5));
}

#[test]
fn a_configuration_is_served_and_an_address_in_use_is_said_to_be() {
    let file = TemporaryFile::new(concat!(
        "listen: { http: 127.0.0.1:0, admin: 127.0.0.1:0 }\nstore: { kind: memory }\n",
        "namespaces: { api: { limits: [{ name: per-user, key: [user], missing: group, fixed: { limit: 1, window: 1h } }] } }\n",
    ));
    assert!(file.path().exists());
    let mut daemon = Daemon::start(&["--config", file.as_str()]);
    let address = daemon.address();
    let check = r#"{"namespace":"api","attributes":{"user":"ada"}}"#;
    assert_eq!((post(&address, "/v1/check", check).0, post(&address, "/v1/check", check).0), (200, 429));
    let mut second = Daemon::start(&["--listen", &address]);
    let (code, err) = second.end();
    assert_eq!(code, Some(4));
    assert!(err.contains(&format!("cannot listen on {address}")), "{err}");
    let mut open = Daemon::start(&["--listen", "0.0.0.0:0"]);
    let (code, err) = open.end();
    assert!(code == Some(4) && err.contains("insecure: true"), "{err}");
}

#[test]
fn issue_15_a_file_without_a_flag_is_served_and_every_listener_is_named() {
    let file = TemporaryFile::new(concat!(
        "listen: { http: 127.0.0.1:0, admin: 127.0.0.1:0, grpc: 127.0.0.1:0, resp: 127.0.0.1:0, proxy: 127.0.0.1:0 }\n",
        "namespaces: { api: { limits: [{ name: all, rate: 1/s }] } }\n",
        "proxy: { upstreams: { app: [\"http://127.0.0.1:1\"] }, routes: [{ upstream: app }] }\n",
    ));
    let mut daemon = Daemon::start(&[file.as_str()]);
    daemon.read_until("store ");
    for listener in ["callers ", "operators ", "proxy ", "grpc ", "redis "] {
        let line = daemon.printed.lines().find(|line| line.trim_start().starts_with(listener));
        assert!(line.is_some_and(|line| line.contains("127.0.0.1:")), "{listener}: {}", daemon.printed);
    }
    assert!(!daemon.printed.contains("built-in example"), "{}", daemon.printed);
    let (code, _, err) = crate::command::run(&["serve", file.as_str(), "--config", file.as_str()]);
    assert!(code == 2 && err.contains("--config <FILE>") && err.contains("cannot be used with"), "{err}");
}

#[test]
fn every_decision_gets_a_line_in_the_decision_log_also_after_the_file_was_moved_away() {
    let folder = TemporaryFolder::new();
    let log = folder.join("decisions.jsonl");
    let moved = log.with_extension("old");
    let file = TemporaryFile::new(&format!(
        "listen: {{ http: 127.0.0.1:0 }}\nstore: {{ kind: memory }}\nlog: {{ decisions: {} }}\n\
         namespaces: {{ api: {{ limits: [{{ name: per-user, key: [user], fixed: {{ limit: 1, window: 1h }} }}] }} }}\n",
        log.display()
    ));
    let mut daemon = Daemon::start(&["--config", file.as_str()]);
    let address = daemon.address();
    let check = r#"{"namespace":"api","attributes":{"user":"ada"},"cost":1}"#;
    assert_eq!(post(&address, "/v1/check", check).0, 200);
    // As logrotate does it: renamed, then told.
    let lines = |path: &std::path::Path| std::fs::read_to_string(path).unwrap_or_default().lines().count();
    until("the line is written", || lines(&log) > 0);
    std::fs::rename(&log, &moved).unwrap();
    daemon.signal("HUP");
    until("the log is opened anew", || log.exists());
    assert_eq!(post(&address, "/v1/check", check).0, 429);
    daemon.signal("TERM");
    let (code, err) = daemon.end();
    assert_eq!(code, Some(0), "{err}");
    let read = |path: &std::path::Path| -> serde_json::Value {
        serde_json::from_str(std::fs::read_to_string(path).unwrap().trim()).unwrap()
    };
    let (first, second) = (read(&moved), read(&log));
    assert_eq!(
        (first["decision"].as_str(), first["remaining"].as_u64()),
        (Some("admit"), Some(0)),
        "{first}"
    );
    assert_eq!(
        (second["decision"].as_str(), second["reason"].as_str()),
        (Some("refuse"), Some("quota_exceeded"))
    );
    assert_eq!((second["limit"].as_str(), second["scope"]["user"].as_str()), (Some("per-user"), Some("ada")));
    assert_eq!(second["attributes"]["user"], "ada", "{second}");
}

#[test]
fn a_rejected_file_and_its_return_to_the_policy_in_force_are_logged() {
    let policy =
        "listen: { http: 127.0.0.1:0 }\nnamespaces: { api: { limits: [{ name: all, rate: 1/s }] } }\n";
    let file = TemporaryFile::new(policy);
    let mut daemon = Daemon::start(&[file.as_str()]);
    let address = daemon.address();
    let is_rejected =
        || send_request(&address, "GET", "/v1/limits", &[], b"").text().contains("\"last_error\":{");
    for (text, rejected) in [("rate: 1/s, burst: 0", true), ("rate: 1/s", false)] {
        std::fs::write(file.path(), policy.replace("rate: 1/s", text)).unwrap();
        daemon.signal("HUP");
        until("the file was read", || is_rejected() == rejected);
    }
    daemon.signal("TERM");
    let (code, err) = daemon.end();
    assert_eq!(code, Some(0), "{err}");
    let lines: Vec<&str> = err.lines().filter(|line| line.contains("tidegate::reload")).collect();
    assert_eq!(lines.len(), 2, "{err}");
    assert!(lines[0].contains("the policy in force stays"), "{err}");
    let again = "the policy file is valid again, and the same as the policy in force";
    assert!(lines[1].contains(again) && lines[1].contains("version=1"), "{err}");
}

//! `tidegate serve --upstream`: everything from one command, for a service that has no gateway.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use tidegate_test_support::TemporaryFile;

use crate::command::run;
use crate::process::{Daemon, answer, post, send};

/// A service that greets, on a port of its own, for as long as the test runs.
fn service() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            std::thread::spawn(move || {
                let mut reader = BufReader::new(&stream);
                loop {
                    let mut line = String::new();
                    if reader.read_line(&mut line).unwrap_or(0) == 0 {
                        return;
                    }
                    if line == "\r\n" {
                        let greeting = b"HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nhello\n";
                        if (&stream).write_all(greeting).is_err() {
                            return;
                        }
                    }
                }
            });
        }
    });
    format!("http://{address}")
}

/// The request that the tests send.
const HELLO: &str = "GET /hello HTTP/1.1\r\nhost: t\r\n\r\n";

/// How many requests are under way at once, so that more than fifty come in a second on a busy
/// machine as well.
const AT_ONCE: usize = 30;

#[test]
fn one_command_stands_in_front_of_a_service_and_admits_what_its_limits_do() {
    let upstream = service();
    let mut daemon =
        Daemon::start(&["--upstream", &upstream, "--proxy", "127.0.0.1:0", "--listen", "127.0.0.1:0"]);
    let callers = daemon.address();
    let line = daemon.read_until("proxy ");
    let proxy = line.split("http://").nth(1).unwrap().split_whitespace().next().unwrap().to_owned();
    assert!(line.contains(&format!("-> {upstream}")), "{line}");
    let mut streams: Vec<_> = (0..AT_ONCE).map(|_| TcpStream::connect(&proxy).unwrap()).collect();
    send(&mut streams[0], HELLO);
    let (status, first) = answer(&mut streams[0]);
    assert!(status == 200 && first.ends_with("hello\n"), "{first}");
    assert!(first.contains("ratelimit: \"per-address\";r=99"), "{first}");
    let (mut admitted, mut refusals) = (1, Vec::new());
    let mut since = Instant::now();
    while refusals.is_empty() {
        assert!(admitted < 10_000, "a hundred at once are admitted, and fifty a second");
        since = Instant::now();
        for stream in &mut streams {
            send(stream, HELLO);
        }
        for (status, text) in streams.iter_mut().map(answer) {
            if status == 200 {
                admitted += 1;
            } else {
                refusals.push(text);
            }
        }
    }
    assert!(admitted >= 100, "{admitted} were admitted");
    for refusal in refusals {
        assert!(refusal.contains("\"reason\":\"rate_exceeded\""), "{refusal}");
        assert!(refusal.contains("retry-after: 1\r\n"), "{refusal}");
    }
    // The API counts on the same counter, which is full again two seconds after the last refusal.
    let peek = r#"{"namespace":"web","attributes":{"ip":"127.0.0.1"},"cost":100,"peek":true}"#;
    let (status, text) = post(&callers, "/v1/check", peek);
    assert!(status == 429 || since.elapsed() >= Duration::from_millis(1900), "{text}");
    drop(streams);
    daemon.signal("TERM");
    assert_eq!(daemon.end().0, Some(0));
}

#[test]
fn the_api_counts_on_the_counter_of_the_requests_that_are_passed_on() {
    let upstream = service();
    let file = TemporaryFile::new(
        "store: { kind: memory }\n\
         namespaces: { web: { limits: [{ name: per-address, key: [ip], rate: 1/m, burst: 3 }] } }\n",
    );
    let addresses = ["--upstream", &upstream, "--proxy", "127.0.0.1:0", "--listen", "127.0.0.1:0"];
    let mut daemon = Daemon::start(&[&[file.as_str()][..], &addresses].concat());
    let callers = daemon.address();
    let line = daemon.read_until("proxy ");
    let proxy = line.split("http://").nth(1).unwrap().split_whitespace().next().unwrap().to_owned();
    let mut stream = TcpStream::connect(&proxy).unwrap();
    let check = r#"{"namespace":"web","attributes":{"ip":"127.0.0.1"}}"#;
    send(&mut stream, HELLO);
    assert_eq!(answer(&mut stream).0, 200);
    assert_eq!([200, 200, 429], [(); 3].map(|()| post(&callers, "/v1/check", check).0));
    send(&mut stream, HELLO);
    assert_eq!(answer(&mut stream).0, 429);
}

#[test]
fn an_upstream_that_cannot_be_is_told_why() {
    let two = TemporaryFile::new("namespaces: { a: {}, b: {} }\n");
    for (arguments, hint) in [
        (&["serve", "--upstream", "ftp://x"][..], "http://HOST:PORT"),
        (&["serve", "--upstream", "http://127.0.0.1:1", "--proxy", "0.0.0.0:1"], "insecure: true"),
        (&["serve", "--upstream", "http://127.0.0.1:1", "--config", two.as_str()], "one namespace"),
    ] {
        let (code, _, err) = run(arguments);
        assert_eq!(code, 4, "{arguments:?}: {err}");
        assert!(err.contains(hint), "{arguments:?}: {err}");
    }
}

#[test]
fn issue_15_an_upstream_whose_limits_count_nothing_or_refuse_everything_is_warned_of() {
    let upstream = service();
    for (limits, hint) in [
        (
            "{ name: per-user, key: [user], rate: 5/s }",
            "every request is admitted: no limit of namespace \\\"api\\\" applies to any",
        ),
        (
            "{ name: per-user, key: [user], missing: refuse, rate: 5/s }",
            "every request is refused: limit \\\"per-user\\\" of namespace \\\"api\\\" needs attribute \\\"user\\\"",
        ),
        ("{ name: per-address, key: [ip], rate: 5/s }", ""),
    ] {
        let file = TemporaryFile::new(&format!("namespaces: {{ api: {{ limits: [ {limits} ] }} }}\n"));
        let more = ["--proxy", "127.0.0.1:0", "--listen", "127.0.0.1:0", "--log-format", "json"];
        let mut daemon = Daemon::start(&[&[file.as_str(), "--upstream", &upstream][..], &more].concat());
        daemon.read_until("proxy ");
        daemon.signal("TERM");
        let (code, err) = daemon.end();
        assert_eq!(code, Some(0), "{err}");
        let told: Vec<&str> = err.lines().filter(|line| line.contains("--upstream sets only")).collect();
        assert_eq!(told.len(), usize::from(!hint.is_empty()), "{err}");
        assert!(told.iter().all(|line| line.contains(hint)), "{err}");
    }
}

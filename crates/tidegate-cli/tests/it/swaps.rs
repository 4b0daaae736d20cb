//! The policy replaced ten times a second under load: no request fails, nothing is forgotten, the
//! last valid one is in force.

use std::io::Write;
use std::net::TcpStream;
use std::os::unix::fs::symlink;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;
use tidegate_store::conformance::Random;
use tidegate_test_support::{TemporaryFolder, until};

use crate::command::tidegate;
use crate::process::{Daemon, answer};
use crate::seed::seed;

const LIMIT: u64 = 1_000_000_000;
const USERS: usize = 4;

/// Each policy with such a number is valid, and the next one comes when it is in force.
const AWAITED_EVERY: u64 = 10;

/// The policies of the tests, in a folder.
struct Folder(TemporaryFolder);

impl Folder {
    /// One limit decided here and one in files, both with numbers of their own in every version.
    fn policy(&self, version: u64) -> String {
        let limit = LIMIT + version;
        format!(
            "listen: {{ http: 127.0.0.1:0 }}\nlog: {{ level: error }}\nmemory: {{ keys: 1MiB }}\n\
             store: {{ kind: embedded, path: {}, durability: interval }}\n\
             namespaces: {{ api: {{ limits: [\
             {{ name: here, key: [user], consistency: local, fixed: {{ limit: {limit}, window: 365d }} }}, \
             {{ name: stored, key: [user], calendar: {{ limit: {limit}, unit: year, zone: UTC }} }}] }} }}\n",
            self.0.path().join("data").display()
        )
    }

    /// Swaps the link that leads to the policy, as a `ConfigMap` is updated.
    fn swap(&self, version: u64, text: &str) {
        let folder = self.0.path().join(format!("v{version}"));
        std::fs::create_dir(&folder).unwrap();
        std::fs::write(folder.join("policy.yaml"), text).unwrap();
        symlink(&folder, self.0.path().join("..new")).unwrap();
        std::fs::rename(self.0.path().join("..new"), self.0.path().join("..data")).unwrap();
    }
}

fn request(stream: &mut TcpStream, head: &str, body: &str) -> (u16, Value) {
    let request = format!("{head} HTTP/1.1\r\nhost: t\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    stream.write_all(request.as_bytes()).unwrap();
    let (status, text) = answer(stream);
    (status, serde_json::from_str(text.split_once("\r\n\r\n").unwrap().1).unwrap())
}

/// Tells the clients to end when it is dropped, also by a failed assertion.
struct EndOfLoad<'a>(&'a AtomicBool);

impl Drop for EndOfLoad<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_policy_replaced_ten_times_a_second_under_load_fails_no_request_and_forgets_no_counter() {
    let seconds = std::env::var("TIDEGATE_SWAP_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(5);
    let folder = Folder(TemporaryFolder::new());
    folder.swap(0, &folder.policy(0));
    let path = folder.0.path().join("policy.yaml");
    symlink("..data/policy.yaml", &path).unwrap();
    let mut daemon = Daemon::start(&["--config", path.to_str().unwrap()]);
    let address = daemon.address();
    let connect = || TcpStream::connect(&address).unwrap();
    let (is_over, charged) = (AtomicBool::new(false), [const { AtomicU64::new(0) }; USERS]);
    let mut draws = Random::new(seed("TIDEGATE_SWAP_SEED"));
    let last_valid = seconds * 10 + 1;
    std::thread::scope(|scope| {
        let _end = EndOfLoad(&is_over);
        for client in 0..4 {
            let (mut stream, mut draws) = (connect(), Random::new(client));
            let (is_over, charged) = (&is_over, &charged);
            scope.spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    let user = draws.below(USERS as u64) as usize;
                    let body = format!(r#"{{"namespace":"api","attributes":{{"user":"u{user}"}}}}"#);
                    let (status, json) = request(&mut stream, "POST /v1/check", &body);
                    assert_eq!(status, 200, "{json}");
                    charged[user].fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let mut operator = connect();
        let mut is_in_force = |version: u64| {
            let limits = request(&mut operator, "GET /v1/limits", "").1;
            limits["namespaces"][0]["limits"][0]["limit"] == LIMIT + version
        };
        let begin = Instant::now();
        for version in 1..=seconds * 10 {
            let is_awaited = version % AWAITED_EVERY == 0;
            // Two versions of eight are invalid: a truncated policy, and a policy with a rate of 0.
            match draws.below(8) {
                0 if !is_awaited => {
                    let text = folder.policy(version);
                    folder.swap(version, &text[..text.len() * 2 / 3]);
                }
                1 if !is_awaited => {
                    folder.swap(version, "namespaces: { api: { limits: [{ name: here, rate: 0/s }] } }\n");
                }
                _ => folder.swap(version, &folder.policy(version)),
            }
            if draws.below(5) == 0 || is_awaited {
                daemon.signal("HUP");
            }
            if is_awaited {
                until("the policy is in force", || is_in_force(version));
            }
            let next = begin + Duration::from_millis(100) * version as u32;
            // Sleeps: the policy is replaced ten times a second, in real time.
            std::thread::sleep(next.saturating_duration_since(Instant::now()));
        }
        // Whatever came last, a valid one ends it.
        folder.swap(last_valid, &folder.policy(last_valid));
        daemon.signal("HUP");
        until("the last policy is in force", || is_in_force(last_valid));
    });
    let mut stream = connect();
    let (_, limits) = request(&mut stream, "GET /v1/limits", "");
    let policy = &limits["policy"];
    println!("{} policies came into force; {charged:?} requests", policy["version"]);
    assert!(policy["version"].as_u64().unwrap() > seconds, "{policy}");
    assert!(policy.get("last_error").is_none(), "{policy}");
    for (user, charged) in charged.iter().enumerate() {
        let body = format!(r#"{{"namespace":"api","attributes":{{"user":"u{user}"}},"peek":true}}"#);
        let (_, json) = request(&mut stream, "POST /v1/check", &body);
        for limit in json["limits"].as_array().unwrap() {
            let left = limit["remaining"].as_u64().unwrap();
            assert_eq!(LIMIT + last_valid - left, charged.load(Ordering::Relaxed), "{}", limit["name"]);
        }
    }
}

#[test]
fn a_second_daemon_on_the_same_directory_names_the_first_and_the_ways_out() {
    let folder = Folder(TemporaryFolder::new());
    let path = folder.0.path().join("policy.yaml");
    std::fs::write(&path, folder.policy(0)).unwrap();
    let mut first = Daemon::start(&["--config", path.to_str().unwrap()]);
    let _ = first.address();
    let second = tidegate().args(["serve", "--config", path.to_str().unwrap()]).output().unwrap();
    let err = String::from_utf8(second.stderr).unwrap();
    assert_eq!(second.status.code(), Some(4), "{err}");
    let expected = format!(
        "tidegate: the store is kept in {}/data, which process {} uses; stop that one, let the daemons share a store with \
         `store: {{ kind: redis, urls: [..] }}`, set `store.path` to another directory, or set `store: {{ kind: memory }}`, \
         with which a restart forgets quotas\n",
        folder.0.path().display(),
        first.process.id(),
    );
    assert!(err.ends_with(&expected), "{err}");
}

//! Envoy with the rate limit quota service: it decides by its part of the limit.
//!
//! Envoy reports every 5 s, and an assignment lasts 10 s, so the test of two daemons takes half a
//! minute of real time, most of which it waits.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use tidegate_test_support::{MachineInstant, RedisServer, skip, until};

use super::exchange::{get, try_send};
use super::stand::{Stand, free_address};
use super::tools::fetched_or_skip;
use crate::command::tidegate;
use crate::process::{Daemon, post};

/// The rate of the recipe's limit.
const RATE: u32 = 20;

/// The rate by which an Envoy of the recipe decides when no daemon has answered for long.
const FIXED_RATE: u32 = 10;

/// The distance of the requests of a caller, who asks for twice the rate.
const EACH: Duration = Duration::from_millis(25);

/// Real time over which admitted requests are counted.
const SPAN: Duration = Duration::from_secs(3);

/// So many refusals in a row are no coincidence.
const LAST: u32 = 12;

/// A daemon with the policy of the recipe.
struct Member {
    daemon: Daemon,
    http: String,
    grpc: String,
}

impl Member {
    /// Starts a daemon of the policy in the folder of this stand.
    fn start(stand: &Stand, http: String, grpc: String) -> Self {
        let mut command = tidegate();
        command.arg("serve").arg("--config").arg(stand.file("tidegate-rlqs.yaml"));
        let mut daemon = Daemon::spawn(command);
        assert_eq!(daemon.address(), http);
        Self { daemon, http, grpc }
    }

    /// The sample of a metric with these labels.
    fn sample(&self, metric: &str) -> Option<u64> {
        let page = get_text(&self.http, "/metrics");
        page.lines().find_map(|line| line.strip_prefix(metric)?.strip_prefix(' ')?.parse().ok())
    }

    /// How many buckets of Envoys are in this state.
    fn buckets(&self, state: &str) -> Option<u64> {
        self.sample(&format!("tidegate_rlqs_buckets{{state=\"{state}\"}}"))
    }

    /// Refuses a key for so many milliseconds; 0 lifts that.
    fn block(&self, key: &str, for_ms: u64) {
        let block = serde_json::json!({
            "namespace": "api", "limit": "per-key", "attributes": { "api_key": key }, "for_ms": for_ms,
        });
        let (status, text) = post(&self.http, "/v1/block", &block.to_string());
        assert_eq!(status, 200, "{text}");
    }
}

fn get_text(address: &str, path: &str) -> String {
    try_send(address, "GET", path, &[], b"").unwrap().text()
}

/// The recipe's files for an Envoy of this number that reports to this address.
fn edge(number: u32, http: &str, grpc: &str) -> Stand {
    let stand = Stand::beside("envoy", http, grpc);
    stand.change("rlqs.yaml", "value: edge-1", &format!("value: edge-{number}"));
    stand
}

fn start_envoy(stand: &mut Stand, program: &Path) {
    let mut command = Command::new(program);
    command.args(["-c", "rlqs.yaml", "--concurrency", "1", "--disable-hot-restart", "-l", "warning"]);
    stand.start_gateway(command);
}

fn envoy_or_skip(test: &str) -> Option<PathBuf> {
    fetched_or_skip("envoy", "lib/*/site-packages/envoy/_bin/envoy", test)
}

/// Asks an Envoy for one key in a thread of its own, until it is dropped or the Envoy is gone.
struct Caller {
    /// When each answer came, and whether it was no refusal.
    answers: Arc<Mutex<Vec<(Instant, bool)>>>,
    _stop: mpsc::Sender<()>,
}

impl Caller {
    fn start(stand: &Stand, key: &'static str) -> Self {
        let answers = Arc::new(Mutex::new(Vec::new()));
        let (stop, stopped) = mpsc::channel();
        let (public, written) = (stand.public.clone(), Arc::clone(&answers));
        thread::spawn(move || {
            while stopped.recv_timeout(EACH) == Err(RecvTimeoutError::Timeout) {
                let answer = try_send(&public, "GET", "/", &[("X-Api-Key", key.as_bytes())], b"");
                let Ok(answer) = answer else { break };
                assert!([200, 429].contains(&answer.status), "{answer:?}");
                written.lock().unwrap().push((Instant::now(), answer.status == 200));
            }
        });
        Self { answers, _stop: stop }
    }

    /// How many were admitted since then.
    fn admitted_since(&self, since: Instant) -> u32 {
        let answers = self.answers.lock().unwrap();
        answers
            .iter()
            .rev()
            .take_while(|(at, _)| *at >= since)
            .map(|(_, is_admitted)| u32::from(*is_admitted))
            .sum()
    }

    /// Whether the last answers were refusals.
    fn is_refused(&self) -> bool {
        let answers = self.answers.lock().unwrap();
        let last = answers.iter().rev().take(LAST as usize);
        last.len() == LAST as usize && last.filter(|(_, is_admitted)| *is_admitted).count() == 0
    }
}

#[test]
fn two_envoys_hold_one_limit_at_two_daemons_and_survive_each_others_end() {
    let test = "two_envoys_hold_one_limit_at_two_daemons_and_survive_each_others_end";
    let Some(program) = envoy_or_skip(test) else { return };
    let Some(redis) = RedisServer::start(&[]) else { return skip(test) };
    let mut edges = Vec::new();
    let mut members = Vec::new();
    for number in [1, 2] {
        let (http, grpc) = (free_address(), free_address());
        let mut edge = edge(number, &http, &grpc);
        let store = "store: { kind: redis, urls: [redis://127.0.0.1:6379] }";
        let redis = format!("store: {{ kind: redis, urls: [{}], deadline: 10s }}", redis.url());
        edge.change("tidegate-rlqs.yaml", &format!("# {store}"), &redis);
        members.push(Member::start(&edge, http, grpc));
        start_envoy(&mut edge, &program);
        edges.push(edge);
    }

    let begun = Instant::now();
    let [ada, eve] = ["ada", "eve"].map(|key| edges.iter().map(|edge| Caller::start(edge, key)).collect());
    let (ada, eve): (Vec<Caller>, Vec<Caller>) = (ada, eve);
    let asked = MachineInstant::now();
    until("the first report of each bucket is answered", || {
        members.iter().all(|member| member.buckets("assigned") == Some(2))
    });
    assert!(asked.elapsed() < Duration::from_secs(2), "{:?}", asked.elapsed());

    members[0].block("eve", 600_000);
    let told = MachineInstant::now();
    for (which, within) in [(0, 1000), (1, 6000)] {
        until("a block has reached an Envoy", || {
            members[which].buckets("denied") == Some(1) && eve[which].is_refused()
        });
        // The callers see it by their last answers.
        let within = Duration::from_millis(within) + 2 * LAST * EACH;
        assert!(told.elapsed() < within, "at Envoy {which} after {:?}", told.elapsed());
    }
    let blocked = Instant::now();

    // Both have reported their demand when both have half of the rate.
    until("two Envoys admit together what one limit has, half of it each", || {
        let since = Instant::now().checked_sub(SPAN).unwrap();
        let admitted: Vec<u32> = ada.iter().map(|caller| caller.admitted_since(since)).collect();
        let sum: u32 = admitted.iter().sum();
        let all = RATE * SPAN.as_secs() as u32;
        since > begun && sum.abs_diff(all) <= all / 10 && admitted.iter().all(|part| *part > all / 3)
    });
    let admitted: u32 = ada.iter().map(|caller| caller.admitted_since(begun)).sum();
    // The rate, its burst, a tenth of a second, and what passed before the first assignments.
    let most = RATE * (begun.elapsed().as_secs() as u32 + 1) + RATE + RATE / 10 + 10;
    assert!(admitted <= most, "{admitted} in {:?}", begun.elapsed());

    members[0].daemon.process.kill();
    let killed = Instant::now();
    until("both Envoys go on without one of the daemons", || {
        ada.iter().all(|caller| caller.admitted_since(killed) >= RATE / 2)
    });
    edges[0].kill_gateway();
    let killed = Instant::now();
    until("an Envoy goes on without the other", || ada[1].admitted_since(killed) >= RATE / 2);
    let passed: u32 = eve.iter().map(|caller| caller.admitted_since(blocked)).sum();
    assert_eq!(passed, 0, "the block is still in force");

    members[1].daemon.process.kill();
    until("an Envoy without a daemon goes on by the fixed part of the recipe", || {
        let since = Instant::now().checked_sub(SPAN).unwrap();
        let admitted = ada[1].admitted_since(since);
        since > killed && admitted.abs_diff(FIXED_RATE * SPAN.as_secs() as u32) <= FIXED_RATE / 3
    });
}

#[test]
fn two_envoys_hold_one_limit_at_one_daemon_without_a_shared_store() {
    let test = "two_envoys_hold_one_limit_at_one_daemon_without_a_shared_store";
    let Some(program) = envoy_or_skip(test) else { return };
    let (http, grpc) = (free_address(), free_address());
    let mut edges = [edge(1, &http, &grpc), edge(2, &http, &grpc)];
    let member = Member::start(&edges[0], http, grpc);
    for edge in &mut edges {
        start_envoy(edge, &program);
    }
    let status = |edge: &Stand, key: &[u8]| get(&edge.public, &[("X-Api-Key", key)]).status;
    for edge in &edges {
        assert_eq!(status(edge, b"ada"), 200, "before the first assignment");
        assert_eq!(status(edge, b"\xff\xfe"), 403, "it would never be limited");
    }
    until("each Envoy has a part", || member.buckets("assigned") == Some(2));
    member.block("ada", 600_000);
    let told = MachineInstant::now();
    until("a block has reached both", || member.buckets("denied") == Some(2));
    for edge in &edges {
        until("it is refused", || status(edge, b"ada") == 429);
    }
    assert!(told.elapsed() < Duration::from_secs(1), "{:?}", told.elapsed());
    member.block("ada", 0);
    for edge in &edges {
        until("it is admitted again", || status(edge, b"ada") == 200);
    }
    assert_eq!(member.sample("tidegate_rlqs_streams"), Some(2), "{}", member.grpc);
}

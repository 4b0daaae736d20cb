//! Clients of other languages, as they come: nothing of them is configured but the address.

use std::path::Path;
use std::process::{Command, Stdio};

use tidegate_test_support::TemporaryFile;

use super::stand::free_address;
use super::tools::{fetched_or_skip, find_or_skip};

use crate::process::Daemon;

const SCRIPTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/gateways/clients");

/// A daemon with the listeners that clients connect to. It is gone when the test is.
struct Listeners {
    _daemon: Daemon,
    _policy: TemporaryFile,
    resp: String,
    grpc: String,
}

impl Listeners {
    fn open() -> Self {
        let (http, grpc, resp) = (free_address(), free_address(), free_address());
        let policy = TemporaryFile::new(&format!(
            "listen: {{ http: {http}, grpc: {grpc}, resp: {resp} }}\n\
             namespaces: {{ api: {{ limits: [{{ name: per-user, key: [user], missing: group, rolling: {{ limit: 5, window: 10m }} }}] }} }}\n"
        ));
        let mut daemon = Daemon::start(&["--config", policy.as_str()]);
        assert_eq!(daemon.address(), http);
        Self { _daemon: daemon, _policy: policy, resp, grpc }
    }

    fn resp_port(&self) -> &str {
        self.resp.rsplit(':').next().unwrap()
    }
}

/// The output of a client that succeeded.
fn output(command: &mut Command) -> String {
    let output = command.stdin(Stdio::null()).output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{command:?}: {out}{err}");
    out.into_owned()
}

#[test]
fn redis_cli_connects_as_it_comes_in_both_protocols() {
    cli(Listeners::open().resp_port(), "redis_cli_connects_as_it_comes_in_both_protocols");
}

/// Has redis-cli ask the daemon on this port.
pub(super) fn cli(port: &str, test: &str) {
    let Some(program) = find_or_skip("redis-cli", test) else { return };
    for protocol in ["-2", "-3"] {
        let cli = |words: &str| {
            let mut command = Command::new(&program);
            output(command.args(["-p", port, protocol]).args(words.split(' ')))
        };
        assert_eq!(cli("PING"), "PONG\n");
        let key = format!("cli{protocol}");
        for left in [1, 0] {
            assert!(cli(&format!("CL.THROTTLE {key} 1 1 600")).starts_with(&format!("0\n2\n{left}\n-1\n")));
        }
        assert!(cli(&format!("CL.THROTTLE {key} 1 1 600")).starts_with("1\n2\n0\n"));
        assert_eq!(cli(&format!("DEL {key}")), "1\n");
        assert!(cli(&format!("CL.THROTTLE {key} 1 1 600")).starts_with("0\n2\n1\n-1\n"));
        for number in 1..=6 {
            let answer = cli(&format!("TG.CHECK api user {key}"));
            assert_eq!(answer.contains("rate_exceeded"), number == 6, "{answer}");
        }
    }
}

#[test]
fn redis_benchmark_pipelines_sixteen_at_a_time_without_an_error() {
    benchmark(Listeners::open().resp_port(), "redis_benchmark_pipelines_sixteen_at_a_time_without_an_error");
}

/// Has redis-benchmark ask the daemon on this port.
pub(super) fn benchmark(port: &str, test: &str) {
    let Some(program) = find_or_skip("redis-benchmark", test) else { return };
    for (requests, words) in [
        ("20000", "PING"),
        ("20000", "CL.THROTTLE bench:__rand_int__ 15 30 60"),
        ("2000", "TG.CHECK api user u"),
    ] {
        let mut command = Command::new(&program);
        command.args(["-p", port, "-n", requests, "-c", "20", "-P", "16", "-r", "1000", "-e", "--csv"]);
        let out = output(command.args(words.split(' ')));
        assert!(!out.to_lowercase().contains("error") && out.lines().count() >= 2, "{out}");
    }
}

/// Runs a script of the folder `clients` against the daemon there.
pub(super) fn python(script: &str, address: &str, test: &str) {
    let Some(python) = fetched_or_skip("python", "bin/python", test) else { return };
    let script = Path::new(SCRIPTS).join(script);
    // It would leave a folder beside the script.
    let out = output(Command::new(python).arg("-B").arg(script).arg(address));
    assert_eq!(out.trim(), "held");
}

#[test]
fn redis_py_connects_as_it_comes() {
    python("redis_py.py", &Listeners::open().resp, "redis_py_connects_as_it_comes");
}

#[test]
fn a_grpc_client_finds_the_rate_limit_service_health_and_reflection() {
    let test = "a_grpc_client_finds_the_rate_limit_service_health_and_reflection";
    python("grpc_client.py", &Listeners::open().grpc, test);
}

/// As [`python`].
pub(super) fn node(script: &str, address: &str, test: &str) {
    let Some(node) = find_or_skip("node", test) else { return };
    let Some(modules) = fetched_or_skip("node", "node_modules", test) else { return };
    let script = Path::new(SCRIPTS).join(script);
    let out = output(Command::new(node).arg(script).arg(address).env("NODE_PATH", modules));
    assert_eq!(out.trim(), "held");
}

#[test]
fn node_redis_connects_as_it_comes() {
    node("node_redis.cjs", &Listeners::open().resp, "node_redis_connects_as_it_comes");
}

#[test]
fn ioredis_connects_as_it_comes() {
    node("ioredis.cjs", &Listeners::open().resp, "ioredis_connects_as_it_comes");
}

/// The places of the daemon that workers ask.
const PLACES: u32 = 8;

/// How many requests each kind of worker makes: `TIDEGATE_WORKER_REQUESTS`, or a few.
fn worker_requests() -> String {
    std::env::var("TIDEGATE_WORKER_REQUESTS").unwrap_or_else(|_| "60".to_owned())
}

/// The listener that workers ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Listener {
    Http,
    Resp,
}

/// Never more workers than places are at work, and none of their releases fails.
fn work(mut client: Command, listener: Listener) {
    let (http, resp) = (free_address(), free_address());
    let policy = TemporaryFile::new(&format!(
        "listen: {{ http: {http}, resp: {resp} }}\n\
         namespaces: {{ shop: {{ limits: [{{ name: jobs, concurrency: {{ limit: {PLACES}, hold: 1h }} }}] }} }}\n\
         resources: {{ app: {{ concurrency: {PLACES}, \
         queue: {{ wait: 10s, delay_target: {{ sheddable_plus: off }} }} }} }}\n"
    ));
    let mut daemon = Daemon::start(&["--config", policy.as_str()]);
    assert_eq!(daemon.address(), http);
    let address = if listener == Listener::Http { http } else { resp };
    let out = output(client.arg(&address).arg(worker_requests()));
    let numbers: Vec<u32> = out.split_whitespace().map(|number| number.parse().unwrap()).collect();
    let [most, failed] = numbers[..] else { panic!("{out}") };
    assert!((1..=PLACES).contains(&most), "{most} were at work");
    assert_eq!(failed, 0, "releases failed");
}

/// A worker of `workers.py`.
fn python_worker(kind: &str, listener: Listener, test: &str) {
    let Some(python) = fetched_or_skip("python", "bin/python", test) else { return };
    let mut command = Command::new(python);
    command.arg("-B").arg(Path::new(SCRIPTS).join("workers.py")).arg(kind);
    work(command, listener);
}

#[test]
fn workers_with_http_client_keep_within_the_places() {
    python_worker("http.client", Listener::Http, "workers_with_http_client_keep_within_the_places");
}

#[test]
fn workers_with_curl_keep_within_the_places() {
    let test = "workers_with_curl_keep_within_the_places";
    if find_or_skip("curl", test).is_some() {
        python_worker("curl", Listener::Http, test);
    }
}

#[test]
fn workers_with_redis_py_keep_within_the_places() {
    python_worker("redis", Listener::Resp, "workers_with_redis_py_keep_within_the_places");
}

#[test]
fn workers_with_node_keep_within_the_places() {
    let test = "workers_with_node_keep_within_the_places";
    let Some(node) = find_or_skip("node", test) else { return };
    for version in ["1", "2"] {
        let mut command = Command::new(&node);
        command.arg(Path::new(SCRIPTS).join("workers.cjs")).arg(version);
        work(command, Listener::Http);
    }
}

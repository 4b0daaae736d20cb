//! The processor time of a server for an answer over each protocol, rivals and another build beside
//! it.
//!
//! Servers run on processor 0 and the programs that load them on processor 1. Each round goes
//! through all rows in turn, so that a slow moment of the machine meets all of them, and every
//! other round goes backwards. Processor time is what the kernel booked for the server.

use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Args;
use prost::Message;
use tidegate_test_support::{ChildProcess, RedisServer, TemporaryFolder, until};

use crate::attack::{Failure, RunContext};
use crate::daemon::{Daemon, processor_seconds};
use crate::grpc;
use crate::load::service_process::ServiceProcess;
use crate::raw;
use crate::redis_relay::{self, start_server};
use crate::report::show;

/// The usual script, as people write it by hand.
pub(crate) const BY_HAND: &str = include_str!("../../tidegate-bench/gcra.lua");

/// Where a rival listens for HTTP, gRPC and RESP.
const RIVAL_PORTS: [u16; 3] = [18_190, 18_191, 18_192];

const CHECK_ONE: &str = r#"{"namespace":"api","attributes":{"user":"ada-with-twenty-char"}}"#;
const CHECK_THREE: &str =
    r#"{"namespace":"api","attributes":{"user":"ada-with-twenty-char","app":"shop","session":"s1"}}"#;
const CHECK_REFUSED: &str = r#"{"namespace":"low","attributes":{"user":"ada-with-twenty-char"}}"#;
const CHECK_THREE_REFUSED: &str =
    r#"{"namespace":"low","attributes":{"user":"ada-with-twenty-char","app":"shop","session":"s1"}}"#;
const THROTTLE: &str = r#"{"key":"ada-with-twenty-char","max_burst":1000000,"count_per_period":1000000,"period":1,"quantity":1}"#;

/// The options of `protocols`.
#[derive(Debug, Args)]
pub struct ProtocolArguments {
    /// The daemon's binary.
    binary: PathBuf,
    /// Another build of the daemon, whose rows are measured beside.
    #[arg(long, value_name = "PATH")]
    beside: Option<PathBuf>,
    /// The binary of throttlecrab-server, whose rows are missing without it.
    #[arg(long, value_name = "PATH")]
    throttlecrab: Option<PathBuf>,
    /// The rounds of which the median is shown.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Only the rows whose names contain this text.
    #[arg(long, value_name = "TEXT", default_value = "")]
    rows: String,
}

/// A request of throttlecrab.
#[derive(Clone, PartialEq, Message)]
struct ThrottleRequest {
    #[prost(string, tag = "1")]
    key: String,
    #[prost(int32, tag = "2")]
    max_burst: i32,
    #[prost(int32, tag = "3")]
    count_per_period: i32,
    #[prost(int32, tag = "4")]
    period: i32,
    #[prost(int32, tag = "5")]
    quantity: i32,
}

/// One kind of request to one server.
struct LoadedServer {
    name: String,
    server: &'static str,
    process: u32,
    load: LoadProgram,
    /// Answers a second, and microseconds of processor time for each.
    seen: Vec<(f64, f64)>,
}

/// A program that loads a server.
struct LoadProgram {
    /// The program and its connections, as the table names them.
    title: String,
    words: Vec<String>,
    /// The answers that it waits for; nothing if it counts them itself.
    count: Option<u32>,
    /// Whether it gets answers other than 2xx.
    gets_errors: bool,
}

/// Measures, and prints a table.
pub fn run(arguments: &ProtocolArguments) -> Result<(), Failure> {
    let folder = TemporaryFolder::new();
    let upstream = ServiceProcess::start(64)?;
    pin(upstream.id(), 1)?;
    let builds =
        [Some(("tidegate", &arguments.binary)), arguments.beside.as_ref().map(|path| ("beside", path))];
    let contexts = builds.into_iter().flatten().map(|(name, path)| {
        RunContext::of_binary(path).map(|context| (name, context)).map_err(Failure::Unfinished)
    });
    let contexts: Vec<(&str, RunContext)> = contexts.collect::<Result<_, _>>()?;
    let mut rows = Vec::new();
    let mut daemons = Vec::new();
    for (name, context) in &contexts {
        let daemon = Daemon::start_on_processor(context, &policy(&upstream), 0)?;
        rows.extend(daemon_rows(name, &daemon, &folder)?);
        daemons.push(daemon);
    }
    let redis = start_server(&[])?;
    pin(redis.id(), 0)?;
    rows.extend(redis_rows(&redis)?);
    let rival = arguments.throttlecrab.as_deref().map(start_rival).transpose()?;
    rows.extend(rival.iter().flat_map(|rival| rival_rows(rival.id(), &folder)));
    rows.retain(|row| row.name.contains(&arguments.rows));
    rows.sort_by(|one, other| one.name.cmp(&other.name));
    for _ in 0..arguments.rounds.max(1) {
        rows.iter_mut().try_for_each(LoadedServer::measure)?;
        rows.reverse();
    }
    rows.sort_by(|one, other| one.name.cmp(&other.name).then(other.server.cmp(one.server)));
    show(
        "| | server | answers a second | server CPU each | lowest-highest | change |\n|---|---|---|---|---|---|",
    )?;
    let mut before: Option<(&str, f64)> = None;
    for row in &rows {
        let [rate, cost, least, most] = row.figures();
        // The other build has a row of the same name.
        let change = before
            .filter(|(name, _)| *name == row.name)
            .map_or_else(String::new, |(_, other)| format!("{:+.1} %", 100.0 * (other / cost - 1.0)));
        before = Some((&row.name, cost));
        let (name, server) = (&row.name, row.server);
        show(format_args!(
            "| {name} | {server} | {rate:.0} | {cost:.2} us | {least:.2}-{most:.2} | {change} |"
        ))?;
    }
    Ok(())
}

/// Three limits that no row fills, and in another namespace three that admit one request a day.
fn policy(upstream: &ServiceProcess) -> String {
    let limits = |rate: &str| {
        let limit = |key| format!("{{ name: per-{key}, key: [{key}], missing: skip, rate: {rate} }}");
        ["user", "app", "session"].map(limit).join(", ")
    };
    format!(
        "listen: {{ http: '127.0.0.1:0', grpc: '127.0.0.1:0', resp: '127.0.0.1:0', proxy: '127.0.0.1:0' }}\n\
         store: {{ kind: memory }}\nmemory: {{ keys: 64MiB }}\nlog: {{ refusals: off, level: error }}\n\
         namespaces: {{ api: {{ limits: [{}] }}, low: {{ limits: [{}] }} }}\n\
         proxy:\n  upstreams: {{ app: ['http://{}'] }}\n  \
         routes: [{{ upstream: app, namespace: api, attributes: {{ user: header.x-user }} }}]\n",
        limits("10000000/s"),
        limits("1/d"),
        upstream.address()
    )
}

/// Keeps a process that has started to one processor.
fn pin(process: u32, processor: u32) -> Result<(), Failure> {
    let output = Command::new("taskset")
        .args(["-a", "-c", "-p", &processor.to_string(), &process.to_string()])
        .output()?;
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    if output.status.success() { Ok(()) } else { Err(Failure::Unfinished(format!("taskset: {text}"))) }
}

fn daemon_rows(
    server: &'static str,
    daemon: &Daemon<'_>,
    folder: &TemporaryFolder,
) -> Result<Vec<LoadedServer>, Failure> {
    let row = |name: &str, load| LoadedServer::new(name, server, daemon.id(), load);
    let (http, proxy) = (daemon.http()?.port(), daemon.proxy()?.port());
    let (grpc_port, resp) = (daemon.grpc()?.port(), daemon.resp()?.port());
    let one = [grpc::descriptor(&[("user", "ada-with-twenty-char")])];
    let three = [("user", "ada"), ("app", "shop"), ("session", "s1")].map(|entry| grpc::descriptor(&[entry]));
    let refused = folder.write("refused", grpc::framed(&grpc::request_of("low", one.clone())));
    let one = folder.write("one", grpc::framed(&grpc::request_of("api", one)));
    let three = folder.write("three", grpc::framed(&grpc::request_of("api", three)));
    let mut rows = vec![
        row("POST /v1/check, one limit", wrk(folder, http, "/v1/check", CHECK_ONE, None)),
        row("POST /v1/check, three limits", wrk(folder, http, "/v1/check", CHECK_THREE, None)),
        row(
            "POST /v1/check, one limit, refused",
            wrk(folder, http, "/v1/check", CHECK_REFUSED, None).refused(),
        ),
        row(
            "POST /v1/check, three limits, refused",
            wrk(folder, http, "/v1/check", CHECK_THREE_REFUSED, None).refused(),
        ),
        row("/v1/authorize", wrk(folder, http, "/v1/authorize?namespace=api&user=ada", "", None)),
        row(
            "/v1/authorize, refused",
            wrk(folder, http, "/v1/authorize?namespace=low&user=ada", "", None).refused(),
        ),
        row("proxy", wrk(folder, proxy, "/", "", Some("ada"))),
    ];
    for (shape, count) in [([4, 16], 250_000), ([16, 1], 150_000)] {
        let ask = |message: &Path| h2load(grpc_port, grpc::PATH, message, shape, count);
        rows.push(row("ShouldRateLimit, one limit", ask(&one)));
        rows.push(row("ShouldRateLimit, one limit, refused", ask(&refused)));
        rows.push(row("ShouldRateLimit, three limits", ask(&three)));
    }
    for (pipeline, count) in PIPELINES {
        let ask = |words| redis_benchmark(resp, pipeline, count, words);
        let throttle = ["CL.THROTTLE", "bench", "1000000", "1000000", "1"];
        rows.push(row("CL.THROTTLE, one key", ask(&throttle)));
        let throttle = ["CL.THROTTLE", "key:__rand_int__", "1000", "1000", "1"];
        rows.push(row("CL.THROTTLE, 100 000 keys", ask(&throttle)));
        rows.push(row("CL.THROTTLE, refused", ask(&["CL.THROTTLE", "low", "1", "1", "86400"])));
        rows.push(row("TG.CHECK", ask(&["TG.CHECK", "api", "user", "ada"])));
        rows.push(row("TG.CHECK, refused", ask(&["TG.CHECK", "low", "user", "ada"])));
        let three = ["TG.CHECK", "api", "user", "ada", "app", "shop", "session", "s1"];
        rows.push(row("TG.CHECK, three limits", ask(&three)));
        let three = ["TG.CHECK", "low", "user", "ada", "app", "shop", "session", "s1"];
        rows.push(row("TG.CHECK, three limits, refused", ask(&three)));
    }
    Ok(rows)
}

/// Commands that are sent at once, and how many in all.
const PIPELINES: [(u32, u32); 2] = [(16, 800_000), (1, 150_000)];

fn redis_rows(redis: &RedisServer) -> Result<Vec<LoadedServer>, Failure> {
    let script = redis_relay::ask(redis, &["SCRIPT", "LOAD", BY_HAND])?;
    let script = crate::resp::text(&script).unwrap_or_default();
    let rows = PIPELINES.into_iter().flat_map(|(pipeline, count)| {
        let row = |name: &str, count, words: &[&str]| {
            let load = redis_benchmark(redis.port(), pipeline, count, words);
            LoadedServer::new(name, "Redis", redis.id(), load)
        };
        let call = ["EVALSHA", script, "1", "key:__rand_int__", "1000", "1000"];
        [
            row("PING", count, &["PING"]),
            row("INCR, 100 000 keys", count, &["INCR", "count:__rand_int__"]),
            row("GCRA script, 100 000 keys", count / 4, &call),
        ]
    });
    Ok(rows.collect())
}

fn start_rival(binary: &Path) -> Result<ChildProcess, Failure> {
    let mut command = Command::new("taskset");
    command.args(["-c", "0"]).arg(binary).args(["--log-level", "error"]);
    for (name, port) in ["http", "grpc", "redis"].into_iter().zip(RIVAL_PORTS) {
        command.arg(format!("--{name}")).args([format!("--{name}-host"), "127.0.0.1".to_owned()]);
        command.args([format!("--{name}-port"), port.to_string()]);
    }
    let rival = ChildProcess::spawn(&mut command)?;
    let listens = |port| raw::RawConnection::open(([127, 0, 0, 1], port).into()).is_ok();
    until("the rival listens", || RIVAL_PORTS.into_iter().all(listens));
    Ok(rival)
}

fn rival_rows(process: u32, folder: &TemporaryFolder) -> Vec<LoadedServer> {
    let [http, grpc_port, resp] = RIVAL_PORTS;
    let row = |name: &str, load| LoadedServer::new(name, "throttlecrab", process, load);
    let request = ThrottleRequest {
        key: "ada-with-twenty-char".to_owned(),
        max_burst: 1_000_000,
        count_per_period: 1_000_000,
        period: 1,
        quantity: 1,
    };
    let message = folder.write("throttle", grpc::framed(&request));
    let mut rows = vec![row("POST /throttle", wrk(folder, http, "/throttle", THROTTLE, None))];
    for (shape, count) in [([4, 16], 250_000), ([16, 1], 150_000)] {
        let path = "/throttlecrab.RateLimiter/Throttle";
        rows.push(row("Throttle", h2load(grpc_port, path, &message, shape, count)));
    }
    for (pipeline, count) in PIPELINES {
        // Every pipeline waits for a delayed acknowledgement there: fewer, or it takes minutes.
        let count = if pipeline > 1 { count / 40 } else { count };
        for (name, key) in [("one key", "bench"), ("100 000 keys", "key:__rand_int__")] {
            let words = ["THROTTLE", key, "1000000", "1000000", "1"];
            rows.push(row(&format!("THROTTLE, {name}"), redis_benchmark(resp, pipeline, count, &words)));
        }
    }
    rows
}

/// Posts a body, or asks without one if it is empty, for three seconds.
fn wrk(folder: &TemporaryFolder, port: u16, path: &str, body: &str, user: Option<&str>) -> LoadProgram {
    let mut lines: Vec<String> = user.iter().map(|user| format!("wrk.headers['x-user']='{user}'")).collect();
    if !body.is_empty() {
        let kind = "wrk.method='POST'; wrk.headers['content-type']='application/json'";
        lines.push(format!("{kind}; wrk.body='{body}'"));
    }
    let name = format!("{port}{path}{body}.lua").replace(|part: char| part.is_ascii_punctuation(), "-");
    let script = folder.write(name, lines.join("; "));
    let words = format!("wrk -t1 -c16 -d3s -s {} http://127.0.0.1:{port}{path}", script.display());
    LoadProgram::new("wrk -c16", &words, None)
}

/// Sends a message `count` times over so many connections with so many streams.
fn h2load(
    port: u16,
    path: &str,
    message: &Path,
    [connections, streams]: [u32; 2],
    count: u32,
) -> LoadProgram {
    let title = format!("h2load -c{connections} -m{streams}");
    let rest = format!("-t1 -n{count} -d {} http://127.0.0.1:{port}{path}", message.display());
    let mut program = LoadProgram::new(&title, &format!("{title} {rest}"), Some(count));
    for header in ["content-type: application/grpc", "te: trailers"] {
        program.words.extend(["-H".to_owned(), header.to_owned()]);
    }
    program
}

fn redis_benchmark(port: u16, pipeline: u32, count: u32, words: &[&str]) -> LoadProgram {
    let title = format!("redis-benchmark -P {pipeline}");
    let rest = format!("-p {port} -c 50 -n {count} -r 100000 -q");
    let mut program = LoadProgram::new(&title, &format!("{title} {rest}"), Some(count));
    program.words.extend(words.iter().map(|word| (*word).to_owned()));
    program
}

impl LoadProgram {
    fn new(title: &str, words: &str, count: Option<u32>) -> Self {
        Self {
            title: title.to_owned(),
            words: words.split(' ').map(str::to_owned).collect(),
            count,
            gets_errors: false,
        }
    }

    /// The same where all requests, or all but the first, are refused by their status.
    fn refused(self) -> Self {
        Self { gets_errors: true, ..self }
    }

    /// Runs it on processor 1. How many answers it got, and how many a second.
    fn run(&self) -> Result<(f64, f64), Failure> {
        let output = Command::new("taskset").args(["-c", "1"]).args(&self.words).output()?;
        let text = String::from_utf8_lossy(&output.stdout);
        let failed = || Failure::Unfinished(format!("{:?}: {text}", self.words));
        let before = |words: &str| text.rsplit_once(words)?.0.split_whitespace().next_back()?.parse().ok();
        let after = |word: &str| text.rsplit_once(word)?.1.split_whitespace().next()?.parse().ok();
        let per_second = match &*self.words[0] {
            "wrk" => after("Requests/sec:"),
            "h2load" => before(" req/s"),
            _ => before(" requests per second"),
        };
        let count: Option<f64> = self.count.map(f64::from).or_else(|| before(" requests in"));
        let are_as_expected = text.contains("Non-2xx") == self.gets_errors
            && (self.words[0] != "h2load" || before(" succeeded") == count);
        if !output.status.success() || !are_as_expected {
            return Err(failed());
        }
        count.zip(per_second).ok_or_else(failed)
    }
}

impl LoadedServer {
    fn new(name: &str, server: &'static str, process: u32, load: LoadProgram) -> Self {
        Self { name: format!("{}: {name}", load.title), server, process, load, seen: Vec::new() }
    }

    fn measure(&mut self) -> Result<(), Failure> {
        let before = processor_seconds(self.process);
        let (answers, per_second) = self.load.run()?;
        self.seen.push((per_second, (processor_seconds(self.process) - before) / answers * 1e6));
        Ok(())
    }

    /// The medians of answers a second and of their cost, its least and its most.
    fn figures(&self) -> [f64; 4] {
        let sorted = |part: fn(&(f64, f64)) -> f64| {
            let mut all: Vec<f64> = self.seen.iter().map(part).collect();
            all.sort_by(f64::total_cmp);
            all
        };
        let (rates, costs) = (sorted(|one| one.0), sorted(|one| one.1));
        let middle = costs.len() / 2;
        [rates[middle], costs[middle], costs[0], costs[costs.len() - 1]]
    }
}

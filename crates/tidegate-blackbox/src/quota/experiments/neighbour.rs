//! A client of Envoy's RLS beside many streams of the quota service, at its daemon and at another
//! daemon. The second shows how much of the difference comes from the machine.

use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use tidegate_test_support::holds_within;
use tidegate_wire::envoy::Code;
use tokio::runtime::{Builder, Runtime};
use tonic::body::Body;

use crate::attack::{Failure, RunContext};
use crate::daemon::{Daemon, processor_seconds};
use crate::findings::{Findings, Gate};
use crate::fleet::attempt::{CheckAttempt, CheckOutcome, percentiles};
use crate::fleet::load;
use crate::grpc::{call, request};
use crate::http2::begin;
use crate::load::measurement::{Percentiles, millis};
use crate::quota::report_streams::ReportStreams;
use crate::redis_relay::start_server;

const STREAMS: u32 = 1000;
const BUCKETS: u32 = 10;

/// Requests a second of the client of RLS.
const RATE: f64 = 500.0;

/// Times alone and beside are measured in turns, so that a slow moment of the machine meets both.
const ROUNDS: u32 = 3;

/// The p99 beside is at most this part of the p99 with the same streams at another daemon.
const RATIO_MAX: f64 = 1.1;

/// Further rounds may take this part of the memory that the first one took: what an ended stream
/// leaves to the allocator serves the next one.
const GROWTH_MAX: f64 = 0.2;

/// How long all streams may take to be assigned their parts.
const ASSIGNED_WITHIN: Duration = Duration::from_mins(1);

/// The leases of streams that are gone have ended after this time.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(40);

/// Beyond it the machine stalls, and the run measures the machine.
const LATE_P99_MAX: Duration = Duration::from_millis(5);

/// The answers of some rounds, and by round the processor seconds each second of the daemon.
#[derive(Debug, Default)]
struct RlsRounds {
    attempts: Vec<CheckAttempt>,
    processor: Vec<f64>,
    /// Of this program.
    generator: Vec<f64>,
}

/// The memory of the daemon in bytes above what it had when it was idle: before streams, with them,
/// and after them.
#[derive(Clone, Copy, Debug)]
struct StreamMemory {
    before: u64,
    with: u64,
    after: u64,
}

pub(in crate::quota) fn run(context: &RunContext, findings: &mut Findings) -> Result<(), Failure> {
    let store = start_server(&[])?;
    let policy = format!(
        "listen: {{ http: '127.0.0.1:0', grpc: '127.0.0.1:0' }}\n\
         store: {{ kind: redis, urls: [{}] }}\nlog: {{ refusals: off, level: warn }}\n\
         namespaces:\n  api: {{ limits: [{{ name: per-user, key: [user], rate: 20/s }}] }}\n  \
         web: {{ limits: [{{ name: per-user, key: [user], rate: 20/s }}] }}\n  \
         rls: {{ limits: [{{ name: per-user, key: [user], rate: 100000/s }}] }}\n",
        store.url()
    );
    let daemon = Daemon::start(context, &policy)?;
    let other = Daemon::start(context, &policy)?;
    let seconds = context.either(20.0, 5.0);
    let mut memory = Vec::new();
    let [mut alone, mut elsewhere, mut beside] = [(); 3].map(|()| RlsRounds::default());
    // Not counted: a daemon that has just started waits for memory.
    RlsRounds::default().add(&daemon, 5.0)?;
    for round in 0..ROUNDS {
        alone.add(&daemon, seconds)?;
        let streams = open_streams(&other)?;
        elsewhere.add(&daemon, seconds)?;
        drop(streams);
        let before = daemon.growth();
        let began = Instant::now();
        let streams = open_streams(&daemon)?;
        if round == 0 {
            let note = format!("from the first of {STREAMS} streams, which begin over 5 s");
            findings.shown("all buckets have a part after", millis(began.elapsed()), "ms", &note);
        }
        let (first, actions) = (Instant::now(), streams.actions());
        beside.add(&daemon, seconds)?;
        let actions = (streams.actions() - actions) as f64 / first.elapsed().as_secs_f64();
        let with = daemon.growth();
        let ended = streams.ended();
        drop(streams);
        thread::sleep(FORGOTTEN_AFTER);
        memory.push(StreamMemory { before, with, after: daemon.growth() });
        if round == 0 {
            findings.shown("actions received each second", actions, "", &format!("{ended} streams ended"));
        }
    }
    let left = ["assigned", "denied"].map(|state| {
        let count = daemon.metric(&format!("tidegate_rlqs_buckets{{state=\"{state}\"}}"));
        count.map_or("unknown".to_owned(), |count| format!("{count} {state}"))
    });
    judge_memory(&memory, &left.join(", "), findings);
    judge(&[("alone", &alone), ("elsewhere", &elsewhere), ("beside", &beside)], findings);
    Ok(())
}

/// Opens the streams at a daemon, and waits until each bucket has a part.
fn open_streams(daemon: &Daemon<'_>) -> Result<ReportStreams, Failure> {
    let streams = ReportStreams::open(daemon.grpc()?, STREAMS, BUCKETS)?;
    let assigned = "tidegate_rlqs_buckets{state=\"assigned\"}";
    let all = u64::from(STREAMS * BUCKETS);
    let are_assigned =
        holds_within(ASSIGNED_WITHIN, || daemon.metric(assigned).is_ok_and(|count| count == all));
    if !are_assigned {
        let count = daemon.metric(assigned)?;
        let text = format!("{count} of {all} buckets assigned; {} streams ended", streams.ended());
        return Err(Failure::Unfinished(text));
    }
    Ok(streams)
}

fn judge_memory(memory: &[StreamMemory], buckets: &str, findings: &mut Findings) {
    let mebibytes = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    let each = memory.iter().map(|StreamMemory { before, with, after }| {
        format!("{:.1}, {:.1}, {:.1}", mebibytes(*before), mebibytes(*with), mebibytes(*after))
    });
    let [first, .., last] = memory else { return };
    let taken = first.with.saturating_sub(first.before) as f64;
    let note = format!(
        "MiB of VmRSS above idle before, with, and {} s after, by round: {}; connections included",
        FORGOTTEN_AFTER.as_secs(),
        each.collect::<Vec<_>>().join("; ")
    );
    findings.shown("memory of a bucket", taken / f64::from(STREAMS * BUCKETS), "bytes", &note);
    let left = first.after.saturating_sub(first.before) as f64 / taken;
    findings.shown("memory: part that stays", left, "", &format!("buckets at the end: {buckets}"));
    let grown = last.after.saturating_sub(first.after) as f64 / taken;
    let gate = Gate::AtMost(GROWTH_MAX);
    findings.gated("memory: growth by further rounds", grown, "", gate, "of what the first round took");
}

fn judge(runs: &[(&str, &RlsRounds); 3], findings: &mut Findings) {
    for (name, rounds) in runs {
        let lateness = percentiles(rounds.attempts.iter().map(|one| one.late));
        let answered = rounds.attempts.iter().filter(|one| one.is_admitted()).count();
        findings.begin_load(name, lateness, LATE_P99_MAX, &format!("{answered} answered"));
        let latency = rounds.latency();
        findings.shown(&format!("{name}: p50"), millis(latency.p50), "ms", "");
        findings.shown(&format!("{name}: p99"), millis(latency.p99), "ms", &rounds.p99_of_each());
        let processor: Vec<String> = rounds.processor.iter().map(|one| format!("{:.0}", 1e3 * one)).collect();
        let mean = rounds.processor.iter().sum::<f64>() / rounds.processor.len() as f64;
        let generator = 1e3 * rounds.generator.iter().sum::<f64>() / rounds.generator.len() as f64;
        let note = format!("by round: {}; of this program {generator:.0} ms", processor.join(", "));
        findings.shown(&format!("{name}: CPU each second"), 1e3 * mean, "ms", &note);
    }
    let [alone, elsewhere, beside] = runs.map(|(_, rounds)| rounds.latency().p99.as_secs_f64());
    findings.shown("p99 beside, of p99 alone", beside / alone, "", "two cores serve all programs");
    let gate = Gate::AtMost(RATIO_MAX);
    findings.gated("p99 beside, of p99 elsewhere", beside / elsewhere, "", gate, "rounds together");
}

impl RlsRounds {
    /// Sends requests for so many seconds.
    fn add(&mut self, daemon: &Daemon<'_>, seconds: f64) -> Result<(), Failure> {
        let began = Instant::now();
        let spent = || [daemon.id(), std::process::id()].map(processor_seconds);
        let before = spent();
        self.attempts.extend(ask(daemon.grpc()?, seconds)?);
        let (after, span) = (spent(), began.elapsed().as_secs_f64());
        self.processor.push((after[0] - before[0]) / span);
        self.generator.push((after[1] - before[1]) / span);
        Ok(())
    }

    /// The times of the answers, from the instant at which each request was to be sent.
    fn latency(&self) -> Percentiles {
        percentiles(self.attempts.iter().map(|one| one.late + one.answered - one.asked))
    }

    fn p99_of_each(&self) -> String {
        let rounds = self.attempts.chunks(self.attempts.len() / ROUNDS as usize);
        let p99 =
            rounds.map(|round| percentiles(round.iter().map(|one| one.late + one.answered - one.asked)).p99);
        format!("by round: {}", p99.map(|p99| format!("{:.2}", millis(p99))).collect::<Vec<_>>().join(", "))
    }
}

/// Asks over one connection.
fn ask(daemon: SocketAddr, seconds: f64) -> Result<Vec<CheckAttempt>, Failure> {
    // Carries the connection on while the load runs.
    let runtime: Runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let sender = runtime.block_on(begin::<Body>(daemon))?;
    let count = (RATE * seconds) as u32;
    let schedule: Vec<(f64, usize)> = (0..count).map(|number| (f64::from(number) / RATE, 0)).collect();
    let attempts = load::run(&schedule, Instant::now(), |_| {
        let answer = call(sender.clone(), tonic::Request::new(request("rls", "user", "ada")));
        async move {
            match answer.await {
                Ok(answer) if answer.overall_code == i32::from(Code::Ok) => CheckOutcome::Admitted,
                Ok(_) => CheckOutcome::RateExceeded,
                Err(_) => CheckOutcome::NoAnswer,
            }
        }
    })?;
    if let Some(lost) = attempts.iter().find(|one| !one.is_admitted()) {
        return Err(Failure::GotThrough(format!("a request of RLS was not admitted: {lost:?}")));
    }
    Ok(attempts)
}

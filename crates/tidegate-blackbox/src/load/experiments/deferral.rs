//! A batch that comes all at once and returns with tickets, beside a tenant that matters.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use tokio::runtime;
use tokio::task::JoinSet;
use tokio::time::{sleep, sleep_until, timeout};

use crate::attack::{Failure, RunContext};
use crate::findings::{Findings, Gate};
use crate::load::generator;
use crate::load::measurement::{Measurement, millis};
use crate::load::schedule::{Schedule, Stream};
use crate::load::testbed::{APP_CAPACITY, APP_WORK, AppPlaces, GOLD, GOLD_RATE, TICKET_SHARE, Testbed};

/// The requests of the batch, which all come within a second.
const BATCH: usize = 3_000;
/// How long after the start the batch comes.
const BATCH_AT: Duration = Duration::from_secs(5);
/// The requests a second that are reserved for tickets.
const RESERVED: f64 = TICKET_SHARE * APP_CAPACITY;
/// The requests of the batch, and the bounds of the issue.
const CALLER: Stream =
    Stream { path: "/", tenant: "batch", class: "sheddable", mean_work: APP_WORK, seed: 9 };
const PEAK_MAX: f64 = 1.2;
const DRAIN_MAX: f64 = 1.3;
const LATENCY_MAX: f64 = 1.25;
const GOLD_SUCCESS_MIN: f64 = 99.9;
/// A caller that waits for one answer for so long gives up.
const PATIENCE: Duration = Duration::from_secs(10);
/// The most answers that one request of the batch gets.
const ATTEMPTS_MAX: u32 = 20;

/// The returns of the batch, and when each of its requests was done.
#[derive(Debug, Default)]
struct Batch {
    /// The instants of returns with a ticket, from the start of the run.
    returns: Vec<Duration>,
    /// The instants at which requests were done.
    done: Vec<Duration>,
    /// The attempts after the first of all requests.
    repeated: usize,
    /// Those that got a ticket at first.
    deferred: usize,
    /// Those that were refused without a ticket, and those that failed or gave up.
    refused: usize,
    failed: usize,
}

pub(crate) fn run(context: &RunContext, findings: &mut Findings) -> Result<(), Failure> {
    let ideal = Duration::from_secs_f64(BATCH as f64 / RESERVED);
    let length = BATCH_AT + ideal.mul_f64(DRAIN_MAX) + Duration::from_secs(5);
    let mut schedule = Schedule::default();
    schedule.add(GOLD, Duration::ZERO, length, GOLD_RATE);

    let alone = Testbed::usual(context, AppPlaces::Deferring)?.load(&schedule)?;
    findings.begin_run("gold alone", &alone);
    let testbed = Testbed::usual(context, AppPlaces::Deferring)?;
    let start = Instant::now() + Duration::from_millis(50);
    let proxy = testbed.proxy();
    let (gold, batch) = thread::scope(|scope| {
        let batch = scope.spawn(move || batch(proxy, start, start + length));
        let gold = generator::run(&schedule, proxy, start);
        (gold, batch.join().expect("a caller does not panic"))
    });
    let (gold, batch) = (gold?, batch?);
    findings.begin_run("gold beside the batch", &gold);
    judge_gold(&alone, &gold, findings);
    judge_batch(&batch, findings);
    Ok(())
}

fn judge_gold(alone: &Measurement, gold: &Measurement, findings: &mut Findings) {
    let success = gold.success() * 100.0;
    findings.gated("gold: answered", success, "%", Gate::AtLeast(GOLD_SUCCESS_MIN), &gold.endings());
    let (before, beside) = (alone.latency().p99, gold.latency().p99);
    let ratio = beside.as_secs_f64() / before.as_secs_f64();
    let note = format!("{:.1} ms beside {:.1} ms alone", millis(beside), millis(before));
    findings.gated("gold: p99", ratio, "", Gate::AtMost(LATENCY_MAX), &note);
}

fn judge_batch(batch: &Batch, findings: &mut Findings) {
    let peak = most_in_a_second(&batch.returns) as f64 / RESERVED;
    let note = format!("{} deferred at first, {RESERVED:.0}/s reserved", batch.deferred);
    findings.gated("returns: peak", peak, "", Gate::AtMost(PEAK_MAX), &note);
    let ideal = batch.deferred as f64 / RESERVED;
    let until = BATCH_AT + Duration::from_secs_f64(1.0 + ideal * DRAIN_MAX);
    let in_time = batch.done.iter().filter(|at| **at <= until).count() as f64 / BATCH as f64 * 100.0;
    let note = format!("{} done, {} refused, {} failed", batch.done.len(), batch.refused, batch.failed);
    findings.gated("batch: done in time", in_time, "%", Gate::AtLeast(99.0), &note);
    let repeated = batch.repeated as f64 / batch.deferred.max(1) as f64;
    findings.gated("batch: attempts after the first", repeated, "", Gate::AtMost(1.05), "for each deferred");
}

/// The most of these instants that fall into one second.
fn most_in_a_second(instants: &[Duration]) -> usize {
    let mut sorted = instants.to_vec();
    sorted.sort_unstable();
    let second = Duration::from_secs(1);
    let within = |from: usize| sorted[from..].iter().take_while(|at| **at < sorted[from] + second).count();
    (0..sorted.len()).map(within).max().unwrap_or(0)
}

/// Sends the batch, and each of its requests again with its ticket, until the end.
fn batch(proxy: SocketAddr, start: Instant, end: Instant) -> std::io::Result<Batch> {
    let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
    let mut connector = HttpConnector::new();
    connector.set_nodelay(true);
    let client = Client::builder(TokioExecutor::new()).pool_max_idle_per_host(1024).build(connector);
    let batch = Arc::new(Mutex::new(Batch::default()));
    runtime.block_on(async {
        let mut callers = JoinSet::new();
        for number in 0..BATCH {
            let offset = BATCH_AT + Duration::from_secs_f64(number as f64 / BATCH as f64);
            let (client, batch) = (client.clone(), Arc::clone(&batch));
            callers.spawn(async move {
                sleep_until((start + offset).into()).await;
                call(&client, proxy, &batch, start, end).await;
            });
        }
        callers.join_all().await;
    });
    Ok(Arc::into_inner(batch).expect("all callers have ended").into_inner().expect("no caller panics"))
}

/// One request of the batch with its repetitions.
async fn call(
    client: &Client<HttpConnector, Full<Bytes>>,
    proxy: SocketAddr,
    batch: &Mutex<Batch>,
    start: Instant,
    end: Instant,
) {
    let note = |change: &dyn Fn(&mut Batch)| change(&mut batch.lock().expect("no caller panics"));
    let mut ticket: Option<HeaderValue> = None;
    for attempt in 0..ATTEMPTS_MAX {
        let (mut head, body) = CALLER.request(APP_WORK).map(Full::new).into_parts();
        head.uri = format!("http://{proxy}/").parse().expect("an address is a URI");
        if let Some(ticket) = &ticket {
            head.headers.insert("tidegate-ticket", ticket.clone());
            note(&|batch| {
                batch.returns.push(start.elapsed());
                batch.repeated += 1;
            });
        }
        let answer = client.request(Request::from_parts(head, body));
        let Ok(Ok(answer)) = timeout(PATIENCE, answer).await else { return note(&|batch| batch.failed += 1) };
        let (head, body) = answer.into_parts();
        let is_read = body.collect().await.is_ok();
        match (head.status, ticket_of(&head.headers)) {
            (StatusCode::OK, _) if is_read => return note(&|batch| batch.done.push(start.elapsed())),
            (StatusCode::SERVICE_UNAVAILABLE, Some((given, wait))) => {
                if attempt == 0 {
                    note(&|batch| batch.deferred += 1);
                }
                if Instant::now() + wait > end {
                    return note(&|batch| batch.failed += 1);
                }
                ticket = Some(given);
                sleep(wait).await;
            }
            (StatusCode::SERVICE_UNAVAILABLE, None) => return note(&|batch| batch.refused += 1),
            _ => return note(&|batch| batch.failed += 1),
        }
    }
    note(&|batch| batch.failed += 1);
}

/// The ticket of an answer, and how long its caller waits.
fn ticket_of(headers: &HeaderMap) -> Option<(HeaderValue, Duration)> {
    let seconds: u64 = headers.get("retry-after")?.to_str().ok()?.parse().ok()?;
    Some((headers.get("tidegate-ticket")?.clone(), Duration::from_secs(seconds)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peak_is_the_most_that_fall_into_any_second() {
        let millis = |all: &[u64]| all.iter().map(|ms| Duration::from_millis(*ms)).collect::<Vec<_>>();
        assert_eq!(most_in_a_second(&millis(&[0, 900, 1_100, 1_800, 5_000])), 3);
        assert_eq!(most_in_a_second(&[]), 0);
    }
}

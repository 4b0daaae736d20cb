//! Requests that show forged tickets: their processor time, and what others notice of them.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Request};

use crate::attack::{Failure, RunContext, require};
use crate::daemon::{Daemon, processor_seconds};
use crate::findings::{Findings, Gate};
use crate::http1;
use crate::load::schedule::Schedule;
use crate::load::testbed::{AppPlaces, BRONZE, GOLD, GOLD_RATE, Testbed};
use crate::raw;

/// The processor time of a request with a forged ticket, as a multiple of that of one without.
const CPU_MAX: f64 = 1.3;
/// The p99 of others beside a flood of forged tickets, as a multiple of that beside a plain flood.
const P99_MAX: f64 = 1.1;
/// How often each is measured, in turn with what it is compared with.
const ROUNDS: usize = 5;
/// Requests whose processor time is measured together.
const REQUESTS: u64 = 100_000;
/// Requests of a flood in a second.
const FLOOD_RATE: f64 = 1000.0;

/// Requests without a class are deferred, and there are more places than they can take.
const POLICY: &str = r"
listen: { http: '127.0.0.1:0' }
resources:
  ample: { concurrency: 100000, defer: { classes: [sheddable_plus] } }
  taken: { concurrency: 1, defer: { classes: [sheddable_plus] } }
namespaces: { load: { limits: [{ name: ample, rate: 10000000/s }] } }
";

pub(crate) fn run(context: &RunContext, findings: &mut Findings) -> Result<(), Failure> {
    processor_time(context, findings)?;
    flood(context, findings)
}

/// Compares the processor time of admitted requests with forged tickets with that of the same
/// requests without.
fn processor_time(context: &RunContext, findings: &mut Findings) -> Result<(), Failure> {
    let daemon = Daemon::start(context, POLICY)?;
    let taken = || http1::post("/v1/check", r#"{"namespace": "load", "resource": "taken"}"#);
    http1::ask(daemon.http()?, taken())?;
    let ticket = forged(&http1::ask(daemon.http()?, taken())?.member("ticket"))?;
    let micros = |headers: &[(&str, &str)]| -> Result<f64, Failure> {
        let request =
            |_| -> Request<Bytes> { http1::get_with("/v1/authorize?namespace=load&resource=ample", headers) };
        let before = processor_seconds(daemon.id());
        let statuses = raw::flood(daemon.http()?, REQUESTS, 2, request)?;
        let admitted = statuses.get(&200).copied().unwrap_or(0);
        require!(admitted == REQUESTS, "of {REQUESTS} requests only {admitted} are admitted: {statuses:?}")?;
        Ok((processor_seconds(daemon.id()) - before) * 1e6 / REQUESTS as f64)
    };
    let (mut plain, mut with_ticket) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        plain.push(micros(&[])?);
        with_ticket.push(micros(&[("tidegate-ticket", &ticket)])?);
    }
    let refused = daemon.metric("tidegate_ticket_faults_total{fault=\"forged\"}")?;
    require!(refused == REQUESTS * ROUNDS as u64, "only {refused} tickets count as forged")?;
    let (plain, with_ticket) = (median(plain), median(with_ticket));
    let note =
        format!("{with_ticket:.1} us beside {plain:.1} us, medians of {ROUNDS} times {REQUESTS} requests");
    findings.gated("processor time of a request", with_ticket / plain, "", Gate::AtMost(CPU_MAX), &note);
    Ok(())
}

/// Compares the latency of a tenant that matters beside a flood of refused requests with and
/// without forged tickets.
fn flood(context: &RunContext, findings: &mut Findings) -> Result<(), Failure> {
    let length = context.either(Duration::from_secs(20), Duration::from_secs(5));
    let mut plain = Schedule::default();
    plain.add(GOLD, Duration::ZERO, length, GOLD_RATE);
    plain.add(BRONZE, Duration::ZERO, length, FLOOD_RATE);
    let mut p99 = |name: &str, has_tickets: bool| -> Result<f64, Failure> {
        let testbed = Testbed::usual(context, AppPlaces::Deferring)?;
        let mut schedule = plain.clone();
        if has_tickets {
            let ticket = forged(&testbed.deferred_ticket()?)?;
            schedule.show_ticket(BRONZE, HeaderValue::try_from(ticket).expect("a ticket is ASCII"));
        }
        let run = testbed.load(&schedule)?;
        findings.begin_run(name, &run);
        let gold = run.of_tenant(GOLD.tenant);
        findings.gated(
            &format!("{name}: gold answered"),
            gold.success() * 100.0,
            "%",
            Gate::AtLeast(99.9),
            "",
        );
        Ok(gold.latency().p99.as_secs_f64() * 1e3)
    };
    let (mut without, mut with_tickets) = (Vec::new(), Vec::new());
    for _ in 0..context.either(3, 1) {
        without.push(p99("plain flood", false)?);
        with_tickets.push(p99("forged tickets", true)?);
    }
    let (without, with_tickets) = (median(without), median(with_tickets));
    let note = format!("{with_tickets:.1} ms beside {without:.1} ms");
    findings.gated("gold: p99", with_tickets / without, "", Gate::AtMost(P99_MAX), &note);
    Ok(())
}

/// The same ticket with another signature.
fn forged(ticket: &str) -> Result<String, Failure> {
    require!(ticket.len() > 2, "there is no ticket: {ticket:?}")?;
    // The last character has two bits of the signature, the one before it has six.
    let (head, tail) = ticket.split_at(ticket.len() - 2);
    let digit = if tail.starts_with('A') { 'B' } else { 'A' };
    Ok(format!("{head}{digit}{}", &tail[1..]))
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

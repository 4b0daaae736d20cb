//! Ten Envoys at two daemons share one limit.

use std::thread;
use std::time::{Duration, Instant};

use super::shares::judge_parts;
use crate::attack::{Failure, RunContext};
use crate::daemon::processor_seconds;
use crate::findings::Findings;
use crate::quota::edge_load::{CallSpan, EdgeLoad, SETTLED_S};
use crate::quota::testbed::{EdgeLimit, QuotaTestbed};
use crate::redis_relay;

/// Units a second.
const RATE: f64 = 200.0;
const LIMIT: EdgeLimit = EdgeLimit { rate: 200 };

/// The daemons that each of the ten reports to.
const HOMES: [&[usize]; 10] = [&[0], &[1], &[0], &[1], &[0], &[1], &[0], &[1], &[0], &[1]];

/// Counters at an instant.
#[derive(Clone, Copy, Debug)]
struct ReportCosts {
    at: Instant,
    reports: u64,
    store_calls: u64,
    redis_scripts: u64,
    /// Seconds of processor time of both daemons, and of Redis.
    daemons: f64,
    redis: f64,
}

pub(in crate::quota) fn run(context: &RunContext, findings: &mut Findings) -> Result<(), Failure> {
    let seconds = context.either(60.0, 20.0) + SETTLED_S;
    let even = [40.0; 10];
    let mut uneven = [20.0; 10];
    uneven[0] = 200.0;
    for (name, demand) in [("ten alike", even), ("one with ten times", uneven)] {
        let testbed = QuotaTestbed::start(context, LIMIT, &HOMES)?;
        let spans = CallSpan::of_each(&demand, seconds);
        let (load, [first, last]) = EdgeLoad::run(&testbed.edges(), &spans, |begun| {
            let costs_at = |at: f64| {
                thread::sleep(Duration::from_secs_f64(at).saturating_sub(begun.elapsed()));
                costs(&testbed)
            };
            Ok([costs_at(SETTLED_S)?, costs_at(seconds)?])
        })?;
        load.begin_findings(name, findings);
        judge_parts(name, &load, &demand, RATE, (SETTLED_S, seconds), findings);
        show_costs(name, &load, first, last, seconds, findings);
    }
    Ok(())
}

fn costs(testbed: &QuotaTestbed<'_>) -> Result<ReportCosts, Failure> {
    let commands = redis_relay::ask(&testbed.store, &["INFO", "commandstats"])?;
    let commands = crate::resp::text(&commands).unwrap_or_default().to_owned();
    Ok(ReportCosts {
        at: Instant::now(),
        reports: testbed.total("tidegate_rlqs_reports_total")?,
        store_calls: testbed.total("tidegate_store_calls_total")?,
        redis_scripts: script_calls(&commands),
        daemons: testbed.daemons().map(|daemon| processor_seconds(daemon.id())).sum(),
        redis: processor_seconds(testbed.store.id()),
    })
}

/// The calls of scripts that a Redis has counted.
fn script_calls(commands: &str) -> u64 {
    let calls = |line: &str| {
        let (command, figures) = line.strip_prefix("cmdstat_")?.split_once(':')?;
        let calls = figures.strip_prefix("calls=")?.split(',').next()?;
        ["eval", "evalsha", "fcall"].contains(&command).then(|| calls.parse::<u64>().ok())?
    };
    commands.lines().filter_map(calls).sum()
}

fn show_costs(
    name: &str,
    load: &EdgeLoad,
    first: ReportCosts,
    last: ReportCosts,
    seconds: f64,
    findings: &mut Findings,
) {
    let span = (last.at - first.at).as_secs_f64();
    let each = |before: u64, after: u64| after.saturating_sub(before) as f64 / span;
    let requests = (0..HOMES.len()).flat_map(|edge| load.at(edge));
    let requests = requests.filter(|one| (SETTLED_S..seconds).contains(&one.asked)).count() as f64 / span;
    let reports = each(first.reports, last.reports);
    findings.shown(
        &format!("{name}: reports each second"),
        reports,
        "",
        &format!("of ten Envoys; {requests:.0} requests a second"),
    );
    let calls = each(first.store_calls, last.store_calls);
    let note = format!(
        "{:.4} a request; {:.2} script calls a second by Redis' own count",
        calls / requests,
        each(first.redis_scripts, last.redis_scripts)
    );
    findings.shown(&format!("{name}: store calls each second"), calls, "", &note);
    let (daemons, redis) = (last.daemons - first.daemons, last.redis - first.redis);
    let note = format!("both daemons; Redis {:.1} ms", 1e3 * redis / span);
    findings.shown(&format!("{name}: CPU each second"), 1e3 * daemons / span, "ms", &note);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_of_scripts_are_counted_and_others_are_not() {
        let text = "# Commandstats\r\ncmdstat_evalsha:calls=12,usec=3\r\ncmdstat_eval:calls=2,usec=3\r\n\
                    cmdstat_evalsha_ro:calls=7\r\ncmdstat_info:calls=5,usec=1\r\n";
        assert_eq!(script_calls(text), 14);
    }
}

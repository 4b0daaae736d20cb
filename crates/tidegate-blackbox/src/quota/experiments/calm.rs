//! Callers that stay within the limit, while something fails.

use std::thread;
use std::time::{Duration, Instant};

use crate::attack::{Failure, RunContext};
use crate::findings::{Findings, Gate};
use crate::quota::edge_load::{CallSpan, EdgeLoad, SETTLED_S};
use crate::quota::testbed::{EdgeLimit, QuotaTestbed};
use crate::redis_relay;

const LIMIT: EdgeLimit = EdgeLimit { rate: 20 };

/// Requests a second of each of the two callers.
const RATE: f64 = 9.0;

/// When the disturbance comes, in seconds.
const DISTURBED_S: f64 = SETTLED_S + 5.0;

/// How long after it the callers go on, in seconds.
const WATCHED_S: f64 = 30.0;

/// The longest that a caller may be refused, in seconds: without a move, and after one.
const REFUSED_AT_MOST_S: f64 = 1.0;
const REFUSED_AFTER_MOVE_AT_MOST_S: f64 = 6.0;

/// A disturbance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CalmFault {
    /// The daemon of both Envoys stops, and starts again.
    RestartDaemon,
    /// The daemon of both Envoys is killed, and starts again.
    KillDaemon,
    /// The store is away for 5 s, and comes back with its data.
    StopStore,
    /// The store loses all data.
    WipeStore,
    /// The store is stopped by a signal for 3 s.
    PauseStore,
    /// The caller of the first Envoy goes to the second one, where another caller is.
    Move,
    /// The only caller, of 15 a second, goes to an Envoy that had none.
    MoveAlone,
}

const CASES: [(&str, CalmFault); 7] = [
    ("a: daemon TERM", CalmFault::RestartDaemon),
    ("b: daemon kill -9", CalmFault::KillDaemon),
    ("c: Redis away for 5 s", CalmFault::StopStore),
    ("d: FLUSHALL", CalmFault::WipeStore),
    ("e: Redis SIGSTOP for 3 s", CalmFault::PauseStore),
    ("f: a caller moves", CalmFault::Move),
    ("g: the only caller moves", CalmFault::MoveAlone),
];

pub(in crate::quota) fn run(context: &RunContext, findings: &mut Findings) -> Result<(), Failure> {
    for (name, fault) in CASES {
        fault.run(name, context, findings)?;
    }
    Ok(())
}

impl CalmFault {
    fn run(self, name: &str, context: &RunContext, findings: &mut Findings) -> Result<(), Failure> {
        let until = DISTURBED_S + WATCHED_S;
        // Both Envoys have the same daemon; the other one only shares the store.
        let mut testbed = QuotaTestbed::start(context, LIMIT, &[&[0], &[0]])?;
        let (load, back) = EdgeLoad::run(&testbed.edges(), &self.spans(until), |begun| {
            thread::sleep(Duration::from_secs_f64(DISTURBED_S).saturating_sub(begun.elapsed()));
            self.disturb(&mut testbed)?;
            Ok(begun.elapsed().as_secs_f64() - DISTURBED_S)
        })?;
        load.begin_findings(name, findings);
        let longest = |from: f64, until: f64| {
            let runs = (0..2).map(|caller| load.longest_refusal(caller, from, until));
            runs.max_by(|one, other| one.seconds.total_cmp(&other.seconds)).expect("two callers")
        };
        let before = longest(SETTLED_S, DISTURBED_S);
        let run = longest(DISTURBED_S, until);
        let is_move = matches!(self, Self::Move | Self::MoveAlone);
        let at_most = if is_move { REFUSED_AFTER_MOVE_AT_MOST_S } else { REFUSED_AT_MOST_S };
        let refused = (0..2)
            .flat_map(|edge| load.at(edge))
            .filter(|one| one.asked >= DISTURBED_S && !one.is_admitted());
        let note = format!(
            "from {:.1} s after the disturbance, which took {back:.1} s; {} of {} refused; before it {:.1} ms",
            run.from - DISTURBED_S,
            refused.count(),
            (0..2).flat_map(|edge| load.at(edge)).filter(|one| one.asked >= DISTURBED_S).count(),
            1e3 * before.seconds
        );
        let gate = Gate::AtMost(1e3 * at_most);
        findings.gated(&format!("{name}: longest refusal"), 1e3 * run.seconds, "ms", gate, &note);
        Ok(())
    }

    /// The callers.
    fn spans(self, until: f64) -> Vec<CallSpan> {
        let span = |caller, edge, rate, from, until| CallSpan { caller, edge, rate, from, until };
        match self {
            Self::Move => vec![
                span(0, 0, RATE, 0.0, DISTURBED_S),
                span(0, 1, RATE, DISTURBED_S, until),
                span(1, 1, RATE, 0.0, until),
            ],
            Self::MoveAlone => {
                vec![span(0, 0, 15.0, 0.0, DISTURBED_S), span(0, 1, 15.0, DISTURBED_S, until)]
            }
            _ => CallSpan::of_each(&[RATE, RATE], until),
        }
    }

    fn disturb(self, testbed: &mut QuotaTestbed<'_>) -> Result<(), Failure> {
        match self {
            Self::RestartDaemon => {
                testbed.terminate_daemon(0)?;
                testbed.start_daemon(0)?;
            }
            Self::KillDaemon => {
                testbed.kill_daemon(0);
                testbed.start_daemon(0)?;
            }
            Self::StopStore => {
                let back = Instant::now() + Duration::from_secs(5);
                testbed.store.kill();
                thread::sleep(back.saturating_duration_since(Instant::now()));
                testbed.start_store();
            }
            Self::WipeStore => {
                redis_relay::ask(&testbed.store, &["FLUSHALL"])?;
            }
            Self::PauseStore => {
                testbed.store.signal("STOP");
                thread::sleep(Duration::from_secs(3));
                testbed.store.signal("CONT");
            }
            Self::Move | Self::MoveAlone => {}
        }
        Ok(())
    }
}

//! Whether callers within their limits are admitted while the store of a fleet fails.
//!
//! Ten daemons share one Redis. 1 000 users send 4 requests a minute of their 5/m, 100 users send 8
//! a second of their 10/s; half of each kind keep to one daemon, the others draw a daemon for each
//! request. 13 greedy users ask for far more than they may, so that a fleet that admits too much is
//! found as well.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use serde_json::{Value, json};

use super::attempt::{CheckAttempt, CheckOutcome, admissions, outcomes, percentiles};
use super::bound::{Allowance, AllowedExcess};
use super::callers::{CallerHabit, CallerLoad, FleetCaller, UserGroup};
use super::disturbance::Disturbance;
use super::disturbance::FaultStep::{
    self, KillMember, KillStore, PauseStore, ResumeStore, StartMember, StartStore, WipeStore,
};
use super::figures::{FigureTable, name_of};
use super::testbed::{DaemonFleet, StoreKind, busy_seconds};
use crate::attack::{Failure, RunContext};
use crate::daemon::processor_seconds;

const MEMBERS: usize = 10;
const LEASE_PERIOD_S: f64 = 5.0;

/// Within this time of the store's return, a member has found it again.
const FOUND_AGAIN_S: f64 = 1.0;

const REFUSED_FOR_AT_MOST_S: f64 = 1.0;
const FIRST_ATTEMPTS_ADMITTED: f64 = 0.99;

/// Beyond it the machine stalls, and the run measures the machine.
const LATE_P99_MAX: Duration = Duration::from_millis(50);

/// When disturbances begin.
const BEGINS_S: f64 = 40.0;

/// Callers of the daemon that is killed, between their move to another one and the return of the
/// store.
const MOVED: &str = "moved";

/// A limit: the kind of its users, units a second, burst.
const LIMITS: [(&str, f64, f64); 2] = [("slow", 5.0 / 60.0, 5.0), ("fast", 10.0, 10.0)];

const USERS: [UserGroup; 6] = [
    UserGroup { kind: "slow", habit: CallerHabit::Sticky, users: 500.0, rate: 4.0 / 60.0 },
    UserGroup { kind: "slow", habit: CallerHabit::Drawn, users: 500.0, rate: 4.0 / 60.0 },
    UserGroup { kind: "slow", habit: CallerHabit::Greedy, users: 10.0, rate: 4.0 },
    UserGroup { kind: "fast", habit: CallerHabit::Sticky, users: 50.0, rate: 8.0 },
    UserGroup { kind: "fast", habit: CallerHabit::Drawn, users: 50.0, rate: 8.0 },
    UserGroup { kind: "fast", habit: CallerHabit::Greedy, users: 3.0, rate: 40.0 },
];

/// Sent before a run begins: a daemon that has just started waits for memory at the first request
/// of most keys. These are other users than those of the run, to which the store is new.
const WARM_UP: [UserGroup; 2] = [
    UserGroup { kind: "slow", habit: CallerHabit::Warm, users: 2000.0, rate: 1.0 / WARM_UP_S },
    UserGroup { kind: "fast", habit: CallerHabit::Warm, users: 200.0, rate: 1.0 },
];
const WARM_UP_S: f64 = 4.0;
const WARM_UPS_MAX: usize = 5;
const WARM_ANSWER_P99: Duration = Duration::from_millis(50);

/// One disturbance. Its steps are in seconds from [`BEGINS_S`].
struct OutageRun {
    name: &'static str,
    title: &'static str,
    seconds: f64,
    store: StoreKind,
    loses_data: bool,
    steps: &'static [(f64, FaultStep)],
}

const fn undisturbed(name: &'static str, title: &'static str, seconds: f64, store: StoreKind) -> OutageRun {
    OutageRun { name, title, seconds, store, loses_data: false, steps: &[] }
}

/// In `control`, each daemon grants the whole limit: callers within theirs are never refused, and
/// greedy users are found beyond the bound.
const RUNS: [OutageRun; 7] = [
    undisturbed("control", "control: no shared state", 60.0, StoreKind::None),
    undisturbed("quiet", "nothing happens", 120.0, StoreKind::Single),
    OutageRun {
        loses_data: true,
        steps: &[(0.0, KillStore), (10.0, KillMember), (20.0, StartMember), (60.0, StartStore)],
        ..undisturbed("store-killed", "Redis killed for 60 s", 160.0, StoreKind::Single)
    },
    OutageRun {
        steps: &[(0.0, PauseStore), (5.0, KillMember), (8.0, StartMember), (20.0, ResumeStore)],
        ..undisturbed("store-paused", "Redis paused for 20 s", 120.0, StoreKind::Single)
    },
    OutageRun {
        loses_data: true,
        steps: &[(0.0, WipeStore), (0.5, KillMember), (1.0, StartMember)],
        ..undisturbed("store-wiped", "FLUSHALL", 120.0, StoreKind::Single)
    },
    OutageRun {
        loses_data: true,
        steps: RESTART,
        ..undisturbed("store-emptied", "Redis restarted empty, 3 s", 120.0, StoreKind::Single)
    },
    OutageRun {
        steps: RESTART,
        ..undisturbed("store-restarted", "Redis restarted with its data, 3 s", 120.0, StoreKind::Durable)
    },
];

const RESTART: &[(f64, FaultStep)] =
    &[(0.0, KillStore), (1.0, KillMember), (1.5, StartMember), (3.0, StartStore)];

/// The figures in the table.
const COLUMNS: &str = "title admitted refused_longer_than_1s longest_refused_s answers beyond_bound \
                       ready_after_s verdict";

/// The options of `fleet outage`.
#[derive(Debug, Args)]
pub struct OutageArguments {
    /// The daemon's binary.
    binary: PathBuf,
    /// Only these runs.
    #[arg(long, value_name = "RUN", num_args = 1.., value_parser = RUNS.map(|run| run.name))]
    only: Vec<String>,
    /// The part of all users; less for a busy machine.
    #[arg(long, value_name = "PART", default_value_t = 1.0)]
    scale: f64,
    /// Append the figures and series of each run to this file, a line each.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Carries runs out; whether all passed their checks.
pub(super) fn run(arguments: &OutageArguments) -> Result<bool, Failure> {
    let context = RunContext::of_binary(&arguments.binary).map_err(Failure::Unfinished)?;
    let report = FigureTable::begin(COLUMNS, arguments.json.as_deref())?;
    let mut has_held = true;
    for run in &RUNS {
        if arguments.only.is_empty() || arguments.only.iter().any(|only| only == run.name) {
            let figures = run.carry_out(&context, arguments.scale)?;
            report.add(&figures)?;
            for failure in figures["failures"].as_array().into_iter().flatten() {
                eprintln!("  fails: {failure}");
                has_held = false;
            }
        }
    }
    Ok(has_held)
}

/// Sends requests of other users until daemons answer at once.
fn warm_up(fleet: &DaemonFleet<'_>, scale: f64) -> Result<(), Failure> {
    for _ in 0..WARM_UPS_MAX {
        let attempts =
            CallerLoad::new(&WARM_UP, scale, fleet.addresses()?, Instant::now(), WARM_UP_S).run()?;
        if percentiles(attempts.iter().map(|one| one.answered - one.asked)).p99 < WARM_ANSWER_P99 {
            break;
        }
    }
    Ok(())
}

/// From when to when members may be unable to reach the store.
fn silence(disturbance: &Disturbance) -> Option<(f64, f64)> {
    let gone = disturbance.instant(&[KillStore, PauseStore])?;
    Some((gone, disturbance.instant(&[StartStore, ResumeStore])? + FOUND_AGAIN_S))
}

/// The time for which a caller is promised nothing: it has moved to a daemon that decides alone and
/// was granted nothing for its key yet, so its share is the rate divided by all members.
fn moved_during(moved_at: Option<f64>, disturbance: &Disturbance) -> Option<(f64, f64)> {
    let (moved_at, (begin, end)) = (moved_at?, silence(disturbance)?);
    (begin..=end).contains(&moved_at).then_some((moved_at, end))
}

/// The longest span in which every attempt of one caller was refused, and its beginning. It goes
/// from the question of the first refused attempt to the answer of the next admitted one, or to the
/// last answer if none was admitted.
fn longest_refusal(attempts: &[CheckAttempt]) -> (f64, f64) {
    let (mut longest, mut begun) = ((0.0, 0.0), None);
    for attempt in attempts {
        if begun.is_some() || !attempt.is_admitted() {
            let since = *begun.get_or_insert(attempt.asked);
            if attempt.answered - since > longest.0 {
                longest = (attempt.answered - since, since);
            }
        }
        if attempt.is_admitted() {
            begun = None;
        }
    }
    longest
}

impl OutageRun {
    fn carry_out(&self, context: &RunContext, scale: f64) -> Result<Value, Failure> {
        let consistency = if self.store == StoreKind::None { ", consistency: local" } else { "" };
        let limits = format!(
            "{{ name: slow, match: {{ kind: slow }}, key: [user], rate: 5/m{consistency} }}, \
             {{ name: fast, match: {{ kind: fast }}, key: [user], rate: 10/s{consistency} }}"
        );
        let mut fleet = DaemonFleet::start(context, self.store, limits, MEMBERS)?;
        warm_up(&fleet, scale)?;
        let steps: Vec<_> = self.steps.iter().map(|(at, step)| (BEGINS_S + at, *step)).collect();
        let processors =
            |fleet: &DaemonFleet<'_>| [processor_seconds(std::process::id()), fleet.cpu(), busy_seconds()];
        let before = processors(&fleet);
        let begun = Instant::now();
        let load = CallerLoad::new(&USERS, scale, fleet.addresses()?, begun, self.seconds);
        let (attempts, disturbance) = thread::scope(|scope| {
            let beside = scope.spawn(|| {
                Disturbance::carry_out(&steps, &mut fleet, begun, |member| load.add_member(member))
            });
            (load.run(), beside.join().expect("a disturbance does not panic"))
        });
        // The processor time of a member that was killed is lost with it.
        let after = processors(&fleet);
        let took = begun.elapsed().as_secs_f64();
        let share = |index: usize| (after[index] - before[index]) / took;
        let mut figures = self.figures(&disturbance?, &load, &attempts?);
        figures["scale"] = scale.into();
        figures["cpu_share"] = json!({ "load": share(0), "members": share(1), "machine": share(2) });
        Ok(figures)
    }

    /// The units that the bounds allow a user beside `B + 0.1 s * R`.
    fn allowance(&self, disturbance: &Disturbance, rate: f64, burst: f64) -> Allowance {
        let members = MEMBERS + usize::from(!self.steps.is_empty());
        let silence = silence(disturbance).map(|(begin, end)| AllowedExcess {
            begin,
            end,
            rate: 2.0 * rate,
            units: burst.max(10.0 * members as f64),
        });
        let lost_at = disturbance.instant(&[KillStore, WipeStore]).filter(|_| self.loses_data);
        let loss = lost_at.map(|begin| {
            // Leases of the lost record run on beside the new one, for two periods at most.
            let after = 2.0 * LEASE_PERIOD_S;
            let end = disturbance.instant(&[StartStore]).unwrap_or(begin) + after;
            AllowedExcess { begin, end, rate: 0.0, units: burst + after * rate }
        });
        Allowance { rate, exceptions: silence.into_iter().chain(loss).collect() }
    }

    fn figures(&self, disturbance: &Disturbance, load: &Arc<CallerLoad>, attempts: &[CheckAttempt]) -> Value {
        let mut by_caller: Vec<Vec<CheckAttempt>> = load.callers.iter().map(|_| Vec::new()).collect();
        for attempt in attempts {
            by_caller[attempt.caller].push(*attempt);
        }
        // First attempts and those of them that were admitted, by group.
        let mut groups = BTreeMap::<String, (usize, usize)>::new();
        let mut refused = BTreeMap::<String, usize>::new();
        let mut beyond = BTreeMap::<String, f64>::new();
        let mut conforming = Vec::new();
        let mut longest = (0.0, 0.0);
        for (index, (caller, own)) in load.callers.iter().zip(&mut by_caller).enumerate() {
            own.sort_by(|one, other| one.answered.total_cmp(&other.answered));
            let UserGroup { kind, habit, .. } = caller.group;
            let (_, rate, burst) = *LIMITS.iter().find(|limit| limit.0 == kind).expect("kinds have limits");
            let units = self.allowance(disturbance, rate, burst).certainly_beyond(&admissions(own));
            let users = if habit == CallerHabit::Greedy { "greedy" } else { "within" };
            let most = beyond.entry(format!("{kind} {users}")).or_insert(f64::NEG_INFINITY);
            // Rounded, as sums of instants are not exact.
            *most = most.max(((units - burst - 0.1 * rate) * 100.0).round() / 100.0);
            if habit == CallerHabit::Greedy {
                continue;
            }
            let group = group_of(caller);
            let moved = moved_during(load.counts().moved_at(index), disturbance);
            let (begin, end) = moved.unwrap_or((f64::INFINITY, f64::INFINITY));
            let (before, later): (Vec<_>, Vec<_>) = own.iter().copied().partition(|one| one.asked < begin);
            let (meanwhile, after): (Vec<_>, Vec<_>) = later.into_iter().partition(|one| one.asked <= end);
            for (group, part) in [(&*group, &before), (MOVED, &meanwhile), (&*group, &after)] {
                let (lasted, since) = longest_refusal(part);
                *refused.entry(group.to_owned()).or_default() += usize::from(lasted > REFUSED_FOR_AT_MOST_S);
                if group != MOVED && lasted > longest.0 {
                    longest = (lasted, since);
                }
                for name in [group, "all"] {
                    let counts = groups.entry(name.to_owned()).or_default();
                    let first = part.iter().filter(|one| one.number == 0);
                    counts.0 += first.clone().count();
                    counts.1 += first.filter(|one| one.is_admitted()).count();
                }
            }
            conforming.extend_from_slice(own);
        }
        let with_attempts = groups.iter().filter(|(_, counts)| counts.0 > 0);
        let admitted: BTreeMap<_, _> =
            with_attempts.map(|(name, counts)| (name.clone(), counts.1 as f64 / counts.0 as f64)).collect();
        let counts = load.counts();
        let late = percentiles(attempts.iter().map(|one| one.late));
        let took = percentiles(attempts.iter().map(|one| one.answered - one.asked));
        let ms = |duration: Duration| duration.as_secs_f64() * 1e3;

        let mut failures = Vec::new();
        let mut require = |holds: bool, failure: String| failures.extend((!holds).then_some(failure));
        for (name, part) in admitted.iter().filter(|(name, _)| *name != MOVED) {
            let text = format!("{name}: {:.1} % of first attempts admitted, 99 % expected", 100.0 * part);
            require(*part >= FIRST_ATTEMPTS_ADMITTED, text);
        }
        for (name, users) in refused.iter().filter(|(name, _)| *name != MOVED) {
            require(*users == 0, format!("{name}: {users} users refused at every attempt for over a second"));
        }
        for (name, units) in &beyond {
            if self.store == StoreKind::None && name.ends_with("greedy") {
                require(
                    *units > 0.0,
                    format!("{name}: the check of the bound does not find daemons that share nothing"),
                );
            } else {
                require(
                    *units <= 0.0,
                    format!("{name}: a user has {units:.1} units more than the bound allows"),
                );
            }
        }
        let is_ready = self.steps.is_empty() || disturbance.ready_after.is_some();
        require(is_ready, "the member that was started never became ready".to_owned());
        let is_valid = counts.unsent == 0 && late.p99 <= LATE_P99_MAX;
        require(is_valid, "invalid: not sent, or late; use a quieter machine or lower --scale".to_owned());
        let verdict = match (is_valid, failures.is_empty()) {
            (false, _) => "invalid",
            (true, false) => "fails",
            (true, true) => "holds",
        };
        let steps = disturbance.steps.iter().map(|(step, at)| (name_of(step), at));
        json!({
            "part": "outage", "name": self.name, "title": self.title, "seconds": self.seconds,
            "steps": steps.collect::<Vec<_>>(), "ready_after_s": disturbance.ready_after,
            "first_attempts": groups.iter().map(|(name, counts)| (name, counts.0)).collect::<BTreeMap<_, _>>(),
            "admitted": admitted, "refused_longer_than_1s": refused,
            "longest_refused_s": longest.0, "longest_refused_from": longest.1,
            "beyond_bound": beyond, "answers": outcomes(&conforming),
            "attempts_a_second": attempts.len() as f64 / self.seconds,
            "late_p50_ms": ms(late.p50), "late_p99_ms": ms(late.p99), "late_max_ms": ms(late.max),
            "p50_ms": ms(took.p50), "p99_ms": ms(took.p99),
            "unsent": counts.unsent, "broken": counts.broken, "moved": counts.moved,
            "unanswered": outcomes(attempts)[&CheckOutcome::NoAnswer],
            "series": self.series(load, &conforming), "failures": failures, "verdict": verdict,
        })
    }

    /// First attempts by group, by answer and by second of asking.
    fn series(&self, load: &CallerLoad, conforming: &[CheckAttempt]) -> Value {
        let none = || CheckOutcome::ALL.map(|outcome| (outcome, vec![0_u32; self.seconds as usize]));
        let mut series = BTreeMap::<String, BTreeMap<CheckOutcome, Vec<u32>>>::new();
        for attempt in conforming.iter().filter(|one| one.number == 0 && one.asked < self.seconds) {
            let group =
                series.entry(group_of(&load.callers[attempt.caller])).or_insert_with(|| none().into());
            group.entry(attempt.outcome).or_default()[attempt.asked as usize] += 1;
        }
        series.into_iter().map(|(group, first)| (group, json!({ "first": first }))).collect()
    }
}

fn group_of(caller: &FleetCaller) -> String {
    format!("{} {}", caller.group.kind, name_of(caller.group.habit))
}

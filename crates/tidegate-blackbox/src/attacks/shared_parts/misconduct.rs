//! A namespace that brings names and numbers which are not true, beside one that does not.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use super::callers::{
    CallerGroup, LOUD, QUIET, RequestEnd, TenantNames, served_per_second, served_per_second_of_enough,
};
use super::{AFTER_EXPIRY, AFTER_WINDOWS, KEPT_MIN, WARM_UP, policy};
use crate::attack::{AttackResult, RunContext, all_hold, require};
use crate::daemon::Daemon;

/// A namespace that does what [`QUIET`] does not.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MisconductCase {
    name: &'static str,
    group: CallerGroup,
    concurrency: &'static str,
    warm_up: Duration,
    /// Whether it can take from both, so that parts do not show it.
    judges_throughput: bool,
    /// How long a request of the quiet namespace waits; `None`: as one of the loud one.
    quiet_wait_ms: Option<u32>,
}

const PLAIN: MisconductCase = MisconductCase {
    name: "",
    group: LOUD,
    concurrency: "8",
    warm_up: WARM_UP,
    judges_throughput: false,
    quiet_wait_ms: None,
};

/// The requests a second of callers that do no work, so that places decide and not the processor
/// that all share.
const QUICK_PER_SECOND: u32 = 4_000;

/// The requests a second of callers that do not wait: five times what the service can do.
const IMPATIENT_PER_SECOND: u32 = 1_000;

/// Names of tenants, in a queue that has room and in one that they can fill.
pub(crate) const TENANTS: &[MisconductCase] = &[
    MisconductCase {
        name: "100 callers with a new tenant for each request",
        group: CallerGroup { callers: 100, tenants: TenantNames::New, ..LOUD },
        ..PLAIN
    },
    MisconductCase {
        name: "200 of them, more than its queue has room for",
        group: CallerGroup { callers: 200, tenants: TenantNames::New, ..LOUD },
        ..PLAIN
    },
    MisconductCase {
        name: "100 callers that do not wait",
        group: CallerGroup { callers: 100, tenants: TenantNames::New, wait_ms: 0, ..LOUD },
        ..PLAIN
    },
];

/// Many callers of one tenant, and the same as those that do not wait.
const PATIENT: CallerGroup = CallerGroup { callers: 100, tenants: TenantNames::Some(1), ..LOUD };
const IMPATIENT: CallerGroup = CallerGroup { per_second: IMPATIENT_PER_SECOND, wait_ms: 0, ..PATIENT };

/// Callers that do not wait, and callers that wait beside those that do not.
pub(crate) const IMPATIENCE: &[MisconductCase] = &[
    MisconductCase { name: "100 callers of one tenant that do not wait", group: IMPATIENT, ..PLAIN },
    MisconductCase {
        name: "100 callers of the highest class that do not wait",
        group: CallerGroup { class: "critical_plus", tenants: LOUD.tenants, ..IMPATIENT },
        ..PLAIN
    },
    MisconductCase {
        name: "100 callers that wait beside some that do not",
        group: PATIENT,
        quiet_wait_ms: Some(0),
        ..PLAIN
    },
    MisconductCase {
        name: "100 callers that do not wait beside some that do",
        group: IMPATIENT,
        quiet_wait_ms: Some(QUIET.wait_ms),
        ..PLAIN
    },
];

/// Numbers that callers say.
pub(crate) const NUMBERS: &[MisconductCase] = &[
    MisconductCase {
        name: "settlements of 2^63",
        group: CallerGroup { end: RequestEnd::WorkedAtHugeCost, ..LOUD },
        ..PLAIN
    },
    MisconductCase {
        name: "attempts called the fifth",
        group: CallerGroup { callers: 48, headers: &[("tidegate-attempt", "5")], ..LOUD },
        ..PLAIN
    },
    MisconductCase {
        name: "settlements at once",
        group: CallerGroup { callers: 48, per_second: QUICK_PER_SECOND, end: RequestEnd::AtOnce, ..LOUD },
        judges_throughput: true,
        ..PLAIN
    },
    MisconductCase {
        name: "places that are never settled",
        group: CallerGroup { callers: 48, end: RequestEnd::Never, ..LOUD },
        warm_up: AFTER_EXPIRY,
        judges_throughput: true,
        ..PLAIN
    },
    MisconductCase {
        name: "places kept three times as long",
        group: CallerGroup { callers: 48, end: RequestEnd::WorkedLong, ..LOUD },
        ..PLAIN
    },
    MisconductCase {
        name: "places that are settled just in time",
        group: CallerGroup { callers: 48, end: RequestEnd::JustInTime, ..LOUD },
        warm_up: AFTER_EXPIRY,
        judges_throughput: true,
        ..PLAIN
    },
    MisconductCase {
        name: "failures, with `concurrency: auto`",
        group: CallerGroup { callers: 24, end: RequestEnd::Failed, ..LOUD },
        concurrency: "{ algorithm: vegas, initial: 8, min: 1, max: 64 }",
        warm_up: AFTER_WINDOWS,
        judges_throughput: true,
        ..PLAIN
    },
];

/// How long a run is counted, and what is asked of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct JudgedRun {
    /// No run waits longer for what is right before it is counted.
    warm_up_max: Duration,
    within: Duration,
    /// Whether it is counted by requests rather than by the clock.
    counts_requests: bool,
    /// The least part of its half of the places that the quiet namespace keeps. On a machine that
    /// others use, its own callers keep places for longer than their work.
    part_min: f64,
    /// The same where it does not wait and the other does: it takes a place that is free when it
    /// asks, and on a machine that others use it asks seldom. Before its part was held it had none.
    part_min_without_wait: f64,
    /// The least that the quiet namespace keeps of what it has beside one that does as it does. On
    /// a machine that others use, both of them have less.
    throughput_min: f64,
}

/// A few seconds for each case.
pub(crate) const BRIEF: JudgedRun = JudgedRun {
    warm_up_max: AFTER_EXPIRY,
    within: Duration::from_millis(1200),
    counts_requests: true,
    part_min: 0.7,
    part_min_without_wait: 0.35,
    throughput_min: 0.0,
};
/// Half a minute for each case.
pub(crate) const LONG: JudgedRun = JudgedRun {
    warm_up_max: AFTER_WINDOWS,
    within: Duration::from_secs(30),
    counts_requests: false,
    part_min: KEPT_MIN,
    part_min_without_wait: KEPT_MIN,
    throughput_min: KEPT_MIN,
};
/// The same in a brief run where nothing but the throughput tells who has what.
const THROUGHPUT_MIN: f64 = 0.35;

/// The quiet namespace beside one that does as it does, and then beside each that does not.
pub(crate) fn beside_misconduct(
    context: &RunContext,
    all: &[MisconductCase],
    judged: JudgedRun,
) -> AttackResult {
    let mut fair = BTreeMap::new();
    all_hold(all.iter().map(|one| {
        let policy = policy(one.concurrency, "requests: 150, wait: 500ms", "critical_plus", None);
        // Both claim the same class.
        let wait_ms = one.quiet_wait_ms.unwrap_or(one.group.wait_ms);
        let quiet = CallerGroup { wait_ms, class: one.group.class, ..QUIET };
        let run = |loud| {
            let daemon = Daemon::start(context, &policy)?;
            let (groups, warm_up) = ([quiet, loud], one.warm_up.min(judged.warm_up_max));
            if judged.counts_requests {
                served_per_second_of_enough(&daemon, &groups, warm_up, judged.within)
            } else {
                served_per_second(&daemon, &groups, warm_up, judged.within)
            }
        };
        let throughput_min = if one.judges_throughput {
            THROUGHPUT_MIN.max(judged.throughput_min)
        } else {
            judged.throughput_min
        };
        let served = run(one.group)?;
        let mut text = format!("{}: {:.0} a second beside {:.0}", one.name, served[0], served[1]);
        let mut throughput = 1.0;
        if throughput_min > 0.0 {
            let like = (one.concurrency, wait_ms, quiet.class);
            let own = match fair.get(&like) {
                Some(own) => *own,
                None => run(CallerGroup { namespace: LOUD.namespace, ..quiet })?[0],
            };
            fair.insert(like, own);
            throughput = served[0] / own.max(f64::MIN_POSITIVE);
            let _ = write!(text, ", {:.0} % of what it has beside its like", throughput * 100.0);
        }
        let loud = served[1] * one.group.end.works();
        let part = 2.0 * served[0] / (served[0] + loud).max(f64::MIN_POSITIVE);
        let _ = write!(text, ", {:.0} % of half of the places", part * 100.0);
        let part_min =
            if wait_ms < one.group.wait_ms { judged.part_min_without_wait } else { judged.part_min };
        require!(part >= part_min && throughput >= throughput_min, "{text}")?;
        Ok(text)
    }))
}

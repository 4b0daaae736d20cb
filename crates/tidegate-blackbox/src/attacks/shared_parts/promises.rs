//! The parts that are promised to lower classes, under floods of higher ones.

use std::time::Duration;

use super::callers::{AskedOver, CallerGroup, QUIET, TenantNames, WORK, WORKERS, served_per_second};
use super::{AFTER_WINDOWS, CAPACITY, KEPT_MIN, WARM_UP, policy};
use crate::attack::{AttackResult, RunContext, all_hold, require};
use crate::daemon::Daemon;
use crate::upstream::{Manner, Service, Upstream};

/// A promise to a lower class.
#[derive(Clone, Copy, Debug)]
struct SharePromise {
    keys: &'static str,
    flood: &'static str,
    lower: &'static str,
    /// The requests that the lower class makes in a second.
    asked: u32,
    /// The part of the capacity that is its own then.
    part: f64,
}

const PROMISES: &[SharePromise] = &[
    SharePromise {
        keys: "min_share: { sheddable: 0.05 }",
        flood: "critical",
        lower: "sheddable",
        asked: 40,
        part: 0.05,
    },
    SharePromise {
        keys: "weights: { critical_plus: 1, critical: 1, sheddable_plus: 1, sheddable: 1 }",
        flood: "critical",
        lower: "sheddable",
        asked: 40,
        part: 0.2,
    },
    SharePromise {
        keys: "priority_share: 0.1, weights: { critical_plus: 1, critical: 8 }",
        flood: "critical_plus",
        lower: "critical",
        asked: 30,
        part: 0.15,
    },
    SharePromise { keys: "", flood: "critical", lower: "sheddable", asked: 60, part: 1.0 / 9.0 },
];

/// Floods of a higher class, for a few seconds each.
pub(crate) fn classes_brief(context: &RunContext) -> AttackResult {
    let flood = ClassFlood { asked_over: AskedOver::Http, concurrency: "8", tenants: 10, percent: 150 };
    let floods = PROMISES.iter().map(|promise| (*promise, flood));
    // In three seconds a promise of 10 a second is 30 requests, and 25 are as likely as 35.
    below_floods(context, floods, Duration::from_secs(3), 0.7)
}

/// Each promise under each flood, for half a minute each.
pub(crate) fn classes_long(context: &RunContext) -> AttackResult {
    let mut all = Vec::new();
    for asked_over in [AskedOver::Http, AskedOver::Proxy] {
        for concurrency in ["8", "auto"] {
            for tenants in [1, 10] {
                for percent in [105, 150] {
                    let flood = ClassFlood { asked_over, concurrency, tenants, percent };
                    all.extend(PROMISES.iter().map(|promise| (*promise, flood)));
                }
            }
        }
    }
    below_floods(context, all.into_iter(), Duration::from_secs(30), KEPT_MIN)
}

/// A flood of a higher class.
#[derive(Clone, Copy, Debug)]
struct ClassFlood {
    asked_over: AskedOver,
    concurrency: &'static str,
    tenants: u64,
    /// The requests that it makes, in hundredths of the capacity.
    percent: u32,
}

fn below_floods(
    context: &RunContext,
    floods: impl Iterator<Item = (SharePromise, ClassFlood)>,
    within: Duration,
    kept_min: f64,
) -> AttackResult {
    all_hold(floods.map(|(promise, flood)| {
        let queue = format!("requests: 1000, wait: 500ms, {}", promise.keys);
        let upstream = Upstream::start(Manner::Works(Service::new(WORKERS, WORK)))?;
        let policy = policy(flood.concurrency, &queue, "critical_plus", Some(&upstream));
        let warm_up = if flood.concurrency == "auto" { AFTER_WINDOWS } else { WARM_UP };
        let group = |class, per_second: u32, tenants| CallerGroup {
            class,
            // Each request waits for half a second at most, and works.
            callers: per_second * 7 / 10,
            per_second,
            tenants: TenantNames::Some(tenants),
            asked_over: flood.asked_over,
            ..QUIET
        };
        let groups = [
            group(promise.lower, promise.asked, 1),
            group(promise.flood, CAPACITY * flood.percent / 100, flood.tenants),
        ];
        let daemon = Daemon::start(context, &policy)?;
        let run = served_per_second(&daemon, &groups, warm_up, within)?;
        let served = run[0] + run[1];
        let own = (promise.part * served).min(f64::from(promise.asked));
        let text = format!(
            "{} under {:?} with {}, {} tenants, {} %: {:.1} of {own:.1} a second, {served:.0} in all",
            if promise.keys.is_empty() { "default" } else { promise.keys },
            flood.asked_over,
            flood.concurrency,
            flood.tenants,
            flood.percent,
            run[0],
        );
        require!(run[0] >= kept_min * own, "{text}")?;
        Ok(text)
    }))
}

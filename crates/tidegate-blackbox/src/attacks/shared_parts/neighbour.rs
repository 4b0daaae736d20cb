//! A namespace that does everything it may at a resource, at once and for minutes, beside one that
//! does what it should.
//!
//! Both may claim the same classes. The quiet namespace is measured beside one that does as it
//! does first. Then the loud one has a group of callers for each way of taking more, [`HOSTILE`],
//! at bounded rates, so that the resource decides and not the processor that all share.
//!
//! Callers that settle nothing hold places for at least a second until those expire. The seconds in
//! which places expire, and the ones before, are left out of what is judged and may be
//! [`EXPIRY_PART_MAX`] of all.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use super::callers::{
    AskedOver, CallerGroup, LOUD, QUIET, RequestEnd, ServedRequest, TenantNames, serve_groups,
};
use super::{AFTER_WINDOWS, KEPT_MIN, policy};
use crate::attack::{AttackResult, Failure, RunContext, require};
use crate::daemon::Daemon;
use crate::load::measurement::Percentiles;

/// The p99 of the quiet namespace, as a multiple of its p99 beside its like.
const P99_RATIO_MAX: f64 = 2.0;
/// The part of all seconds in which places may expire.
const EXPIRY_PART_MAX: f64 = 0.1;
/// The places that expired.
const EXPIRED: &str = "tidegate_resource_places_expired_total{resource=\"app\"}";
/// The part of the whole time that the quiet namespace runs beside its like.
const FAIR_PART: f64 = 0.2;

/// The groups of the loud namespace, each of which claims the highest class.
const HOSTILE: &[CallerGroup] = &[
    CallerGroup {
        callers: 40,
        per_second: 200,
        tenants: TenantNames::New,
        end: RequestEnd::WorkedAtHugeCost,
        ..CLAIMING
    },
    CallerGroup { callers: 20, per_second: 100, headers: &[("tidegate-attempt", "5")], ..CLAIMING },
    CallerGroup { callers: 20, per_second: 200, end: RequestEnd::AtOnce, ..CLAIMING },
    CallerGroup { callers: 10, per_second: 50, end: RequestEnd::WorkedLong, ..CLAIMING },
    CallerGroup { callers: 10, per_second: 50, end: RequestEnd::Failed, ..CLAIMING },
    CallerGroup { callers: 8, per_second: 50, end: RequestEnd::Never, ..CLAIMING },
    CallerGroup { callers: 16, end: RequestEnd::JustInTime, ..CLAIMING },
    CallerGroup {
        callers: 4,
        per_second: 25,
        asked_over: AskedOver::Reserve,
        end: RequestEnd::Never,
        ..CLAIMING
    },
    CallerGroup {
        callers: 4,
        per_second: 25,
        asked_over: AskedOver::Resp,
        end: RequestEnd::Never,
        ..CLAIMING
    },
    CallerGroup { callers: 10, per_second: 100, end: RequestEnd::Left, ..CLAIMING },
    CallerGroup { callers: 20, per_second: 200, tenants: TenantNames::New, wait_ms: 0, ..CLAIMING },
];
const CLAIMING: CallerGroup = CallerGroup { class: "critical_plus", ..LOUD };

/// Ten minutes by default; [`RunContext::minutes`].
pub(crate) fn run(context: &RunContext, concurrency: &str) -> AttackResult {
    let policy = policy(concurrency, "requests: 150, wait: 500ms", QUIET.class, None);
    let within = Duration::from_secs_f64(context.minutes() * 60.0);
    let fair = NeighbourRun::run(context, &policy, &[LOUD], within.mul_f64(FAIR_PART))?;
    let beside = NeighbourRun::run(context, &policy, HOSTILE, within.mul_f64(1.0 - FAIR_PART))?;
    let part = beside.per_second() / fair.per_second().max(f64::MIN_POSITIVE);
    let (p99_fair, p99) = (fair.p99(), beside.p99());
    let expiry_part = f64::from(beside.expiring.len() as u32) / f64::from(beside.seconds.max(1));
    let seen = format!(
        "{:.1} a second beside its like, {:.1} beside everything, {:.0} %; p99 {:.1} -> {:.1} ms; places expired in {} \
         of {} seconds, with them {:.1} a second and p99 {:.1} ms",
        fair.per_second(),
        beside.per_second(),
        part * 100.0,
        p99_fair * 1000.0,
        p99 * 1000.0,
        beside.expiring.len(),
        beside.seconds,
        f64::from(beside.requests.len() as u32) / f64::from(beside.seconds.max(1)),
        percentile_99(beside.requests.iter()) * 1000.0,
    );
    let is_kept = part >= KEPT_MIN && p99 <= P99_RATIO_MAX * p99_fair && expiry_part <= EXPIRY_PART_MAX;
    require!(is_kept, "{seen}")?;
    Ok(seen)
}

/// The requests of the quiet namespace, and the seconds that are left out.
struct NeighbourRun {
    requests: Vec<ServedRequest>,
    expiring: BTreeSet<u64>,
    seconds: u32,
}

impl NeighbourRun {
    fn run(
        context: &RunContext,
        policy: &str,
        loud: &[CallerGroup],
        within: Duration,
    ) -> Result<Self, Failure> {
        let daemon = Daemon::start(context, policy)?;
        let groups: Vec<CallerGroup> = [QUIET].iter().chain(loud).copied().collect();
        let seconds = within.as_secs().max(1) as u32;
        let expiring = Mutex::new(Ok(BTreeSet::new()));
        let (mut served, _) = serve_groups(&daemon, &groups, AFTER_WINDOWS, |_| {
            *expiring.lock().expect("no one else has it") = seconds_of_expiry(&daemon, seconds);
        })?;
        let expiring = expiring.into_inner().expect("no one else had it")?;
        let requests = served.swap_remove(0);
        Ok(Self { requests, expiring, seconds })
    }

    fn judged(&self) -> impl Iterator<Item = &ServedRequest> {
        self.requests.iter().filter(|request| !self.expiring.contains(&request.asked_at.as_secs()))
    }

    fn per_second(&self) -> f64 {
        let seconds = f64::from(self.seconds) - f64::from(self.expiring.len() as u32);
        f64::from(self.judged().count() as u32) / seconds.max(1.0)
    }

    fn p99(&self) -> f64 {
        percentile_99(self.judged())
    }
}

/// The 99th percentile; 0 of nothing.
fn percentile_99<'all>(requests: impl Iterator<Item = &'all ServedRequest>) -> f64 {
    Percentiles::from_durations(requests.map(|request| request.waited)).p99.as_secs_f64()
}

/// The seconds from now on in which places expire, and the one before each.
fn seconds_of_expiry(daemon: &Daemon<'_>, seconds: u32) -> Result<BTreeSet<u64>, Failure> {
    let began = Instant::now();
    let mut expiring = BTreeSet::new();
    let mut expired = daemon.metric(EXPIRED)?;
    for second in 0..seconds {
        thread::sleep((Duration::from_secs(1) * (second + 1)).saturating_sub(began.elapsed()));
        let now = daemon.metric(EXPIRED)?;
        if now > expired {
            expiring.extend([u64::from(second).saturating_sub(1), u64::from(second)]);
        }
        expired = now;
    }
    Ok(expiring)
}

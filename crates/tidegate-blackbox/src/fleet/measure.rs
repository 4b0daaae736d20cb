//! Load, latency, recovery and quotas of a fleet.

use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use clap::{Args, ValueEnum};
use serde::Serialize;
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use super::attempt::{
    CheckAttempt, CheckClient, CheckOutcome, admissions, check_body, outcomes, percentiles,
};
use super::bound::beyond_rate;
use super::disturbance::{Disturbance, FaultStep};
use super::figures::{FigureTable, name_of};
use super::load::{self, LoadPattern};
use super::testbed::{DaemonFleet, StoreKind, StoreNodes};
use crate::attack::{Failure, RunContext};
use crate::protocols::BY_HAND;

/// Units a second of the limit; its burst is as many units.
const RATE: f64 = 1000.0;

/// A new record is empty. After so long the bucket is full, which is when its bound is reached
/// soonest.
const FILLS: Duration = Duration::from_secs(3);

/// How many requests to a member are under way at once; more wait, and that is part of their time.
/// Otherwise a stall of the machine would open a connection for each request.
const CONNECTIONS_MAX: usize = 32;

/// When a disturbance begins, in seconds.
const BEGINS: f64 = 15.0;

/// A limit by its name in reports, as a policy has it. `refusing` is `leased` that spends nothing
/// but leases while the store is silent.
const LIMITS: [(&str, &str); 6] = [
    ("local", "{ name: rate, key: [user], rate: 1000/s, consistency: local }"),
    ("leased", "{ name: rate, key: [user], rate: 1000/s }"),
    ("refusing", "{ name: rate, key: [user], rate: 1000/s, on_store_failure: refuse }"),
    ("exact", "{ name: rate, key: [user], rate: 1000/s, consistency: exact, on_store_failure: refuse }"),
    ("by hand", ""),
    ("quota", "{ name: day, key: [user], fixed: { limit: 10000, window: 24h }, consistency: leased }"),
];

/// The parts that can be measured one by one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
enum MeasuredPart {
    Load,
    Latency,
    Recovery,
    Quota,
}

impl MeasuredPart {
    /// The figures in its table.
    fn columns(self) -> &'static str {
        match self {
            Self::Load => {
                "name consistency seconds over allowed use use_after_10s asks asks_percent calls calls_percent \
                 refused_percent p50_us p99_us"
            }
            Self::Latency => "name p50_us p99_us store_cpu_us members_cpu_us",
            Self::Recovery => "name consistency means over allowed first for_good began ended held reasons",
            Self::Quota => "name seconds admitted last calls asks gone gone_tokens held",
        }
    }
}

/// The options of `fleet measure`.
#[derive(Debug, Args)]
pub struct MeasureArguments {
    /// The daemon's binary.
    binary: PathBuf,
    /// The parts that are measured; all by default.
    parts: Vec<MeasuredPart>,
    /// Short runs, which say little.
    #[arg(long)]
    quick: bool,
    /// The consistencies that load and recovery are measured with.
    #[arg(long, num_args = 1.., value_parser = ["leased", "refusing", "exact"], default_values = ["leased", "exact"])]
    consistency: Vec<String>,
    /// Only the runs whose names begin so, such as 10-overload-3, store-killed, quota-600-3.
    #[arg(long, value_name = "RUN", num_args = 1..)]
    only: Vec<String>,
    /// Append the figures of each run to this file, a line each.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// One load on one fleet.
#[derive(Clone, Debug)]
struct LoadPlan {
    part: MeasuredPart,
    /// As `--only` takes it.
    name: String,
    consistency: &'static str,
    members: usize,
    pattern: LoadPattern,
    /// Requests a second, of the rate of the limit.
    times: f64,
    seconds: f64,
    store: StoreKind,
    steps: Vec<(f64, FaultStep)>,
}

/// The observations of a run.
#[derive(Debug, Default)]
struct LoadRun {
    attempts: Vec<CheckAttempt>,
    disturbance: Disturbance,
    calls: u64,
    asks: u64,
    losses: u64,
    /// Seconds of processor time of members and store.
    cpu: [f64; 2],
    clocks_apart: f64,
    /// The leases as the last member shows them.
    leases: Value,
}

/// Sorted instants, in seconds.
struct SortedInstants(Vec<f64>);

impl SortedInstants {
    fn new(instants: impl Iterator<Item = f64>) -> Self {
        let mut instants: Vec<f64> = instants.collect();
        instants.sort_by(f64::total_cmp);
        Self(instants)
    }

    /// How many lie in a span, its end excluded.
    fn within(&self, begin: f64, end: f64) -> f64 {
        let before = |instant: f64| self.0.partition_point(|at| *at < instant);
        before(end).saturating_sub(before(begin)) as f64
    }

    /// Seconds from `since` to the beginning of the first second with `enough`, if there is one,
    /// and to the end of the last one with fewer.
    fn full_again(&self, since: f64, until: f64, enough: f64) -> (Option<f64>, f64) {
        const STEP: f64 = 0.05;
        let begins = (0_u32..).map(|step| f64::from(step) * STEP).take_while(|at| since + at + 1.0 <= until);
        let (full, short): (Vec<f64>, Vec<f64>) =
            begins.partition(|at| self.within(since + at, since + at + 1.0) >= enough);
        let last = short.last().map_or(0.0, |at| at + 1.0);
        (full.first().copied(), if since + last > until - 1.0 { f64::INFINITY } else { last })
    }
}

/// Measures, and prints a table for each part.
pub(super) fn run(arguments: &MeasureArguments) -> Result<(), Failure> {
    let context = RunContext::of_binary(&arguments.binary).map_err(Failure::Unfinished)?;
    let is_chosen = |part| arguments.parts.is_empty() || arguments.parts.contains(part);
    for part in MeasuredPart::value_variants().iter().filter(|part| is_chosen(part)) {
        let report = FigureTable::begin(part.columns(), arguments.json.as_deref())?;
        // Latencies are measured in rounds, so that a slow moment meets all of them.
        let rounds = if *part == MeasuredPart::Latency && !arguments.quick { 3 } else { 1 };
        let plans = arguments.plans(*part);
        for plan in std::iter::repeat_n(&plans, rounds).flatten() {
            report.add(&plan.figures(&plan.carry_out(&context)?))?;
        }
    }
    Ok(())
}

impl MeasureArguments {
    /// The runs of a part that were chosen.
    fn plans(&self, part: MeasuredPart) -> Vec<LoadPlan> {
        use FaultStep::{
            AwaitReplica, CutOff, KillMember, KillPrimary, KillStore, PauseStore, Reconnect, ResumeStore,
            StartStore,
        };
        use LoadPattern::{Bursty, Moving, Overload, Skewed, Steady};
        let either = |whole, quick| if self.quick { quick } else { whole };
        let plan = |name: String, consistency, times, seconds| LoadPlan {
            part,
            name,
            consistency,
            members: 10,
            pattern: Steady,
            times,
            seconds,
            store: StoreKind::Single,
            steps: Vec::new(),
        };
        let chosen = LIMITS.iter().map(|limit| limit.0);
        let chosen = chosen.filter(|name| self.consistency.iter().any(|one| one == name));
        let mut plans = Vec::new();
        match part {
            MeasuredPart::Load => {
                let alone = [(Steady, 0.88), (Overload, 3.0), (Bursty, 0.88)];
                let several = [(Skewed, 0.88), (Moving, 0.88), (Skewed, 3.0), (Moving, 3.0), (Bursty, 3.0)];
                let all = alone.into_iter().chain(several);
                for (consistency, (members, loads)) in
                    chosen.flat_map(|one| [(1, 3), (3, 5), (10, 8)].map(|members| (one, members)))
                {
                    plans.extend(all.clone().take(loads).map(|(pattern, times)| {
                        let is_long = members == 10 && pattern == Overload;
                        let seconds = either(if is_long { 180.0 } else { 60.0 }, 12.0);
                        let name = format!("{members}-{}-{times}", name_of(pattern));
                        LoadPlan { members, pattern, ..plan(name, consistency, times, seconds) }
                    }));
                }
            }
            MeasuredPart::Latency => {
                for times in [0.88, 3.0] {
                    plans.extend(["local", "leased", "exact", "by hand"].map(|consistency| {
                        let name = format!("latency-{}-{times}", consistency.replace(' ', "-"));
                        let store = if consistency == "local" { StoreKind::None } else { StoreKind::Single };
                        LoadPlan { store, ..plan(name, consistency, times, either(10.0, 5.0)) }
                    }));
                }
            }
            MeasuredPart::Recovery => {
                let disturbances = [
                    ("store-killed", 3.0, StoreKind::Single, KillStore, Some(StartStore)),
                    ("store-paused", 5.0, StoreKind::Single, PauseStore, Some(ResumeStore)),
                    ("store-paused", 20.0, StoreKind::Single, PauseStore, Some(ResumeStore)),
                    ("member-cut-off", 15.0, StoreKind::Relayed, CutOff, Some(Reconnect)),
                    ("member-killed", 0.0, StoreKind::Single, KillMember, None),
                    ("primary-killed", 0.0, StoreKind::Cluster, KillPrimary, Some(AwaitReplica)),
                ];
                for consistency in chosen {
                    plans.extend(disturbances.map(|(name, lasts, store, begin, end)| {
                        let mut steps = vec![(BEGINS, begin)];
                        steps.extend(end.map(|end| (BEGINS + lasts, end)));
                        let seconds = BEGINS + lasts + either(30.0, 15.0);
                        let name = if lasts > 0.0 { format!("{name}-{lasts}") } else { name.to_owned() };
                        let plan = plan(name, consistency, 3.0, seconds);
                        LoadPlan { pattern: Overload, store, steps, ..plan }
                    }));
                }
            }
            MeasuredPart::Quota => {
                let runs: [(f64, &[f64]); 4] =
                    [(3.0, &[]), (0.6, &[]), (0.6, &[4.0, 7.0, 10.0]), (3.0, &[0.5, 1.2, 2.0])];
                plans.extend(runs.map(|(times, deaths)| {
                    let seconds = either(50.0, 30.0) + if times < 1.0 { 15.0 } else { 0.0 };
                    let name = format!("quota-{}-{}", RATE * times, deaths.len());
                    let steps = deaths.iter().map(|at| (*at, KillMember)).collect();
                    LoadPlan { steps, ..plan(name, "quota", times, seconds) }
                }));
            }
        }
        plans.retain(|plan| self.only.is_empty() || self.only.iter().any(|only| plan.is_called(only)));
        plans
    }
}

impl LoadPlan {
    /// Whether its name is `only`, or continues it with another part.
    fn is_called(&self, only: &str) -> bool {
        self.name.strip_prefix(only).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
    }

    fn schedule(&self) -> Vec<(f64, usize)> {
        self.pattern.schedule(self.members, RATE * self.times, self.seconds)
    }

    fn carry_out(&self, context: &RunContext) -> Result<LoadRun, Failure> {
        if self.consistency == "by hand" {
            return self.carry_out_by_hand();
        }
        let limit = LIMITS.iter().find(|limit| limit.0 == self.consistency).map_or("", |limit| limit.1);
        let mut fleet = DaemonFleet::start(context, self.store, limit.to_owned(), self.members)?;
        match self.part {
            MeasuredPart::Load | MeasuredPart::Recovery => thread::sleep(FILLS),
            MeasuredPart::Latency => thread::sleep(Duration::from_millis(500)),
            MeasuredPart::Quota => {}
        }
        let counters = |fleet: &DaemonFleet<'_>| {
            let names =
                ["tidegate_store_calls_total", "tidegate_lease_asks_total", "tidegate_store_losses_total"];
            names.map(|name| if fleet.store.is_some() { fleet.total(name) } else { Ok(0) })
        };
        let cpu = |fleet: &DaemonFleet<'_>| [fleet.cpu(), fleet.store.as_ref().map_or(0.0, StoreNodes::cpu)];
        let (counters_before, cpu_before) = (counters(&fleet), cpu(&fleet));
        let (addresses, client) = (fleet.addresses()?, CheckClient::new());
        let places: Vec<_> = addresses.iter().map(|_| Arc::new(Semaphore::new(CONNECTIONS_MAX))).collect();
        let ask = |member: usize| {
            let (client, address, places) = (client.clone(), addresses[member], Arc::clone(&places[member]));
            async move {
                let _place = places.acquire().await;
                let answer = client.check(address, check_body("{\"user\":\"ada\"}"), 0).await;
                answer.unwrap_or(CheckOutcome::NoAnswer)
            }
        };
        let (clock, begun) = (SystemTime::now(), Instant::now());
        let (attempts, disturbance) = thread::scope(|scope| {
            let beside = scope.spawn(|| Disturbance::carry_out(&self.steps, &mut fleet, begun, |_| ()));
            let attempts = load::run(&self.schedule(), begun, ask);
            (attempts, beside.join().expect("a disturbance does not panic"))
        });
        let passed = clock.elapsed().unwrap_or_default().as_secs_f64();
        let clocks_apart = passed - begun.elapsed().as_secs_f64();
        // Of those that are alive.
        let mut grown = [0; 3];
        for ((grown, before), after) in grown.iter_mut().zip(counters_before).zip(counters(&fleet)) {
            *grown = after?.saturating_sub(before?);
        }
        let ([calls, asks, losses], [members, store]) = (grown, cpu(&fleet));
        let cpu = [members - cpu_before[0], store - cpu_before[1]];
        let (attempts, disturbance, leases) = (attempts?, disturbance?, fleet.leases()?);
        Ok(LoadRun { attempts, disturbance, calls, asks, losses, cpu, clocks_apart, leases })
    }

    /// The same load on a script of the store, over a connection for each member.
    fn carry_out_by_hand(&self) -> Result<LoadRun, Failure> {
        let store = StoreNodes::start(self.store)?.expect("a script needs a store");
        let (script, client) = (redis::Script::new(BY_HAND), redis::Client::open(store.nodes[0].url())?);
        let runtime = load::runtime()?;
        let open = |_| runtime.block_on(client.get_multiplexed_async_connection());
        let connections: Vec<_> = (0..self.members).map(open).collect::<Result<_, _>>()?;
        let before = store.cpu();
        let ask = |member: usize| {
            let (script, mut connection) = (script.clone(), connections[member].clone());
            async move {
                let mut call = script.key("gcra:api:rate:ada");
                match call.arg(RATE).arg(1e6 / RATE).invoke_async(&mut connection).await {
                    Ok(true) => CheckOutcome::Admitted,
                    Ok(false) => CheckOutcome::RateExceeded,
                    Err(_) => CheckOutcome::Other,
                }
            }
        };
        let attempts = load::run(&self.schedule(), Instant::now(), ask)?;
        Ok(LoadRun { attempts, cpu: [0.0, store.cpu() - before], ..LoadRun::default() })
    }

    /// All figures of a run. Those after the first step are of use where there is one.
    fn figures(&self, run: &LoadRun) -> Value {
        let attempts = &run.attempts;
        let admitted = admissions(attempts);
        let answers = SortedInstants::new(admitted.iter().map(|one| one.answered));
        let asked = SortedInstants::new(attempts.iter().map(|one| one.asked));
        // The rate: no more than that is left to a bucket that is full when the span begins.
        let used = |begin, end| {
            answers.within(begin, end) / asked.within(begin, end).min(RATE * (end - begin)).max(1.0)
        };
        let refused = |member| {
            let own: Vec<_> = attempts.iter().filter(|one| one.member == member).collect();
            let refused = own.iter().filter(|one| !one.is_admitted()).count();
            (!own.is_empty()).then(|| 100.0 * refused as f64 / own.len() as f64)
        };
        let refused = SortedInstants::new((0..self.members).filter_map(refused)).0;
        let answered = attempts.iter().filter(|one| one.outcome != CheckOutcome::NoAnswer);
        let took = percentiles(answered.map(|one| one.answered - one.asked));
        let us = |duration: Duration| duration.as_micros() as u64;
        let of_each = |sum: f64| sum / attempts.len() as f64;
        let steps = &run.disturbance.steps;
        let began = steps.first().map_or(self.seconds, |step| step.1);
        let ended = steps.last().map_or(self.seconds, |step| step.1);
        let (first, for_good) = answers.full_again(ended, self.seconds, 0.98 * RATE);
        let spans = [(5.0, began), (began, ended), (ended, ended + 10.0), (ended + 10.0, self.seconds)];
        let mean = |(from, to): (f64, f64)| (to - from > 0.5).then(|| answers.within(from, to) / (to - from));
        let since: Vec<CheckAttempt> = attempts.iter().filter(|one| one.asked >= began).copied().collect();
        let members = run.leases["members"].as_array().into_iter().flatten();
        let each_second = (0..self.seconds as u32).map(|at| answers.within(at.into(), f64::from(at) + 1.0));
        json!({
            "part": name_of(self.part), "name": self.name, "consistency": self.consistency,
            "members": self.members, "kind": name_of(self.pattern), "times": self.times,
            "seconds": self.seconds,
            "asked": attempts.len(), "admitted": admitted.len(), "codes": outcomes(attempts),
            // The largest `admitted - R*W - B`, in R: for certain, by answers, possibly.
            "over": beyond_rate(&admitted, RATE).map(|units| units / RATE - 1.0),
            "allowed": if matches!(self.consistency, "leased" | "refusing") { 0.1 } else { 0.0 },
            "use": used(0.0, self.seconds), "use_after_10s": used(10.0, self.seconds),
            // Least and most of a member.
            "refused_percent": [refused.first(), refused.last()],
            "p50_us": us(took.p50), "p99_us": us(took.p99),
            "late_p99_us": us(percentiles(attempts.iter().map(|one| one.late)).p99),
            "clocks_apart_us": 1e6 * run.clocks_apart,
            "calls": run.calls, "calls_percent": of_each(100.0 * run.calls as f64),
            "asks": run.asks, "asks_percent": of_each(100.0 * run.asks as f64),
            "store_cpu_us": of_each(1e6 * run.cpu[1]), "members_cpu_us": of_each(1e6 * run.cpu[0]),
            "began": began, "ended": ended,
            // Admissions a second before, meanwhile, ten seconds after, and then.
            "means": spans.map(mean),
            "first": first, "for_good": for_good, "reasons": outcomes(&since),
            "each_second": each_second.collect::<Vec<_>>(),
            "last": answers.0.last(),
            // Rates and tokens of members when they were killed, by their own word.
            "held": run.disturbance.held,
            "gone": run.leases["gone"], "gone_tokens": run.leases["gone_tokens"],
            "tokens_left": members.map(|member| &member["tokens"]).collect::<Vec<_>>(),
            "losses": run.losses,
        })
    }
}

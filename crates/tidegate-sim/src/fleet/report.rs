//! The report of a simulation: counts, use, times, a series by the second, and the violations that
//! the checkers found.

mod text;

use std::collections::BTreeMap;

use serde::Serialize;
use tidegate::Reason;

use crate::fleet::arrival::Arrival;
use crate::fleet::chaos::Trouble;
use crate::fleet::rule::Violation;
use crate::fleet::scenario::{Numbers, Scenario};
use crate::fleet::usage::{Measured, Used};
use crate::fleet::watch::Watch;
use crate::kit::{Delays, Disturbance, MS, SECOND, WORLD_BEGIN, fairness_of, rounded};

/// The report of a scenario. Serialised it is the same, byte for byte, each time the scenario is
/// simulated.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Report {
    /// The scenario that was simulated.
    pub scenario: Scenario,
    /// Requests that were decided.
    pub decisions: u64,
    /// Requests that were admitted, and what they cost.
    pub admitted: u64,
    /// Units that were admitted.
    pub admitted_units: u64,
    /// Requests that were refused, by reason.
    pub refused: BTreeMap<&'static str, u64>,
    /// Requests that the engine could not decide.
    pub errors: u64,
    /// Requests at a member that was down.
    pub unreached: u64,
    /// Requests that waited when their member crashed.
    pub cut_short: u64,
    /// Batches that members sent to the store.
    pub store_calls: u64,
    /// Asks of leases in them.
    pub lease_asks: u64,
    /// Batches for each decision.
    pub calls_per_decision: f64,
    /// Which part of the limit was used, of the hottest key, while all should have been well;
    /// `None` where too little was asked for to tell, or that time was shorter than eight seconds.
    pub used: Option<f64>,
    /// The most that was admitted of any key beyond what had drained, beside the most that may be.
    pub fullest: Fullest,
    /// How long decisions took.
    pub delay: Delay,
    /// The troubles, and how long after its end the hottest key was used again.
    pub recoveries: Vec<Recovery>,
    /// Jain's index of fairness between members while all should have been well: the square of the
    /// sum of what part of its first attempts each admitted, over the sum of the squares times
    /// their number. 1 if all had the same.
    pub fairness: Option<f64>,
    /// The requests of callers that kept to their limit.
    pub conforming: Conforming,
    /// The counts of each second.
    pub series: Vec<Second>,
    /// The violations that the checkers found: of each rule the first five.
    pub violations: Vec<Violation>,
    /// How many violations they found, by rule.
    pub violations_by_rule: BTreeMap<&'static str, u64>,
    /// How many violations they found.
    pub violations_total: u64,
}

/// How full a limit was at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Fullest {
    /// Which key.
    pub key: u32,
    /// When, in milliseconds; where the store decides by its clock, which may be half a second
    /// apart.
    pub at_ms: u64,
    /// Units admitted and not drained, or admitted in the window.
    pub units: u64,
    /// The most there may be.
    pub bound: u64,
}

/// The requests of callers that kept to their limit. A request that a member without
/// room in its share refused while it decided alone is not counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Conforming {
    /// First attempts that were decided.
    pub first_attempts: u64,
    /// Of these, those that were admitted.
    pub admitted: u64,
    /// The longest time for which a caller was refused at every attempt, in milliseconds.
    pub refused_max_ms: u64,
}

/// How long decisions took, in simulated microseconds; at most a sixteenth too low.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Delay {
    /// Half of them took no longer.
    pub p50_us: u64,
    /// Of a hundred, ninety-nine took no longer.
    pub p99_us: u64,
    /// Of a thousand, all but one took no longer.
    pub p999_us: u64,
    /// The longest.
    pub max_us: u64,
}

/// Something that went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Recovery {
    /// The trouble.
    pub trouble: Trouble,
    /// When it began, in milliseconds.
    pub from_ms: u64,
    /// When it ended.
    pub until_ms: u64,
    /// How long afterwards a second began in which 95 % of the limit of the hottest key was
    /// admitted, or of what was asked for if that is less. `None` if there was none, or the limit
    /// is not a bucket with a rate by the second.
    pub recovered_after_ms: Option<u64>,
}

/// The counts of a second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Second {
    /// Units asked for, of all keys, tries again included.
    pub offered: u64,
    /// Units admitted, of all keys.
    pub admitted: u64,
    /// Units asked for of the hottest key.
    pub hot_offered: u64,
    /// Units admitted of the hottest key.
    pub hot_admitted: u64,
    /// Units of the hottest key that members were lent and may still spend, at the end of the
    /// second.
    pub hot_lent: u64,
    /// Batches that members sent to the store.
    pub calls: u64,
    /// Batches that the store carried out.
    pub served: u64,
}

/// The counters of a running simulation.
#[derive(Debug)]
pub(crate) struct Tally {
    decisions: u64,
    admitted: u64,
    admitted_units: u64,
    refused: BTreeMap<&'static str, u64>,
    errors: u64,
    unreached: u64,
    cut_short: u64,
    pub(crate) calls: u64,
    pub(crate) asks: u64,
    delays: Delays,
    pub(crate) measured: Measured,
    series: Vec<Second>,
    second: Second,
    before: (u64, u64),
    /// Units of the hottest key, by the tenth of a second: asked for and admitted. Only where
    /// something goes wrong.
    tenths: Vec<(u32, u32)>,
    hot_offered: f64,
}

const TENTH: u64 = SECOND / 10;

impl Tally {
    pub(crate) fn new(scenario: &Scenario, plan: &[Disturbance<Trouble>]) -> Self {
        let tenths = if plan.is_empty() { 0 } else { scenario.seconds as usize * 10 };
        Self {
            decisions: 0,
            admitted: 0,
            admitted_units: 0,
            refused: BTreeMap::new(),
            errors: 0,
            unreached: 0,
            cut_short: 0,
            calls: 0,
            asks: 0,
            delays: Delays::new(),
            measured: Measured {
                from: u64::from(scenario.measured_from()) * SECOND,
                keys: vec![Used::default(); scenario.keys.min(64) as usize],
                members: vec![Used::default(); scenario.members as usize],
            },
            series: Vec::with_capacity(scenario.seconds as usize),
            second: Second::default(),
            before: (0, 0),
            tenths: vec![(0, 0); tenths],
            hot_offered: 0.0,
        }
    }

    pub(crate) fn unreached(&mut self) {
        self.unreached += 1;
    }

    pub(crate) fn failed(&mut self) {
        self.errors += 1;
    }

    pub(crate) fn cut_short(&mut self, requests: u64) {
        self.cut_short += requests;
    }

    pub(crate) fn offered(&mut self, one: &Arrival, now: u64) {
        let cost = u64::from(one.cost);
        self.second.offered += cost;
        if one.key == 0 {
            self.second.hot_offered += cost;
            if let Some((offered, _)) = self.tenths.get_mut((now / TENTH) as usize) {
                *offered += one.cost;
            }
        }
        if now >= self.measured.from {
            // A retry was counted when its request was first made, but clients that come again do
            // ask.
            if let Some(key) = self.measured.keys.get_mut(one.key as usize)
                && one.attempt == 0
            {
                key.offered += f64::from(one.cost);
            }
            if one.attempt == 0 {
                self.measured.members[one.member as usize].offered += f64::from(one.cost);
            }
            if one.key == 0 {
                self.hot_offered += f64::from(one.cost);
            }
        }
    }

    pub(crate) fn admitted(&mut self, one: &Arrival, now: u64) {
        let cost = u64::from(one.cost);
        self.decisions += 1;
        self.admitted += 1;
        self.admitted_units += cost;
        self.second.admitted += cost;
        self.delays.add(now - one.at);
        if one.key == 0 {
            self.second.hot_admitted += cost;
            if let Some((_, admitted)) = self.tenths.get_mut((now / TENTH) as usize) {
                *admitted += one.cost;
            }
        }
        if now >= self.measured.from {
            if let Some(key) = self.measured.keys.get_mut(one.key as usize) {
                key.admitted += f64::from(one.cost);
            }
            self.measured.members[one.member as usize].admitted += f64::from(one.cost);
        }
    }

    pub(crate) fn refused(&mut self, one: &Arrival, reason: Reason, now: u64) {
        self.decisions += 1;
        *self.refused.entry(reason.as_str()).or_default() += 1;
        self.delays.add(now - one.at);
    }

    /// A second is over.
    pub(crate) fn second(&mut self, lent: u64, served: u64) {
        let mut second = core::mem::take(&mut self.second);
        second.hot_lent = lent;
        second.calls = self.calls - self.before.0;
        second.served = served - self.before.1;
        self.before = (self.calls, served);
        self.series.push(second);
    }

    pub(crate) fn into_report(
        self,
        scenario: Scenario,
        watch: Watch,
        plan: &[Disturbance<Trouble>],
    ) -> Report {
        let fullest = watch.fullest();
        let seen = watch.seen();
        let keys = u64::from(scenario.keys);
        Report {
            recoveries: plan.iter().map(|one| self.recovery(&scenario, *one)).collect(),
            used: self.used(&scenario),
            fairness: fairness(&self.measured.members),
            decisions: self.decisions,
            admitted: self.admitted,
            admitted_units: self.admitted_units,
            refused: self.refused,
            errors: self.errors,
            unreached: self.unreached,
            cut_short: self.cut_short,
            store_calls: self.calls,
            lease_asks: self.asks,
            calls_per_decision: rounded(ratio(self.calls, self.decisions.max(1))),
            fullest: Fullest {
                // Where each member decides alone, the key of one of them.
                key: (u64::from(fullest.key) % keys) as u32,
                at_ms: fullest.at.checked_sub(WORLD_BEGIN).unwrap_or(fullest.at) / MS,
                units: fullest.units,
                bound: fullest.most,
            },
            delay: Delay {
                p50_us: self.delays.quantile(500) / 1000,
                p99_us: self.delays.quantile(990) / 1000,
                p999_us: self.delays.quantile(999) / 1000,
                max_us: self.delays.max() / 1000,
            },
            conforming: Conforming {
                first_attempts: seen.first_attempts,
                admitted: seen.admitted,
                refused_max_ms: seen.longest / MS,
            },
            series: self.series,
            violations_total: watch.findings.total(),
            violations_by_rule: watch
                .findings
                .counts()
                .iter()
                .map(|(rule, count)| (rule.name(), *count))
                .collect(),
            violations: watch.findings.into_kept(),
            scenario,
        }
    }

    fn used(&self, scenario: &Scenario) -> Option<f64> {
        let seconds = u64::from(scenario.seconds).checked_sub(self.measured.from / SECOND)?;
        #[expect(clippy::cast_precision_loss, reason = "seconds of a day")]
        let due = scenario.limit.rate() * seconds as f64;
        let is_enough = seconds >= 8 && self.hot_offered >= due * 1.05;
        is_enough.then(|| rounded(self.measured.keys[0].admitted / due))
    }

    fn recovery(&self, scenario: &Scenario, one: Disturbance<Trouble>) -> Recovery {
        let Disturbance { trouble, from, until } = one;
        let begin = until.div_ceil(TENTH);
        let Numbers::Bucket { units, seconds: 1, .. } = scenario.limit else {
            let (from_ms, until_ms) = (from / MS, until / MS);
            return Recovery { trouble, from_ms, until_ms, recovered_after_ms: None };
        };
        let seconds = self.tenths.windows(10).enumerate().skip(begin as usize);
        let mut well = seconds.filter(|(_, second)| {
            let offered: u64 = second.iter().map(|(offered, _)| u64::from(*offered)).sum();
            let admitted: u64 = second.iter().map(|(_, admitted)| u64::from(*admitted)).sum();
            admitted * 100 >= offered.min(units.into()) * 95
        });
        let recovered = well.next().map(|(tenth, _)| (tenth as u64 * TENTH).saturating_sub(until) / MS);
        Recovery { trouble, from_ms: from / MS, until_ms: until / MS, recovered_after_ms: recovered }
    }
}

/// Jain's index of what part of its first attempts each member admitted.
fn fairness(members: &[Used]) -> Option<f64> {
    fairness_of(&members.iter().filter_map(Used::odds).collect::<Vec<_>>())
}

#[expect(clippy::cast_precision_loss, reason = "shown with six digits")]
fn ratio(part: u64, whole: u64) -> f64 {
    part as f64 / whole as f64
}

//! The counters of a running simulation, from which its report is made.

use tidegate_core::Reason;

use crate::fleet::arrival::Arrival;
use crate::fleet::chaos::Trouble;
use crate::fleet::envoy_tally::EnvoyTally;
use crate::fleet::report::{Conforming, Delay, Fullest, Recovery, Report, Second};
use crate::fleet::scenario::{Numbers, Scenario};
use crate::fleet::usage::{Measured, Used};
use crate::fleet::watch::Watch;
use crate::kit::{Delays, Disturbance, MS, SECOND, WORLD_BEGIN, fairness_of, rounded};

/// The counters of a running simulation.
#[derive(Debug)]
pub(crate) struct Tally {
    /// The counts so far; the figures that need all of them are made at the end.
    pub(crate) report: Report,
    delays: Delays,
    pub(crate) measured: Measured,
    second: Second,
    before: (u64, u64),
    /// Units of the hottest key, by the tenth of a second: asked for and admitted. Only where
    /// something goes wrong.
    tenths: Vec<(u32, u32)>,
    hot_offered: f64,
    pub(crate) envoys: Option<EnvoyTally>,
}

const TENTH: u64 = SECOND / 10;

impl Tally {
    pub(crate) fn new(scenario: &Scenario, plan: &[Disturbance<Trouble>]) -> Self {
        let tenths = if plan.is_empty() { 0 } else { scenario.seconds as usize * 10 };
        Self {
            report: Report { scenario: scenario.clone(), ..Report::default() },
            delays: Delays::new(),
            measured: Measured {
                from: u64::from(scenario.measured_from()) * SECOND,
                keys: vec![Used::default(); scenario.keys.min(64) as usize],
                members: vec![Used::default(); scenario.clients() as usize],
            },
            second: Second::default(),
            before: (0, 0),
            tenths: vec![(0, 0); tenths],
            hot_offered: 0.0,
            envoys: (scenario.envoys > 0).then(|| EnvoyTally::new(scenario)),
        }
    }

    pub(crate) fn offered(&mut self, one: &Arrival, now: u64) {
        let cost = u64::from(one.cost);
        self.second.offered += cost;
        if one.key == 0 {
            if let Some(envoys) = &mut self.envoys {
                envoys.offered(one.member, now);
            }
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
        self.report.decisions += 1;
        self.report.admitted += 1;
        self.report.admitted_units += cost;
        self.second.admitted += cost;
        self.delays.add(now - one.at);
        if one.key == 0 {
            if let Some(envoys) = &mut self.envoys {
                envoys.admitted(one.member, now);
            }
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
        self.report.decisions += 1;
        *self.report.refused.entry(reason.as_str()).or_default() += 1;
        self.delays.add(now - one.at);
    }

    /// A second is over.
    pub(crate) fn second(&mut self, lent: u64, served: u64) {
        let mut second = core::mem::take(&mut self.second);
        second.hot_lent = lent;
        second.calls = self.report.store_calls - self.before.0;
        second.served = served - self.before.1;
        self.before = (self.report.store_calls, served);
        self.report.series.push(second);
    }

    pub(crate) fn into_report(self, watch: Watch, plan: &[Disturbance<Trouble>]) -> Report {
        let (fullest, seen, counts) = (watch.fullest(), watch.seen(), watch.findings.counts());
        let Report { scenario, store_calls, decisions, .. } = &self.report;
        Report {
            recoveries: plan.iter().map(|one| self.recovery(scenario, *one)).collect(),
            used: self.used(scenario),
            envoys: self.envoys.as_ref().map(|envoys| envoys.report(*decisions)),
            fairness: fairness(&self.measured.members),
            calls_per_decision: rounded(*store_calls as f64 / (*decisions).max(1) as f64),
            fullest: Fullest {
                // Where each member decides alone, the key of one of them.
                key: fullest.key % scenario.keys,
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
            violations_total: watch.findings.total(),
            violations_by_rule: counts.iter().map(|(rule, count)| (rule.name(), *count)).collect(),
            violations: watch.findings.into_kept(),
            ..self.report
        }
    }

    fn used(&self, scenario: &Scenario) -> Option<f64> {
        let seconds = u64::from(scenario.seconds).checked_sub(self.measured.from / SECOND)?;
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

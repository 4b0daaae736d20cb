//! The levels of one feature over time, and the work of it that is in flight.

use serde::Serialize;

use super::control::{FeatureControlView, FeatureMove};
use super::feature_spec::FeatureSpec;
use crate::kit::{MS, rounded, seconds};

/// The levels of one feature under one design, over the whole run.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct FeatureResult {
    /// Its name.
    pub feature: String,
    /// The changes of its level, in order.
    pub transitions: Vec<FeatureTransition>,
    /// The milliseconds from each switch-off to the end of the work in flight, in order; shorter
    /// than the switch-offs where the feature came back first.
    pub released_after_ms: Vec<f64>,
    /// Over time, in steps of 100 ms.
    #[serde(skip)]
    pub steps: Vec<FeatureStep>,
}

/// A change of the level of a feature.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FeatureTransition {
    /// The second.
    pub at: f64,
    /// The levels before and after.
    pub from: String,
    /// The level after.
    pub to: String,
    /// Whether the level after is worse.
    pub is_worse: bool,
    /// The smoothed pressure of the service at the time; `None` without one.
    pub pressure: Option<f64>,
}

/// One step of a feature.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct FeatureStep {
    /// The position of the worst level that any request gets at the end of the step, 0 the best.
    pub level: u8,
    /// Its requests that are being worked on.
    pub in_flight: u32,
    /// The part of the capacity that the design thinks its next better level takes; `None` without
    /// such a number.
    pub footprint: Option<f64>,
}

impl FeatureResult {
    /// The shortest time between two changes in seconds; infinite with fewer than two.
    pub fn shortest_dwell(&self) -> f64 {
        let times = self.transitions.windows(2).map(|pair| rounded(pair[1].at - pair[0].at));
        times.fold(f64::INFINITY, f64::min)
    }
}

/// One feature while its world runs.
#[derive(Debug)]
pub(crate) struct FeatureTally {
    pub(crate) spec: FeatureSpec,
    result: FeatureResult,
    level: u8,
    in_flight: u32,
    /// When it was switched off, while work of it is in flight.
    releasing_since: Option<u64>,
}

impl FeatureTally {
    pub(crate) fn new(spec: FeatureSpec) -> Self {
        let result = FeatureResult { feature: spec.config.name.clone(), ..FeatureResult::default() };
        Self { spec, result, level: 0, in_flight: 0, releasing_since: None }
    }

    /// Whether it is off at its present level.
    pub(crate) fn is_off(&self) -> bool {
        self.spec.is_off(self.level)
    }

    /// Whether it is below its best level.
    pub(crate) const fn is_degraded(&self) -> bool {
        self.level > 0
    }

    pub(crate) fn moved(&mut self, change: FeatureMove, pressure: Option<f64>, now: u64) {
        let name = |level: u8| self.spec.level_name(level).to_owned();
        self.result.transitions.push(FeatureTransition {
            at: seconds(now),
            from: name(change.from),
            to: name(change.to),
            is_worse: change.to > change.from,
            pressure: pressure.map(rounded),
        });
        self.level = change.to;
        self.releasing_since = self.is_off().then_some(now);
        self.note_release(now);
    }

    pub(crate) fn begin(&mut self) {
        self.in_flight += 1;
    }

    pub(crate) fn end(&mut self, now: u64) {
        self.in_flight -= 1;
        self.note_release(now);
    }

    fn note_release(&mut self, now: u64) {
        if self.in_flight > 0 {
            return;
        }
        if let Some(since) = self.releasing_since.take() {
            self.result.released_after_ms.push(rounded((now - since) as f64 / MS as f64));
        }
    }

    pub(crate) fn end_step(&mut self, view: FeatureControlView) {
        let FeatureControlView { level, footprint } = view;
        self.result.steps.push(FeatureStep { level, in_flight: self.in_flight, footprint });
    }

    pub(crate) fn into_result(self) -> FeatureResult {
        self.result
    }
}

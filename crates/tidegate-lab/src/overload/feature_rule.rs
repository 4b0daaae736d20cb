//! Rival controllers of features: rules by thresholds, in front of the product's engine.
//!
//! They see the smoothed pressure that the engine sees, ten times a second, and switch all features
//! of a service together. Everything else is the engine's, so that the rule alone is compared.

use tidegate_sim::kit::{MS, SECOND};
use tidegate_sim::overload::{
    AdmissionControl, ArrivedRequest, ControlView, ControlledServices, FeatureControlView, FeatureMove,
    JobEnd, JobId, OverloadDesign, OverloadScenarioError, RefusalCause, Verdict,
};

/// The time between two looks at the pressure: a tick of the engine.
const STEP: u64 = 100 * MS;

/// A rule of thresholds. Features are off from the threshold of `brownout` on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FeatureRule {
    /// The points, in hundredths, below that threshold at which they are on again.
    pub points: u32,
    /// The shortest time between two changes, in seconds.
    pub dwell_seconds: u32,
}

/// The rules that are compared, with their names and descriptions.
const RULES: [(&str, &str, FeatureRule); 5] = [
    (
        "threshold",
        "All features are off while the pressure is at the threshold or above it.",
        FeatureRule { points: 0, dwell_seconds: 0 },
    ),
    (
        "hyst15",
        "All features are off from the threshold on, and on again 15 points below it.",
        FeatureRule { points: 15, dwell_seconds: 0 },
    ),
    (
        "hyst15-dwell",
        "The same, with at least 10 s between two changes.",
        FeatureRule { points: 15, dwell_seconds: 10 },
    ),
    (
        "hyst30",
        "All features are off from the threshold on, and on again 30 points below it.",
        FeatureRule { points: 30, dwell_seconds: 0 },
    ),
    (
        "hyst30-dwell",
        "The same, with at least 10 s between two changes.",
        FeatureRule { points: 30, dwell_seconds: 10 },
    ),
];

/// The designs that are compared where there are features, in order: the rules, and the product.
pub const FEATURE_DESIGNS: [OverloadDesign; RULES.len() + 1] = {
    let mut designs = [OverloadDesign::TIDEGATE; RULES.len() + 1];
    let mut place = 0;
    while place < RULES.len() {
        let (name, description, _) = RULES[place];
        designs[place] = OverloadDesign {
            name,
            description,
            // Colours that differ in pictures.
            place: [8, 5, 3, 7, 6][place],
            is_on_timelines: true,
            control: |design, services| {
                let rule = RULES.iter().find(|(name, ..)| *name == design.name);
                let (_, _, rule) = rule.expect("only a rule has this maker");
                Ok(Box::new(FeatureRuleControl::new(*rule, services)?))
            },
        };
        place += 1;
    }
    designs
};

/// A rule in front of the engine.
#[derive(Debug)]
struct FeatureRuleControl {
    rule: FeatureRule,
    settings: ControlledServices,
    inner: Box<dyn AdmissionControl>,
    services: Vec<SwitchedService>,
    next_step: u64,
    moves: Vec<FeatureMove>,
}

/// The features of one service.
#[derive(Clone, Debug, Default)]
struct SwitchedService {
    is_off: bool,
    changed_at: Option<u64>,
}

impl FeatureRuleControl {
    fn new(rule: FeatureRule, services: &ControlledServices) -> Result<Self, OverloadScenarioError> {
        let bare = ControlledServices { features: Vec::new(), ..services.clone() };
        let inner = (OverloadDesign::TIDEGATE.control)(&OverloadDesign::TIDEGATE, &bare)?;
        let switched = vec![SwitchedService::default(); services.services.len()];
        let settings = services.clone();
        Ok(Self { rule, settings, inner, services: switched, next_step: 0, moves: Vec::new() })
    }

    /// The position of the service of a feature.
    fn service_of(&self, feature: usize) -> usize {
        let name = self.settings.features[feature].config.resource.as_deref();
        let is_it = |service: &tidegate_sim::overload::ServiceSpec| Some(service.name.as_str()) == name;
        self.settings.services.iter().position(is_it).unwrap_or(0)
    }

    /// The level of a feature: the best or the worst.
    fn level(&self, feature: usize) -> u8 {
        let last = self.settings.features[feature].config.levels.len().saturating_sub(1);
        if self.services[self.service_of(feature)].is_off { last as u8 } else { 0 }
    }

    fn look(&mut self, service: usize, now: u64) {
        let Some(pressure) = self.inner.view(service, now).pressure else { return };
        let FeatureRule { points, dwell_seconds } = self.rule;
        let threshold = self.settings.services[service].levels.brownout;
        let switched = &self.services[service];
        let dwell = u64::from(dwell_seconds) * SECOND;
        if switched.changed_at.is_some_and(|at| now - at < dwell) {
            return;
        }
        let is_off = if switched.is_off {
            pressure >= threshold - f64::from(points) / 100.0
        } else {
            pressure >= threshold
        };
        if is_off == switched.is_off {
            return;
        }
        let of_it: Vec<usize> = (0..self.settings.features.len())
            .filter(|feature| self.service_of(*feature) == service)
            .collect();
        let before: Vec<u8> = of_it.iter().map(|feature| self.level(*feature)).collect();
        self.services[service] = SwitchedService { is_off, changed_at: Some(now) };
        for (feature, from) in of_it.into_iter().zip(before) {
            self.moves.push(FeatureMove { feature, from, to: self.level(feature) });
        }
    }
}

impl AdmissionControl for FeatureRuleControl {
    fn arrive(&mut self, arrival: ArrivedRequest<'_>, now: u64, out: &mut Vec<Verdict>) {
        let level = arrival.feature.map_or(0, |feature| self.level(feature));
        if arrival.feature.is_some_and(|feature| self.settings.features[feature].is_off(level)) {
            out.push(Verdict::refuse(arrival.job, RefusalCause::FeatureDisabled));
            return;
        }
        self.inner.arrive(ArrivedRequest { feature: None, ..arrival }, now, out);
    }

    fn end(&mut self, end: JobEnd, now: u64, out: &mut Vec<Verdict>) {
        self.inner.end(end, now, out);
    }

    fn cancel(&mut self, service: usize, job: JobId, now: u64, out: &mut Vec<Verdict>) -> bool {
        self.inner.cancel(service, job, now, out)
    }

    fn next_wake(&self) -> Option<u64> {
        Some(self.inner.next_wake().map_or(self.next_step, |at| at.min(self.next_step)))
    }

    fn wake(&mut self, now: u64, out: &mut Vec<Verdict>) {
        if self.inner.next_wake().is_some_and(|at| at <= now) {
            self.inner.wake(now, out);
        }
        if now >= self.next_step {
            self.next_step = now + STEP;
            (0..self.services.len()).for_each(|service| self.look(service, now));
        }
    }

    fn restart(&mut self, now: u64, out: &mut Vec<Verdict>) {
        self.inner.restart(now, out);
    }

    fn signal(&mut self, pressure: f64, now: u64) {
        self.inner.signal(pressure, now);
    }

    fn measured(&mut self, service: usize, in_use: f64, now: u64) {
        self.inner.measured(service, in_use, now);
    }

    fn view(&self, service: usize, now: u64) -> ControlView {
        self.inner.view(service, now)
    }

    fn features(&self, _now: u64) -> Vec<FeatureControlView> {
        let view = |feature| FeatureControlView { level: self.level(feature), footprint: None };
        (0..self.settings.features.len()).map(view).collect()
    }

    fn take_feature_moves(&mut self) -> Vec<FeatureMove> {
        core::mem::take(&mut self.moves)
    }
}

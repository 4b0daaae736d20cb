//! Parts of the experiments with features: the service of the figure of the pattern, and the
//! instants at which a feature changes.

use tidegate_core::Class;
use tidegate_overload::{FeatureConfig, LevelThresholds, OnDisable};
use tidegate_sim::overload::{
    ArrivalPattern, ClientSpec, FeatureResult, FeatureSpec, LoadPhase, OverloadResult, OverloadScenario,
    ServiceSpec, ServiceTime,
};

use crate::overload::FEATURE_DESIGNS;

/// The name of the service.
pub(super) const SERVICE: &str = "main";
/// The part of the capacity that B takes.
pub(super) const B: f64 = 0.25;
/// The length of the ramp.
pub(super) const SECONDS: u32 = 300;
/// The threshold at which features degrade in E4 and E5, and what must stay free below it.
pub(super) const THRESHOLD: f64 = 0.90;
const MARGIN: f64 = 0.10;
/// The pressure at which B fits again.
pub(super) const LIMIT: f64 = THRESHOLD - MARGIN;

/// The thresholds of E4 and E5.
const LEVELS: LevelThresholds = LevelThresholds {
    soft: 0.70,
    brownout: THRESHOLD,
    hard: 0.95,
    emergency: 0.97,
    margin: MARGIN,
    ..LevelThresholds::DEFAULT
};

/// How a scenario is spread over time and places.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct ServiceSize {
    pub(super) workers: u32,
    pub(super) time: ServiceTime,
    pub(super) arrivals: ArrivalPattern,
}

impl ServiceSize {
    /// 200 workers and requests of 100 ms at equal distances: the load is what the rates say.
    pub(super) const EVEN: Self =
        Self { workers: 200, time: ServiceTime::Constant { ms: 100.0 }, arrivals: ArrivalPattern::Even };
    /// 1000 workers, arrivals and times by chance: the places in use deviate by 3 %.
    pub(super) const BY_CHANCE: Self = Self {
        workers: 1000,
        time: ServiceTime::Exponential { mean_ms: 100.0 },
        arrivals: ArrivalPattern::Poisson,
    };

    pub(super) fn service(self) -> ServiceSpec {
        let Self { workers, time, .. } = self;
        ServiceSpec { workers, service_time: time, levels: LEVELS, ..ServiceSpec::reference(SERVICE) }
    }

    /// A client that asks for this part of the capacity at a factor of 1.
    pub(super) fn client(self, name: &str, class: Class, part: f64, phases: Vec<LoadPhase>) -> ClientSpec {
        let rate = part * self.service().capacity();
        ClientSpec {
            name: name.to_owned(),
            class,
            arrivals: self.arrivals,
            phases,
            tenants: 50,
            // Long services are no failures: the experiments are about waiting and refusals.
            deadline_ms: 60_000,
            ..ClientSpec::gold(rate)
        }
    }

    /// A scenario of A and C, which share `part`, and of B, under the designs that are compared.
    pub(super) fn scenario(
        self,
        variant: &str,
        seed: u64,
        seconds: u32,
        part: impl Fn(f64) -> f64,
    ) -> OverloadScenario {
        let step = if seconds > 1000 { 30.0 } else { 0.5 };
        let phases = phases_of(seconds, step, part);
        let essential = |name| self.client(name, Class::Critical, 0.5, phases.clone());
        let mut asking = self.client("b", Class::Sheddable, B, Vec::new());
        asking.feature = Some("b".to_owned());
        let clients = vec![essential("a"), asking, essential("c")];
        let scenario = OverloadScenario::new(seed, seconds, vec![self.service()], clients);
        let mut config = FeatureConfig::new("b", Class::Sheddable);
        config.on_disable = OnDisable::Cancel { grace: FeatureConfig::GRACE };
        OverloadScenario {
            variant: variant.to_owned(),
            warm_up: 0.0,
            designs: FEATURE_DESIGNS.to_vec(),
            features: vec![FeatureSpec::new(config, SERVICE, &[("on", 1.0), ("off", 0.0)])],
            ..scenario
        }
    }
}

/// A factor that follows a curve, in steps.
pub(super) fn phases_of(seconds: u32, step: f64, factor: impl Fn(f64) -> f64) -> Vec<LoadPhase> {
    let count = (f64::from(seconds) / step) as u32;
    let phase = |number: u32| {
        let from = f64::from(number) * step;
        LoadPhase { from, factor: factor(from + step / 2.0) }
    };
    (0..count).map(phase).collect()
}

/// The part of the capacity that A and C ask for in E4: 40 to 80 to 40 % in 300 s, and on as
/// before.
pub(super) fn ramp(second: f64) -> f64 {
    let slope = 0.4 / 150.0;
    (0.8 - slope * (second - 150.0).abs()).clamp(0.05, 0.8)
}

/// The result of B.
pub(super) fn b(result: &OverloadResult) -> &FeatureResult {
    result.feature("b").expect("the scenario has it")
}

/// The seconds at which B was switched off and on first; infinite where it was not.
pub(super) fn t1_and_t2(result: &OverloadResult) -> (f64, f64) {
    let transitions = &b(result).transitions;
    let at = |place: usize| transitions.get(place).map_or(f64::INFINITY, |change| change.at);
    (at(0), at(1))
}

/// How often B changed.
pub(super) fn transitions(result: &OverloadResult) -> f64 {
    result.features.iter().map(|feature| feature.transitions.len()).max().unwrap_or(0) as f64
}

/// The shortest time between two changes of a feature, in milliseconds.
pub(super) fn shortest_dwell_ms(result: &OverloadResult) -> f64 {
    let dwells = result.features.iter().map(FeatureResult::shortest_dwell);
    dwells.fold(f64::INFINITY, f64::min) * 1000.0
}

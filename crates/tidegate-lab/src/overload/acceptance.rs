//! Acceptance experiments: the scenarios of each, and the lines of the gate that judge it.

mod control_traps;
mod deferral;
mod fairness;
mod feature_levels;
mod feature_noise;
mod feature_parts;
mod feature_ramp;
mod figures;
mod goodput;
mod high_value;
mod load_steps;
mod scenario_parts;

use tidegate_sim::kit::GateLine;
use tidegate_sim::kit::report::ExperimentNote;
use tidegate_sim::overload::{OverloadDesign, OverloadRun, OverloadScenario};

use super::experiment::OverloadExperiment;

/// The notes of all experiments, in order.
static NOTES: [ExperimentNote; OverloadExperiment::ALL.len()] = [
    ExperimentNote::new("E1", "work done in time at one to ten times the capacity", goodput::DESCRIPTION),
    ExperimentNote::new("E2", "an important tenant beside an unimportant flood", high_value::DESCRIPTION),
    ExperimentNote::new("E3", "load that rises in a step and eases again", load_steps::DESCRIPTION),
    ExperimentNote::new("E4", "a feature that makes room and comes back", feature_ramp::DESCRIPTION),
    ExperimentNote::new("E5", "noise and waves at the threshold of a feature", feature_noise::DESCRIPTION),
    ExperimentNote::new("E6", "features with levels beside on and off", feature_levels::DESCRIPTION),
    ExperimentNote::new("E9", "a batch that comes back with tickets", deferral::DESCRIPTION),
    ExperimentNote::new("E10", "shares of classes and tenants", fairness::DESCRIPTION),
    ExperimentNote::new("E11", "faults that mislead control loops", control_traps::DESCRIPTION),
];

impl OverloadExperiment {
    /// The note of it in reports.
    pub fn note(self) -> &'static ExperimentNote {
        &NOTES[self as usize]
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        self.note().name
    }

    /// Its scenarios of a seed, in order.
    pub fn scenarios(self, seed: u64) -> Vec<OverloadScenario> {
        let scenarios = match self {
            Self::Goodput => goodput::scenarios(seed),
            Self::HighValue => high_value::scenarios(seed),
            Self::DetectAndRecover => load_steps::scenarios(seed),
            Self::FeatureRamp => feature_ramp::scenarios(seed),
            Self::FeatureNoise => feature_noise::scenarios(seed),
            Self::FeatureLevels => feature_levels::scenarios(seed),
            Self::Deferral => deferral::scenarios(seed),
            Self::Fairness => fairness::scenarios(seed),
            Self::ControlTraps => control_traps::scenarios(seed),
        };
        let of_it = |scenario| OverloadScenario { experiment: Some(self.note()), ..scenario };
        scenarios.into_iter().map(of_it).collect()
    }

    /// Its scenarios of a seed that the gate of each change has the time for, under the product
    /// alone.
    pub fn gate_scenarios(self, seed: u64) -> Vec<OverloadScenario> {
        let scenarios = match self {
            Self::FeatureRamp => feature_ramp::gate_scenarios(seed),
            Self::FeatureNoise => feature_noise::gate_scenarios(seed),
            Self::FeatureLevels => feature_levels::gate_scenarios(seed),
            _ => self.scenarios(seed),
        };
        let of_it = |scenario| OverloadScenario {
            experiment: Some(self.note()),
            designs: vec![OverloadDesign::TIDEGATE],
            ..scenario
        };
        scenarios.into_iter().map(of_it).collect()
    }

    /// Its lines of the gate, for its runs of all seeds; at least one.
    pub(crate) fn judge(self, runs: &[&OverloadRun]) -> Vec<GateLine> {
        let mut lines = match self {
            Self::Goodput => goodput::judge(runs),
            Self::HighValue => high_value::judge(runs),
            Self::DetectAndRecover => load_steps::judge(runs),
            Self::FeatureRamp => feature_ramp::judge(runs),
            Self::FeatureNoise => feature_noise::judge(runs),
            Self::FeatureLevels => feature_levels::judge(runs),
            Self::Deferral => deferral::judge(runs),
            Self::Fairness => fairness::judge(runs),
            Self::ControlTraps => control_traps::judge(runs),
        };
        for line in &mut lines {
            line.experiment = self.name();
            line.group = Some(self.name());
        }
        lines
    }
}

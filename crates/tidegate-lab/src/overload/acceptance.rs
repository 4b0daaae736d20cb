//! Acceptance experiments: the scenarios of each, and the lines of the gate that judge it.

mod control_traps;
mod fairness;
mod figures;
mod goodput;
mod high_value;
mod load_steps;

use tidegate_sim::kit::GateLine;
use tidegate_sim::overload::{OverloadRun, OverloadScenario};

use super::experiment::OverloadExperiment;

impl OverloadExperiment {
    /// A few sentences that describe it.
    pub const fn description(self) -> &'static str {
        match self {
            Self::Goodput => goodput::DESCRIPTION,
            Self::HighValue => high_value::DESCRIPTION,
            Self::DetectAndRecover => load_steps::DESCRIPTION,
            Self::Fairness => fairness::DESCRIPTION,
            Self::ControlTraps => control_traps::DESCRIPTION,
        }
    }

    /// Its scenarios of a seed, in order.
    pub fn scenarios(self, seed: u64) -> Vec<OverloadScenario> {
        let scenarios = match self {
            Self::Goodput => goodput::scenarios(seed),
            Self::HighValue => high_value::scenarios(seed),
            Self::DetectAndRecover => load_steps::scenarios(seed),
            Self::Fairness => fairness::scenarios(seed),
            Self::ControlTraps => control_traps::scenarios(seed),
        };
        let of_it = |scenario| OverloadScenario { experiment: Some(self.note()), ..scenario };
        scenarios.into_iter().map(of_it).collect()
    }

    /// Its lines of the gate, for its runs of all seeds; at least one.
    pub(crate) fn judge(self, runs: &[&OverloadRun]) -> Vec<GateLine> {
        let mut lines = match self {
            Self::Goodput => goodput::judge(runs),
            Self::HighValue => high_value::judge(runs),
            Self::DetectAndRecover => load_steps::judge(runs),
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

//! Acceptance experiments: the scenario of each, and the lines of the gate that judge it.

mod figures;
mod groups;
mod growth;
mod isolation;
mod large_fleet;
mod large_items;
mod mode_changes;
mod oscillation;
mod saturation;
mod scenario_parts;
mod sequence;

use self::figures::{designs, worst};
use crate::capacity::experiment::Experiment;
use tidegate_sim::capacity::design::Design;
use tidegate_sim::capacity::run::CapacityRun;
use tidegate_sim::capacity::scenario::CapacityScenario;
use tidegate_sim::kit::GateLine;

impl Experiment {
    /// A few sentences that describe it.
    pub const fn description(self) -> &'static str {
        match self {
            Self::Isolation => isolation::DESCRIPTION,
            Self::FullFollower => groups::FULL_FOLLOWER,
            Self::GroupReads => groups::GROUP_READS,
            Self::LargeItems => large_items::DESCRIPTION,
            Self::MixedSequence => sequence::MIXED,
            Self::MixedPermuted => sequence::MIXED_PERMUTED,
            Self::SequencePermuted => sequence::SEQUENCE_PERMUTED,
            Self::Saturation => saturation::DESCRIPTION,
            Self::Oscillation => oscillation::DESCRIPTION,
            Self::TwentyTimes => growth::TWENTY_TIMES,
            Self::ThousandTimes => growth::THOUSAND_TIMES,
            Self::ModeChanges => mode_changes::DESCRIPTION,
            Self::LargeFleet => large_fleet::DESCRIPTION,
        }
    }

    /// Its scenario.
    pub fn scenario(self, seed: u64) -> CapacityScenario {
        let scenario = match self {
            Self::Isolation => isolation::scenario(seed),
            Self::FullFollower => groups::full_follower(seed),
            Self::GroupReads => groups::group_reads(seed),
            Self::LargeItems => large_items::scenario(seed),
            Self::MixedSequence => sequence::mixed(seed),
            Self::MixedPermuted => sequence::permuted(sequence::mixed(seed)),
            Self::SequencePermuted => sequence::permuted(sequence::of_w10(seed)),
            Self::Saturation => saturation::scenario(seed),
            Self::Oscillation => oscillation::scenario(seed),
            Self::TwentyTimes => growth::twenty_times(seed),
            Self::ThousandTimes => growth::thousand_times(seed),
            Self::ModeChanges => mode_changes::scenario(seed),
            Self::LargeFleet => large_fleet::scenario(seed),
        };
        CapacityScenario { experiment: Some(self.note()), workload: None, ..scenario }
    }

    /// Its lines of the gate, for runs that differ in their seed alone; at least one.
    pub(crate) fn judge(self, runs: &[&CapacityRun]) -> Vec<GateLine> {
        let mut lines = match self {
            Self::Isolation => isolation::judge(runs),
            Self::FullFollower => groups::judge_full_follower(runs),
            Self::GroupReads => groups::judge_group_reads(runs),
            Self::LargeItems => large_items::judge(runs),
            Self::MixedSequence => sequence::judge_mixed(runs),
            Self::MixedPermuted | Self::SequencePermuted => sequence::judge_permuted(runs),
            Self::Saturation => saturation::judge(runs),
            Self::Oscillation => oscillation::judge(runs),
            Self::TwentyTimes => growth::judge_twenty_times(runs),
            Self::ThousandTimes => growth::judge_thousand_times(runs),
            Self::ModeChanges => mode_changes::judge(runs),
            Self::LargeFleet => large_fleet::judge(runs),
        };
        lines.extend(judge_cuts(self, runs));
        for line in &mut lines {
            line.experiment = self.name();
            line.group = Some(self.id());
        }
        lines
    }
}

/// Each cut by the control loops, but for those that a growing limit needs, lowers the throttled
/// share of its range by a tenth within a minute.
fn judge_cuts(experiment: Experiment, runs: &[&CapacityRun]) -> Option<GateLine> {
    let design = designs(runs).find(|design| design.letters() == Design::Split.letters())?;
    let useless = worst(runs, design, |_, result| {
        result.tables.iter().map(|table| f64::from(table.changes.useless_splits)).sum()
    });
    let what = format!(
        "{} {}: cuts that did not lower the throttled share of their range by a tenth within 60 s",
        experiment.id(),
        design.letters()
    );
    Some(GateLine::judged(what, format!("{useless}"), "0", useless <= 0.0))
}

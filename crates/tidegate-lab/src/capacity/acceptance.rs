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
mod sequence;

use self::figures::{designs, worst};
use crate::capacity::experiment::Experiment;
use tidegate_sim::capacity::{CapacityRun, CapacityScenario, Design};
use tidegate_sim::kit::GateLine;
use tidegate_sim::kit::report::ExperimentNote;

/// The notes of all experiments, in order.
static NOTES: [ExperimentNote; Experiment::ALL.len()] = [
    ExperimentNote::new("E-ISO-1", "victims within their shares beside an attacker", isolation::DESCRIPTION),
    ExperimentNote::new("E-WRITE", "writes to groups with one full follower", groups::FULL_FOLLOWER),
    ExperimentNote::new("E-READ", "reads from all members of a group", groups::GROUP_READS),
    ExperimentNote::new("E-BIG", "writes of 400 units", large_items::DESCRIPTION),
    ExperimentNote::new("E-SEQ", "inserts in key order beside uniform load", sequence::MIXED)
        .with_id("E-SEQ-mixed"),
    ExperimentNote::new("E-SEQ", "the same arrivals, keys permuted", sequence::MIXED_PERMUTED)
        .with_id("E-SEQ-mixed-permuted"),
    ExperimentNote::new("E-SEQ", "the arrivals of W10, keys permuted", sequence::SEQUENCE_PERMUTED)
        .with_id("E-SEQ-W10-permuted"),
    ExperimentNote::new("E-BUSY", "nodes that are nearly full", saturation::DESCRIPTION),
    ExperimentNote::new("E-FLAP", "load that rises and falls around the ceiling", oscillation::DESCRIPTION),
    ExperimentNote::new("E-ETL", "twenty times the load for ten minutes, and back", growth::TWENTY_TIMES),
    ExperimentNote::new("E-OD", "a thousand times the load, twice", growth::THOUSAND_TIMES),
    ExperimentNote::new("E-MODE", "another mode every minute", mode_changes::DESCRIPTION),
    ExperimentNote::new("E-LARGE", "ten thousand partitions on a thousand nodes", large_fleet::DESCRIPTION),
];

impl Experiment {
    /// The note of it in reports.
    pub fn note(self) -> &'static ExperimentNote {
        &NOTES[self as usize]
    }

    /// The experiment of the specification that it belongs to.
    pub fn name(self) -> &'static str {
        self.note().name
    }

    /// Its name among all, in links.
    pub fn id(self) -> &'static str {
        self.note().id
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

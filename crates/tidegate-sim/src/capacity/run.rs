//! The results of a run: one scenario under all its designs.

use std::collections::BTreeMap;

use serde::Serialize;
use tidegate_capacity::KeyRange;

use crate::capacity::demand::request::RequestKind;
use crate::capacity::design::Design;
use crate::capacity::fluid::FluidShares;
use crate::capacity::judge::invariant::{Breach, Invariant};
use crate::capacity::plane::operator::ReloadRecord;
use crate::capacity::plane::routers::RouterResult;
use crate::capacity::scenario::{CapacityScenario, TableRole};
use crate::capacity::tally::{HeatCounts, SecondCount};

/// The results of one scenario.
#[derive(Clone, Debug, Serialize)]
pub struct CapacityRun {
    /// The scenario.
    pub scenario: CapacityScenario,
    /// The values of the fluid model for each table that is compared.
    pub fluid: Vec<FluidShares>,
    /// The requests for each table, by time and key; the same for every design.
    #[serde(skip)]
    pub offered: Vec<HeatCounts>,
    /// The results of each design.
    pub designs: Vec<DesignResult>,
}

/// The results of one design.
#[derive(Clone, Debug, Serialize)]
pub struct DesignResult {
    /// The design.
    pub design: Design,
    /// The tables, in the order of the scenario.
    pub tables: Vec<TableResult>,
    /// The kinds of requests of each table, in the order of the scenario.
    pub streams: Vec<StreamResult>,
    /// The reloads that the scenario made.
    pub reloads: Vec<ReloadRecord>,
    /// Requests that were decided, of all tables.
    pub decisions: u64,
    /// Refusals that were checked against the trace, all of them.
    pub refusals_checked: u64,
    /// Breaches of invariants, the first five of each.
    pub breaches: Vec<Breach>,
    /// How many breaches there were, by invariant.
    pub breach_counts: BTreeMap<Invariant, u64>,
    /// The routers with leases; `None` where one process routes all requests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub routers: Option<RouterResult>,
}

/// The results of one kind of request of a table.
#[derive(Clone, Debug, Serialize)]
pub struct StreamResult {
    /// The table.
    pub table: String,
    /// Their operation.
    pub kind: RequestKind,
    /// Units of each.
    pub request_units: u32,
    /// Requests.
    pub offered: u64,
    /// Requests that were refused.
    pub throttled: u64,
    /// Refused requests by the bucket that refused.
    pub by_bound: BTreeMap<&'static str, u64>,
    /// Units of admitted requests.
    pub units_admitted: f64,
    /// The longest time from one refusal to another without an admitted request between them, in
    /// milliseconds.
    pub longest_refused_ms: u64,
    /// The units that nodes served, of requests for groups of replicas.
    pub at_nodes: Vec<NodeUnits>,
    /// Requests by the second.
    #[serde(skip)]
    pub seconds: Vec<SecondCount>,
}

impl StreamResult {
    /// The part of the requests that was refused.
    pub fn throttled_share(&self) -> f64 {
        self.throttled as f64 / self.offered.max(1) as f64
    }
}

/// Units that a node served.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NodeUnits {
    /// The node.
    pub node: String,
    /// The units.
    pub units: f64,
}

/// A cut or a join of partitions by control loops.
#[derive(Clone, Debug, PartialEq)]
pub struct Reshape {
    /// When.
    pub second: f64,
    /// The range that was cut, or that came of the join.
    pub range: KeyRange,
    /// Whether it was cut.
    pub is_split: bool,
}

/// A table that follows its demand, by the second.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GrowthSeries {
    /// The number of its partitions.
    pub partitions: Vec<u32>,
    /// Thousandths a second that it may use.
    pub limits: Vec<i64>,
    /// Thousandths a second that a single key may use: the smallest ceiling of a partition, or its
    /// share where that is all it has.
    pub key_bounds: Vec<i64>,
}

/// The results of one table under one design.
#[derive(Clone, Debug, Default, Serialize)]
pub struct TableResult {
    /// Its name.
    pub table: String,
    /// Requests.
    pub offered: u64,
    /// Requests that were refused.
    pub throttled: u64,
    /// The part of the requests that was refused, of those that came while no more was asked for
    /// than the table has.
    pub share_within: f64,
    /// The same in the last minute of the run.
    pub share_at_end: f64,
    /// The part that was refused of those that came while more was asked for; `None` if there was
    /// no such time.
    pub share_beyond: Option<f64>,
    /// Refused requests by the bucket that refused.
    pub by_bound: BTreeMap<&'static str, u64>,
    /// Seconds from the onset of the trouble to the end of the first ten seconds in which less than
    /// a hundredth was throttled; `None` if there were none.
    pub recovery_seconds: Option<u32>,
    /// Splits, merges and moves of partitions.
    pub changes: ShapeChanges,
    /// Partitions that the scenario cut, whatever the design.
    pub forced_cuts: u32,
    /// Partitions that the scenario moved.
    pub forced_moves: u32,
    /// The plans that were carried out, in their order.
    pub plans: Vec<CarriedOutPlan>,
    /// The first time of each verdict against a cut.
    pub verdicts: Vec<FirstVerdict>,
    /// The partitions that refused most, most first.
    pub victims: Vec<Victim>,
    /// Requests by the second.
    #[serde(skip)]
    pub seconds: Vec<SecondCount>,
    /// Refused requests by time and key.
    #[serde(skip)]
    pub heat: HeatCounts,
    /// Cuts and joins by control loops, in their order.
    #[serde(skip)]
    pub reshapes: Vec<Reshape>,
    /// Partitions and limits by the second, of a table that follows its demand; empty otherwise.
    #[serde(skip)]
    pub growth: GrowthSeries,
    /// The partitions over time.
    #[serde(skip)]
    pub spans: Vec<PartitionSpan>,
}

/// Changes of a table's partitions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ShapeChanges {
    /// Partitions that were cut in two.
    pub splits: u32,
    /// Pairs of partitions that were joined.
    pub merges: u32,
    /// Partitions that changed their node.
    pub moves: u32,
    /// Splits after which the throttled share of the range was not a tenth lower within a minute.
    pub useless_splits: u32,
}

/// A plan that a control loop has made and the world has carried out.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CarriedOutPlan {
    /// When.
    pub second: u32,
    /// The change.
    pub what: String,
    /// The reason.
    pub reason: &'static str,
    /// The units a second that it was predicted to let through.
    pub benefit: f64,
}

/// The first time of a verdict against a cut.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FirstVerdict {
    /// The verdict.
    pub verdict: &'static str,
    /// The partition.
    pub partition: u32,
    /// When.
    pub second: u32,
}

/// The refusals of one partition by one bucket.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Victim {
    /// The number of the partition.
    pub partition: u32,
    /// Its keys.
    pub range: String,
    /// Its node.
    pub node: String,
    /// The bucket.
    pub bound: &'static str,
    /// The units a second of that bucket at the first refusal.
    pub limit: f64,
    /// Refused requests.
    pub requests: u64,
    /// Seconds in which there were any.
    pub seconds: u32,
    /// The first of them.
    pub first_second: u32,
    /// The last of them.
    pub last_second: u32,
    /// The first refusal, as a caller saw it.
    pub example: String,
}

/// A partition from one instant to another.
#[derive(Clone, Debug, PartialEq)]
pub struct PartitionSpan {
    /// Its number.
    pub partition: u32,
    /// The parts of the order of the keys at which it begins and ends, 0 to 1.
    pub keys: (f64, f64),
    /// From when until when, in seconds.
    pub seconds: (f64, f64),
    /// The position of its node in the scenario.
    pub node: usize,
}

impl CapacityRun {
    /// The positions of the tables that are compared, without tenants.
    pub fn compared(&self) -> impl Iterator<Item = usize> {
        self.scenario
            .tables
            .iter()
            .enumerate()
            .filter(|(_, table)| table.role == TableRole::Compared)
            .map(|(at, _)| at)
    }

    /// The group of runs that it is one seed of.
    pub(crate) fn group(&self) -> (Option<&'static str>, Option<&'static str>) {
        (self.scenario.workload.map(|one| one.id), self.scenario.experiment.map(|one| one.id))
    }

    /// The results of a design.
    pub fn of(&self, design: Design) -> Option<&DesignResult> {
        self.designs.iter().find(|result| result.design == design)
    }
}

impl DesignResult {
    /// Refused requests of tenants, which keep within their throughput, and all their requests.
    pub fn tenants(&self, scenario: &CapacityScenario) -> (u64, u64) {
        let tenants =
            scenario.tables.iter().zip(&self.tables).filter(|(spec, _)| spec.role == TableRole::Tenant);
        tenants.fold((0, 0), |(throttled, offered), (_, table)| {
            (throttled + table.throttled, offered + table.offered)
        })
    }

    /// How many breaches there were.
    pub fn breaches_total(&self) -> u64 {
        self.breach_counts.values().sum()
    }

    /// The results of the requests of a table of one kind.
    pub fn stream(&self, table: &str, kind: RequestKind) -> Option<&StreamResult> {
        self.streams.iter().find(|stream| stream.table == table && stream.kind == kind)
    }
}

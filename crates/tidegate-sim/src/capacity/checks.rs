//! The checkers of one design: each call of them is here.
//!
//! One of two sets judges. The *judge* keeps the exact level of every bucket, for tables whose
//! throughput and mode stay as they are and whose requests the leaders of groups serve. The checker
//! of *traces* is told by the plane which member served a request and by which path; it judges
//! worlds in which followers serve reads, or tables are reloaded or grow.
//!
//! The judge knows tables of one direction. A table whose reads and writes are both asked for is
//! two of them to it: one for each [`Lane`].

use std::collections::BTreeMap;

use tidegate_capacity::invariants::InvariantChecker;
use tidegate_capacity::trace::{AdmissionPath, TraceEvent};
use tidegate_capacity::{
    AccessOperation, Capacity, KeyRange, PartitionId, PartitionStatus, Position, TableMode, Throttled,
    UnitsHold,
};

use crate::capacity::invariant::{Breach, Invariant};
use crate::capacity::judge::Judge;
use crate::capacity::plane::instant;
use crate::capacity::request::RequestKind;
use crate::capacity::run::TraceBreach;
use crate::capacity::scenario::{CapacityScenario, TableSpec};
use crate::capacity::trace::{DecisionAnswer, DecisionEvent, PartitionRecord};
use crate::kit::{Findings, MS};

pub(crate) use crate::capacity::judge::LOOK_EVERY;

/// One direction of one table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lane {
    /// The position of the table.
    pub(crate) table: usize,
    pub(crate) operation: AccessOperation,
}

/// The directions that are asked for, the main one of each table first.
pub(crate) fn lanes_of(scenario: &CapacityScenario) -> Vec<Lane> {
    let mut lanes = Vec::new();
    for (table, spec) in scenario.tables.iter().enumerate() {
        let main = if spec.is_write { AccessOperation::Write } else { AccessOperation::Read };
        lanes.push(Lane { table, operation: main });
        for stream in scenario.streams(table) {
            let lane = Lane { table, operation: stream.kind.operation() };
            if !lanes.contains(&lane) {
                lanes.push(lane);
            }
        }
    }
    lanes
}

/// A request as checkers see it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CheckedRequest {
    pub(crate) at: u64,
    /// Numbers of the stream of requests and of its lane.
    pub(crate) stream: usize,
    pub(crate) lane: usize,
    /// The position of the table.
    pub(crate) table: usize,
    pub(crate) position: Position,
    /// Thousandths of a unit.
    pub(crate) cost: i64,
}

/// Thousandths that nodes served, by the number of the stream, the path and the node.
pub(crate) type ServedUnits = BTreeMap<(usize, &'static str, String), i64>;

/// The checkers of one design.
#[derive(Debug)]
pub(crate) struct Checks {
    checker: Checker,
    lanes: Vec<Lane>,
}

#[derive(Debug)]
enum Checker {
    Judge(Box<Judge>),
    Trace(Box<TraceChecks>),
}

/// The checker of traces, and what it has seen.
#[derive(Debug, Default)]
struct TraceChecks {
    checker: InvariantChecker,
    findings: Findings<u8, TraceBreach>,
    /// The partitions of each table as they were told last, reads and writes.
    told: BTreeMap<usize, [Vec<PartitionShape>; 2]>,
    served: ServedUnits,
}

/// A partition without its levels.
type PartitionShape = (PartitionId, KeyRange, usize, [i64; 3]);

/// The findings of the checkers.
#[derive(Clone, Debug, Default)]
pub(crate) struct CheckFindings {
    pub(crate) breaches: Vec<Breach>,
    pub(crate) breach_counts: BTreeMap<Invariant, u64>,
    pub(crate) trace_breaches: Vec<TraceBreach>,
    pub(crate) trace_breaches_total: u64,
    pub(crate) served: ServedUnits,
}

impl Checks {
    /// Checkers of full buckets. `records` are the partitions of each lane.
    pub(crate) fn new(
        scenario: &CapacityScenario,
        lanes: &[Lane],
        capacity: &Capacity,
        mode_of: impl Fn(usize) -> TableMode,
        records: &[Vec<PartitionRecord>],
    ) -> Self {
        let checker = if is_judged(scenario) {
            let tables = lanes.iter().map(|lane| table_of_lane(scenario, *lane)).collect();
            let judged = CapacityScenario { tables, ..scenario.clone() };
            let judge = Judge::new(&judged, |lane| mode_of(lanes[lane].table), records);
            Checker::Judge(Box::new(judge))
        } else {
            Checker::Trace(Box::new(TraceChecks::new(scenario, capacity)))
        };
        Self { checker, lanes: lanes.to_vec() }
    }

    /// Judges an admitted request.
    #[inline]
    pub(crate) fn admit(&mut self, request: &CheckedRequest, capacity: &Capacity, hold: &UnitsHold) {
        match &mut self.checker {
            Checker::Judge(judge) => {
                let billed = hold.units().as_thousandths();
                let answer = DecisionAnswer::Admitted { partition: hold.partition(), billed };
                judge.decide(&request.event(answer));
            }
            Checker::Trace(trace) => trace.admit(request, &capacity.admitted_event(hold)),
        }
    }

    /// Judges a refused request.
    pub(crate) fn refuse(&mut self, request: &CheckedRequest, throttled: &Throttled<'_>) {
        match &mut self.checker {
            Checker::Judge(judge) => judge.decide(&request.event(DecisionAnswer::Refused(throttled))),
            Checker::Trace(trace) => {
                let at = instant(request.at);
                let event = Capacity::refused_event(request.table, throttled, at);
                trace.check(&event, request.at);
            }
        }
    }

    /// Judges the partitions of a table as they are at `at`; `records` gives those of a lane.
    pub(crate) fn look(
        &mut self,
        table: usize,
        capacity: &Capacity,
        records: impl Fn(AccessOperation) -> Vec<PartitionRecord>,
        at: u64,
    ) {
        match &mut self.checker {
            Checker::Judge(judge) => {
                for (number, lane) in self.lanes.iter().enumerate().filter(|(_, lane)| lane.table == table) {
                    judge.look(number, &records(lane.operation), at);
                }
            }
            Checker::Trace(trace) => {
                let shapes = [AccessOperation::Read, AccessOperation::Write]
                    .map(|operation| records(operation).iter().map(shape_of).collect());
                trace.look(table, capacity, shapes, at);
            }
        }
    }

    pub(crate) fn into_findings(self) -> CheckFindings {
        match self.checker {
            Checker::Judge(judge) => CheckFindings {
                breaches: judge.breaches().to_vec(),
                breach_counts: judge.counts().clone(),
                ..CheckFindings::default()
            },
            Checker::Trace(trace) => CheckFindings {
                trace_breaches_total: trace.findings.total(),
                trace_breaches: trace.findings.into_kept(),
                served: trace.served,
                ..CheckFindings::default()
            },
        }
    }
}

/// Whether the judge can follow the tables of a scenario.
fn is_judged(scenario: &CapacityScenario) -> bool {
    let tables = || 0..scenario.tables.len();
    let is_led = |table: usize| {
        let is_group = scenario.tables[table].replicas > 1;
        let streams = scenario.streams(table);
        !(is_group && streams.iter().any(|stream| stream.kind == RequestKind::EventualRead))
    };
    let is_steady = scenario.steps.iter().all(|step| !step.kind.is_reload());
    is_steady && tables().all(|table| is_led(table) && scenario.growth(table).is_none())
}

/// One direction of a table, as a table.
fn table_of_lane(scenario: &CapacityScenario, lane: Lane) -> TableSpec {
    let mut spec = scenario.tables[lane.table].clone();
    let throughput = scenario.throughput(lane.table, lane.operation);
    spec.units_per_second = throughput.units_per_second;
    spec.ceiling = throughput.ceiling;
    spec.is_write = lane.operation == AccessOperation::Write;
    let streams = scenario.streams(lane.table);
    let in_lane = streams.iter().filter(|stream| stream.kind.operation() == lane.operation);
    spec.demand.units = in_lane.map(|stream| stream.demand.units).max().unwrap_or(1);
    spec
}

impl CheckedRequest {
    #[inline]
    const fn event<'a>(&self, answer: DecisionAnswer<'a>) -> DecisionEvent<'a> {
        let Self { at, lane, position, cost, .. } = *self;
        DecisionEvent { at, table: lane, position, cost, answer }
    }
}

impl TraceChecks {
    fn new(scenario: &CapacityScenario, capacity: &Capacity) -> Self {
        let mut trace = Self::default();
        let nodes = capacity.nodes(instant(0));
        for node in nodes {
            let (units, promisable) = (node.rate, node.promisable);
            trace.check(&TraceEvent::Node { name: node.name.to_owned(), units, promisable }, 0);
        }
        for table in 0..scenario.tables.len() {
            trace.tell(table, capacity, 0);
        }
        trace
    }

    fn admit(&mut self, request: &CheckedRequest, event: &TraceEvent) {
        self.check(event, request.at);
        if let TraceEvent::Admitted { units, path, nodes, .. } = event {
            let path = match path {
                AdmissionPath::Allocated => "share",
                AdmissionPath::Burst => "burst",
                AdmissionPath::Spare => "spare",
            };
            for node in nodes {
                let served = self.served.entry((request.stream, path, node.clone())).or_default();
                *served += units.as_thousandths();
            }
        }
    }

    /// Tells the checker the partitions of a table if they are not as they were.
    fn look(&mut self, table: usize, capacity: &Capacity, shapes: [Vec<PartitionShape>; 2], at: u64) {
        if self.told.get(&table) != Some(&shapes) {
            self.tell(table, capacity, at);
            self.told.insert(table, shapes);
        }
    }

    fn tell(&mut self, table: usize, capacity: &Capacity, at: u64) {
        self.check(&capacity.partitions_event(table, instant(at)), at);
    }

    fn check(&mut self, event: &TraceEvent, at: u64) {
        if let Err(violation) = self.checker.check(event) {
            let tidegate_capacity::invariants::Violation { invariant, text } = violation;
            self.findings.add(invariant, || TraceBreach { invariant, at_ms: at / MS, what: text });
        }
    }
}

fn shape_of(record: &PartitionRecord) -> PartitionShape {
    let PartitionRecord { id, range, leader, base, rate, ceiling, .. } = *record;
    (id, range, leader, [base, rate, ceiling])
}

/// The record of one direction of a partition whose group the node at position `leader` leads.
pub(crate) fn record_of(
    status: &PartitionStatus<'_>,
    operation: AccessOperation,
    leader: usize,
) -> PartitionRecord {
    PartitionRecord::of(status, operation == AccessOperation::Write, leader)
}

#[cfg(test)]
mod tests {
    use tidegate_capacity::Units;

    use super::*;
    use crate::capacity::design::Design;
    use crate::capacity::experiment::Experiment;
    use crate::capacity::plane::{builder_of, first_settings};

    #[test]
    fn the_checker_of_traces_finds_bursts_on_a_node_without_room_and_counts_what_it_served() {
        let scenario = Experiment::FullFollower.scenario(1);
        assert!(!is_judged(&scenario));
        let capacity = builder_of(&scenario, Design::Burst, &first_settings(&scenario, Design::Burst));
        let capacity = capacity.build().unwrap();
        let mut trace = TraceChecks::new(&scenario, &capacity);
        let request =
            CheckedRequest { at: 0, stream: 3, lane: 0, table: 0, position: Position::FIRST, cost: 50_000 };
        let burst = TraceEvent::Admitted {
            at: instant(0),
            place: (0, PartitionId(0)),
            operation: AccessOperation::Write,
            units: Units::whole(50),
            path: AdmissionPath::Burst,
            member: 0,
            nodes: vec!["node-3".to_owned()],
        };
        // A node of 1 000 units a second holds a tenth of them.
        for (admitted, breaches) in [(1, 0), (2, 0), (3, 1)] {
            trace.admit(&request, &burst);
            assert_eq!(trace.findings.total(), breaches, "{admitted}");
        }
        assert_eq!(trace.findings.kept()[0].invariant, 5);
        assert_eq!(trace.served[&(3, "burst", "node-3".to_owned())], 150_000);
    }

    #[test]
    fn worlds_whose_tables_stay_as_they_are_and_whose_leaders_serve_are_judged() {
        let is_judged = |experiment: Experiment| is_judged(&experiment.scenario(1));
        assert!(is_judged(Experiment::Isolation) && is_judged(Experiment::Oscillation));
        assert!(!is_judged(Experiment::ModeChanges) && !is_judged(Experiment::ThousandTimes));
    }
}

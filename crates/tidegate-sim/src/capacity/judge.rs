//! The judge of one design: it shows the checkers of the capacity plane every decision, and the
//! shapes of tables and nodes ten times a second. It reports their findings.
//!
//! The checkers are those of [`crate::invariants`]. They see the trace alone, keep
//! levels of their own, and share no formula with the plane.

pub mod invariant;

pub(super) mod trace;

use std::collections::BTreeMap;

use tidegate_capacity::view::TableView;
use tidegate_capacity::{AccessOperation, Capacity, Throttled, Units, UnitsHold};

use crate::capacity::demand::{Pattern, Phase};
use crate::capacity::fluid::FluidShares;
use crate::capacity::judge::invariant::{Breach, Invariant};
use crate::capacity::judge::trace::CheckedRequest;
use crate::capacity::plane::instant;
use crate::capacity::run::NodeUnits;
use crate::capacity::scenario::{CapacityScenario, TableRole};
use crate::invariants::trace::{TracedAdmission, TracedRefusal};
use crate::invariants::{InvariantChecker, InvariantViolation, LivenessTerms, TracedCharge};
use crate::kit::{MS, SECOND, WORLD_BEGIN};

/// The time between two looks of the checkers at the shape of tables, in nanoseconds.
pub(crate) const LOOK_EVERY: u64 = SECOND / 10;

/// All checkers of one design.
#[derive(Debug)]
pub(crate) struct Judge {
    seed: u64,
    checker: InvariantChecker,
    tables: Vec<String>,
    nodes: Vec<String>,
    /// Whether tables have groups of replicas, of which the units that nodes served are counted.
    is_group: Vec<bool>,
    /// Thousandths that nodes served, by the numbers of the stream and of the node.
    served: BTreeMap<(usize, usize), i64>,
    /// The memory of a look.
    view: TableView,
}

impl Judge {
    /// The judge of a plane, whose tables are those of the scenario in the same order.
    pub(crate) fn new(scenario: &CapacityScenario, capacity: &Capacity) -> Self {
        let views = views_of(capacity, scenario.tables.len(), 0);
        let mut checker = InvariantChecker::new(&capacity.view_nodes(instant(0)), &views);
        for table in 0..scenario.tables.len() {
            let largest = scenario.streams(table).iter().map(|stream| stream.demand.units).max();
            checker.set_largest_request(table, Units::whole(largest.unwrap_or(1).into()));
            checker.hold_to_throughput(table);
        }
        Self {
            seed: scenario.seed,
            checker,
            tables: scenario.tables.iter().map(|table| table.name.clone()).collect(),
            nodes: scenario.nodes.iter().map(|node| node.name.clone()).collect(),
            is_group: scenario.tables.iter().map(|table| table.replicas > 1).collect(),
            served: BTreeMap::new(),
            view: TableView::new(),
        }
    }

    /// Declares the tables whose demand is the same during the whole run, and can be served: the
    /// table has as much, no key is asked for more than a ceiling, and the nodes of the baseline
    /// have room. `fluid` are the models of the compared tables.
    pub(crate) fn declare_stationary(&mut self, scenario: &CapacityScenario, fluid: &[FluidShares]) {
        if scenario.workload.is_none() {
            return;
        }
        let compared =
            scenario.tables.iter().enumerate().filter(|(_, spec)| spec.role == TableRole::Compared);
        for ((table, spec), fluid) in compared.zip(fluid) {
            let is_same = matches!(
                &spec.demand.phases[..],
                [Phase { pattern: Pattern::Uniform | Pattern::Zipf { .. }, .. }]
            );
            if is_same && scenario.is_within(table, 0.0) && fluid.floor <= 0.0 {
                for stream in scenario.streams(table) {
                    let terms = LivenessTerms::default();
                    self.checker.stationary(table, stream.kind.operation(), instant(0), terms);
                }
            }
        }
    }

    /// Judges an admitted request, and books it.
    #[inline]
    pub(crate) fn admit(&mut self, request: &CheckedRequest, hold: &UnitsHold) {
        let admission = TracedAdmission {
            access: request.traced(),
            partition: hold.partition(),
            member: hold.member(),
            billed: hold.units(),
        };
        // No access of this world is settled or given back.
        let charge = self.checker.admit(&admission);
        if self.is_group[request.table] {
            for node in charge.iter().flat_map(TracedCharge::nodes) {
                *self.served.entry((request.stream, node)).or_default() += request.cost;
            }
        }
    }

    /// Judges a refused request.
    pub(crate) fn refuse(&mut self, request: &CheckedRequest, throttled: &Throttled<'_>) {
        self.checker.refuse(&TracedRefusal::new(request.traced(), throttled));
    }

    /// Judges the partitions of a table as routers know them at `at`.
    pub(crate) fn look(&mut self, table: usize, capacity: &Capacity, at: u64) {
        capacity.view_table(table, instant(at), &mut self.view);
        self.checker.look_at_table(&self.view);
    }

    /// Judges the nodes at `at`.
    pub(crate) fn look_at_nodes(&mut self, capacity: &Capacity, at: u64) {
        self.checker.look_at_nodes(&capacity.view_nodes(instant(at)));
    }

    /// Judges a reload, which may change rates and cut tables anew.
    pub(crate) fn reload(&mut self, capacity: &Capacity, at: u64) {
        let views = views_of(capacity, self.tables.len(), at);
        self.checker.reload(&capacity.view_nodes(instant(at)), &views);
    }

    /// Lets routers admit as much more than the tokens of the table as leases keep at once.
    pub(crate) fn lease(&mut self, table: usize, operation: AccessOperation, units: Units) {
        self.checker.set_lease_allowance(table, operation, units);
    }

    /// How often each invariant was breached.
    pub(crate) fn counts(&self) -> BTreeMap<Invariant, u64> {
        self.checker.violations().counts().clone()
    }

    /// The first breaches of each invariant.
    pub(crate) fn breaches(&self) -> Vec<Breach> {
        self.checker.violations().kept().iter().map(|violation| self.breach(violation)).collect()
    }

    /// A violation of one of the tables of the scenario.
    pub(crate) fn breach(&self, violation: &InvariantViolation) -> Breach {
        Breach {
            invariant: violation.invariant,
            seed: self.seed,
            at_ms: (violation.at.as_nanos() - WORLD_BEGIN) / MS,
            table: violation.table.map_or_else(|| "-".to_owned(), |table| self.tables[table].clone()),
            what: violation.what.clone(),
        }
    }

    /// The units that nodes served of a stream of requests for groups of replicas.
    pub(crate) fn served(&self, stream: usize) -> Vec<NodeUnits> {
        let of_it = self.served.range((stream, 0)..(stream + 1, 0));
        let units = of_it.map(|((_, node), thousandths)| NodeUnits {
            node: self.nodes[*node].clone(),
            units: Units::from_thousandths(*thousandths).as_f64(),
        });
        units.collect()
    }
}

fn views_of(capacity: &Capacity, tables: usize, at: u64) -> Vec<TableView> {
    let view = |table| {
        let mut view = TableView::new();
        capacity.view_table(table, instant(at), &mut view);
        view
    };
    (0..tables).map(view).collect()
}

#[cfg(test)]
mod tests;

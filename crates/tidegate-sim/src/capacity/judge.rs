//! The judge of a run: it shows the checkers of the capacity plane every decision, and the shape of
//! tables and nodes every tenth of a second, and reports their findings.
//!
//! The checkers are those of [`tidegate_capacity::invariants`]. They see the trace alone, keep
//! levels of their own, and share no formula with the plane.

use std::collections::BTreeMap;

use tidegate_capacity::invariants::{InvariantChecker, LivenessTerms};
use tidegate_capacity::trace::{TableView, TracedAccess, TracedAdmission, TracedRefusal};
use tidegate_capacity::{AccessOperation, Capacity, Units};
use tidegate_core::Timestamp;

use crate::capacity::demand::{Pattern, Phase};
use crate::capacity::fluid::FluidShares;
use crate::capacity::invariant::{Breach, Invariant};
use crate::capacity::scenario::{CapacityScenario, TableRole, TableSpec};
use crate::capacity::trace::{DecisionAnswer, DecisionEvent};
use crate::kit::{MS, SECOND, WORLD_BEGIN};

/// The time between two looks of the checkers at the shape of tables, in nanoseconds.
pub(crate) const LOOK_EVERY: u64 = SECOND / 10;

/// All checkers of one run.
#[derive(Debug)]
pub(crate) struct Judge {
    seed: u64,
    checker: InvariantChecker,
    names: Vec<String>,
    operations: Vec<AccessOperation>,
    /// The memory of a look.
    view: TableView,
}

impl Judge {
    /// The judge of a plane, whose tables are those of the scenario in the same order.
    pub(crate) fn new(scenario: &CapacityScenario, capacity: &Capacity) -> Self {
        let now = instant(0);
        let views: Vec<TableView> = (0..scenario.tables.len())
            .map(|table| {
                let mut view = TableView::new();
                capacity.view_table(table, now, &mut view);
                view
            })
            .collect();
        let mut checker = InvariantChecker::new(&capacity.view_nodes(now), &views);
        for (table, spec) in scenario.tables.iter().enumerate() {
            checker.set_largest_request(table, Units::whole(spec.demand.units.into()));
        }
        Self {
            seed: scenario.seed,
            checker,
            names: scenario.tables.iter().map(|table| table.name.clone()).collect(),
            operations: scenario.tables.iter().map(operation_of).collect(),
            view: TableView::new(),
        }
    }

    /// Declares the tables whose demand is the same during the whole run, and can be served: the
    /// table has as much, no key is asked for more than a ceiling, and the nodes of the baseline
    /// have room. `fluid` are the models of the compared tables.
    pub(crate) fn declare_stationary(&mut self, scenario: &CapacityScenario, fluid: &[FluidShares]) {
        let compared =
            scenario.tables.iter().enumerate().filter(|(_, spec)| spec.role == TableRole::Compared);
        for ((table, spec), fluid) in compared.zip(fluid) {
            #[expect(clippy::cast_precision_loss, reason = "rates are far below 2^53")]
            let is_within = spec.demand.rate_at(0.0) <= spec.units_per_second as f64;
            let is_same = matches!(
                &spec.demand.phases[..],
                [Phase { pattern: Pattern::Uniform | Pattern::Zipf { .. }, .. }]
            );
            if scenario.workload.is_some() && is_within && is_same && fluid.floor <= 0.0 {
                let terms = LivenessTerms::default();
                self.checker.stationary(table, self.operations[table], instant(0), terms);
            }
        }
    }

    /// Judges one decision, and books it.
    #[inline]
    pub(crate) fn decide(&mut self, event: &DecisionEvent<'_>) {
        let access = TracedAccess {
            at: instant(event.at),
            table: event.table,
            position: event.position,
            operation: self.operations[event.table],
            units: Units::from_thousandths(event.cost),
            is_first: true,
        };
        match event.answer {
            DecisionAnswer::Admitted { partition, member, billed } => {
                let billed = Units::from_thousandths(billed);
                // No access of this world is settled or given back.
                let _ = self.checker.admit(&TracedAdmission { access, partition, member, billed });
            }
            DecisionAnswer::Refused(throttled) => {
                self.checker.refuse(&TracedRefusal::of(access, throttled));
            }
        }
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

    /// How often each invariant was breached.
    pub(crate) fn counts(&self) -> BTreeMap<Invariant, u64> {
        let violations = self.checker.violations();
        violations.broken().map(|invariant| (invariant, violations.count(invariant))).collect()
    }

    /// The first breaches of each invariant.
    pub(crate) fn breaches(&self) -> Vec<Breach> {
        let breaches = self.checker.violations().kept().iter().map(|violation| Breach {
            invariant: violation.invariant,
            seed: self.seed,
            at_ms: (violation.at.as_nanos() - WORLD_BEGIN) / MS,
            table: violation.table.map_or_else(|| "-".to_owned(), |table| self.names[table].clone()),
            what: violation.what.clone(),
        });
        breaches.collect()
    }
}

fn instant(at: u64) -> Timestamp {
    Timestamp::from_nanos(WORLD_BEGIN + at)
}

fn operation_of(spec: &TableSpec) -> AccessOperation {
    if spec.is_write { AccessOperation::Write } else { AccessOperation::Read }
}

#[cfg(test)]
mod tests;

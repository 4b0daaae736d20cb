//! One design in the world: its plane, its control loops, its checkers and its counts.

use tidegate_capacity::control::Control;
use tidegate_capacity::plan::{Plan, PlanReason, PlannedChange};
use tidegate_capacity::split::SplitVerdict;
use tidegate_capacity::{
    Access, AccessOperation, Admission, Capacity, KeyRange, PartitionStatus, TableMode, TokenSource, Units,
};
use tidegate_core::Timestamp;

use crate::capacity::demand::stream_source::StreamSource;
use crate::capacity::design::Design;
use crate::capacity::fluid::FluidShares;
use crate::capacity::judge::Judge;
use crate::capacity::judge::trace::{CheckedRequest, PartitionRecord};
use crate::capacity::plane::operator::{ForcedChanges, OperatorChanges, TableOperator};
use crate::capacity::plane::placement::MovableStore;
use crate::capacity::plane::routers::{LeaseRouters, RouterAnswer};
use crate::capacity::plane::{NAMESPACE, builder_of, first_settings, instant};
use crate::capacity::run::{CarriedOutPlan, DesignResult, FirstVerdict};
use crate::capacity::scenario::{CapacityScenario, CapacityScenarioError, TableSpec};
use crate::capacity::tally::stream_tally::StreamTally;
use crate::capacity::tally::table_tally::TableTally;
use crate::capacity::world_names::WorldNames;
use crate::kit::SECOND;

/// One design: its plane, its checkers, its counts.
#[derive(Debug)]
pub(crate) struct DesignWorld {
    design: Design,
    /// The partitions and nodes, and the tokens of the tables unless routers lease them.
    capacity: Capacity,
    /// The routers that come before, if they lease.
    routers: Option<Box<dyn LeaseRouters>>,
    judge: Judge,
    tables: Vec<TableTally>,
    streams: Vec<StreamTally>,
    /// The control loops, of designs that have them, and the store that they move partitions of.
    control: Option<Control>,
    store: MovableStore,
    operator: Option<Box<dyn TableOperator>>,
    decisions: u64,
    refusals: u64,
    /// When it was last asked whether a table needs partitions at once.
    grown_at: u64,
}

/// The time between two looks for tables that need partitions at once, in nanoseconds.
const GROWTH_EACH: u64 = SECOND / 100;

impl DesignWorld {
    pub(crate) fn new(
        scenario: &CapacityScenario,
        names: &WorldNames,
        streams: &[StreamSource],
        fluid: &[FluidShares],
        design: Design,
    ) -> Result<Self, CapacityScenarioError> {
        let settings = first_settings(scenario, design);
        let capacity = builder_of(scenario, design, &settings).build()?;
        let mut judge = Judge::new(scenario, &capacity);
        if design == Design::Split {
            judge.declare_stationary(scenario, fluid);
        }
        let leases = design.mode() == TableMode::Global;
        let tally_of = |(table, spec): (usize, &TableSpec)| {
            let statuses = statuses_of(&capacity, &spec.name, instant(0));
            TableTally::new(scenario, table, &records_of(&statuses, names, main_operation(spec)))
        };
        let tables = scenario.tables.iter().enumerate().map(tally_of).collect();
        Ok(Self {
            design,
            capacity,
            routers: if leases { routers_of(scenario, &mut judge)? } else { None },
            judge,
            tables,
            streams: streams.iter().map(|source| StreamTally::new(scenario, source)).collect(),
            control: design.is_controlled().then(|| Control::new(scenario.seed, instant(0))),
            store: MovableStore::default(),
            operator: scenario.script.as_ref().map(|script| script.operator(scenario, design)),
            decisions: 0,
            refusals: 0,
            grown_at: 0,
        })
    }

    /// Decides a request whose key has this first word.
    #[inline]
    pub(crate) fn ask(&mut self, request: &CheckedRequest, access: &Access<'_>, word: u64) {
        self.decisions += 1;
        let CheckedRequest { at, stream, table, cost, .. } = *request;
        let located = self.capacity.locate(NAMESPACE, access);
        let located = located.expect("the world asks for tables that it has made");
        let (source, spent) = match self.routers.as_mut().map(|routers| routers.ask(table, access, at)) {
            None => (TokenSource::Table, None),
            Some(RouterAnswer::Admitted(spent)) => (TokenSource::Spent, Some(spent)),
            Some(RouterAnswer::Refused { left, until }) => (TokenSource::Short { left, until }, None),
        };
        let admission = located.admit(&[source], instant(at));
        if let (Some(routers), Some(spent)) = (&mut self.routers, spent) {
            match &admission {
                Admission::Admit(hold) => routers.keep(*spent, table, hold.units(), at),
                Admission::Throttle(_) => routers.put_back(*spent, at),
            }
        }
        match admission {
            Admission::Admit(hold) => {
                self.tables[table].admit(at);
                self.streams[stream].admit(at, cost);
                self.judge.admit(request, &hold);
            }
            Admission::Throttle(ref throttled) => {
                self.refusals += 1;
                self.tables[table].refuse(at, word, throttled);
                self.streams[stream].refuse(at, throttled);
                self.judge.refuse(request, throttled);
            }
        }
    }

    /// Lets tables have the partitions that they need before the next second; once in each ten
    /// milliseconds.
    #[inline]
    pub(crate) fn grow(&mut self, scenario: &CapacityScenario, names: &WorldNames, at: u64) {
        if self.grown_at / GROWTH_EACH == at / GROWTH_EACH {
            return;
        }
        self.grown_at = at;
        let Some(control) = &self.control else { return };
        let plans = control.grow(&self.capacity, instant(at));
        if !plans.is_empty() {
            self.carry_out(plans, names, at);
            self.look_at_shapes(scenario, names, at);
        }
    }

    /// Lets the operator and the control loops work at `at`, and looks at the shape of all tables.
    pub(crate) fn look(&mut self, scenario: &CapacityScenario, names: &WorldNames, at: u64) {
        if let Some(operator) = &mut self.operator
            && operator.work(&mut self.capacity, at)
        {
            self.judge.reload(&self.capacity, at);
        }
        self.control(names, at);
        if let Some(routers) = &mut self.routers {
            routers.tick(at);
        }
        self.look_at_shapes(scenario, names, at);
    }

    fn look_at_shapes(&mut self, scenario: &CapacityScenario, names: &WorldNames, at: u64) {
        let is_second = at.is_multiple_of(SECOND);
        for (table, spec) in scenario.tables.iter().enumerate() {
            let statuses = statuses_of(&self.capacity, &spec.name, instant(at));
            let main = main_operation(spec);
            let records = records_of(&statuses, names, main);
            self.tables[table].update(&records, at);
            if is_second {
                self.tables[table].cuts.second(&with_both_directions(&statuses, &records));
                let tally = &mut self.tables[table];
                if let Some(control) = &self.control {
                    note_verdicts(tally, control, (&spec.name, main), &records, at);
                }
                if scenario.growth(table).is_some() {
                    let limit = self.capacity.token_rate(NAMESPACE, &spec.name, main);
                    let limit = limit.expect("the world has made it").as_thousandths();
                    note_growth(tally, limit, self.design == Design::Static, &records);
                }
            }
            self.judge.look(table, &self.capacity, at);
        }
        self.judge.look_at_nodes(&self.capacity, at);
    }

    /// Lets the control loops of the design work at `at`.
    fn control(&mut self, names: &WorldNames, at: u64) {
        let now = instant(at);
        if at.is_multiple_of(SECOND)
            && let Some(control) = &mut self.control
        {
            let plans = control.tick(&self.capacity, now);
            self.carry_out(plans, names, at);
        }
        if let Some(control) = &mut self.control {
            let _ = control.follow_moves(&self.capacity, &mut self.store, now);
        }
    }

    fn carry_out(&mut self, plans: Vec<Plan>, names: &WorldNames, at: u64) {
        let Some(control) = &mut self.control else { return };
        let now = instant(at);
        for plan in plans {
            let Some(table) = names.table(&plan.table) else { continue };
            if !self.design.carries_out(&plan) {
                continue;
            }
            let range = changed_range(&self.capacity, &plan, now);
            if control.carry_out(&self.capacity, &plan, &mut self.store, now).is_ok() {
                let tally = &mut self.tables[table];
                tally.result.plans.push(told(&plan, at));
                if let Some(range) = range {
                    let is_isolation = matches!(plan.change, PlannedChange::Isolate { .. });
                    let is_split = is_isolation || matches!(plan.change, PlannedChange::Split { .. });
                    tally.reshape(at, range, is_split);
                    if is_isolation {
                        // The second cut of the same range.
                        tally.reshape(at, range, is_split);
                    }
                    // A cut for a limit that grows is made before it is needed.
                    if is_split && plan.reason != PlanReason::Growth {
                        tally.cuts.cut(range);
                    }
                }
            }
        }
    }

    /// The result, of which `tables` makes those of the tables.
    pub(crate) fn into_result(self, scenario: &CapacityScenario) -> DesignResult {
        let OperatorChanges { forced, reloads } =
            self.operator.map_or_else(OperatorChanges::default, TableOperator::into_changes);
        let forced = forced.into_iter().chain(core::iter::repeat(ForcedChanges::default()));
        let tables = self.tables.into_iter().zip(forced).enumerate();
        let tables =
            tables.map(|(table, (tally, forced))| tally.into_result(scenario, table, forced)).collect();
        let streams = self.streams.into_iter().enumerate();
        let streams = streams.map(|(number, tally)| tally.into_result(self.judge.served(number))).collect();
        let (mut breaches, mut breach_counts) = (self.judge.breaches(), self.judge.counts());
        let (routers, leases) = self.routers.map(LeaseRouters::into_result).unzip();
        for checker in leases.iter().flatten() {
            let violations = checker.violations();
            for (invariant, count) in violations.counts() {
                *breach_counts.entry(*invariant).or_default() += count;
            }
            breaches.extend(violations.kept().iter().map(|violation| self.judge.breach(violation)));
        }
        DesignResult {
            design: self.design,
            tables,
            streams,
            reloads,
            decisions: self.decisions,
            refusals_checked: self.refusals,
            breaches,
            breach_counts,
            routers,
        }
    }
}

/// The routers of a scenario that has them.
fn routers_of(
    scenario: &CapacityScenario,
    judge: &mut Judge,
) -> Result<Option<Box<dyn LeaseRouters>>, CapacityScenarioError> {
    let Some(spec) = scenario.routers else { return Ok(None) };
    for (table, of) in scenario.tables.iter().enumerate() {
        // A lease keeps at most a tenth of a second of its refill.
        let kept = Units::whole(of.units_per_second / 10 + 1);
        judge.lease(table, main_operation(of), kept);
    }
    (spec.open)(scenario, spec).map(Some)
}

/// The direction that a table is mostly asked for.
const fn main_operation(spec: &TableSpec) -> AccessOperation {
    if spec.is_write { AccessOperation::Write } else { AccessOperation::Read }
}

/// Notes the first time of each verdict on a partition that is throttled.
fn note_verdicts(
    tally: &mut TableTally,
    control: &Control,
    (table, operation): (&str, AccessOperation),
    records: &[PartitionRecord],
    at: u64,
) {
    for record in records {
        let verdict = control.verdict((NAMESPACE, table), record.id, operation);
        let Some(word) = verdict.and_then(verdict_word) else { continue };
        if !tally.result.verdicts.iter().any(|known| known.verdict == word) {
            let second = (at / SECOND) as u32;
            tally.result.verdicts.push(FirstVerdict { verdict: word, partition: record.id.0, second });
        }
    }
}

/// Notes partitions, limit and bounds of keys of a table that follows its demand.
fn note_growth(tally: &mut TableTally, limit: i64, is_static: bool, records: &[PartitionRecord]) {
    let bound = |record: &PartitionRecord| if is_static { record.rate } else { record.ceiling };
    let growth = &mut tally.result.growth;
    growth.partitions.push(records.len() as u32);
    growth.limits.push(limit);
    growth.key_bounds.push(records.iter().map(bound).min().unwrap_or(0));
}

fn statuses_of<'a>(capacity: &'a Capacity, table: &str, now: Timestamp) -> Vec<PartitionStatus<'a>> {
    capacity.partitions(NAMESPACE, table, now).expect("the world has made it").collect()
}

fn records_of(
    statuses: &[PartitionStatus<'_>],
    names: &WorldNames,
    operation: AccessOperation,
) -> Vec<PartitionRecord> {
    statuses.iter().map(|status| PartitionRecord::new(status, operation, names.node(status.node))).collect()
}

/// The records with the units of both directions together.
fn with_both_directions(
    statuses: &[PartitionStatus<'_>],
    records: &[PartitionRecord],
) -> Vec<PartitionRecord> {
    let both = |(status, record): (&PartitionStatus<'_>, &PartitionRecord)| PartitionRecord {
        offered: (status.read.offered + status.write.offered).as_thousandths(),
        throttled: (status.read.throttled + status.write.throttled).as_thousandths(),
        ..record.clone()
    };
    statuses.iter().zip(records).map(both).collect()
}

/// The keys that a plan cuts, or joins.
fn changed_range(capacity: &Capacity, plan: &Plan, now: Timestamp) -> Option<KeyRange> {
    let partitions: Vec<_> = capacity.partitions(&plan.namespace, &plan.table, now).ok()?.collect();
    let place = |id| partitions.iter().position(|status| status.id == id);
    match plan.change {
        PlannedChange::Split { partition, .. } | PlannedChange::Isolate { partition, .. } => {
            Some(partitions[place(partition)?].range)
        }
        PlannedChange::Merge { left } => {
            let place = place(left)?;
            Some(KeyRange { end: partitions.get(place + 1)?.range.end, ..partitions[place].range })
        }
        PlannedChange::Move(_) => None,
    }
}

/// A plan in words.
fn told(plan: &Plan, at: u64) -> CarriedOutPlan {
    let (what, reason) = (plan.change.to_string(), plan.reason.as_str());
    CarriedOutPlan { second: (at / SECOND) as u32, what, reason, benefit: plan.benefit.as_f64() }
}

/// A verdict that says why a partition is not cut, in a word.
fn verdict_word(verdict: &SplitVerdict) -> Option<&'static str> {
    match verdict {
        SplitVerdict::HotKey { .. } => Some("HOT_KEY"),
        SplitVerdict::Sequential => Some("SEQUENTIAL"),
        SplitVerdict::Moving => Some("MOVING"),
        SplitVerdict::Scan => Some("SCAN"),
        SplitVerdict::Useless => Some("USELESS"),
        _ => None,
    }
}

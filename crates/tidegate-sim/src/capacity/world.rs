//! The world of the capacity plane: the same requests for every design, decided by the product's
//! own code.

use tidegate_capacity::control::Control;
use tidegate_capacity::plan::{Plan, PlanReason, PlannedChange};
use tidegate_capacity::split::SplitVerdict;
use tidegate_capacity::{
    Access, AccessKind, AccessOperation, Admission, Capacity, CapacityError, Ceilings, KeyRange, NodeConfig,
    PartitionBy, PartitionStatus, ReadConsistency, TableConfig, TableMode,
};
use tidegate_core::Timestamp;

use crate::capacity::arrivals::ArrivalSource;
use crate::capacity::cut_watch::CutWatch;
use crate::capacity::design::Design;
use crate::capacity::fluid::FluidShares;
use crate::capacity::judge::{Judge, LOOK_EVERY};
use crate::capacity::keys::KeySet;
use crate::capacity::placement::MovableStore;
use crate::capacity::run::{
    CapacityRun, CarriedOutPlan, DesignResult, FirstVerdict, PartitionSpan, ShapeChanges, TableResult, Victim,
};
use crate::capacity::scenario::{CapacityScenario, CapacityScenarioError, TableRole, TableSpec};
use crate::capacity::tally::{HeatCounts, SecondCount, TableTally};
use crate::capacity::trace::{DecisionAnswer, DecisionEvent, PartitionRecord};
use crate::kit::{SECOND, WORLD_BEGIN};

/// The namespace of all tables.
const NAMESPACE: &str = "sim";

/// The most partitions that a result names as victims.
const VICTIMS_MAX: usize = 12;

/// A scenario under way.
#[derive(Debug)]
pub struct CapacityWorld {
    scenario: CapacityScenario,
    sources: Vec<ArrivalSource>,
    fluid: Vec<FluidShares>,
    offered: Vec<HeatCounts>,
    designs: Vec<DesignWorld>,
    /// The weight of a request of each table in thousandths.
    costs: Vec<i64>,
    seconds: u32,
    next_look: u64,
}

/// One design: its plane, its checkers, its counts.
#[derive(Debug)]
struct DesignWorld {
    design: Design,
    capacity: Capacity,
    judge: Judge,
    tallies: Vec<TableTally>,
    shapes: Vec<TableShape>,
    /// The control loops, of designs that have them, and the store that they move partitions of.
    control: Option<Control>,
    store: MovableStore,
    decisions: u64,
    refusals: u64,
}

/// The partitions of a table over time.
#[derive(Debug)]
struct TableShape {
    open: Vec<PartitionSpan>,
    closed: Vec<PartitionSpan>,
    changes: ShapeChanges,
    cuts: CutWatch,
    plans: Vec<CarriedOutPlan>,
    verdicts: Vec<FirstVerdict>,
}

impl CapacityWorld {
    /// The world of a scenario at its beginning: buckets are full, as after a long idle time.
    pub fn new(scenario: &CapacityScenario) -> Result<Self, CapacityScenarioError> {
        scenario.check()?;
        let sources: Vec<ArrivalSource> = (0..)
            .zip(&scenario.tables)
            .map(|(part, table)| {
                let demand = table.demand.clone();
                let TableSpec { partitions, is_ordered, shares_top_keys, .. } = *table;
                let salt = scenario.seed.wrapping_mul(0x9e37_79b9).wrapping_add(part);
                let keys = KeySet::new(demand.keys, partitions, is_ordered, shares_top_keys, salt);
                ArrivalSource::new(demand, keys, partitions, scenario.seconds, scenario.seed, 100 + part)
            })
            .collect();
        let fluid =
            scenario.tables.iter().zip(&sources).filter(|(table, _)| table.role == TableRole::Compared);
        let fluid: Vec<FluidShares> =
            fluid.map(|(table, source)| FluidShares::of(table, source, scenario.seconds)).collect();
        let designs = scenario.designs.iter().map(|design| DesignWorld::new(scenario, *design, &fluid));
        let designs = designs.collect::<Result<_, _>>()?;
        Ok(Self {
            fluid,
            offered: scenario.tables.iter().map(|_| HeatCounts::new(scenario.seconds)).collect(),
            designs,
            costs: scenario.tables.iter().map(|table| i64::from(table.demand.units) * 1000).collect(),
            scenario: scenario.clone(),
            sources,
            seconds: 0,
            next_look: LOOK_EVERY,
        })
    }

    /// The seconds that have passed.
    pub const fn seconds(&self) -> u32 {
        self.seconds
    }

    /// Simulates the next second; false if the last one has passed.
    pub fn next_second(&mut self) -> bool {
        if self.seconds >= self.scenario.seconds {
            return false;
        }
        let end = u64::from(self.seconds + 1) * SECOND;
        loop {
            let next = self.sources.iter().map(ArrivalSource::next_at).zip(0..).min();
            let Some((at, table)) = next.filter(|(at, _)| *at < end) else { break };
            while self.next_look <= at {
                self.look();
            }
            self.ask(table, at);
        }
        while self.next_look <= end {
            self.look();
        }
        self.seconds += 1;
        true
    }

    fn ask(&mut self, table: usize, at: u64) {
        let key = self.sources[table].take();
        self.offered[table].add(at, key.word);
        let spec = &self.scenario.tables[table];
        let units = u64::from(spec.demand.units);
        let (kind, size) = if spec.is_write {
            (AccessKind::Write, units * 1024)
        } else {
            (AccessKind::Read { consistency: ReadConsistency::Strong }, units * 4096)
        };
        let access = Access::new(&spec.name, &key.bytes, kind, size);
        let (position, cost) = (self.sources[table].keys().position(key.word), self.costs[table]);
        for design in &mut self.designs {
            design.decisions += 1;
            let admission = design.capacity.admit(NAMESPACE, &access, instant(at));
            let answer = match admission.expect("the world asks for tables that it has made") {
                Admission::Admit(hold) => {
                    design.tallies[table].admit(at);
                    let (member, billed) = (hold.member(), hold.units().as_thousandths());
                    DecisionEvent {
                        at,
                        table,
                        position,
                        cost,
                        answer: DecisionAnswer::Admitted { partition: hold.partition(), member, billed },
                    }
                }
                Admission::Throttle(ref throttled) => {
                    design.refusals += 1;
                    design.tallies[table].refuse(at, key.word, throttled);
                    let answer = DecisionAnswer::Refused(throttled);
                    design.judge.decide(&DecisionEvent { at, table, position, cost, answer });
                    continue;
                }
            };
            design.judge.decide(&answer);
        }
    }

    /// Looks at the shape of all tables.
    fn look(&mut self) {
        let at = self.next_look;
        self.next_look += LOOK_EVERY;
        for design in &mut self.designs {
            design.control(&self.scenario, at);
            for (table, spec) in self.scenario.tables.iter().enumerate() {
                let records = records_of(&design.capacity, &self.scenario, spec, at);
                design.shapes[table].update(&records, at);
                if at.is_multiple_of(SECOND) {
                    design.shapes[table].cuts.second(&records);
                    design.note_verdicts(table, spec, &records, at);
                }
                design.judge.look(table, &design.capacity, at);
            }
            design.judge.look_at_nodes(&design.capacity, at);
        }
    }

    /// The results.
    pub fn into_run(self) -> CapacityRun {
        let Self { scenario, fluid, offered, designs, .. } = self;
        let designs = designs.into_iter().map(|design| design.into_result(&scenario)).collect();
        CapacityRun { scenario, fluid, offered, designs }
    }
}

fn instant(at: u64) -> Timestamp {
    Timestamp::from_nanos(WORLD_BEGIN + at)
}

/// The mode of a table under a design: tenants keep their shares.
fn mode_of(spec: &TableSpec, design: Design) -> TableMode {
    if spec.role == TableRole::Tenant { TableMode::Static } else { design.mode() }
}

/// The keys that a plan cuts.
fn cut_range(capacity: &Capacity, plan: &Plan, now: Timestamp) -> Option<KeyRange> {
    let PlannedChange::Split { partition, .. } = plan.change else { return None };
    let mut partitions = capacity.partitions(&plan.namespace, &plan.table, now).ok()?;
    partitions.find(|status| status.id == partition).map(|status| status.range)
}

/// A plan in words.
fn told(plan: &Plan, at: u64) -> CarriedOutPlan {
    let what = match &plan.change {
        PlannedChange::Split { partition, at, .. } => format!("partition {partition} is cut before {at}"),
        PlannedChange::Merge { left } => format!("partition {left} is joined with the one behind it"),
        PlannedChange::Move(order) => {
            format!("partition {} moves from {} to {}", order.partition, order.from, order.to)
        }
    };
    let reason = match plan.reason {
        PlanReason::AboveCeiling(_) => "it is asked for more than its ceiling",
        PlanReason::HotKey(_) => {
            "one key alone is asked for more than the ceiling; its neighbours are parted from it"
        }
        PlanReason::Cool => "neighbours have been cool for long",
        PlanReason::NodeBusy => "its node is nearly full",
        PlanReason::Growth => "the table grows on demand",
    };
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

fn capacity_of(scenario: &CapacityScenario, design: Design) -> Result<Capacity, CapacityError> {
    let mut builder = Capacity::builder();
    for node in &scenario.nodes {
        builder = builder.node_config(
            NodeConfig::new(node.name.as_str(), node.units_per_second).reserve_percent(node.reserve_percent),
        );
    }
    for spec in &scenario.tables {
        // The other direction is not used; its one unit a second weighs nothing.
        let (read, write) =
            if spec.is_write { (1, spec.units_per_second) } else { (spec.units_per_second, 1) };
        let table = TableConfig::new(NAMESPACE, spec.name.as_str(), read, write)
            .partitions(spec.partitions)
            .nodes(spec.nodes.iter().map(String::as_str))
            .replicas(spec.replicas)
            .partition_by(if spec.is_ordered { PartitionBy::Range } else { PartitionBy::Hash })
            .ceilings(Ceilings { read: spec.ceiling, write: spec.ceiling })
            .mode(mode_of(spec, design));
        builder = builder.table(table);
    }
    builder.build()
}

fn records_of(
    capacity: &Capacity,
    scenario: &CapacityScenario,
    spec: &TableSpec,
    at: u64,
) -> Vec<PartitionRecord> {
    let statuses = capacity.partitions(NAMESPACE, &spec.name, instant(at)).expect("the world has made it");
    statuses.map(|status| record_of(scenario, spec, &status)).collect()
}

fn record_of(scenario: &CapacityScenario, spec: &TableSpec, status: &PartitionStatus<'_>) -> PartitionRecord {
    let leader = scenario.nodes.iter().position(|node| node.name == status.node).unwrap_or(0);
    PartitionRecord::of(status, spec.is_write, leader)
}

impl DesignWorld {
    fn new(
        scenario: &CapacityScenario,
        design: Design,
        fluid: &[FluidShares],
    ) -> Result<Self, CapacityScenarioError> {
        let capacity = capacity_of(scenario, design)?;
        let records: Vec<Vec<PartitionRecord>> =
            scenario.tables.iter().map(|spec| records_of(&capacity, scenario, spec, 0)).collect();
        let mut judge = Judge::new(scenario, &capacity);
        if design == Design::Split {
            judge.declare_stationary(scenario, fluid);
        }
        let shapes = records.iter().map(|records| TableShape::new(records)).collect();
        Ok(Self {
            design,
            capacity,
            judge,
            tallies: scenario.tables.iter().map(|_| TableTally::new(scenario.seconds)).collect(),
            shapes,
            control: design.is_controlled().then(|| Control::new(scenario.seed, instant(0))),
            store: MovableStore::default(),
            decisions: 0,
            refusals: 0,
        })
    }

    /// Lets the control loops of the design work at `at`.
    fn control(&mut self, scenario: &CapacityScenario, at: u64) {
        let Some(control) = &mut self.control else { return };
        let now = instant(at);
        if at.is_multiple_of(SECOND) {
            for plan in control.tick(&self.capacity, now) {
                let Some(table) = scenario.tables.iter().position(|table| table.name == plan.table) else {
                    continue;
                };
                if !self.design.carries_out(&plan) {
                    continue;
                }
                let range = cut_range(&self.capacity, &plan, now);
                if control.carry_out(&self.capacity, &plan, &mut self.store, now).is_ok() {
                    let shape = &mut self.shapes[table];
                    shape.plans.push(told(&plan, at));
                    if let Some(range) = range {
                        shape.changes.splits += 1;
                        shape.cuts.cut(range);
                    }
                    shape.changes.merges += u32::from(matches!(plan.change, PlannedChange::Merge { .. }));
                }
            }
        }
        let _ = control.follow_moves(&self.capacity, &mut self.store, now);
    }

    /// Notes the first time of each verdict on a partition that is throttled.
    fn note_verdicts(&mut self, table: usize, spec: &TableSpec, records: &[PartitionRecord], at: u64) {
        let Some(control) = &self.control else { return };
        let operation = if spec.is_write { AccessOperation::Write } else { AccessOperation::Read };
        for record in records {
            let verdict = control.verdict((NAMESPACE, &spec.name), record.id, operation);
            let Some(word) = verdict.and_then(verdict_word) else { continue };
            let verdicts = &mut self.shapes[table].verdicts;
            if !verdicts.iter().any(|known| known.verdict == word) {
                let second = (at / SECOND) as u32;
                verdicts.push(FirstVerdict { verdict: word, partition: record.id.0, second });
            }
        }
    }

    fn into_result(self, scenario: &CapacityScenario) -> DesignResult {
        let tables = scenario.tables.iter().zip(self.tallies).zip(self.shapes);
        DesignResult {
            design: self.design,
            tables: tables.map(|((spec, tally), shape)| result_of(scenario, spec, tally, shape)).collect(),
            decisions: self.decisions,
            refusals_checked: self.refusals,
            breaches: self.judge.breaches(),
            breach_counts: self.judge.counts(),
        }
    }
}

fn result_of(
    scenario: &CapacityScenario,
    spec: &TableSpec,
    tally: TableTally,
    shape: TableShape,
) -> TableResult {
    #[expect(clippy::cast_precision_loss, reason = "rates are far below 2^53")]
    let rate = spec.units_per_second as f64;
    let is_within = |second: usize| {
        #[expect(clippy::cast_precision_loss, reason = "at most a day of seconds")]
        let second = second as f64;
        spec.demand.rate_at(second) <= rate && spec.demand.rate_at(second + 0.999) <= rate
    };
    let part = |of: &dyn Fn(usize) -> bool| {
        let seconds = tally.seconds.iter().enumerate().filter(|(second, _)| of(*second));
        share_of(seconds.map(|(_, count)| count))
    };
    let last_minute = tally.seconds.len().saturating_sub(60);
    let mut victims: Vec<Victim> = tally
        .by_partition
        .iter()
        .map(|((partition, bound), count)| Victim {
            partition: partition.0,
            range: count.range.to_string(),
            node: count.node.clone(),
            bound,
            limit: count.limit,
            requests: count.requests,
            seconds: count.seconds,
            first_second: count.first_second,
            last_second: count.last_second,
            example: count.example.clone(),
        })
        .collect();
    victims.sort_by_key(|victim| (core::cmp::Reverse(victim.requests), victim.partition));
    victims.truncate(VICTIMS_MAX);
    TableResult {
        table: spec.name.clone(),
        offered: tally.seconds.iter().map(|count| u64::from(count.offered)).sum(),
        throttled: tally.seconds.iter().map(|count| u64::from(count.throttled)).sum(),
        share_within: part(&is_within).unwrap_or(0.0),
        share_at_end: part(&|second| second >= last_minute && is_within(second)).unwrap_or(0.0),
        share_beyond: part(&|second| !is_within(second)),
        by_bound: tally.by_bound,
        recovery_seconds: recovery_of(&tally.seconds, scenario.onset),
        changes: ShapeChanges { useless_splits: shape.cuts.useless(), ..shape.changes },
        plans: shape.plans.clone(),
        verdicts: shape.verdicts.clone(),
        victims,
        seconds: tally.seconds,
        heat: tally.throttled,
        spans: shape.into_spans(f64::from(scenario.seconds)),
    }
}

/// The part of the requests that was refused; `None` if there were none.
fn share_of<'a>(counts: impl Iterator<Item = &'a SecondCount>) -> Option<f64> {
    let (offered, throttled) = counts.fold((0_u64, 0_u64), |(offered, throttled), count| {
        (offered + u64::from(count.offered), throttled + u64::from(count.throttled))
    });
    #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
    let share = throttled as f64 / offered as f64;
    (offered > 0).then_some(share)
}

/// Seconds from `onset` to the end of the first ten seconds with less than a hundredth throttled.
fn recovery_of(seconds: &[SecondCount], onset: u32) -> Option<u32> {
    const WINDOW: usize = 10;
    let after = seconds.get(onset as usize..)?;
    let calm = after.windows(WINDOW).position(|window| share_of(window.iter()).unwrap_or(0.0) < 0.01)?;
    Some((calm + WINDOW) as u32)
}

impl TableShape {
    fn new(records: &[PartitionRecord]) -> Self {
        let open = records.iter().map(|record| span_of(record, 0.0)).collect();
        Self {
            open,
            closed: Vec::new(),
            changes: ShapeChanges::default(),
            cuts: CutWatch::default(),
            plans: Vec::new(),
            verdicts: Vec::new(),
        }
    }

    fn update(&mut self, records: &[PartitionRecord], at: u64) {
        let is_same = |span: &PartitionSpan, record: &PartitionRecord| {
            span.partition == record.id.0 && span.node == record.leader
        };
        if self.open.len() == records.len() && self.open.iter().zip(records).all(|(s, r)| is_same(s, r)) {
            return;
        }
        #[expect(clippy::cast_precision_loss, reason = "drawn by the pixel")]
        let now = at as f64 / 1e9;
        let mut open = Vec::with_capacity(records.len());
        for record in records {
            match self.open.iter().find(|span| span.partition == record.id.0) {
                Some(span) if span.node == record.leader => open.push(span.clone()),
                Some(_) => {
                    self.changes.moves += 1;
                    open.push(span_of(record, now));
                }
                None => open.push(span_of(record, now)),
            }
        }
        for mut span in core::mem::take(&mut self.open) {
            if !open.contains(&span) {
                span.seconds.1 = now;
                self.closed.push(span);
            }
        }
        self.open = open;
    }

    fn into_spans(mut self, end: f64) -> Vec<PartitionSpan> {
        for span in &mut self.open {
            span.seconds.1 = end;
        }
        self.closed.extend(self.open);
        self.closed
    }
}

fn span_of(record: &PartitionRecord, now: f64) -> PartitionSpan {
    #[expect(clippy::cast_precision_loss, reason = "drawn by the pixel")]
    let part = |word: u64| word as f64 / 18_446_744_073_709_551_616.0;
    let (first, _) = record.range.words();
    let end = record.range.end.map_or(1.0, |end| part(end.first_word()));
    PartitionSpan {
        partition: record.id.0,
        keys: (part(first), end),
        seconds: (now, now),
        node: record.leader,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recovery_ends_with_the_first_calm_ten_seconds_after_the_onset() {
        let bad = SecondCount { offered: 100, throttled: 50 };
        let good = SecondCount { offered: 100, throttled: 0 };
        let mut seconds = vec![good; 20];
        seconds.extend([bad; 7]);
        seconds.extend([good; 30]);
        assert_eq!(recovery_of(&seconds, 20), Some(17));
        assert_eq!(recovery_of(&seconds, 0), Some(10));
        assert_eq!(recovery_of(&[bad; 40], 3), None);
        assert_eq!(recovery_of(&seconds, 1000), None);
    }
}

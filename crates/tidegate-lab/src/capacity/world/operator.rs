//! The operator of a script: carries out its steps on the plane of one design.

use std::sync::Arc;

use tidegate_capacity::{Capacity, PartitionId, PartitionStatus, Position, SplitShares, TableMode, Units};
use tidegate_core::Timestamp;
use tidegate_sim::capacity::plane::operator::{ForcedChanges, StepNote, TableOperator};
use tidegate_sim::capacity::plane::{NAMESPACE, TableSetting, builder_of, first_settings, instant};
use tidegate_sim::capacity::scenario::OperatorScript;
use tidegate_sim::capacity::{CapacityScenario, Design, OperatorChanges, ReloadRecord, TableSpec};
use tidegate_sim::kit::{Chance, MS, SECOND, seconds};

use super::script::{ScriptedStep, StepKind};

/// The part of all chance that is the operator's.
const PART: u64 = 77;

/// How long a partition that is moved refuses its keys.
const GATED: u64 = 50 * MS;

/// The script of these steps, which are in their order.
pub(crate) fn script_of(steps: Vec<ScriptedStep>) -> Arc<dyn OperatorScript> {
    Arc::new(StepScript(steps))
}

/// Steps in their order.
#[derive(Debug)]
struct StepScript(Vec<ScriptedStep>);

impl OperatorScript for StepScript {
    fn steps(&self) -> Vec<StepNote> {
        let note = |step: &ScriptedStep| StepNote {
            at: step.at,
            table: step.table,
            kind: format!("{:?}", step.kind),
        };
        self.0.iter().map(note).collect()
    }

    fn operator(&self, scenario: &CapacityScenario, design: Design) -> Box<dyn TableOperator> {
        Box::new(ScriptOperator::new(scenario, design, self.0.clone()))
    }
}

/// An operator at work.
#[derive(Debug)]
struct ScriptOperator {
    scenario: CapacityScenario,
    design: Design,
    steps: Vec<ScriptedStep>,
    /// The steps that were made.
    done: usize,
    chance: Chance,
    settings: Vec<TableSetting>,
    /// The tables of moves for which no node had room; they are tried again.
    waiting: Vec<usize>,
    /// Moves whose keys are refused, and that end with the next look.
    moving: Vec<GatedMove>,
    changes: OperatorChanges,
}

#[derive(Debug)]
struct GatedMove {
    table: usize,
    partition: PartitionId,
    from: String,
    to: String,
}

impl TableOperator for ScriptOperator {
    /// Makes the steps of which the time has come.
    fn work(&mut self, capacity: &mut Capacity, at: u64) -> bool {
        let reloads = self.changes.reloads.len();
        let now = instant(at);
        for GatedMove { table, partition, from, to } in core::mem::take(&mut self.moving) {
            let name = self.scenario.tables[table].name.as_str();
            let is_moved = capacity.move_replica(NAMESPACE, name, partition, &from, &to, now).is_ok();
            self.changes.forced[table].moves += u32::from(is_moved);
        }
        for table in core::mem::take(&mut self.waiting) {
            self.gate(table, capacity, at);
        }
        let second = seconds(at);
        while let Some(step) = self.steps.get(self.done).cloned().filter(|step| step.at <= second) {
            self.done += 1;
            let table = step.table;
            match step.kind {
                StepKind::Cut => {
                    let is_cut = self.cut(table, capacity, now).is_some();
                    self.changes.forced[table].cuts += u32::from(is_cut);
                }
                StepKind::Move => self.gate(table, capacity, at),
                StepKind::SetMode(mode) => {
                    self.settings[table].mode = mode;
                    self.reload(table, format!("{mode:?}").to_lowercase(), capacity, at);
                }
                StepKind::Provision { throughput, partitions } => {
                    if self.settings[table].mode == TableMode::Static {
                        (self.settings[table].throughput, self.settings[table].partitions) =
                            (throughput, partitions);
                        let what =
                            format!("{throughput} times the throughput, {partitions} times the partitions");
                        self.reload(table, what, capacity, at);
                    }
                }
            }
        }
        self.changes.reloads.len() > reloads
    }

    fn into_changes(self: Box<Self>) -> OperatorChanges {
        self.changes
    }
}

impl ScriptOperator {
    fn new(scenario: &CapacityScenario, design: Design, steps: Vec<ScriptedStep>) -> Self {
        let settings = first_settings(scenario, design);
        let forced = vec![ForcedChanges::default(); settings.len()];
        Self {
            scenario: scenario.clone(),
            design,
            steps,
            done: 0,
            chance: Chance::new(scenario.seed, PART),
            settings,
            waiting: Vec::new(),
            moving: Vec::new(),
            changes: OperatorChanges { forced, reloads: Vec::new() },
        }
    }

    fn cut(&mut self, table: usize, capacity: &Capacity, now: Timestamp) -> Option<[PartitionId; 2]> {
        let TableSpec { name, is_ordered, .. } = &self.scenario.tables[table];
        let statuses = capacity.partitions(NAMESPACE, name, now).expect("the world has made it");
        let partitions: Vec<_> = statuses.map(|status| (status.id, status.range)).collect();
        let (partition, range) = &partitions[self.chance.below(partitions.len() as u64) as usize];
        let (first, last) = range.words();
        let middle = first + (last - first) / 2 + 1;
        let at = if *is_ordered {
            Position::from_bytes(&middle.to_be_bytes())
        } else {
            Position::from_hash(middle)
        };
        capacity.split(NAMESPACE, name, *partition, at, SplitShares::HALF, now).ok()
    }

    /// Closes a partition that moves with the next look: the first from a random one on for which
    /// another node has room. The move waits until there is such a partition.
    fn gate(&mut self, table: usize, capacity: &Capacity, at: u64) {
        let (name, now) = (self.scenario.tables[table].name.as_str(), instant(at));
        let statuses = capacity.partitions(NAMESPACE, name, now).expect("the world has made it");
        let statuses: Vec<_> = statuses.collect();
        let nodes: Vec<_> = capacity.nodes(now).collect();
        let first = self.chance.below(statuses.len() as u64) as usize;
        let chosen = statuses.iter().cycle().skip(first).take(statuses.len()).find_map(|status| {
            // The node with the most units that it may still promise.
            let others = nodes.iter().filter(|node| node.name != status.node);
            let to =
                others.max_by_key(|node| (node.promisable - node.promised, core::cmp::Reverse(node.name)))?;
            let has_room = to.promised + status.read_rate + status.write_rate <= to.promisable;
            has_room.then(|| (status.id, status.node.to_owned(), to.name.to_owned()))
        });
        let Some((partition, from, to)) = chosen else {
            self.waiting.push(table);
            return;
        };
        if capacity.gate(NAMESPACE, name, partition, instant(at + GATED)).is_ok() {
            self.moving.push(GatedMove { table, partition, from, to });
        }
    }

    /// Goes on with other settings, and compares the levels before and after.
    fn reload(&mut self, table: usize, what: String, capacity: &mut Capacity, at: u64) {
        let (now, table) = (instant(at), self.scenario.tables[table].name.clone());
        let before = levels_of(capacity, now);
        let rates_above_base_before = rates_above_base(capacity, &table, now);
        let reloaded = builder_of(&self.scenario, self.design, &self.settings).build_over(capacity, now);
        let error = reloaded.map(|reloaded| *capacity = reloaded).err().map(|error| error.to_string());
        let after = levels_of(capacity, now);
        let is_alike = after.len() == before.len();
        let changed = after.iter().zip(&before).filter(|(now, before)| now != before).count();
        self.changes.reloads.push(ReloadRecord {
            second: (at / SECOND) as u32,
            rates_above_base: rates_above_base(capacity, &table, now),
            table,
            what,
            levels: after.len() as u32,
            // All of them, if there are others.
            levels_changed: if is_alike { changed } else { after.len() } as u32,
            rates_above_base_before,
            error,
        });
    }
}

/// All levels of a store.
fn levels_of(capacity: &Capacity, now: Timestamp) -> Vec<Units> {
    let of_tables = capacity.tables().flat_map(|(namespace, table)| {
        let statuses = capacity.partitions(namespace, table, now).map(Iterator::collect);
        let statuses: Vec<_> = statuses.unwrap_or_default();
        statuses.into_iter().flat_map(|PartitionStatus { read, write, .. }| {
            [read.left, read.burst_left, write.left, write.burst_left]
        })
    });
    of_tables.chain(capacity.nodes(now).map(|node| node.left)).collect()
}

/// How many partitions of a table have more than their share.
fn rates_above_base(capacity: &Capacity, table: &str, now: Timestamp) -> u32 {
    let statuses = capacity.partitions(NAMESPACE, table, now).map(Iterator::collect::<Vec<_>>);
    let is_boosted =
        |one: &PartitionStatus<'_>| one.read.rate > one.read.base || one.write.rate > one.write.base;
    statuses.unwrap_or_default().iter().filter(|status| is_boosted(status)).count() as u32
}

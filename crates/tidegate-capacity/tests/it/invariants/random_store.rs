//! Stores under random load, of which every event is judged: 64 partitions of four tables and an
//! index on four nodes; admissions, settlements, returns, boosts, cuts, joins, moves, growth on
//! demand, reloads.

use core::time::Duration;
use std::collections::BTreeMap;

use tidegate_capacity::on_demand::{OnDemand, OnDemandTerms};
use tidegate_capacity::view::TableView;
use tidegate_capacity::{
    Access, AccessKind, AccountConfig, Admission, Capacity, CapacityBuilder, Ceilings, IndexWrite,
    NodeConfig, PartitionId, Position, ReadConsistency, ReadMembers, Settlement, Share, SplitShares,
    TableConfig, TableMode, TokenTerms, Units, UnitsHold, WriteCheck, WriteQuorum, key_hash,
};
use tidegate_core::{AccessOperation, Timestamp};
#[cfg(tidegate_planted_faults)]
use tidegate_sim::invariants::Invariant;
use tidegate_sim::invariants::trace::{TracedAccess, TracedAdmission, TracedRefusal, TracedReturn};
use tidegate_sim::invariants::{InvariantChecker, TracedCharge, Violations};

const SHOP: &str = "shop";
const NODES: [&str; 4] = ["a", "b", "c", "d"];
const TABLES: [&str; 5] = ["static", "burst", "adaptive", "global", "burst/by-day"];
const MODES: [TableMode; 5] =
    [TableMode::Static, TableMode::Burst, TableMode::Adaptive, TableMode::Global, TableMode::Burst];
/// The steps of a short run.
pub(crate) const STEPS: usize = 2000;
/// The heaviest request that a run makes.
const LARGEST: u64 = 20;

/// Numbers that a seed determines (`SplitMix64`).
pub(crate) struct SeededDraws(pub(crate) u64);

impl SeededDraws {
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }

    fn of<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.below(all.len() as u64) as usize]
    }
}

/// The numbers of a configuration that a reload may change.
#[derive(Clone, Copy)]
struct Configured {
    units: [u64; 5],
    modes: [TableMode; 5],
    partitions: [u32; 5],
    burst_seconds: u64,
    node_units: u64,
    account_units: u64,
    /// Whether the table with global admission follows its demand.
    is_on_demand: bool,
}

impl Configured {
    fn builder(self) -> CapacityBuilder {
        let account = AccountConfig::new("acme").reads(self.account_units).writes(self.account_units);
        let builder = Capacity::builder().account(account);
        let builder = NODES
            .iter()
            .fold(builder, |builder, node| builder.node_config(NodeConfig::new(*node, self.node_units)));
        (0..TABLES.len()).fold(builder, |builder, index| {
            let units = self.units[index];
            let name = TABLES[index].rsplit('/').next().expect("a name");
            let mut table = TableConfig::new(SHOP, name, units, units / 2)
                .partitions(self.partitions[index])
                .mode(self.modes[index])
                .ceilings(Ceilings { read: 100, write: 60 })
                .replicas(1 + index as u8 % 3)
                .reads(if index == 1 { ReadMembers::Any } else { ReadMembers::Local })
                .write_check(if index == 2 { WriteCheck::Always } else { WriteCheck::BurstOnly })
                .write_quorum(if index == 1 { WriteQuorum::Majority } else { WriteQuorum::All })
                .nodes(NODES);
            table.burst = Duration::from_secs(self.burst_seconds);
            if index == 4 {
                table = table.index_of("burst");
            }
            if index == 3 && self.is_on_demand {
                let terms = OnDemand::new(Units::whole(4)).max(Units::whole(units));
                table = table.on_demand(OnDemandTerms { read: terms, write: terms });
            }
            builder.table(if index == 3 { table.account("acme") } else { table })
        })
    }
}

/// A store, its checker and its holds.
struct RandomStore {
    capacity: Capacity,
    checker: InvariantChecker,
    configured: Configured,
    holds: Vec<(UnitsHold, Vec<TracedCharge>)>,
    /// The positions of the tables in the store.
    tables: [usize; 5],
    views: Vec<TableView>,
    now: Timestamp,
    draws: SeededDraws,
    hot_table: usize,
    done: BTreeMap<&'static str, u64>,
}

/// The violations of a run, and how often each operation was done and not refused.
pub(crate) struct RandomRun {
    pub(crate) violations: Violations,
    pub(crate) done: BTreeMap<&'static str, u64>,
}

/// The violations in a run of so many steps. With every second seed the checker is shown everything
/// after each step, otherwise after each change and every 20 steps.
pub(crate) fn one_run(seed: u64, steps: usize) -> RandomRun {
    let mut store = RandomStore::new(seed);
    for step in 0..steps {
        let has_changed = store.step();
        if has_changed || seed.is_multiple_of(2) || step.is_multiple_of(20) {
            store.look();
        }
    }
    store.look();
    RandomRun { violations: store.checker.violations().clone(), done: store.done }
}

/// The number of runs until one breaks this invariant, at most a hundred.
#[cfg(tidegate_planted_faults)]
pub(crate) fn cases_until(invariant: Invariant) -> Option<u64> {
    (1..=100).find(|seed| one_run(seed - 1, STEPS).violations.count(invariant) > 0)
}

impl RandomStore {
    fn new(seed: u64) -> Self {
        let configured = Configured {
            units: [320, 320, 320, 320, 160],
            modes: MODES,
            partitions: [13, 13, 13, 17, 8],
            burst_seconds: 1 + seed % 4,
            node_units: 1300,
            account_units: 2000,
            is_on_demand: seed.is_multiple_of(3),
        };
        let now = Timestamp::from_secs(1_795_210_800);
        let capacity = configured.builder().build_at(now).expect("the nodes can bear the tables");
        let tables = TABLES.map(|name| capacity.table_position(SHOP, name).expect("it is configured"));
        let views: Vec<TableView> = (0..TABLES.len()).map(|table| view_of(&capacity, table, now)).collect();
        let mut checker = InvariantChecker::new(&capacity.view_nodes(now), &views).operated();
        for table in tables {
            checker.set_largest_request(table, Units::whole(LARGEST));
        }
        let draws = SeededDraws(seed);
        let hot_table = (seed % 4) as usize;
        let (holds, done) = (Vec::new(), BTreeMap::new());
        Self { capacity, checker, configured, holds, tables, views, now, draws, hot_table, done }
    }

    /// Shows the checker everything.
    fn look(&mut self) {
        self.checker.look_at_nodes(&self.capacity.view_nodes(self.now));
        for (table, view) in self.views.iter_mut().enumerate() {
            self.capacity.view_table(table, self.now, view);
            self.checker.look_at_table(view);
        }
    }

    /// Whether a table or a node was changed.
    fn step(&mut self) -> bool {
        // Half of the load is for one table.
        let table = if self.draws.below(2) == 0 { self.hot_table } else { self.draws.below(4) as usize };
        let name = TABLES[table];
        let now = self.now;
        let step = self.draws.below(100);
        match step {
            0..=69 => self.ask(table),
            70..=79 if !self.holds.is_empty() => self.end(),
            80 | 81 => self.cut(table),
            82 => self.join(table),
            83 => {
                let id = *self.draws.of(&self.ids(table));
                let [from, to] = [0; 2].map(|_| *self.draws.of(&NODES));
                if self.draws.below(4) == 0 {
                    let until = now.saturating_add(Duration::from_millis(self.draws.below(20)));
                    self.note("gate", self.capacity.gate(SHOP, name, id, until).is_ok());
                }
                let is_done = from != to && self.capacity.move_replica(SHOP, name, id, from, to, now).is_ok();
                self.note("move", is_done);
            }
            84 | 85 => {
                let id = *self.draws.of(&self.ids(table));
                let operation = *self.draws.of(&[AccessOperation::Read, AccessOperation::Write]);
                let rate = Units::whole(self.draws.below(100));
                match self.draws.below(8) {
                    0 => {
                        let terms = TokenTerms::from_rate(Units::whole(50 + self.draws.below(400)));
                        let is_done = self.capacity.set_tokens(SHOP, name, operation, terms, now).is_ok();
                        self.note("tokens", is_done);
                    }
                    1 => {
                        let rate = self.capacity.allocate_within(SHOP, name, id, operation, rate, now);
                        self.note("boost", rate.is_ok());
                    }
                    _ => {
                        let rate = self.capacity.allocate(SHOP, name, id, operation, rate, now);
                        self.note("boost", rate.is_ok());
                    }
                }
            }
            86 => self.reload(),
            87 if self.draws.below(10) == 0 => self.pass(5_000_000_000),
            88 if self.draws.below(2) == 0 => self.grow(),
            _ => self.pass(5_000_000),
        }
        (80..=86).contains(&step) || step == 88
    }

    fn note(&mut self, operation: &'static str, is_done: bool) {
        *self.done.entry(operation).or_default() += u64::from(is_done);
    }

    /// Cuts a partition once, or twice around a key.
    fn cut(&mut self, table: usize) {
        let [at, other] = [0; 2].map(|_| Position::from_hash(key_hash(&self.key())));
        let [shares, rest] = [0; 2].map(|_| SplitShares {
            read: Share::from_parts(self.draws.below(100), self.draws.below(100)),
            write: Share::from_parts(self.draws.below(100), self.draws.below(100)),
        });
        let owner = self.capacity.partition_at(SHOP, TABLES[table], at.min(other));
        let (id, _) = owner.expect("it is a table of the store");
        if self.ids(table).len() >= 24 {
            return;
        }
        if self.draws.below(3) > 0 {
            let at = at.min(other);
            let is_done = self.capacity.split(SHOP, TABLES[table], id, at, shares, self.now).is_ok();
            self.note("split", is_done);
            return;
        }
        let cuts = [at.min(other), at.max(other)];
        let is_done = self.capacity.isolate(SHOP, TABLES[table], id, cuts, [shares, rest], self.now).is_ok();
        self.note("isolate", is_done);
    }

    /// Joins the first neighbours from a random partition on that lie on the same nodes.
    fn join(&mut self, table: usize) {
        let ids = self.ids(table);
        let first = self.draws.below(ids.len() as u64) as usize;
        let mut in_turn = ids.iter().cycle().skip(first).take(ids.len());
        let joined = in_turn.find(|id| self.capacity.merge(SHOP, TABLES[table], **id, self.now).is_ok());
        let is_done = joined.is_some();
        self.note("merge", is_done);
    }

    /// Up to two minutes pass, and tables on demand follow what was admitted.
    fn grow(&mut self) {
        self.pass(120_000_000_000);
        self.look();
        let limits = |store: &Self| {
            [AccessOperation::Read, AccessOperation::Write]
                .map(|operation| store.capacity.token_rate(SHOP, "global", operation))
        };
        let before = limits(self);
        let _ = self.capacity.follow_demand(self.now);
        let is_done = limits(self) != before;
        self.note("growth", is_done);
    }

    fn pass(&mut self, nanos_max: u64) {
        self.now = self.now.saturating_add(Duration::from_nanos(self.draws.below(nanos_max)));
    }

    fn ids(&self, table: usize) -> Vec<PartitionId> {
        self.views[self.tables[table]].partitions.iter().map(|one| one.id).collect()
    }

    /// Half of the keys are one.
    fn key(&mut self) -> Vec<u8> {
        let number = if self.draws.below(2) == 0 { 0 } else { self.draws.below(500) };
        number.to_string().into_bytes()
    }

    fn ask(&mut self, table: usize) {
        let (key, index_key) = (self.key(), self.key());
        let is_repeated = self.draws.below(4) == 0;
        let units = 1 + self.draws.below(LARGEST);
        let kind = match self.draws.below(3) {
            0 => AccessKind::Read { consistency: ReadConsistency::Strong },
            1 => AccessKind::Read { consistency: ReadConsistency::Eventual },
            _ => AccessKind::Write,
        };
        let is_read = kind != AccessKind::Write;
        let size = units * if is_read { 4096 } else { 1024 };
        let writes = [IndexWrite { index: "by-day", key: &index_key, size: 1024 }];
        let access = Access::new(TABLES[table], &key, kind, size).repeated(is_repeated);
        let access = if table == 1 && !is_read { access.index_writes(&writes) } else { access };
        let now = self.now;
        match self.capacity.admit(SHOP, &access, now).expect("the table is one of the store") {
            Admission::Admit(hold) => {
                let charges = core::iter::once(&hold).chain(hold.indexes()).filter_map(|one| {
                    let mut admission = TracedAdmission::from_hold(one);
                    admission.access.is_first = !is_repeated;
                    self.checker.admit(&admission)
                });
                let charges: Vec<_> = charges.collect();
                self.holds.push((hold, charges));
                self.note("admit", true);
            }
            Admission::Throttle(throttled) => {
                let (table, key) = match throttled.index {
                    Some(_) => (self.tables[4], &index_key),
                    None => (self.tables[table], &key),
                };
                let access = TracedAccess {
                    at: now,
                    table,
                    position: Position::from_hash(key_hash(key)),
                    operation: throttled.operation,
                    units: throttled.units,
                    is_first: !is_repeated,
                };
                let mut refusal = TracedRefusal::new(access, &throttled);
                if throttled.index.is_some() {
                    refusal.beside = Units::whole(units);
                }
                self.checker.refuse(&refusal);
            }
        }
    }

    /// Gives an access back, settles it, or leaves it as it was charged.
    fn end(&mut self) {
        let index = self.draws.below(self.holds.len() as u64) as usize;
        let (hold, charges) = self.holds.swap_remove(index);
        let units = hold.units();
        let mut charges = charges.into_iter();
        let Some(base) = charges.next() else { return };
        let at = self.now;
        match self.draws.below(3) {
            0 => {
                let of_indexes: Vec<Units> = hold.indexes().iter().map(UnitsHold::units).collect();
                let settlement = self.capacity.give_back(hold, at);
                self.note("give back", true);
                self.checker.end(base, &TracedReturn { at, surplus: units, settlement });
                for (charge, units) in charges.zip(of_indexes) {
                    let settlement = Settlement { returned: units, ..Settlement::default() };
                    self.checker.end(charge, &TracedReturn { at, surplus: units, settlement });
                }
            }
            1 => {
                let weight = Units::from_thousandths(self.draws.below(40_000).cast_signed());
                let settlement = self.capacity.settle(hold, Some(weight), at);
                self.note("settle", true);
                self.checker.end(base, &TracedReturn { at, surplus: units - weight, settlement });
            }
            _ => drop(hold),
        }
    }

    fn reload(&mut self) {
        let table = self.draws.below(5) as usize;
        let mut configured = self.configured;
        match self.draws.below(7) {
            0 => configured.units[table] = 100 + self.draws.below(300),
            1 => configured.modes[table] = *self.draws.of(&MODES),
            2 => configured.partitions[table] = 8 + self.draws.below(9) as u32,
            3 => configured.burst_seconds = 1 + self.draws.below(5),
            4 => configured.account_units = 1000 + self.draws.below(2000),
            5 => configured.is_on_demand = !configured.is_on_demand,
            _ => configured.node_units = 1200 + self.draws.below(400),
        }
        self.look();
        let Ok(capacity) = configured.builder().build_over(&self.capacity, self.now) else { return };
        (self.capacity, self.configured) = (capacity, configured);
        self.note("reload", true);
        let views: Vec<TableView> =
            (0..TABLES.len()).map(|table| view_of(&self.capacity, table, self.now)).collect();
        self.checker.reload(&self.capacity.view_nodes(self.now), &views);
        self.views = views;
    }
}

pub(crate) fn view_of(capacity: &Capacity, table: usize, now: Timestamp) -> TableView {
    let mut view = TableView::new();
    capacity.view_table(table, now, &mut view);
    view
}

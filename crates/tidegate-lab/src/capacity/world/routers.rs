//! Routers: engines that lease the throughput of tables from one store.
//!
//! A request comes to a router at random, which admits it from its lease or refuses it. An admitted
//! request goes on to the partitions and nodes, which all routers share; what these refuse is put
//! back into the lease. Calls to the store take no time: [`tidegate_sim::fleet`] has those that do,
//! and are lost, with the same engines.

use std::collections::BTreeMap;

use tidegate_capacity::{
    Access, AccessOperation, Capacity, Ceilings, NodeConfig, TableConfig, TableMode, TokenTerms, Units,
};
use tidegate_core::lease::{Ask, Epoch, Grant, Terms};
use tidegate_core::{Retry, Timestamp, error_chain};
use tidegate_engine::{
    Answered, Decision, Engine, EngineConfig, LeaseConfig, NamespaceConfig, Outcome, Request, Step, Wants,
};
use tidegate_store::{Batch, Keeper, Key, Kind, MemoryConfig, OnLedger};

use tidegate_sim::capacity::plane::routers::{LeaseRouters, RouterAnswer, SpentTokens};
use tidegate_sim::capacity::plane::{NAMESPACE, instant};
use tidegate_sim::capacity::scenario::RouterSpec;
use tidegate_sim::capacity::{CapacityScenario, CapacityScenarioError, RouterResult};
use tidegate_sim::invariants::{LeaseChecker, LeaseGrant, LeaseTerms};
use tidegate_sim::kit::Chance;

/// So many routers with leases, `per_table` of them for each table.
pub(crate) const fn routers(count: u32, per_table: u32) -> RouterSpec {
    RouterSpec { count, per_table, open: |scenario, spec| Ok(Box::new(Routers::new(scenario, spec)?)) }
}

/// The part of the world's chance that draws routers.
const CHANCE_PART: u64 = 31;

/// Leases count halves of units.
const HALF: i64 = 500;

/// The bytes that the ledgers of the store may take: more than any scenario needs.
const STORE_BYTES: usize = 1 << 30;

/// Bytes of the key table of a router, which has no limits.
const TABLE_BYTES: usize = 1 << 12;

/// By how much a holder may count the end of its lease otherwise than the ledger, which tells time
/// in microseconds.
const DRIFT_NS: u64 = 1_000_000;

/// The routers of a world.
#[derive(Debug)]
struct Routers {
    spec: RouterSpec,
    all: Vec<Router>,
    /// The position of each table by its key in the store.
    tables: BTreeMap<Key, usize>,
    store: Keeper,
    chance: Chance,
    /// One for each table.
    leases: Vec<LeaseChecker>,
    /// The tokens that each holder has given back of a table, as it said last.
    returned: BTreeMap<(usize, u64), u32>,
    asks: u64,
    refusals: u64,
}

#[derive(Debug)]
struct Router {
    engine: Engine,
    next_tick: Timestamp,
}

impl Routers {
    fn new(scenario: &CapacityScenario, spec: RouterSpec) -> Result<Self, CapacityScenarioError> {
        let mut chance = Chance::new(scenario.seed, CHANCE_PART);
        let mut config = MemoryConfig::new(chance.seeds());
        config.bytes = STORE_BYTES;
        let mut store = Keeper::new(config);
        store.begin_epoch(Epoch { number: 1, began: instant(0), is_after_loss: false });
        let router = |number: u32, chance: &mut Chance| {
            let mut config = EngineConfig::seeded(chance.seeds());
            (config.table.bytes, config.table.ring_share_percent, config.permits_max) = (TABLE_BYTES, 0, 0);
            let mut leases = LeaseConfig::new(u64::from(number) + 1);
            (leases.holders_max, leases.locks_max) = (scenario.tables.len(), 1);
            (config.asks_store, config.leases) = (true, Some(leases));
            let capacity = tables_of(scenario, spec, number)?;
            let engine =
                Engine::builder(config).namespace(NamespaceConfig::new(NAMESPACE, [])).capacity(capacity);
            let engine =
                engine.build().map_err(|error| CapacityScenarioError::Router(error_chain(&error)))?;
            Ok::<_, CapacityScenarioError>(Router { engine, next_tick: instant(0) })
        };
        let all = (0..spec.count).map(|number| router(number, &mut chance)).collect::<Result<_, _>>()?;
        let checker = |table: usize| LeaseChecker::new(lease_terms(scenario, table));
        Ok(Self {
            spec,
            all,
            tables: (0..scenario.tables.len()).map(|table| (store_key(scenario, table), table)).collect(),
            store,
            chance,
            leases: (0..scenario.tables.len()).map(checker).collect(),
            returned: BTreeMap::new(),
            asks: 0,
            refusals: 0,
        })
    }
}

impl LeaseRouters for Routers {
    fn ask(&mut self, table: usize, access: &Access<'_>, at: u64) -> RouterAnswer {
        let now = instant(at);
        let nth = self.chance.below(self.spec.per_table.into()) as u32;
        let router = router_of(self.spec, table, nth) as usize;
        let request = Request::new(NAMESPACE, ()).access(*access);
        let step = self.all[router].engine.admit(&request, now);
        let mut step = step.expect("the world asks for tables that it has made").into_owned();
        let decision = loop {
            match step {
                Step::Decided(decision) => break decision,
                Step::Ask(pending) => {
                    debug_assert!(matches!(pending.wants(), Wants::Lease(_)), "there are no limits");
                    self.carry_asks(router, now);
                    step = self.all[router].engine.resume(pending, Answered::Lease, now);
                }
            }
        };
        self.carry_asks(router, now);
        match decision {
            Decision::Admit(permit) => RouterAnswer::Admitted(Box::new(SpentTokens { router, permit })),
            Decision::Refuse(refused) => {
                self.refusals += 1;
                let refusal = refused.into_refusal();
                let until = match refusal.retry() {
                    Retry::At(until) => until,
                    _ => Timestamp::MAX,
                };
                let left = Units::whole(refusal.remaining());
                RouterAnswer::Refused { left, until }
            }
        }
    }

    fn keep(&mut self, spent: SpentTokens, table: usize, units: Units, at: u64) {
        let holder = spent.router as u64 + 1;
        self.leases[table].spend(holder, units, instant(at));
        // Nothing that it holds is lent.
        drop(spent.permit);
    }

    fn put_back(&mut self, spent: SpentTokens, at: u64) {
        let SpentTokens { router, permit } = spent;
        let settled = self.all[router].engine.settle(permit, Outcome::Cancelled, instant(at));
        for batch in settled.batches {
            let _ = self.store.run(&batch, instant(at));
        }
        self.carry_asks(router, instant(at));
    }

    fn tick(&mut self, at: u64) {
        let now = instant(at);
        for router in 0..self.all.len() {
            let one = &mut self.all[router];
            if one.next_tick <= now {
                one.next_tick = one.engine.tick(now).next;
                self.carry_asks(router, now);
            }
        }
    }

    fn into_result(self: Box<Self>) -> (RouterResult, Vec<LeaseChecker>) {
        let result = RouterResult { routers: self.spec.count, asks: self.asks, refusals: self.refusals };
        (result, self.leases)
    }
}

impl Routers {
    /// Carries what a router asks the store for its leases.
    fn carry_asks(&mut self, router: usize, now: Timestamp) {
        for asked in self.all[router].engine.take_lease_asks() {
            self.asks += asked.asks() as u64;
            let answer = self.store.run(asked.batch(), now).map(|ran| ran.answer);
            if let Ok(answer) = &answer {
                self.watch(asked.batch(), &answer.grants, now);
            }
            self.all[router].engine.lease_answered(asked, answer, now);
        }
    }

    /// Shows the checkers what was asked for and granted.
    fn watch(&mut self, batch: &Batch, grants: &[Option<Grant>], now: Timestamp) {
        let asks = batch.operations.iter().filter_map(|operation| match &operation.kind {
            Kind::Ledger(OnLedger::Ask(ask)) => Some((&operation.key, ask)),
            _ => None,
        });
        for ((key, ask), grant) in asks.zip(grants) {
            let (Some(table), Some(grant)) = (self.tables.get(key), grant) else { continue };
            let holder = ask.holder.member;
            let returned = self.returned.entry((*table, holder)).or_default();
            let given_back = ask.returned.wrapping_sub(*returned);
            *returned = ask.returned;
            let checker = &mut self.leases[*table];
            checker.give_back(holder, halves(given_back), now);
            checker.grant(&lease_grant(ask, grant, now));
        }
    }
}

/// The router that is the `nth` of a table: each table has the following ones, from a first one on
/// that is spread over all.
const fn router_of(spec: RouterSpec, table: usize, nth: u32) -> u32 {
    ((table as u64 * spec.per_table as u64 + nth as u64) % spec.count as u64) as u32
}

/// Whether a router is one of those of a table.
fn has_table(spec: RouterSpec, router: u32, table: usize) -> bool {
    (0..spec.per_table).any(|nth| router_of(spec, table, nth) == router)
}

/// The tables of a router. Each has one partition, that serves whatever the table has: a router
/// knows the throughput of a table, and not its partitions.
fn tables_of(
    scenario: &CapacityScenario,
    spec: RouterSpec,
    router: u32,
) -> Result<Capacity, CapacityScenarioError> {
    let most = TableConfig::UNITS_PER_SECOND_MAX;
    let mut builder = Capacity::builder().node_config(NodeConfig::new("router", most).reserve_percent(0));
    for (index, table) in
        scenario.tables.iter().enumerate().filter(|(index, _)| has_table(spec, router, *index))
    {
        let units = |operation| scenario.throughput(index, operation).units_per_second;
        let (read, write) = (units(AccessOperation::Read), units(AccessOperation::Write));
        let table = TableConfig::new(NAMESPACE, table.name.as_str(), read, write);
        let table = table.nodes(["router"]).mode(TableMode::Global).splits(false).merges(false);
        builder = builder.table(table.ceilings(Ceilings { read: most, write: most }));
    }
    Ok(builder.build()?)
}

/// The most that may be lent of a table's main direction.
fn lease_terms(scenario: &CapacityScenario, table: usize) -> LeaseTerms {
    let spec = &scenario.tables[table];
    let TokenTerms { rate, depth, .. } = TokenTerms::from_rate(Units::whole(spec.units_per_second));
    let ttl_ns_max = Terms::PERIOD.as_nanos() as u64;
    LeaseTerms { rate, depth, ttl_ns_max, drift_ns: DRIFT_NS }
}

fn lease_grant(ask: &Ask, grant: &Grant, now: Timestamp) -> LeaseGrant {
    // Tokens for the requests that wait are not counted as held.
    let spot = if grant.is_spot() { grant.lump } else { 0 };
    LeaseGrant {
        holder: ask.holder.member,
        epoch: grant.epoch,
        held: halves(grant.held + spot),
        granted: halves(grant.lump),
        trickle: Units::from_thousandths(
            (i64::from(grant.rate) * HALF).div_euclid(Terms::PERIOD.as_secs().cast_signed()) + 1,
        ),
        at: now,
        until: now.saturating_add(grant.ttl),
    }
}

fn halves(count: u32) -> Units {
    Units::from_thousandths(i64::from(count) * HALF)
}

/// The key in the store of a table's main direction, as engines name it. A checker that looks for
/// another key finds that tokens are spent without a grant.
fn store_key(scenario: &CapacityScenario, table: usize) -> Key {
    let spec = &scenario.tables[table];
    let operation = if spec.is_write { AccessOperation::Write } else { AccessOperation::Read };
    let parts = [NAMESPACE, "table", spec.name.as_str(), operation.as_str()];
    Key::from_parts(parts.map(|part| Some(part.as_bytes()))).expect("names of tables are short")
}

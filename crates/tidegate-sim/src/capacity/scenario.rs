//! The scenario of a capacity world: nodes, tables, and what is asked of them.

use core::fmt;
use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Serialize, Serializer};
use tidegate_capacity::AccessOperation;

use crate::capacity::demand::request::{RequestKind, RequestStream};
use crate::capacity::demand::shaper::RequestShaper;
use crate::capacity::demand::{Demand, Pattern};
use crate::capacity::design::Design;
use crate::capacity::plane::operator::{StepNote, TableOperator};
use crate::capacity::plane::routers::LeaseRouters;
use crate::capacity::report::workload_note::WorkloadNote;
use crate::kit::report::ExperimentNote;

/// Nodes and tables, and the demand of each table. The same scenario gives the same run, byte for
/// byte.
#[derive(Clone, Debug, Serialize)]
pub struct CapacityScenario {
    /// The seed of all chance.
    pub seed: u64,
    /// For how long, in seconds, 10 to [`CapacityScenario::SECONDS_MAX`].
    pub seconds: u32,
    /// The designs to compare, at least one.
    pub designs: Vec<Design>,
    /// The nodes.
    pub nodes: Vec<NodeSpec>,
    /// The tables.
    pub tables: Vec<TableSpec>,
    /// The workload it was made of; `None` for experiments and for tables of one's own.
    pub workload: Option<&'static WorkloadNote>,
    /// The experiment it was made of; `None` for workloads and for tables of one's own.
    pub experiment: Option<&'static ExperimentNote>,
    /// Further directions and kinds of requests, by the positions of the tables that have them.
    pub extras: BTreeMap<usize, TableExtras>,
    /// The changes that an operator makes, whatever the design; `None`: none.
    #[serde(rename = "steps", serialize_with = "serialize_steps")]
    pub script: Option<Arc<dyn OperatorScript>>,
    /// When the time begins from which recovery is measured, in seconds.
    pub onset: u32,
    /// The routers that lease the throughput of tables with global admission; `None`: one process
    /// routes all requests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub routers: Option<RouterSpec>,
}

/// Makes the clients of one direction of the table at a position.
pub type ShaperMaker = fn(&CapacityScenario, usize, AccessOperation) -> Box<dyn RequestShaper>;

/// Makes the routers of a scenario.
pub type RouterMaker =
    fn(&CapacityScenario, RouterSpec) -> Result<Box<dyn LeaseRouters>, CapacityScenarioError>;

/// Routers that lease the throughput of tables.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct RouterSpec {
    /// How many there are, at least 1.
    pub count: u32,
    /// How many of them route the requests for one table, 1 to `count`.
    pub per_table: u32,
    /// Makes them.
    #[serde(skip)]
    pub open: RouterMaker,
}

/// The work of an operator in the course of a scenario.
pub trait OperatorScript: fmt::Debug + Send + Sync {
    /// The steps, as the report of a run lists them.
    fn steps(&self) -> Vec<StepNote>;

    /// The operator of the world of one design, before the first step.
    fn operator(&self, scenario: &CapacityScenario, design: Design) -> Box<dyn TableOperator>;
}

/// Writes the steps of a script; none without a script.
#[expect(clippy::ref_option, reason = "the signature is serde's")]
fn serialize_steps<S: Serializer>(
    script: &Option<Arc<dyn OperatorScript>>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(script.iter().flat_map(|script| script.steps()))
}

/// Writes whether there is a shaper.
#[expect(clippy::ref_option, clippy::trivially_copy_pass_by_ref, reason = "the signature is serde's")]
fn serialize_is_shaped<S: Serializer>(
    shaper: &Option<ShaperMaker>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.serialize_bool(shaper.is_some())
}

/// A node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NodeSpec {
    /// Its name.
    pub name: String,
    /// Units it can do in a second.
    pub units_per_second: u64,
    /// Hundredths of them that are promised to no partition, and left by bursts.
    pub reserve_percent: u8,
}

/// A table and its demand.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TableSpec {
    /// Its name.
    pub name: String,
    /// Its throughput in units a second.
    pub units_per_second: u64,
    /// Units a second that a partition serves at most.
    pub ceiling: u64,
    /// The number of its partitions.
    pub partitions: u32,
    /// The nodes that they lie on, in turn.
    pub nodes: Vec<String>,
    /// The members of each partition's group.
    pub replicas: u8,
    /// Whether keys are partitioned in their order instead of by hash.
    pub is_ordered: bool,
    /// Whether requests are writes instead of strongly consistent reads.
    pub is_write: bool,
    /// Whether the first and the third key must share a partition and the second must not.
    pub shares_top_keys: bool,
    /// Whether designs are compared on it.
    pub role: TableRole,
    /// The requests for it.
    pub demand: Demand,
}

/// A second direction of a table, further kinds of requests, and how the table follows its demand.
#[derive(Clone, Debug, Default, Serialize)]
pub struct TableExtras {
    /// The throughput of the direction that [`TableSpec::is_write`] does not name; `None`: one unit
    /// a second, which nobody asks for.
    pub other: Option<Throughput>,
    /// The kind of the requests of [`TableSpec::demand`]; `None`: writes or strongly consistent
    /// reads, as [`TableSpec::is_write`] says.
    pub kind: Option<RequestKind>,
    /// Further requests.
    pub streams: Vec<RequestStream>,
    /// The clients that hold requests back; `None`: clients send whatever comes.
    #[serde(rename = "is_shaped", serialize_with = "serialize_is_shaped")]
    pub shaper: Option<ShaperMaker>,
    /// Whether the table follows its demand; `None`: its throughput is provisioned once.
    pub growth: Option<GrowthSpec>,
}

/// The throughput of one direction of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Throughput {
    /// Units a second.
    pub units_per_second: u64,
    /// Units a second that a partition serves at most.
    pub ceiling: u64,
}

/// A table that follows its demand.
///
/// With control loops it is a table on demand, whose first limit is [`TableSpec::units_per_second`]
/// and whose partitions follow the limit. Under static shares its owner provisions it, by a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct GrowthSpec {
    /// Seconds in which the limit at most doubles.
    pub growth_seconds: u64,
}

/// Whether designs are compared on a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TableRole {
    /// They are.
    Compared,
    /// It is a tenant beside the tables that are compared: it keeps equal shares under each design.
    /// Nothing of it may be refused as long as it is asked for no more than its shares.
    Tenant,
    /// It keeps equal shares under each design, and may be asked for more than it has.
    Neighbour,
}

/// Why a scenario cannot be simulated. The text names the value and the fix.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CapacityScenarioError {
    /// A number is out of its range.
    #[error("{what} {value} is not between {min} and {max}; use one that is")]
    Range {
        /// Which.
        what: String,
        /// The value.
        value: String,
        /// The least it may be.
        min: u64,
        /// The most it may be.
        max: u64,
    },
    /// Something is missing.
    #[error("there is no {0}; name at least one")]
    Nothing(&'static str),
    /// Phases that do not follow one another.
    #[error(
        "table \"{table}\": the phases begin at {starts}; let the first begin at 0 and each later than the one before it"
    )]
    Phases {
        /// The table.
        table: String,
        /// When they begin.
        starts: String,
    },
    /// New keys in order, of a table whose keys are hashed.
    #[error(
        "table \"{0}\": new keys have no order where keys are hashed; partition the table by the order of its keys"
    )]
    TailOfHashes(String),
    /// A router cannot be made.
    #[error("a router cannot be made: {0}")]
    Router(String),
    /// The capacity plane refuses the tables or nodes.
    #[error("the capacity plane refuses the scenario: {0}")]
    Refused(#[from] tidegate_capacity::CapacityError),
}

impl CapacityScenario {
    /// The longest time: a day.
    pub const SECONDS_MAX: u32 = 24 * 3600;
    /// The most units a second that all tables ask for together.
    pub const RATE_MAX: u32 = 10_000_000;
    /// The most tables.
    pub const TABLES_MAX: usize = 256;

    /// Tables of one's own.
    pub fn from_tables(
        seed: u64,
        seconds: u32,
        designs: Vec<Design>,
        nodes: Vec<NodeSpec>,
        tables: Vec<TableSpec>,
    ) -> Self {
        Self {
            seed,
            seconds,
            designs,
            nodes,
            tables,
            workload: None,
            experiment: None,
            extras: BTreeMap::new(),
            script: None,
            onset: 0,
            routers: None,
        }
    }

    /// The requests for a table: those of its demand first.
    pub fn streams(&self, table: usize) -> Vec<RequestStream> {
        let spec = &self.tables[table];
        let usual = if spec.is_write { RequestKind::Write } else { RequestKind::StrongRead };
        let extras = self.extras.get(&table);
        let kind = extras.and_then(|extras| extras.kind).unwrap_or(usual);
        let main = RequestStream::new(kind, spec.demand.clone());
        let further = extras.map_or(&[][..], |extras| &extras.streams);
        core::iter::once(main).chain(further.iter().cloned()).collect()
    }

    /// The throughput of one direction of a table. The direction that nobody asks for has one unit
    /// a second, which weighs nothing.
    pub fn throughput(&self, table: usize, operation: AccessOperation) -> Throughput {
        let spec = &self.tables[table];
        if spec.is_write == (operation == AccessOperation::Write) {
            return Throughput { units_per_second: spec.units_per_second, ceiling: spec.ceiling };
        }
        let other = self.extras.get(&table).and_then(|extras| extras.other);
        other.unwrap_or(Throughput { units_per_second: 1, ceiling: spec.ceiling })
    }

    /// How the table at a position follows its demand; `None` if it does not.
    pub fn growth(&self, table: usize) -> Option<GrowthSpec> {
        self.extras.get(&table).and_then(|extras| extras.growth)
    }

    /// Whether no more is asked of a table at `seconds` than it has, in each direction. A table
    /// that follows its demand has what it is asked for.
    pub(crate) fn is_within(&self, table: usize, seconds: f64) -> bool {
        let streams = self.streams(table);
        let is_enough = |operation| {
            let asked = streams.iter().filter(|stream| stream.kind.operation() == operation);
            let asked: f64 = asked.map(|stream| stream.demand.rate_at(seconds)).sum();
            let has = self.throughput(table, operation).units_per_second as f64;
            asked <= has
        };
        self.growth(table).is_some()
            || [AccessOperation::Read, AccessOperation::Write].into_iter().all(is_enough)
    }

    /// Whether it can be simulated, as far as the capacity plane does not check it itself.
    pub fn check(&self) -> Result<(), CapacityScenarioError> {
        in_range("number of seconds", u64::from(self.seconds), 10, u64::from(Self::SECONDS_MAX))?;
        if let Some(RouterSpec { count, per_table, .. }) = self.routers {
            in_range("number of routers", count.into(), 1, 10_000)?;
            in_range("number of routers a table", per_table.into(), 1, u64::from(count))?;
        }
        if self.designs.is_empty() {
            return Err(CapacityScenarioError::Nothing("design"));
        }
        if self.tables.is_empty() {
            return Err(CapacityScenarioError::Nothing("table"));
        }
        in_range("number of tables", self.tables.len() as u64, 1, Self::TABLES_MAX as u64)?;
        (0..self.tables.len()).try_for_each(|table| {
            self.streams(table)
                .iter()
                .try_for_each(|stream| check_demand(&self.tables[table], &stream.demand))
        })
    }
}

impl NodeSpec {
    /// So many nodes alike, `node-1` and so on.
    pub fn numbered(count: u32, units_per_second: u64, reserve_percent: u8) -> Vec<Self> {
        let node = |number| Self { name: format!("node-{number}"), units_per_second, reserve_percent };
        (1..=count).map(node).collect()
    }
}

fn check_demand(table: &TableSpec, demand: &Demand) -> Result<(), CapacityScenarioError> {
    let of = |what: &str| format!("table \"{}\": {what}", table.name);
    in_range(&of("number of keys"), u64::from(demand.keys), 1, u64::from(Demand::KEYS_MAX))?;
    in_range(&of("units of a request"), u64::from(demand.units), 1, u64::from(Demand::UNITS_MAX))?;
    let starts = || demand.phases.iter().map(|phase| phase.from.to_string()).collect::<Vec<_>>().join(", ");
    let is_in_order = demand.phases.is_sorted_by(|a, b| a.from < b.from);
    if demand.phases.first().is_none_or(|first| first.from != 0.0) || !is_in_order {
        return Err(CapacityScenarioError::Phases { table: table.name.clone(), starts: starts() });
    }
    for phase in &demand.phases {
        let rate = phase.units_per_second;
        if !(0.0..=f64::from(CapacityScenario::RATE_MAX)).contains(&rate) {
            let (what, value) = (of("units asked for a second"), rate.to_string());
            let max = u64::from(CapacityScenario::RATE_MAX);
            return Err(CapacityScenarioError::Range { what, value, min: 0, max });
        }
        match phase.pattern {
            Pattern::Uniform => {}
            Pattern::Zipf { exponent } if exponent > 0.0 && exponent <= 4.0 => {}
            Pattern::Zipf { exponent } => {
                let (what, value) = (of("exponent"), exponent.to_string());
                return Err(CapacityScenarioError::Range { what, value, min: 0, max: 4 });
            }
            Pattern::HotPartition { percent, every } => {
                in_range(&of("hundredths"), u64::from(percent), 0, 100)?;
                in_range(&of("seconds until another partition is hot"), u64::from(every), 1, 86_400)?;
            }
            Pattern::Tail { .. } | Pattern::ScatteredTail { .. } if !table.is_ordered => {
                return Err(CapacityScenarioError::TailOfHashes(table.name.clone()));
            }
            Pattern::OneKey { percent } | Pattern::Tail { percent } | Pattern::ScatteredTail { percent } => {
                in_range(&of("hundredths"), u64::from(percent), 0, 100)?;
            }
        }
    }
    Ok(())
}

fn in_range(what: &str, value: u64, min: u64, max: u64) -> Result<(), CapacityScenarioError> {
    if (min..=max).contains(&value) {
        return Ok(());
    }
    Err(CapacityScenarioError::Range { what: what.to_owned(), value: value.to_string(), min, max })
}

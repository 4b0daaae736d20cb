//! The file of `tidegate simulate capacity --tables`: nodes, tables, and what is asked of them.

#[cfg(test)]
use schemars::JsonSchema;
use serde::Deserialize;
use tidegate_policy::Problems;

use crate::capacity::demand::{Demand, Pattern, Phase};
use crate::capacity::design::Design;
use crate::capacity::scenario::{CapacityScenario, NodeSpec, TableRole, TableSpec};
use crate::scenario_document;

/// The schema of a [`TableFile`].
pub(crate) const SCHEMA: &str = include_str!("table_file.schema.json");

/// Nodes and tables of one's own.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct TableFile {
    /// Simulated seconds. Default: 300.
    #[cfg_attr(test, schemars(range(min = 10, max = 86400)))]
    seconds: Option<u32>,
    /// The second from which recovery is measured. Default: 0.
    #[cfg_attr(test, schemars(range(min = 0, max = 86400)))]
    onset: Option<u32>,
    /// The nodes.
    nodes: Vec<NodeForm>,
    /// The tables.
    tables: Vec<TableForm>,
}

/// A node.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields)]
struct NodeForm {
    /// Its name.
    name: String,
    /// Units that it can do in a second.
    #[cfg_attr(test, schemars(range(min = 1, max = 1_000_000)))]
    units: u64,
    /// Hundredths of them that are promised to no partition. Default: 10.
    #[cfg_attr(test, schemars(range(min = 0, max = 90)))]
    reserve_percent: Option<u8>,
}

/// A table.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields)]
struct TableForm {
    /// Its name.
    name: String,
    /// Its throughput in units a second.
    #[cfg_attr(test, schemars(range(min = 1, max = 1_000_000)))]
    units: u64,
    /// Units a second that a partition serves at most. Default: 3000 for reads, 1000 for writes.
    #[cfg_attr(test, schemars(range(min = 1, max = 1_000_000)))]
    ceiling: Option<u64>,
    /// The number of its partitions. Default: 1.
    #[cfg_attr(test, schemars(range(min = 1, max = 1000)))]
    partitions: Option<u32>,
    /// The order of its keys. Default: `hash`.
    partition_by: Option<OrderForm>,
    /// Read or write. Default: `read`.
    operation: Option<OperationForm>,
    /// The names of the nodes that its partitions lie on. Default: all.
    nodes: Option<Vec<String>>,
    /// Members of each partition's group. Default: 1.
    #[cfg_attr(test, schemars(range(min = 1, max = 3)))]
    replicas: Option<u8>,
    /// Whether it keeps equal shares under each design and stands beside the tables that are
    /// compared. Default: false.
    tenant: Option<bool>,
    /// The number of keys. Default: 20000.
    #[cfg_attr(test, schemars(range(min = 1, max = 1_000_000)))]
    keys: Option<u32>,
    /// Units of each request. Default: 1.
    #[cfg_attr(test, schemars(range(min = 1, max = 100)))]
    request_units: Option<u32>,
    /// The phases of the demand, in order.
    demand: Vec<PhaseForm>,
}

/// The order of a table's keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
enum OrderForm {
    /// By a hash of the key.
    Hash,
    /// By the key: hot keys are neighbours.
    Range,
}

/// The operation of a table's requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
enum OperationForm {
    /// Strongly consistent reads.
    Read,
    /// Writes.
    Write,
}

/// A phase of the demand.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields)]
struct PhaseForm {
    /// The second at which it begins. Default: 0.
    #[cfg_attr(test, schemars(range(min = 0, max = 86400)))]
    from: Option<u32>,
    /// Units asked for a second.
    #[cfg_attr(test, schemars(range(min = 0, max = 10_000_000)))]
    units: u32,
    /// The keys asked for. Default: `uniform`.
    pattern: Option<PatternForm>,
    /// The exponent of `zipf` in hundredths. Default: 99.
    #[cfg_attr(test, schemars(range(min = 1, max = 400)))]
    exponent_percent: Option<u32>,
    /// The part of the requests for the hot keys, in hundredths. Default: 50.
    #[cfg_attr(test, schemars(range(min = 0, max = 100)))]
    percent: Option<u32>,
    /// Seconds until another partition is hot. Default: 60.
    #[cfg_attr(test, schemars(range(min = 1, max = 86400)))]
    every: Option<u32>,
}

/// The keys that requests ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
enum PatternForm {
    /// All alike.
    Uniform,
    /// By Zipf's law with `exponent_percent`.
    Zipf,
    /// `percent` for one configured partition, which changes after `every` seconds.
    HotPartition,
    /// `percent` for one key.
    OneKey,
    /// `percent` for new keys in order; needs `partition_by: range`.
    Tail,
}

impl TableFile {
    /// The simulated seconds of a file that names none.
    pub const SECONDS: u32 = 300;

    /// Reads and checks the text of the file called `name`.
    pub fn parse(name: &str, bytes: &[u8]) -> Result<Self, Problems> {
        scenario_document::parse(name, bytes, SCHEMA)
    }

    /// The scenario of a seed under the design that is shipped, with `seconds` instead of those of
    /// the file.
    pub fn scenario(&self, seed: u64, seconds: Option<u32>) -> CapacityScenario {
        let nodes = self.nodes.iter().map(|node| NodeSpec {
            name: node.name.clone(),
            units_per_second: node.units,
            reserve_percent: node.reserve_percent.unwrap_or(10),
        });
        let tables = self.tables.iter().map(|table| self.table(table)).collect();
        let seconds = seconds.or(self.seconds).unwrap_or(Self::SECONDS);
        let designs = vec![Design::SHIPPED];
        let onset = self.onset.unwrap_or(0);
        CapacityScenario {
            onset,
            ..CapacityScenario::from_tables(seed, seconds, designs, nodes.collect(), tables)
        }
    }

    fn table(&self, table: &TableForm) -> TableSpec {
        let is_write = table.operation == Some(OperationForm::Write);
        let all = || self.nodes.iter().map(|node| node.name.clone()).collect();
        TableSpec {
            name: table.name.clone(),
            units_per_second: table.units,
            ceiling: table.ceiling.unwrap_or(if is_write { 1000 } else { 3000 }),
            partitions: table.partitions.unwrap_or(1),
            nodes: table.nodes.clone().unwrap_or_else(all),
            replicas: table.replicas.unwrap_or(1),
            is_ordered: table.partition_by == Some(OrderForm::Range),
            is_write,
            shares_top_keys: false,
            role: if table.tenant == Some(true) { TableRole::Tenant } else { TableRole::Compared },
            demand: Demand {
                keys: table.keys.unwrap_or(20_000),
                units: table.request_units.unwrap_or(1),
                phases: table.demand.iter().map(phase).collect(),
            },
        }
    }
}

fn phase(phase: &PhaseForm) -> Phase {
    let percent = phase.percent.unwrap_or(50);
    let pattern = match phase.pattern.unwrap_or(PatternForm::Uniform) {
        PatternForm::Uniform => Pattern::Uniform,
        PatternForm::Zipf => {
            Pattern::Zipf { exponent: f64::from(phase.exponent_percent.unwrap_or(99)) / 100.0 }
        }
        PatternForm::HotPartition => Pattern::HotPartition { percent, every: phase.every.unwrap_or(60) },
        PatternForm::OneKey => Pattern::OneKey { percent },
        PatternForm::Tail => Pattern::Tail { percent },
    };
    Phase { from: f64::from(phase.from.unwrap_or(0)), units_per_second: f64::from(phase.units), pattern }
}

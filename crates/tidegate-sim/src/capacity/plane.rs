//! The capacity plane of a scenario under a design.

pub mod operator;
pub mod routers;

pub(super) mod placement;

use core::time::Duration;

use tidegate_capacity::on_demand::{OnDemand, OnDemandTerms};
use tidegate_capacity::{
    AccessOperation, Capacity, CapacityBuilder, Ceilings, NodeConfig, PartitionBy, TableConfig, TableMode,
    Units,
};
use tidegate_core::Timestamp;

use crate::capacity::design::Design;
use crate::capacity::scenario::{CapacityScenario, TableRole, TableSpec};
use crate::kit::WORLD_BEGIN;

/// The namespace of all tables.
pub const NAMESPACE: &str = "sim";

/// The state of a table that an operator changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableSetting {
    /// Its mode.
    pub mode: TableMode,
    /// So many times the throughput of the scenario.
    pub throughput: u32,
    /// So many times its partitions.
    pub partitions: u32,
}

/// An instant of the world, `at` nanoseconds after it began.
pub const fn instant(at: u64) -> Timestamp {
    Timestamp::from_nanos(WORLD_BEGIN + at)
}

/// The mode of a table under a design: tenants and neighbours keep their shares.
fn mode_of(spec: &TableSpec, design: Design) -> TableMode {
    if spec.role == TableRole::Compared { design.mode() } else { TableMode::Static }
}

/// The settings of all tables at the beginning.
pub fn first_settings(scenario: &CapacityScenario, design: Design) -> Vec<TableSetting> {
    let setting = |spec| TableSetting { mode: mode_of(spec, design), throughput: 1, partitions: 1 };
    scenario.tables.iter().map(setting).collect()
}

/// The nodes and tables of a scenario with these settings.
pub fn builder_of(scenario: &CapacityScenario, design: Design, settings: &[TableSetting]) -> CapacityBuilder {
    let mut builder = Capacity::builder();
    for node in &scenario.nodes {
        builder = builder.node_config(
            NodeConfig::new(node.name.as_str(), node.units_per_second).reserve_percent(node.reserve_percent),
        );
    }
    for (index, (spec, setting)) in scenario.tables.iter().zip(settings).enumerate() {
        let of = |operation| scenario.throughput(index, operation);
        let (read, write) = (of(AccessOperation::Read), of(AccessOperation::Write));
        let times = u64::from(setting.throughput);
        let units = |units: u64| if units > 1 { units * times } else { units };
        let (reads, writes) = (units(read.units_per_second), units(write.units_per_second));
        let mut table = TableConfig::new(NAMESPACE, spec.name.as_str(), reads, writes)
            .partitions(spec.partitions * setting.partitions)
            .nodes(spec.nodes.iter().map(String::as_str))
            .replicas(spec.replicas)
            .partition_by(if spec.is_ordered { PartitionBy::Range } else { PartitionBy::Hash })
            .ceilings(Ceilings { read: read.ceiling, write: write.ceiling })
            .mode(setting.mode);
        if let Some(growth) = scenario.growth(index).filter(|_| design.is_controlled()) {
            let terms = |units| {
                let mut terms = OnDemand::new(Units::whole(units));
                terms.growth = Duration::from_secs(growth.growth_seconds);
                terms
            };
            table = table.on_demand(OnDemandTerms { read: terms(reads), write: terms(writes) });
        }
        builder = builder.table(table);
    }
    builder
}

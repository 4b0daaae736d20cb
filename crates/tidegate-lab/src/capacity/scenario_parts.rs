//! Parts of the scenarios of workloads and experiments.

use tidegate_sim::capacity::{Demand, NodeSpec, Pattern, Phase, TableRole, TableSpec};

/// A hashed table of reads that is compared, with `units` a second in `partitions` partitions.
pub(crate) fn table(name: &str, units: u64, partitions: u32, nodes: &[String], demand: Demand) -> TableSpec {
    TableSpec {
        name: name.to_owned(),
        units_per_second: units,
        ceiling: units,
        partitions,
        nodes: nodes.to_vec(),
        replicas: 1,
        is_ordered: false,
        is_write: false,
        shares_top_keys: false,
        role: TableRole::Compared,
        demand,
    }
}

/// A demand of one phase.
pub(crate) fn steady(keys: u32, units: u32, units_per_second: f64, pattern: Pattern) -> Demand {
    Demand { keys, units, phases: vec![phase(0.0, units_per_second, pattern)] }
}

pub(crate) const fn phase(from: f64, units_per_second: f64, pattern: Pattern) -> Phase {
    Phase { from, units_per_second, pattern }
}

/// The names of the nodes of a scenario to be.
pub(crate) fn names(nodes: &[NodeSpec]) -> Vec<String> {
    nodes.iter().map(|node| node.name.clone()).collect()
}

//! Checked settings of the capacity plane.

use tidegate_capacity::{AccountConfig, Capacity, CapacityBuilder, NodeConfig, TableConfig};

/// The node of a policy that names none.
pub(crate) const ONLY_NODE: &str = "default";

/// The nodes, accounts and tables as a capacity plane takes them. Tables lie on all nodes in turn.
pub(crate) fn capacity<'t>(
    nodes: &[NodeConfig],
    accounts: &[AccountConfig],
    tables: impl Iterator<Item = &'t TableConfig>,
) -> CapacityBuilder {
    let mut builder = Capacity::builder();
    let mut names: Vec<&str> = nodes.iter().map(|node| node.name.as_str()).collect();
    for node in nodes {
        builder = builder.node_config(node.clone());
    }
    if nodes.is_empty() {
        let mut only = NodeConfig::new(ONLY_NODE, TableConfig::UNITS_PER_SECOND_MAX);
        only.reserve_percent = 0;
        builder = builder.node_config(only);
        names.push(ONLY_NODE);
    }
    for account in accounts {
        builder = builder.account(account.clone());
    }
    for table in tables {
        builder = builder.table(table.clone().nodes(names.iter().copied()));
    }
    builder
}

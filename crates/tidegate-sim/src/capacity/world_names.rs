//! The positions of nodes and tables by their names.

use std::collections::BTreeMap;

use crate::capacity::scenario::CapacityScenario;

/// The positions of nodes and tables by their names.
#[derive(Debug)]
pub(crate) struct WorldNames {
    nodes: BTreeMap<String, usize>,
    tables: BTreeMap<String, usize>,
}

impl WorldNames {
    pub(crate) fn from_scenario(scenario: &CapacityScenario) -> Self {
        Self {
            nodes: scenario.nodes.iter().map(|node| node.name.clone()).zip(0..).collect(),
            tables: scenario.tables.iter().map(|table| table.name.clone()).zip(0..).collect(),
        }
    }

    pub(crate) fn node(&self, name: &str) -> usize {
        self.nodes.get(name).copied().unwrap_or(0)
    }

    pub(crate) fn table(&self, name: &str) -> Option<usize> {
        self.tables.get(name).copied()
    }
}

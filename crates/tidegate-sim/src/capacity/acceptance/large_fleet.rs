//! E-LARGE: as many partitions and nodes as a large installation has.

use super::figures::{least, line, worst};
use super::scenario_parts::{names, steady, table};
use crate::capacity::demand::Pattern;
use crate::capacity::design::Design;
use crate::capacity::gate_line::GateLine;
use crate::capacity::run::{CapacityRun, DesignResult};
use crate::capacity::scenario::{CapacityScenario, NodeSpec};

pub(super) const DESCRIPTION: &str = "100 tables of 100 partitions each lie on 1 000 nodes and are asked for 200 000 \
    requests a second together, with Zipf's law of exponent 0.99 over hashed keys, for a minute. One process routes \
    all requests.";

const TABLES: u32 = 100;
const NODES: u32 = 1000;

/// The scenario.
pub(super) fn scenario(seed: u64) -> CapacityScenario {
    let nodes = NodeSpec::numbered(NODES, 1000, 10);
    let names = names(&nodes);
    let tables = (0..TABLES).map(|number| {
        // Each table begins on another node, and no two of its partitions share one.
        let first = (number * NODES / TABLES) as usize;
        let nodes: Vec<String> = names.iter().cycle().skip(first).take(100).cloned().collect();
        let demand = steady(2000, 1, 2000.0, Pattern::Zipf { exponent: 0.99 });
        let mut one = table(&format!("table-{number}"), 2500, 100, &nodes, demand);
        one.ceiling = 300;
        one
    });
    let tables = tables.collect();
    CapacityScenario::of_tables(seed, 60, vec![Design::Split], nodes, tables)
}

/// The lines of the gate.
#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
pub(super) fn judge(runs: &[&CapacityRun]) -> Vec<GateLine> {
    let design = Design::Split;
    let breaches = worst(runs, design, |_, result| DesignResult::breaches_total(result) as f64);
    let decisions = least(runs, design, |_, result| result.decisions as f64);
    vec![
        line(
            design,
            "decisions",
            format!("{decisions}"),
            "12 million give or take 1 %",
            (decisions / 12e6 - 1.0).abs() <= 0.01,
        ),
        line(design, "breaches", format!("{breaches}"), "0", breaches <= 0.0),
    ]
}

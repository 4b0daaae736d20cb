//! E-BUSY: nodes that are nearly full, so that it matters where partitions lie.

use super::figures::{line, worst};
use crate::capacity::scenario_parts::{names, phase, steady, table};
use tidegate_sim::capacity::{CapacityRun, CapacityScenario, Demand, Design, NodeSpec, Pattern, TableRole};
use tidegate_sim::kit::GateLine;

pub(super) const DESCRIPTION: &str = "As the baseline, but the tenant on each node uses 2 900 of its 3 000 units a \
    second, and each node has four partitions that are neighbours in the order of the keys. 90 % of the table's \
    throughput is asked for, with Zipf's law of exponent 0.3 over the keys in their order: no partition is near its \
    ceiling, but the four on node-1 are asked for more than the node has left. A move of one of them helps.";

const SECONDS: u32 = 300;

/// The scenario, at a tenth of the rates of the baseline. Nodes have ten units more, so that a
/// whole partition fits beside what is promised, with the unit a second of writes that each table
/// has.
pub(super) fn scenario(seed: u64) -> CapacityScenario {
    let nodes = NodeSpec::numbered(4, 810, 0);
    let names = names(&nodes);
    let four_each: Vec<String> = names.iter().flat_map(|name| vec![name.clone(); 4]).collect();
    let demand = steady(20_000, 1, 1440.0, Pattern::Zipf { exponent: 0.3 });
    let mut orders = table("orders", 1600, 16, &four_each, demand);
    (orders.ceiling, orders.is_ordered) = (300, true);
    let tenants = names.iter().map(|node| {
        let demand = Demand { keys: 100, units: 1, phases: vec![phase(0.0, 290.0, Pattern::Uniform)] };
        let mut tenant = table(&format!("tenant-of-{node}"), 300, 1, core::slice::from_ref(node), demand);
        tenant.role = TableRole::Neighbour;
        tenant
    });
    let tables = core::iter::once(orders).chain(tenants).collect();
    let designs = vec![Design::Global, Design::Balanced, Design::Split];
    CapacityScenario::from_tables(seed, SECONDS, designs, nodes, tables)
}

/// The lines of the gate.
pub(super) fn judge(runs: &[&CapacityRun]) -> Vec<GateLine> {
    let share = |design, is_at_end: bool| {
        worst(runs, design, |_, result| {
            let table = &result.tables[0];
            if is_at_end { table.share_at_end } else { table.share_within }
        })
    };
    let (global, balanced) = (share(Design::Global, true), share(Design::Balanced, true));
    let moves = worst(runs, Design::Balanced, |_, result| f64::from(result.tables[0].changes.moves));
    let percent = |share: f64| format!("{:.3} %", share * 100.0);
    vec![
        line(
            Design::Global,
            "throttled in the last minute, by nodes",
            percent(global),
            "at least 0.5 %: balancing can matter",
            global >= 0.005,
        ),
        line(
            Design::Balanced,
            "throttled in the last minute",
            percent(balanced),
            "at most a tenth of G",
            balanced <= global / 10.0,
        ),
        line(
            Design::Balanced,
            "throttled over the whole run, G beside it",
            format!("{}, {}", percent(share(Design::Balanced, false)), percent(share(Design::Global, false))),
            "less than G",
            share(Design::Balanced, false) < share(Design::Global, false),
        ),
        line(
            Design::Balanced,
            "moves",
            format!("{moves}"),
            "at most 1 a minute",
            moves <= f64::from(SECONDS) / 60.0,
        ),
    ]
}

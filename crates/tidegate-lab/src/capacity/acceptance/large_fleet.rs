//! E-LARGE: as many partitions and nodes as a large installation has.

use super::figures::{Figure, at_most, least, line, none, worst};
use crate::capacity::scenario_parts::{names, steady, table};
use crate::capacity::world::routers;
use tidegate_sim::capacity::{
    CapacityRun, CapacityScenario, Design, DesignResult, Invariant, NodeSpec, Pattern,
};
use tidegate_sim::kit::GateLine;

pub(super) const DESCRIPTION: &str = "100 tables of 100 partitions each lie on 1 000 nodes and are asked for 200 000 \
    requests a second together, with Zipf's law of exponent 0.99 over hashed keys, for a minute. 1 000 routers, each an \
    engine of its own, lease the throughput of the tables from one store, 200 of them each table.";

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
    let routers = Some(routers(1000, 200));
    CapacityScenario {
        routers,
        ..CapacityScenario::from_tables(seed, 60, vec![Design::Split], nodes, tables)
    }
}

/// The lines of the gate.
pub(super) fn judge(runs: &[&CapacityRun]) -> Vec<GateLine> {
    let design = Design::Split;
    let breaches = worst(runs, design, |_, result| DesignResult::breaches_total(result) as f64);
    let of_leases = worst(runs, design, |_, result| {
        result.breach_counts.get(&Invariant::LeaseBound).copied().unwrap_or(0) as f64
    });
    let refused = worst(runs, design, |_, result| {
        result.routers.map_or(0.0, |routers| routers.refusals as f64 / result.decisions.max(1) as f64)
    });
    let decisions = least(runs, design, |_, result| result.decisions as f64);
    vec![
        line(
            design,
            "decisions",
            format!("{decisions}"),
            "12 million give or take 1 %",
            (decisions / 12e6 - 1.0).abs() <= 0.01,
        ),
        none(design, "breaches", breaches),
        none(design, "breaches of I9", of_leases),
        at_most(
            design,
            "requests that routers refused, of tables with room",
            Figure::percent(refused, 3),
            0.1,
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_sim::capacity::simulate;

    #[test]
    fn routers_with_leases_admit_a_table_together_and_keep_every_invariant() {
        // Two tables with three fifths and twice of their throughput.
        let mut scenario = scenario(1);
        scenario.tables.truncate(2);
        scenario.tables[0].demand.phases[0].units_per_second = 1500.0;
        scenario.tables[1].demand.phases[0].units_per_second = 5000.0;
        scenario.tables[1].demand.phases[0].pattern = Pattern::Uniform;
        scenario.routers = Some(routers(24, 16));
        let run = simulate(&CapacityScenario { seconds: 30, ..scenario }).unwrap();
        let result = run.of(Design::Split).unwrap();
        assert!(result.breaches.is_empty(), "{:?}", result.breaches);
        let tokens = |table: usize| result.tables[table].by_bound.get("table tokens").copied().unwrap_or(0);
        assert_eq!(tokens(0), 0, "nobody within the throughput is refused by a router");
        let admitted = result.tables[1].offered - result.tables[1].throttled;
        let has = 2500 * 30;
        assert!(admitted <= has + 2500 + 250, "{admitted} of {has}");
        assert!(admitted >= has * 97 / 100, "{admitted} of {has}: {:?}", result.tables[1].by_bound);
        let routers = result.routers.unwrap();
        assert!(routers.asks > 100 && routers.refusals == tokens(1), "{routers:?}");
    }
}

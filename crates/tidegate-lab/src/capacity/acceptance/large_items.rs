//! E-BIG: writes of 400 units beside writes of one.

use super::figures::{Figure, at_least, at_most, designs, least, worst};
use crate::capacity::scenario_parts::{names, steady, table};
use tidegate_sim::capacity::{
    CapacityRun, CapacityScenario, Design, DesignResult, NodeSpec, Pattern, RequestKind, RequestStream,
    StreamResult, TableExtras,
};
use tidegate_sim::kit::GateLine;

pub(super) const DESCRIPTION: &str = "Two tables of one partition with 100 units a second of writes are asked for \
    writes of 400 units, at 100 units a second on average, and for 5 writes of one unit a second. Those of 400 units \
    come every four seconds to the table \"paced\", and as a Poisson process to the table \"random\". A write of 400 \
    units leaves a debt of up to four seconds. A refused write is not tried again.";

const SECONDS: u32 = 600;
const UNITS: u64 = 100;
const TABLES: [&str; 2] = ["paced", "random"];

/// The scenario.
pub(super) fn scenario(seed: u64) -> CapacityScenario {
    let nodes = NodeSpec::numbered(1, 10_000, 10);
    let names = names(&nodes);
    let tables = TABLES.map(|name| {
        let mut items = table(name, UNITS, 1, &names, steady(1000, 1, 5.0, Pattern::Uniform));
        (items.is_write, items.ceiling) = (true, 1000);
        items
    });
    let designs = vec![Design::Static, Design::Burst, Design::Global];
    let mut scenario = CapacityScenario::from_tables(seed, SECONDS, designs, nodes, tables.to_vec());
    for (index, is_paced) in [true, false].into_iter().enumerate() {
        let large = steady(1000, 400, 100.0, Pattern::Uniform);
        let large = RequestStream { is_paced, ..RequestStream::new(RequestKind::Write, large) };
        scenario.extras.insert(index, TableExtras { streams: vec![large], ..TableExtras::default() });
    }
    scenario
}

/// The requests of a table, those of one unit first.
fn of_table<'a>(result: &'a DesignResult, table: &str) -> Vec<&'a StreamResult> {
    let mut streams: Vec<_> = result.streams.iter().filter(|stream| stream.table == table).collect();
    streams.sort_by_key(|stream| stream.request_units);
    streams
}

/// The lines of the gate.
pub(super) fn judge(runs: &[&CapacityRun]) -> Vec<GateLine> {
    // Requests at random are more than a bucket of a second can admit; burst credit can.
    let random = designs(runs).filter(|design| *design == Design::Burst).map(|design| (design, TABLES[1]));
    let pairs = designs(runs).map(|design| (design, TABLES[0])).chain(random);
    let lines = pairs.flat_map(|(design, table)| {
        let has = UNITS as f64 * f64::from(SECONDS);
        let admitted = least(runs, design, |_, result| {
            let streams = of_table(result, table);
            let asked: f64 =
                streams.iter().map(|one| one.offered as f64 * f64::from(one.request_units)).sum();
            streams.iter().map(|one| one.units_admitted).sum::<f64>() / has.min(asked)
        });
        let starved = |_: &CapacityRun, result: &DesignResult| {
            of_table(result, table)[0].longest_refused_ms as f64 / 1000.0
        };
        let starved = worst(runs, design, starved);
        [
            at_least(
                design,
                &format!("{table}: admitted, of the throughput or of what is asked for"),
                Figure::percent(admitted, 1),
                95.0,
            ),
            at_most(
                design,
                &format!("{table}: longest time in which all writes of one unit were refused"),
                Figure::new(starved, 2, " s"),
                4.0,
            ),
        ]
    });
    lines.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_sim::capacity::simulate;
    use tidegate_sim::kit::GateOutcome;

    #[test]
    fn large_writes_do_not_starve_small_ones_under_any_design() {
        let run = simulate(&scenario(1)).unwrap();
        let lines = judge(&[&run]);
        assert!(lines.iter().all(|line| line.outcome == GateOutcome::Pass), "{lines:#?}");
        // A debt lets a small write through now and then; burst credit lets all through.
        let starved = |design| of_table(run.of(design).unwrap(), "random")[0].longest_refused_ms;
        assert!(starved(Design::Static) >= 500 && starved(Design::Burst) == 0, "{}", starved(Design::Static));
        assert!(run.designs.iter().all(|result| result.breaches.is_empty()), "{:?}", run.designs[0].breaches);
    }
}

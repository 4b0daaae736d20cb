//! E-ISO-1: victims within their shares beside an attacker.

use super::figures::{Figure, at_least, at_most, designs, least, line, refused_by, share_of, worst};
use crate::capacity::scenario_parts::{names, phase, steady, table};
use crate::capacity::world::{SHAPED, ScriptedStep, StepKind, script_of};
use tidegate_sim::capacity::{
    CapacityRun, CapacityScenario, Demand, Design, DesignResult, NodeSpec, Pattern, RequestKind,
    RequestStream, TableExtras, TableRole, Throughput,
};
use tidegate_sim::kit::GateLine;

pub(super) const DESCRIPTION: &str = "On four nodes an attacker asks for ten times its throughput, with Zipf's law \
    of exponent 1.2, reads and writes. The victims' clients send what conforms to the share of each partition and \
    one second of it, reads and writes, and hold back the rest. Meanwhile 200 partitions of the attacker are cut and \
    200 moved, and 20 partitions of the victims are moved; control loops cut and join nothing. Victims may be refused by no \
    partition and no node; the keys of a partition that moves are refused for 50 ms. How long an admitted request \
    waits at its node is not modelled.";

const SECONDS: u32 = 300;
/// Cuts and as many moves of the attacker's partitions, and moves of the victims', that must be
/// made.
const ATTACKER_CHANGES: u32 = 200;
const VICTIM_MOVES: u32 = 20;
/// A twentieth and a fifth more are tried: a move waits while boosts have taken the room of all
/// nodes.
const ATTACKER_TRIES: u32 = 210;
const VICTIM_TRIES: u32 = 24;
const VICTIM: usize = 1;
/// Units a second of the attacker and of the victims, in each direction.
const UNITS: u64 = 400;

/// The scenario.
pub(super) fn scenario(seed: u64) -> CapacityScenario {
    let nodes = NodeSpec::numbered(4, 1200, 10);
    let names = names(&nodes);
    let units = UNITS as f64;
    let attack = steady(5000, 4, 10.0 * units, Pattern::Zipf { exponent: 1.2 });
    // A fifth more than the shares, so that the clients hold something back.
    let conforming = steady(5000, 1, 1.2 * units, Pattern::Uniform);
    let mut tables = vec![
        table("attacker", UNITS, 8, &names, attack.clone()),
        table("victim", UNITS, 8, &names, conforming.clone()),
    ];
    for table in &mut tables {
        table.ceiling = 3000;
    }
    // A neighbour promises each node nearly full, and uses half.
    for node in &names {
        let phases = vec![phase(0.0, 250.0, Pattern::Uniform)];
        let mut tenant = table(
            &format!("tenant-of-{node}"),
            500,
            1,
            core::slice::from_ref(node),
            Demand { keys: 100, units: 4, phases },
        );
        tenant.role = TableRole::Tenant;
        tables.push(tenant);
    }
    let designs = vec![Design::Burst, Design::Adaptive, Design::Global];
    let mut scenario = CapacityScenario::from_tables(seed, SECONDS, designs, nodes, tables);
    let both = |demand: Demand, is_shaped: bool| TableExtras {
        other: Some(Throughput { units_per_second: UNITS, ceiling: 3000 }),
        streams: vec![RequestStream::new(RequestKind::Write, demand)],
        shaper: is_shaped.then_some(SHAPED),
        ..TableExtras::default()
    };
    scenario.extras.insert(0, both(attack, false));
    scenario.extras.insert(VICTIM, both(conforming, true));
    scenario.script = Some(script_of(steps()));
    scenario
}

/// Cuts and moves, evenly over the run, each at this part of a second: control loops work at whole
/// seconds.
fn steps() -> Vec<ScriptedStep> {
    let span = SECONDS - 10;
    let each = |count: u32, part: f64, table: usize, kind: StepKind| {
        let at = move |index| f64::from(5 + span * index / count) + part;
        (0..count).map(move |index| ScriptedStep { at: at(index), table, kind })
    };
    let mut steps: Vec<ScriptedStep> = each(ATTACKER_TRIES, 0.3, 0, StepKind::Cut)
        .chain(each(ATTACKER_TRIES, 0.5, 0, StepKind::Move))
        .chain(each(VICTIM_TRIES, 0.7, VICTIM, StepKind::Move))
        .collect();
    steps.sort_by(|a, b| a.at.total_cmp(&b.at));
    steps
}

/// Refusals of the victims by a bucket of the partition or of a node; by moves; and all requests.
fn victims(result: &DesignResult) -> (u64, u64, u64) {
    let streams = || result.streams.iter().filter(|stream| stream.table == "victim");
    let own = ["partition share", "burst credit", "partition ceiling", "node", "replica node"];
    (
        streams().map(|stream| refused_by(stream, &own)).sum(),
        streams().map(|stream| refused_by(stream, &["move"])).sum(),
        streams().map(|stream| stream.offered).sum(),
    )
}

/// The lines of the gate.
pub(super) fn judge(runs: &[&CapacityRun]) -> Vec<GateLine> {
    let lines = designs(runs).flat_map(|design| {
        let refused = worst(runs, design, |_, result| victims(result).0 as f64);
        let gated = worst(runs, design, |_, result| share_of(victims(result).1, victims(result).2));
        let offered: u64 = runs.iter().filter_map(|run| run.of(design)).map(|result| victims(result).2).sum();
        let attacked =
            least(runs, design, |_, result| share_of(result.tables[0].throttled, result.tables[0].offered));
        let changes = |table: usize, least_cuts: u32, least_moves: u32| {
            let least = |value: fn(&tidegate_sim::capacity::TableResult) -> u32| {
                least(runs, design, |_, result| f64::from(value(&result.tables[table])))
            };
            let (cuts, moves) = (least(|one| one.forced_cuts), least(|one| one.forced_moves));
            let is_enough = cuts >= f64::from(least_cuts) && moves >= f64::from(least_moves);
            (format!("{cuts} cuts, {moves} moves"), is_enough)
        };
        let of_attacker = changes(0, ATTACKER_CHANGES, ATTACKER_CHANGES);
        let of_victims = changes(VICTIM, 0, VICTIM_MOVES);
        [
            line(
                design,
                &format!("refusals of victims by partition or node, of {offered} requests"),
                format!("{refused}"),
                "exactly 0",
                refused <= 0.0,
            ),
            at_most(design, "victims refused because their partition moves", Figure::percent(gated, 4), 0.1),
            at_least(design, "the attacker is throttled", Figure::percent(attacked, 1), 50.0),
            line(
                design,
                "forced changes of the attacker",
                of_attacker.0,
                "at least 200 of each",
                of_attacker.1,
            ),
            line(design, "forced moves of the victims", of_victims.0, "at least 20 moves", of_victims.1),
        ]
    });
    lines.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_sim::capacity::simulate;

    /// A tenth of the run, with a tenth of the changes.
    fn short(seed: u64) -> CapacityScenario {
        let steps = steps().into_iter().filter(|step| step.at < 30.0).collect();
        CapacityScenario { seconds: 30, script: Some(script_of(steps)), ..scenario(seed) }
    }

    #[test]
    fn victims_that_conform_are_never_refused_and_victims_that_do_not_are() {
        let run = simulate(&short(1)).unwrap();
        for result in &run.designs {
            assert_eq!(victims(result).0, 0, "{:?}", result.design);
            assert_eq!(result.breaches, []);
            assert!(result.tables[0].forced_cuts >= 15 && result.tables[VICTIM].forced_moves >= 1);
            assert!(victims(result).2 > 10_000);
        }
        let mut unshaped = short(1);
        unshaped.extras.get_mut(&VICTIM).unwrap().shaper = None;
        let run = simulate(&unshaped).unwrap();
        assert!(victims(run.of(Design::Adaptive).unwrap()).0 > 0);
    }
}

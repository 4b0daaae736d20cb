//! E-WRITE and E-READ: groups of three replicas.

use super::figures::{
    Figure, at_least, at_most, between, designs, least, line, none, refused_by, share_of, worst,
};
use crate::capacity::scenario_parts::{names, phase, steady, table};
use tidegate_sim::capacity::{
    CapacityRun, CapacityScenario, Demand, Design, DesignResult, NodeSpec, Pattern, RequestKind,
    RequestStream, TableExtras, TableRole, Throughput,
};
use tidegate_sim::kit::GateLine;

pub(super) const FULL_FOLLOWER: &str = "A table of one partition lies on three nodes: it is led from node-1, and \
    node-2 and node-3 follow. It has 100 units a second of writes and 400 of reads, and is asked for 300 writes and \
    600 units of eventually consistent reads a second. After a third of the run a neighbour uses all of node-3 that \
    the table's share of writes leaves. From then on writes beyond the share must be refused because of that \
    follower, writes within it must go on, and reads must be served by the other members.";

pub(super) const GROUP_READS: &str = "Two tables alike are asked for 1 200 units a second of eventually consistent \
    reads of one key; one member of a partition serves at most 300. The table \"group\" has three replicas of each \
    partition, the table \"single\" one.";

const SECONDS: u32 = 300;
/// When node-3 is full.
const FULL_FROM: u32 = 100;
/// Seconds until the neighbour has used up what its node had kept.
const SETTLED: u32 = 5;
const WRITES: u64 = 100;

/// The scenario of E-WRITE.
pub(super) fn full_follower(seed: u64) -> CapacityScenario {
    let nodes = NodeSpec::numbered(3, 1000, 0);
    let names = names(&nodes);
    let mut orders = table("orders", WRITES, 1, &names, steady(1000, 1, 300.0, Pattern::Uniform));
    (orders.replicas, orders.is_write, orders.ceiling) = (3, true, 1000);
    let filling =
        vec![phase(0.0, 0.0, Pattern::Uniform), phase(f64::from(FULL_FROM), 1500.0, Pattern::Uniform)];
    let filling = Demand { keys: 100, units: 1, phases: filling };
    let mut neighbour = table("neighbour", 999 - WRITES, 1, &names[2..], filling);
    (neighbour.role, neighbour.ceiling) = (TableRole::Neighbour, 1000);
    let tables = vec![orders, neighbour];
    let mut scenario = CapacityScenario::from_tables(seed, SECONDS, vec![Design::Burst], nodes, tables);
    let reads = steady(1000, 1, 600.0, Pattern::Uniform);
    scenario.extras.insert(
        0,
        TableExtras {
            other: Some(Throughput { units_per_second: 400, ceiling: 3000 }),
            streams: vec![RequestStream::new(RequestKind::EventualRead, reads)],
            ..TableExtras::default()
        },
    );
    scenario.onset = FULL_FROM;
    scenario
}

/// Admitted requests a second of the writes from a second on until another one.
fn writes_a_second(result: &DesignResult, from: u32, until: u32) -> f64 {
    let writes = result.stream("orders", RequestKind::Write).expect("the scenario has them");
    let (offered, throttled) = between(&writes.seconds, from, until);
    let admitted = (offered - throttled) as f64;
    admitted / f64::from(until - from)
}

/// The lines of E-WRITE.
pub(super) fn judge_full_follower(runs: &[&CapacityRun]) -> Vec<GateLine> {
    let from = FULL_FROM + SETTLED;
    let lines = designs(runs).flat_map(|design| {
        let before = least(runs, design, |_, result| writes_a_second(result, 0, FULL_FROM));
        let least_writes = least(runs, design, |_, result| writes_a_second(result, from, SECONDS));
        let most_writes = worst(runs, design, |_, result| writes_a_second(result, from, SECONDS));
        let other_refusals = worst(runs, design, |_, result| {
            let writes = result.stream("orders", RequestKind::Write).expect("the scenario has them");
            (writes.throttled - refused_by(writes, &["replica node"])) as f64
        });
        let reads_refused = worst(runs, design, |_, result| {
            let reads = result.stream("orders", RequestKind::EventualRead).expect("the scenario has them");
            share_of(reads.throttled, reads.offered)
        });
        let reads_there = worst(runs, design, |_, result| {
            let reads = result.stream("orders", RequestKind::EventualRead).expect("the scenario has them");
            let all: f64 = reads.at_nodes.iter().map(|one| one.units).sum();
            // Of a third of the run, in which all members had room.
            let there = reads.at_nodes.iter().filter(|one| one.node == "node-3");
            there.map(|one| one.units).sum::<f64>() / all
        });
        let over = worst(runs, design, |_, result| result.breaches_total() as f64);
        let writes = WRITES as f64;
        [
            line(
                design,
                "writes a second before the follower is full",
                format!("{before:.1}"),
                "at least 290: bursts are admitted",
                before >= 290.0,
            ),
            line(
                design,
                "writes a second while the follower is full",
                format!("{least_writes:.2} to {most_writes:.2}"),
                "100 give or take 0.5 %: the share, and no burst",
                (least_writes / writes - 1.0).abs() <= 0.005 && (most_writes / writes - 1.0).abs() <= 0.005,
            ),
            none(design, "writes refused by another bucket than that of a replica's node", other_refusals),
            line(
                design,
                "reads refused",
                format!("{:.3} %", reads_refused * 100.0),
                "0: other members serve them",
                reads_refused <= 0.0,
            ),
            at_most(
                design,
                "units of reads that the full node served, most of them before it was full",
                Figure::percent(reads_there, 1),
                15.0,
            ),
            none(design, "breaches, over-admission on a node (I5, I7) among them", over),
        ]
    });
    lines.collect()
}

/// The scenario of E-READ.
pub(super) fn group_reads(seed: u64) -> CapacityScenario {
    let nodes = NodeSpec::numbered(6, 2000, 0);
    let names = names(&nodes);
    let demand = || steady(1000, 1, 1200.0, Pattern::OneKey { percent: 100 });
    let mut group = table("group", 1200, 4, &names[..3], demand());
    group.replicas = 3;
    let mut single = table("single", 1200, 4, &names[3..], demand());
    (group.ceiling, single.ceiling) = (300, 300);
    let designs = vec![Design::Burst, Design::Global];
    let mut scenario = CapacityScenario::from_tables(seed, 60, designs, nodes, vec![group, single]);
    for table in 0..2 {
        let kind = Some(RequestKind::EventualRead);
        scenario.extras.insert(table, TableExtras { kind, ..TableExtras::default() });
    }
    scenario
}

/// The throughput of the group in terms of that of the single replica.
fn ratio(result: &DesignResult) -> f64 {
    let units = |table: &str| {
        result.streams.iter().filter(|one| one.table == table).map(|one| one.units_admitted).sum::<f64>()
    };
    units("group") / units("single")
}

/// The lines of E-READ.
pub(super) fn judge_group_reads(runs: &[&CapacityRun]) -> Vec<GateLine> {
    let of = |design| {
        let ratio = least(runs, design, |_, result| ratio(result));
        let what = "throughput of three replicas, in terms of one";
        at_least(design, what, Figure::new(ratio, 2, ""), 2.7)
    };
    designs(runs).map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_sim::capacity::simulate;

    #[test]
    fn a_group_serves_eventual_reads_three_times_and_consistent_ones_once() {
        let run = simulate(&group_reads(1)).unwrap();
        assert!(run.designs.iter().all(|result| ratio(result) > 2.7 && result.breaches_total() == 0));
        let mut consistent = group_reads(1);
        for extras in consistent.extras.values_mut() {
            extras.kind = Some(RequestKind::StrongRead);
        }
        let run = simulate(&consistent).unwrap();
        assert!(run.designs.iter().all(|result| ratio(result) < 1.1));
    }

    #[test]
    fn burst_writes_need_room_at_every_follower_and_allocated_ones_do_not() {
        let run = simulate(&full_follower(2)).unwrap();
        let lines = judge_full_follower(&[&run]);
        for line in lines {
            assert_eq!(line.outcome, tidegate_sim::capacity::GateOutcome::Pass, "{line:?}");
        }
    }
}

//! Every checker has teeth: it finds a plane that does wrong, and nothing in one that does not.

use tidegate_capacity::{
    Access, Admission, Capacity, Ceilings, KeyRange, NodeConfig, PartitionId, Position, SplitShares,
    TableConfig, Throttled, Units, key_hash,
};
use tidegate_core::Timestamp;

use super::Invariant::{CeilingBound, NodeBound, PartitionBound, TableBound};
use super::*;
use crate::capacity::design::Design;
use crate::capacity::{Demand, NodeSpec, Pattern, Phase, TableSpec};
use crate::kit::{Chance, SECOND, WORLD_BEGIN};

const NODES: [&str; 4] = ["a", "b", "c", "d"];

/// A table of 400 units a second in 4 partitions with a ceiling of 300, in groups of `replicas` on
/// 4 nodes of 400.
fn scenario(replicas: u8, is_write: bool) -> CapacityScenario {
    let mut scenario = CapacityScenario::of_workload(crate::capacity::Workload::Uniform, 1, 10, 1);
    let node = |name: &str| NodeSpec { name: name.to_owned(), units_per_second: 400, reserve_percent: 10 };
    scenario.nodes = NODES.map(node).to_vec();
    let phases = vec![Phase { from: 0.0, units_per_second: 1.0, pattern: Pattern::Uniform }];
    scenario.tables = vec![TableSpec {
        name: "orders".to_owned(),
        units_per_second: 400,
        ceiling: 300,
        partitions: 4,
        nodes: NODES.map(str::to_owned).to_vec(),
        replicas,
        is_ordered: false,
        is_write,
        shares_top_keys: false,
        role: crate::capacity::TableRole::Compared,
        demand: Demand { keys: 100, units: 1, phases },
    }];
    scenario
}

fn records() -> Vec<PartitionRecord> {
    let record = |index: u32| PartitionRecord {
        id: PartitionId(index),
        range: KeyRange::of_partition(index, 4).unwrap(),
        leader: index as usize,
        base: 100_000,
        rate: 100_000,
        ceiling: 300_000,
        allocation: 100_000,
        burst: 30_000_000,
        admitted: 0,
        offered: 0,
        throttled: 0,
    };
    (0..4).map(record).collect()
}

fn judge_of(scenario: &CapacityScenario, design: Design) -> Judge {
    Judge::new(scenario, |_| design.mode(), &[records()])
}

fn admitted(at: u64, partition: u32) -> DecisionEvent<'static> {
    DecisionEvent {
        at,
        table: 0,
        position: KeyRange::of_partition(partition, 4).unwrap().first,
        cost: 1000,
        answer: DecisionAnswer::Admitted { partition: PartitionId(partition), billed: 1000 },
    }
}

/// The invariants that a plane breaches that admits a thousand units at once to one partition, and
/// a hundred more in the second after.
fn breached_by_admitting_everything(scenario: &CapacityScenario, design: Design) -> Vec<Invariant> {
    let mut judge = judge_of(scenario, design);
    for request in 0..1100_u64 {
        judge.decide(&admitted(SECOND + request.saturating_sub(1000) * SECOND / 100, 1));
    }
    judge.counts().keys().copied().collect()
}

#[test]
fn a_plane_that_admits_everything_breaches_the_bounds_of_its_design() {
    let reads = scenario(1, false);
    let of = |design| breached_by_admitting_everything(&reads, design);
    // 1 000 units are more than the 400 that all partitions hold, and than the 100 of the one.
    assert_eq!(of(Design::Static), [TableBound, PartitionBound, CeilingBound]);
    // They are within the burst credit, but not within the node or the ceiling.
    assert_eq!(of(Design::Burst), [CeilingBound, NodeBound]);
    // The tokens of the table are at least as deep as the largest request: 800 units.
    assert_eq!(of(Design::Global), [TableBound, CeilingBound, NodeBound]);
}

#[test]
fn a_burst_write_without_room_at_a_follower_is_found() {
    let writes = scenario(3, true);
    let mut judge = judge_of(&writes, Design::Burst);
    // The allocations of partitions 2 and 3 fill their nodes, which are followers of partition 1.
    for request in 0..200 {
        judge.decide(&admitted(SECOND, 2 + request % 2));
    }
    assert!(judge.counts().keys().all(|one| *one != Invariant::WriteMembers), "{:?}", judge.breaches());
    for _ in 0..101 {
        judge.decide(&admitted(SECOND, 1));
    }
    assert_eq!(judge.counts()[&Invariant::WriteMembers], 1, "{:?}", judge.breaches());
}

#[test]
fn a_decision_by_another_partition_than_the_owner_is_found() {
    let reads = scenario(1, false);
    let mut judge = judge_of(&reads, Design::Static);
    judge.decide(&admitted(SECOND, 1));
    assert!(judge.counts().is_empty());
    let stray = DecisionEvent { position: Position::of_hash(u64::MAX), ..admitted(SECOND, 1) };
    judge.decide(&stray);
    judge.decide(&DecisionEvent {
        answer: DecisionAnswer::Admitted { partition: PartitionId(77), billed: 1000 },
        ..stray
    });
    assert_eq!(judge.counts()[&Invariant::Tiling], 2);
}

/// The invariants that are breached when two partitions that `change` makes replace the last one.
fn found_after_split(change: impl Fn(&mut [PartitionRecord])) -> Vec<Invariant> {
    let reads = scenario(1, false);
    let mut judge = judge_of(&reads, Design::Burst);
    let mut shape = records();
    let whole = shape.pop().unwrap();
    let middle = Position::of_hash(0xe000_0000_0000_0000);
    let half = |id, range| PartitionRecord {
        id: PartitionId(id),
        range,
        base: whole.base / 2,
        rate: whole.rate / 2,
        allocation: whole.allocation / 2,
        burst: whole.burst / 2,
        ..whole.clone()
    };
    shape.push(half(4, KeyRange { end: Some(middle), ..whole.range }));
    shape.push(half(5, KeyRange { first: middle, ..whole.range }));
    change(&mut shape);
    judge.look(0, &shape, SECOND);
    judge.counts().keys().copied().collect()
}

#[test]
fn a_split_that_keeps_everything_passes_and_any_that_does_not_is_found() {
    assert_eq!(found_after_split(|_| {}), []);
    // Two balances: both parts keep all of the burst credit.
    assert_eq!(found_after_split(|shape| shape[4].burst *= 2), [Invariant::Tiling]);
    assert_eq!(found_after_split(|shape| shape[3].allocation -= 1000), [Invariant::Tiling]);
    assert_eq!(found_after_split(|shape| shape[3].base += 1), [Invariant::Tiling]);
    assert_eq!(found_after_split(|shape| shape[4].rate += 1), [Invariant::Tiling]);
    // A gap between the parts.
    let gap = |shape: &mut [PartitionRecord]| shape[4].range.first = Position::of_hash(u64::MAX);
    assert_eq!(found_after_split(gap), [Invariant::Tiling]);
    // Ceilings that are cut with the partition.
    assert_eq!(found_after_split(|shape| shape[4].ceiling /= 2), [Invariant::KeyCeiling]);
}

#[test]
fn a_wrong_bill_is_found() {
    let reads = scenario(1, false);
    let mut judge = judge_of(&reads, Design::Static);
    let answer = DecisionAnswer::Admitted { partition: PartitionId(1), billed: 500 };
    judge.decide(&DecisionEvent { answer, ..admitted(SECOND, 1) });
    assert_eq!(judge.counts()[&Invariant::Billing], 1);
    let mut shape = records();
    shape[1].admitted = 1000;
    judge.look(0, &shape, SECOND);
    assert_eq!(judge.counts()[&Invariant::Billing], 1);
    shape[1].admitted = 999;
    judge.look(0, &shape, SECOND);
    assert_eq!(judge.counts()[&Invariant::Billing], 2);
}

/// The plane of a scenario, whose node bucket leaves a tenth.
fn plane(scenario: &CapacityScenario, design: Design) -> Capacity {
    let spec = &scenario.tables[0];
    let mut builder = Capacity::builder();
    for node in &scenario.nodes {
        builder = builder.node_config(NodeConfig::new(node.name.as_str(), node.units_per_second));
    }
    let (read, write) = if spec.is_write { (1, 400) } else { (400, 1) };
    let table = TableConfig::new("sim", "orders", read, write)
        .partitions(4)
        .nodes(NODES)
        .replicas(spec.replicas)
        .ceilings(Ceilings { read: 300, write: 300 })
        .mode(design.mode());
    builder.table(table).build().unwrap()
}

fn shape_of(capacity: &Capacity, is_write: bool, at: u64) -> Vec<PartitionRecord> {
    let now = Timestamp::from_nanos(WORLD_BEGIN + at);
    let statuses = capacity.partitions("sim", "orders", now).unwrap();
    statuses
        .map(|status| {
            let leader = NODES.iter().position(|node| *node == status.node).unwrap();
            PartitionRecord::of(&status, is_write, leader)
        })
        .collect()
}

/// The first refusal of a plane that is asked for one key at once, as `change` makes it; judged by
/// a judge that has seen the requests before it if `has_seen`.
fn found_in_refusal(design: Design, has_seen: bool, change: impl Fn(&mut Throttled<'_>)) -> u64 {
    let reads = scenario(1, false);
    let (plane, mut judge) = (plane(&reads, design), judge_of(&reads, design));
    let key = b"key";
    let kind =
        tidegate_capacity::AccessKind::Read { consistency: tidegate_capacity::ReadConsistency::Strong };
    let access = Access::new("orders", key, kind, 1);
    let position = Position::of_hash(key_hash(key));
    for _ in 0..1000 {
        let event = |answer| DecisionEvent { at: SECOND, table: 0, position, cost: 1000, answer };
        match plane.admit("sim", &access, Timestamp::from_nanos(WORLD_BEGIN + SECOND)).unwrap() {
            Admission::Admit(hold) if has_seen => {
                judge.decide(&event(DecisionAnswer::Admitted { partition: hold.partition(), billed: 1000 }));
            }
            Admission::Admit(_) => {}
            Admission::Throttle(mut throttled) => {
                change(&mut throttled);
                judge.decide(&event(DecisionAnswer::Refused(&throttled)));
                return judge.counts().values().sum();
            }
        }
    }
    panic!("a thousand units at once are refused by every design");
}

#[test]
fn a_refusal_without_evidence_is_found_and_one_with_it_is_not() {
    for design in [Design::Static, Design::Burst, Design::Global] {
        assert_eq!(found_in_refusal(design, true, |_| {}), 0, "{design:?}");
        // By the trace nothing was charged.
        assert_eq!(found_in_refusal(design, false, |_| {}), 1, "{design:?}");
        assert_eq!(
            found_in_refusal(design, true, |refusal| refusal.level = Units::whole(70)),
            1,
            "{design:?}"
        );
        assert_eq!(
            found_in_refusal(design, true, |refusal| refusal.level = Units::whole(0) - Units::whole(9)),
            1
        );
        // Another bucket is named than the one that is short.
        let other = |refusal: &mut Throttled<'_>| refusal.bound = tidegate_capacity::Bound::Ceiling;
        assert_eq!(found_in_refusal(design, true, other), 1, "{design:?}");
    }
}

/// Requests, cuts, joins, moves and boosts in turn, every event judged.
fn nothing_is_found(design: Design, replicas: u8, is_write: bool, seed: u64) {
    let small = scenario(replicas, is_write);
    let (plane, mut judge) = (plane(&small, design), judge_of(&small, design));
    let mut chance = Chance::new(seed, 9);
    let mut at = SECOND;
    let mut changes = 0;
    for step in 0..20_000 {
        at += chance.below(SECOND / 400);
        let now = Timestamp::from_nanos(WORLD_BEGIN + at);
        if step % 50 == 0 {
            let shape = shape_of(&plane, is_write, at);
            let of = |index: u64| &shape[index as usize];
            let one = of(chance.below(shape.len() as u64));
            let is_done = match chance.below(4) {
                0 if shape.len() < 64 => {
                    let (first, last) = one.range.words();
                    let middle = Position::of_hash(first + (last - first) / 2 + 1);
                    plane.split("sim", "orders", one.id, middle, SplitShares::HALF, now).is_ok()
                }
                1 => plane.merge("sim", "orders", one.id, now).is_ok(),
                2 => {
                    let to = chance.one_of(&NODES);
                    plane.move_replica("sim", "orders", one.id, NODES[one.leader], to, now).is_ok()
                }
                _ => {
                    let operation = tidegate_capacity::AccessKind::Write.operation();
                    let operation = if is_write { operation } else { tidegate_core::AccessOperation::Read };
                    let rate = Units::from_thousandths(one.base + chance.below(20_000).cast_signed());
                    plane.allocate("sim", "orders", one.id, operation, rate, now).is_ok()
                }
            };
            changes += u32::from(is_done);
            judge.look(0, &shape_of(&plane, is_write, at), at);
        }
        // Half of the requests ask for one key.
        let key = if chance.below(2) == 0 { 0 } else { chance.below(1000) };
        let key = key.to_be_bytes();
        let access = if is_write {
            Access::write("orders", &key, 1)
        } else {
            let consistency = tidegate_capacity::ReadConsistency::Strong;
            Access::new("orders", &key, tidegate_capacity::AccessKind::Read { consistency }, 1)
        };
        let position = Position::of_hash(key_hash(&key));
        let event = |answer| DecisionEvent { at, table: 0, position, cost: 1000, answer };
        match plane.admit("sim", &access, now).unwrap() {
            Admission::Admit(hold) => {
                judge.decide(&event(DecisionAnswer::Admitted { partition: hold.partition(), billed: 1000 }));
            }
            Admission::Throttle(throttled) => judge.decide(&event(DecisionAnswer::Refused(&throttled))),
        }
    }
    assert!(judge.counts().is_empty(), "{design:?} seed {seed}: {:#?}", judge.breaches());
    assert!(changes > 100, "{changes}");
}

#[test]
fn nothing_is_found_in_a_plane_whose_reads_go_on_while_partitions_change() {
    for seed in 0..5 {
        for design in [Design::Static, Design::Burst, Design::Global] {
            nothing_is_found(design, 1, false, seed);
        }
    }
}

#[test]
fn nothing_is_found_in_a_plane_whose_groups_take_writes_while_partitions_change() {
    for seed in 0..5 {
        for design in [Design::Static, Design::Burst, Design::Global] {
            nothing_is_found(design, 3, true, seed);
        }
    }
}

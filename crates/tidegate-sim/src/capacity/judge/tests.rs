//! The judge finds a plane that does wrong, and nothing in one that does not.

use crate::invariants::trace::TracedAccess;
use tidegate_capacity::{
    Access, AccessOperation, Admission, Ceilings, KeyRange, NodeConfig, PartitionId, Position, SplitShares,
    TableConfig, Throttled, key_hash,
};

use super::Invariant::{CeilingBound, NodeBound, PartitionBound, TableBound};
use super::*;
use crate::capacity::design::Design;
use crate::capacity::{Demand, NodeSpec, TableSpec};
use crate::kit::Chance;

const NODES: [&str; 4] = ["a", "b", "c", "d"];

/// A table with 400 units a second in 4 partitions with a ceiling of 300, in groups of `replicas`
/// on 4 nodes of 400.
fn scenario(replicas: u8, is_write: bool) -> CapacityScenario {
    let node = |name: &str| NodeSpec { name: name.to_owned(), units_per_second: 400, reserve_percent: 10 };
    let nodes = NODES.map(node).to_vec();
    let phases = vec![Phase { from: 0.0, units_per_second: 1.0, pattern: Pattern::Uniform }];
    let tables = vec![TableSpec {
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
    CapacityScenario::from_tables(1, 10, Design::ALL.to_vec(), nodes, tables)
}

/// The plane of a scenario.
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

fn request(at: u64, position: Position, is_write: bool) -> CheckedRequest {
    let operation = if is_write { AccessOperation::Write } else { AccessOperation::Read };
    CheckedRequest { at, stream: 0, table: 0, operation, position, cost: 1000 }
}

/// Shows the checkers a unit that a partition has admitted, whatever a plane would have done.
fn admit(judge: &mut Judge, at: u64, partition: u32, billed: i64) {
    let position = KeyRange::from_partition(partition, 4).unwrap().first;
    let access: TracedAccess = request(at, position, false).traced();
    let (partition, billed) = (PartitionId(partition), Units::from_thousandths(billed));
    let _ = judge.checker.admit(&TracedAdmission { access, partition, member: 0, billed });
}

#[test]
fn a_breach_names_its_table_instant_and_seed() {
    let reads = scenario(1, false);
    let mut judge = Judge::new(&reads, &plane(&reads, Design::Static));
    admit(&mut judge, SECOND, 1, 500);
    assert_eq!(judge.counts(), BTreeMap::from([(Invariant::Billing, 1)]));
    let breach = &judge.breaches()[0];
    assert_eq!((breach.seed, breach.at_ms, breach.table.as_str()), (1, 1000, "orders"));
    assert_eq!(breach.what, "a request of 1 units was billed 0.5");
}

#[test]
fn a_plane_that_admits_everything_breaches_the_bounds_of_its_design() {
    let reads = scenario(1, false);
    // A thousand units at once to one partition, and a hundred more in the second after.
    let of = |design| {
        let mut judge = Judge::new(&reads, &plane(&reads, design));
        for request in 0..1100_u64 {
            let at = SECOND + request.saturating_sub(1000) * SECOND / 100;
            admit(&mut judge, at, 1, 1000);
        }
        judge.counts().into_keys().collect::<Vec<_>>()
    };
    // 1 000 units are more than the 400 that all partitions hold, and than the 100 of the one.
    assert_eq!(of(Design::Static), [TableBound, PartitionBound, CeilingBound]);
    // They are within the burst credit, but not within the node or the ceiling.
    assert_eq!(of(Design::Burst), [CeilingBound, NodeBound]);
    // The tokens of the table are at least as deep as the largest request: 800 units.
    assert_eq!(of(Design::Global), [TableBound, CeilingBound, NodeBound]);
}

/// The first refusal of a plane that is asked for one key at once, as `change` makes it; judged by
/// a judge that has seen the requests before it if `has_seen`.
fn found_in_refusal(design: Design, has_seen: bool, change: impl Fn(&mut Throttled<'_>)) -> u64 {
    let reads = scenario(1, false);
    let plane = plane(&reads, design);
    let mut judge = Judge::new(&reads, &plane);
    let key = b"key";
    let kind =
        tidegate_capacity::AccessKind::Read { consistency: tidegate_capacity::ReadConsistency::Strong };
    let access = Access::new("orders", key, kind, 1);
    let position = Position::from_hash(key_hash(key));
    let request = request(SECOND, position, false);
    for _ in 0..1000 {
        match plane.admit("sim", &access, instant(SECOND)).unwrap() {
            Admission::Admit(hold) if has_seen => judge.admit(&request, &hold),
            Admission::Admit(_) => {}
            Admission::Throttle(mut throttled) => {
                change(&mut throttled);
                judge.refuse(&request, &throttled);
                return judge.counts().get(&Invariant::RefusalEvidence).copied().unwrap_or(0);
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
        let levels = [Units::whole(70), Units::whole(0) - Units::whole(9)];
        for level in levels {
            let changed = |refusal: &mut Throttled<'_>| refusal.level = level;
            assert_eq!(found_in_refusal(design, true, changed), 1, "{design:?}");
        }
        // Another bucket is named than the one that is short.
        let other = |refusal: &mut Throttled<'_>| refusal.bound = tidegate_capacity::Bound::Ceiling;
        assert_eq!(found_in_refusal(design, true, other), 1, "{design:?}");
    }
}

/// Requests, cuts, moves and boosts in turn, every event judged.
fn nothing_is_found(design: Design, replicas: u8, is_write: bool, seed: u64) {
    let small = scenario(replicas, is_write);
    let plane = plane(&small, design);
    let mut judge = Judge::new(&small, &plane);
    let mut chance = Chance::new(seed, 9);
    let mut at = SECOND;
    let mut changes = 0;
    for step in 0..20_000 {
        at += chance.below(SECOND / 400);
        let now = instant(at);
        if step % 50 == 0 {
            let shape: Vec<_> = plane.partitions("sim", "orders", now).unwrap().collect();
            let one = &shape[chance.below(shape.len() as u64) as usize];
            let is_done = match chance.below(3) {
                0 if shape.len() < 64 => {
                    let (first, last) = one.range.words();
                    let middle = Position::from_hash(first + (last - first) / 2 + 1);
                    plane.split("sim", "orders", one.id, middle, SplitShares::HALF, now).is_ok()
                }
                1 => {
                    let to = chance.one_of(&NODES);
                    plane.move_replica("sim", "orders", one.id, one.node, to, now).is_ok()
                }
                _ => {
                    let (base, operation) = if is_write {
                        (one.write.base, AccessOperation::Write)
                    } else {
                        (one.read.base, AccessOperation::Read)
                    };
                    let rate = base + Units::from_thousandths(chance.below(20_000).cast_signed());
                    plane.allocate("sim", "orders", one.id, operation, rate, now).is_ok()
                }
            };
            changes += u32::from(is_done);
            judge.look(0, &plane, at);
            judge.look_at_nodes(&plane, at);
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
        let position = Position::from_hash(key_hash(&key));
        let request = request(at, position, is_write);
        match plane.admit("sim", &access, now).unwrap() {
            Admission::Admit(hold) => judge.admit(&request, &hold),
            Admission::Throttle(throttled) => judge.refuse(&request, &throttled),
        }
    }
    assert_eq!(judge.breaches(), [], "{design:?} seed {seed}");
    assert!(changes > 50, "{changes}");
}

#[test]
fn nothing_is_found_in_planes_whose_partitions_change_under_load() {
    for seed in 0..5 {
        for design in [Design::Static, Design::Burst, Design::Global] {
            nothing_is_found(design, 1, false, seed);
            nothing_is_found(design, 3, true, seed);
        }
    }
}

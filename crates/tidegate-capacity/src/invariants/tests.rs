use core::time::Duration;

use super::AdmissionPath::{Allocated, Burst, Spare};
use super::*;
use crate::access::{Access, AccessKind, ReadConsistency};
use crate::capacity::{Admission, Capacity};
use crate::key_range::KeyRange;
use crate::position::{PartitionBy, Position};
use crate::reshape::SplitShares;
use crate::table_config::{Ceilings, TableConfig, TableMode};

const SHOP: &str = "shop";
const NODES: [&str; 3] = ["a", "b", "c"];

/// Numbers that a seed determines (`SplitMix64`).
struct Draws(u64);

impl Draws {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }
}

/// Three tables on three nodes under load, with every answer and change checked.
fn run(seed: u64, steps: usize) {
    let mut draws = Draws(seed);
    let mut now = Timestamp::from_secs(1_795_210_800);
    let table = |name: &str, mode, replicas| {
        TableConfig::new(SHOP, name, 300, 200)
            .mode(mode)
            .partitions(2)
            .replicas(replicas)
            .ceilings(Ceilings { read: 600, write: 500 })
            .nodes(NODES)
    };
    let tables = ["static", "burst", "global"];
    let builder = NODES.iter().fold(Capacity::builder(), |builder, node| builder.node(*node, 1500));
    let capacity = builder
        .table(table(tables[0], TableMode::Static, 1))
        .table(table(tables[1], TableMode::Burst, 3))
        .table(table(tables[2], TableMode::Global, 2))
        .build_at(now)
        .unwrap();
    let mut checker = InvariantChecker::default();
    let mut check = |event: &TraceEvent| {
        if let Err(violation) = checker.check(event) {
            panic!("I{} in seed {seed}: {}", violation.invariant, violation.text);
        }
    };
    for node in capacity.nodes(now) {
        let (name, units, promisable) = (node.name.to_owned(), node.rate, node.promisable);
        check(&TraceEvent::Node { name, units, promisable });
    }
    (0..tables.len()).for_each(|table| check(&capacity.partitions_event(table, now)));
    let mut holds = Vec::new();
    // Idle at first, so that there is burst credit.
    now = now.saturating_add(Duration::from_secs(20));
    for _ in 0..steps {
        let table = draws.below(3) as usize;
        let name = tables[table];
        match draws.below(40) {
            0 => {
                let ids: Vec<_> = capacity.partitions(SHOP, name, now).unwrap().map(|one| one.id).collect();
                let id = ids[draws.below(ids.len() as u64) as usize];
                let at = Position::of_hash(draws.below(u64::MAX));
                if ids.len() < 6 && capacity.split(SHOP, name, id, at, SplitShares::HALF, now).is_ok() {
                    check(&capacity.partitions_event(table, now));
                }
            }
            1 => {
                let ids: Vec<_> = capacity.partitions(SHOP, name, now).unwrap().map(|one| one.id).collect();
                let id = ids[draws.below(ids.len() as u64) as usize];
                if capacity.place(SHOP, name, id.0, NODES[draws.below(3) as usize], now).is_ok() {
                    check(&capacity.partitions_event(table, now));
                }
            }
            2 => now = now.saturating_add(Duration::from_millis(draws.below(500))),
            3..=5 if !holds.is_empty() => {
                let hold: crate::hold::UnitsHold =
                    holds.swap_remove(draws.below(holds.len() as u64) as usize);
                // The table and the node that did the work are checked as if the units had not been
                // taken at all.
                check(&capacity.returned_event(&hold, hold.units(), now));
                capacity.give_back(hold, now);
            }
            _ => {
                let key = draws.below(200).to_string();
                let kind = if draws.below(2) == 0 {
                    AccessKind::Write
                } else {
                    AccessKind::Read { consistency: ReadConsistency::Strong }
                };
                let access = Access::new(name, key.as_bytes(), kind, draws.below(20 << 10));
                now = now.saturating_add(Duration::from_micros(draws.below(1000)));
                match capacity.admit(SHOP, &access, now).unwrap() {
                    Admission::Admit(hold) => {
                        check(&capacity.admitted_event(&hold));
                        holds.push(hold);
                    }
                    Admission::Throttle(throttled) => {
                        check(&Capacity::refused_event(table, &throttled, now));
                    }
                }
            }
        }
    }
}

#[test]
pub(crate) fn no_invariant_breaks_in_a_hundred_runs() {
    (0..100).for_each(|seed| run(seed, 1500));
}

fn partition(id: u32, first: u64, end: Option<u64>) -> TracedPartition {
    TracedPartition {
        id: PartitionId(id),
        made_at: None,
        range: KeyRange {
            by: PartitionBy::Hash,
            first: Position::of_hash(first),
            end: end.map(Position::of_hash),
        },
        rates: [[Units::whole(10), Units::whole(10), Units::whole(30)]; 2],
        burst_seconds: 0,
        nodes: vec!["a".to_owned()],
    }
}

fn at(seconds: u64) -> Timestamp {
    Timestamp::from_secs(1_000_000 + seconds)
}

/// The number of the invariant that the last of these events breaks.
fn broken(events: &[TraceEvent]) -> Option<u8> {
    let mut checker = InvariantChecker::default();
    let node =
        TraceEvent::Node { name: "a".to_owned(), units: Units::whole(100), promisable: Units::whole(90) };
    checker.check(&node).unwrap();
    let (last, first) = events.split_last().unwrap();
    for event in first {
        checker.check(event).unwrap();
    }
    checker.check(last).err().map(|violation| violation.invariant)
}

fn layout(at: Timestamp, partitions: Vec<TracedPartition>) -> TraceEvent {
    TraceEvent::Partitions { at, table: 0, partitions }
}

fn admitted(seconds: u64, units: u64, path: AdmissionPath) -> TraceEvent {
    TraceEvent::Admitted {
        at: at(seconds),
        place: (0, PartitionId(0)),
        operation: AccessOperation::Write,
        units: Units::whole(units),
        path,
        member: 0,
        nodes: vec!["a".to_owned()],
    }
}

#[test]
fn each_invariant_is_broken_by_the_trace_that_breaks_it() {
    let whole = || layout(at(0), vec![partition(0, 0, None)]);
    let refused = |bound, level| TraceEvent::Refused {
        at: at(9),
        place: (0, PartitionId(0)),
        operation: AccessOperation::Write,
        units: Units::whole(1),
        bound,
        level,
    };
    // Ten of the allocation and one large request; ten more after a second.
    assert_eq!(broken(&[whole(), admitted(0, 800, Allocated), admitted(1, 20, Allocated)]), None);
    assert_eq!(broken(&[whole(), admitted(0, 800, Allocated), admitted(1, 21, Allocated)]), Some(2));
    // The ceiling bounds what neither allocation nor burst do.
    assert_eq!(broken(&[whole(), admitted(0, 10, Spare), admitted(0, 1, Burst)]), Some(5));
    assert_eq!(broken(&[whole(), admitted(0, 10, Allocated), admitted(0, 1, Burst)]), Some(5));
    assert_eq!(broken(&[whole(), admitted(0, 10, Burst)]), None);
    let mut ceiling = partition(0, 0, None);
    ceiling.rates[1][2] = Units::whole(1);
    ceiling.rates[1][1] = Units::whole(50);
    let lower = || layout(at(0), vec![ceiling.clone()]);
    assert_eq!(broken(&[lower(), admitted(0, 801, Allocated), admitted(0, 1, Allocated)]), Some(3));
    // A second member without room.
    let mut group = admitted(0, 11, Burst);
    if let TraceEvent::Admitted { nodes, .. } = &mut group {
        *nodes = vec!["elsewhere".to_owned(), "a".to_owned()];
    }
    assert_eq!(broken(&[whole(), group]), Some(7));
    // A conforming partition is refused by its node, or by an allocation that is not empty.
    assert_eq!(broken(&[whole(), refused(Bound::Node, Units::ZERO)]), Some(4));
    assert_eq!(broken(&[whole(), refused(Bound::Allocation, Units::whole(1))]), Some(14));
    assert_eq!(broken(&[whole(), refused(Bound::Table, Units::whole(1))]), Some(14));
    assert_eq!(broken(&[whole(), refused(Bound::Table, Units::ZERO)]), None);
    // Ranges that do not tile, a number used twice, and a promise that the node may not make.
    let halves = |ids: [u32; 2], cut: u64| vec![partition(ids[0], 0, Some(cut)), partition(ids[1], 5, None)];
    assert_eq!(broken(&[whole(), layout(at(1), halves([1, 2], 5))]), None);
    assert_eq!(broken(&[whole(), layout(at(1), halves([1, 2], 4))]), Some(10));
    assert_eq!(
        broken(&[whole(), layout(at(1), halves([1, 2], 5)), layout(at(2), vec![partition(0, 0, None)])]),
        Some(10)
    );
    let many = (0..5).map(|id| partition(id, u64::from(id), (id < 4).then(|| u64::from(id) + 1)));
    assert_eq!(broken(&[layout(at(0), many.collect())]), Some(6));
    // A ceiling that falls by a cut, and a merge right after one.
    let mut lowered = halves([1, 2], 5);
    lowered[1].rates[0][2] = Units::whole(29);
    assert_eq!(broken(&[whole(), layout(at(1), lowered)]), Some(11));
    let made = |seconds| {
        let mut halves = halves([1, 2], 5);
        halves[0].made_at = Some(at(seconds));
        layout(at(seconds), halves)
    };
    assert_eq!(broken(&[whole(), made(1), layout(at(600), vec![partition(3, 0, None)])]), Some(12));
    assert_eq!(broken(&[whole(), made(1), layout(at(601), vec![partition(3, 0, None)])]), None);
}

#[test]
fn billed_units_are_those_admitted_and_not_returned() {
    let mut checker = InvariantChecker::default();
    checker.check(&layout(at(0), vec![partition(0, 0, None)])).unwrap();
    checker.check(&admitted(0, 7, AdmissionPath::Allocated)).unwrap();
    let returned = TraceEvent::Returned {
        at: at(1),
        place: (0, PartitionId(0)),
        operation: AccessOperation::Write,
        units: Units::whole(2),
        nodes: Vec::new(),
        member: 0,
    };
    checker.check(&returned).unwrap();
    assert_eq!(checker.billed(0, AccessOperation::Write), Units::whole(5));
    assert_eq!(checker.billed(0, AccessOperation::Read), Units::ZERO);
}

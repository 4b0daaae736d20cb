mod conservation;
#[cfg(tidegate_planted_faults)]
mod faults;
mod groups;
mod isolation;

use core::time::Duration;

use proptest::prelude::*;
use tidegate_core::Reason;

use super::*;
use crate::access::{Access, AccessKind, ReadConsistency};
use crate::admission::settlement::Settlement;
use crate::admission::throttled::Bound;
use crate::admission::tokens::TokenTerms;
use crate::builder::CapacityBuilder;
use crate::layout::partition_id::PartitionId;
use crate::layout::position::Position;
use crate::table_config::TableConfig;

const SHOP: &str = "shop";
const START: Timestamp = Timestamp::from_nanos(1_795_210_800_123_456_789);

fn orders(partitions: u32) -> Capacity {
    let table = TableConfig::new(SHOP, "orders", 400, 100).partitions(partitions).nodes(["a", "b"]);
    Capacity::builder().node("a", 1000).node("b", 1000).table(table).build().unwrap()
}

/// A key that lies in this partition.
fn key_in(capacity: &Capacity, table: &str, partition: usize) -> Vec<u8> {
    let range = capacity.partitions(SHOP, table, START).unwrap().nth(partition).unwrap().range;
    (0..1_000_000)
        .map(|i| i.to_string().into_bytes())
        .find(|key| range.contains(Position::from_hash(key_hash(key))))
        .unwrap()
}

fn admitted(capacity: &Capacity, access: &Access<'_>, now: Timestamp) -> UnitsHold {
    match capacity.admit(SHOP, access, now).unwrap() {
        Admission::Admit(hold) => hold,
        Admission::Throttle(throttled) => panic!("{throttled:?}"),
    }
}

fn throttled<'a>(capacity: &'a Capacity, access: &Access<'_>, now: Timestamp) -> Throttled<'a> {
    match capacity.admit(SHOP, access, now).unwrap() {
        Admission::Admit(hold) => panic!("{hold:?}"),
        Admission::Throttle(throttled) => throttled,
    }
}

fn is_admitted(capacity: &Capacity, access: &Access<'_>, now: Timestamp) -> bool {
    matches!(capacity.admit(SHOP, access, now).unwrap(), Admission::Admit(_))
}

#[test]
fn ranges_tile_a_table_and_shares_add_up_to_its_throughput() {
    for partitions in [1, 3, 7, 1000] {
        let capacity = orders(partitions);
        let mut next = 0_u64;
        let (mut reads, mut writes) = (0, 0);
        for (index, partition) in capacity.partitions(SHOP, "orders", START).unwrap().enumerate() {
            let (first, last) = partition.range.words();
            assert_eq!(first, next);
            next = last.wrapping_add(1);
            reads += partition.read_rate.as_thousandths();
            writes += partition.write_rate.as_thousandths();
            assert_eq!(
                (partition.read_left, partition.write_left),
                (partition.read_rate, partition.write_rate)
            );
            assert_eq!(partition.node, ["a", "b"][index % 2]);
        }
        assert_eq!((next, reads, writes), (0, 400_000, 100_000), "{partitions}");
    }
}

#[test]
fn a_hot_partition_is_told_that_its_keys_are_hot_and_a_used_up_table_that_it_is_used_up() {
    let capacity = orders(4);
    let keys: Vec<_> = (0..4).map(|partition| key_in(&capacity, "orders", partition)).collect();
    // Partition 2 has 25 units of writing.
    for _ in 0..25 {
        admitted(&capacity, &Access::write("orders", &keys[2], 1), START);
    }
    let hot = throttled(&capacity, &Access::write("orders", &keys[2], 1), START);
    assert_eq!(hot.reason, Reason::KeyRangeThroughputExceeded);
    assert_eq!(
        (hot.table, hot.partition, hot.limit, hot.remaining),
        ("orders", PartitionId(2), Units::whole(25), Units::ZERO)
    );
    assert!(hot.range.contains(Position::from_hash(key_hash(&keys[2]))));
    for partition in [0, 1, 3] {
        for _ in 0..25 {
            admitted(&capacity, &Access::write("orders", &keys[partition], 1), START);
        }
    }
    for key in &keys {
        let all = throttled(&capacity, &Access::write("orders", key, 1), START);
        assert_eq!((all.reason, all.limit), (Reason::TableThroughputExceeded, Units::whole(100)));
    }
    // Reads have throughput of their own.
    admitted(&capacity, &Access::read("orders", &keys[2], 1), START);
}

#[test]
fn a_table_is_no_longer_used_up_as_soon_as_any_partition_has_room() {
    let capacity = orders(2);
    let keys: Vec<_> = (0..2).map(|partition| key_in(&capacity, "orders", partition)).collect();
    let large = |partition: usize| Access::write("orders", &keys[partition], 100 << 10);
    let small = |partition: usize| Access::write("orders", &keys[partition], 1);
    // Partition 0 is in debt by 50 units and 1 by 51: 0 has room first.
    let first = admitted(&capacity, &large(0), START);
    admitted(&capacity, &small(1), START);
    admitted(&capacity, &large(1), START);
    let opens = throttled(&capacity, &small(0), START).retry;
    assert_eq!(throttled(&capacity, &small(0), START).reason, Reason::TableThroughputExceeded);
    assert_eq!(throttled(&capacity, &small(1), START).reason, Reason::TableThroughputExceeded);
    assert_eq!(throttled(&capacity, &small(1), opens).reason, Reason::KeyRangeThroughputExceeded);
    // Or when units come back.
    capacity.give_back(first, START);
    assert_eq!(throttled(&capacity, &small(1), START).reason, Reason::KeyRangeThroughputExceeded);
}

#[test]
fn a_throttled_access_is_admitted_when_it_was_told_and_not_a_nanosecond_before() {
    let capacity = orders(3);
    let access = Access::write("orders", b"order-7", 5000);
    while is_admitted(&capacity, &access, START) {}
    let retry = throttled(&capacity, &access, START).retry;
    assert!(!is_admitted(&capacity, &access, retry.saturating_sub(Duration::from_nanos(1))));
    assert!(is_admitted(&capacity, &access, retry));
}

#[test]
fn a_refusal_leaves_the_state_bit_for_bit() {
    let capacity = orders(4);
    let access = Access::write("orders", b"order-7", 400 << 10);
    admitted(&capacity, &access, START);
    let before = capacity.fingerprint();
    for step in 0..1000 {
        let _ = throttled(&capacity, &access, START.saturating_add(Duration::from_micros(step)));
    }
    assert_eq!(capacity.fingerprint(), before);
    assert!(capacity.admit(SHOP, &Access::write("none", b"", 1), START).is_err());
    assert!(capacity.admit(SHOP, &Access::write("orders", b"", u64::MAX), START).is_err());
    assert_eq!(capacity.fingerprint(), before);
}

#[test]
fn what_is_given_back_in_reverse_leaves_the_state_bit_for_bit() {
    let capacity = orders(4);
    let mut states = Vec::new();
    let mut holds = Vec::new();
    for step in 0..50_u32 {
        let now = START.saturating_add(Duration::from_nanos(u64::from(step) * 31_000_007));
        states.push(capacity.fingerprint());
        let kind = if step % 2 == 0 {
            AccessKind::Write
        } else {
            AccessKind::Read { consistency: ReadConsistency::Strong }
        };
        let key = step.to_string();
        holds.push(admitted(&capacity, &Access::new("orders", key.as_bytes(), kind, 700), now));
    }
    for (state, hold) in states.into_iter().zip(holds).rev() {
        assert_ne!(capacity.fingerprint(), state);
        capacity.give_back(hold, START.saturating_add(Duration::from_secs(2)));
        assert_eq!(capacity.fingerprint(), state);
    }
}

#[test]
fn settling_books_what_the_access_turned_out_to_weigh() {
    let left = |capacity: &Capacity| {
        let partition = capacity.partitions(SHOP, "orders", START).unwrap().next().unwrap();
        let node = capacity.nodes(START).next().unwrap();
        (partition.read_left.as_thousandths(), node.left.as_thousandths())
    };
    let capacity = orders(1);
    let read = Access::read("orders", b"order-7", 40_960);
    let (partition, node) = left(&capacity);
    // An instant between two thousandths costs the rest of the one begun.
    let begun = |charged: i64| {
        ((partition - charged - 1)..=(partition - charged), (node - charged - 1)..=(node - charged))
    };
    for (weighed, booked) in [(2_000, 2_000), (5_000, 5_000), (9_500, 9_500), (0, 0), (-1, 0)] {
        let capacity = orders(1);
        let hold = admitted(&capacity, &read, START);
        assert_eq!(hold.units(), Units::whole(5));
        capacity.settle(hold, Some(Units::from_thousandths(weighed)), START);
        let (partition, node) = left(&capacity);
        let (partitions, nodes) = begun(booked);
        assert!(partitions.contains(&partition) && nodes.contains(&node), "{weighed}: {partition}, {node}");
    }
    let hold = admitted(&capacity, &read, START);
    capacity.settle(hold, Some(Units::from_thousandths(i64::MAX)), START);
    assert_eq!(left(&capacity).0, -Units::LARGEST_REQUEST.as_thousandths());
}

#[test]
fn settling_with_nothing_is_giving_back() {
    let capacity = orders(4);
    let before = capacity.fingerprint();
    let hold = admitted(&capacity, &Access::write("orders", b"order-7", 9000), START);
    capacity.settle(hold, Some(Units::ZERO), START.saturating_add(Duration::from_secs(9)));
    assert_eq!(capacity.fingerprint(), before);
}

#[test]
fn a_node_in_debt_refuses_nothing_that_is_within_the_shares() {
    let table = TableConfig::new(SHOP, "orders", 500, 500).partitions(2).nodes(["a"]);
    let capacity = Capacity::builder().node("a", 1000).table(table).build().unwrap();
    // A node holds a tenth of a second, its partitions a second each.
    for partition in 0..2 {
        let key = key_in(&capacity, "orders", partition);
        for _ in 0..250 {
            admitted(&capacity, &Access::write("orders", &key, 1), START);
        }
    }
    let left = capacity.nodes(START).next().unwrap().left;
    assert!(left <= Units::from_thousandths(-400_000), "{left}");
    let read = Access {
        kind: AccessKind::Read { consistency: ReadConsistency::Strong },
        ..Access::read("orders", b"", 1)
    };
    admitted(&capacity, &read, START);
}

#[test]
fn large_writes_get_what_is_allocated_and_small_ones_are_not_starved() {
    let table = TableConfig::new(SHOP, "orders", 1, 100).nodes(["a"]);
    let capacity = Capacity::builder().node("a", 1000).table(table).build().unwrap();
    let (mut large, mut small, mut waited_ms, mut waited_ms_max) = (0_u64, 0_u64, 0_u64, 0_u64);
    for millis in 0..400_000 {
        let now = START.saturating_add(Duration::from_millis(millis));
        // A large one every four seconds is the whole allocation; small ones try every 10 ms.
        if millis % 4000 == 0 && is_admitted(&capacity, &Access::write("orders", b"", 400 << 10), now) {
            large += 400;
        }
        if millis % 10 == 5 {
            if is_admitted(&capacity, &Access::write("orders", b"", 1), now) {
                small += 1;
                waited_ms = 0;
            } else {
                waited_ms += 10;
                waited_ms_max = waited_ms_max.max(waited_ms);
            }
        }
    }
    assert!(large + small >= 38_000 && large + small <= 40_000 + 500, "{large} + {small}");
    assert!(waited_ms_max <= 4000, "{waited_ms_max}");
}

#[test]
fn large_writes_that_come_as_soon_as_a_debt_is_repaid_leave_small_ones_a_hundredth_of_the_rate() {
    let table = TableConfig::new(SHOP, "orders", 1, 100).mode(TableMode::Static).nodes(["a"]);
    let capacity = Capacity::builder().node("a", 1000).table(table).build_at(START).unwrap();
    let (small, large) = (Access::write("orders", b"", 1), Access::write("orders", b"", 400 << 10));
    // A refused write comes again after a millisecond, the large one first.
    let (mut admitted_small, mut last, mut longest) = (0, START, Duration::ZERO);
    for millis in 0..100_000 {
        let now = START.saturating_add(Duration::from_millis(millis));
        let _ = capacity.admit(SHOP, &large, now).unwrap();
        if is_admitted(&capacity, &small, now) {
            longest = longest.max(now.saturating_since(last));
            (admitted_small, last) = (admitted_small + 1, now);
        }
        assert!(write_left(&capacity)[0] >= -400_000, "the deepest debt");
    }
    // The last hundred units of a debt are repaid before the next turn.
    assert!(longest <= Duration::from_secs(2), "{longest:?}");
    assert!((70..=100).contains(&admitted_small), "{admitted_small}");
    let end = START.saturating_add(Duration::from_secs(110));
    admitted(&capacity, &large, end);
    let refusal = throttled(&capacity, &small, end);
    assert_eq!(
        (refusal.bound, refusal.retry),
        (Bound::Allocation, end.saturating_add(Duration::from_secs(1)))
    );
    assert!(!is_admitted(&capacity, &small, refusal.retry.saturating_sub(Duration::from_nanos(1))));
    assert!(is_admitted(&capacity, &small, refusal.retry));
}

#[test]
fn threads_together_are_admitted_exactly_what_there_is() {
    let table = TableConfig::new(SHOP, "orders", 1, 1000).nodes(["a"]);
    let capacity = Capacity::builder().node("a", 10_000).table(table).build().unwrap();
    // A whole thousandth, so that nothing is lost to rounding.
    let now = Timestamp::from_secs(1_795_210_800);
    let holds: Vec<UnitsHold> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    let try_once =
                        |_| match capacity.admit(SHOP, &Access::write("orders", b"", 1), now).unwrap() {
                            Admission::Admit(hold) => Some(hold),
                            Admission::Throttle(_) => None,
                        };
                    (0..1000).filter_map(try_once).collect::<Vec<_>>()
                })
            })
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(holds.len(), 1000);
    std::thread::scope(|scope| {
        for hold in holds {
            let capacity = &capacity;
            scope.spawn(move || capacity.give_back(hold, now));
        }
    });
    let all = capacity.partitions(SHOP, "orders", now).unwrap().next().unwrap();
    assert_eq!(all.write_left, Units::whole(1000));
    assert_eq!(capacity.nodes(now).next().unwrap().left, Units::whole(1000));
}

#[test]
fn what_cannot_be_built_says_what_to_do() {
    let node = || Capacity::builder().node("a", 1000);
    let table = |name: &str| TableConfig::new(SHOP, name, 100, 100).nodes(["a"]);
    let cases: [(CapacityBuilder, &str); 15] = [
        (
            node().table(TableConfig::new(SHOP, "t", 1, 5).partitions(1001).nodes(["a"])),
            "table \"t\": 1 units a second are too few for 1001 partitions; use at most 1000",
        ),
        (node().table(table("")), "table \"\" has a name that is empty or too long; use 1 to 255 bytes"),
        (node().table(table(&"x".repeat(256))), "use 1 to 255 bytes"),
        (node().node("", 1), "node \"\" has a name"),
        (node().node("a", 1), "node \"a\" is given twice"),
        (node().table(table("t")).table(table("t")), "table \"t\" is given twice"),
        (node().node("b", 0), "node \"b\": 0 units a second admit nothing; use at least 1"),
        (
            node().table(TableConfig::new(SHOP, "t", 0, 1).nodes(["a"])),
            "table \"t\": 0 read units a second admit nothing",
        ),
        (node().table(TableConfig::new(SHOP, "t", 1, 0).nodes(["a"])), "0 write units"),
        (
            node().table(TableConfig::new(SHOP, "t", 1_000_001, 1).nodes(["a"])),
            "1000001 read units a second are above",
        ),
        (node().table(table("t").partitions(0)), "table \"t\" has 0 partitions; use 1 to 16384"),
        (node().table(table("t").partitions(u32::MAX)), "use at most 65536"),
        (node().table(TableConfig::new(SHOP, "t", 1, 1)), "table \"t\" lies on no node"),
        (node().table(table("t").nodes(["b"])), "table \"t\" lies on node \"b\", which does not exist"),
        (
            node().table(TableConfig::new(SHOP, "t", 500, 501).nodes(["a"])),
            "node \"a\" can do 1000 units a second, but its partitions are promised 1001",
        ),
    ];
    for (builder, hint) in cases {
        let message = builder.build().unwrap_err().to_string();
        assert!(message.contains(hint), "{message}\nlacks {hint}");
    }
    let error = node()
        .build()
        .unwrap()
        .admit(SHOP, &Access::write(&"x".repeat(999), b"", 1), START)
        .unwrap_err()
        .to_string();
    assert!(error.contains("does not exist") && error.len() < 130, "{error}");
}

#[test]
fn a_table_is_found_by_its_name_among_many() {
    let builder = Capacity::builder().node("a", 1_000_000);
    let names: Vec<String> = (0..1000).map(|i| format!("table-{i}")).collect();
    let builder = names
        .iter()
        .fold(builder, |builder, name| builder.table(TableConfig::new(SHOP, name, 1, 1).nodes(["a"])));
    let capacity = builder.build().unwrap();
    for name in &names {
        assert_eq!(throttled_after_one(&capacity, name), *name);
    }
    assert!(capacity.admit(SHOP, &Access::write("table-1000", b"", 1), START).is_err());
}

fn throttled_after_one<'a>(capacity: &'a Capacity, table: &str) -> &'a str {
    let large = Access::write(table, b"", 2048);
    admitted(capacity, &large, START);
    throttled(capacity, &large, START).table
}

/// The promise of a partition of so many thousandths a second, counted without a bucket: all units
/// admitted so far against all that have flowed in. Not capped while idle, so callers keep it busy.
struct Promise {
    rate: u128,
    used: u128,
}

impl Promise {
    fn allows(&mut self, cost: u64, since_start: Duration) -> bool {
        let flowed = self.rate * since_start.as_nanos() / 1_000_000_000;
        // One thousandth below, for the one begun at the start.
        let allows = self.used + u128::from(cost) < flowed;
        self.used += if allows { u128::from(cost) } else { 0 };
        allows
    }
}

proptest! {
    #[test]
    fn a_partition_within_its_rate_is_never_refused_because_of_a_neighbour(
        partitions in 2_u32..9,
        units in 200_u64..5000,
        gaps in prop::collection::vec(0_u64..30_000_000, 300),
        victim_sizes in prop::collection::vec(1_u64..4096, 1..20),
        attacks in prop::collection::vec((1_usize..8, 1_u64..(400 << 10), 0_u8..4), 1..40),
        others in 1_u64..5000,
    ) {
        let table = |name: &str, units: u64| TableConfig::new(SHOP, name, units, units).partitions(partitions).nodes(["a"]);
        let builder = Capacity::builder().node("a", 2 * (units + others));
        let capacity = builder.table(table("victim", units)).table(table("other", others)).build().unwrap();
        let keys: Vec<_> = (0..partitions as usize).map(|partition| key_in(&capacity, "victim", partition)).collect();
        let rate = capacity.partitions(SHOP, "victim", START).unwrap().next().unwrap().write_rate.as_thousandths();
        let mut promise = Promise { rate: rate.cast_unsigned().into(), used: 0 };
        let mut elapsed = Duration::ZERO;
        let mut conforming = 0;
        for (turn, gap) in gaps.into_iter().enumerate() {
            elapsed += Duration::from_nanos(gap);
            let now = START.saturating_add(elapsed);
            let (neighbour, size, kind) = attacks[turn % attacks.len()];
            let key = &keys[1 + neighbour % (keys.len() - 1)];
            for _ in 0..5 {
                let attack = match kind {
                    0 => Access::write("victim", key, size),
                    1 => Access { kind: AccessKind::TransactionalWrite, ..Access::write("other", key, size) },
                    2 => Access::read("victim", &keys[0], size),
                    _ => Access::read("other", key, size),
                };
                let answer = capacity.admit(SHOP, &attack, now).unwrap();
                if kind == 1 && let Admission::Admit(hold) = answer {
                    capacity.settle(hold, Some(Units::LARGEST_REQUEST), now);
                }
            }
            let access = Access::write("victim", &keys[0], victim_sizes[turn % victim_sizes.len()]);
            if promise.allows(access.units().unwrap().as_thousandths().cast_unsigned(), elapsed) {
                conforming += 1;
                prop_assert!(is_admitted(&capacity, &access, now), "turn {}", turn);
            }
        }
        prop_assert!(conforming > 0, "the victim asked for nothing it was promised");
    }
}

#[test]
fn a_look_says_what_is_left_and_changes_nothing() {
    let capacity = orders(4);
    let key = key_in(&capacity, "orders", 2);
    let access = Access::write("orders", &key, 1500);
    let look = capacity.peek(SHOP, &access, START).unwrap();
    assert_eq!((look.table, look.partition, look.node), ("orders", PartitionId(2), "a"));
    assert_eq!((look.operation.as_str(), look.units), ("write", Units::whole(2)));
    assert_eq!(
        (look.direction.rate, look.direction.left, look.reset_at),
        (Units::whole(25), Units::whole(25), START)
    );
    assert_eq!(look.throttled, None);
    assert!(look.range.contains(Position::from_hash(key_hash(&key))));
    // Used up, with each partition of the table.
    for partition in 0..4 {
        let key = key_in(&capacity, "orders", partition);
        admitted(&capacity, &Access::write("orders", &key, 50 << 10), START);
    }
    let hints = || {
        let table = &capacity.tables[0].table;
        (table.throttled_count(false), table.used_up(false).is_known_at(START))
    };
    let before = (capacity.fingerprint(), hints());
    let look = capacity.peek(SHOP, &access, START).unwrap();
    assert!(look.direction.left <= Units::whole(25).min(Units::from_thousandths(-24_999)));
    let full = look.reset_at.saturating_since(START);
    assert!(full.abs_diff(Duration::from_secs(2)) < Duration::from_millis(1), "{full:?}");
    assert_eq!((capacity.fingerprint(), hints()), before);
    assert_eq!(look.throttled, Some(throttled(&capacity, &access, START)));
    assert_eq!(look.throttled.unwrap().reason, Reason::TableThroughputExceeded);
    assert!(capacity.peek(SHOP, &access, look.reset_at).unwrap().direction.left == Units::whole(25));
    assert!(capacity.peek(SHOP, &Access::write("none", b"", 1), START).is_err());
    assert!(capacity.peek(SHOP, &Access::write("orders", b"", u64::MAX), START).is_err());
}

#[test]
fn a_refusal_names_operation_node_and_rate() {
    let capacity = orders(4);
    let key = key_in(&capacity, "orders", 1);
    for _ in 0..200 {
        let _ = capacity.admit(SHOP, &Access::read("orders", &key, 4096), START).unwrap();
    }
    let refusal = throttled(&capacity, &Access::read("orders", &key, 1), START);
    assert_eq!((refusal.operation.as_str(), refusal.node, refusal.rate), ("read", "b", Units::whole(100)));
    assert_eq!((refusal.ceiling, refusal.burst_left), (None, None));
    assert_eq!(refusal.consumed, Units::whole(100));
}

#[test]
fn a_charge_of_unknown_weight_stays() {
    let capacity = orders(1);
    let hold = admitted(&capacity, &Access::write("orders", b"k", 3000), START);
    let before = capacity.fingerprint();
    capacity.settle(hold, None, START);
    assert_eq!(capacity.fingerprint(), before);
}

fn node_left(capacity: &Capacity, name: &str, now: Timestamp) -> i64 {
    capacity.nodes(now).find(|node| node.name == name).unwrap().left.as_thousandths()
}

#[test]
fn units_held_over_a_placement_return_to_the_node_they_were_taken_from() {
    let capacity = orders(1);
    // A whole thousandth, so that nothing is lost to rounding.
    let now = Timestamp::from_secs(1_795_210_800);
    let access = Access::write("orders", b"k", 4096);
    let full = [node_left(&capacity, "a", now), node_left(&capacity, "b", now)];
    let hold = admitted(&capacity, &access, now);
    let settled = admitted(&capacity, &access, now);
    let before = capacity.fingerprint();
    capacity.place(SHOP, "orders", 0, "b", now).unwrap();
    assert_ne!(capacity.fingerprint(), before, "a placement is state");
    assert_eq!(capacity.partitions(SHOP, "orders", now).unwrap().next().unwrap().node, "b");
    let moved = admitted(&capacity, &access, now);
    assert_eq!(
        [node_left(&capacity, "a", now), node_left(&capacity, "b", now)],
        [full[0] - 8000, full[1] - 4000]
    );
    capacity.settle(settled, Some(Units::whole(1)), now);
    capacity.give_back(hold, now);
    assert_eq!(
        [node_left(&capacity, "a", now), node_left(&capacity, "b", now)],
        [full[0] - 1000, full[1] - 4000]
    );
    capacity.give_back(moved, now);
    assert_eq!(node_left(&capacity, "b", now), full[1]);
    let partition = capacity.partitions(SHOP, "orders", now).unwrap().next().unwrap();
    assert_eq!(partition.write_left, Units::whole(99), "the partition took its level along");
}

#[test]
fn a_placement_that_a_node_cannot_bear_changes_nothing() {
    let orders = TableConfig::new(SHOP, "orders", 300, 300).partitions(2).nodes(["a"]);
    let capacity = Capacity::builder().node("a", 600).node("b", 500).table(orders).build().unwrap();
    capacity.place(SHOP, "orders", 0, "b", START).unwrap();
    let before = capacity.fingerprint();
    let message = |answer: Result<(), CapacityError>| answer.unwrap_err().to_string();
    assert_eq!(
        message(capacity.place(SHOP, "orders", 1, "b", START)),
        "node \"b\" can do 500 units a second, but its partitions are promised 600; raise it or place partitions \
         elsewhere"
    );
    assert_eq!(
        message(capacity.place(SHOP, "orders", 2, "b", START)),
        "table \"orders\" has no partition 2: it may have been split or merged; use the number of one of its 2 partitions"
    );
    assert!(
        message(capacity.place(SHOP, "orders", 1, "c", START)).contains("node \"c\", which does not exist")
    );
    assert!(message(capacity.place(SHOP, "none", 1, "b", START)).contains("table \"none\" does not exist"));
    assert_eq!(capacity.fingerprint(), before);
    capacity.place(SHOP, "orders", 0, "b", START).unwrap();
    capacity.place(SHOP, "orders", 0, "a", START).unwrap();
    capacity.place(SHOP, "orders", 1, "b", START).unwrap();
    let nodes: Vec<_> =
        capacity.partitions(SHOP, "orders", START).unwrap().map(|partition| partition.node).collect();
    assert_eq!(nodes, ["a", "b"]);
}

#[test]
fn a_node_books_the_debt_of_a_partition_that_was_placed_on_it() {
    let orders = TableConfig::new(SHOP, "orders", 100, 500).nodes(["a"]);
    let capacity = Capacity::builder().node("a", 600).node("b", 600).table(orders).build().unwrap();
    let now = Timestamp::from_secs(1_795_210_800);
    capacity.place(SHOP, "orders", 0, "b", now).unwrap();
    admitted(&capacity, &Access::write("orders", b"k", 400 << 10), now);
    assert_eq!(node_left(&capacity, "b", now), 60_000 - 400_000);
    assert_eq!(node_left(&capacity, "a", now), 60_000);
}

proptest! {
    /// Accesses that are admitted, placed, settled and given back at one instant in any order: the
    /// units missing in partitions and in nodes equal the units booked and not given back, to the
    /// thousandth.
    #[test]
    fn units_are_conserved_to_the_thousandth(
        steps in prop::collection::vec((0_usize..4, 0_usize..3, 0_u64..(20 << 10), 0_i64..60_000, any::<prop::sample::Index>()), 1..100),
    ) {
        let table = TableConfig::new(SHOP, "orders", 2000, 1000).partitions(3).nodes(["a", "b"]);
        let capacity = Capacity::builder().node("a", 5000).node("b", 5000).table(table).build().unwrap();
        let now = Timestamp::from_secs(1_795_210_800);
        let keys: Vec<_> = (0..3).map(|partition| key_in(&capacity, "orders", partition)).collect();
        let level = || -> (i64, i64) {
            let partitions = capacity.partitions(SHOP, "orders", now).unwrap();
            let of_partitions = partitions.map(|one| one.read_left.as_thousandths() + one.write_left.as_thousandths());
            (of_partitions.sum(), capacity.nodes(now).map(|node| node.left.as_thousandths()).sum())
        };
        let full = level();
        let mut booked = 0;
        let mut holds = Vec::new();
        for (action, partition, size, weight, index) in steps {
            let access = if size % 2 == 0 {
                Access::write("orders", &keys[partition], size)
            } else {
                Access::read("orders", &keys[partition], size)
            };
            match action {
                0 | 1 => if let Admission::Admit(hold) = capacity.admit(SHOP, &access, now).unwrap() {
                    booked += hold.units().as_thousandths();
                    holds.push(hold);
                },
                2 => capacity.place(SHOP, "orders", partition as u32, ["a", "b"][size as usize % 2], now).unwrap(),
                _ if holds.is_empty() => {}
                _ => {
                    let hold = holds.swap_remove(index.index(holds.len()));
                    let charged = hold.units().as_thousandths();
                    match size % 3 {
                        0 => {
                            booked -= charged;
                            capacity.give_back(hold, now);
                        }
                        1 => assert_eq!(capacity.settle(hold, None, now), Settlement::default()),
                        _ => {
                            // Not beyond the deepest debt, where units are not booked.
                            let partition = capacity.partitions(SHOP, "orders", now).unwrap().nth(hold.partition().0 as usize);
                            let left = partition.map(|one| one.read_left.min(one.write_left).as_thousandths()).unwrap();
                            let weight = weight.min(charged + left + Units::LARGEST_REQUEST.as_thousandths());
                            booked += weight - charged;
                            capacity.settle(hold, Some(Units::from_thousandths(weight)), now);
                        }
                    }
                }
            }
            let now_left = level();
            prop_assert_eq!((full.0 - now_left.0, full.1 - now_left.1), (booked, booked));
        }
    }
}

/// A store of one table on these nodes, each of a million units.
fn builder(table: TableConfig, nodes: &[&str]) -> CapacityBuilder {
    let builder = nodes.iter().fold(Capacity::builder(), |builder, node| builder.node(*node, 1_000_000));
    builder.table(table.nodes(nodes.iter().copied()))
}

fn written(capacity: &Capacity, key: &[u8], units: u64) -> Option<UnitsHold> {
    match capacity.admit(SHOP, &Access::write("orders", key, units * 1024), START).unwrap() {
        Admission::Admit(hold) => Some(hold),
        Admission::Throttle(_) => None,
    }
}

/// Units, but for the thousandth by which a charge is rounded up.
fn rounded(units: Units) -> i64 {
    (units.as_thousandths() + 500).div_euclid(1000)
}

fn write_left(capacity: &Capacity) -> Vec<i64> {
    let partitions = capacity.partitions(SHOP, "orders", START).unwrap();
    partitions.map(|partition| rounded(partition.write_left)).collect()
}

#[test]
fn a_table_of_one_namespace_is_not_charged_by_another() {
    let table = |namespace| TableConfig::new(namespace, "orders", 10, 10).nodes(["a"]);
    let capacity = Capacity::builder().node("a", 100).table(table(SHOP)).table(table("api")).build().unwrap();
    let access = Access::write("orders", b"", 10 << 10);
    assert!(matches!(capacity.admit("api", &access, START).unwrap(), Admission::Admit(_)));
    assert_eq!(write_left(&capacity), [10]);
    let error = capacity.admit("other", &access, START).unwrap_err().to_string();
    assert_eq!(error, "table \"orders\" does not exist in namespace \"other\"; name one that it has");
}

#[test]
fn an_unchanged_table_is_shared_with_the_store_before() {
    let orders = || TableConfig::new(SHOP, "orders", 100, 100).partitions(2);
    let before = builder(orders(), &["a", "b"]).build().unwrap();
    before.place(SHOP, "orders", 0, "b", START).unwrap();
    let hold = written(&before, b"order-7", 40).unwrap();
    let other = TableConfig::new(SHOP, "another", 1, 1).nodes(["a"]);
    let nodes = Capacity::builder().node("a", 1_000_000).node("b", 1_000_000);
    let after = nodes.table(other).table(orders().nodes(["a", "b"])).build_over(&before, START).unwrap();
    assert_eq!(write_left(&after), write_left(&before));
    assert_eq!(after.partitions(SHOP, "orders", START).unwrap().next().unwrap().node, "b");
    // The charges of both are seen by both, and a hold is given back by either.
    let later = written(&before, b"order-7", 10).unwrap();
    assert_eq!(write_left(&after).iter().sum::<i64>(), 50);
    after.give_back(hold, START);
    after.give_back(later, START);
    assert_eq!((write_left(&before), write_left(&after)), (vec![50, 50], vec![50, 50]));
}

#[test]
fn a_changed_table_keeps_its_levels_and_its_holds() {
    for (units, partitions, left, returned) in
        [(200, 1, vec![30], vec![100]), (50, 1, vec![30], vec![50]), (400, 2, vec![15, 15], vec![85, 15])]
    {
        let before = builder(TableConfig::new(SHOP, "orders", 100, 100), &["a"]).build().unwrap();
        let key = key_in(&before, "orders", 0);
        let hold = written(&before, &key, 70).unwrap();
        let orders = TableConfig::new(SHOP, "orders", 100, units).partitions(partitions);
        let after = builder(orders, &["a"]).build_over(&before, START).unwrap();
        assert_eq!(write_left(&after), left, "{units} in {partitions}");
        let position = hold.position();
        let settled = after.give_back(hold, START);
        let expected =
            if after.partitions(SHOP, "orders", START).unwrap().next().unwrap().range.contains(position) {
                returned
            } else {
                returned.into_iter().rev().collect()
            };
        assert_eq!(write_left(&after), expected, "{units} in {partitions}");
        assert_eq!(settled.returned.as_thousandths() + settled.overflow.as_thousandths(), 70_000);
    }
}

#[test]
fn a_table_or_node_that_is_gone_takes_no_hold_back() {
    let before = builder(TableConfig::new(SHOP, "orders", 100, 100), &["a", "b"]).build().unwrap();
    let (hold, other) = (written(&before, b"", 70).unwrap(), written(&before, b"", 5).unwrap());
    let gone = Capacity::builder().build_over(&before, START).unwrap();
    gone.give_back(hold, START);
    gone.settle(other, Some(Units::whole(1)), START);
    assert_eq!(gone.tables().count(), 0);
    // The node of its partition is gone: its level goes on, on the nodes that there are.
    let moved =
        builder(TableConfig::new(SHOP, "orders", 100, 100), &["b"]).build_over(&before, START).unwrap();
    assert_eq!(write_left(&moved), [25]);
    let again = builder(TableConfig::new(SHOP, "orders", 100, 100), &["a"]).build_over(&gone, START).unwrap();
    let fresh = written(&again, b"", 1).unwrap();
    before.give_back(fresh, START);
    assert_eq!((write_left(&again), write_left(&before)), (vec![99], vec![25]), "no id is used twice");
}

#[test]
fn nodes_keep_their_level_and_a_reload_that_overcommits_one_changes_nothing() {
    let orders = || TableConfig::new(SHOP, "orders", 100, 100).nodes(["a"]);
    let before = Capacity::builder().node("a", 1000).table(orders()).build().unwrap();
    let _ = written(&before, b"", 70).unwrap();
    let left = |capacity: &Capacity| capacity.nodes(START).map(|node| rounded(node.left)).collect::<Vec<_>>();
    assert_eq!(left(&before), [30]);
    let larger = Capacity::builder().node("a", 2000).table(orders()).build_over(&before, START).unwrap();
    assert_eq!(left(&larger), [30]);
    let fingerprint = before.fingerprint();
    let error = Capacity::builder().node("a", 100).table(orders()).build_over(&before, START).unwrap_err();
    assert!(matches!(error, CapacityError::NodeOvercommitted { .. }), "{error}");
    assert_eq!(before.fingerprint(), fingerprint);
}

#[test]
fn a_refusal_that_is_looked_for_is_that_of_an_admission_and_charges_nothing() {
    use crate::table_config::TableMode;

    for mode in [TableMode::Static, TableMode::Burst, TableMode::Adaptive, TableMode::Global] {
        let table = TableConfig::new(SHOP, "orders", 40, 10).partitions(2).nodes(["a", "b"]).mode(mode);
        let capacity = Capacity::builder().node("a", 100).node("b", 100).table(table).build().unwrap();
        let mut outcomes = [0; 2];
        for index in 0..400_u64 {
            let now = START.saturating_add(Duration::from_millis(index));
            let key = (index % 7).to_string();
            let write = Access::write("orders", key.as_bytes(), 1 << 10);
            let before = capacity.fingerprint();
            let found = capacity.locate(SHOP, &write).unwrap().find_refusal(now);
            assert!(found.is_some() || capacity.fingerprint() == before, "{mode:?}: {index}");
            let admission = capacity.admit(SHOP, &write.repeated(true), now).unwrap();
            match admission {
                Admission::Admit(_) => assert_eq!(found, None, "{mode:?}: {index}"),
                Admission::Throttle(throttled) => assert_eq!(found, Some(throttled), "{mode:?}: {index}"),
            }
            outcomes[usize::from(found.is_some())] += 1;
        }
        assert!(outcomes.iter().all(|count| *count > 10), "{mode:?}: {outcomes:?}");
        let offered = capacity.partitions(SHOP, "orders", START).unwrap().map(|one| one.write.offered);
        assert_eq!(offered.map(Units::as_thousandths).sum::<i64>(), 400_000, "each is offered once");
    }
}

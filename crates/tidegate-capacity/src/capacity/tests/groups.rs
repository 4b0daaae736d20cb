//! Burst, groups of replicas, indexes, accounts and moves.

use super::*;
use crate::access::IndexWrite;
use crate::account::AccountConfig;
use crate::admission::throttled::Bound;
use crate::control::reshape::SplitShares;
use crate::layout::position::PartitionBy;
use crate::node::NodeConfig;
use crate::table_config::{Ceilings, ReadMembers, TableMode, WriteCheck, WriteQuorum};

/// A whole second, so that nothing is lost to rounding.
const NOW: Timestamp = Timestamp::from_secs(1_795_210_800);

fn after(millis: u64) -> Timestamp {
    NOW.saturating_add(Duration::from_millis(millis))
}

fn node_level(capacity: &Capacity, name: &str, now: Timestamp) -> i64 {
    capacity.nodes(now).find(|node| node.name == name).unwrap().left.as_thousandths()
}

/// How many writes of one unit are admitted at once, and the refusal of the next.
fn writes_at_once<'a>(capacity: &'a Capacity, table: &str, now: Timestamp) -> (u64, Throttled<'a>) {
    for admitted in 0.. {
        match capacity.admit(SHOP, &Access::write(table, b"k", 1), now).unwrap() {
            Admission::Admit(_) => {}
            Admission::Throttle(throttled) => return (admitted, throttled),
        }
    }
    unreachable!("there is a bound")
}

#[test]
fn each_mode_spends_what_the_one_before_does_and_more() {
    let table = |mode| {
        TableConfig::new(SHOP, "orders", 100, 100)
            .partitions(2)
            .mode(mode)
            .nodes(["a"])
            .ceilings(Ceilings { read: 3000, write: 250 })
    };
    let admitted = [TableMode::Static, TableMode::Burst, TableMode::Global].map(|mode| {
        let capacity = Capacity::builder().node("a", 10_000).table(table(mode)).build_at(NOW).unwrap();
        // Two idle seconds: two seconds of the share have spilled.
        let (admitted, throttled) = writes_at_once(&capacity, "orders", after(2000));
        (admitted, throttled.bound, throttled.burst_left)
    });
    // One second of allocation; two of burst credit beside it; the ceiling of the partition. Burst
    // credit is shown where it is spent.
    let expected =
        [(50, Bound::Allocation, None), (150, Bound::Burst, Some(Units::ZERO)), (250, Bound::Ceiling, None)];
    assert_eq!(admitted, expected);
}

#[test]
fn the_mode_of_a_table_changes_without_its_levels() {
    let table = |mode| TableConfig::new(SHOP, "orders", 100, 100).mode(mode).nodes(["a"]);
    let capacity =
        Capacity::builder().node("a", 10_000).table(table(TableMode::Static)).build_at(NOW).unwrap();
    let (admitted, _) = writes_at_once(&capacity, "orders", after(3000));
    assert_eq!(admitted, 100);
    let capacity = Capacity::builder()
        .node("a", 10_000)
        .table(table(TableMode::Burst))
        .build_over(&capacity, after(3000))
        .unwrap();
    let (admitted, throttled) = writes_at_once(&capacity, "orders", after(3000));
    // The three idle seconds were kept while the mode was static.
    assert_eq!((admitted, throttled.bound), (300, Bound::Burst));
    assert_eq!(
        (throttled.burst_left, throttled.reason),
        (Some(Units::ZERO), Reason::KeyRangeThroughputExceeded)
    );
    assert_eq!(throttled.ceiling, Some(Units::whole(1000)));
}

#[test]
fn a_burst_leaves_the_reserve_of_its_node_and_says_when_there_is_room() {
    let table = TableConfig::new(SHOP, "orders", 10, 10).mode(TableMode::Burst).nodes(["a"]);
    let node = NodeConfig::new("a", 1000).reserve_percent(20);
    let capacity = Capacity::builder().node_config(node).table(table).build_at(NOW).unwrap();
    let now = after(60_000);
    let (admitted, throttled) = writes_at_once(&capacity, "orders", now);
    // 10 of the allocation, and of the node's 100 what is left but for 20.
    assert_eq!((admitted, throttled.bound, throttled.reason), (80, Bound::Node, Reason::NodeSaturated));
    assert_eq!((throttled.node, throttled.limit), ("a", Units::whole(1000)));
    assert_eq!(throttled.burst_left, Some(Units::whole(600 - 70)));
    assert!(throttled.level < throttled.units + Units::whole(20));
    let access = Access::write("orders", b"k", 1);
    let before = throttled.retry.saturating_sub(Duration::from_nanos(1));
    assert!(!is_admitted(&capacity, &access, before));
    assert!(is_admitted(&capacity, &access, throttled.retry));
}

/// I5: beyond the allocations a node serves no more than what they leave of it.
#[test]
pub(super) fn a_burst_waits_for_the_allocations_of_its_neighbours() {
    let table = |name, units| TableConfig::new(SHOP, name, units, units).nodes(["a"]);
    let capacity = Capacity::builder()
        .node("a", 1000)
        .table(table("steady", 400))
        .table(table("bursting", 100).mode(TableMode::Burst))
        .build_at(NOW)
        .unwrap();
    let (mut allocated, mut bursting) = (0_u64, 0_u64);
    // The steady table uses its full allocation of both directions, 800 a second; the other one has
    // been idle for a minute and has credit for 6000 writes.
    for step in 0..10_000 {
        let now = after(60_000 + step);
        let strong = AccessKind::Read { consistency: ReadConsistency::Strong };
        for access in [Access::write("steady", b"k", 1), Access::new("steady", b"k", strong, 1)] {
            if step % 5 < 2 {
                assert!(is_admitted(&capacity, &access, now));
                allocated += 1;
            }
        }
        bursting += u64::from(is_admitted(&capacity, &Access::write("bursting", b"k", 1), now));
    }
    // Its own allocation, and what both leave of the node.
    let own = 100 * 10 + 100;
    let spare = 1000 * 10 + 100 - allocated - 100 * 10;
    assert!(bursting <= own + spare, "{bursting} of {own} and {spare}");
    assert!(bursting + 200 >= own + spare, "{bursting} of {own} and {spare}");
}

fn group(table: TableConfig) -> Capacity {
    let nodes = ["a", "b", "c"];
    let builder = nodes.iter().fold(Capacity::builder(), |builder, node| builder.node(*node, 10_000));
    builder.table(table.replicas(3).nodes(nodes)).build_at(NOW).unwrap()
}

/// Takes the room of a node away, as work of others would.
fn fill_node(capacity: &Capacity, name: &str, now: Timestamp) {
    let node = capacity.nodes.iter().find(|node| *node.name == *name).unwrap();
    let left = node.level(now).as_thousandths();
    let _ = node.charge(left.max(0).cast_unsigned(), now);
}

/// E-WRITE and I7.
#[test]
fn a_burst_write_needs_room_at_every_required_member_and_an_allocated_one_does_not() {
    let table = || TableConfig::new(SHOP, "orders", 1000, 100).mode(TableMode::Burst);
    let capacity = group(table());
    let now = after(60_000);
    fill_node(&capacity, "c", now);
    let levels = ["a", "b", "c"].map(|node| node_level(&capacity, node, now));
    let (admitted, throttled) = writes_at_once(&capacity, "orders", now);
    assert_eq!((admitted, throttled.bound), (100, Bound::Replica), "the allocation alone");
    assert_eq!((throttled.reason, throttled.node), (Reason::ReplicaSaturated, "c"));
    // Each member applies each write, and a refusal leaves no charge.
    let expected = levels.map(|level| level - 100_000);
    assert_eq!(["a", "b", "c"].map(|node| node_level(&capacity, node, now)), expected);
    // A majority has room.
    let capacity = group(table().write_quorum(WriteQuorum::Majority));
    fill_node(&capacity, "c", now);
    let (admitted, throttled) = writes_at_once(&capacity, "orders", now);
    assert_eq!((admitted, throttled.bound), (1000, Bound::Ceiling));
    assert_eq!(node_level(&capacity, "c", now), -1_000_000, "it applies them all the same");
    // Every write needs room.
    let capacity = group(table().write_check(WriteCheck::Always));
    fill_node(&capacity, "c", now);
    let (admitted, throttled) = writes_at_once(&capacity, "orders", now);
    assert_eq!((admitted, throttled.bound), (0, Bound::Replica));
    assert!(is_admitted(&capacity, &Access::read("orders", b"k", 1), now), "reads do not");
}

/// I7, from the levels of the nodes before each admission.
#[test]
pub(super) fn a_burst_write_takes_the_room_it_needs_at_every_member() {
    let capacity = group(TableConfig::new(SHOP, "orders", 1000, 100).mode(TableMode::Burst));
    let now = after(60_000);
    let mut admitted = 0;
    loop {
        let before = ["a", "b", "c"].map(|node| node_level(&capacity, node, now));
        let Some(hold) = (match capacity.admit(SHOP, &Access::write("orders", b"k", 10 << 10), now).unwrap() {
            Admission::Admit(hold) => Some(hold),
            Admission::Throttle(_) => None,
        }) else {
            break;
        };
        admitted += 1;
        let after = ["a", "b", "c"].map(|node| node_level(&capacity, node, now));
        assert_eq!(after, before.map(|level| level - 10_000));
        assert!(
            hold.on_nodes.as_slice().len() == 3
                && (admitted <= 10 || before.iter().all(|level| *level >= 10_000))
        );
    }
    assert_eq!(admitted, 100, "the ceiling, which all of the nodes have room for");
}

/// E-READ: a group serves as much as its members, and a strong read its leader alone.
#[test]
fn reads_use_the_free_tokens_of_any_member() {
    let served = |reads, consistency| {
        let table = TableConfig::new(SHOP, "orders", 9_000, 100).mode(TableMode::Global).reads(reads);
        let capacity = group(table.ceilings(Ceilings { read: 3000, write: 1000 }).partitions(3));
        let access = Access::new("orders", b"k", AccessKind::Read { consistency }, 1);
        let mut units = 0;
        for step in 0..3_000_u64 {
            let now = after(1_000 + step);
            for _ in 0..30 {
                if let Admission::Admit(hold) = capacity.admit(SHOP, &access, now).unwrap() {
                    units += hold.units().as_thousandths();
                }
            }
        }
        units
    };
    let any = served(ReadMembers::Any, ReadConsistency::Eventual);
    let local = served(ReadMembers::Local, ReadConsistency::Eventual);
    let strong = served(ReadMembers::Any, ReadConsistency::Strong);
    assert!(any * 10 >= local * 27, "{any} {local}");
    assert!((strong - local).abs() * 100 <= local, "{strong} {local}");
}

#[test]
fn a_write_is_charged_to_its_table_and_indexes_or_to_none() {
    let table = |name: &str, units| TableConfig::new(SHOP, name, 100, units).nodes(["a"]);
    let capacity = Capacity::builder()
        .node("a", 10_000)
        .table(table("by-user", 50).index_of("orders"))
        .table(table("orders", 100))
        .table(table("by-day", 20).index_of("orders"))
        .build_at(NOW)
        .unwrap();
    let left = || {
        ["orders", "orders/by-user", "orders/by-day"].map(|name| {
            capacity.partitions(SHOP, name, NOW).unwrap().next().unwrap().write_left.as_thousandths() / 1000
        })
    };
    let hold = admitted(&capacity, &Access::write("orders", b"k", 10 << 10), NOW);
    assert_eq!((left(), node_level(&capacity, "a", NOW)), ([90, 40, 10], 970_000));
    // Only the entry that changes, with a key and a size of its own.
    let changes = [IndexWrite { index: "by-user", key: b"user-7", size: 1 }];
    admitted(&capacity, &Access::write("orders", b"k", 10 << 10).index_writes(&changes), NOW);
    assert_eq!(left(), [80, 39, 10]);
    // None of the entries changes.
    let alone = Access::write("orders", b"k", 1).index_writes(&[]);
    let looked = capacity.locate(SHOP, &alone).unwrap().peek(&[], NOW);
    assert_eq!((looked.len(), looked[0].index), (1, None));
    let hold_of_none = admitted(&capacity, &alone, NOW);
    assert_eq!(left(), [79, 39, 10]);
    capacity.give_back(hold_of_none, NOW);
    admitted(&capacity, &Access::write("orders", b"k", 10 << 10), NOW);
    let before = capacity.fingerprint();
    let refused = throttled(&capacity, &Access::write("orders", b"k", 1), NOW);
    assert_eq!((refused.table, refused.index), ("orders", Some("by-day")));
    assert_eq!(refused.reason, Reason::TableThroughputExceeded);
    assert_eq!(capacity.fingerprint(), before, "nothing is charged to the others");
    capacity.give_back(hold, NOW);
    assert_eq!(left(), [80, 39, 10]);
    // Reads of an index are its own.
    admitted(&capacity, &Access::read("orders/by-user", b"user-7", 1), NOW);
    let unknown = [IndexWrite { index: "by-year", key: b"", size: 1 }];
    let error =
        capacity.admit(SHOP, &Access::write("orders", b"k", 1).index_writes(&unknown), NOW).unwrap_err();
    assert!(error.to_string().contains("\"orders/by-year\" does not exist"), "{error}");
}

#[test]
fn a_table_allows_accesses_of_other_sizes_and_its_index_does_so_on_its_own() {
    let table = |name: &str| TableConfig::new(SHOP, name, 1_000, 1_000).nodes(["a"]);
    let images = table("images").access_bytes_max(AccessBytes { read: 3 << 20, write: 800 << 10 });
    let index = table("by-user").access_bytes_max(AccessBytes { read: 1, write: 1000 });
    let capacity = Capacity::builder()
        .node("a", 10_000)
        .table(images)
        .table(index.index_of("images"))
        .table(table("notes"))
        .build_at(NOW)
        .unwrap();
    let write = |table, bytes| Access::write(table, b"k", bytes).index_writes(&[]);
    let strong = AccessKind::Read { consistency: ReadConsistency::Strong };
    let error = |access: &Access<'_>| {
        let looked = capacity.peek(SHOP, access, NOW).err();
        let decided = capacity.admit(SHOP, access, NOW).err();
        assert_eq!(looked, decided);
        decided.map(|error| error.to_string())
    };
    assert_eq!(error(&write("images", 800 << 10)), None);
    assert_eq!(error(&Access::new("images", b"k", strong, 3 << 20)), None);
    assert_eq!(error(&write("notes", 400 << 10)), None);
    let fix = |operation, bytes| {
        format!(
            "send at most {bytes} bytes at a time, or raise `max_access: {{ {operation}: .. }}` of the table"
        )
    };
    for (access, expected) in [
        (write("images", 819_201), fix("write", 819_200)),
        (write("notes", 409_601), fix("write", 409_600)),
        (Access::read("notes", b"k", (1 << 20) + 1), fix("read", 1 << 20)),
        (Access::scan("notes", b"k", u64::MAX), fix("read", 1 << 20)),
        (
            Access { kind: AccessKind::TransactionalWrite, ..write("images", 409_601) },
            "weighs more than 800 units; send at most 409600 bytes at a time".to_owned(),
        ),
        (Access::write("images", b"k", 1001), fix("write", 1000)),
    ] {
        let before = capacity.fingerprint();
        // The look of one table does not see its indexes.
        let error = capacity.admit(SHOP, &access, NOW).unwrap_err().to_string();
        assert!(error.ends_with(&expected), "{access:?}: {error}");
        assert_eq!(capacity.locate(SHOP, &access).unwrap_err().to_string(), error);
        assert_eq!(capacity.fingerprint(), before);
    }
    for (bytes, what) in
        [(AccessBytes { read: 0, write: 1 }, "read"), (AccessBytes { read: 1, write: 819_201 }, "write")]
    {
        let table = table("t").access_bytes_max(bytes);
        let error = Capacity::builder().node("a", 10_000).table(table).build_at(NOW).unwrap_err().to_string();
        assert!(error.starts_with(&format!("table \"t\" allows a {what} of")), "{error}");
    }
}

#[test]
fn an_account_bounds_its_tables_together() {
    let table = |name: &str| TableConfig::new(SHOP, name, 100, 900).nodes(["a"]);
    let capacity = Capacity::builder()
        .node("a", 10_000)
        .account(AccountConfig::new("acme").writes(1000))
        .table(table("orders").account("acme"))
        .table(table("carts").account("acme"))
        .table(table("other"))
        .build_at(NOW)
        .unwrap();
    assert_eq!(writes_at_once(&capacity, "orders", NOW).0, 900);
    let before = capacity.fingerprint();
    let (admitted, refused) = writes_at_once(&capacity, "carts", NOW);
    assert_eq!((admitted, refused.bound, refused.limit), (100, Bound::Account, Units::whole(1000)));
    assert_eq!(refused.reason, Reason::AccountThroughputExceeded);
    assert_ne!(capacity.fingerprint(), before);
    assert_eq!(writes_at_once(&capacity, "other", NOW).0, 900);
    assert!(is_admitted(&capacity, &Access::write("carts", b"k", 1), refused.retry));
}

#[test]
fn the_tokens_of_a_table_admit_it_and_its_lease_sets_them() {
    let table =
        TableConfig::new(SHOP, "orders", 100, 2000).mode(TableMode::Global).partitions(4).nodes(["a"]);
    let capacity = Capacity::builder().node("a", 100_000).table(table).build_at(NOW).unwrap();
    let terms = TokenTerms::from_rate(Units::whole(300));
    capacity.set_tokens(SHOP, "orders", tidegate_core::AccessOperation::Write, terms, NOW).unwrap();
    let (admitted, refused) = writes_at_once(&capacity, "orders", NOW);
    // As much as one large request, the least depth.
    assert_eq!((admitted, refused.bound, refused.limit), (800, Bound::Table, Units::whole(300)));
    assert_eq!(refused.reason, Reason::TableThroughputExceeded);
    let second: u64 = (1..=1000).map(|millis| writes_at_once(&capacity, "orders", after(millis)).0).sum();
    assert_eq!(second, 300);
}

#[test]
fn a_partition_that_moves_refuses_until_then_and_charges_nothing() {
    let capacity = orders(2);
    let key = key_in(&capacity, "orders", 1);
    let gated = PartitionId(1);
    capacity.gate(SHOP, "orders", gated, after(40)).unwrap();
    let before = capacity.fingerprint();
    let refused = throttled(&capacity, &Access::write("orders", &key, 1), NOW);
    assert_eq!((refused.reason, refused.bound, refused.retry), (Reason::Migrating, Bound::Move, after(40)));
    assert_eq!(capacity.fingerprint(), before);
    let look = capacity.peek(SHOP, &Access::write("orders", &key, 1), NOW).unwrap();
    assert_eq!(look.throttled.map(|throttled| throttled.bound), Some(Bound::Move));
    admitted(&capacity, &Access::write("orders", &key, 1), after(40));
}

#[test]
fn a_change_of_a_partition_that_was_split_meanwhile_is_an_error() {
    let capacity = orders(2);
    let before = capacity.partitions(SHOP, "orders", NOW).unwrap().next().unwrap();
    let middle = Position::from_hash(before.range.words().1 / 2);
    let ids = capacity.split(SHOP, "orders", before.id, middle, SplitShares::HALF, NOW).unwrap();
    assert_eq!(ids, [PartitionId(2), PartitionId(3)]);
    let state = capacity.fingerprint();
    let error = capacity.split(SHOP, "orders", before.id, middle, SplitShares::HALF, NOW).unwrap_err();
    assert!(error.to_string().contains("no partition 0: it may have been split"), "{error}");
    assert!(capacity.merge(SHOP, "orders", before.id, NOW).is_err());
    assert!(capacity.place(SHOP, "orders", 0, "b", NOW).is_err());
    // A cut at the first position or outside.
    for at in [Position::FIRST, Position::from_hash(u64::MAX)] {
        assert!(capacity.split(SHOP, "orders", ids[0], at, SplitShares::HALF, NOW).is_err());
    }
    // The last one, and neighbours on different nodes.
    assert!(capacity.merge(SHOP, "orders", PartitionId(1), NOW).is_err());
    let error = capacity.merge(SHOP, "orders", ids[1], NOW).unwrap_err();
    assert!(error.to_string().contains("other nodes"), "{error}");
    assert_eq!(capacity.fingerprint(), state);
    assert_eq!(
        capacity.merge(SHOP, "orders", ids[0], NOW).unwrap(),
        PartitionId(4),
        "no number is used twice"
    );
    let ranges: Vec<_> =
        capacity.partitions(SHOP, "orders", NOW).unwrap().map(|one| one.range.words()).collect();
    assert_eq!(ranges, [(0, u64::MAX / 2), (u64::MAX / 2 + 1, u64::MAX)]);
}

#[test]
fn tables_by_range_and_by_slot_are_cut_where_their_keys_are() {
    let range = TableConfig::new(SHOP, "users", 100, 100)
        .partition_by(PartitionBy::Range)
        .cut_at([Position::from_bytes(b"m")])
        .nodes(["a"]);
    let slot = TableConfig::new(SHOP, "cache", 100, 100)
        .partition_by(PartitionBy::Slot)
        .cut_at([Position::from_slot(5461), Position::from_slot(10_923)])
        .nodes(["a"]);
    let capacity = Capacity::builder().node("a", 10_000).table(range).table(slot).build_at(NOW).unwrap();
    let holder =
        |table: &str, key: &[u8]| admitted(&capacity, &Access::write(table, key, 1), NOW).partition().0;
    assert_eq!([&b"anna"[..], b"lz", b"m", b"zoe"].map(|key| holder("users", key)), [0, 0, 1, 1]);
    // foo lies in slot 12182, and {foo} as well.
    assert_eq!([&b"foo"[..], b"bar{foo}", b"123456789"].map(|key| holder("cache", key)), [2, 2, 2]);
    let shown: Vec<_> = ["users", "cache"]
        .into_iter()
        .flat_map(|table| capacity.partitions(SHOP, table, NOW).unwrap())
        .map(|one| one.range.to_string())
        .collect();
    assert_eq!(shown, ["\"\"-\"m\"", "\"m\"-", "0-5460", "5461-10922", "10923-16383"]);
    // A hold follows its key through a cut.
    let hold = admitted(&capacity, &Access::write("users", b"nora", 10 << 10), NOW);
    let before: Vec<_> = capacity.partitions(SHOP, "users", NOW).unwrap().collect();
    let [_, right] = capacity
        .split(SHOP, "users", before[1].id, Position::from_bytes(b"n"), SplitShares::HALF, NOW)
        .unwrap();
    let left_of = |id| {
        let status = capacity.partitions(SHOP, "users", NOW).unwrap().find(|one| one.id == id).unwrap().write;
        status.left + status.burst_left
    };
    let level = left_of(right);
    capacity.give_back(hold, NOW);
    // Six fill its allocation, and four are burst credit.
    assert_eq!(left_of(right) - level, Units::whole(10));
}

#[test]
fn bounds_that_do_not_tile_and_groups_that_do_not_fit_are_errors() {
    let node = || Capacity::builder().node("a", 10_000).node("b", 10_000);
    let table = || TableConfig::new(SHOP, "t", 100, 100).nodes(["a", "b"]);
    let cut = |bounds: &[u64]| table().cut_at(bounds.iter().map(|bound| Position::from_hash(*bound)));
    let cases = [
        (node().table(cut(&[5, 5])), "do not tile its keys"),
        (node().table(cut(&[7, 5])), "do not tile its keys"),
        (node().table(cut(&[0])), "do not tile its keys"),
        (
            node().table(table().partition_by(PartitionBy::Slot).cut_at([Position::from_hash(16_384)])),
            "do not tile",
        ),
        (node().table(table().replicas(0)), "groups of 0 on 2 nodes"),
        (node().table(table().replicas(3)), "groups of 3 on 2 nodes; use 1 to 3"),
        (node().table(table().ceilings(Ceilings { read: 50, write: 1000 })), "share of read units is more"),
        (node().table(table().account("acme")), "account \"acme\", which does not exist"),
        (node().table(table().index_of("none")), "index \"none/t\" is of table \"none\""),
        (
            Capacity::builder().node_config(NodeConfig::new("a", 200)).table(table().nodes(["a"])),
            "can do 200 units a second and reserves 10 %, but its partitions are promised 200",
        ),
    ];
    for (builder, hint) in cases {
        let message = builder.build().unwrap_err().to_string();
        assert!(message.contains(hint), "{message}\nlacks {hint}");
    }
}

#[test]
pub(super) fn a_second_attempt_is_no_demand() {
    let capacity = orders(1);
    let write = Access::write("orders", b"k", 10 << 10);
    for attempt in 0..30 {
        let _ = capacity.admit(SHOP, &write.repeated(attempt % 3 > 0), NOW).unwrap();
    }
    let status = capacity.partitions(SHOP, "orders", NOW).unwrap().next().unwrap().write;
    assert_eq!(status.offered, Units::whole(100));
    assert_eq!((status.admitted, status.consumed), (Units::whole(100), Units::whole(100)));
    assert_eq!(status.throttled, Units::whole(200));
}

#[test]
fn a_boost_stays_between_share_and_ceiling_and_within_its_node() {
    let table = |name: &str| TableConfig::new(SHOP, name, 10, 100).nodes(["a"]);
    let capacity =
        Capacity::builder().node("a", 1000).table(table("orders")).table(table("x")).build_at(NOW).unwrap();
    let write = tidegate_core::AccessOperation::Write;
    let allocate = |units| capacity.allocate(SHOP, "orders", PartitionId(0), write, Units::whole(units), NOW);
    assert_eq!(allocate(1).unwrap(), Units::whole(100));
    assert_eq!(allocate(300).unwrap(), Units::whole(300));
    assert_eq!(capacity.nodes(NOW).next().unwrap().promised, Units::whole(420));
    let before = capacity.fingerprint();
    assert!(matches!(allocate(900), Err(CapacityError::NodeOvercommitted { .. })));
    assert_eq!(capacity.fingerprint(), before);
    assert_eq!(allocate(0).unwrap(), Units::whole(100));
    assert_eq!(capacity.nodes(NOW).next().unwrap().promised, Units::whole(220));
}

/// Memory: a partition, and a hold that each permit of the engine has room for.
#[test]
fn a_partition_and_a_hold_keep_their_size() {
    let sizes = (CapacityBuilder::PARTITION_BYTES, size_of::<UnitsHold>());
    assert!(sizes.0 <= 640 && sizes.1 <= 328, "{sizes:?}");
}

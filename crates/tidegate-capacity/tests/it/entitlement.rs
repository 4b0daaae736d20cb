//! The throughput that a table can reach at once: on full nodes, over reloads, for provisioned
//! tables, and after steps of the clock.

use std::collections::BTreeSet;

use tidegate_capacity::on_demand::{OnDemand, OnDemandTerms};
use tidegate_capacity::{
    AccessOperation, Capacity, CapacityBuilder, NodeConfig, PartitionBy, TableConfig, TableMode, Units,
    WarmThroughput,
};

use proptest::prelude::*;

use crate::story::{CALM, NODES, ORDERS, SHOP, Story, at, evenly, nodes, on_demand};

fn provisioned(writes: u64) -> TableConfig {
    let table = TableConfig::new(SHOP, ORDERS, 1_000, writes).mode(TableMode::Global).nodes(NODES);
    table.partition_by(PartitionBy::Range)
}

/// A neighbour within its share is refused nothing, and the limit stays at what the nodes bear.
#[test]
fn a_table_that_outgrows_its_nodes_stops_growing_and_takes_nothing_of_its_neighbours() {
    let calm = TableConfig::new(SHOP, CALM, 100, 4_000).partitions(4).nodes(NODES);
    let builder = nodes(5_000).table(calm.partition_by(PartitionBy::Range));
    let mut story = Story::new(builder, on_demand(400));
    let (mut refused, mut bounds) = (Vec::new(), BTreeSet::new());
    for second in 0..1_800 {
        for access in 0..100_000_u64 / 50 {
            let now = at(story.millis + access / 2);
            if let Some(bound) = story.write(ORDERS, evenly(access + second), 50, now) {
                bounds.insert(format!("{bound:?}"));
            }
            // Nine tenths of its share in every place and moment.
            if access % 5 < 3 {
                refused.extend(story.write(CALM, evenly(access * 7), 3, now));
            }
        }
        story.end_second();
    }
    assert!(refused.is_empty(), "the neighbour conforms: {:?} of {}", refused[0], refused.len());
    // Four nodes, of which the neighbour uses 3 600 of 20 000 units. A minute also has what their
    // buckets held at its beginning, a tenth of a second.
    let status = story.capacity.demand_status(SHOP, ORDERS).unwrap();
    let bearable = Units::whole(20_000 - 3_600 + 2_000 / 60);
    assert!(status.write.peak <= bearable, "{status:?}");
    assert!(status.write.peak >= Units::whole(8_000), "the nodes are used: {status:?}");
    assert!(status.write.limit.as_thousandths() <= 2 * bearable.as_thousandths(), "{status:?}");
    assert!(status.partitions <= 2 * status.partitions_warm, "{status:?}");
    assert!(bounds.contains("Node"), "{bounds:?}");
}

fn units(capacity: &Capacity) -> [u64; 3] {
    let status = capacity.demand_status(SHOP, ORDERS).unwrap();
    [status.write.limit, status.write.peak, status.write.warm].map(Units::whole_left)
}

#[test]
fn a_table_that_goes_on_demand_and_back_keeps_what_it_had() {
    let mut story = Story::new(nodes(100_000), provisioned(6_000).partitions(6));
    for _ in 0..130 {
        story.second(5_000, 10, evenly);
    }
    assert_eq!(units(&story.capacity), [6_000, 5_000, 5_000]);
    // On demand: the throughput that was provisioned is the peak. Nothing is refused at once.
    let with_partitions = |table: TableConfig| nodes(100_000).table(table.partitions(6));
    story.reload(with_partitions(on_demand(400)));
    assert_eq!(units(&story.capacity), [12_000, 6_000, 12_000]);
    story.take_refused();
    for _ in 0..130 {
        story.second(11_000, 10, evenly);
    }
    assert_eq!(story.take_refused().get("Table"), None);
    assert_eq!(units(&story.capacity), [22_000, 11_000, 22_000]);
    let partitions = story.partitions();
    assert!(partitions >= 12, "{partitions}");
    // Provisioned again, and on demand once more.
    story.reload(with_partitions(provisioned(6_000)));
    assert_eq!(units(&story.capacity), [6_000, 11_000, 11_000]);
    assert_eq!(story.partitions(), partitions);
    let status = story.capacity.demand_status(SHOP, ORDERS).unwrap();
    assert!(!status.is_on_demand && status.partitions_warm as usize >= partitions, "{status:?}");
    story.reload(with_partitions(on_demand(400)));
    assert_eq!(units(&story.capacity), [22_000, 11_000, 22_000]);
    assert_eq!(story.partitions(), partitions);
    // A maximum holds at once, and a later one is no growth that the minute bounds.
    let capped = OnDemand::new(Units::whole(400)).max(Units::whole(5_000));
    let terms = OnDemandTerms { read: OnDemand::new(Units::whole(1_200)), write: capped };
    story.reload(with_partitions(on_demand(400).on_demand(terms)));
    assert_eq!(units(&story.capacity), [5_000, 11_000, 5_000]);
    assert!(story.capacity.demand_status(SHOP, ORDERS).unwrap().write.is_at_maximum);
}

#[test]
fn warm_throughput_of_a_provisioned_table_is_a_right_to_cut_and_no_higher_limit() {
    let warm = WarmThroughput { read: 3_000, write: 31_000 };
    let mut story = Story::new(nodes(100_000), provisioned(16_000).partitions(16).warm(warm));
    assert_eq!(story.partitions(), 32);
    assert_eq!(units(&story.capacity), [16_000, 0, 31_000]);
    for _ in 0..2_400 {
        story.second(160, 10, evenly);
    }
    assert_eq!(story.partitions(), 16, "merged freely, down to those of the configuration");
    for _ in 0..10 {
        story.second(15_000, 10, evenly);
    }
    assert_eq!(story.partitions(), 16, "they are enough");
    // The same load in half of the keys, at once.
    for _ in 0..10 {
        story.second(15_000, 10, |access| evenly(access) >> 1);
    }
    // A 32nd of the keys for each piece, and a quarter more room: each of the eight in four.
    assert_eq!((story.take_refused(), story.partitions()), ([].into(), 40));
    story.second(32_000, 10, evenly);
    story.second(32_000, 10, evenly);
    assert_eq!(story.take_refused().into_keys().collect::<Vec<_>>(), ["Table"], "its units bound it");
    let thin = TableConfig::new(SHOP, "thin", 1, 1).warm(warm).nodes(NODES);
    let error = nodes(1_000).table(thin).build_at(at(0)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "table \"thin\" has warm throughput, whose partitions would divide its shares; use mode global, or remove it"
    );
    let cold = WarmThroughput { read: 0, write: 1 };
    assert!(nodes(1_000).table(provisioned(10).warm(cold)).build_at(at(0)).is_err());
}

/// The second time its hot range is cut as soon as it is half full, and not after three windows.
#[test]
fn a_provisioned_table_returns_to_its_former_partitions_at_once() {
    let mut story = Story::new(nodes(20_000), provisioned(16_000).partitions(16));
    let skewed = |access: u64| if access.is_multiple_of(4) { evenly(access) >> 4 } else { evenly(access) };
    let mut refused = Vec::new();
    for _ in 0..2 {
        for second in 1..=60 {
            story.second(10_000 * second / 60, 10, skewed);
        }
        for _ in 0..240 {
            story.second(10_000, 10, skewed);
        }
        refused.push(story.take_refused().values().sum::<u64>());
        assert!(story.partitions() > 16);
        for _ in 0..1_800 {
            story.second(500, 10, skewed);
        }
        assert_eq!(story.partitions(), 16);
    }
    assert!(refused[0] > 10_000 && refused[1] * 10 < refused[0], "{refused:?}");
}

#[test]
fn steps_of_the_clock_and_missing_ticks_change_no_limit_and_no_partition() {
    let mut story = Story::new(nodes(100_000), on_demand(400));
    for _ in 0..200 {
        story.second(3_000, 10, evenly);
    }
    let before = (units(&story.capacity), story.partitions());
    // A minute and an hour without a tick, a step back, and the way forth again.
    for step in [60_000_i64, 3_600_000, -3_700_000, 10, -100_000, 700_000] {
        story.millis = story.millis.checked_add_signed(step).unwrap();
        story.tick();
        let [limit, ..] = units(&story.capacity);
        assert!(limit <= before.0[0] && limit * 100 >= before.0[0] * 98, "{step}: {limit} of {before:?}");
        assert_eq!(story.partitions(), before.1, "{step}");
    }
    story.take_refused();
    for _ in 0..30 {
        story.second(3_000, 10, evenly);
    }
    assert_eq!(story.take_refused(), [].into());
}

#[test]
fn a_default_table_on_demand_reaches_its_initial_limits_with_the_ceilings_of_any_table() {
    let table = TableConfig::new(SHOP, ORDERS, 1, 1).on_demand(OnDemandTerms::default()).nodes(NODES);
    let build = |builder: CapacityBuilder| builder.table(table.clone()).build_at(at(0));
    let capacity = build(nodes(10_000)).unwrap();
    let statuses: Vec<_> = capacity.partitions(SHOP, ORDERS, at(0)).unwrap().collect();
    assert_eq!(statuses.len(), 8);
    for status in &statuses {
        assert_eq!([status.read.ceiling, status.write.ceiling], [3_000, 1_000].map(Units::whole));
        assert_eq!([status.read.base, status.write.base], [1_500, 500].map(Units::whole));
    }
    assert!(NODES.iter().all(|node| statuses.iter().filter(|status| status.node == *node).count() == 2));
    assert_eq!(capacity.token_rate(SHOP, ORDERS, AccessOperation::Read).unwrap(), OnDemand::READ_INITIAL);
    // Two pieces of 2 000 units on each node: the initial limits are promised.
    assert!(build(nodes(4_444)).is_err());
    let exact = |units| NodeConfig::new("a", units).reserve_percent(0);
    let alone = table.clone().nodes(["a"]);
    let build = |units| Capacity::builder().node_config(exact(units)).table(alone.clone()).build_at(at(0));
    assert!(build(16_000).is_ok() && build(15_999).is_err());
}

#[derive(Clone, Debug)]
struct Phase {
    seconds: u64,
    writes: u64,
    /// The width of the keys in use, as a power of two, and where they begin.
    narrow: u32,
    offset: u64,
}

fn phases() -> impl Strategy<Value = Vec<Phase>> {
    let phase = (1_u64..900, 0_u64..6_000, 0_u32..8, any::<u64>())
        .prop_map(|(seconds, writes, narrow, offset)| Phase { seconds, writes, narrow, offset });
    prop::collection::vec(phase, 1..12)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    /// I6, I11 and I12: the story checks them at each change.
    #[test]
    fn whatever_the_load_ceilings_stay_and_no_range_is_split_and_merged_in_turn(
        phases in phases(),
        is_on_demand: bool,
    ) {
        let table = if is_on_demand { on_demand(400) } else { provisioned(4_000).partitions(4) };
        let mut story = Story::new(nodes(8_000), table);
        for Phase { seconds, writes, narrow, offset } in phases {
            for _ in 0..seconds {
                story.second(writes, 25, |access| (evenly(access) >> narrow).wrapping_add(offset));
            }
        }
        prop_assert!(story.partitions() < 200);
    }
}

/// The partitions were merged, the entitlement was not.
#[test]
fn a_jump_to_the_entitlement_within_a_second_is_refused_nothing_while_nodes_have_room() {
    for peak in [4_000, 16_000, 20_000, 40_000] {
        let mut story = Story::new(nodes(200_000), on_demand(400));
        for _ in 0..600 {
            story.second(peak, 10, evenly);
        }
        for _ in 0..3_000 {
            story.second(40, 10, evenly);
        }
        let (idle, limit) = (story.partitions(), story.write_limit().whole_left());
        assert!(idle <= 2 && limit >= 2 * peak * 99 / 100, "{peak}: {idle} partitions, {limit}");
        story.take_refused();
        // To the former peak at once, and to all that the table may use.
        for _ in 0..5 {
            story.second(peak, 10, evenly);
        }
        for _ in 0..5 {
            story.second(limit, 10, evenly);
        }
        assert_eq!(story.take_refused(), [].into(), "{peak} of {limit}");
        // The partitions that the limit fills, and powers of two.
        assert!(story.partitions() as u64 <= 2 * limit.div_ceil(1_000), "{}", story.partitions());
    }
}

//! The experiments E-OD, E-ETL and E-FLAP: growth on demand, a load that comes for minutes, and one
//! that comes and goes.

use tidegate_capacity::on_demand::{OnDemand, OnDemandTerms};
use tidegate_capacity::{PartitionBy, TableConfig, TableMode, Units};

use crate::story::{NODES, ORDERS, SHOP, Story, evenly, nodes, on_demand};

/// E-OD.
#[test]
fn a_thousandfold_growth_doubles_once_a_minute_and_the_second_climb_is_not_refused_a_unit() {
    const PEAK: u64 = 400_000;
    let mut story = Story::new(nodes(300_000), on_demand(400).partitions(4));
    let mut limits = vec![story.write_limit()];
    // The first climb: everything at once.
    while story.write_limit() < Units::whole(PEAK) {
        story.second(PEAK, 200, evenly);
        limits.push(story.write_limit());
        assert!(limits.len() < 700, "{:?}", story.write_limit());
    }
    assert!(limits.len() > 540, "ten doublings: {}", limits.len());
    for (before, after) in limits.iter().zip(limits.iter().skip(60)) {
        assert!(after.as_thousandths() <= 2 * before.as_thousandths(), "{before} and {after} a minute later");
    }
    for _ in 0..90 {
        story.second(PEAK, 200, evenly);
    }
    let at_peak = story.partitions();
    assert!(at_peak >= 400, "{at_peak}");
    for tooth in 0..3 {
        // Down for so long that nearly all partitions are joined.
        for _ in 0..3_000 {
            story.second(400, 20, evenly);
        }
        let idle = story.partitions();
        assert!(idle <= 8, "{idle}");
        story.take_refused();
        // Up again within a minute, and for a minute.
        for second in 1..=60 {
            story.second(PEAK * second / 60, 200, evenly);
        }
        for _ in 0..60 {
            story.second(PEAK, 200, evenly);
        }
        assert_eq!(story.take_refused(), [].into(), "tooth {tooth}");
        assert!(story.partitions() >= 400, "{}", story.partitions());
    }
}

/// E-ETL: once, twenty times for ten minutes, and once again.
fn etl(story: &mut Story, once: u64, place: impl Fn(u64) -> u64) -> (usize, usize, usize) {
    for _ in 0..1_800 {
        story.second(once, 10, &place);
    }
    let former = story.partitions();
    for _ in 0..600 {
        story.second(once * 20, 10, &place);
    }
    let high = story.partitions();
    for _ in 0..1_800 {
        story.second(once, 10, &place);
    }
    (former, high, story.partitions())
}

/// E-ETL.
#[test]
fn a_table_on_demand_has_its_former_partitions_half_an_hour_after_twentyfold_load() {
    for once in [300, 1_000, 2_500] {
        let mut story = Story::new(nodes(100_000), on_demand(4_000));
        let (former, high, after) = etl(&mut story, once, evenly);
        assert!(high * 1000 > once as usize * 20, "{high}");
        assert!(after * 10 <= former * 12, "{once}: {former}, {high} and {after}");
    }
}

/// E-ETL with a usual load of 0.2 to 0.88 of each former partition's ceiling; in the gate with the
/// least and the most of them, `TIDEGATE_USUAL_LOADS=1000,2000` takes others.
#[test]
#[expect(clippy::disallowed_methods, reason = "a test, whose size the acceptance suite chooses")]
fn partitions_that_bore_the_usual_load_bear_it_again_after_twentyfold_load() {
    let loads = std::env::var("TIDEGATE_USUAL_LOADS").unwrap_or_else(|_| "1000,4400".to_owned());
    for once in loads.split(',').map(|load| load.parse().unwrap()) {
        let terms =
            OnDemandTerms { read: OnDemand::new(Units::whole(1)), write: OnDemand::new(Units::whole(4_000)) };
        let table = TableConfig::new(SHOP, ORDERS, 1, 1).on_demand(terms).nodes(NODES);
        let mut story = Story::new(nodes(200_000), table.partition_by(PartitionBy::Range));
        let (former, high, after) = etl(&mut story, once, evenly);
        assert!(former == 5 && high * 1000 > once as usize * 20, "{once}: {former} and {high}");
        assert!(after * 10 <= former * 12, "{once}: {former}, {high} and {after}");
    }
}

/// E-ETL.
#[test]
fn a_provisioned_table_whose_hot_ranges_were_cut_has_its_former_partitions_half_an_hour_later() {
    let table = TableConfig::new(SHOP, ORDERS, 1_000, 16_000).partitions(16).mode(TableMode::Global);
    let mut story = Story::new(nodes(20_000), table.nodes(NODES).partition_by(PartitionBy::Range));
    // A quarter of the load in a sixteenth of the keys.
    let skewed = |access: u64| if access.is_multiple_of(4) { evenly(access) >> 4 } else { evenly(access) };
    let (former, high, after) = etl(&mut story, 800, skewed);
    assert!(former == 16 && high >= 20, "{former} and {high}");
    assert!(after * 10 <= former * 12, "{former}, {high} and {after}");
}

/// E-FLAP. The story checks I12 at each merge.
#[test]
fn a_load_that_comes_and_goes_splits_and_merges_a_range_once_in_twenty_minutes_at_most() {
    for period in [30, 60, 120, 300, 600, 900, 1_200] {
        let provisioned = TableConfig::new(SHOP, ORDERS, 1_000, 4_000).partitions(4).mode(TableMode::Global);
        let provisioned = provisioned.nodes(NODES).partition_by(PartitionBy::Range);
        for table in [provisioned, on_demand(400)] {
            let is_on_demand = table.on_demand.is_some();
            let mut story = Story::new(nodes(20_000), table);
            for second in 0..7_200 {
                let units = if second % period < period / 2 { 1_100 } else { 300 };
                story.second(
                    units,
                    10,
                    |access| if is_on_demand { evenly(access) } else { evenly(access) >> 2 },
                );
            }
            assert!(story.splits > 0 || period < 300, "{period}");
            // The load of the last ten minutes counts. Pieces that growth made are joined once
            // where even that fits one partition.
            let most = usize::from(is_on_demand);
            assert!(story.merges <= most || period == 1_200, "{period}: {} merges", story.merges);
            // Two hours of them, of one range.
            assert!(story.cycles() <= 6 * (1 + usize::from(is_on_demand)), "{period}: {}", story.cycles());
        }
    }
}

//! I16: two planes are asked the same; one of them is looked at, and its rates are set to what they
//! are, in between. Their states are the same.

use core::time::Duration;

use tidegate_capacity::view::TableView;
use tidegate_capacity::{Access, Admission, Capacity, PartitionId, TableConfig, TableMode, Units};
use tidegate_core::{AccessOperation, Timestamp};

use super::random_store::SeededDraws;

const SHOP: &str = "shop";

/// The levels of all buckets after a run in which the refill is computed `looks` times between
/// two requests.
fn left_after(seed: u64, looks: u64) -> (TableView, tidegate_capacity::view::NodesView) {
    let mut draws = SeededDraws(seed);
    let begin = Timestamp::from_secs(1_795_210_800);
    let table = TableConfig::new(SHOP, "orders", 70, 31).partitions(3).nodes(["a"]).mode(TableMode::Burst);
    let capacity = Capacity::builder().node("a", 1000).table(table).build_at(begin).expect("it fits");
    let mut now = begin;
    for _ in 0..50 {
        let pause = draws.below(300_000_000);
        let key = draws.below(20).to_string().into_bytes();
        for look in 1..=looks {
            let at = now.saturating_add(Duration::from_nanos(pause / (looks + 1) * look));
            for partition in 0..3 {
                for operation in [AccessOperation::Read, AccessOperation::Write] {
                    // Its rate is its share as it is, so that nothing but the refill changes.
                    let rate =
                        capacity.allocate(SHOP, "orders", PartitionId(partition), operation, Units::ZERO, at);
                    rate.expect("the node bears what it bears already");
                }
            }
        }
        now = now.saturating_add(Duration::from_nanos(pause));
        let access = Access::write("orders", &key, 1 + draws.below(4000));
        let answer = capacity.admit(SHOP, &access, now).expect("the table is one of the store");
        if let Admission::Admit(hold) = answer {
            drop(hold);
        }
    }
    let mut view = TableView::new();
    capacity.view_table(0, now, &mut view);
    (view, capacity.view_nodes(now))
}

/// For planted mistakes: 100 cases.
#[test]
pub(crate) fn refill_does_not_depend_on_how_often_it_is_computed() {
    for seed in 0..100 {
        let once = left_after(seed, 0);
        assert_eq!(left_after(seed, 1), once, "seed {seed}");
        assert_eq!(left_after(seed, 1 + seed % 30), once, "seed {seed}");
    }
}

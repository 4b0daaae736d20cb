//! Runs whose demand is the same all the time, of one table on one node.

use core::time::Duration;

use tidegate_capacity::{
    Access, Admission, Capacity, Ceilings, PartitionId, Position, SplitShares, TableConfig, TableMode, Units,
    key_hash,
};
use tidegate_core::{AccessOperation, Timestamp};
use tidegate_sim::invariants::trace::{TracedAccess, TracedAdmission, TracedRefusal};
use tidegate_sim::invariants::{InvariantChecker, LivenessTerms, Violations};

use super::random_store::{SeededDraws, view_of};
use tidegate_capacity::control::Control;

const SHOP: &str = "shop";

/// The violations while a table is asked for so many writes of a unit a second, half of them of one
/// key. `is_servable`: the demand is declared as one that can be served.
fn run(mut table: TableConfig, per_second: u64, seconds: u64, is_servable: bool) -> Violations {
    table.burst = Duration::from_secs(1);
    let begin = Timestamp::from_secs(1_795_210_800);
    let capacity = Capacity::builder().node("a", 1000).table(table.nodes(["a"])).build_at(begin);
    let capacity = capacity.expect("the node can bear the table");
    let mut checker = InvariantChecker::new(&capacity.view_nodes(begin), &[view_of(&capacity, 0, begin)]);
    checker.set_largest_request(0, Units::whole(1));
    if is_servable {
        let terms = LivenessTerms::default().settling(Duration::from_secs(10));
        checker.stationary(0, AccessOperation::Write, begin, terms);
    }
    for number in 0..seconds * per_second {
        let at = begin.saturating_add(Duration::from_nanos(1_000_000_000 / per_second * number));
        let key = if number % 2 == 0 { "hot".to_owned() } else { number.to_string() };
        let write = Access::write("orders", key.as_bytes(), 1);
        let access = TracedAccess {
            at,
            table: 0,
            position: Position::from_hash(key_hash(key.as_bytes())),
            operation: AccessOperation::Write,
            units: Units::whole(1),
            is_first: true,
        };
        match capacity.admit(SHOP, &write, at).expect("the table is one of the store") {
            Admission::Admit(hold) => drop(checker.admit(&TracedAdmission::from_hold(&hold))),
            Admission::Throttle(throttled) => checker.refuse(&TracedRefusal::new(access, &throttled)),
        }
        if is_servable && number.is_multiple_of(per_second) {
            checker.look_at_table(&view_of(&capacity, 0, at));
        }
    }
    checker.violations().clone()
}

/// A demand within the table, its ceilings and the node.
pub(crate) fn servable() -> Violations {
    let table = TableConfig::new(SHOP, "orders", 1, 400)
        .partitions(4)
        .ceilings(Ceilings { read: 300, write: 300 })
        .mode(TableMode::Global);
    run(table, 300, 80, true)
}

/// Ten times the rate of a partition, for many times as long as its burst credit lasts.
pub(crate) fn overloaded() -> Violations {
    let table = TableConfig::new(SHOP, "orders", 1, 10).mode(TableMode::Burst);
    run(table, 100, 20, false)
}

/// Ten times the tokens of a table with global admission, for many times as long as they last.
pub(crate) fn flooded() -> Violations {
    let table = TableConfig::new(SHOP, "orders", 1, 10).mode(TableMode::Global);
    run(table, 100, 20, false)
}

/// An operator cuts a cool table at an instant and a key from the seed; control loops join the
/// parts again. The violations, and the instant of the join in seconds after the cut.
pub(crate) fn cut_while_cool(seed: u64) -> (Violations, Option<u64>) {
    let mut draws = SeededDraws(seed);
    let begin = Timestamp::from_secs(1_795_210_800);
    let table = TableConfig::new(SHOP, "orders", 10, 10).mode(TableMode::Global).nodes(["a"]);
    let capacity = Capacity::builder().node("a", 1000).table(table).build_at(begin);
    let capacity = capacity.expect("the node can bear the table");
    let mut checker = InvariantChecker::new(&capacity.view_nodes(begin), &[view_of(&capacity, 0, begin)]);
    let mut control = Control::new(seed, begin);
    let cut_at = 620 + draws.below(60);
    let mut joined_after = None;
    for second in 1..=1320 {
        let now = begin.saturating_add(Duration::from_secs(second));
        if second == cut_at {
            let at = Position::from_hash(draws.below(u64::MAX) | 1);
            let cut = capacity.split(SHOP, "orders", PartitionId(0), at, SplitShares::HALF, now);
            cut.expect("the position is within the only partition");
            checker.look_at_table(&view_of(&capacity, 0, now));
        }
        for plan in control.tick(&capacity, now) {
            if control.reshape(&capacity, &plan, now) == Ok(true) {
                joined_after = joined_after.or(Some(second - cut_at));
            }
        }
        checker.look_at_table(&view_of(&capacity, 0, now));
    }
    (checker.violations().clone(), joined_after)
}

#[test]
fn parts_of_a_cut_are_joined_after_ten_minutes_and_not_before() {
    for seed in 0..5 {
        let (violations, joined_after) = cut_while_cool(seed);
        assert_eq!(violations.kept(), [], "seed {seed}");
        assert!(joined_after.is_some_and(|seconds| (600..=640).contains(&seconds)), "{joined_after:?}");
    }
}

#[test]
fn a_servable_demand_is_served_and_an_overload_is_bounded() {
    assert_eq!(servable().kept(), []);
    assert_eq!(overloaded().kept(), []);
    assert_eq!(flooded().kept(), []);
}

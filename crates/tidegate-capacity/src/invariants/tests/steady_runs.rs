//! Runs whose demand is the same all the time, of one table on one node.

use core::time::Duration;

use super::random_store::view_of;
use crate::access::Access;
use crate::capacity::{Admission, Capacity};
use crate::invariants::{InvariantChecker, LivenessTerms, Violations};
use crate::key_hash::key_hash;
use crate::position::Position;
use crate::table_config::{Ceilings, TableConfig, TableMode};
use crate::trace::{TracedAccess, TracedAdmission, TracedRefusal};
use crate::units::Units;
use tidegate_core::{AccessOperation, Timestamp};

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
            position: Position::of_hash(key_hash(key.as_bytes())),
            operation: AccessOperation::Write,
            units: Units::whole(1),
            is_first: true,
        };
        match capacity.admit(SHOP, &write, at).expect("the table is one of the store") {
            Admission::Admit(hold) => drop(checker.admit(&TracedAdmission::of(&hold))),
            Admission::Throttle(throttled) => checker.refuse(&TracedRefusal::of(access, &throttled)),
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

#[test]
fn a_servable_demand_is_served_and_an_overload_is_bounded() {
    assert_eq!(servable().kept(), []);
    assert_eq!(overloaded().kept(), []);
}

//! The control loops of tables, run by the ticks of the engine.

use core::time::Duration;

use tidegate_capacity::on_demand::{OnDemand, OnDemandTerms};
use tidegate_capacity::plan::{PlanReason, PlannedChange};
use tidegate_capacity::{
    Access, AccessOperation, Capacity, CapacityBuilder, Ceilings, IndexWrite, TableConfig, TableMode, Units,
    key_hash,
};
use tidegate_core::{Reason, Timestamp};
use tidegate_engine::{
    Answered, Decision, Engine, EngineConfig, Event, NamespaceConfig, Outcome, Progress, Request, RoomUse,
    Step, Tick,
};
use tidegate_overload::{Overload, ResourceConfig};

use crate::world::NOW;

const API: &str = "api";

fn engine(tables: CapacityBuilder) -> Engine {
    let engine = Engine::builder(EngineConfig::seeded([1, 2, 3, 4])).namespace(NamespaceConfig::new(API, []));
    engine.build().unwrap().with_planes(tables, Overload::builder(7), NOW).unwrap()
}

fn at(seconds: u64) -> Timestamp {
    NOW.saturating_add(Duration::from_secs(seconds))
}

/// So many keys of the first of `partitions` partitions by hash.
fn keys_of_first(partitions: u64, count: usize) -> Vec<String> {
    let keys = (0..).map(|number| format!("order-{number}"));
    keys.filter(|key| key_hash(key.as_bytes()) < u64::MAX / partitions).take(count).collect()
}

fn write(engine: &Engine, key: &str, now: Timestamp) -> Result<(), Reason> {
    match engine
        .admit(&Request::new(API, ()).access(Access::write("orders", key.as_bytes(), 1)), now)
        .unwrap()
    {
        Step::Decided(Decision::Admit(_)) => Ok(()),
        Step::Decided(Decision::Refuse(refused)) => Err(refused.reason()),
        Step::Ask(pending) => panic!("{pending:?}"),
    }
}

/// The requests of one second over these keys in turn, and the tick at its end: the number that was
/// refused.
fn second(engine: &Engine, keys: &[String], second: u64, count: u64) -> (u64, Tick) {
    let mut refused = 0;
    for request in 0..count {
        let now = at(second).saturating_add(Duration::from_nanos(request * 1_000_000_000 / count));
        let key = &keys[(second * count + request) as usize % keys.len()];
        refused += u64::from(write(engine, key, now).is_err());
    }
    (refused, engine.tick(at(second + 1)))
}

fn hot_table(mode: TableMode) -> CapacityBuilder {
    let ceilings = Ceilings { read: 1000, write: 1000 };
    let orders = TableConfig::new(API, "orders", 400, 4000).partitions(4).ceilings(ceilings);
    Capacity::builder().node("a", 20_000).table(orders.mode(mode).nodes(["a"]))
}

#[test]
fn a_partition_beyond_its_ceiling_is_split_by_ticks_and_a_reload_loses_nothing_of_it() {
    let mut engine = engine(hot_table(TableMode::Global));
    let keys = keys_of_first(4, 200);
    let mut reshaped = Vec::new();
    let mut refused = Vec::new();
    for number in 0..90 {
        if number == 20 {
            // Other limits for the same table: the loops go on.
            let more = hot_table(TableMode::Global).table(TableConfig::new(API, "users", 1, 1).nodes(["a"]));
            engine = engine.with_planes(more, Overload::builder(7), at(number)).unwrap();
        }
        let (count, tick) = second(&engine, &keys, number, 1600);
        refused.push(count);
        reshaped.extend(tick.reshaped);
    }
    assert!(refused[2..20].iter().all(|count| *count >= 590), "{refused:?}");
    assert!(refused[70..].iter().all(|count| *count == 0), "{refused:?}");
    let [plan] = &reshaped[..] else { panic!("{reshaped:?}") };
    assert_eq!(
        (plan.table.as_str(), plan.reason),
        ("orders", PlanReason::AboveCeiling(AccessOperation::Write))
    );
    assert!(plan.benefit >= Units::whole(500), "{}", plan.benefit);
    let orders = engine.table_statuses(0, at(90)).next().unwrap();
    assert_eq!((orders.partitions, orders.splits, orders.merges), (5, 1, 0));
    // A reload with the same number of partitions keeps them as they were split.
    let again = engine.with_planes(hot_table(TableMode::Global), Overload::builder(7), at(90)).unwrap();
    assert_eq!(again.table_statuses(0, at(90)).next().unwrap().partitions, 5);
}

#[test]
fn a_table_without_splits_keeps_its_partitions_and_has_a_verdict() {
    let ceilings = Ceilings { read: 1000, write: 1000 };
    let orders = TableConfig::new(API, "orders", 400, 4000).partitions(4).ceilings(ceilings).splits(false);
    let orders = orders.mode(TableMode::Global).nodes(["a"]);
    let engine = engine(Capacity::builder().node("a", 20_000).table(orders));
    let keys = keys_of_first(4, 200);
    for number in 0..90 {
        let (refused, tick) = second(&engine, &keys, number, 1600);
        assert!(number < 2 || refused >= 590, "{refused}");
        assert_eq!(tick.reshaped, []);
    }
    let access = Access::write("orders", keys[0].as_bytes(), 1);
    let Progress::Done(explained) = engine.explain(&Request::new(API, ()).access(access), at(90)).unwrap()
    else {
        panic!("no store is asked");
    };
    let [report] = &explained.access[..] else { panic!("{explained:?}") };
    assert!(matches!(report.verdict, Some(tidegate_capacity::split::SplitVerdict::Split(_))), "{report:?}");
    assert_eq!((report.partition, report.node.as_str(), report.mode), (0, "a", TableMode::Global));
    assert_eq!(report.tokens.unwrap().rate, Units::whole(4000));
}

#[test]
fn a_throttled_partition_of_an_adaptive_table_is_boosted() {
    let orders = TableConfig::new(API, "orders", 400, 400).partitions(4).mode(TableMode::Adaptive);
    let mut orders = orders.nodes(["a"]);
    orders.burst = Duration::ZERO;
    let engine = engine(Capacity::builder().node("a", 2000).table(orders));
    let keys = keys_of_first(4, 50);
    let refused: Vec<u64> = (0..40).map(|number| second(&engine, &keys, number, 300).0).collect();
    assert!(refused[1..5].iter().all(|count| *count >= 190), "{refused:?}");
    assert!(refused[30..].iter().all(|count| *count == 0), "{refused:?}");
}

#[test]
fn the_limit_of_a_table_on_demand_doubles_a_minute_by_ticks() {
    let terms =
        OnDemandTerms { read: OnDemand::new(Units::whole(100)), write: OnDemand::new(Units::whole(100)) };
    let orders = TableConfig::new(API, "orders", 1, 1).on_demand(terms).nodes(["a"]);
    let engine = engine(Capacity::builder().node("a", 20_000).table(orders));
    let keys: Vec<String> = (0..1000).map(|number| format!("order-{number}")).collect();
    let refused: Vec<u64> = (0..260).map(|number| second(&engine, &keys, number, 700).0).collect();
    assert!(refused[50] > 580, "{refused:?}");
    assert!(refused[250..].iter().all(|count| *count == 0), "{refused:?}");
}

/// A table that has had 1600 units a second may use 3200, and is asked for them at once.
#[test]
fn a_jump_to_what_a_table_may_use_is_met_by_ticks_that_come_when_they_are_asked_for() {
    let terms =
        OnDemandTerms { read: OnDemand::new(Units::whole(1)), write: OnDemand::new(Units::whole(100)) };
    let orders = TableConfig::new(API, "orders", 1, 1).on_demand(terms).nodes(["a"]);
    let orders = orders.ceilings(Ceilings { read: 1000, write: 100 });
    let engine = engine(Capacity::builder().node("a", 100_000).table(orders));
    let keys: Vec<String> = (0..1000).map(|number| format!("order-{number}")).collect();
    let partitions = |number| engine.table_statuses(0, at(number)).next().unwrap().partitions;
    (0..420).for_each(|number| drop(second(&engine, &keys, number, 1600)));
    assert!(partitions(420) >= 32, "{}", partitions(420));
    // Idle, until they are merged.
    (420..3_000).for_each(|number| drop(engine.tick(at(number))));
    assert!(partitions(3_000) <= 2, "{}", partitions(3_000));
    let (mut next, mut cuts) = (at(3_000), Vec::new());
    for request in 0..9_000_u64 {
        let now = at(3_000).saturating_add(Duration::from_nanos(request * 1_000_000 / 3));
        if now >= next {
            let tick = engine.tick(now);
            assert!(tick.next > now && tick.next <= now.saturating_add(Engine::TICK_MAX));
            next = tick.next;
            cuts.extend(tick.reshaped);
        }
        write(&engine, &keys[request as usize % keys.len()], now).unwrap();
    }
    assert!(cuts.iter().all(|plan| plan.reason == PlanReason::Growth), "{cuts:?}");
    assert!((32..=66).contains(&partitions(3_003)), "{}", partitions(3_003));
}

#[test]
fn a_move_is_proposed_until_it_is_reported_as_made() {
    let ceilings = Ceilings { read: 1000, write: 1000 };
    let orders = TableConfig::new(API, "orders", 400, 400).partitions(4).ceilings(ceilings);
    let orders = orders.mode(TableMode::Global).nodes(["a", "a", "a", "a", "b"]);
    let engine = engine(Capacity::builder().node("a", 1000).node("b", 4000).table(orders));
    // Reads and writes of three partitions of four, beyond what the node can do.
    let keys: Vec<String> = (0..1000).map(|number| format!("order-{number}")).collect();
    for number in 0..40 {
        for (index, key) in keys.iter().enumerate() {
            let now = at(number).saturating_add(Duration::from_millis(index as u64));
            // A decision of either kind is offered load.
            let read = Access::read("orders", key.as_bytes(), 1);
            let _ = engine.admit(&Request::new(API, ()).access(read), now).unwrap();
            let _ = write(&engine, key, now);
        }
        let _ = engine.tick(at(number + 1));
    }
    let moves = engine.proposed_moves();
    let Some(PlannedChange::Move(order)) = moves.first().map(|plan| &plan.change) else {
        panic!("{moves:?}");
    };
    assert_eq!((order.from.as_str(), order.to.as_str()), ("a", "b"));
    let partition = order.partition.0;
    let placed = Event::Placement { namespace: API, table: "orders", partition, node: "b" };
    engine.event(placed, at(40)).unwrap();
    let is_of = |plan: &tidegate_capacity::plan::Plan| matches!(&plan.change, PlannedChange::Move(one) if one.partition.0 == partition);
    assert!(!engine.proposed_moves().iter().any(is_of));
    let mut partitions = engine.partition_statuses(API, "orders", at(40)).unwrap();
    assert_eq!(partitions.find(|status| status.id.0 == partition).unwrap().node, "b");
}

fn indexed() -> CapacityBuilder {
    let orders = TableConfig::new(API, "orders", 100, 100).nodes(["a"]);
    let index = |name, write| TableConfig::new(API, name, 100, write).index_of("orders").nodes(["a"]);
    let tables = Capacity::builder().node("a", 2000).table(orders);
    tables.table(index("by-user", 100)).table(index("by-day", 5))
}

#[test]
fn a_write_that_has_waited_changes_the_entries_of_indexes_that_it_names() {
    let to_user = [IndexWrite { index: "by-user", key: b"ada", size: 3 << 10 }];
    assert_eq!(left_after_two_writes(Some(&to_user)), [98, 94, 5], "orders, by-user and by-day");
    assert_eq!(left_after_two_writes(Some(&[])), [98, 100, 5]);
    assert_eq!(left_after_two_writes(None), [98, 98, 3]);
}

/// The units left of the table and its indexes when one write was admitted and another one waited.
fn left_after_two_writes(index_writes: Option<&[IndexWrite<'_>]>) -> Vec<u64> {
    let resources =
        Overload::builder(7).resource("app", ResourceConfig::new(1).waiting_max(RoomUse::new(2, 1 << 20)));
    let engine = engine(indexed()).with_planes(indexed(), resources, NOW).unwrap();
    let write = Access { index_writes, ..Access::write("orders", b"7", 1) };
    let request = Request::new(API, ()).resource("app").access(write);
    let Step::Decided(Decision::Admit(permit)) = engine.admit(&request, NOW).unwrap() else {
        panic!("the place is free");
    };
    let patient = request.may_wait_until(at(60));
    let Step::Ask(pending) = engine.admit(&patient, NOW).unwrap() else { panic!("it waits") };
    drop(engine.settle(permit, Outcome::Succeeded, NOW));
    let Step::Decided(Decision::Admit(_permit)) = engine.resume(pending, Answered::Turn, NOW) else {
        panic!("the place is free");
    };
    engine.table_statuses(0, NOW).map(|table| table.write.left.whole_left()).collect()
}

#[test]
fn a_look_at_a_write_sees_the_index_that_refuses_it() {
    let engine = engine(indexed());
    let to_user = [IndexWrite { index: "by-user", key: b"ada", size: 1 }];
    let to_day = [IndexWrite { index: "by-day", key: b"monday", size: 6 << 10 }];
    let access = |writes| Request::new(API, ()).access(Access::write("orders", b"7", 1).index_writes(writes));
    let decide = |request: &Request<'_>| match engine.admit(request, NOW).unwrap() {
        Step::Decided(Decision::Admit(_)) => None,
        Step::Decided(Decision::Refuse(refused)) => Some(refused.into_refusal()),
        Step::Ask(pending) => panic!("{pending:?}"),
    };
    // The debt of one unit that the entry leaves refuses the next one.
    assert_eq!(decide(&access(&to_day)), None);
    let Progress::Done(look) = engine.peek(&access(&to_day), NOW).unwrap() else { panic!("no store") };
    let refusal = look.refusal.unwrap();
    assert_eq!(Some(&refusal), decide(&access(&to_day)).as_ref());
    let details = refusal.details.as_deref().and_then(|details| details.capacity()).unwrap();
    assert_eq!((&*details.table, details.index.as_deref()), ("orders", Some("by-day")));
    assert_eq!(refusal.name(), "orders/by-day");
    assert_eq!(decide(&access(&to_user)), None);
    let Progress::Done(explained) = engine.explain(&access(&to_day), NOW).unwrap() else {
        panic!("no store")
    };
    let shown: Vec<_> =
        explained.access.iter().map(|one| (one.index.as_deref(), one.units, one.is_admitted)).collect();
    assert_eq!(shown, [(None, Units::whole(1), true), (Some("by-day"), Units::whole(6), false)]);
}

use core::time::Duration;

use super::*;
use crate::access::{Access, AccessKind, ReadConsistency};
use crate::admission::tokens::TokenTerms;
use crate::capacity::Admission;
use crate::control::on_demand::{OnDemand, OnDemandTerms};
use crate::control::placement::{MoveOrder, MoveProgress, PlacementDriver};
use crate::control::plan::{PlanReason, PlannedChange};
use crate::control::reshape::SplitShares;
use crate::layout::position::PartitionBy;
use crate::table_config::{Ceilings, TableConfig, TableMode};

const SHOP: &str = "shop";

fn at(millis: u64) -> Timestamp {
    Timestamp::from_millis(1_795_210_800_000 + millis)
}

/// A driver that does at once what it is told, fails, or lies.
#[derive(Default)]
struct TestDriver {
    fails: bool,
    lies: bool,
    placed: Vec<(PartitionId, String)>,
}

impl PlacementDriver for TestDriver {
    type Error = &'static str;

    fn start(&mut self, order: &MoveOrder, _: Timestamp) -> Result<MoveProgress, Self::Error> {
        if self.fails {
            return Err("the node does not answer");
        }
        if !self.lies {
            self.placed.push((order.partition, order.to.clone()));
        }
        Ok(MoveProgress::Running { gated_until: None })
    }

    fn progress(&mut self, _: &MoveOrder, _: Timestamp) -> Result<MoveProgress, Self::Error> {
        if self.fails { Err("the node does not answer") } else { Ok(MoveProgress::Done) }
    }

    fn lies_on(&mut self, order: &MoveOrder, node: &str, _: Timestamp) -> Result<bool, Self::Error> {
        Ok(self.placed.contains(&(order.partition, node.to_owned())))
    }

    fn abort(&mut self, _: &MoveOrder, _: Timestamp) -> Result<bool, Self::Error> {
        Ok(true)
    }
}

/// The share of writes that are refused in each of so many seconds, with ticks and all plans
/// carried out. `key` is the key of an access by its number.
struct Run {
    capacity: Capacity,
    control: Control,
    driver: TestDriver,
    second: u64,
    access: u64,
    splits: usize,
    isolations: usize,
    /// The kind of an access by its number, and how many of ten are scans.
    kind: fn(u64, u64) -> AccessKind,
    scans: u64,
    moves: Vec<MoveOrder>,
    /// Of the last move.
    benefit: Units,
}

impl Run {
    fn new(table: TableConfig) -> Self {
        let nodes = ["a", "b", "c", "d"];
        let builder = nodes.iter().fold(Capacity::builder(), |builder, node| builder.node(*node, 8000));
        let capacity = builder.table(table.nodes(nodes)).build_at(at(0)).unwrap();
        let driver = TestDriver::default();
        Self {
            capacity,
            control: Control::new(7, at(0)),
            driver,
            second: 0,
            access: 0,
            splits: 0,
            isolations: 0,
            kind: |_, _| AccessKind::Write,
            scans: 0,
            moves: Vec::new(),
            benefit: Units::ZERO,
        }
    }

    /// The thousandths of the writes of a second that are refused.
    fn second(&mut self, units: u64, key: impl Fn(u64) -> String) -> u64 {
        let mut refused = 0_u64;
        for access in 0..units {
            let now = at(self.second * 1000 + access * 1000 / units);
            let key = key(self.access);
            self.access += 1;
            let kind = (self.kind)(access, self.scans);
            let write = Access::new("orders", key.as_bytes(), kind, 1);
            refused +=
                u64::from(matches!(self.capacity.admit(SHOP, &write, now).unwrap(), Admission::Throttle(_)));
        }
        self.second += 1;
        let now = at(self.second * 1000);
        for plan in self.control.tick(&self.capacity, now) {
            self.splits += usize::from(matches!(plan.change, PlannedChange::Split { .. }));
            self.isolations += usize::from(matches!(plan.change, PlannedChange::Isolate { .. }));
            if let PlannedChange::Move(order) = &plan.change {
                self.moves.push(order.clone());
                self.benefit = plan.benefit;
            }
            let done = self.control.carry_out(&self.capacity, &plan, &mut self.driver, now);
            assert!(done.is_ok() || self.driver.fails, "{done:?}");
        }
        self.control.follow_moves(&self.capacity, &mut self.driver, now);
        refused * 1000 / units
    }

    fn sketches(&self) -> usize {
        self.control.tables.iter().map(|load| load.sketches).sum()
    }

    fn partitions(&self) -> usize {
        self.capacity.partitions(SHOP, "orders", at(self.second * 1000)).unwrap().count()
    }
}

fn table(mode: TableMode) -> TableConfig {
    TableConfig::new(SHOP, "orders", 1000, 4000)
        .mode(mode)
        .partitions(4)
        .ceilings(Ceilings { read: 3000, write: 1000 })
}

/// A number without order, from a number.
fn mixed(number: u64) -> u64 {
    let mixed = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb) >> 13
}

/// A key in the first of four partitions.
fn key_of_first_quarter(number: u64) -> String {
    key_of_quarter(0, number)
}

fn key_of_quarter(quarter: u64, number: u64) -> String {
    (0..64)
        .map(|try_number| format!("{}-{try_number}", mixed(number) % 500))
        .find(|key| crate::layout::key_hash::key_hash(key.as_bytes()) >> 62 == quarter)
        .unwrap()
}

#[test]
fn a_hot_range_is_split_until_nothing_is_refused_and_merged_when_it_is_cool() {
    let mut run = Run::new(table(TableMode::Global));
    // The first second has a second of the ceiling beside.
    let fifth = (0..5).map(|_| run.second(1800, key_of_first_quarter)).last().unwrap();
    assert!(fifth > 400, "{fifth}");
    let last = (1..90).map(|_| run.second(1800, key_of_first_quarter)).last().unwrap();
    assert!(last < 1, "{last}");
    assert!((1..=2).contains(&run.splits), "{}", run.splits);
    let split = run.partitions();
    // Idle: after ten minutes the parts are joined again, and no further than configured.
    (0..1500).for_each(|_| {
        run.second(10, key_of_first_quarter);
    });
    assert!(split > 4 && run.partitions() == 4, "{split} and {}", run.partitions());
}

#[test]
fn a_partition_above_its_ceiling_is_cut_after_half_a_minute_and_its_parts_after_another() {
    let mut run = Run::new(table(TableMode::Global));
    let cuts: Vec<u64> = (0..65)
        .filter_map(|_| {
            let before = run.splits;
            run.second(3600, key_of_first_quarter);
            (run.splits > before).then_some(run.second)
        })
        .collect();
    // Refusals are seen after a second, and three windows follow. The parts have windows at once.
    assert_eq!(cuts, [31, 61]);
    assert_eq!((run.splits, run.second(3600, key_of_first_quarter)), (3, 0));
}

#[test]
fn a_partition_at_ten_ceilings_is_cut_in_rounds_until_nothing_is_refused() {
    let table = TableConfig::new(SHOP, "orders", 1000, 1000).mode(TableMode::Global).partitions(4);
    let mut run = Run::new(table.ceilings(Ceilings { read: 3000, write: 300 }));
    let terms = TokenTerms::from_rate(Units::whole(4000));
    run.capacity.set_tokens(SHOP, "orders", AccessOperation::Write, terms, at(0)).unwrap();
    let mut rounds = Vec::new();
    for _ in 0..125 {
        let (splits, start) = (run.splits, run.second);
        let refused = run.second(3000, key_of_first_quarter);
        if run.splits > splits {
            rounds.push((start + 1, run.splits - splits, refused));
        }
    }
    let times: Vec<u64> = rounds.iter().map(|round| round.0).collect();
    assert_eq!(times, [31, 61, 91, 121], "{rounds:?}");
    // One part, two, four, and those of eight that are above their ceilings.
    let counts: Vec<usize> = rounds.iter().map(|round| round.1).collect();
    assert_eq!(&counts[..3], [1, 2, 4], "{rounds:?}");
    // Each round lowers the refused share by more than a tenth.
    assert!(rounds.windows(2).all(|pair| pair[1].2 * 10 < pair[0].2 * 9), "{rounds:?}");
    assert_eq!(run.second(3000, key_of_first_quarter), 0);
}

#[test]
fn keys_are_sampled_from_the_first_second_above_the_ceiling_on() {
    let mut run = Run::new(table(TableMode::Global));
    run.second(400, key_of_first_quarter);
    assert_eq!(run.sketches(), 0);
    // The bucket of the ceiling is full: nothing is refused yet.
    assert_eq!(run.second(1100, key_of_first_quarter), 0);
    assert_eq!(run.sketches(), 1);
}

#[test]
fn what_an_allocation_refuses_is_no_reason_to_sample_keys_or_to_cut() {
    let table = table(TableMode::Static).ceilings(Ceilings { read: 3000, write: 3000 });
    let mut run = Run::new(table);
    for _ in 0..40 {
        // Three times the share, and below half of the ceiling.
        assert!(run.second(1400, key_of_first_quarter) < 600);
    }
    assert!(run.sketches() == 0 && run.splits == 0);
    // Above half of the ceiling the keys are sampled, and still nothing is cut.
    for _ in 0..60 {
        run.second(2900, key_of_first_quarter);
    }
    assert!(run.sketches() == 1 && run.splits == 0, "{}", run.splits);
    let status = run.capacity.partitions(SHOP, "orders", at(100_000)).unwrap().next().unwrap();
    assert!(status.write.throttled > Units::ZERO && status.write.throttled_at_ceiling == Units::ZERO);
}

#[test]
fn a_table_that_is_used_up_is_no_reason_to_cut_a_partition_of_it() {
    let mut run = Run::new(table(TableMode::Global));
    let terms = TokenTerms::from_rate(Units::whole(800));
    run.capacity.set_tokens(SHOP, "orders", AccessOperation::Write, terms, at(0)).unwrap();
    for _ in 0..90 {
        // Above the ceiling of the partition, which refuses nothing.
        run.second(1800, key_of_first_quarter);
    }
    assert_eq!((run.sketches(), run.splits), (1, 0));
    let verdict = run.control.verdict((SHOP, "orders"), PartitionId(0), AccessOperation::Write);
    assert_eq!(verdict, Some(&SplitVerdict::Wait));
}

#[test]
fn more_hot_partitions_than_sketches_are_judged_in_turn() {
    const COUNT: u32 = census::SKETCHES_MAX as u32 + 40;
    let table = TableConfig::new(SHOP, "orders", 1000, u64::from(COUNT) * 10)
        .mode(TableMode::Burst)
        .partitions(COUNT)
        .partition_by(PartitionBy::Slot)
        .ceilings(Ceilings { read: 3000, write: 10 });
    let mut run = Run::new(table);
    let slot = |partition: u32| {
        let first = run.capacity.configured_bounds(SHOP, "orders").unwrap()[partition as usize];
        let is_it =
            |key: &String| crate::layout::position::slot_of(key.as_bytes()) == first.first_word() as u16;
        (0..200_000).map(|number: u32| number.to_string()).find(is_it).unwrap()
    };
    // One key for each partition: there is nothing that could be cut.
    let keys: Vec<String> = (0..COUNT).map(slot).collect();
    let mut judged = std::collections::BTreeSet::new();
    for _ in 0..110 {
        run.second(u64::from(COUNT) * 20, |access| keys[access as usize % keys.len()].clone());
        assert!(run.sketches() <= census::SKETCHES_MAX);
        judged.extend((0..COUNT).filter(|id| {
            let verdict = run.control.verdict((SHOP, "orders"), PartitionId(*id), AccessOperation::Write);
            matches!(verdict, Some(SplitVerdict::HotKey { .. }))
        }));
    }
    assert_eq!(judged.len(), COUNT as usize);
}

#[test]
fn one_hot_key_is_cut_twice_at_most_and_then_left_alone() {
    let mut run = Run::new(table(TableMode::Global));
    let hot = key_of_first_quarter(1234);
    let key = |number: u64| {
        if number.is_multiple_of(2) { hot.clone() } else { key_of_first_quarter(number) }
    };
    for _ in 0..180 {
        run.second(2600, key);
    }
    let hot: Vec<_> = run
        .capacity
        .partitions(SHOP, "orders", at(run.second * 1000))
        .unwrap()
        .map(|one| one.id)
        .filter(|id| {
            let verdict = run.control.verdict((SHOP, "orders"), *id, AccessOperation::Write);
            matches!(verdict, Some(SplitVerdict::HotKey { .. }))
        })
        .collect();
    assert_eq!(hot.len(), 1);
    let around_hot = run.splits;
    assert_eq!(run.isolations, 1, "the cuts on both sides are one plan");
    for _ in 0..60 {
        run.second(2600, key);
    }
    assert_eq!(run.splits, around_hot, "no cut helps any more");
    assert!(run.splits <= 2, "the neighbours' own");
}

#[test]
fn neighbours_of_a_hot_key_that_were_left_once_stay_until_they_are_clearly_more() {
    let mut run = Run::new(table(TableMode::Global));
    let hot = key_of_first_quarter(1234);
    // Of 2600, 10 are its neighbours: fewer than a sixtieth of the ceiling, which is 16.7.
    let every = |count: u64| {
        let hot = hot.clone();
        move |number: u64| {
            if number.is_multiple_of(count) { key_of_first_quarter(number) } else { hot.clone() }
        }
    };
    (0..60).for_each(|_| assert!(run.second(2600, every(260)) > 0));
    assert_eq!(run.splits + run.isolations, 0);
    for _ in 0..60 {
        run.second(2600, every(104));
    }
    assert_eq!(run.splits + run.isolations, 0, "25 would have been worth it at first");
    for _ in 0..60 {
        run.second(2600, every(26));
    }
    assert_eq!(run.splits + run.isolations, 1, "100 are worth it");
}

#[test]
fn hot_keys_that_begin_with_the_same_eight_bytes_do_not_stop_the_control() {
    let write =
        OnDemandTerms { read: OnDemand::new(Units::whole(100)), write: OnDemand::new(Units::whole(4000)) };
    let table = TableConfig::new(SHOP, "orders", 1, 1)
        .partition_by(PartitionBy::Range)
        .ceilings(Ceilings { read: 3000, write: 1000 })
        .on_demand(write);
    let hottest = |access: u64| u64::from(!access.is_multiple_of(3)) * 7;
    for hot in [hottest as fn(u64) -> u64, |access| mixed(access) % 1000] {
        let mut run = Run::new(table.clone());
        for _ in 0..150 {
            run.second(2400, |access| format!("customer-{:06}", hot(access)));
            let now = at(run.second * 1000);
            for plan in run.control.grow(&run.capacity, now) {
                run.control.carry_out(&run.capacity, &plan, &mut run.driver, now).unwrap();
            }
        }
        assert!(run.splits + run.isolations > 0 && run.partitions() < 100, "{}", run.partitions());
    }
}

#[test]
fn a_key_is_isolated_by_two_cuts_or_by_none() {
    let table = table(TableMode::Global).partition_by(PartitionBy::Slot);
    let capacity = Capacity::builder().node("a", 8000).table(table.nodes(["a"])).build_at(at(0)).unwrap();
    let before = capacity.fingerprint();
    let shares = [SplitShares::HALF; 2];
    let isolate = |id, cuts: [u16; 2]| {
        let cuts = cuts.map(crate::layout::position::Position::from_slot);
        capacity.isolate(SHOP, "orders", PartitionId(id), cuts, shares, at(0))
    };
    for cuts in [[0, 1], [100, 100], [100, 4096], [5000, 5001]] {
        let error = isolate(0, cuts).unwrap_err().to_string();
        assert!(error.contains("partition 0"), "{error}");
    }
    assert_eq!(capacity.fingerprint(), before);
    assert_eq!(isolate(0, [100, 101]), Ok([4, 6, 7].map(PartitionId)));
    let statuses: Vec<_> = capacity.partitions(SHOP, "orders", at(0)).unwrap().take(4).collect();
    let ranges: Vec<String> = statuses.iter().map(|status| status.range.to_string()).collect();
    assert_eq!(ranges, ["0-99", "100-100", "101-4095", "4096-8191"]);
    let rates = statuses.iter().map(|status| status.write_rate.whole_left());
    assert_eq!(rates.collect::<Vec<_>>(), [500, 250, 250, 1000]);
    assert!(isolate(0, [100, 101]).is_err(), "it was cut");
}

#[test]
fn an_adaptive_table_gives_a_throttled_partition_its_demand_within_fifteen_seconds() {
    let table = TableConfig::new(SHOP, "orders", 1000, 400).mode(TableMode::Adaptive).partitions(4);
    let mut run = Run::new(table.ceilings(Ceilings { read: 3000, write: 1000 }));
    let refused: Vec<u64> = (0..40).map(|_| run.second(150, key_of_first_quarter)).collect();
    assert!(refused[20..].iter().all(|share| *share == 0), "{refused:?}");
    let rate =
        run.capacity.partitions(SHOP, "orders", at(run.second * 1000)).unwrap().next().unwrap().write_rate;
    assert!(rate >= Units::whole(150) && rate <= Units::whole(180), "{rate}");
}

#[test]
fn a_boost_beyond_the_room_of_its_node_is_made_as_far_as_there_is_room_the_most_refused_first() {
    let table = TableConfig::new(SHOP, "orders", 4, 400).mode(TableMode::Adaptive).partitions(4);
    let builder = Capacity::builder().node("a", 477);
    let capacity = builder.table(table.nodes(["a"])).build_at(at(0)).unwrap();
    let mut run = Run { capacity, ..Run::new(self::table(TableMode::Static)) };
    // The node has promised 404 of its 477 units. The second quarter is refused 50 a second,
    // the first one 100.
    let key = |number: u64| key_of_quarter(u64::from(number % 350 >= 200), number);
    for _ in 0..15 {
        run.second(350, key);
    }
    let rates = |run: &Run| -> Vec<Units> {
        let statuses = run.capacity.partitions(SHOP, "orders", at(run.second * 1000)).unwrap();
        statuses.map(|status| status.write_rate).collect()
    };
    assert_eq!(rates(&run), [173, 100, 100, 100].map(Units::whole));
    assert_eq!(run.capacity.nodes(at(15_000)).next().unwrap().promised, Units::whole(477));
    // A boost that decays leaves its room to the other partition.
    let key = |number: u64| key_of_quarter(u64::from(number % 250 >= 20), number);
    for _ in 0..300 {
        run.second(250, key);
    }
    assert!(rates(&run)[1] > Units::whole(130), "{:?}", rates(&run));
}

#[test]
fn a_late_tick_a_step_back_and_a_restart_of_the_loops_harm_nothing() {
    let mut run = Run::new(table(TableMode::Global));
    for _ in 0..20 {
        run.second(1800, key_of_first_quarter);
    }
    let before = run.capacity.fingerprint();
    let late = at(run.second * 1000 + 90_000);
    assert_eq!(run.control.tick(&run.capacity, late), []);
    assert_eq!(run.control.tick(&run.capacity, at(0)), [], "a step back");
    assert_eq!(run.control.tick(&run.capacity, late.saturating_add(Duration::from_hours(1))), []);
    assert_eq!(run.capacity.fingerprint(), before);
}

#[test]
fn a_driver_that_fails_or_lies_changes_nothing() {
    let mut run = Run::new(table(TableMode::Static));
    let now = at(1000);
    let status = run.capacity.partitions(SHOP, "orders", now).unwrap().next().unwrap();
    let order = MoveOrder::new((SHOP, "orders"), (status.id, status.range), "a", "b");
    let plan = Plan {
        namespace: SHOP.to_owned(),
        table: "orders".to_owned(),
        change: PlannedChange::Move(order),
        reason: PlanReason::NodeBusy,
        benefit: Units::ZERO,
        proposed_at: now,
    };
    let before = run.capacity.fingerprint();
    let mut failing = TestDriver { fails: true, ..TestDriver::default() };
    let error = run.control.carry_out(&run.capacity, &plan, &mut failing, now).unwrap_err();
    assert_eq!(error.to_string(), "the placement driver failed: the node does not answer");
    let mut lying = TestDriver { lies: true, ..TestDriver::default() };
    run.control.carry_out(&run.capacity, &plan, &mut lying, now).unwrap();
    let ended = run.control.follow_moves(&run.capacity, &mut lying, now);
    assert!(matches!(ended[..], [EndedMove { outcome: Ok(false), .. }]), "{ended:?}");
    assert_eq!(run.capacity.fingerprint(), before);
    // An honest one.
    let mut driver = TestDriver::default();
    run.control.carry_out(&run.capacity, &plan, &mut driver, now).unwrap();
    let ended = run.control.follow_moves(&run.capacity, &mut driver, now);
    assert!(matches!(ended[..], [EndedMove { outcome: Ok(true), .. }]));
    assert_eq!(run.capacity.partitions(SHOP, "orders", now).unwrap().next().unwrap().node, "b");
    // The partition has changed since.
    let middle = crate::layout::position::Position::from_hash(status.range.words().1 / 2);
    run.capacity.split(SHOP, "orders", status.id, middle, SplitShares::HALF, now).unwrap();
    let error = run.control.carry_out(&run.capacity, &plan, &mut driver, now).unwrap_err();
    assert!(matches!(error, ControlError::Changed(_)), "{error}");
}

#[test]
fn a_busy_node_gives_replicas_away() {
    let nodes = ["a", "b"];
    let builder = nodes.iter().fold(Capacity::builder(), |builder, node| builder.node(*node, 2000));
    let tables = ["orders", "cold"].iter().fold(builder, |builder, name| {
        builder.table(TableConfig::new(SHOP, *name, 900, 10).mode(TableMode::Global).nodes(["a"]))
    });
    let capacity = tables.build_at(at(0)).unwrap();
    let (mut control, mut driver) = (Control::new(7, at(0)), TestDriver::default());
    let mut moved = Vec::new();
    let mut benefits = Vec::new();
    for second in 0..100_u64 {
        for (name, units) in [("orders", 1500), ("cold", 500)] {
            for access in 0..units {
                let now = at(second * 1000 + access * 1000 / units);
                let strong = AccessKind::Read { consistency: ReadConsistency::Strong };
                let _ = capacity.admit(SHOP, &Access::new(name, b"k", strong, 1), now).unwrap();
            }
        }
        let now = at(second * 1000 + 1000);
        for plan in control.tick(&capacity, now) {
            if let PlannedChange::Move(order) = &plan.change {
                moved.push((order.table.clone(), second + 1));
                benefits.push(plan.benefit);
                control.carry_out(&capacity, &plan, &mut driver, now).unwrap();
            }
        }
        control.follow_moves(&capacity, &mut driver, now);
    }
    // Full at the second beat, the first one with rates, and for a minute after.
    assert_eq!((moved, benefits), (vec![("cold".to_owned(), 80)], vec![Units::ZERO]));
    assert_eq!(capacity.partitions(SHOP, "cold", at(100_000)).unwrap().next().unwrap().node, "b");
}

/// The moves, each with its second, after a partition of 1800 units a second was cut that lies on a
/// node of so many.
fn moves_after_a_cut(node_units: u64) -> Vec<(u64, MoveOrder, Units)> {
    let table = TableConfig::new(SHOP, "orders", 1, 1200)
        .mode(TableMode::Global)
        .cut_at([crate::layout::position::Position::from_hash(1 << 62)])
        .ceilings(Ceilings { read: 3000, write: 1000 });
    let nodes = ["a", "b"];
    let builder = Capacity::builder().node("a", node_units).node("b", 3000);
    let capacity = builder.table(table.nodes(nodes)).build_at(at(0)).unwrap();
    capacity
        .set_tokens(SHOP, "orders", AccessOperation::Write, TokenTerms::from_rate(Units::whole(4000)), at(0))
        .unwrap();
    let mut run = Run { capacity, ..Run::new(self::table(TableMode::Static)) };
    let mut moves = Vec::new();
    for _ in 0..50 {
        let before = run.driver.placed.len();
        run.second(1800, key_of_first_quarter);
        if run.driver.placed.len() > before {
            moves.push((run.second, run.moves.pop().unwrap(), run.benefit));
        }
    }
    assert!((1..=2).contains(&run.splits));
    moves
}

#[test]
fn the_hotter_part_of_a_cut_leaves_a_node_that_cannot_bear_both_at_once() {
    // The cut comes after 32 s; 900 and 900 are more than nine tenths of 1700.
    let moves = moves_after_a_cut(1700);
    assert_eq!(moves.len(), 1, "{moves:?}");
    let (second, order, benefit) = &moves[0];
    assert_eq!((*second, order.from.as_str(), order.to.as_str()), (33, "a", "b"));
    assert!([2, 3].contains(&order.partition.0), "{order:?}");
    assert!(*benefit > Units::whole(90) && *benefit <= Units::whole(110), "{benefit}");
    assert_eq!(moves_after_a_cut(2100), []);
}

#[test]
fn a_node_that_saturates_refuses_less_when_its_replicas_move() {
    // Two partitions of 700 on a node of 1300, whose neighbour is idle.
    let refused = |moves: bool| {
        let table = TableConfig::new(SHOP, "orders", 1, 1200).mode(TableMode::Global).partitions(4);
        let builder = Capacity::builder().node("a", 1300).node("b", 1300);
        let capacity = builder.table(table.nodes(["a", "a", "a", "b"])).build_at(at(0)).unwrap();
        let terms = TokenTerms::from_rate(Units::whole(4000));
        capacity.set_tokens(SHOP, "orders", AccessOperation::Write, terms, at(0)).unwrap();
        let mut run = Run { capacity, ..Run::new(self::table(TableMode::Static)) };
        run.driver.fails = !moves;
        (0..120).map(|_| run.second(1400, |number| key_of_quarter(number % 2, number))).last().unwrap()
    };
    assert!(refused(false) > 30, "{}", refused(false));
    assert_eq!(refused(true), 0);
}

#[test]
fn a_table_without_splits_has_verdicts_and_no_plan_and_one_without_merges_stays_cut() {
    let mut run = Run::new(table(TableMode::Global).splits(false));
    for _ in 0..60 {
        run.second(1800, key_of_first_quarter);
    }
    assert_eq!((run.splits, run.partitions()), (0, 4));
    let verdict = run.control.verdict((SHOP, "orders"), PartitionId(0), AccessOperation::Write);
    assert!(matches!(verdict, Some(SplitVerdict::Split(_))), "{verdict:?}");
    // Allowed by a reload.
    let nodes = ["a", "b", "c", "d"];
    let builder = nodes.iter().fold(Capacity::builder(), |builder, node| builder.node(*node, 8000));
    let after = builder.table(table(TableMode::Global).merges(false).nodes(nodes));
    run.capacity = after.build_over(&run.capacity, at(60_000)).unwrap();
    for _ in 0..60 {
        run.second(1800, key_of_first_quarter);
    }
    assert!(run.splits >= 1);
    let split = run.partitions();
    for _ in 0..1500 {
        run.second(10, key_of_first_quarter);
    }
    assert_eq!(run.partitions(), split, "cool for 25 minutes, and not joined");
}

#[test]
fn a_partition_that_half_of_its_requests_scan_is_not_cut() {
    let verdict = |scans_of_ten: u64| {
        let table = TableConfig::new(SHOP, "orders", 2000, 4).mode(TableMode::Global).partitions(4);
        let mut run = Run::new(table.ceilings(Ceilings { read: 600, write: 1000 }));
        run.kind = |access, scans| {
            if access % 10 < scans {
                AccessKind::Scan { consistency: ReadConsistency::Strong }
            } else {
                AccessKind::Read { consistency: ReadConsistency::Strong }
            }
        };
        run.scans = scans_of_ten;
        for _ in 0..40 {
            run.second(900, key_of_first_quarter);
        }
        let verdict = run.control.verdict((SHOP, "orders"), PartitionId(0), AccessOperation::Read).cloned();
        (verdict, run.splits)
    };
    assert_eq!(verdict(5), (Some(SplitVerdict::Scan), 0));
    let (_, splits) = verdict(4);
    assert_eq!(splits, 1);
}

#[test]
fn a_group_whose_members_all_serve_reads_is_bounded_by_the_ceilings_of_all() {
    let table = TableConfig::new(SHOP, "orders", 2000, 4).mode(TableMode::Global).replicas(3).partitions(4);
    let mut run = Run::new(table.ceilings(Ceilings { read: 500, write: 1000 }));
    let terms = TokenTerms::from_rate(Units::whole(5000));
    run.capacity.set_tokens(SHOP, "orders", AccessOperation::Read, terms, at(0)).unwrap();
    run.kind = |_, _| AccessKind::Read { consistency: ReadConsistency::Eventual };
    // Half a unit each: 2000 units for three members of 500, 700 of them for one key.
    let hot = key_of_first_quarter(1234);
    for _ in 0..35 {
        run.second(4000, |number| if number % 20 < 7 { hot.clone() } else { key_of_first_quarter(number) });
    }
    assert_eq!((run.splits, run.isolations), (1, 0));
    assert_eq!(run.partitions(), 5, "a key of 700 is borne by its group");
}

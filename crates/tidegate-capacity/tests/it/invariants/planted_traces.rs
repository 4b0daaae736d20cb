//! Traces that no plane may write, at least one for each invariant, beside the nearest traces that
//! it may.

use core::time::Duration;

use tidegate_capacity::view::{
    DirectionView, MemberPositions, NodeView, NodesView, PartitionView, TableView, TokensView,
};
use tidegate_capacity::{
    AccessOperation, Bound, KeyRange, PartitionBy, PartitionId, Position, Settlement, TableMode, Units,
};
use tidegate_core::Timestamp;
use tidegate_sim::invariants::trace::{TracedAccess, TracedAdmission, TracedRefusal, TracedReturn};
use tidegate_sim::invariants::{Invariant, InvariantChecker, LivenessTerms, TracedCharge};

const BEGIN: u64 = 1_000_000;

fn at(millis: u64) -> Timestamp {
    Timestamp::from_secs(BEGIN).saturating_add(Duration::from_millis(millis))
}

/// A direction of 10 units a second with a ceiling of 30, full, with two seconds of burst credit.
fn direction() -> DirectionView {
    DirectionView {
        base: Units::whole(10),
        rate: Units::whole(10),
        ceiling: Units::whole(30),
        burst_max: Units::whole(20),
        allocation: Units::whole(10),
        burst: Units::whole(20),
        overflow: Units::ZERO,
        admitted: Units::ZERO,
        offered: Units::ZERO,
    }
}

/// A partition on the nodes 0 to `members`.
fn partition(id: u32, first: u64, end: Option<u64>, members: usize) -> PartitionView {
    let range = KeyRange {
        by: PartitionBy::Hash,
        first: Position::from_hash(first),
        end: end.map(Position::from_hash),
    };
    let members = MemberPositions::new(0..members);
    PartitionView { id: PartitionId(id), range, members, directions: [direction(); 2] }
}

fn table_of(mode: TableMode, partitions: Vec<PartitionView>) -> TableView {
    let units = Units::whole(10 * partitions.len() as u64);
    let tokens = TokensView { rate: units, depth: units, left: units };
    TableView {
        at: at(0),
        mode,
        provisioned: [units; 2],
        tokens: [tokens; 2],
        partitions,
        ..TableView::new()
    }
}

/// Two nodes of 100 units a second.
fn nodes() -> NodesView {
    let node = NodeView {
        rate: Units::whole(100),
        promisable: Units::whole(90),
        depth: Units::whole(10),
        reserve: Units::whole(1),
        left: Units::whole(10),
    };
    NodesView { at: at(0), nodes: vec![node; 2], accounts: Vec::new() }
}

/// One partition and its checker; the heaviest request weighs 5.
struct SmallTrace {
    checker: InvariantChecker,
    view: TableView,
}

impl SmallTrace {
    fn of(mode: TableMode, members: usize) -> Self {
        let view = table_of(mode, vec![partition(0, 0, None, members)]);
        let mut checker = InvariantChecker::new(&nodes(), core::slice::from_ref(&view));
        checker.set_largest_request(0, Units::whole(5));
        Self { checker, view }
    }

    fn access(millis: u64, units: u64) -> TracedAccess {
        TracedAccess {
            at: at(millis),
            table: 0,
            position: Position::from_hash(7),
            operation: AccessOperation::Write,
            units: Units::whole(units),
            is_first: true,
        }
    }

    fn admit(&mut self, millis: u64, units: u64) {
        let _ = self.charge(millis, units);
    }

    fn charge(&mut self, millis: u64, units: u64) -> TracedCharge {
        let (access, billed) = (Self::access(millis, units), Units::whole(units));
        let admission = TracedAdmission { access, partition: PartitionId(0), member: 0, billed };
        self.checker.admit(&admission).expect("there is a partition")
    }

    fn refuse(&mut self, millis: u64, units: u64, bound: Bound, level: i64) {
        let level = Units::from_thousandths(level);
        let access = Self::access(millis, units);
        let beside = Units::ZERO;
        self.checker.refuse(&TracedRefusal { access, partition: PartitionId(0), bound, level, beside });
    }

    /// Shows the table after `change`.
    fn look(&mut self, millis: u64, change: impl FnOnce(&mut TableView)) {
        self.view.at = at(millis);
        change(&mut self.view);
        self.checker.look_at_table(&self.view);
    }

    /// The numbers of the invariants that were broken.
    fn broken(&self) -> Vec<u8> {
        self.checker.violations().broken().map(Invariant::number).collect()
    }
}

#[test]
fn i1_a_table_that_admits_beyond_its_tokens_is_found() {
    let mut trace = SmallTrace::of(TableMode::Global, 1);
    // A rate and a depth of 10, in units that the ceiling and the node bear.
    trace.admit(0, 10);
    trace.admit(1000, 10);
    assert_eq!(trace.broken(), [0; 0]);
    trace.admit(1050, 1);
    assert_eq!(trace.broken(), [1]);
    let mut trace = SmallTrace::of(TableMode::Global, 1);
    trace.checker.set_lease_allowance(0, AccessOperation::Write, Units::whole(1));
    trace.admit(0, 10);
    trace.admit(100, 2);
    assert_eq!(trace.broken(), [0; 0]);
}

#[test]
fn i2_and_i3_a_partition_that_admits_beyond_its_buckets_or_its_ceiling_is_found() {
    let mut trace = SmallTrace::of(TableMode::Static, 1);
    // An allocation of 10 and a request of 5; then 10 a second.
    trace.admit(0, 15);
    trace.admit(1000, 10);
    assert_eq!(trace.broken(), [0; 0]);
    trace.admit(1000, 1);
    assert!(trace.broken().contains(&2), "{:?}", trace.broken());
    let mut trace = SmallTrace::of(TableMode::Static, 1);
    trace.view.directions_mut(|direction| direction.rate = Units::whole(30));
    trace.checker.look_at_table(&trace.view);
    trace.admit(0, 35);
    assert!(!trace.broken().contains(&3), "{:?}", trace.broken());
    trace.admit(0, 1);
    assert!(trace.broken().contains(&3), "{:?}", trace.broken());
}

#[test]
fn i4_a_conforming_partition_that_is_refused_is_found_and_one_that_asks_for_more_is_not() {
    // The node has 1 left, which bursts leave there.
    let refused_after = |asked: u64| {
        let mut trace = SmallTrace::of(TableMode::Global, 1);
        trace.admit(0, asked);
        trace.refuse(0, 1, Bound::Node, 10_000 - 1000 * asked.cast_signed());
        trace.broken()
    };
    assert!(refused_after(9).contains(&4));
    assert_eq!(refused_after(10), [0; 0]);
}

#[test]
fn i5_and_i7_a_burst_without_room_at_its_node_or_a_member_is_found() {
    let mut trace = SmallTrace::of(TableMode::Burst, 1);
    trace.admit(0, 10);
    trace.admit(100, 9);
    assert_eq!(trace.broken(), [0; 0]);
    trace.admit(100, 3);
    assert_eq!(trace.broken(), [5, 7]);
    // The other member has less room than the leader, because it was moved there.
    let mut trace = SmallTrace::of(TableMode::Burst, 2);
    trace.view.is_majority_enough = true;
    trace.look(0, |view| view.partitions[0].members = MemberPositions::new([1]));
    trace.admit(0, 10);
    trace.look(0, |view| {
        view.partitions[0].members = MemberPositions::new([0, 1]);
        view.spend(10_000, 0);
    });
    trace.admit(0, 2);
    assert_eq!(trace.broken(), [7]);
}

#[test]
fn i6_a_node_that_is_promised_more_than_it_may_be_is_found() {
    let promised = |rate: u64| {
        let mut trace = SmallTrace::of(TableMode::Static, 1);
        trace.look(0, |view| view.partitions[0].directions[0].rate = Units::whole(rate));
        trace.broken().contains(&6)
    };
    assert!(!promised(80) && promised(81));
}

#[test]
fn i8_levels_that_differ_from_the_trace_by_a_thousandth_are_found() {
    let shown = |allocation: i64, burst: i64| {
        let mut trace = SmallTrace::of(TableMode::Burst, 1);
        trace.admit(0, 5);
        trace.look(100, |view| {
            view.spend(0, 0);
            let direction = &mut view.partitions[0].directions[1];
            (direction.admitted, direction.offered) = (Units::whole(5), Units::whole(5));
            direction.allocation = Units::from_thousandths(allocation);
            direction.burst = Units::from_thousandths(burst);
        });
        trace.broken()
    };
    assert_eq!(shown(6000, 20_000), [0; 0]);
    assert_eq!(shown(5999, 20_000), [8]);
    assert_eq!(shown(6001, 20_000), [8]);
    assert_eq!(shown(6000, 19_999), [8]);
}

#[test]
fn i8_units_that_do_not_come_back_or_are_not_charged_without_need_are_found() {
    let ended = |surplus: i64, settlement: Settlement, allocation: i64| {
        let mut trace = SmallTrace::of(TableMode::Burst, 1);
        let charge = trace.charge(0, 5);
        let surplus = Units::from_thousandths(surplus);
        trace.checker.end(charge, &TracedReturn { at: at(0), surplus, settlement });
        trace.look(0, |view| {
            let direction = &mut view.partitions[0].directions[1];
            (direction.admitted, direction.offered) = (Units::whole(5) - surplus, Units::whole(5));
            direction.allocation = Units::from_thousandths(allocation);
        });
        trace.broken()
    };
    let part = |returned: i64, unbooked: i64| Settlement {
        returned: Units::from_thousandths(returned),
        unbooked: Units::from_thousandths(unbooked),
        overflow: Units::ZERO,
    };
    assert_eq!(ended(2000, part(2000, 0), 7000), [0; 0]);
    assert_eq!(ended(2000, part(2000, 0), 5000), [8]);
    assert_eq!(ended(2000, part(1000, 0), 7000), [8]);
    assert_eq!(ended(-3000, part(-3000, 0), 2000), [0; 0]);
    assert!(ended(-3000, part(0, 3000), 5000).contains(&8));
}

/// The invariants that two partitions break that replace the only one, as `change` makes them.
fn after_cut(change: impl FnOnce(&mut TableView)) -> Vec<u8> {
    let mut trace = SmallTrace::of(TableMode::Burst, 1);
    trace.look(1000, |view| {
        cut(view, [1, 2]);
        change(view);
    });
    trace.broken()
}

fn cut(view: &mut TableView, ids: [u32; 2]) {
    let mut halves = [partition(ids[0], 0, Some(100), 1), partition(ids[1], 100, None, 1)];
    for half in halves.iter_mut().flat_map(|half| &mut half.directions) {
        (half.base, half.rate, half.burst_max) = (Units::whole(5), Units::whole(5), Units::whole(10));
        (half.allocation, half.burst) = (Units::whole(5), Units::whole(10));
    }
    view.partitions = halves.to_vec();
}

#[test]
fn i10_and_i11_a_cut_that_keeps_everything_passes_and_any_that_does_not_is_found() {
    assert_eq!(after_cut(|_| {}), [0; 0]);
    let write = |view: &mut TableView, index: usize, change: fn(&mut DirectionView)| {
        change(&mut view.partitions[index].directions[1]);
    };
    // Two balances: both parts keep all of the burst credit.
    assert!(after_cut(|view| write(view, 1, |one| one.burst = Units::whole(20))).contains(&10));
    assert!(after_cut(|view| write(view, 0, |one| one.allocation = Units::whole(4))).contains(&10));
    assert!(after_cut(|view| write(view, 0, |one| one.base = Units::whole(6))).contains(&10));
    assert!(after_cut(|view| write(view, 1, |one| one.rate = Units::whole(6))).contains(&10));
    // A gap, an overlap, and a number that is used twice.
    assert!(after_cut(|view| view.partitions[1].range.first = Position::from_hash(101)).contains(&10));
    assert!(after_cut(|view| view.partitions[1].range.first = Position::from_hash(99)).contains(&10));
    let mut trace = SmallTrace::of(TableMode::Burst, 1);
    trace.look(1000, |view| cut(view, [1, 2]));
    trace.look(1000, |view| view.partitions = vec![partition(0, 0, None, 1)]);
    assert!(trace.broken().contains(&10));
    // A ceiling that is cut with the partition.
    assert_eq!(after_cut(|view| write(view, 1, |one| one.ceiling = Units::whole(29))), [11]);
}

#[test]
fn i10_a_decision_by_another_partition_than_the_owner_is_found() {
    let mut trace = SmallTrace::of(TableMode::Burst, 1);
    trace.look(0, |view| cut(view, [1, 2]));
    let admission = |id| TracedAdmission {
        access: SmallTrace::access(0, 1),
        partition: PartitionId(id),
        member: 0,
        billed: Units::whole(1),
    };
    assert!(trace.checker.admit(&admission(1)).is_some());
    assert_eq!(trace.broken(), [0; 0]);
    assert!(trace.checker.admit(&admission(2)).is_some());
    assert_eq!(trace.checker.violations().count(Invariant::Tiling), 1);
    assert!(trace.checker.admit(&admission(0)).is_none());
    assert_eq!(trace.checker.violations().count(Invariant::Tiling), 2);
}

#[test]
fn i12_parts_that_are_joined_too_soon_or_too_often_are_found() {
    const MINUTE: u64 = 60_000;
    // The instants in turn at which the partition is cut and joined.
    let joined = |instants: &[u64]| {
        let mut trace = SmallTrace::of(TableMode::Burst, 1);
        for (turn, minute) in instants.iter().enumerate() {
            let id = 10 * (turn as u32 + 1);
            trace.look(minute * MINUTE, |view| {
                if turn % 2 == 0 {
                    cut(view, [id, id + 1]);
                } else {
                    view.partitions = vec![partition(id, 0, None, 1)];
                }
            });
        }
        trace.broken()
    };
    assert_eq!(joined(&[1, 11]), [0; 0]);
    assert_eq!(joined(&[1, 10]), [12]);
    assert_eq!(joined(&[1, 11, 12, 31]), [0; 0]);
    assert_eq!(joined(&[1, 11, 12, 30]), [12]);
}

/// Four pieces that are joined in two steps undo each cut once.
#[test]
fn i12_pieces_that_become_one_step_by_step_pass_and_the_same_cut_undone_twice_does_not() {
    const MINUTE: u64 = 60_000;
    let found = |steps: &[(u64, &[u64])]| {
        let mut trace = SmallTrace::of(TableMode::Burst, 1);
        let mut shown: Vec<(u64, u32)> = vec![(0, 0)];
        for (turn, (minute, firsts)) in (1_u32..).zip(steps) {
            // A partition whose range is the same keeps its number.
            let end = |of: &[u64], first: u64| of.iter().copied().find(|other| *other > first);
            let before: Vec<u64> = shown.iter().map(|one| one.0).collect();
            let id = |first: u64| {
                let known = shown.iter().find(|(known, _)| *known == first);
                let is_kept = end(&before, first) == end(firsts, first);
                known.filter(|_| is_kept).map_or(turn * 1000 + first as u32, |one| one.1)
            };
            let after: Vec<(u64, u32)> = firsts.iter().map(|first| (*first, id(*first))).collect();
            trace.look(minute * MINUTE, |view| {
                let partitions =
                    after.iter().map(|(first, id)| partition(*id, *first, end(firsts, *first), 1));
                view.partitions = partitions.collect();
            });
            shown = after;
        }
        trace.checker.violations().count(Invariant::ReshapePace)
    };
    assert_eq!(found(&[(1, &[0, 10, 20, 30]), (11, &[0, 20]), (14, &[0])]), 0);
    assert_eq!(found(&[(1, &[0, 10, 20, 30]), (10, &[0, 20])]), 2);
    // Before 10 again, and at another key of what was joined.
    for again in [10, 15] {
        let steps: [(u64, &[u64]); 4] =
            [(1, &[0, 10, 20]), (11, &[0, 20]), (12, &[0, again, 20]), (30, &[0, 20])];
        assert_eq!(found(&steps), 1, "{again}");
    }
    // Another range is cut meanwhile.
    assert_eq!(found(&[(1, &[0, 10, 20]), (11, &[0, 20]), (12, &[0, 20, 25]), (30, &[0, 20])]), 0);
}

#[test]
fn i13_a_stationary_demand_that_is_throttled_for_long_is_found() {
    let throttled_from = |millis: u64| {
        let mut trace = SmallTrace::of(TableMode::Static, 1);
        let terms = LivenessTerms::default().settling(Duration::from_secs(10));
        trace.checker.stationary(0, AccessOperation::Write, at(0), terms);
        trace.admit(millis, 10);
        trace.refuse(millis, 11, Bound::Allocation, 0);
        trace.checker.disturbed(0, AccessOperation::Write, at(60_000));
        trace.broken()
    };
    assert_eq!(throttled_from(9999), [0; 0]);
    assert_eq!(throttled_from(10_000), [13]);
}

#[test]
fn i14_a_refusal_by_a_bucket_that_is_not_short_or_shows_another_level_is_found() {
    let refused = |bound, level| {
        let mut trace = SmallTrace::of(TableMode::Static, 1);
        trace.admit(0, 10);
        trace.refuse(0, 2, bound, level);
        trace.broken()
    };
    assert_eq!(refused(Bound::Allocation, 0), [0; 0]);
    assert_eq!(refused(Bound::Allocation, 1), [14]);
    assert_eq!(refused(Bound::Allocation, -4), [14]);
    assert_eq!(refused(Bound::Ceiling, 0), [14]);
    // Full by the trace.
    let mut trace = SmallTrace::of(TableMode::Static, 1);
    trace.refuse(0, 2, Bound::Allocation, 0);
    assert!(trace.broken().contains(&14));
}

#[test]
fn i15_a_wrong_bill_and_a_second_attempt_that_counts_are_found() {
    let shown = |admitted: u64, offered: u64| {
        let mut trace = SmallTrace::of(TableMode::Static, 1);
        trace.admit(0, 3);
        let repeated = TracedAccess { is_first: false, ..SmallTrace::access(0, 2) };
        let units = Units::whole(2);
        let admission =
            TracedAdmission { access: repeated, partition: PartitionId(0), member: 0, billed: units };
        let _ = trace.checker.admit(&admission);
        trace.look(0, |view| {
            let direction = &mut view.partitions[0].directions[1];
            (direction.admitted, direction.offered) = (Units::whole(admitted), Units::whole(offered));
            direction.allocation = Units::whole(5);
        });
        trace.broken()
    };
    assert_eq!(shown(5, 3), [0; 0]);
    assert_eq!(shown(4, 3), [15]);
    assert_eq!(shown(5, 5), [15]);
}

/// Changes of the first partition of a view.
trait FirstPartition {
    /// Changes both directions.
    fn directions_mut(&mut self, change: impl FnMut(&mut DirectionView));

    /// The levels of its writes after so many thousandths were charged to them.
    fn spend(&mut self, from_allocation: i64, from_burst: i64);
}

impl FirstPartition for TableView {
    fn directions_mut(&mut self, change: impl FnMut(&mut DirectionView)) {
        self.partitions[0].directions.iter_mut().for_each(change);
    }

    fn spend(&mut self, from_allocation: i64, from_burst: i64) {
        let direction = &mut self.partitions[0].directions[1];
        direction.allocation = direction.allocation - Units::from_thousandths(from_allocation);
        direction.burst = direction.burst - Units::from_thousandths(from_burst);
        direction.admitted = direction.admitted + Units::from_thousandths(from_allocation + from_burst);
        direction.offered = direction.offered + Units::from_thousandths(from_allocation + from_burst);
    }
}

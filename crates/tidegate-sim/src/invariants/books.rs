//! The levels of every bucket, kept from the trace alone.

use tidegate_capacity::view::{
    DirectionView, MemberPositions, NodeView, PartitionView, TableView, TokensView,
};
use tidegate_capacity::{KeyRange, PartitionId, Position, TableMode, Units};
use tidegate_core::AccessOperation;

use super::bill::UnitSums;
use super::level::{
    DEBT_MAX, DrainingFill, FINE, LevelSpan, RefillingLevel, SpillingLevels, coarse, fine, flow,
};
use super::liveness::ServedMinutes;
use super::partition_bound::PartitionBound;
use super::reshape_pace::ReshapePace;
use super::table_bound::TableBound;

/// The bucket that an access was charged to, by the level before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PassedBy {
    /// The allocation.
    Allocation,
    /// The burst credit.
    Burst,
    /// Neither: global admission beyond the allocation.
    Spare,
    /// The allocation, or one of the others: the trace does not say.
    Either,
}

/// One direction of a partition.
#[derive(Clone, Debug)]
pub(super) struct DirectionBook {
    pub(super) base: i64,
    pub(super) levels: SpillingLevels,
    /// The ceiling of each member.
    pub(super) ceilings: [RefillingLevel; MemberPositions::MAX],
    /// The number of changes of its rates.
    pub(super) epoch: u32,
    /// The units without room, as they were shown last.
    pub(super) overflow: i64,
    pub(super) bound: PartitionBound,
    /// The units that it was asked for, judged by I4.
    pub(super) asked: DrainingFill,
    /// When its levels were changed last but by inflow.
    changed_at: u64,
    /// Whether they may be as before that change: units that come back may leave no mark.
    is_change_in_doubt: bool,
}

/// The units that flow into an allocation in debt for each that it admits meanwhile.
const INFLOW_A_TURN: i64 = 100;

/// One partition.
#[derive(Clone, Debug)]
pub(super) struct PartitionBook {
    pub(super) id: PartitionId,
    pub(super) range: KeyRange,
    pub(super) members: MemberPositions,
    pub(super) directions: [DirectionBook; 2],
}

/// A rate that bounds a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TableRate {
    /// The sum of the allocations of its partitions, boosts included.
    Allocations,
    /// Its provisioned throughput.
    Throughput,
}

/// One table.
#[derive(Debug)]
pub(super) struct TableBook {
    pub(super) mode: TableMode,
    pub(super) provisioned: [Units; 2],
    pub(super) tokens: [RefillingLevel; 2],
    pub(super) account: Option<usize>,
    pub(super) is_every_write_checked: bool,
    pub(super) is_majority_enough: bool,
    pub(super) is_indexed: bool,
    /// In the order of their ranges.
    pub(super) partitions: Vec<PartitionBook>,
    /// The place of each partition by its number; `u32::MAX` for one that is gone.
    places: Vec<u32>,
    /// The highest number that a partition has had.
    pub(super) highest: u32,
    /// The heaviest request, in thousandths.
    pub(super) largest: i64,
    pub(super) bounds: [TableBound; 2],
    /// The rate that I1 holds it to without global admission.
    pub(super) held_to: TableRate,
    pub(super) sums: [UnitSums; 2],
    pub(super) pace: ReshapePace,
    pub(super) liveness: [ServedMinutes; 2],
}

/// One node.
#[derive(Clone, Copy, Debug)]
pub(super) struct NodeBook {
    pub(super) level: RefillingLevel,
    /// The thousandths that bursts leave.
    pub(super) reserve: i64,
    pub(super) promisable: i64,
}

/// Everything.
#[derive(Debug, Default)]
pub(super) struct Books {
    pub(super) tables: Vec<TableBook>,
    pub(super) nodes: Vec<NodeBook>,
    pub(super) accounts: Vec<[RefillingLevel; 2]>,
}

pub(super) const fn index_of(operation: AccessOperation) -> usize {
    match operation {
        AccessOperation::Read => 0,
        AccessOperation::Write => 1,
    }
}

impl DirectionBook {
    /// The book of a direction as it is shown, whose allocation has up to `begun` more.
    pub(super) fn shown(view: &DirectionView, begun: i128, now: u64) -> Self {
        let [base, rate, ceiling] = [view.base, view.rate, view.ceiling].map(Units::as_thousandths);
        let shown = [view.burst_max, view.allocation, view.burst].map(Units::as_thousandths);
        let [burst_max, allocation, burst] = shown;
        Self {
            base,
            levels: SpillingLevels::shown((rate, burst_max), (allocation, burst), begun, now),
            ceilings: [RefillingLevel::shown(ceiling, ceiling, ceiling, now); MemberPositions::MAX],
            epoch: 0,
            overflow: view.overflow.as_thousandths(),
            bound: PartitionBound::default(),
            asked: DrainingFill::default(),
            changed_at: now,
            is_change_in_doubt: false,
        }
    }

    /// The path of an access of `cost` that is admitted at `now`.
    #[inline]
    pub(super) fn path(&self, mode: TableMode, cost: i64, now: u64) -> PassedBy {
        let LevelSpan { least, most } = self.levels.allocation(now);
        // While a debt is repaid, accesses have their turns.
        let gained = flow(self.levels.rate, now.saturating_sub(self.changed_at));
        let turn = fine(cost.saturating_mul(INFLOW_A_TURN));
        // A whole thousandth admits any request. Without burst nothing else can have.
        if least >= FINE || gained >= turn + FINE || mode == TableMode::Static {
            return PassedBy::Allocation;
        }
        match mode {
            _ if most >= FINE || gained >= turn - FINE || self.is_change_in_doubt => PassedBy::Either,
            TableMode::Global => PassedBy::Spare,
            _ => PassedBy::Burst,
        }
    }

    #[inline]
    pub(super) fn charge(&mut self, path: PassedBy, mode: TableMode, cost: i64, now: u64) {
        self.note_change(now);
        self.is_change_in_doubt = false;
        match path {
            PassedBy::Allocation => self.levels.charge(cost, 0, now),
            PassedBy::Burst => self.levels.charge(0, cost, now),
            PassedBy::Spare => {}
            PassedBy::Either => self.levels.charge_either(cost, mode != TableMode::Global, now),
        }
    }

    /// Takes note that the levels are changed at `now`.
    #[inline]
    pub(super) const fn note_change(&mut self, now: u64) {
        if now > self.changed_at {
            self.changed_at = now;
        }
    }

    /// Takes note that units came back at `now`.
    #[inline]
    pub(super) const fn note_return(&mut self, now: u64) {
        self.note_change(now);
        self.is_change_in_doubt = true;
    }

    /// Takes note of other rates. Levels are kept.
    pub(super) fn set_rates(&mut self, view: &DirectionView, mode: TableMode, now: u64) {
        self.note_change(now);
        let [base, rate, ceiling] = [view.base, view.rate, view.ceiling].map(Units::as_thousandths);
        let burst_max = view.burst_max.as_thousandths();
        if self.base != base {
            // Conforms once the deepest debt would be repaid.
            self.asked = DrainingFill::from_thousandths(base + DEBT_MAX, now);
        }
        self.base = base;
        if (self.levels.rate, self.levels.burst_max) != (rate, burst_max) {
            self.bound.pass(&self.levels, now);
            self.bound.hold(&self.levels, mode);
            self.levels = self.levels.with_rates(rate, burst_max, now);
            self.bound.hold(&self.levels, mode);
            self.epoch += 1;
        }
        if self.ceilings[0].rate != ceiling {
            self.ceilings = self.ceilings.map(|level| level.with_missing(ceiling, ceiling, now));
            self.epoch += 1;
        }
    }
}

impl PartitionBook {
    pub(super) fn shown(view: &PartitionView, begun: i128, now: u64) -> Self {
        let directions = view.directions.each_ref().map(|one| DirectionBook::shown(one, begun, now));
        Self { id: view.id, range: view.range, members: view.members, directions }
    }
}

impl TableBook {
    /// The book of a table as it is shown first.
    pub(super) fn shown(view: &TableView) -> Self {
        let now = view.at.as_nanos();
        // Buckets were full at an instant of whole seconds, at which nothing had begun to flow in.
        let begun = if now.is_multiple_of(FINE as u64) { 0 } else { FINE - 1 };
        let mut table = Self {
            mode: view.mode,
            provisioned: view.provisioned,
            tokens: view.tokens.map(|tokens| tokens_of(&tokens, now)),
            account: view.account,
            is_every_write_checked: view.is_every_write_checked,
            is_majority_enough: view.is_majority_enough,
            is_indexed: view.is_indexed,
            partitions: view.partitions.iter().map(|one| PartitionBook::shown(one, begun, now)).collect(),
            places: Vec::new(),
            highest: 0,
            largest: DEBT_MAX,
            bounds: [TableBound::default(), TableBound::default()],
            held_to: TableRate::Allocations,
            sums: [0, 1].map(|direction| UnitSums::from_view(view, direction)),
            pace: ReshapePace::default(),
            liveness: [ServedMinutes::default(), ServedMinutes::default()],
        };
        table.number();
        table
    }

    /// The place of a partition; `None` if it is not one of the table.
    #[inline]
    pub(super) fn place_of(&self, id: PartitionId) -> Option<usize> {
        let place = *self.places.get(id.0 as usize)?;
        (place != u32::MAX).then_some(place as usize)
    }

    /// The place of the partition that owns a position.
    pub(super) fn owner(&self, position: Position) -> usize {
        self.partitions.partition_point(|one| one.range.first <= position).saturating_sub(1)
    }

    /// Replaces the partitions from place `from` to `to` by those that are shown.
    pub(super) fn replace(&mut self, from: usize, to: usize, views: &[PartitionView], now: u64) {
        let before = &self.partitions[from..to];
        let made = views.iter().map(|view| {
            let mut made = PartitionBook::shown(view, FINE - 1, now);
            for (direction, book) in made.directions.iter_mut().enumerate() {
                let ceiling = view.directions[direction].ceiling.as_thousandths();
                // A joined partition lacks what both lack, and each part of one lacks all of it.
                let parents = before.iter().filter(|parent| parent.range.overlaps(view.range));
                let of_parents = parents.map(|parent| &parent.directions[direction]);
                book.ceilings = core::array::from_fn(|member| {
                    let ceilings = of_parents.clone().map(|parent| parent.ceilings[member]);
                    let joined = ceilings.reduce(|one, other| one.joined(&other, DEBT_MAX, now));
                    let level = joined.unwrap_or(book.ceilings[member]);
                    if level.rate == ceiling { level } else { level.with_missing(ceiling, ceiling, now) }
                });
                let debts = of_parents.map(|_| DEBT_MAX).sum::<i64>();
                book.asked = DrainingFill::from_thousandths(book.base + debts, now);
            }
            made
        });
        let made: Vec<PartitionBook> = made.collect();
        self.partitions.splice(from..to, made);
    }

    /// After a change of the partitions or terms.
    pub(super) fn renew_bounds(&mut self, now: u64) {
        for direction in 0..2 {
            let (rate, depth) = self.terms(direction);
            self.bounds[direction].set_terms(self.mode, rate, depth, now);
        }
    }

    /// The rate and the depth that bound one direction together.
    fn terms(&self, direction: usize) -> (i64, i64) {
        if self.mode == TableMode::Global {
            let tokens = &self.tokens[direction];
            return (tokens.rate, tokens.depth);
        }
        let all = || self.partitions.iter().map(|one| &one.directions[direction].levels);
        let burst = |levels: &SpillingLevels| match self.mode {
            TableMode::Static => 0,
            _ => levels.burst_max,
        };
        let rate = match self.held_to {
            TableRate::Throughput => self.provisioned[direction].as_thousandths(),
            TableRate::Allocations => all().map(|levels| levels.rate).sum(),
        };
        (rate, all().map(|levels| levels.rate + burst(levels) + self.largest).sum())
    }

    /// Numbers the places anew after a change.
    pub(super) fn number(&mut self) {
        let most = self.partitions.iter().map(|partition| partition.id.0 as usize + 1).max();
        self.places.clear();
        self.places.resize(most.unwrap_or(0), u32::MAX);
        for (partition, place) in self.partitions.iter().zip(0..) {
            self.places[partition.id.0 as usize] = place;
            self.highest = self.highest.max(partition.id.0);
        }
    }
}

impl NodeBook {
    pub(super) fn shown(view: &NodeView, now: u64) -> Self {
        let [rate, depth, left] = [view.rate, view.depth, view.left].map(Units::as_thousandths);
        let [reserve, promisable] = [view.reserve, view.promisable].map(Units::as_thousandths);
        Self { level: RefillingLevel::shown(rate, depth, left, now), reserve, promisable }
    }
}

pub(super) fn tokens_of(view: &TokensView, now: u64) -> RefillingLevel {
    let [rate, depth, left] = [view.rate, view.depth, view.left].map(Units::as_thousandths);
    RefillingLevel::shown(rate, depth, left, now)
}

/// The most whole thousandths that a bucket of this rate lets flow past in so many nanoseconds.
pub(super) fn flowed_past(rate: i64, nanos: u64) -> i128 {
    if nanos == 0 { 0 } else { fine(coarse(flow(rate, nanos)) + 1) }
}

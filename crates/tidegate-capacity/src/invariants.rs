//! The invariants of the capacity plane, checked from a trace and from nothing else.
//!
//! Each bound over *every* window is one shadow bucket: what it would have to hold for all windows
//! that end now. The shadows share no code with the plane: they are balances in billionths of a
//! thousandth that time is added to.
//!
//! | invariant | checked at |
//! |---|---|
//! | I2 partition: rate, allocation, burst credit and one large request | each admission |
//! | I3 ceiling: a second of it and one large request | each admission |
//! | I4 isolation: a conforming partition is not refused by itself or its nodes | each refusal |
//! | I5 node: bursts get what allocations leave | each admission |
//! | I6 placement: no node is promised more than it may be | each change |
//! | I7 groups: a burst write has room at every member | each admission |
//! | I10 ranges tile, numbers are new, shares add up | each change |
//! | I11 no ceiling falls because partitions were cut | each change |
//! | I12 nothing is merged within ten minutes of its split | each change |
//! | I14 the bucket of a refusal is short | each refusal |
//! | I15 billed units are admitted units | [`InvariantChecker::billed`] |
//!
//! I1 and I9 are those of the lease protocol and its ledger, I8 is checked with the levels by the
//! tests of the plane, I13 by runs whose demand is known, I16 by the tests of levels.

use std::collections::{BTreeMap, BTreeSet};

use tidegate_core::{AccessOperation, Timestamp};

use crate::merge::COOL;
use crate::partition_id::PartitionId;
use crate::throttled::Bound;
use crate::trace::{AdmissionPath, PartitionPlace, TraceEvent, TracedPartition};
use crate::units::Units;

const NANOS: i128 = 1_000_000_000;
const LARGEST: i128 = Units::LARGEST_REQUEST.as_thousandths() as i128;

/// An invariant that an event broke.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The number of the invariant.
    pub invariant: u8,
    /// The event that broke it, in words.
    pub text: String,
}

/// Checks the events of a run in their order.
#[derive(Debug, Default)]
pub struct InvariantChecker {
    nodes: BTreeMap<String, ShadowNode>,
    partitions: BTreeMap<PartitionPlace, [ShadowDirection; 2]>,
    layouts: BTreeMap<usize, Vec<TracedPartition>>,
    /// The numbers that a table has had.
    known_ids: BTreeSet<PartitionPlace>,
    billed: BTreeMap<(usize, bool), i64>,
}

/// A balance that time is added to, in billionths of a thousandth.
#[derive(Clone, Copy, Debug)]
struct Shadow {
    rate: i128,
    depth: i128,
    level: i128,
    at: Timestamp,
}

impl Shadow {
    fn full(rate: Units, depth: i128, at: Timestamp) -> Self {
        let depth = depth * NANOS;
        Self { rate: i128::from(rate.as_thousandths()), depth, level: depth, at }
    }

    fn pass(&mut self, now: Timestamp) {
        let elapsed = i128::try_from(now.saturating_since(self.at).as_nanos()).unwrap_or(i128::MAX);
        self.level = self.depth.min(self.level + self.rate * elapsed);
        self.at = self.at.max(now);
    }

    /// Takes units, and says whether the bound holds.
    fn take(&mut self, units: Units, now: Timestamp) -> bool {
        self.pass(now);
        self.level -= i128::from(units.as_thousandths()) * NANOS;
        // A begun thousandth is one.
        self.level > -NANOS
    }

    fn give(&mut self, units: Units, now: Timestamp) {
        self.pass(now);
        self.level = self.depth.min(self.level + i128::from(units.as_thousandths()) * NANOS);
    }
}

#[derive(Debug)]
struct ShadowNode {
    promisable: Units,
    bucket: Shadow,
}

/// The shadows of one direction of a partition.
#[derive(Clone, Debug)]
struct ShadowDirection {
    own: Shadow,
    ceilings: Vec<Shadow>,
    /// A bucket of the base and one second, from which all offered units are taken: it is below
    /// zero when the partition does not conform.
    conforming: Shadow,
}

impl InvariantChecker {
    /// Checks one event.
    pub fn check(&mut self, event: &TraceEvent) -> Result<(), Violation> {
        match event {
            TraceEvent::Node { name, units, promisable } => {
                let depth = i128::from(units.as_thousandths()) / 10;
                let bucket = Shadow::full(*units, depth, Timestamp::from_nanos(0));
                self.nodes.insert(name.clone(), ShadowNode { promisable: *promisable, bucket });
                Ok(())
            }
            TraceEvent::Partitions { at, table, partitions } => self.change(*at, *table, partitions),
            TraceEvent::Admitted { at, place, operation, units, path, member, nodes } => {
                *self.billed.entry((place.0, is_read(*operation))).or_default() += units.as_thousandths();
                self.admit(*at, *place, *operation, *units, *path, *member, nodes)
            }
            TraceEvent::Returned { at, place, operation, units, nodes, member } => {
                *self.billed.entry((place.0, is_read(*operation))).or_default() -= units.as_thousandths();
                if let Some(both) = self.partitions.get_mut(place) {
                    let direction = &mut both[usize::from(!is_read(*operation))];
                    direction.own.give(*units, *at);
                    if let Some(ceiling) = direction.ceilings.get_mut(*member) {
                        ceiling.give(*units, *at);
                    }
                }
                for node in nodes {
                    if let Some(node) = self.nodes.get_mut(node) {
                        node.bucket.give(*units, *at);
                    }
                }
                Ok(())
            }
            TraceEvent::Refused { at, place, operation, units, bound, level } => {
                self.refuse(*at, *place, *operation, *units, *bound, *level)
            }
        }
    }

    /// I15: the units of a table that a bill must show.
    pub fn billed(&self, table: usize, operation: AccessOperation) -> Units {
        let units = self.billed.get(&(table, is_read(operation))).copied();
        Units::from_thousandths(units.unwrap_or_default())
    }

    #[expect(clippy::too_many_arguments, reason = "the parts of an event, by name")]
    fn admit(
        &mut self,
        at: Timestamp,
        place: PartitionPlace,
        operation: AccessOperation,
        units: Units,
        path: AdmissionPath,
        member: usize,
        nodes: &[String],
    ) -> Result<(), Violation> {
        let Some(both) = self.partitions.get_mut(&place) else {
            return violation(10, format!("{place:?} is no partition"));
        };
        let direction = &mut both[usize::from(!is_read(operation))];
        direction.conforming.take(units, at);
        if path != AdmissionPath::Spare && !direction.own.take(units, at) {
            return violation(2, format!("{place:?} {operation:?} {units} at {at}"));
        }
        if !direction.ceilings[member].take(units, at) {
            return violation(3, format!("{place:?} {operation:?} {units} at {at}"));
        }
        for (index, name) in nodes.iter().enumerate() {
            let Some(node) = self.nodes.get_mut(name) else { continue };
            let has_room = node.bucket.take(units, at);
            if path != AdmissionPath::Allocated && !has_room {
                let invariant = if index == 0 { 5 } else { 7 };
                return violation(invariant, format!("{name} for {place:?} {operation:?} {units} at {at}"));
            }
        }
        Ok(())
    }

    fn refuse(
        &mut self,
        at: Timestamp,
        place: PartitionPlace,
        operation: AccessOperation,
        units: Units,
        bound: Bound,
        level: Units,
    ) -> Result<(), Violation> {
        let is_short = match bound {
            Bound::Allocation | Bound::Ceiling => level <= Units::ZERO,
            // A node keeps its reserve, which the level does not show.
            Bound::Node | Bound::Replica | Bound::Move => true,
            _ => level < units,
        };
        if !is_short {
            return violation(14, format!("{bound:?} had {level} for {units} at {at}"));
        }
        let Some(both) = self.partitions.get_mut(&place) else {
            return violation(10, format!("{place:?} is no partition"));
        };
        let conforms = both[usize::from(!is_read(operation))].conforming.take(units, at);
        let is_own = matches!(bound, Bound::Allocation | Bound::Burst | Bound::Node | Bound::Replica);
        if conforms && is_own {
            return violation(4, format!("{place:?} {operation:?} conforms, and {bound:?} refuses at {at}"));
        }
        Ok(())
    }

    fn change(
        &mut self,
        at: Timestamp,
        table: usize,
        partitions: &[TracedPartition],
    ) -> Result<(), Violation> {
        let before = self.layouts.insert(table, partitions.to_vec());
        let first = partitions.first().map(|one| one.range.first);
        if first != Some(crate::position::Position::FIRST) {
            return violation(10, format!("table {table} begins at {first:?}"));
        }
        for (left, right) in partitions.iter().zip(partitions.iter().skip(1)) {
            if left.range.end != Some(right.range.first) || left.range.first >= right.range.first {
                return violation(
                    10,
                    format!("{} and {} do not tile table {table}", left.range, right.range),
                );
            }
        }
        if partitions.last().is_some_and(|last| last.range.end.is_some()) {
            return violation(10, format!("table {table} ends early"));
        }
        if let Some(before) = &before {
            self.compare(at, table, before, partitions)?;
        }
        self.shadow(at, table, before.as_deref().unwrap_or_default(), partitions);
        self.check_promises()
    }

    /// I10, I11 and I12 between two layouts of a table.
    fn compare(
        &self,
        at: Timestamp,
        table: usize,
        before: &[TracedPartition],
        after: &[TracedPartition],
    ) -> Result<(), Violation> {
        let is_new = |one: &&TracedPartition| !before.iter().any(|other| other.id == one.id);
        for one in after.iter().filter(is_new) {
            if self.known_ids.contains(&(table, one.id)) {
                return violation(10, format!("number {} of table {table} is used twice", one.id));
            }
            let parents: Vec<_> = before.iter().filter(|other| overlap(one, other)).collect();
            for parent in &parents {
                let has_lower = (0..2).any(|direction| one.rates[direction][2] < parent.rates[direction][2]);
                if has_lower && parents.len() == 1 {
                    return violation(11, format!("a part of {} has a lower ceiling", parent.range));
                }
            }
            let is_merged = parents.len() > 1;
            let is_young = |parent: &&&TracedPartition| {
                parent.made_at.is_some_and(|made_at| at.saturating_since(made_at) < COOL)
            };
            if is_merged && let Some(young) = parents.iter().find(is_young) {
                return violation(12, format!("{} was split less than ten minutes before {at}", young.range));
            }
        }
        Ok(())
    }

    fn shadow(&mut self, at: Timestamp, table: usize, before: &[TracedPartition], after: &[TracedPartition]) {
        for one in after {
            self.known_ids.insert((table, one.id));
            let is_same = before.iter().any(|other| other.id == one.id && other.rates == one.rates);
            if is_same && self.partitions.contains_key(&(table, one.id)) {
                continue;
            }
            let both = one.rates.map(|[base, rate, ceiling]| {
                let [base_units, rate_units, ceiling_units] =
                    [base, rate, ceiling].map(|units| i128::from(units.as_thousandths()));
                let burst = base_units * i128::from(one.burst_seconds);
                // A part of a partition in debt conforms once the deepest debt would be repaid.
                let full = Shadow::full(base, base_units, at);
                let conforming =
                    if before.is_empty() { full } else { Shadow { level: -LARGEST * NANOS, ..full } };
                ShadowDirection {
                    own: Shadow::full(rate, rate_units + burst + LARGEST, at),
                    ceilings: vec![Shadow::full(ceiling, ceiling_units + LARGEST, at); one.nodes.len()],
                    conforming,
                }
            });
            self.partitions.insert((table, one.id), both);
        }
        let is_live = |id: PartitionId| after.iter().any(|one| one.id == id);
        self.partitions.retain(|(of, id), _| *of != table || is_live(*id));
    }

    /// I6.
    fn check_promises(&self) -> Result<(), Violation> {
        let mut promised: BTreeMap<&str, Units> = BTreeMap::new();
        for one in self.layouts.values().flatten() {
            for (member, node) in one.nodes.iter().enumerate() {
                let [[_, reads, _], [_, writes, _]] = one.rates;
                let of_reads = if member == 0 { reads } else { Units::ZERO };
                let sum = promised.entry(node).or_default();
                *sum = *sum + of_reads + writes;
            }
        }
        for (name, promised) in promised {
            if self.nodes.get(name).is_some_and(|node| promised > node.promisable) {
                return violation(6, format!("{name} is promised {promised}"));
            }
        }
        Ok(())
    }
}

fn overlap(one: &TracedPartition, other: &TracedPartition) -> bool {
    one.range.end.is_none_or(|end| other.range.first < end)
        && other.range.end.is_none_or(|end| one.range.first < end)
}

fn is_read(operation: AccessOperation) -> bool {
    operation == AccessOperation::Read
}

fn violation(invariant: u8, text: String) -> Result<(), Violation> {
    Err(Violation { invariant, text })
}

#[cfg(test)]
#[cfg(not(tidegate_loom))]
pub(crate) mod tests;

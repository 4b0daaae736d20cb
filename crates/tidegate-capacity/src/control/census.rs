//! The look at all partitions: one pass that locks each of them once.
//!
//! Rates are taken on a *beat* of ten seconds. Between two beats the look finds partitions that
//! rise above their ceilings or are refused by them. Of a large store only tables are looked at
//! then that have refused something or whose keys are sampled.

use core::time::Duration;

use tidegate_core::Timestamp;

use super::Control;
use super::load::{KeyWindows, NewPartition, TableLoad, Totals};
use super::moves::reaching_node;
use crate::capacity::Capacity;
use crate::control::sketch::{Sketch, WINDOW, Window};
use crate::layout::key_range::KeyRange;
use crate::layout::partition::PartitionState;
use crate::table_config::ReadMembers;
use crate::units::Units;

/// The most directions of partitions whose keys are sampled at a time. A partition that is refused
/// by its ceiling while all are taken waits for one.
pub(super) const SKETCHES_MAX: usize = 256;

/// The most partitions that are all looked at in each tick.
const LOOKED_AT_MAX: usize = 16_384;

/// The sketches that partitions may have which are warm and not refused by their ceilings.
const SKETCHES_WARM_MAX: usize = SKETCHES_MAX / 2;

/// A window of sampled keys that has ended.
#[derive(Debug)]
pub(super) struct EndedWindow {
    pub(super) table: usize,
    pub(super) partition: usize,
    pub(super) direction: usize,
    pub(super) window: Window,
    pub(super) range: KeyRange,
    pub(super) made_at: Option<Timestamp>,
    /// The bound of the load.
    pub(super) ceiling: Units,
    /// Whether the ceiling refused anything since the window before ended.
    pub(super) was_refused: bool,
}

/// The circumstances of one look.
#[derive(Debug)]
struct Look<'a> {
    capacity: &'a Capacity,
    now: Timestamp,
    /// The time since the last beat, on a beat.
    elapsed: Option<Duration>,
    seed: u64,
    /// The sketches that all tables have.
    sketches: usize,
    /// Whether a partition had to wait for a sketch.
    is_crowded: bool,
    /// The time since the last look at the table.
    unseen_for: Duration,
    /// Units a second that each node is asked for, on a beat.
    node_offered: Vec<Units>,
}

impl Control {
    /// Observes the partitions, and samples the keys of those that are warm or that their ceiling
    /// refuses. Returns the windows that have ended.
    pub(super) fn observe(&mut self, capacity: &Capacity, now: Timestamp) -> Vec<EndedWindow> {
        self.follow_tables(capacity);
        let elapsed = now.saturating_since(self.judged_at);
        let mut look = Look {
            capacity,
            now,
            elapsed: (elapsed >= WINDOW).then_some(elapsed),
            seed: self.seed,
            sketches: self.tables.iter().map(|one| one.sketches).sum(),
            is_crowded: false,
            unseen_for: Duration::ZERO,
            node_offered: vec![Units::ZERO; capacity.nodes.len()],
        };
        let is_large = self.tables.iter().map(|one| one.partitions.len()).sum::<usize>() > LOOKED_AT_MAX;
        let mut ended = Vec::new();
        for (index, load) in self.tables.iter_mut().enumerate() {
            let refused = [true, false].map(|is_read| load.table.throttled_count(is_read));
            let is_awaited = look.elapsed.is_some()
                || load.sketches > 0
                || self.new.iter().any(|one| one.table == load.table.id);
            if is_large && !is_awaited && load.refused == refused {
                continue;
            }
            load.refused = refused;
            look.table(load, index, &self.new, &mut ended);
        }
        self.is_crowded = look.is_crowded;
        if look.elapsed.is_some() {
            self.node_offered = look.node_offered;
        }
        ended
    }

    /// Keeps the loads of the tables that there are, in their order.
    fn follow_tables(&mut self, capacity: &Capacity) {
        let is_same = self.tables.len() == capacity.tables.len()
            && self.tables.iter().zip(&capacity.tables).all(|(load, entry)| load.table.id == entry.table.id);
        if is_same {
            return;
        }
        let mut before = core::mem::take(&mut self.tables);
        for entry in &capacity.tables {
            let known = before.iter().position(|load| load.table.id == entry.table.id);
            self.tables.push(
                known.map_or_else(|| TableLoad::new(entry.table.clone()), |place| before.swap_remove(place)),
            );
        }
    }
}

impl Look<'_> {
    fn table(
        &mut self,
        load: &mut TableLoad,
        table: usize,
        new: &[NewPartition],
        ended: &mut Vec<EndedWindow>,
    ) {
        let owned = load.table.clone();
        let plan = owned.layout.plan();
        load.follow(&plan, new);
        self.unseen_for = self.now.saturating_since(core::mem::replace(&mut load.looked_at, self.now));
        let mut sketches = 0;
        for partition in 0..plan.len() {
            let state = &mut *owned.layout.lock(&plan, partition);
            for direction in 0..2 {
                let window = self.direction(load, partition, direction, state);
                sketches += usize::from(state.sketches[direction].is_some());
                let Some((window, was_refused)) = window else { continue };
                ended.push(EndedWindow {
                    table,
                    partition,
                    direction,
                    window,
                    range: state.range,
                    made_at: state.made_at,
                    ceiling: bound(
                        state,
                        direction,
                        load.partitions[partition].directions[direction].admitted,
                    ),
                    was_refused,
                });
            }
            if self.elapsed.is_some() {
                let offered = load.partitions[partition].directions.each_ref().map(|one| one.offered);
                self.add_to_nodes(state, offered);
            }
        }
        // Cuts and joins have ended some.
        self.sketches -= load.sketches;
        self.sketches += sketches;
        load.sketches = sketches;
    }

    /// Adds the load of a partition that is locked to those of its nodes.
    fn add_to_nodes(&mut self, state: &PartitionState, offered: [Units; 2]) {
        let [leader, follower] = reaching_node(state, offered);
        for (member, number) in state.members.as_slice().iter().enumerate() {
            if let Some(node) = self.capacity.node_position(*number) {
                let load = if member == 0 { leader } else { follower };
                self.node_offered[node] = self.node_offered[node] + load;
            }
        }
    }

    /// Observes one direction of a partition that is locked. Returns a window that has ended, and
    /// whether the ceiling refused anything meanwhile.
    fn direction(
        &mut self,
        load: &mut TableLoad,
        partition: usize,
        direction: usize,
        state: &mut PartitionState,
    ) -> Option<(Window, bool)> {
        let observed = &mut load.partitions[partition].directions[direction];
        let throughput = state.directions.of(direction == 0);
        let meter = &throughput.meter;
        let ceiling = Units::from_rate(throughput.rates.ceiling);
        let is_warm = |load: Units| load.as_thousandths() > ceiling.as_thousandths() / 2;
        let at_ceiling = Units::from_rate(meter.at_ceiling);
        let is_refused = at_ceiling > observed.at_ceiling;
        observed.at_ceiling = at_ceiling;
        let offered = Units::from_rate(meter.offered);
        let is_rising = observed.seen.replace(offered).is_some_and(|seen| {
            let units = i128::from((offered - seen).as_thousandths());
            units * 1000 > i128::from(ceiling.as_thousandths()) * self.unseen_for.as_millis().cast_signed()
        });
        if let Some(elapsed) = self.elapsed {
            let totals = Totals::from_meter(meter);
            if let Some(before) = observed.before.replace(totals) {
                [observed.offered, observed.admitted, _] = totals.since(before, elapsed);
            }
        }
        let sketch = &mut state.sketches[direction];
        let is_resting = observed.rests_until.is_some_and(|until| self.now < until);
        if let Some(running) = sketch {
            if is_resting {
                *sketch = None;
                observed.windows = None;
                self.sketches -= load.end_sketch();
                return None;
            }
            let fresh = || Box::new(KeyWindows { at_ceiling, ..KeyWindows::default() });
            let windows = observed.windows.get_or_insert_with(fresh);
            let window = running.take_window(self.now)?;
            let was_refused = at_ceiling > windows.at_ceiling;
            windows.at_ceiling = at_ceiling;
            if was_refused || is_warm(window.load()) {
                return Some((window, was_refused));
            }
            *sketch = None;
            (observed.windows, observed.verdict) = (None, None);
            self.sketches -= load.end_sketch();
            return None;
        }
        let wants = is_refused || is_rising || self.elapsed.is_some() && is_warm(observed.offered);
        if is_resting || !wants {
            if !is_resting && self.elapsed.is_some() {
                observed.verdict = None;
            }
            return None;
        }
        if self.sketches < if is_refused { SKETCHES_MAX } else { SKETCHES_WARM_MAX } {
            self.sketches += 1;
            load.sketches += 1;
            let seed = self.seed ^ u64::from(state.id.0);
            *sketch = Some(Box::new(Sketch::new(state.range.by, seed, self.now)));
            observed.windows = Some(Box::new(KeyWindows { at_ceiling, ..KeyWindows::default() }));
        } else {
            self.is_crowded |= is_refused;
        }
        None
    }
}

/// The load that a partition bears in one direction: its ceiling; of a group whose members all
/// serve reads, up to that of each, as far as reads were admitted that any of them may serve.
fn bound(state: &PartitionState, direction: usize, admitted: Units) -> Units {
    let ceiling = Units::from_rate(state.directions.of(direction == 0).rates.ceiling);
    if direction > 0 || state.numbers.reads == ReadMembers::Local {
        return ceiling;
    }
    let of_all = state.members.as_slice().iter().fold(Units::ZERO, |sum, _| sum + ceiling);
    admitted.clamp(ceiling, of_all)
}

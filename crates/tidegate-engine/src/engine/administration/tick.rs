//! The tick of the engine: control loops run, and its caller gets the actions that are left to it.

use core::time::Duration;

use smallvec::SmallVec;
use tidegate_capacity::plan::Plan;
use tidegate_core::{Class, Timestamp};
use tidegate_overload::{Obstacle, Overload, ResourceId};

use crate::engine::Engine;

/// The actions that a tick leaves to its caller, and when the next one is due.
#[derive(Clone, Debug, PartialEq)]
#[must_use = "the caller carries out the actions"]
pub struct Tick {
    /// The engine wants to be called again then; a call before does no harm.
    pub next: Timestamp,
    /// The actions for the caller, at most one of each kind. Without them nothing is admitted that
    /// should not be; a later tick asks for [`TickAction::RenewLeases`] and
    /// [`TickAction::RebuildOverrides`] again.
    pub actions: SmallVec<[TickAction; 3]>,
    /// The splits and merges of partitions that the tick made, in their order.
    pub reshaped: Vec<Plan>,
}

/// An action that the engine cannot carry out itself, because it needs the store, another engine in
/// force, or the metrics of the program.
///
/// The list is closed: a caller that does not know an action would leave it undone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TickAction {
    /// Send what the leases ask of the store: [`Engine::take_lease_asks`]. Not needed while a task
    /// waits for [`Engine::poll_lease_asks`].
    RenewLeases,
    /// Put the engine of [`Engine::without_expired`] in force: overrides set at run time have
    /// expired. They already do not apply, but their engine asks for ticks without a pause.
    RebuildOverrides,
    /// Count this many kept permits as expired since the last tick. Their loans are returned
    /// already.
    CountExpiredPermits(usize),
}

impl Engine {
    /// The longest time between two ticks that the engine asks for.
    pub const TICK_MAX: Duration = Duration::from_secs(1);
    /// The time between two ticks while numbers of specs are reclaimed, which is done a part of the
    /// table at a time.
    const RECLAIM_EACH: Duration = Duration::from_millis(10);
    /// The time between two ticks while a table may have more partitions at once. A partition that
    /// is asked for fifty times its ceiling uses half of it up in as long.
    const GROWTH_EACH: Duration = Duration::from_millis(10);

    /// Lets kept permits expire, leases renew, and the control loops run. To be called when
    /// [`Tick::next`] comes; being late only delays what it does, and no decision waits for it.
    pub fn tick(&self, now: Timestamp) -> Tick {
        self.shared.remote.prune(now);
        let mut actions = SmallVec::new();
        let expired = self.shared.kept.count_expired(now);
        if expired > 0 {
            actions.push(TickAction::CountExpiredPermits(expired));
        }
        let mut next = now.saturating_add(Self::TICK_MAX);
        if let Some(overload) = self.overload() {
            next = next.min(self.tick_overload(overload, now));
        }
        let capacity = self.planes.capacity.as_ref();
        let reshaped = capacity.map_or_else(Vec::new, |plane| self.shared.capacity_control.tick(plane, now));
        if capacity.is_some_and(|plane| plane.may_want_growth()) {
            next = next.min(now.saturating_add(Self::GROWTH_EACH));
        }
        if let Some(leases) = self.shared.leases() {
            if let Some(look) = leases.tick(now) {
                next = next.min(look);
            }
            if leases.has_asks() {
                actions.push(TickAction::RenewLeases);
            }
        }
        if let Some(expiry) = self.shared.kept.next_expiry() {
            next = next.min(expiry);
        }
        if self.shared.table.reclaim_spec_numbers(now) {
            next = next.min(now.saturating_add(Self::RECLAIM_EACH));
        }
        if let Some(until) = self.overrides.first_expiry() {
            next = next.min(until);
            if until <= now {
                actions.push(TickAction::RebuildOverrides);
            }
        }
        Tick { next: next.max(now), actions, reshaped }
    }

    /// Ticks the overload plane, if it is due. The instant of its next tick.
    fn tick_overload(&self, overload: &Overload, now: Timestamp) -> Timestamp {
        if !overload.is_tick_due(now) {
            return overload.tick(now);
        }
        self.tick_rehearsal(now);
        self.observe_queues(overload, now);
        let places = self.places_waited_for(overload);
        let next = overload.tick(now);
        self.call_for_growth(overload, &places);
        self.expire_places(overload, now);
        self.call_from_shadow(overload);
        self.answer_rehearsal(now);
        next
    }

    /// Lets unsettled places expire that a namespace below its part waits for.
    fn expire_places(&self, overload: &Overload, now: Timestamp) {
        for (id, _) in overload.resources() {
            if overload.resource(id).take_bound_raised() {
                self.room_of(id).returned(Obstacle::Place(id));
            }
            if !overload.resource(id).may_have_overdue(self.shared.room.count() > 0) {
                continue;
            }
            let waiting = self.shared.room.waiting_namespaces(id);
            for overdue in overload.resource(id).take_overdue_places(&waiting, now) {
                if let Some((place, admitted)) = self.shared.kept.expire_place(overdue) {
                    overload.resource(id).count_expired_place(overdue.namespace, now);
                    place.settle(admitted, now);
                }
            }
        }
    }

    /// The places of each resource while any request waits, for its least and most important class.
    fn places_waited_for(&self, overload: &Overload) -> Vec<(ResourceId, [u64; 2])> {
        let rehearsed = self.shared.rehearsal.get().map_or(0, |state| state.room().count());
        if self.shared.room.count() + rehearsed == 0 {
            return Vec::new();
        }
        overload.resources().map(|(id, _)| (id, places_of(overload, id))).collect()
    }

    /// Calls the next request of each resource that has more places than before: no place comes
    /// back that would. One call is enough, since each request that is served calls the one behind
    /// it.
    fn call_for_growth(&self, overload: &Overload, before: &[(ResourceId, [u64; 2])]) {
        for (id, before) in before {
            let after = places_of(overload, *id);
            if after[0] > before[0] || after[1] > before[1] {
                self.room_of(*id).returned(Obstacle::Place(*id));
            }
        }
    }

    /// Calls the requests that wait since before their resources were set to shadow mode: each that
    /// goes on calls the one behind it.
    fn call_from_shadow(&self, overload: &Overload) {
        if self.rehearsal.is_some() && self.shared.room.count() > 0 {
            for id in overload.shadow_resources() {
                self.shared.room.returned(Obstacle::Place(id));
            }
        }
    }
}

fn places_of(overload: &Overload, resource: ResourceId) -> [u64; 2] {
    [Class::Sheddable, Class::CriticalPlus].map(|class| overload.in_flight_max(resource, class))
}

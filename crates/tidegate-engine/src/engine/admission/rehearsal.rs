//! The rehearsal of resources in shadow mode: what each of them would refuse and delay.
//!
//! A request to such a resource passes it unseen. A *stand-in* of it, a request without limits and
//! without access, is decided by an engine of its own: the same walk, over the same resources and
//! features, with a waiting room of its own. So the places, the queue and the cursor are those that
//! the resource would have if it enforced: a stand-in that would be refused takes no place, and one
//! that waits is served, shed or expires by the same code as a request.
//!
//! No task waits for the decision on a stand-in. Each arrival, each end of work and each tick first
//! lets everything happen that was due before it, each at its own instant.
//!
//! **How long a stand-in keeps its place.** For the time of its own request, if that was admitted
//! while the service worked at no more requests than the resource has places. A request beyond that
//! may take longer than it would behind an enforcing resource, so its stand-in keeps its place for
//! the time of another, as [`RehearsedTimes`](crate::stand_ins::RehearsedTimes) draws it.

use core::time::Duration;
use std::sync::{Arc, MutexGuard};

use tidegate_core::{Class, NamespaceConfig, Timestamp};
use tidegate_overload::{Obstacle, OfferOutcome, ResourceId};

use super::answer::{Mode, Stop};
use super::waited::Waited;
use crate::continuation::Answered;
use crate::decision::Step;
use crate::engine::{Engine, Explained, RehearsalState, Shared};
use crate::lineage::Lineage;
use crate::overrides::Overrides;
use crate::permit::{Completion, Holds, Outcome, Permit};
use crate::planes::Planes;
use crate::progress::Progress;
use crate::request::Request;
use crate::stand_in_handle::{RehearsedWork, StandInHandle, locked};
use crate::stand_ins::{StandIn, StandInPart, StandInTable, StandIns, WorkProgress};
use crate::waiting_room::Room;

impl Engine {
    /// The engine that decides on the stand-ins of requests to resources in shadow mode; `None`
    /// without any.
    pub(crate) fn rehearsal<'a>(
        shared: &Arc<Shared>,
        planes: &Planes,
        namespaces: impl Iterator<Item = &'a str>,
        now: Timestamp,
    ) -> Option<Arc<Self>> {
        let overload = &planes.overload.as_ref()?.overload;
        overload.shadow_resources().next()?;
        let state = shared.rehearsal.get_or_init(|| RehearsalState {
            shared: Arc::new(shared.for_rehearsal()),
            stand_ins: Arc::default(),
        });
        let planes = Planes::new(None, None, Some(overload.for_rehearsal()), &state.shared.room, now);
        let namespaces = namespaces.map(|name| NamespaceConfig::new(name, [])).collect();
        let (lineage, overrides) = (Lineage::default(), Overrides::default());
        let built = Self::from_world(Arc::clone(&state.shared), planes, namespaces, &lineage, overrides);
        let (engine, _) = built.expect("an engine has these namespaces, and without limits nothing is wrong");
        Some(Arc::new(engine))
    }

    /// Whether a resource is in shadow mode.
    pub(crate) fn is_shadow(&self, resource: ResourceId) -> bool {
        self.overload().is_some_and(|overload| overload.is_shadow(resource))
    }

    /// The room in which requests wait for a resource, or their stand-ins.
    pub(crate) fn room_of(&self, resource: ResourceId) -> &Room {
        match &self.rehearsal {
            Some(rehearsal) if self.is_shadow(resource) => &rehearsal.shared.room,
            _ => &self.shared.room,
        }
    }

    /// The resource in shadow mode that serves a request, if it is one.
    #[cold]
    pub(crate) fn shadow_resource(&self, request: &Request<'_>) -> Option<ResourceId> {
        self.resource_of(request).filter(|resource| self.is_shadow(*resource))
    }

    /// The judgement of the planes on the stand-in of a request; `None` if its resource enforces.
    pub(crate) fn explain_stand_in(&self, request: &Request<'_>, now: Timestamp) -> Option<Explained> {
        self.shadow_resource(request)?;
        let engine = self.rehearsal.as_ref()?;
        match engine.explain(&stand_in_of(request), now).ok()? {
            Progress::Done(explained) => Some(explained),
            Progress::Ask(_) => None,
        }
    }

    /// Lets a request pass its resource that is in shadow mode, and decides on its stand-in.
    #[cold]
    pub(crate) fn rehearse(
        &self,
        request: &Request<'_>,
        resource: ResourceId,
        holds: &mut Option<Holds>,
        now: Timestamp,
    ) {
        let Some((rehearsal, state)) = self.rehearsal.as_ref().zip(self.shared.rehearsal.get()) else {
            return;
        };
        let mut table = self.up_to(&state.stand_ins, now);
        let step = rehearsal.admit_stand_in(request, now);
        if request.end_known {
            let work = table.begin_work(resource, request.is_stream, now);
            let is_within = work.at_work <= self.places_of(resource);
            if let Some(step) = step {
                let begun = (work, is_within, WorkProgress::IsWorkedAt);
                state.stand_ins.take_step(&mut table, begun, step, now);
            }
            let handle = StandInHandle::new(work, Arc::clone(&state.stand_ins.dropped));
            match holds {
                Some(holds) => holds.other_mut().rare_mut().stand_in = Some(handle),
                None => drop(handle),
            }
        }
        self.answer_calls(&state.stand_ins, &mut table, now);
    }

    /// Decides on the stand-in of a request. `None`: it is decided and has nothing, and its
    /// namespace is one that limits arrive for.
    fn admit_stand_in(&self, request: &Request<'_>, now: Timestamp) -> Option<Step<'static>> {
        let stand_in = &stand_in_of(request);
        if self.gate(stand_in.namespace).is_ok() {
            return Some(self.admit(stand_in, now).ok()?.into_owned());
        }
        let (waited, mut holds) = (Waited::default(), None);
        let mut located = self.locate_beside_limits(stand_in, &waited, now);
        let outcome = match self.walk(&mut located, Mode::Charge, &mut holds, now) {
            Ok(()) => OfferOutcome::Admitted,
            Err(Stop::Refuse(by_plane)) => located.refused(by_plane).offer_outcome(),
            Err(Stop::Wait(_) | Stop::Fail(_)) => OfferOutcome::Failed,
        };
        self.decided(None, &located, outcome, now);
        None
    }

    /// The answer to a request begins, which becomes a stream and leaves its place by that.
    #[cold]
    pub(crate) fn begin_rehearsed_stream(&self, work: RehearsedWork, now: Timestamp) {
        let Some(state) = self.shared.rehearsal.get() else { return };
        let mut table = self.up_to(&state.stand_ins, now);
        let took = now.saturating_since(work.admitted);
        table.end_work(work.resource);
        self.learn(&mut table, work, took);
        if let Some(one) = table.stand_in(work.id) {
            one.progress = WorkProgress::Streams(took);
            if !one.waits() && one.timer.is_none() {
                self.go_on(&state.stand_ins, &mut table, work.id, now);
            }
        }
        self.answer_calls(&state.stand_ins, &mut table, now);
    }

    /// The work of a request has ended that had a stand-in.
    #[cold]
    pub(crate) fn end_rehearsed(&self, handle: &mut StandInHandle, end: Completion, now: Timestamp) {
        let Some(((work, was_stream), state)) = handle.end().zip(self.shared.rehearsal.get()) else { return };
        let mut table = self.up_to(&state.stand_ins, now);
        let took = end.place_time(work.admitted, now);
        self.end_work(&state.stand_ins, &mut table, (work, was_stream), (end, took), now);
        self.answer_calls(&state.stand_ins, &mut table, now);
    }

    fn end_work(
        &self,
        stand_ins: &StandIns,
        table: &mut StandInTable,
        (work, was_stream): (RehearsedWork, bool),
        (end, took): (Completion, Duration),
        now: Timestamp,
    ) {
        if !was_stream {
            table.end_work(work.resource);
            if matches!(end.outcome, Outcome::Succeeded | Outcome::Failed) {
                self.learn(table, work, took);
            }
        }
        let Some(one) = table.stand_in(work.id) else { return };
        let took = one.progress.took().unwrap_or(took);
        one.progress = WorkProgress::Ended(end, took);
        // Work that is cancelled was never begun, so its stand-in needs no place.
        if end.outcome == Outcome::Cancelled {
            self.leave(table, work.id, end, now);
        } else if !one.waits() && one.timer.is_none() {
            self.go_on(stand_ins, table, work.id, now);
        }
    }

    /// Brings the rehearsal up to this instant, at a tick. Stand-ins that wait for resources which
    /// enforce by now leave, and those whose requests have ended.
    pub(crate) fn tick_rehearsal(&self, now: Timestamp) {
        let Some(state) = self.shared.rehearsal.get() else { return };
        let mut table = self.up_to(&state.stand_ins, now);
        let is_over = |one: &StandIn| {
            let has_ended = matches!(one.progress, WorkProgress::Ended(..));
            (one.waits() || has_ended) && !self.is_shadow(one.work.resource)
        };
        for id in table.those(is_over) {
            self.leave(&mut table, id, Outcome::Abandoned.into(), now);
        }
    }

    /// Answers what the tick has called.
    pub(crate) fn answer_rehearsal(&self, now: Timestamp) {
        if let Some(state) = self.shared.rehearsal.get() {
            drop(self.up_to(&state.stand_ins, now));
        }
    }

    /// Takes in for how long a service worked at a request.
    fn learn(&self, table: &mut StandInTable, work: RehearsedWork, took: Duration) {
        let Some(overload) = self.overload() else { return };
        overload.resource(work.resource).observe_place_time(work.at_work, took);
        let places = self.places_of(work.resource);
        table.service(work.resource).times.add(took, work.at_work, places);
    }

    /// The places of a resource.
    fn places_of(&self, resource: ResourceId) -> u64 {
        self.overload().map_or(u64::MAX, |overload| overload.in_flight_max(resource, Class::CriticalPlus))
    }

    /// Lets everything happen that was due until `now`.
    fn up_to<'s>(&self, stand_ins: &'s StandIns, now: Timestamp) -> MutexGuard<'s, StandInTable> {
        let mut table = locked(&stand_ins.table);
        for (work, was_stream) in stand_ins.dropped.take() {
            let end = (Outcome::Abandoned.into(), now.saturating_since(work.admitted));
            self.end_work(stand_ins, &mut table, (work, was_stream), end, now);
        }
        // Calls that came since the last time are answered before anything that was due later.
        let first = table.due(now).map_or(now, |(at, _)| at);
        self.answer_calls(stand_ins, &mut table, first);
        while let Some((at, id)) = table.due(now) {
            self.go_on(stand_ins, &mut table, id, at);
            self.answer_calls(stand_ins, &mut table, at);
        }
        table
    }

    /// Lets the stand-ins go on that were called, and those that are called by what these do.
    fn answer_calls(&self, stand_ins: &StandIns, table: &mut StandInTable, now: Timestamp) {
        loop {
            let called = stand_ins.take_called();
            if called.is_empty() {
                return;
            }
            for id in called {
                if table.stand_in(id).is_some_and(|one| one.waits()) {
                    self.go_on(stand_ins, table, id, now);
                }
            }
        }
    }

    /// Lets a stand-in go on that was called, or whose instant has come.
    fn go_on(&self, stand_ins: &StandIns, table: &mut StandInTable, id: u64, now: Timestamp) {
        let Some(one) = table.take(id) else { return };
        let StandIn { work, is_within, part, progress, .. } = one;
        match (part, progress) {
            (StandInPart::Waits(pending), progress) => {
                let Some(rehearsal) = &self.rehearsal else { return };
                let step = rehearsal.resume(pending, Answered::Turn, now);
                stand_ins.take_step(table, (work, is_within, progress), step, now);
            }
            (
                StandInPart::HasPlace { mut permit, since },
                WorkProgress::IsWorkedAt | WorkProgress::Streams(_),
            ) if work.is_stream => {
                self.settler().begin_answer(&mut permit, Completion::default(), now);
                let part = StandInPart::Streams { permit, since };
                table.put(StandIn { work, is_within, part, progress, timer: None });
                self.call_behind(work.resource);
            }
            (StandInPart::HasPlace { permit, since } | StandInPart::Streams { permit, since }, progress) => {
                let end = match progress {
                    WorkProgress::Ended(end, _) => end,
                    _ => Completion::default(),
                };
                self.end_stand_in(work.resource, (*permit, since), end, now);
            }
        }
    }

    /// Takes a stand-in out, which gives its place back.
    fn leave(&self, table: &mut StandInTable, id: u64, end: Completion, now: Timestamp) {
        let Some(one) = table.take(id) else { return };
        match one.part {
            StandInPart::Waits(_) => {}
            StandInPart::HasPlace { permit, since } | StandInPart::Streams { permit, since } => {
                self.end_stand_in(one.work.resource, (*permit, since), end, now);
            }
        }
    }

    /// Ends the work of a stand-in, which has had its place since then.
    fn end_stand_in(
        &self,
        resource: ResourceId,
        (permit, since): (Permit, Timestamp),
        end: Completion,
        now: Timestamp,
    ) {
        let ended_after = Some(now.saturating_since(since));
        let end = Completion { ended_after, first_byte_after: None, true_cost: None, ..end };
        let settled = self.settler().settle(permit, end, now);
        debug_assert!(settled.batches.is_empty(), "a stand-in asks no store");
        drop(settled);
        self.call_behind(resource);
    }

    /// The engine that settles what stand-ins hold.
    fn settler(&self) -> &Self {
        self.rehearsal.as_deref().unwrap_or(self)
    }

    /// Calls the requests that wait for the place of a stand-in, if the resource enforces by now.
    fn call_behind(&self, resource: ResourceId) {
        if !self.is_shadow(resource) {
            self.shared.room.returned(Obstacle::Place(resource));
        }
    }
}

/// The stand-in of a request: only its resource has something to say about it.
fn stand_in_of<'a>(request: &Request<'a>) -> Request<'a> {
    Request { attributes: ().into(), access: None, waiting_connection: None, ..*request }
}

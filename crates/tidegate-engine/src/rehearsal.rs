//! The rehearsal of resources in shadow mode: what each of them would refuse and delay.
//!
//! A request to such a resource passes it unseen. A *stand-in* of it, a request without limits and
//! without access, is decided by an engine of its own: the same walk, over the same resources and
//! features, with a waiting room of its own. So the places, the queue and the cursor are those that
//! the resource would have if it enforced: a stand-in that would be refused takes no place, and one
//! that waits is served, shed or expires by the same code as a request.
//!
//! Nobody awaits a stand-in. Each arrival, each end of work and each tick first brings the rehearsal
//! up to its instant: what was due before happens at the instant at which it was due.
//!
//! **How long a stand-in keeps its place.** Until the work of its request ends, while the service
//! works on no more requests than the resource has places, and also beyond that while it is not
//! slower for it. A service that is slower than it would be behind an enforcing resource may end one
//! request long after the place of its stand-in would have been returned. Such a service still ends
//! as many requests a second as it can. So the end of work that has no place ends the place that was
//! held longest. A stand-in whose request has ended before it got its place keeps it for as long as the
//! request took; behind a service that is slower, at most for twice the typical time of the resource.

use core::pin::pin;
use core::task::{Context, Poll, Waker};
use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Wake;

use tidegate_core::{Class, NamespaceConfig, Timestamp};
use tidegate_overload::{Obstacle, ResourceId};

use crate::continuation::{Answered, Pending, Wants};
use crate::decision::{Decision, Step};
use crate::engine::{Engine, Shared};
use crate::overrides::Overrides;
use crate::permit::{Completion, Holds, Outcome, Permit};
use crate::planes::Planes;
use crate::request::Request;
use crate::{Lineage, waiting_room::Room};

/// The state of all rehearsals, which reloads keep.
pub(crate) struct RehearsalState {
    shared: Arc<Shared>,
    stand_ins: Arc<StandIns>,
}

/// The rehearsal of the resources that are in shadow mode under one engine.
pub(crate) struct Rehearsal {
    /// The engine that decides on stand-ins.
    pub(crate) engine: Engine,
}

/// All stand-ins that wait or have places.
#[derive(Debug, Default)]
pub(crate) struct StandIns {
    table: Mutex<StandInTable>,
    /// The stand-ins that the waiting room has called.
    called: Arc<CallList>,
    /// The requests whose permits were dropped without a word about the end of their work.
    dropped: Mutex<Vec<(u64, ResourceId, Timestamp)>>,
}

#[derive(Debug, Default)]
struct StandInTable {
    last: u64,
    stand_ins: BTreeMap<u64, StandIn>,
    /// When each stand-in goes on by itself that does.
    timers: BTreeSet<(Timestamp, u64)>,
    services: BTreeMap<ResourceId, RehearsedService>,
}

/// A service as it is, and the places that it would give.
#[derive(Debug, Default)]
struct RehearsedService {
    /// The requests that it works on.
    works_on: u64,
    /// The time that requests take while it works on no more than it has places for, and beyond.
    unburdened: WorkTime,
    overused: WorkTime,
    /// The stand-ins that have places, by the instants at which they got them.
    places: BTreeSet<(Timestamp, u64)>,
}

/// How long work takes, on average over the last requests.
#[derive(Clone, Copy, Debug, Default)]
struct WorkTime {
    mean: Duration,
    samples: u32,
}

impl WorkTime {
    /// The requests over which it is an average.
    const SPAN: u32 = 64;

    fn add(&mut self, took: Duration) {
        self.samples = (self.samples + 1).min(Self::SPAN);
        self.mean = (self.mean * (self.samples - 1) + took) / self.samples;
    }
}

impl RehearsedService {
    /// Whether it is slower than while it works on no more than it has places for, by a quarter at
    /// least. While that time is not known, a service with more work is slower.
    fn is_slowed(&self) -> bool {
        let is_known = self.unburdened.samples == WorkTime::SPAN;
        !is_known || self.overused.mean > self.unburdened.mean * 5 / 4
    }
}

#[derive(Debug)]
struct StandIn {
    resource: ResourceId,
    part: StandInPart,
    /// How the work of its request has ended and for how long it is to keep its place, if it has.
    ended: Option<(Completion, Duration)>,
    timer: Option<Timestamp>,
}

/// What a stand-in does.
#[derive(Debug)]
enum StandInPart {
    Waits(Pending),
    HasPlace { permit: Box<Permit>, since: Timestamp },
}

#[derive(Debug, Default)]
struct CallList(Mutex<Vec<u64>>);

#[derive(Debug)]
struct StandInWaker {
    id: u64,
    called: Arc<CallList>,
}

impl Wake for StandInWaker {
    fn wake(self: Arc<Self>) {
        locked(&self.called.0).push(self.id);
    }
}

/// The stand-in of an admitted request, as its permit holds it. Dropping it ends the work.
#[derive(Debug)]
pub(crate) struct Rehearsed {
    stand_ins: Arc<StandIns>,
    id: u64,
    resource: ResourceId,
    admitted: Timestamp,
    is_ended: bool,
}

impl Drop for Rehearsed {
    fn drop(&mut self) {
        if !self.is_ended {
            locked(&self.stand_ins.dropped).push((self.id, self.resource, self.admitted));
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl RehearsalState {
    pub(crate) fn new(shared: &Arc<Shared>) -> Self {
        Self { shared: Arc::new(shared.for_rehearsal()), stand_ins: Arc::default() }
    }

    /// The room in which stand-ins wait.
    pub(crate) fn room(&self) -> &Room {
        &self.shared.room
    }
}

impl Rehearsal {
    /// The rehearsal of the resources in shadow mode of these planes; `None` without any.
    pub(crate) fn new<'a>(
        shared: &Arc<Shared>,
        planes: &Planes,
        namespaces: impl Iterator<Item = &'a str>,
        now: Timestamp,
    ) -> Option<Arc<Self>> {
        let overload = &planes.overload.as_ref()?.overload;
        overload.shadow_resources().next()?;
        let state = shared.rehearsal.get_or_init(|| RehearsalState::new(shared));
        let planes = Planes::new(None, None, Some(overload.for_rehearsal()), &state.shared.room, now);
        let namespaces = namespaces.map(|name| NamespaceConfig::new(name, [])).collect();
        let (lineage, overrides) = (Lineage::default(), Overrides::default());
        let built = Engine::from_world(Arc::clone(&state.shared), planes, namespaces, &lineage, overrides);
        let (engine, _) = built.expect("an engine has these namespaces, and without limits nothing is wrong");
        Some(Arc::new(Self { engine }))
    }
}

impl Engine {
    /// Whether a resource is in shadow mode: it refuses and delays nobody, and its numbers, but for
    /// what was offered and admitted, are those that it would have if it enforced.
    pub fn is_shadow(&self, resource: ResourceId) -> bool {
        self.overload().is_some_and(|overload| overload.is_shadow(resource))
    }

    /// The room in which requests wait for a resource, or their stand-ins.
    pub(crate) fn room_of(&self, resource: ResourceId) -> &Room {
        match &self.rehearsal {
            Some(rehearsal) if self.is_shadow(resource) => &rehearsal.engine.shared.room,
            _ => &self.shared.room,
        }
    }

    /// The resource in shadow mode that serves a request, if it is one.
    #[cold]
    pub(crate) fn shadow_resource(&self, request: &Request<'_>) -> Option<ResourceId> {
        self.resource_of(request).filter(|resource| self.is_shadow(*resource))
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
        let mut table = state.stand_ins.up_to(self, now);
        let Some(step) = rehearsal.engine.admit_stand_in(request, now) else { return };
        if request.end_known {
            table.last += 1;
            let id = table.last;
            table.services.entry(resource).or_default().works_on += 1;
            state.stand_ins.take_step(&mut table, (id, resource, None), step, now);
            if let Some(holds) = holds {
                let stand_ins = Arc::clone(&state.stand_ins);
                let rehearsed = Rehearsed { stand_ins, id, resource, admitted: now, is_ended: false };
                holds.other_mut().rehearsed = Some(Box::new(rehearsed));
            }
        }
        state.stand_ins.answer_calls(&mut table, self, now);
    }

    /// The work of a request has ended that had a stand-in, after it had its place for so long.
    #[cold]
    pub(crate) fn end_rehearsed(
        &self,
        mut rehearsed: Rehearsed,
        completion: Completion,
        admitted: Timestamp,
        now: Timestamp,
    ) {
        rehearsed.is_ended = true;
        let took = completion.place_time(admitted, now);
        let stand_ins = Arc::clone(&rehearsed.stand_ins);
        let mut table = stand_ins.up_to(self, now);
        table.end(self, (rehearsed.id, rehearsed.resource), (completion, took), now);
        stand_ins.answer_calls(&mut table, self, now);
    }

    /// Brings the rehearsal up to this instant, at a tick. Stand-ins that wait for resources which
    /// enforce by now leave.
    pub(crate) fn tick_rehearsal(&self, now: Timestamp) {
        let Some(state) = self.shared.rehearsal.get() else { return };
        let mut table = state.stand_ins.up_to(self, now);
        let is_over = |one: &StandIn| {
            let is_waiting = matches!(one.part, StandInPart::Waits(_));
            (is_waiting || one.ended.is_some()) && !self.is_shadow(one.resource)
        };
        let over = table.stand_ins.iter().filter(|(_, one)| is_over(one)).map(|(id, _)| *id);
        for id in over.collect::<Vec<_>>() {
            table.leave(self, id, Outcome::Abandoned.into(), now);
        }
    }

    /// Answers what the tick has called.
    pub(crate) fn answer_rehearsal(&self, now: Timestamp) {
        if let Some(state) = self.shared.rehearsal.get() {
            drop(state.stand_ins.up_to(self, now));
        }
    }
}

impl StandIns {
    /// Lets everything happen that was due until `now`.
    fn up_to(&self, engine: &Engine, now: Timestamp) -> MutexGuard<'_, StandInTable> {
        let mut table = locked(&self.table);
        for (id, resource, admitted) in core::mem::take(&mut *locked(&self.dropped)) {
            let end = (Outcome::Abandoned.into(), now.saturating_since(admitted));
            table.end(engine, (id, resource), end, now);
        }
        loop {
            let due = table.timers.first().copied().filter(|(at, _)| *at <= now);
            let at = due.map_or(now, |(at, _)| at);
            self.answer_calls(&mut table, engine, at);
            let Some(timer) = due else { return table };
            if table.timers.remove(&timer) {
                self.go_on(&mut table, engine, timer.1, at);
            }
        }
    }

    /// Lets the stand-ins go on that were called, and those that are called by what these do.
    fn answer_calls(&self, table: &mut StandInTable, engine: &Engine, now: Timestamp) {
        loop {
            let called = core::mem::take(&mut *locked(&self.called.0));
            if called.is_empty() {
                return;
            }
            for id in called {
                let waits = table.stand_ins.get(&id).is_some_and(StandIn::waits);
                if waits {
                    self.go_on(table, engine, id, now);
                }
            }
        }
    }

    /// Lets a stand-in go on that was called, or whose instant has come.
    fn go_on(&self, table: &mut StandInTable, engine: &Engine, id: u64, now: Timestamp) {
        let Some(one) = table.take(id) else { return };
        match (one.part, &engine.rehearsal) {
            (StandInPart::Waits(pending), Some(rehearsal)) => {
                let step = rehearsal.engine.resume(pending, Answered::Turn, now);
                self.take_step(table, (id, one.resource, one.ended), step, now);
            }
            (StandInPart::Waits(_), None) => {}
            (StandInPart::HasPlace { permit, since }, _) => {
                let completion = one.ended.map_or_else(Completion::default, |(completion, _)| completion);
                give_back(engine, one.resource, (*permit, since), completion, now);
            }
        }
    }

    /// Takes in a step of a stand-in.
    fn take_step(
        &self,
        table: &mut StandInTable,
        (id, resource, ended): (u64, ResourceId, Option<(Completion, Duration)>),
        step: Step<'static>,
        now: Timestamp,
    ) {
        let (part, timer) = match step {
            Step::Decided(Decision::Admit(permit)) if permit.holds_place() => {
                table.services.entry(resource).or_default().places.insert((now, id));
                let timer = ended.map(|(_, keeps)| now.saturating_add(keeps));
                (StandInPart::HasPlace { permit: Box::new(permit), since: now }, timer)
            }
            Step::Decided(_) => return,
            Step::Ask(pending) => {
                let Wants::Turn(turn) = pending.wants() else { return };
                let timer = turn.wake_at();
                let waker = Waker::from(Arc::new(StandInWaker { id, called: Arc::clone(&self.called) }));
                if let Poll::Ready(()) = pin!(turn).poll(&mut Context::from_waker(&waker)) {
                    locked(&self.called.0).push(id);
                }
                (StandInPart::Waits(pending), Some(timer))
            }
        };
        table.timers.extend(timer.map(|at| (at, id)));
        table.stand_ins.insert(id, StandIn { resource, part, ended, timer });
    }
}

impl StandInTable {
    /// The work of a request has ended.
    fn end(
        &mut self,
        engine: &Engine,
        (id, resource): (u64, ResourceId),
        (completion, took): (Completion, Duration),
        now: Timestamp,
    ) {
        let most = engine.overload().map_or(u64::MAX, |one| one.in_flight_max(resource, Class::CriticalPlus));
        let service = self.services.entry(resource).or_default();
        let is_overused = service.works_on > most;
        if matches!(completion.outcome, Outcome::Succeeded | Outcome::Failed) {
            let times = if is_overused { &mut service.overused } else { &mut service.unburdened };
            times.add(took);
        }
        let ends_another = is_overused && service.is_slowed();
        service.works_on = service.works_on.saturating_sub(1);
        if completion.outcome == Outcome::Cancelled {
            // It was not begun.
            self.leave(engine, id, completion, now);
            return;
        }
        match self.stand_ins.get_mut(&id) {
            Some(one) if !one.waits() => return self.leave(engine, id, completion, now),
            Some(one) => {
                // Twice, since ends of other work come first while there are any.
                let most = typical_time(engine, resource).filter(|_| ends_another);
                let keeps = most.map_or(took, |typical| took.min(typical * 2));
                one.ended = Some((completion, keeps));
            }
            None => {}
        }
        let oldest = self.services.get(&resource).and_then(|service| service.places.first().copied());
        if let Some((_, oldest)) = oldest.filter(|_| ends_another) {
            self.leave(engine, oldest, completion, now);
        }
    }

    /// Takes a stand-in out, with its timer and its place.
    fn take(&mut self, id: u64) -> Option<StandIn> {
        let one = self.stand_ins.remove(&id)?;
        if let Some(timer) = one.timer {
            self.timers.remove(&(timer, id));
        }
        if let (StandInPart::HasPlace { since, .. }, Some(service)) =
            (&one.part, self.services.get_mut(&one.resource))
        {
            service.places.remove(&(*since, id));
        }
        Some(one)
    }

    /// Takes a stand-in out, which gives its place back.
    fn leave(&mut self, engine: &Engine, id: u64, completion: Completion, now: Timestamp) {
        let Some(one) = self.take(id) else { return };
        if let StandInPart::HasPlace { permit, since } = one.part {
            give_back(engine, one.resource, (*permit, since), completion, now);
        }
    }
}

impl StandIn {
    const fn waits(&self) -> bool {
        matches!(self.part, StandInPart::Waits(_))
    }
}

/// The typical time that a resource takes for a request; `None` while it is not known.
fn typical_time(engine: &Engine, resource: ResourceId) -> Option<Duration> {
    let typical = engine.overload()?.resource(resource).service_times().typical();
    Some(typical).filter(|typical| !typical.is_zero())
}

/// Ends the work of a stand-in, which has had its place since then.
fn give_back(
    engine: &Engine,
    resource: ResourceId,
    (permit, since): (Permit, Timestamp),
    completion: Completion,
    now: Timestamp,
) {
    let ended_after = Some(now.saturating_since(since));
    let completion = Completion { ended_after, first_byte_after: None, true_cost: None, ..completion };
    let settler = engine.rehearsal.as_ref().map_or(engine, |rehearsal| &rehearsal.engine);
    let settled = settler.settle(permit, completion, now);
    debug_assert!(settled.batches.is_empty(), "a stand-in asks no store");
    drop(settled);
    if !engine.is_shadow(resource) {
        // It enforces by now, and requests may wait for it.
        engine.shared.room.returned(Obstacle::Place(resource));
    }
}

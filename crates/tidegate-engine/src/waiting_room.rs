//! The waiting room of an engine: the pure [`tidegate_overload::WaitingRoom`] behind a lock, with a
//! waker beside each request. Wakers are cloned, woken and dropped without the lock, since they may
//! run any code.

use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use core::time::Duration;
use std::collections::BTreeMap;

use tidegate_core::{Class, Cost, Timestamp};
use tidegate_overload::{
    ArrivalShed, Entrant, NamespaceShares, Obstacle, PlaceBounds, Position, QueueConfig, QueueCounts,
    QueueTick, ResourceId, RoomBounds, RoomUse, ServiceTimes, TimeCounts, TurnVerdict, WaitingNamespaces,
    WaitingRoom,
};

use crate::spent_ticket::{HeldTicket, SpentTicket};
use crate::sync::{Arc, AtomicBool, AtomicU64, AtomicUsize, Mutex, MutexGuard, Ordering, lock};

/// How often the first request of a line asks again although nothing of its obstacle was returned:
/// permits expire, and other members of a fleet return theirs in a shared store.
const ASK_AGAIN: Duration = Duration::from_millis(100);

/// By how much [`ASK_AGAIN`] grows with each line, so that all lines together ask at most a
/// thousand times a second.
const ASK_AGAIN_FOR_EACH_LINE: Duration = Duration::from_millis(1);

/// All requests that wait.
#[derive(Debug)]
pub(crate) struct Room {
    state: Mutex<RoomState>,
    /// How many wait: read on each decision, which costs one load while nothing waits.
    count: AtomicUsize,
    /// How often something was returned.
    returns: Returns,
    is_draining: AtomicBool,
    /// How often the lock was taken.
    #[cfg(test)]
    locks: core::sync::atomic::AtomicUsize,
}

/// Counts what was returned. On a cache line of its own, so that the return of a place takes
/// `Room::count`, which each decision reads, from no other core.
#[derive(Debug)]
#[repr(align(64))]
struct Returns {
    // `SeqCst`, as `Room::count`: a request that enters sees here what was returned before, and a
    // later return sees the request in `count`.
    count: AtomicU64,
}

#[derive(Debug)]
struct RoomState {
    room: CallRoom,
    /// The bounds as they were set.
    bounds: RoomBounds,
    /// The most bytes of all that waits.
    total_bytes: usize,
    /// The tickets of those that came with one, apart because few do.
    tickets: BTreeMap<Position, HeldTicket>,
}

/// The pure room, with the call of each request beside it.
type CallRoom = WaitingRoom<Call>;

impl RoomState {
    /// Calls a request for its turn. Its waker is to be woken without the lock.
    #[must_use]
    fn call(&mut self, position: Option<Position>) -> Option<Waker> {
        self.room.beside_mut(position?)?.make(CallReason::Turn)
    }
}

/// Why a waiting request goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallReason {
    /// It may be its turn.
    Turn,
    /// A request of a higher class has taken its position.
    Displaced,
    /// The process stops.
    Drained,
}

fn wake(wakers: impl IntoIterator<Item = Waker>) {
    wakers.into_iter().for_each(Waker::wake);
}

/// The call of one waiting request: made by the room, looked at by its driver. A request that has
/// lost its position without leaving was displaced.
#[derive(Debug, Default)]
struct Call {
    reason: Option<CallReason>,
    waker: Option<Waker>,
}

impl Call {
    /// Makes the call; the waker is to be woken without the lock. A reason other than a turn is
    /// final.
    #[must_use]
    fn make(&mut self, reason: CallReason) -> Option<Waker> {
        if matches!(self.reason, None | Some(CallReason::Turn)) {
            self.reason = Some(reason);
        }
        self.waker.take()
    }

    fn take(&mut self) -> Option<CallReason> {
        let reason = self.reason;
        if reason == Some(CallReason::Turn) {
            self.reason = None;
        }
        reason
    }
}

impl Room {
    pub(crate) fn new(bounds: RoomBounds) -> Self {
        Self {
            state: Mutex::new(RoomState {
                room: WaitingRoom::new(bounds),
                bounds,
                total_bytes: usize::MAX,
                tickets: BTreeMap::new(),
            }),
            count: AtomicUsize::new(0),
            returns: Returns { count: AtomicU64::new(0) },
            is_draining: AtomicBool::new(false),
            #[cfg(test)]
            locks: core::sync::atomic::AtomicUsize::new(0),
        }
    }

    fn state(&self) -> MutexGuard<'_, RoomState> {
        #[cfg(test)]
        self.locks.fetch_add(1, core::sync::atomic::Ordering::Relaxed);
        lock(&self.state)
    }

    /// How many requests wait.
    #[inline]
    pub(crate) fn count(&self) -> usize {
        self.count.load(Ordering::SeqCst)
    }

    /// The part of the room that is in use.
    pub(crate) fn used(&self) -> RoomUse {
        self.state().room.used()
    }

    pub(crate) fn set_bounds(&self, bounds: RoomBounds) {
        self.state().bounds = bounds;
    }

    /// The bounds as they were set.
    pub(crate) fn bounds(&self) -> RoomBounds {
        self.state().bounds
    }

    pub(crate) fn set_total_bytes(&self, bytes: usize) {
        self.state().total_bytes = bytes;
    }

    /// Divides the room by so many namespaces and resources, unless the bounds say by how many.
    pub(crate) fn share_by(&self, namespaces: usize, resources: usize) {
        let mut state = self.state();
        let bounds = state.bounds;
        let or = |given: usize, known: usize| if given == 0 { known } else { given };
        let shared = bounds.shared_by(or(bounds.namespaces, namespaces), or(bounds.resources, resources));
        state.room.set_bounds(shared);
        let total = state.total_bytes;
        state.room.set_total_bytes(total, namespaces);
    }

    pub(crate) fn set_resource_bounds(&self, bounds: impl Iterator<Item = (ResourceId, RoomUse)>) {
        self.state().room.set_resource_bounds(bounds);
    }

    /// Sets which resources have a fair queue. Requests that wait keep their positions.
    pub(crate) fn set_queues(&self, queues: impl Iterator<Item = (ResourceId, QueueConfig)>, now: Timestamp) {
        self.state().room.set_queues(queues, now);
    }

    /// Sets the shares of the namespaces at a resource, in its fair queue and in its room.
    pub(crate) fn set_namespace_shares(&self, resource: ResourceId, shares: &NamespaceShares) {
        self.state().room.set_namespace_shares(resource, shares);
    }

    /// The report of a resource's fair queue since the tick before; `None` if it has none.
    pub(crate) fn tick(
        &self,
        resource: ResourceId,
        service_times: ServiceTimes,
        place_bounds: PlaceBounds,
        now: Timestamp,
    ) -> Option<(QueueTick, [TimeCounts; Class::ALL.len()])> {
        let mut state = self.state();
        state.room.set_service_times(resource, service_times);
        state.room.set_place_bounds(resource, place_bounds);
        Some((state.room.tick(resource, now)?, state.room.take_waits(resource)?))
    }

    /// The namespaces whose requests wait for a place of a resource.
    pub(crate) fn waiting_namespaces(&self, resource: ResourceId) -> WaitingNamespaces {
        self.state().room.waiting_namespaces(resource)
    }

    /// The requests that wait for a place of a resource with a fair queue, by namespace and class.
    pub(crate) fn waiting_by_namespace(&self, resource: ResourceId) -> Vec<(Option<u32>, Class, u64)> {
        self.state().room.queue(resource).map_or_else(Vec::new, |queue| queue.waiting().collect())
    }

    /// The counters of each class in the fair queue of a resource, in the order of [`Class::ALL`];
    /// `None` if it has none.
    pub(crate) fn queue_counts(&self, resource: ResourceId) -> Option<[QueueCounts; Class::ALL.len()]> {
        let state = self.state();
        let queue = state.room.queue(resource)?;
        Some(Class::ALL.map(|class| queue.counts(class)))
    }

    /// Corrects what a served request was charged in the fair queue of its resource. While nothing
    /// waits there is nobody to whom the difference matters.
    pub(crate) fn settle(&self, resource: ResourceId, entrant: &Entrant, held: Duration, now: Timestamp) {
        if self.count() > 0 {
            let mut state = self.state();
            let next = state.room.settle(resource, entrant, held, now);
            let waker = state.call(next);
            drop(state);
            wake(waker);
        }
    }

    /// A number that changes with every return.
    pub(crate) fn returns(&self) -> u64 {
        self.returns.count.load(Ordering::SeqCst)
    }

    /// The number of returns for a request that is in the room already: a return that is not in it
    /// sees the request in `count`. Writing the number orders the two, which reading it does not.
    fn returns_by_now(&self) -> u64 {
        self.returns.count.fetch_add(0, Ordering::SeqCst)
    }

    /// Calls the next request of an obstacle of which something was returned.
    pub(crate) fn returned(&self, obstacle: Obstacle) {
        self.returns.count.fetch_add(1, Ordering::SeqCst);
        if self.count() > 0 {
            let mut state = self.state();
            let next = state.room.returned(obstacle);
            let waker = state.call(next);
            drop(state);
            wake(waker);
        }
    }

    /// Whether a request of this class or a higher one waits at an obstacle.
    pub(crate) fn waits_from(&self, obstacle: Obstacle, class: Class) -> bool {
        self.count() > 0 && self.state().room.waits_from(obstacle, class)
    }

    /// How long the first request of a line waits before it asks again for a loan.
    pub(crate) fn ask_again(&self) -> Duration {
        let lines = u32::try_from(self.state().room.lines()).unwrap_or(u32::MAX);
        ASK_AGAIN.max(ASK_AGAIN_FOR_EACH_LINE.saturating_mul(lines))
    }

    /// Lets a request join the line of the first of these obstacles for which a request of its
    /// class or a higher one waits; `returns` is as for [`Room::enter`].
    pub(crate) fn join(
        this: &Arc<Self>,
        (mut entrant, ticket): (Entrant, Option<HeldTicket>),
        obstacles: &[Obstacle],
        class: Class,
        returns: u64,
        now: Timestamp,
    ) -> RoomAnswer {
        let state = this.state();
        match state.room.line_ahead(obstacles.iter().copied(), class) {
            Some(obstacle) => {
                entrant.obstacle = obstacle;
                Self::enter_locked(this, state, (entrant, ticket), returns, now)
            }
            None => RoomAnswer::NoLine,
        }
    }

    /// Lets a request wait for its obstacle.
    ///
    /// `returns` is what [`Room::returns`] was before the request asked for the last time: if
    /// something was returned since then, the request is called at once.
    /// The ticket of one that does not wait is good again before the answer is returned.
    pub(crate) fn enter(
        this: &Arc<Self>,
        entrant: (Entrant, Option<HeldTicket>),
        returns: u64,
        now: Timestamp,
    ) -> RoomAnswer {
        Self::enter_locked(this, this.state(), entrant, returns, now)
    }

    /// The reason for which [`Room::enter`] would shed a request, and how long it would wait
    /// otherwise, as far as that is known. The bounds of the room are not looked at.
    pub(crate) fn foresee(&self, entrant: &Entrant, now: Timestamp) -> Result<Option<Duration>, ArrivalShed> {
        let state = self.state();
        match state.room.sheds_on_arrival(entrant, now) {
            Some(why) => Err(why),
            None => Ok(state.room.estimated_wait(entrant)),
        }
    }

    fn enter_locked(
        this: &Arc<Self>,
        mut state: MutexGuard<'_, RoomState>,
        (entrant, ticket): (Entrant, Option<HeldTicket>),
        returns: u64,
        now: Timestamp,
    ) -> RoomAnswer {
        if let Some(why) = state.room.sheds_on_arrival(&entrant, now) {
            return RoomAnswer::Shed(why);
        }
        let Ok((entered, displaced)) = state.room.enter_with(entrant, Call::default(), now) else {
            return RoomAnswer::Full;
        };
        if displaced.is_none() {
            this.count.fetch_add(1, Ordering::SeqCst);
        }
        let called = [entered.called, entered.next].map(|position| state.call(position));
        let reason = if this.is_draining.load(Ordering::SeqCst) {
            Some(CallReason::Drained)
        } else {
            (this.returns_by_now() != returns).then_some(CallReason::Turn)
        };
        // It is polled by nobody yet, so that it has no waker.
        let own = reason.zip(state.room.beside_mut(entered.position)).and_then(|(why, call)| call.make(why));
        let is_next = state.room.is_next(entered.position);
        if let Some(ticket) = ticket {
            state.tickets.insert(entered.position, ticket);
        }
        drop(state);
        wake(called.into_iter().flatten().chain(displaced.and_then(|call| call.waker)).chain(own));
        let seat = Seat { room: Some(Arc::clone(this)), position: entered.position };
        RoomAnswer::Waits { seat, is_next }
    }

    /// Calls all waiting requests in order of their arrival, so that they are refused; and every
    /// one that enters from now on.
    pub(crate) fn drain(&self) {
        self.is_draining.store(true, Ordering::SeqCst);
        let mut state = self.state();
        let positions = state.room.positions().into_iter();
        let drain = |position| state.room.beside_mut(position)?.make(CallReason::Drained);
        let wakers: Vec<_> = positions.filter_map(drain).collect();
        drop(state);
        wake(wakers);
    }
}

/// The answer of the room to a request that came to it.
#[derive(Debug)]
pub(crate) enum RoomAnswer {
    /// It waits; `is_next` if it is the first of its line.
    Waits { seat: Seat, is_next: bool },
    /// It is to be refused rather than wait.
    Shed(ArrivalShed),
    /// The room is full for it.
    Full,
    /// No request waits for any of these obstacles.
    NoLine,
}

/// A waiting request as its driver finds it when it goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AtTurn {
    /// The reason for which it was called, if it was.
    pub(crate) call: Option<CallReason>,
    /// Whether it is its turn. Not asked of one that is [gone](CallReason::Displaced) or drained.
    pub(crate) verdict: TurnVerdict,
    /// The thing that it lacks; `None` if it has lost its position.
    pub(crate) obstacle: Option<Obstacle>,
    /// Whether it came in the time of a ticket.
    pub(crate) has_ticket: bool,
}

/// The position of one waiting request, left by dropping it.
#[derive(Debug)]
pub(crate) struct Seat {
    /// `None` once it has left as one that is served.
    room: Option<Arc<Room>>,
    position: Position,
}

impl Seat {
    fn room(&self) -> &Arc<Room> {
        self.room.as_ref().expect("only leaving it takes the room")
    }

    /// Takes the call of the request, if it was called, and asks whether it is its turn at `now`.
    pub(crate) fn at_turn(&self, now: Timestamp) -> AtTurn {
        let mut state = self.room().state();
        let has_ticket = state.tickets.contains_key(&self.position);
        let room = &mut state.room;
        let call = room.beside_mut(self.position).map_or(Some(CallReason::Displaced), Call::take);
        let verdict = match call {
            None | Some(CallReason::Turn) => room.turn(self.position, now),
            Some(CallReason::Displaced | CallReason::Drained) => TurnVerdict::Wait,
        };
        AtTurn { call, verdict, obstacle: room.obstacle(self.position), has_ticket }
    }

    /// The request is admitted at `now`: it leaves as one that is served, and its tenant is
    /// charged. The charge of the fair queue, and the ticket with which it came.
    pub(crate) fn served(mut self, now: Timestamp) -> (Option<Cost>, Option<SpentTicket>) {
        let mut charged = None;
        let ticket = self.leave(|room, position| {
            let served = room.served(position, now);
            charged = served.charged;
            served.called
        });
        (charged, ticket.and_then(HeldTicket::into_spent))
    }

    /// The request is refused.
    pub(crate) fn refused(mut self) {
        drop(self.leave(CallRoom::refused));
    }

    fn is_called(&self) -> bool {
        self.room().state().room.beside(self.position).is_none_or(|call| call.reason.is_some())
    }

    fn poll(&self, context: &Context<'_>) -> Poll<()> {
        let waker = context.waker().clone();
        let mut state = self.room().state();
        let (before, poll) = match state.room.beside_mut(self.position) {
            Some(call) if call.reason.is_none() => (call.waker.replace(waker), Poll::Pending),
            _ => (Some(waker), Poll::Ready(())),
        };
        drop(state);
        drop(before);
        poll
    }

    /// Leaves the line without losing the arrival, while the request waits for an answer of the
    /// store: what is returned meanwhile goes to the others.
    pub(crate) fn step_aside(&mut self, now: Timestamp) {
        let returns = self.room().returns();
        self.moved(Obstacle::Answer(self.position), returns, now);
    }

    /// Lets the request wait for something else; it keeps its arrival. Whether it is the first of
    /// its line. `returns` is as for [`Room::enter`].
    pub(crate) fn moved(&mut self, obstacle: Obstacle, returns: u64, now: Timestamp) -> bool {
        let mut state = self.room().state();
        if state.room.obstacle(self.position) == Some(obstacle) {
            // In its line it is called for every return.
            return state.room.is_next(self.position);
        }
        let moved = state.room.moved(self.position, obstacle, now);
        let called = [moved.called, moved.next].map(|position| state.call(position));
        let is_late = self.room().returns_by_now() != returns;
        let own = state.call(is_late.then_some(self.position));
        let is_next = state.room.is_next(self.position);
        drop(state);
        wake(called.into_iter().chain([own]).flatten());
        is_next
    }

    /// Takes the request out of the room, unless it has left or was displaced, and calls the next.
    /// The ticket with which it came.
    fn leave(
        &mut self,
        take: impl FnOnce(&mut CallRoom, Position) -> Option<Position>,
    ) -> Option<HeldTicket> {
        let room = self.room.take()?;
        let mut state = room.state();
        let ticket = state.tickets.remove(&self.position);
        if let Some(call) = state.room.beside_mut(self.position) {
            let own = call.waker.take();
            let next = take(&mut state.room, self.position);
            room.count.fetch_sub(1, Ordering::SeqCst);
            let waker = state.call(next);
            drop(state);
            drop(own);
            wake(waker);
        }
        ticket
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        drop(self.leave(CallRoom::leave));
    }
}

/// The turn of a waiting request: completes when the request is called. It goes on at
/// [`Turn::wake_at`] too, whether or not it was called by then.
#[derive(Clone, Copy, Debug)]
#[must_use = "a future does nothing unless it is polled"]
pub struct Turn<'a> {
    pub(crate) seat: &'a Seat,
    pub(crate) wake_at: Timestamp,
}

impl Turn<'_> {
    /// The instant at which the request goes on although it was not called.
    pub fn wake_at(&self) -> Timestamp {
        self.wake_at
    }

    /// Whether the request was called.
    pub fn is_called(&self) -> bool {
        self.seat.is_called()
    }
}

impl Future for Turn<'_> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        self.seat.poll(context)
    }
}

#[cfg(all(test, tidegate_loom))]
mod loom;
#[cfg(test)]
#[cfg(not(tidegate_loom))]
mod tests;

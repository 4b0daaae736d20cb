//! The waiting room: requests that wait for a limit or for a place in flight, in order and within
//! bounds.
//!
//! - The requests that lack the same thing, the [`Obstacle`], form a line. The next one is of the
//!   highest class and, within the class, arrived first. Only the next one asks the engine again,
//!   and the others wait for it.
//! - The line for the places of a resource can be a [`FairQueue`] instead
//!   ([`WaitingRoom::set_queues`]), which also says whether a request is still worth serving.
//! - A request whose obstacle changes keeps its arrival.
//! - The room is bounded in requests and bytes, and each group of requests has a share that no
//!   other group can use up ([`RoomBounds`]). A resource can have bounds of its own instead
//!   ([`WaitingRoom::set_resource_bounds`]).
//! - When it is full for a request, this request displaces the least important one that waits, if
//!   that one is less important. In a fair queue this is the newest request of the longest
//!   sub-queue of the lowest class, also of the entrant's own class if the sub-queue is longer than
//!   its own would be: one tenant cannot fill the queue. In the room of a resource a namespace
//!   below its part displaces one that is over its own, whatever the classes.
//!
//! The room is a plain value: it neither wakes nor locks. Its owner keeps a waker
//! [beside](WaitingRoom::enter_with) each request and wakes the positions that the functions here
//! return. A position is returned when its request should ask again: its line received something,
//! or the request before it is gone. Such a call is not lost if its request leaves or moves on
//! without following it, since [`WaitingRoom::leave`] and [`WaitingRoom::moved`] then return the
//! next one.
//!
//! The owner must take care of one race: something may come back between the refusal of a request
//! and its entrance, when [`WaitingRoom::returned`] does not find it yet. A request that enters a
//! line therefore asks once more if anything was returned since it asked last.
//!
//! Each function takes O(log n) for n waiting requests, on average over the growth of an index;
//! displacement looks in addition at each group that has a request of a lower class and whose share
//! protects it, and at each namespace that has one in a fair queue.

mod entrant;
mod plain_lines;
mod room_shares;
mod total_bytes;
mod waiting_connection;
mod waiting_connections;
mod waiting_namespaces;

use core::cmp::Reverse;
use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

use tidegate_core::{Class, Cost, Timestamp};

use crate::activity::time_counts::TimeCounts;
use crate::namespaces::{NamespaceKey, NamespaceShares};
use crate::places::place_bounds::PlaceBounds;
use crate::places::service_times::ServiceTimes;
use crate::queue::fair_queue::{
    ArrivalShed, Departure, FairQueue, QueueConfig, QueueTerms, QueueTick, TurnVerdict,
};
use crate::queue::position_map::PositionMap;
use crate::resource_id::ResourceId;
pub use entrant::{Entrant, Group, Obstacle, Position};
use plain_lines::{CallRank, PlainLines};
use room_shares::RoomShares;
pub use room_shares::{RoomBounds, RoomUse};
pub use waiting_connection::WaitingConnection;
use waiting_connections::WaitingConnections;
pub use waiting_namespaces::WaitingNamespaces;

/// All waiting requests, with a value `B` beside each for its owner.
///
/// ```
/// # use tidegate_core::{Class, Timestamp};
/// # use tidegate_overload::{Entrant, Group, Obstacle, RoomBounds, WaitingRoom};
/// let now = Timestamp::from_secs(1_800_000_000);
/// let mut room: WaitingRoom = WaitingRoom::new(RoomBounds::new(1024, 64 << 20));
/// let (obstacle, group) = (Obstacle::Counter(7), Group { namespace: 1, resource: None });
/// let entrant = |class| Entrant::new(group, class, obstacle).bytes(512);
/// let batch = room.enter(entrant(Class::Sheddable), now)?.position;
/// let user = room.enter(entrant(Class::Critical), now)?.position;
/// // The more important class is called first, and the other one when it has left.
/// assert_eq!(room.returned(obstacle), Some(user));
/// assert_eq!(room.leave(user), Some(batch));
/// # Ok::<(), tidegate_overload::RoomFull>(())
/// ```
#[derive(Clone, Debug)]
pub struct WaitingRoom<B = ()> {
    /// All lines but those in `queues`.
    lines: PlainLines,
    /// The lines for the places of the resources that have a fair queue.
    queues: BTreeMap<ResourceId, FairQueue>,
    shares: RoomShares,
    waiters: PositionMap<(Waiter, B)>,
    /// The requests for resources with a fair queue that wait for something else.
    aside: BTreeMap<Position, QueueTerms>,
    /// The requests whose connection counts by itself.
    connections: WaitingConnections,
    /// The requests of each group that are in no fair queue. The last one is displaced first.
    groups: BTreeMap<Group, BTreeSet<CallRank>>,
    /// The last request of each group.
    displaceable: BTreeSet<(CallRank, Group)>,
    next_arrival: u64,
}

/// The part of an [`Entrant`] that the room keeps; the rest is in its fair queue, or aside.
#[derive(Clone, Copy, Debug)]
struct Waiter {
    group: Group,
    class: Class,
    bytes: usize,
    obstacle: Obstacle,
}

impl Waiter {
    const fn rank(&self, position: Position) -> CallRank {
        (Reverse(self.class), position)
    }

    const fn entrant(&self, aside: &QueueTerms) -> Entrant {
        let Self { group, class, bytes, obstacle } = *self;
        let QueueTerms { tenant, cost, until, deadline, has_ticket, .. } = *aside;
        Entrant {
            group,
            class,
            bytes,
            obstacle,
            connection: None,
            tenant,
            cost,
            until,
            deadline,
            marginal: None,
            has_ticket,
        }
    }
}

/// The group before all others.
const FIRST_GROUP: Group = Group { namespace: 0, resource: None };

/// A request that has entered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Entered {
    /// Its position.
    pub position: Position,
    /// The request that lost its position to it, and is to be refused because the queue is full.
    pub displaced: Option<Position>,
    /// The request to be called because the displaced one was before it.
    pub called: Option<Position>,
    /// The request to be called because it is now the next of the line that was entered, where this
    /// line is a fair queue: perhaps the new one itself. A call for the one that was next before
    /// may be on its way, and that one will find that it is not its turn.
    pub next: Option<Position>,
}

/// The requests to be called when a request begins to wait for something else.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Moved {
    /// The one that became the next of the old line, if the request was the next one.
    pub called: Option<Position>,
    /// The one that became the next of the new line, where this line is a fair queue.
    pub next: Option<Position>,
}

/// The end of a wait by a place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Served {
    /// The request to be called, as [`WaitingRoom::leave`] says.
    pub called: Option<Position>,
    /// The charge of the fair queue of its resource; `None` without such a queue.
    pub charged: Option<Cost>,
}

/// There is no room for a request: its group's share and what is not reserved for others are used
/// up, and no request of a lower class can be displaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the waiting room is full: at most {} requests of {} bytes together may wait", bounds.requests, bounds.bytes)]
pub struct RoomFull {
    /// The bounds in force.
    pub bounds: RoomBounds,
}

impl<B> WaitingRoom<B> {
    /// An empty room with these bounds.
    pub fn new(bounds: RoomBounds) -> Self {
        Self {
            lines: PlainLines::default(),
            queues: BTreeMap::new(),
            shares: RoomShares::new(bounds),
            waiters: PositionMap::default(),
            aside: BTreeMap::new(),
            connections: WaitingConnections::default(),
            groups: BTreeMap::new(),
            displaceable: BTreeSet::new(),
            next_arrival: 0,
        }
    }

    /// Replaces the bounds. Requests that wait already keep their positions, also beyond the new
    /// bounds.
    pub fn set_bounds(&mut self, bounds: RoomBounds) {
        if bounds != self.shares.bounds() {
            self.shares.set_bounds(bounds);
        }
    }

    /// The bounds in force.
    pub fn bounds(&self) -> RoomBounds {
        self.shares.bounds()
    }

    /// Sets the most bytes that all requests occupy, those for resources with bounds of their own
    /// included. Half of it is guaranteed to `namespaces` in equal shares, and the other half goes
    /// to the first that asks. Requests that wait beyond a lower bound stay. Default: no such
    /// bound.
    pub fn set_total_bytes(&mut self, max: usize, namespaces: usize) {
        self.shares.set_total_bytes(max, namespaces);
    }

    /// Sets the bounds of the resources that have some: each is a separate room, which the bounds
    /// and shares of the others do not concern. Requests that wait beyond a lower bound stay.
    pub fn set_resource_bounds(&mut self, bounds: impl IntoIterator<Item = (ResourceId, RoomUse)>) {
        self.shares.set_resource_bounds(bounds);
    }

    /// Sets the shares of the namespaces at a resource, in its fair queue and in its room if it has
    /// [one of its own](WaitingRoom::set_resource_bounds).
    pub fn set_namespace_shares(&mut self, resource: ResourceId, shares: &NamespaceShares) {
        if let Some(queue) = self.queues.get_mut(&resource) {
            queue.set_shares(shares.clone());
        }
        self.shares.set_shares(resource, shares.clone());
    }

    /// Sets which resources have a fair queue, with its settings; the places of all others are
    /// given by class, then by arrival. Requests that wait already continue to wait; those that get
    /// a fair queue only now wait without a tenant and from `now`.
    pub fn set_queues(
        &mut self,
        queues: impl IntoIterator<Item = (ResourceId, QueueConfig)>,
        now: Timestamp,
    ) {
        let configs: BTreeMap<_, _> = queues.into_iter().collect();
        let is_moved = |line: &Obstacle| match line {
            Obstacle::Place(resource) => configs.contains_key(resource) != self.queues.contains_key(resource),
            Obstacle::Counter(_) | Obstacle::Answer(_) => false,
        };
        let all = self.waiters.sorted().into_iter().map(|(position, (waiter, _))| (position, *waiter));
        let moved: Vec<_> = all.filter(|(_, waiter)| is_moved(&waiter.obstacle)).collect();
        for (position, waiter) in &moved {
            self.detach(*position, *waiter, Departure::Moved);
        }
        self.queues.retain(|resource, _| configs.contains_key(resource));
        for (resource, config) in configs {
            match self.queues.get_mut(&resource) {
                Some(queue) => queue.reconfigure(config),
                None => {
                    self.queues.insert(resource, FairQueue::new(config));
                }
            }
        }
        for (position, waiter) in moved {
            self.attach(position, waiter, now);
        }
        let queues = &self.queues;
        let waiters = &self.waiters;
        self.aside.retain(|position, _| {
            let resource = waiters.get(*position).and_then(|(waiter, _)| waiter.group.resource);
            resource.is_some_and(|resource| queues.contains_key(&resource))
        });
    }

    /// The fair queue of a resource; `None` if it has none.
    pub fn queue(&self, resource: ResourceId) -> Option<&FairQueue> {
        self.queues.get(&resource)
    }

    /// Ticks the fair queue of a resource, see [`FairQueue::tick`]; `None` if it has none.
    pub fn tick(&mut self, resource: ResourceId, now: Timestamp) -> Option<QueueTick> {
        Some(self.queues.get_mut(&resource)?.tick(now))
    }

    /// Takes out how long requests have waited for a resource that has a fair queue; see
    /// [`FairQueue::take_waits`].
    pub fn take_waits(&mut self, resource: ResourceId) -> Option<[TimeCounts; 4]> {
        Some(self.queues.get_mut(&resource)?.take_waits())
    }

    /// Sets the bounds of the namespaces on the places of a resource that has a fair queue; see
    /// [`FairQueue::set_place_bounds`].
    pub fn set_place_bounds(&mut self, resource: ResourceId, bounds: PlaceBounds) {
        if let Some(queue) = self.queues.get_mut(&resource) {
            queue.set_place_bounds(bounds);
        }
    }

    /// Sets how long a resource that has a fair queue takes for one request; see
    /// [`FairQueue::set_service_times`].
    pub fn set_service_times(&mut self, resource: ResourceId, times: ServiceTimes) {
        if let Some(queue) = self.queues.get_mut(&resource) {
            queue.set_service_times(times);
        }
    }

    /// Corrects what a served request of a resource with a fair queue was charged, by the time for
    /// which it kept its place; see [`FairQueue::settle`]. The request to be called because it is
    /// now the next one.
    pub fn settle(
        &mut self,
        resource: ResourceId,
        entrant: &Entrant,
        held: Duration,
        now: Timestamp,
    ) -> Option<Position> {
        let queue = self.queues.get_mut(&resource)?;
        let before = queue.next();
        queue.settle(entrant, held, now);
        queue.next().filter(|next| Some(*next) != before)
    }

    /// The charge of a request of a resource with a fair queue when its work begins; see
    /// [`FairQueue::estimate`]. The cost of the entrant elsewhere.
    fn estimate(&self, entrant: &Entrant) -> Cost {
        let queue = entrant.group.resource.and_then(|resource| self.queues.get(&resource));
        queue.map_or(entrant.cost, |queue| queue.estimate(entrant.group.namespace, entrant.tenant))
    }

    /// Why a request is to be refused rather than wait at its obstacle, if it is; see
    /// [`FairQueue::sheds_on_arrival`]. `None` for lines other than fair queues.
    pub fn sheds_on_arrival(&self, entrant: &Entrant, now: Timestamp) -> Option<ArrivalShed> {
        let entrant = entrant.cost(self.estimate(entrant));
        self.queue_of(entrant.obstacle)?.sheds_on_arrival(&entrant, now)
    }

    /// How long a request would wait at its obstacle if it entered now; see
    /// [`FairQueue::estimated_wait`]. `None` for lines other than fair queues.
    pub fn estimated_wait(&self, entrant: &Entrant) -> Option<Duration> {
        let entrant = entrant.cost(self.estimate(entrant));
        self.queue_of(entrant.obstacle)?.estimated_wait(&entrant)
    }

    /// Gives a request a position, at the end of its class in its line, or where the fair queue of
    /// the line puts it.
    pub fn enter(&mut self, entrant: Entrant, now: Timestamp) -> Result<Entered, RoomFull>
    where
        B: Default,
    {
        self.enter_with(entrant, B::default(), now).map(|(entered, _)| entered)
    }

    /// [`WaitingRoom::enter`] with a value that is kept beside the request. Returns in addition the
    /// value of the request that was displaced.
    pub fn enter_with(
        &mut self,
        entrant: Entrant,
        beside: B,
        now: Timestamp,
    ) -> Result<(Entered, Option<B>), RoomFull> {
        let entrant = entrant.cost(self.estimate(&entrant));
        let Entrant { group, class, obstacle, connection, .. } = entrant;
        let (mut displaced, mut beside_displaced, mut called) = (None, None, None);
        if !self.shares.take(group, self.bytes_of(&entrant)) {
            let victim = self
                .displace_for(&entrant)
                .ok_or_else(|| RoomFull { bounds: self.shares.bounds_of(group) })?;
            displaced = Some(victim);
            if let Some((beside, next)) = self.remove(victim, Departure::Displaced) {
                (beside_displaced, called) = (Some(beside), next);
            }
        }
        let bytes = self.bytes_of(&entrant);
        let position = Position::new(self.next_arrival);
        self.next_arrival += 1;
        if let Some(connection) = connection {
            self.connections.enter(position, connection);
        }
        let waiter = Waiter { group, class, bytes, obstacle };
        self.waiters.insert(position, (waiter, beside));
        let has_queue = group.resource.is_some_and(|resource| self.queues.contains_key(&resource));
        if has_queue || self.queue_of(obstacle).is_some() {
            self.aside.insert(position, QueueTerms::new(&entrant));
        }
        let before = self.next(obstacle);
        self.attach(position, waiter, now);
        let next = self.new_next(obstacle, before);
        let called = called.filter(|called| self.is_next(*called) && Some(*called) != next);
        Ok((Entered { position, displaced, called, next }, beside_displaced))
    }

    /// The bytes that an entrant is charged now: its own, and those of its connection if no other
    /// request of the connection waits.
    fn bytes_of(&self, entrant: &Entrant) -> usize {
        entrant.bytes.saturating_add(self.connections.bytes_on_entry(entrant.connection))
    }

    /// Finds the request that an entrant displaces, and gives its share to the entrant.
    fn displace_for(&mut self, entrant: &Entrant) -> Option<Position> {
        let own = match entrant.obstacle {
            Obstacle::Place(resource) => Some(resource),
            Obstacle::Counter(_) | Obstacle::Answer(_) => None,
        };
        for class in Class::ALL.into_iter().filter(|class| *class <= entrant.class) {
            let own_queue = own.and_then(|own| self.queues.get(&own));
            let mut victims = own_queue.map_or_else(Vec::new, |queue| queue.victims(class, Some(entrant)));
            if class < entrant.class {
                let others = self.queues.iter().filter(|(resource, _)| Some(**resource) != own);
                victims.extend(others.flat_map(|(_, queue)| queue.victims(class, None)));
            }
            if let Some(victim) = victims.into_iter().find(|victim| self.gives_way(*victim, entrant)) {
                return Some(victim);
            }
            if class < entrant.class
                && let Some(victim) = self.displace_outside_queues(class, entrant)
            {
                return Some(victim);
            }
        }
        self.displace_over_part(entrant)
    }

    /// [`WaitingRoom::displace_for`] in the room of a resource, whatever the class: the newest
    /// request of the lowest class of the namespace that is most over its part, if the entrant's
    /// namespace is below its own.
    fn displace_over_part(&mut self, entrant: &Entrant) -> Option<Position> {
        let namespace = self.shares.over_part(entrant.group, self.bytes_of(entrant))?;
        let group = Group { namespace, ..entrant.group };
        let queue = group.resource.and_then(|resource| self.queues.get(&resource));
        for class in Class::ALL {
            let waiting = queue.and_then(|queue| queue.newest_of(class, namespace));
            let others = self.groups.get(&group).and_then(|requests| requests.last());
            let outside = others.filter(|(Reverse(of), _)| *of == class).map(|(_, position)| *position);
            if let Some(victim) = waiting.or(outside) {
                return self.gives_way(victim, entrant).then_some(victim);
            }
        }
        None
    }

    /// [`WaitingRoom::displace_for`] for the requests of a class that are in no fair queue: of each
    /// group the one that arrived last.
    fn displace_outside_queues(&mut self, class: Class, entrant: &Entrant) -> Option<Position> {
        let mut end = ((Reverse(class), Position::new(u64::MAX)), FIRST_GROUP);
        while let Some(last) = self.displaceable.range(..end).next_back().copied()
            && let ((Reverse(of), position), _) = last
            && of == class
        {
            if self.gives_way(position, entrant) {
                return Some(position);
            }
            end = last;
        }
        None
    }

    /// Gives the share of a request to an entrant, unless that would not be enough for it.
    fn gives_way(&mut self, victim: Position, entrant: &Entrant) -> bool {
        let Some(Waiter { group, bytes, .. }) = self.waiter(victim) else { return false };
        if !self.shares.may_displace(entrant.group, group) {
            return false;
        }
        let connection = self.connections.connection(victim);
        let heir = self.give_back(victim, group, bytes);
        let is_enough = self.shares.take(entrant.group, self.bytes_of(entrant));
        if !is_enough {
            if let Some((heir, of_connection)) = heir {
                self.change_bytes(heir, |bytes| bytes.saturating_sub(of_connection));
            }
            self.shares.take_anyway(group, bytes);
            if let Some(connection) = connection {
                self.connections.enter(victim, connection);
            }
        }
        is_enough
    }

    /// Gives back the share of a request that leaves. The request that is charged for its
    /// connection from now on, if there is another one, and that charge.
    fn give_back(&mut self, position: Position, group: Group, bytes: usize) -> Option<(Position, usize)> {
        self.shares.give_back(group, bytes);
        let (heir, connection) = self.connections.leave(position)?;
        let of_connection = connection.bytes as usize;
        self.change_bytes(heir, |bytes| bytes.saturating_add(of_connection));
        Some((heir, of_connection))
    }

    /// Changes what a waiting request is charged, whatever the bounds are.
    fn change_bytes(&mut self, position: Position, change: impl FnOnce(usize) -> usize) {
        if let Some((waiter, _)) = self.waiters.get_mut(position) {
            let before = waiter.bytes;
            waiter.bytes = change(before);
            self.shares.change_bytes(waiter.group, before, waiter.bytes);
        }
    }

    /// Lets a request wait for something else from now on; it keeps its arrival.
    ///
    /// A request that leaves a fair queue to wait for an [answer](Obstacle::Answer) counts as
    /// served: its tenant is charged, and gets the charge back if the request comes back or leaves.
    ///
    /// Nothing is to be called if the request waits at this obstacle already or has no position any
    /// more.
    pub fn moved(&mut self, position: Position, obstacle: Obstacle, now: Timestamp) -> Moved {
        let Some(waiter) = self.waiter(position).filter(|waiter| waiter.obstacle != obstacle) else {
            return Moved::default();
        };
        let old = waiter.obstacle;
        let (old_next, new_next) = (self.next(old), self.next(obstacle));
        let moved = Waiter { obstacle, ..waiter };
        if let Some((waiter, _)) = self.waiters.get_mut(position) {
            *waiter = moved;
        }
        if self.queue_of(old).is_none() && self.queue_of(obstacle).is_none() {
            self.lines.remove(old, waiter.rank(position));
            self.lines.insert(obstacle, waiter.rank(position));
        } else {
            if let (Obstacle::Answer(_), Some(queue)) = (obstacle, self.queue_mut(old)) {
                let aside = queue.set_aside(position);
                self.aside.extend(aside.map(|aside| (position, aside)));
            }
            self.detach(position, waiter, Departure::Moved);
            self.attach(position, moved, now);
        }
        let was_next = old_next == Some(position) || self.queue_of(old).is_some();
        let called = self.next(old).filter(|next| was_next && Some(*next) != old_next);
        Moved { called, next: self.new_next(obstacle, new_next) }
    }

    /// Whether a request in a fair queue may take a place at `now`. In any other line,
    /// [`TurnVerdict::Go`] if it is the next one; [`TurnVerdict::Wait`] also if it has no position
    /// any more.
    ///
    /// A shed request keeps its position until its caller calls [`WaitingRoom::leave`].
    pub fn turn(&mut self, position: Position, now: Timestamp) -> TurnVerdict {
        let Some(obstacle) = self.obstacle(position) else { return TurnVerdict::Wait };
        if let Some(queue) = self.queue_mut(obstacle) {
            return queue.turn(position, now);
        }
        if self.is_next(position) { TurnVerdict::Go } else { TurnVerdict::Wait }
    }

    /// Takes a request out that got its place, and charges its tenant in the fair queue of its
    /// resource, if there is one.
    pub fn served(&mut self, position: Position, now: Timestamp) -> Served {
        let Some(waiter) = self.waiter(position) else { return Served::default() };
        let before = self.next(waiter.obstacle);
        let mut charged = None;
        if let Some(queue) = self.queue_mut(waiter.obstacle) {
            charged = queue.served(position, now);
        } else if let Some(aside) = self.aside.remove(&position)
            && let Some(since) = aside.since
            && let Some(queue) = waiter.group.resource.and_then(|resource| self.queues.get_mut(&resource))
        {
            queue.served_aside(&waiter.entrant(&aside), since, now);
            charged = Some(aside.cost);
        }
        let called = self.leave(position);
        let is_queue = self.queue_of(waiter.obstacle).is_some();
        Served { called: if is_queue { self.new_next(waiter.obstacle, before) } else { called }, charged }
    }

    /// Takes a request out whose caller has gone, or that is served.
    ///
    /// Returns the request to be called: the one that became the next of its line. `None` if the
    /// request was not the next one or has no position any more.
    pub fn leave(&mut self, position: Position) -> Option<Position> {
        self.depart(position, Departure::Cancelled)
    }

    /// Takes a request out that is refused; as [`WaitingRoom::leave`].
    pub fn refused(&mut self, position: Position) -> Option<Position> {
        self.depart(position, Departure::Refused)
    }

    fn depart(&mut self, position: Position, departure: Departure) -> Option<Position> {
        let Waiter { group, bytes, .. } = self.waiter(position)?;
        self.give_back(position, group, bytes);
        self.remove(position, departure)?.1
    }

    /// Takes a request out everywhere but in the shares; what was kept beside it, and the request
    /// that became the next of its line, or that its tenant's refund made the next one of the fair
    /// queue.
    fn remove(&mut self, position: Position, departure: Departure) -> Option<(B, Option<Position>)> {
        let (waiter, beside) = self.waiters.remove(position)?;
        let before = self.next(waiter.obstacle);
        self.detach(position, waiter, departure);
        let aside = self.aside.remove(&position);
        if let Some(aside) = aside.filter(|aside| aside.is_charged)
            && let Some(resource) = waiter.group.resource
            && let Some(queue) = self.queues.get_mut(&resource)
        {
            let before = queue.next();
            queue.refund(&waiter.entrant(&aside));
            return Some((beside, queue.next().filter(|next| Some(*next) != before)));
        }
        let next = self.next(waiter.obstacle).filter(|next| before == Some(position) && *next != position);
        Some((beside, next))
    }

    /// Takes a request out of its line. Its terms for a fair queue are kept aside.
    fn detach(&mut self, position: Position, waiter: Waiter, departure: Departure) {
        if let Some(queue) = self.queue_mut(waiter.obstacle) {
            let aside = queue.take(position, Some(departure));
            self.aside.extend(aside.map(|aside| (position, QueueTerms { since: None, ..aside })));
        } else {
            self.lines.remove(waiter.obstacle, waiter.rank(position));
            self.change_group(waiter.group, |requests| requests.remove(&waiter.rank(position)));
        }
    }

    /// Puts a request in its line.
    fn attach(&mut self, position: Position, waiter: Waiter, now: Timestamp) {
        if self.queue_of(waiter.obstacle).is_some() {
            let plain = || QueueTerms::new(&Entrant::new(waiter.group, waiter.class, waiter.obstacle));
            let aside = self.aside.remove(&position).unwrap_or_else(plain);
            let entrant = waiter.entrant(&aside);
            if let Some(queue) = self.queue_mut(waiter.obstacle) {
                if aside.is_charged {
                    queue.refund(&entrant);
                }
                queue.push_since(position, &entrant, aside.since.unwrap_or(now), now);
            }
        } else {
            self.lines.insert(waiter.obstacle, waiter.rank(position));
            self.change_group(waiter.group, |requests| requests.insert(waiter.rank(position)));
        }
    }

    fn queue_of(&self, obstacle: Obstacle) -> Option<&FairQueue> {
        match obstacle {
            Obstacle::Place(resource) => self.queues.get(&resource),
            Obstacle::Counter(_) | Obstacle::Answer(_) => None,
        }
    }

    fn queue_mut(&mut self, obstacle: Obstacle) -> Option<&mut FairQueue> {
        match obstacle {
            Obstacle::Place(resource) => self.queues.get_mut(&resource),
            Obstacle::Counter(_) | Obstacle::Answer(_) => None,
        }
    }

    /// The next request of a fair queue, if it is another one than before.
    fn new_next(&self, obstacle: Obstacle, before: Option<Position>) -> Option<Position> {
        self.queue_of(obstacle)?.next().filter(|next| Some(*next) != before)
    }

    fn change_group(&mut self, group: Group, change: impl FnOnce(&mut BTreeSet<CallRank>) -> bool) {
        let requests = self.groups.entry(group).or_default();
        let before = requests.last().copied();
        change(requests);
        let after = requests.last().copied();
        if after.is_none() {
            self.groups.remove(&group);
        }
        if before != after {
            before.map(|rank| self.displaceable.remove(&(rank, group)));
            after.map(|rank| self.displaceable.insert((rank, group)));
        }
    }

    /// The request to be called when something of an obstacle came back.
    pub fn returned(&self, obstacle: Obstacle) -> Option<Position> {
        self.next(obstacle)
    }

    /// The request that is next at an obstacle.
    pub fn next(&self, obstacle: Obstacle) -> Option<Position> {
        self.queue_of(obstacle).map_or_else(|| self.lines.next(obstacle), FairQueue::next)
    }

    /// Whether a request is the next of its line; `false` also if it has no position any more.
    pub fn is_next(&self, position: Position) -> bool {
        self.waiter(position).is_some_and(|waiter| self.next(waiter.obstacle) == Some(position))
    }

    fn waiter(&self, position: Position) -> Option<Waiter> {
        self.waiters.get(position).map(|(waiter, _)| *waiter)
    }

    /// The value that is kept beside a request; `None` if it has no position any more.
    pub fn beside(&self, position: Position) -> Option<&B> {
        self.waiters.get(position).map(|(_, beside)| beside)
    }

    /// [`WaitingRoom::beside`], to be changed.
    pub fn beside_mut(&mut self, position: Position) -> Option<&mut B> {
        self.waiters.get_mut(position).map(|(_, beside)| beside)
    }

    /// The positions of all waiting requests in order of arrival. Takes O(n log n).
    pub fn positions(&self) -> Vec<Position> {
        self.waiters.sorted().into_iter().map(|(position, _)| position).collect()
    }

    /// The thing that a request lacks; `None` if it has no position any more.
    pub fn obstacle(&self, position: Position) -> Option<Obstacle> {
        self.waiter(position).map(|waiter| waiter.obstacle)
    }

    /// Whether a request still has its position: it has neither left nor been displaced.
    pub fn contains(&self, position: Position) -> bool {
        self.waiters.contains(position)
    }

    /// The first of these obstacles for which a request of this class or a higher one waits, or, in
    /// a fair queue, any request. A new request of that class must join its line, rather than take
    /// what the others wait for.
    pub fn line_ahead(
        &self,
        obstacles: impl IntoIterator<Item = Obstacle>,
        class: Class,
    ) -> Option<Obstacle> {
        if self.waiters.is_empty() {
            return None;
        }
        let lowest = |obstacle| if self.queue_of(obstacle).is_some() { Class::Sheddable } else { class };
        obstacles.into_iter().find(|obstacle| self.waits_from(*obstacle, lowest(*obstacle)))
    }

    /// Whether a request of this class or a higher one waits at an obstacle: what a request that
    /// does not wait may not take.
    pub fn waits_from(&self, obstacle: Obstacle, class: Class) -> bool {
        let queue = self.queue_of(obstacle);
        queue.map_or_else(|| self.lines.waits_from(obstacle, class), |queue| queue.has_taker_from(class))
    }

    /// The namespaces whose requests wait for a place of a resource.
    pub fn waiting_namespaces(&self, resource: ResourceId) -> WaitingNamespaces {
        let mut waiting = WaitingNamespaces::default();
        if let Some(queue) = self.queues.get(&resource) {
            queue.namespaces().for_each(|(key, requests)| waiting.add(key, requests));
        } else if self.lines.next(Obstacle::Place(resource)).is_some() {
            for (group, ranks) in self.groups.iter().filter(|(group, _)| group.resource == Some(resource)) {
                let positions = ranks.iter().map(|(_, position)| *position);
                let at_place = positions.filter(|at| self.obstacle(*at) == Some(Obstacle::Place(resource)));
                waiting.add(NamespaceKey::Exact(group.namespace), at_place.count());
            }
        }
        waiting
    }

    /// The number of waiting requests.
    pub fn count(&self) -> usize {
        self.waiters.len()
    }

    /// The number of lines that are not empty.
    pub fn lines(&self) -> usize {
        self.lines.len() + self.queues.values().filter(|queue| queue.count() > 0).count()
    }

    /// The part of the room that is in use.
    pub fn used(&self) -> RoomUse {
        self.shares.used()
    }

    /// Takes all requests out. Returns them in order of arrival.
    pub fn drain(&mut self) -> Vec<Position> {
        let all = self.positions();
        for position in &all {
            self.leave(*position);
        }
        all
    }
}

#[cfg(test)]
#[cfg(not(tidegate_loom))]
mod tests;

//! The waiting room: requests that wait for a limit or for a place in flight, in order and within
//! bounds.
//!
//! - The requests that lack the same thing, the [`Obstacle`], form a line. An [`Order`] says which
//!   request of a line is next; only that one asks the engine again, and the others wait for it.
//! - A request whose obstacle changes keeps its arrival.
//! - The room is bounded in requests and bytes, and each group of requests has a share that no
//!   other group can use up ([`RoomBounds`]).
//! - When it is full for a request, this request displaces the least important one that waits, if
//!   that one is less important.
//!
//! The room is a plain value: it neither wakes nor locks. Its owner keeps a waker beside each
//! position and wakes the positions that the functions here return. A position is returned when its
//! request should ask again: its line received something, or the request before it is gone. Such a
//! call is not lost if its request leaves or moves on without following it, since
//! [`WaitingRoom::leave`] and [`WaitingRoom::moved`] then return the next one.
//!
//! The owner must take care of one race: something may come back between the refusal of a request
//! and its entrance, when [`WaitingRoom::returned`] does not find it yet. A request that enters a
//! line therefore asks once more if anything was returned since it asked last.
//!
//! Each function takes O(log n) for n waiting requests; displacement looks in addition at each
//! group that has a request of a lower class and whose share protects it.

mod class_then_arrival;
mod order;
mod room_shares;

use core::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use tidegate_core::Class;

use crate::resource_id::ResourceId;
pub use class_then_arrival::ClassThenArrival;
pub use order::{Entrant, Group, Obstacle, Order, Position};
use room_shares::RoomShares;
pub use room_shares::{RoomBounds, RoomUse};

/// All waiting requests, in the order `O`.
///
/// ```
/// # use tidegate_core::Class;
/// # use tidegate_overload::{Entrant, Group, Obstacle, RoomBounds, WaitingRoom};
/// let mut room: WaitingRoom = WaitingRoom::new(RoomBounds::new(1024, 64 << 20));
/// let (obstacle, group) = (Obstacle::Counter(7), Group { namespace: 1, resource: None });
/// let entrant = |class| Entrant { group, class, bytes: 512, obstacle };
/// let batch = room.enter(entrant(Class::Sheddable))?.position;
/// let user = room.enter(entrant(Class::Critical))?.position;
/// // The more important class is called first, and the other one when it has left.
/// assert_eq!(room.returned(obstacle), Some(user));
/// assert_eq!(room.leave(user), Some(batch));
/// # Ok::<(), tidegate_overload::RoomFull>(())
/// ```
#[derive(Clone, Debug)]
pub struct WaitingRoom<O = ClassThenArrival> {
    order: O,
    shares: RoomShares,
    waiters: BTreeMap<Position, Entrant>,
    /// The requests of each line, by class.
    lines: BTreeMap<Obstacle, [u32; Class::ALL.len()]>,
    /// The requests of each group in the order in which they would be displaced.
    groups: BTreeMap<Group, BTreeSet<DisplacementRank>>,
    /// The first request of each group, in the same order.
    displaceable: BTreeSet<(DisplacementRank, Group)>,
    next_arrival: u64,
}

/// The lowest class first, then the latest arrival.
type DisplacementRank = (Class, Reverse<Position>);

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
}

/// There is no room for a request: its group's share and what is not reserved for others are used
/// up, and no request of a lower class can be displaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the waiting room is full: at most {} requests of {} bytes together may wait", bounds.requests, bounds.bytes)]
pub struct RoomFull {
    /// The bounds in force.
    pub bounds: RoomBounds,
}

impl<O: Order> WaitingRoom<O> {
    /// An empty room with these bounds.
    pub fn new(bounds: RoomBounds) -> Self
    where
        O: Default,
    {
        Self {
            order: O::default(),
            shares: RoomShares::new(bounds),
            waiters: BTreeMap::new(),
            lines: BTreeMap::new(),
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

    /// Sets the bounds of the resources that have some, beside those of the room; other resources
    /// have none. Requests that wait beyond a lower bound stay.
    pub fn set_resource_bounds(&mut self, bounds: impl IntoIterator<Item = (ResourceId, RoomUse)>) {
        self.shares.set_resource_bounds(bounds);
    }

    /// Gives a request a position, at the end of its class in its line.
    pub fn enter(&mut self, entrant: Entrant) -> Result<Entered, RoomFull> {
        let Entrant { group, class, bytes, .. } = entrant;
        let (mut displaced, mut called) = (None, None);
        if !self.shares.take(group, bytes) {
            let victim = self.displace_for(entrant).ok_or(RoomFull { bounds: self.bounds() })?;
            called = self.remove(victim);
            displaced = Some(victim);
        }
        let position = Position::new(self.next_arrival);
        self.next_arrival += 1;
        self.order.push(position, &entrant);
        self.waiters.insert(position, entrant);
        self.lines.entry(entrant.obstacle).or_default()[class as usize] += 1;
        self.change_group(group, |requests| requests.insert((class, Reverse(position))));
        Ok(Entered { position, displaced, called: called.filter(|called| self.is_next(*called)) })
    }

    /// Finds the request that an entrant displaces, and gives its share to the entrant.
    fn displace_for(&mut self, entrant: Entrant) -> Option<Position> {
        let Self { shares, waiters, displaceable, .. } = self;
        for ((class, Reverse(position)), group) in &*displaceable {
            if *class >= entrant.class {
                return None;
            }
            let bytes = waiters.get(position)?.bytes;
            shares.give_back(*group, bytes);
            if shares.take(entrant.group, entrant.bytes) {
                return Some(*position);
            }
            shares.take_anyway(*group, bytes);
        }
        None
    }

    /// Lets a request wait for something else from now on; it keeps its arrival.
    ///
    /// Returns the request to be called: the one that became the next of the old line. `None` if
    /// the request was not the next one, waits at this obstacle already or has no position any
    /// more.
    pub fn moved(&mut self, position: Position, obstacle: Obstacle) -> Option<Position> {
        let entrant = self.waiters.get_mut(&position).filter(|entrant| entrant.obstacle != obstacle)?;
        let (class, old) = (entrant.class, core::mem::replace(&mut entrant.obstacle, obstacle));
        let was_next = self.order.next(old) == Some(position);
        self.order.moved(position, obstacle);
        self.leave_line(old, class);
        self.lines.entry(obstacle).or_default()[class as usize] += 1;
        self.order.next(old).filter(|_| was_next)
    }

    /// Takes a request out, for whatever reason.
    ///
    /// Returns the request to be called: the one that became the next of its line. `None` if the
    /// request was not the next one or has no position any more.
    pub fn leave(&mut self, position: Position) -> Option<Position> {
        let Entrant { group, bytes, .. } = *self.waiters.get(&position)?;
        self.shares.give_back(group, bytes);
        self.remove(position)
    }

    /// Takes a request out everywhere but in the shares; the request that became the next of its
    /// line.
    fn remove(&mut self, position: Position) -> Option<Position> {
        let Entrant { group, class, obstacle, .. } = self.waiters.remove(&position)?;
        let was_next = self.order.next(obstacle) == Some(position);
        self.order.cancel(position);
        self.leave_line(obstacle, class);
        self.change_group(group, |requests| requests.remove(&(class, Reverse(position))));
        self.order.next(obstacle).filter(|_| was_next)
    }

    fn leave_line(&mut self, obstacle: Obstacle, class: Class) {
        if let Some(counts) = self.lines.get_mut(&obstacle) {
            counts[class as usize] -= 1;
            if *counts == [0; Class::ALL.len()] {
                self.lines.remove(&obstacle);
            }
        }
    }

    fn change_group(&mut self, group: Group, change: impl FnOnce(&mut BTreeSet<DisplacementRank>) -> bool) {
        let requests = self.groups.entry(group).or_default();
        let before = requests.first().copied();
        change(requests);
        let after = requests.first().copied();
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
        self.order.next(obstacle)
    }

    /// Whether a request is the next of its line; `false` also if it has no position any more.
    pub fn is_next(&self, position: Position) -> bool {
        self.waiters.get(&position).is_some_and(|entrant| self.order.next(entrant.obstacle) == Some(position))
    }

    /// Whether a request still has its position: it has neither left nor been displaced.
    pub fn contains(&self, position: Position) -> bool {
        self.waiters.contains_key(&position)
    }

    /// The first of these obstacles for which a request of this class or a higher one waits. A new
    /// request of that class must join its line, rather than take what the others wait for.
    pub fn line_ahead(
        &self,
        obstacles: impl IntoIterator<Item = Obstacle>,
        class: Class,
    ) -> Option<Obstacle> {
        if self.lines.is_empty() {
            return None;
        }
        obstacles.into_iter().find(|obstacle| {
            let line = self.lines.get(obstacle);
            line.is_some_and(|counts| counts[class as usize..].iter().any(|count| *count > 0))
        })
    }

    /// The number of waiting requests.
    pub fn count(&self) -> usize {
        self.waiters.len()
    }

    /// The number of lines that are not empty.
    pub fn lines(&self) -> usize {
        self.lines.len()
    }

    /// The part of the room that is in use.
    pub fn used(&self) -> RoomUse {
        self.shares.used()
    }

    /// Takes all requests out. Returns them in order of arrival.
    pub fn drain(&mut self) -> Vec<Position> {
        let all: Vec<_> = self.waiters.keys().copied().collect();
        for position in &all {
            self.leave(*position);
        }
        all
    }
}

#[cfg(test)]
#[cfg(not(tidegate_loom))]
mod tests;

//! The lines outside of fair queues, ordered by class and, within a class, by arrival.

use core::cmp::Reverse;
use std::collections::BTreeSet;

use tidegate_core::Class;

use super::entrant::{Obstacle, Position};

/// The rank of a request: the higher class first, then the earlier arrival, also after the request
/// waited for something else. The first of a line is called first, and the last of a group is
/// displaced first.
pub(super) type CallRank = (Reverse<Class>, Position);

/// The rank before all others.
const FIRST: CallRank = (Reverse(Class::CriticalPlus), Position::new(0));

/// The requests of all lines outside of fair queues.
#[derive(Clone, Debug, Default)]
pub(super) struct PlainLines {
    /// All lines, one after the other.
    requests: BTreeSet<(Obstacle, CallRank)>,
    /// The number of lines that are not empty.
    len: usize,
}

impl PlainLines {
    /// The number of lines that are not empty.
    pub(super) const fn len(&self) -> usize {
        self.len
    }

    /// Adds a request to a line.
    pub(super) fn insert(&mut self, obstacle: Obstacle, rank: CallRank) {
        self.len += usize::from(self.first(obstacle).is_none());
        self.requests.insert((obstacle, rank));
    }

    /// Removes a request from the line that it is in.
    pub(super) fn remove(&mut self, obstacle: Obstacle, rank: CallRank) {
        if self.requests.remove(&(obstacle, rank)) {
            self.len -= usize::from(self.first(obstacle).is_none());
        }
    }

    /// The request that is next in a line.
    pub(super) fn next(&self, obstacle: Obstacle) -> Option<Position> {
        self.first(obstacle).map(|(_, position)| position)
    }

    /// Whether a request of this class or a higher one is in a line.
    pub(super) fn waits_from(&self, obstacle: Obstacle, class: Class) -> bool {
        self.first(obstacle).is_some_and(|(Reverse(highest), _)| highest >= class)
    }

    fn first(&self, obstacle: Obstacle) -> Option<CallRank> {
        let (line, rank) = self.requests.range((obstacle, FIRST)..).next()?;
        (*line == obstacle).then_some(*rank)
    }
}

//! How many connections each listener may have: a part of its own, and a pool that callers'
//! listeners share.
//!
//! A quarter of all places is divided evenly among the listeners and kept for each; the rest goes
//! to the connections that come first. So a flood at one listener leaves the others theirs. With
//! one listener, all places are its own.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The places of one listener.
#[derive(Clone, Debug)]
pub struct ConnectionSlots {
    own: Arc<Semaphore>,
    shared: Arc<Semaphore>,
    max: usize,
    has_shared: bool,
}

/// A place that a connection has until this is dropped.
#[derive(Debug)]
pub struct ConnectionSlot {
    _permit: OwnedSemaphorePermit,
    /// Whether it is one of the shared pool.
    pub is_shared: bool,
}

impl ConnectionSlots {
    /// The places of so many listeners that have `total` together. Each has at least one of its
    /// own, also where there are more listeners than places.
    pub fn divide(total: usize, listeners: usize) -> Vec<Self> {
        let own = match listeners {
            0 => return Vec::new(),
            1 => total.max(1),
            _ => (total / 4 / listeners).max(1),
        };
        let rest = total.saturating_sub(own * listeners);
        let shared = Arc::new(Semaphore::new(rest));
        let listener = |_| Self {
            own: Arc::new(Semaphore::new(own)),
            shared: Arc::clone(&shared),
            max: own + rest,
            has_shared: rest > 0,
        };
        (0..listeners).map(listener).collect()
    }

    /// The most connections that this listener can have, while the others have none.
    pub fn max(&self) -> usize {
        self.max
    }

    /// Whether connections of other listeners may have places that this one could have.
    pub fn are_shared(&self) -> bool {
        self.has_shared
    }

    /// A place, if one is free.
    pub fn try_take(&self) -> Option<ConnectionSlot> {
        let take = |from: &Arc<Semaphore>, is_shared| {
            let permit = Arc::clone(from).try_acquire_owned().ok()?;
            Some(ConnectionSlot { _permit: permit, is_shared })
        };
        take(&self.own, false).or_else(|| take(&self.shared, true))
    }

    /// Waits for a place.
    pub async fn take(&self) -> ConnectionSlot {
        const OPEN: &str = "the semaphore is never closed";
        tokio::select! {
            biased;
            permit = Arc::clone(&self.own).acquire_owned() => ConnectionSlot { _permit: permit.expect(OPEN), is_shared: false },
            permit = Arc::clone(&self.shared).acquire_owned() => ConnectionSlot { _permit: permit.expect(OPEN), is_shared: true },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(places: &ConnectionSlots) -> Vec<ConnectionSlot> {
        core::iter::from_fn(|| places.try_take()).collect()
    }

    #[test]
    fn a_listener_that_takes_all_it_can_leaves_each_other_one_its_part() {
        let places = ConnectionSlots::divide(10_000, 4);
        let flooded = all(&places[0]);
        assert_eq!((flooded.len(), places[0].max()), (8125, 8125));
        for other in &places[1..] {
            assert_eq!(all(other).len(), 625);
        }
        drop(flooded);
        let last = all(&places[3]);
        assert_eq!(last.len(), 8125, "what was given back is for everybody again");
    }

    #[test]
    fn a_single_listener_has_all_places_and_each_of_many_at_least_one() {
        assert_eq!(all(&ConnectionSlots::divide(2, 1)[0]).len(), 2);
        let places = ConnectionSlots::divide(1, 3);
        let held: Vec<_> = places.iter().map(all).collect();
        assert_eq!(held.iter().map(Vec::len).collect::<Vec<_>>(), [1, 1, 1]);
        assert!(ConnectionSlots::divide(10, 0).is_empty());
    }

    #[tokio::test]
    async fn a_place_that_is_given_back_is_taken_by_the_one_that_waits() {
        let places = ConnectionSlots::divide(8, 2);
        let mut held = all(&places[0]);
        assert!(places[0].try_take().is_none());
        held.pop();
        assert!(places[0].take().await.is_shared);
    }
}

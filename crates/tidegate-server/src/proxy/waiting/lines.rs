//! The lines of requests that wait: one for each counter, each in order of class and arrival,
//! within shares of namespaces.

use core::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use tidegate::Class;
use tokio::sync::Notify;

/// The counter that a line waits for, as a hash of its namespace, limit and key. Two counters of
/// one hash, which 64 bits make unlikely, share a line: one of them then waits longer than it needs
/// to, and none is admitted that should not be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct CounterId(pub(super) u64);

/// Which request is first: that of the higher class, then the earlier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub(super) class: Reverse<Class>,
    pub(super) arrival: u64,
}

/// What waiting requests take up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Room {
    pub(super) requests: usize,
    pub(super) bytes: usize,
}

/// How much may be taken up.
///
/// Each namespace has an equal share, which no other namespace can use up; what is left over goes
/// to whichever asks first.
#[derive(Clone, Copy, Debug)]
pub(super) struct RoomBounds {
    /// For all namespaces together.
    pub(super) most: Room,
    /// The namespaces with routes that let requests wait, at least one.
    pub(super) namespaces: usize,
}

/// A request that enters a line.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entrant<'a> {
    pub(super) namespace: &'a str,
    pub(super) class: Class,
    /// Its number, if it has waited in another line before.
    pub(super) arrival: Option<u64>,
    pub(super) bytes: usize,
}

/// All lines.
#[derive(Debug, Default)]
pub(super) struct Lines {
    by_counter: HashMap<CounterId, BTreeMap<Place, Arc<Notify>>>,
    by_namespace: HashMap<Box<str>, Room>,
    used: Room,
    next: u64,
}

impl Lines {
    /// How many lines there are, each with one request at its head.
    pub(super) fn count(&self) -> usize {
        self.by_counter.len()
    }

    pub(super) fn contains(&self, counter: CounterId) -> bool {
        self.by_counter.contains_key(&counter)
    }

    /// Puts a request into a line. Returns its place and what wakes it; `None` if there is no room
    /// for it.
    pub(super) fn enter(
        &mut self,
        counter: CounterId,
        entrant: Entrant<'_>,
        bounds: RoomBounds,
    ) -> Option<(Place, Arc<Notify>)> {
        if !self.has_room(entrant, bounds) {
            return None;
        }
        let arrival = entrant.arrival.unwrap_or_else(|| {
            self.next += 1;
            self.next
        });
        self.used.requests += 1;
        self.used.bytes += entrant.bytes;
        let own = match self.by_namespace.get_mut(entrant.namespace) {
            Some(own) => own,
            None => self.by_namespace.entry(entrant.namespace.into()).or_default(),
        };
        own.requests += 1;
        own.bytes += entrant.bytes;
        let place = Place { class: Reverse(entrant.class), arrival };
        let called = Arc::new(Notify::new());
        self.by_counter.entry(counter).or_default().insert(place, Arc::clone(&called));
        Some((place, called))
    }

    fn has_room(&self, entrant: Entrant<'_>, bounds: RoomBounds) -> bool {
        let own = self.by_namespace.get(entrant.namespace).copied().unwrap_or_default();
        let fits = |of: fn(&Room) -> usize, amount: usize| {
            let (most, used) = (of(&bounds.most), of(&self.used));
            let share = most / bounds.namespaces.max(1);
            let all = used.saturating_add(amount);
            if of(&own).saturating_add(amount) <= share {
                return all <= most;
            }
            // Beyond its share a namespace takes only what the others could not claim.
            let others = self.by_namespace.iter().filter(|(name, _)| ***name != *entrant.namespace);
            let others = others.map(|(_, used)| of(used)).collect::<smallvec::SmallVec<[usize; 8]>>();
            let absent = bounds.namespaces.saturating_sub(others.len() + 1);
            let unused = others.iter().map(|used| share.saturating_sub(*used)).sum::<usize>();
            all.saturating_add(unused).saturating_add(absent.saturating_mul(share)) <= most
        };
        fits(|room| room.requests, 1) && fits(|room| room.bytes, entrant.bytes)
    }

    /// Whether a request is the first of its line.
    pub(super) fn is_first(&self, counter: CounterId, place: Place) -> bool {
        let line = self.by_counter.get(&counter);
        line.and_then(|line| line.first_key_value()).is_some_and(|(first, _)| *first == place)
    }

    /// Wakes the first of a line and nobody else.
    pub(super) fn wake_first(&self, counter: CounterId) {
        if let Some((_, called)) = self.by_counter.get(&counter).and_then(|line| line.first_key_value()) {
            called.notify_one();
        }
    }

    /// Takes a request out of its line. If it was the first, the next one is woken: there may be
    /// more than it took, and a call that it did not follow is not lost.
    pub(super) fn leave(&mut self, counter: CounterId, place: Place, namespace: &str, bytes: usize) {
        self.used.requests -= 1;
        self.used.bytes -= bytes;
        if let Some(own) = self.by_namespace.get_mut(namespace) {
            own.requests -= 1;
            own.bytes -= bytes;
            if own.requests == 0 {
                self.by_namespace.remove(namespace);
            }
        }
        let was_first = self.is_first(counter, place);
        let Some(line) = self.by_counter.get_mut(&counter) else { return };
        line.remove(&place);
        match line.first_key_value() {
            Some((_, next)) if was_first => next.notify_one(),
            Some(_) => {}
            None => {
                self.by_counter.remove(&counter);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::task::{Context, Poll, Waker};
    use proptest::prelude::*;

    const ROOMY: RoomBounds = RoomBounds { most: Room { requests: 4096, bytes: 1 << 20 }, namespaces: 1 };

    fn entrant(namespace: &str) -> Entrant<'_> {
        Entrant { namespace, class: Class::default(), arrival: None, bytes: 0 }
    }

    /// Whether a request has been woken since it was last asked.
    fn is_woken(called: &Notify) -> bool {
        let notified = core::pin::pin!(called.notified());
        matches!(notified.poll(&mut Context::from_waker(Waker::noop())), Poll::Ready(()))
    }

    #[test]
    fn what_is_given_back_wakes_the_first_of_its_own_line_and_nobody_else() {
        let mut lines = Lines::default();
        let mut all = Vec::new();
        for index in 0..2048 {
            all.push(lines.enter(CounterId(index / 2), entrant("api"), ROOMY).unwrap().1);
        }
        lines.wake_first(CounterId(7));
        let woken: Vec<usize> = (0..all.len()).filter(|index| is_woken(&all[*index])).collect();
        assert_eq!(woken, [14]);
        lines.wake_first(CounterId(4000));
        assert!(!all.iter().any(|called| is_woken(called)));
    }

    #[test]
    fn a_call_that_its_request_does_not_follow_goes_to_the_next() {
        let mut lines = Lines::default();
        let places: Vec<_> =
            (0..3).map(|_| lines.enter(CounterId(1), entrant("api"), ROOMY).unwrap()).collect();
        lines.wake_first(CounterId(1));
        lines.leave(CounterId(1), places[0].0, "api", 0);
        assert!(is_woken(&places[1].1) && !is_woken(&places[2].1));
        // One from the middle of a line wakes nobody.
        let last = lines.enter(CounterId(1), entrant("api"), ROOMY).unwrap();
        lines.leave(CounterId(1), places[2].0, "api", 0);
        assert!(!is_woken(&places[1].1) && !is_woken(&last.1));
    }

    #[test]
    fn the_higher_class_is_first_and_then_the_earlier_even_from_another_line() {
        let mut lines = Lines::default();
        let (early, _) = lines.enter(CounterId(1), entrant("api"), ROOMY).unwrap();
        let (late, _) = lines.enter(CounterId(2), entrant("api"), ROOMY).unwrap();
        lines.leave(CounterId(1), early, "api", 0);
        let moved = Entrant { arrival: Some(early.arrival), ..entrant("api") };
        let (moved, _) = lines.enter(CounterId(2), moved, ROOMY).unwrap();
        assert!(lines.is_first(CounterId(2), moved) && !lines.is_first(CounterId(2), late));
        let urgent = Entrant { class: Class::Critical, ..entrant("api") };
        let (urgent, _) = lines.enter(CounterId(2), urgent, ROOMY).unwrap();
        assert!(lines.is_first(CounterId(2), urgent));
    }

    #[test]
    fn one_namespace_takes_all_there_is_only_while_no_other_may_wait() {
        let bounds = |namespaces| RoomBounds { most: Room { requests: 10, bytes: 100 }, namespaces };
        for (namespaces, most) in [(1, 10), (2, 5), (3, 4), (11, 10)] {
            let mut lines = Lines::default();
            let entered =
                (0..20).filter(|_| lines.enter(CounterId(1), entrant("a"), bounds(namespaces)).is_some());
            assert_eq!(entered.count(), most, "{namespaces}");
        }
        let mut lines = Lines::default();
        let heavy = Entrant { bytes: 30, ..entrant("a") };
        assert!(lines.enter(CounterId(1), heavy, bounds(2)).is_some());
        assert!(
            lines.enter(CounterId(1), heavy, bounds(2)).is_none(),
            "60 of 100 bytes, half of which is its share"
        );
    }

    proptest! {
        /// Whatever comes and goes, a namespace within its share is never turned away, and the
        /// bounds hold.
        #[test]
        fn a_namespace_within_its_share_always_has_room(
            namespaces in 1_usize..5,
            steps in prop::collection::vec((0_usize..5, 0_usize..9, any::<bool>()), 0..300),
        ) {
            let most = Room { requests: 24, bytes: 96 };
            let bounds = RoomBounds { most, namespaces };
            let mut lines = Lines::default();
            let mut inside: Vec<Vec<(Place, usize)>> = vec![Vec::new(); namespaces];
            for (index, bytes, leaves) in steps {
                let index = index % namespaces;
                let namespace = index.to_string();
                if leaves {
                    if let Some((place, bytes)) = inside[index].pop() {
                        lines.leave(CounterId(0), place, &namespace, bytes);
                    }
                    continue;
                }
                let own: usize = inside[index].iter().map(|(_, bytes)| bytes).sum();
                let is_within = inside[index].len() < most.requests / namespaces && own + bytes <= most.bytes / namespaces;
                let entered = lines.enter(CounterId(0), Entrant { bytes, ..entrant(&namespace) }, bounds);
                prop_assert!(entered.is_some() || !is_within);
                inside[index].extend(entered.map(|(place, _)| (place, bytes)));
                prop_assert!(lines.used.requests <= most.requests && lines.used.bytes <= most.bytes);
            }
            for (index, all) in inside.into_iter().enumerate() {
                for (place, bytes) in all {
                    lines.leave(CounterId(0), place, &index.to_string(), bytes);
                }
            }
            prop_assert_eq!((lines.count(), lines.used, lines.by_namespace.len()), (0, Room::default(), 0));
        }
    }
}

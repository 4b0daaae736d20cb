//! What is yet to happen, by the instant at which it does; at one instant in the order in which it was planned.

use core::cmp::Ordering;
use std::collections::BinaryHeap;

/// Events in the order in which they happen.
#[derive(Debug)]
pub(crate) struct Queue<E> {
    heap: BinaryHeap<Planned<E>>,
    planned: u64,
}

#[derive(Debug)]
struct Planned<E> {
    at: u64,
    order: u64,
    event: E,
}

impl<E> Queue<E> {
    pub(crate) fn new() -> Self {
        Self { heap: BinaryHeap::new(), planned: 0 }
    }

    pub(crate) fn plan(&mut self, at: u64, event: E) {
        self.planned += 1;
        self.heap.push(Planned { at, order: self.planned, event });
    }

    /// When the next event happens.
    pub(crate) fn next_at(&self) -> Option<u64> {
        self.heap.peek().map(|next| next.at)
    }

    pub(crate) fn next(&mut self) -> Option<(u64, E)> {
        self.heap.pop().map(|next| (next.at, next.event))
    }
}

impl<E> Ord for Planned<E> {
    /// The earlier is the greater: a heap gives the greatest first.
    fn cmp(&self, other: &Self) -> Ordering {
        (other.at, other.order).cmp(&(self.at, self.order))
    }
}

impl<E> PartialOrd for Planned<E> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> PartialEq for Planned<E> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<E> Eq for Planned<E> {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_happen_by_time_and_at_one_instant_as_they_were_planned() {
        let mut queue = Queue::new();
        for (at, name) in [(5, 'c'), (1, 'a'), (5, 'd'), (3, 'b'), (5, 'e')] {
            queue.plan(at, name);
        }
        let order: Vec<char> = std::iter::from_fn(|| queue.next().map(|(_, name)| name)).collect();
        assert_eq!(order, ['a', 'b', 'c', 'd', 'e']);
    }
}

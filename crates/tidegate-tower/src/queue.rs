//! Requests that wait for a counter: who is next.
//!
//! Requests that wait for the same counter form a line, the higher class first and within a class
//! first come first served. Only the head of a line asks the engine; when it leaves, admitted or
//! not, the next one is told. A request that arrives while others of its class or above wait for a
//! counter of its own stands behind them and does not ask at all, so that nobody overtakes by
//! arriving in the right moment.
//!
//! Nothing here decides anything: leaving a line without a trace is removing an entry, and the
//! counters are the engine's.

use core::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidegate::{Attributes, Class, Plane, Reason, Refusal};
use tokio::sync::Notify;

/// A counter that requests wait for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Counter {
    namespace: Arc<str>,
    limit: Box<str>,
    /// The attributes that name it, with their values.
    scope: Vec<(Box<str>, Box<str>)>,
}

/// The counters of one limit, without the values.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Shape {
    namespace: Arc<str>,
    limit: Box<str>,
    names: Vec<Box<str>>,
}

impl Counter {
    /// The one that binds a refused request longest.
    pub(crate) fn of(namespace: &Arc<str>, refusal: &Refusal<'_>) -> Self {
        let pair = |(name, value): &(std::borrow::Cow<'_, str>, std::borrow::Cow<'_, str>)| {
            (name.as_ref().into(), value.as_ref().into())
        };
        // Places in flight are one counter for all: what a refusal by that plane names is no scope.
        let is_shared = refusal.plane() == Plane::Overload;
        let scope = if is_shared { Vec::new() } else { refusal.scope.iter().map(pair).collect() };
        Self { namespace: Arc::clone(namespace), limit: refusal.name().into(), scope }
    }

    fn shape(&self) -> Shape {
        let names = self.scope.iter().map(|(name, _)| name.clone()).collect();
        Shape { namespace: Arc::clone(&self.namespace), limit: self.limit.clone(), names }
    }
}

impl Shape {
    /// The counter of this shape that a request with these attributes falls on, if it has all of
    /// them.
    fn counter(&self, attributes: Attributes<'_>) -> Option<Counter> {
        let pairs = self.names.iter().map(|name| Some((name.clone(), attributes.get(name)?.into())));
        let scope = pairs.collect::<Option<_>>()?;
        Some(Counter { namespace: Arc::clone(&self.namespace), limit: self.limit.clone(), scope })
    }
}

/// Whether what refused is lent and comes back when somebody else is done, which no instant
/// foretells.
pub(crate) fn waits_for_others(refusal: &Refusal<'_>) -> bool {
    match refusal.reason() {
        Reason::ConcurrencyExceeded => true,
        // The bound on what is in flight; the cursor sheds with the same reason and is not waited
        // for.
        Reason::OverloadShed => refusal.name() == "in_flight",
        _ => false,
    }
}

/// The place of a request in its line: its class, then its arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Rank(Reverse<Class>, u64);

#[derive(Debug)]
struct Line {
    waiters: BTreeMap<Rank, Arc<Notify>>,
    /// Whether its counter lends.
    lends: bool,
}

impl Line {
    fn wake_head(&self) {
        if let Some(head) = self.waiters.values().next() {
            head.notify_one();
        }
    }
}

#[derive(Debug, Default)]
struct Lines {
    by_counter: HashMap<Counter, Line>,
    /// How many lines there are of each shape: what a new request has to be compared with.
    shapes: HashMap<Shape, usize>,
}

impl Lines {
    fn leave(&mut self, counter: &Counter, rank: Rank) {
        let Some(line) = self.by_counter.get_mut(counter) else { return };
        let was_head = line.waiters.first_key_value().is_some_and(|(first, _)| *first == rank);
        line.waiters.remove(&rank);
        if was_head {
            line.wake_head();
        }
        if line.waiters.is_empty() {
            self.by_counter.remove(counter);
            let shape = counter.shape();
            if let Some(count) = self.shapes.get_mut(&shape) {
                *count -= 1;
                if *count == 0 {
                    self.shapes.remove(&shape);
                }
            }
        }
    }
}

/// All lines of a layer.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    lines: Mutex<Lines>,
    /// How many wait. Changed under the lock; read without it to see whether there is anything to
    /// look at.
    waiting: AtomicUsize,
    arrivals: AtomicU64,
}

impl Queue {
    /// How many requests wait.
    pub(crate) fn waiting(&self) -> usize {
        // Relaxed: a request that sees an older number asks the engine, which decides rightly
        // either way.
        self.waiting.load(Ordering::Relaxed)
    }

    /// A counter of these attributes for which requests of this class or above wait, among those of
    /// limits that apply.
    pub(crate) fn ahead_of(
        &self,
        namespace: &str,
        attributes: Attributes<'_>,
        class: Class,
        applies: impl Fn(&str) -> bool,
    ) -> Option<Counter> {
        if self.waiting() == 0 {
            return None;
        }
        let lines = self.lines();
        let mut counters = lines.shapes.keys().filter(|shape| *shape.namespace == *namespace);
        counters.find_map(|shape| {
            let counter = shape.counter(attributes)?;
            let (Rank(Reverse(first), _), _) = lines.by_counter.get(&counter)?.waiters.first_key_value()?;
            (*first >= class && applies(&shape.limit)).then_some(counter)
        })
    }

    /// Takes a place at the end of its class in the line of `counter`; `None` if `max` requests
    /// wait already.
    pub(crate) fn join(
        self: &Arc<Self>,
        counter: Counter,
        lends: bool,
        class: Class,
        max: usize,
    ) -> Option<Place> {
        let mut lines = self.lines();
        if self.waiting() >= max {
            return None;
        }
        self.waiting.fetch_add(1, Ordering::Relaxed);
        // Relaxed, here and above: both are changed under the lock only.
        let rank = Rank(Reverse(class), self.arrivals.fetch_add(1, Ordering::Relaxed));
        let turn = Arc::new(Notify::new());
        enter(&mut lines, &counter, lends, rank, &turn);
        drop(lines);
        Some(Place { queue: Arc::clone(self), counter, rank, turn })
    }

    /// Tells the heads of the lines before counters that lend that something has come back.
    pub(crate) fn wake_lent(&self) {
        if self.waiting() > 0 {
            self.lines().by_counter.values().filter(|line| line.lends).for_each(Line::wake_head);
        }
    }

    fn lines(&self) -> MutexGuard<'_, Lines> {
        // Nothing in here panics between two changes that belong together.
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn enter(lines: &mut Lines, counter: &Counter, lends: bool, rank: Rank, turn: &Arc<Notify>) {
    if !lines.by_counter.contains_key(counter) {
        *lines.shapes.entry(counter.shape()).or_default() += 1;
        lines.by_counter.insert(counter.clone(), Line { waiters: BTreeMap::new(), lends });
    }
    let line = lines.by_counter.get_mut(counter).expect("it was put there if it was not");
    line.lends |= lends;
    line.waiters.insert(rank, Arc::clone(turn));
}

/// A place in a line, left by dropping.
#[derive(Debug)]
pub(crate) struct Place {
    queue: Arc<Queue>,
    counter: Counter,
    rank: Rank,
    turn: Arc<Notify>,
}

impl Place {
    /// Whether nobody stands before it.
    pub(crate) fn is_head(&self) -> bool {
        let lines = self.queue.lines();
        let first = lines.by_counter.get(&self.counter).and_then(|line| line.waiters.first_key_value());
        first.is_some_and(|(rank, _)| *rank == self.rank)
    }

    /// Moves to the line of another counter, where it stands by its arrival.
    pub(crate) fn move_to(&mut self, counter: Counter, lends: bool) {
        let mut lines = self.queue.lines();
        if counter != self.counter {
            lines.leave(&self.counter, self.rank);
            enter(&mut lines, &counter, lends, self.rank, &self.turn);
            drop(lines);
            self.counter = counter;
        } else if let Some(line) = lines.by_counter.get_mut(&counter) {
            line.lends |= lends;
        }
    }

    /// Completes when it may be its turn; one that comes before it is looked at is not lost.
    pub(crate) async fn called(&self) {
        self.turn.notified().await;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut lines = self.queue.lines();
        lines.leave(&self.counter, self.rank);
        self.queue.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;

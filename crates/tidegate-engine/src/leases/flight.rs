//! An ask that is under way, and who waits for it.

use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use std::sync::Arc;

use smallvec::SmallVec;

use super::leased_key::LeasedKey;
use crate::sync::{Mutex, MutexGuard, lock};

/// An ask that is under way.
#[derive(Debug)]
pub(crate) struct Flight {
    about: Arc<LeasedKey>,
    state: Mutex<State>,
}

/// The asks in flight that a request waits for.
pub(crate) type Flights = SmallVec<[Arc<Flight>; 1]>;

#[derive(Debug, Default)]
struct State {
    has_landed: bool,
    /// Units for those who wait, and for nobody else: from a ledger that has no place for another
    /// holder.
    units: u64,
    waiting: SmallVec<[Waker; 1]>,
}

impl Flight {
    pub(crate) fn new(about: Arc<LeasedKey>) -> Self {
        Self { about, state: Mutex::default() }
    }

    /// The key it is about.
    pub(crate) fn key(&self) -> u64 {
        self.about.number
    }

    pub(crate) fn about(&self) -> Arc<LeasedKey> {
        Arc::clone(&self.about)
    }

    /// The answer is there, or there will be none; with it came so many units for those who wait.
    pub(crate) fn land(&self, units: u64) {
        let mut state = self.state();
        state.has_landed = true;
        state.units = units;
        let waiting = core::mem::take(&mut state.waiting);
        drop(state);
        waiting.into_iter().for_each(Waker::wake);
    }

    pub(crate) fn has_landed(&self) -> bool {
        self.state().has_landed
    }

    /// Takes of the units for those who wait.
    pub(crate) fn take(&self, units: u64) -> bool {
        let mut state = self.state();
        let left = state.units.checked_sub(units);
        if let Some(left) = left {
            state.units = left;
        }
        left.is_some()
    }

    fn poll(&self, context: &Context<'_>) -> Poll<()> {
        let mut state = self.state();
        if state.has_landed {
            return Poll::Ready(());
        }
        if !state.waiting.iter().any(|waker| waker.will_wake(context.waker())) {
            state.waiting.push(context.waker().clone());
        }
        Poll::Pending
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Every change is one assignment.
        lock(&self.state)
    }
}

/// Waits until the leases of a request are answered, or it is known that they will not be. The
/// caller that drives the engine brings every ask to an end, so this wait ends too.
#[derive(Clone, Copy, Debug)]
#[must_use = "a future does nothing unless it is polled"]
pub struct Landing<'a>(pub(crate) &'a [Arc<Flight>]);

impl Landing<'_> {
    /// Whether there is nothing to wait for any more.
    pub fn is_over(&self) -> bool {
        self.0.iter().all(|flight| flight.has_landed())
    }
}

impl Future for Landing<'_> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let waits = self.0.iter().filter(|flight| flight.poll(context).is_pending()).count();
        if waits == 0 { Poll::Ready(()) } else { Poll::Pending }
    }
}

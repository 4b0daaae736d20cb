//! Operations that may have to ask the store before they are done.

use core::fmt;

use tidegate::Timestamp;
use tidegate_store::{Answer, Batch, StoreError};

use crate::engine::Engine;
use crate::error::EngineError;

/// How far an operation has come.
#[derive(Debug)]
#[must_use = "an operation that asks is not done"]
pub enum Progress<T> {
    /// It is done.
    Done(T),
    /// Carry [`Asking::batch`] to the store and hand the answer to [`Asking::resume`].
    Ask(Box<Asking<T>>),
}

impl<T> Progress<T> {
    /// The result, if no store has to be asked; for callers whose engine has no store.
    pub fn done(self) -> Option<T> {
        match self {
            Self::Done(value) => Some(value),
            Self::Ask(_) => None,
        }
    }

    /// The same operation, with `end` applied to its result. Dropped before, `end` is dropped, too.
    pub(crate) fn finally(
        self,
        engine: &Engine,
        now: Timestamp,
        end: impl FnOnce(&Engine, T, Timestamp) -> T + Send + 'static,
    ) -> Self
    where
        T: 'static,
    {
        match self {
            Self::Done(value) => Self::Done(end(engine, value, now)),
            Self::Ask(asking) => {
                let Asking { batch, then } = *asking;
                Self::ask(batch, move |step, batch| {
                    let (engine, now) = (step.engine, step.now);
                    Ok(then(step, batch)?.finally(engine, now, end))
                })
            }
        }
    }

    pub(crate) fn ask(
        batch: Batch,
        then: impl FnOnce(StoreStep<'_>, Batch) -> Result<Self, EngineError> + Send + 'static,
    ) -> Self {
        Self::Ask(Box::new(Asking { batch, then: Box::new(then) }))
    }
}

/// The answer of a store, and whom it was asked for.
pub(crate) struct StoreStep<'e> {
    pub(crate) engine: &'e Engine,
    pub(crate) answer: Result<Answer, StoreError>,
    pub(crate) now: Timestamp,
}

type Continuation<T> = Box<dyn FnOnce(StoreStep<'_>, Batch) -> Result<Progress<T>, EngineError> + Send>;

/// An operation that waits for the store. Dropping it leaves it undone here; what the store made of
/// the batch stands.
#[must_use = "an operation that asks is not done"]
pub struct Asking<T> {
    batch: Batch,
    then: Continuation<T>,
}

impl<T> Asking<T> {
    /// The batch to send to the store.
    pub fn batch(&self) -> &Batch {
        &self.batch
    }

    /// Goes on after the store has answered, or failed to. `engine` may be of a later configuration
    /// than the one that began.
    pub fn resume(
        self,
        engine: &Engine,
        answer: Result<Answer, StoreError>,
        now: Timestamp,
    ) -> Result<Progress<T>, EngineError> {
        (self.then)(StoreStep { engine, answer, now }, self.batch)
    }
}

impl<T> fmt::Debug for Asking<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Asking").field("batch", &self.batch).finish_non_exhaustive()
    }
}

//! Operations that may have to ask the store before they are done.

use tidegate_core::Timestamp;
use tidegate_store::{Answer, Batch, StoreError};

use crate::engine::Engine;
use crate::error::RequestError;

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

    /// The operation that has `begun`, with `end` applied to its result, be it an error. Dropped
    /// before its end, it drops `end`.
    pub(crate) fn finally(
        begun: Result<Self, RequestError>,
        now: Timestamp,
        end: impl FnOnce(Result<T, RequestError>, Timestamp) -> Result<T, RequestError> + Send + 'static,
    ) -> Result<Self, RequestError>
    where
        T: 'static,
    {
        match begun {
            Ok(Self::Ask(asking)) => {
                let Asking { batch, then } = *asking;
                Ok(Self::ask(batch, move |step, batch| {
                    let now = step.now;
                    Self::finally(then(step, batch), now, end)
                }))
            }
            Ok(Self::Done(value)) => end(Ok(value), now).map(Self::Done),
            Err(error) => end(Err(error), now).map(Self::Done),
        }
    }

    pub(crate) fn ask(
        batch: Batch,
        then: impl FnOnce(StoreStep<'_>, Batch) -> Result<Self, RequestError> + Send + 'static,
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

type Continuation<T> = Box<dyn FnOnce(StoreStep<'_>, Batch) -> Result<Progress<T>, RequestError> + Send>;

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
    ) -> Result<Progress<T>, RequestError> {
        (self.then)(StoreStep { engine, answer, now }, self.batch)
    }
}

tidegate_core::debug_fields!(Asking<T> { batch });

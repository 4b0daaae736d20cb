//! The contract itself.

use core::future::Future;
use core::pin::Pin;
use core::time::Duration;
use std::sync::Arc;

use tidegate_core::Algorithm;

use crate::{Answer, Batch, Note, NoteKind, StoreError};

/// Keeps counters outside of the caller, and moves one batch at a time.
///
/// A store makes *read, decide, write* atomic and adds nothing to the decision, which is that of
/// [`tidegate_core::algorithm`]. It promises:
///
/// - **Atomic.** A batch is one step: what others see is before all of it or after all of it.
/// - **Denied means unchanged.** A refused all-or-nothing batch leaves every counter bit for bit as
///   it was.
/// - **The store's clock.** `now` is the store's own, the same for all operations of a batch. It
///   may step back, which never admits more.
/// - **Once.** A batch under an id the store remembers gives the same answer, admitted or refused,
///   and changes nothing. How many ids, and for how long, are named bounds of each store; the
///   oldest goes first. Sending a forgotten batch again charges it again: less is admitted than
///   could be, never more. Batches that [only peek, or ask ledgers](Batch::is_forgettable), need
///   not be remembered, nor those that ended in an error. A repeated ask is known to the ledger
///   itself, under whatever id it comes: it gets the same tokens and changes nothing.
/// - **Lent units are used.** Units of a [`tidegate_core::lease::Ledger`] that members may still
///   spend count as used. A store that has lost its content begins another
///   [`tidegate_core::lease::Epoch`], so that nothing is lent twice.
/// - **An unknown outcome counts as charged.** After an error with
///   [`StoreError::is_outcome_unknown`] the batch may have taken effect, wholly or not at all.
/// - **Bounded.** More than [`Batch::OPERATIONS_MAX`] operations are an error, keys are at most
///   [`crate::Key::BYTES_MAX`] bytes, and the number of counters or bytes is a named bound of the
///   store.
///
/// The future may be dropped at any time; the batch has then taken effect wholly or not at all.
pub trait Store: Send + Sync {
    /// Carries out one batch.
    fn run(&self, batch: &Batch) -> impl Future<Output = Result<Answer, StoreError>> + Send;

    /// All notes of a kind that have not expired, in the order of their names. For the start of a
    /// member, not for every request.
    fn notes(&self, kind: NoteKind) -> impl Future<Output = Result<Vec<Note>, StoreError>> + Send;

    /// Whether it can decide this algorithm at all; otherwise a batch with it is
    /// [`StoreError::Unsupported`]. Default: every one.
    fn supports(&self, algorithm: &Algorithm) -> bool {
        let _ = algorithm;
        true
    }

    /// The time within which it answers a batch or fails, so that a caller who waits as long needs
    /// no timer. Default `None`: it keeps no deadline.
    fn deadline(&self) -> Option<Duration> {
        None
    }
}

/// The future of a [`DynStore`].
pub type Running<'a> = Pin<Box<dyn Future<Output = Result<Answer, StoreError>> + Send + 'a>>;

/// The future of [`DynStore::notes_boxed`].
pub type Noting<'a> = Pin<Box<dyn Future<Output = Result<Vec<Note>, StoreError>> + Send + 'a>>;

/// A [`Store`] whose kind is chosen at run time; every store is one, and `Arc<dyn DynStore>` is
/// again a store. It costs one allocation a batch.
pub trait DynStore: Send + Sync {
    /// [`Store::run`].
    fn run_boxed<'a>(&'a self, batch: &'a Batch) -> Running<'a>;

    /// [`Store::notes`].
    fn notes_boxed(&self, kind: NoteKind) -> Noting<'_>;

    /// [`Store::supports`].
    fn supports_dyn(&self, algorithm: &Algorithm) -> bool;

    /// [`Store::deadline`].
    fn deadline_dyn(&self) -> Option<Duration>;
}

impl<S: Store> DynStore for S {
    fn run_boxed<'a>(&'a self, batch: &'a Batch) -> Running<'a> {
        Box::pin(self.run(batch))
    }

    fn notes_boxed(&self, kind: NoteKind) -> Noting<'_> {
        Box::pin(self.notes(kind))
    }

    fn supports_dyn(&self, algorithm: &Algorithm) -> bool {
        self.supports(algorithm)
    }

    fn deadline_dyn(&self) -> Option<Duration> {
        self.deadline()
    }
}

impl Store for Arc<dyn DynStore> {
    async fn run(&self, batch: &Batch) -> Result<Answer, StoreError> {
        // Of the store inside: the pointer is itself a `DynStore` and would call itself.
        (**self).run_boxed(batch).await
    }

    async fn notes(&self, kind: NoteKind) -> Result<Vec<Note>, StoreError> {
        (**self).notes_boxed(kind).await
    }

    fn supports(&self, algorithm: &Algorithm) -> bool {
        (**self).supports_dyn(algorithm)
    }

    fn deadline(&self) -> Option<Duration> {
        (**self).deadline_dyn()
    }
}

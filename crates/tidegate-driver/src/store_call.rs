//! One call to the store: its deadline, and the hooks by which a program observes calls.

use core::fmt;
use core::future::Future;
use core::pin::Pin;
use core::time::Duration;
use std::sync::Arc;

use tidegate_engine::LeaseBatch;
use tidegate_store::{Answer, Batch, DynStore, Outcome, StoreError};

/// How long one store call may take by default.
pub const STORE_TIMEOUT: Duration = Duration::from_millis(50);

/// How long an undo is retried by default: about as long as stores remember a batch.
pub const UNDO_HORIZON: Duration = Duration::from_secs(50);

/// The future of [`StoreHooks::undo`].
pub type Undoing<'a> = Pin<Box<dyn Future<Output = Result<(), StoreError>> + Send + 'a>>;

/// How a program takes part in store calls: it counts them, adds operations to them, and sends
/// undos by a path of its own. Every method has a default that does nothing.
///
/// Methods are called on the tasks that serve requests: they must not block or panic.
pub trait StoreHooks: Send + Sync + 'static {
    /// The batch to send instead of `batch`; `None` sends `batch` itself.
    fn replace(&self, batch: &Batch) -> Option<Batch> {
        let _ = batch;
        None
    }

    /// A store call has ended: with an answer, an error, or its deadline.
    fn call_ended(&self, answer: &Result<Answer, StoreError>) {
        let _ = answer;
    }

    /// Adds operations of the program to a batch of lease asks; whether it added any.
    fn add_to_renewal(&self, asks: &mut LeaseBatch) -> bool {
        let _ = asks;
        false
    }

    /// The outcomes of a batch of lease asks to which the program added operations.
    fn renewal_answered(&self, outcomes: &[Outcome]) {
        let _ = outcomes;
    }

    /// Sends a batch that has nothing but undos, such as past a circuit breaker and with a longer
    /// deadline; `None` sends it as an ordinary store call.
    fn undo<'a>(&'a self, batch: &'a Batch) -> Option<Undoing<'a>> {
        let _ = batch;
        None
    }

    /// How long an undo is retried. Default [`UNDO_HORIZON`].
    fn undo_horizon(&self) -> Duration {
        UNDO_HORIZON
    }

    /// A batch was not undone: its charge stays until it drains.
    fn undo_failed(&self) {}
}

/// The hooks of a program that has none.
#[derive(Debug)]
pub(crate) struct NoHooks;

impl StoreHooks for NoHooks {}

/// The store with the deadline of its calls.
#[derive(Clone)]
pub(crate) struct StoreLink {
    pub(crate) store: Option<Arc<dyn DynStore>>,
    pub(crate) timeout: Duration,
    pub(crate) hooks: Arc<dyn StoreHooks>,
}

impl StoreLink {
    /// Sends a batch to the store. A call beyond the deadline is an error like any other. A store
    /// that keeps a shorter deadline of its own needs no second timer.
    pub(crate) async fn call(&self, batch: &Batch) -> Result<Answer, StoreError> {
        let Some(store) = &self.store else { return Err(StoreError::NoStore) };
        let replaced = self.hooks.replace(batch);
        let batch = replaced.as_ref().unwrap_or(batch);
        let (after, running) = (self.timeout, DynStore::run_boxed(&**store, batch));
        let answer = if store.deadline_dyn().is_some_and(|own| own <= after) {
            running.await
        } else {
            let ended = tokio::time::timeout(after, running).await;
            ended.unwrap_or(Err(StoreError::Timeout { after }))
        };
        self.hooks.call_ended(&answer);
        answer
    }
}

impl fmt::Debug for StoreLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreLink")
            .field("has_store", &self.store.is_some())
            .field("timeout", &self.timeout)
            .finish_non_exhaustive()
    }
}

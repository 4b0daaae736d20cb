//! Calls of a store that a fleet shares beside its batches: clock, losses, undos and counts.

use core::future::Future;
use core::pin::Pin;
use core::time::Duration;

use tidegate_core::Timestamp;

use crate::{Batch, DynStore, Key, StoreError};

/// The future of a call of a [`FleetStore`] beside its batches.
pub type FleetCall<'a, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>;

/// A store that the members of a fleet share.
///
/// It reports a loss of its data until the loss is acknowledged, and undoes batches that their
/// callers have given up.
pub trait FleetStore: DynStore {
    /// The reading of the store's clock, asked of the store: an error says why it does not serve.
    fn now(&self) -> FleetCall<'_, Timestamp>;

    /// About what the store's clock shows, without asking it.
    fn about_now(&self) -> Timestamp;

    /// The loss that began first and is not [acknowledged](Self::acknowledge_loss), as far as this
    /// member has seen. Default: nothing is ever lost.
    fn loss(&self) -> Option<Loss> {
        None
    }

    /// The loss that what is counted under `key` may be of, if that is not acknowledged.
    fn loss_of(&self, key: &Key) -> Option<Loss> {
        let _ = key;
        None
    }

    /// Acknowledges every loss that began before now: batches are decided again on what there is.
    /// The first of the losses that are known here, if any is. The next call, such as
    /// [`now`](Self::now), tells the store, and other members follow with their next calls.
    fn acknowledge_loss(&self) -> Option<Loss> {
        None
    }

    /// Why nothing is decided in the store by this member for good, if that is so: the store speaks
    /// a newer protocol. Default: it speaks none.
    fn newer_protocol(&self) -> Option<String> {
        None
    }

    /// Takes back what batches charged that were given up. `batch` has [`Kind::Undo`] operations
    /// only, and an id of its own. Send it again after an error.
    ///
    /// [`Kind::Undo`]: crate::Kind::Undo
    fn undo<'a>(&'a self, batch: &'a Batch) -> FleetCall<'a, ()>;

    /// Counts a batch that could not be undone: what it charged stays until it drains.
    fn undo_failed(&self);

    /// How long an undo is worth another try.
    fn undo_horizon(&self) -> Duration;

    /// The policy by which the store evicts counters, which then count from zero; `None` if it
    /// evicts none, the default.
    fn evicts_by(&self) -> FleetCall<'_, Option<String>> {
        Box::pin(async { Ok(None) })
    }

    /// Whether an error says only that the store does not answer, or has lost its data: of what
    /// [`loss`](Self::loss) and [`stats`](Self::stats) tell as well.
    fn is_silence(&self, error: &StoreError) -> bool;

    /// The counts and findings of the store.
    fn stats(&self) -> FleetStats;
}

/// The counts of a store since it was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FleetStats {
    /// Calls sent, those included that were not answered.
    pub calls: u64,
    /// Batches sent in them.
    pub batches: u64,
    /// Asks of ledgers among them.
    pub asks: u64,
    /// Operations waiting to be sent now.
    pub waiting: usize,
    /// Calls that were not answered in time or at all.
    pub failed: u64,
    /// Batches that were not sent, by cause.
    pub rejected: Rejected,
    /// The state of the circuit breaker.
    pub circuit: Circuit,
    /// How often it opened.
    pub opened: u64,
    /// Batches that were [undone](FleetStore::undo) after they had been given up, or had
    /// turned out not to have charged anything.
    pub undone: u64,
    /// Batches of which a charge could not be undone: less is admitted than could be, until that
    /// charge drains.
    pub undo_failed: u64,
    /// How often this member found that the store had lost what it held.
    pub lost: u64,
    /// The loss that began first and is not [acknowledged](FleetStore::acknowledge_loss),
    /// whichever member noticed it.
    pub loss: Option<Loss>,
    /// The lease protocol of the store, if that is higher than this member's, which then decides
    /// nothing there.
    pub newer_protocol: Option<u32>,
    /// Operations that the store decided differently from the pure code. Always 0; anything else is
    /// a defect to report.
    pub disagreed: u64,
}

/// Batches that were not sent, so that they changed nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rejected {
    /// The circuit breaker is open.
    pub circuit_open: u64,
    /// As many operations waited already as may.
    pub queue_full: u64,
    /// The deadline passed while they waited for the calls before them.
    pub not_sent: u64,
}

/// The store was found to have lost what it held: the marker of its epoch is gone or another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loss {
    /// The slot it was found in, for a cluster.
    pub slot: Option<u16>,
    /// The id of the epoch it should have; "an earlier one" if another member noticed the loss.
    pub expected: String,
    /// The id of the epoch it has; empty if it had none.
    pub found: String,
    /// When the loss was noticed, on the store's clock.
    pub began: Timestamp,
}

/// The state of the circuit breaker before a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Circuit {
    /// Everything goes through.
    Closed,
    /// Nothing goes through before this instant.
    Open {
        /// When one request may try.
        until: Duration,
    },
    /// One request is under way to see whether the store answers.
    HalfOpen,
}

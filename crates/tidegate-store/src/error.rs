//! Why a store did not decide.

use core::error::Error;
use core::time::Duration;

use tidegate_core::Timestamp;
use tidegate_core::rate::format_span;

/// Why a store did not answer a batch. A refusal is not an error: it is an [`crate::Answer`].
///
/// Unless [`StoreError::is_outcome_unknown`], nothing was changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The store was not reached, or said that it does not serve now.
    #[error("store {at} is unavailable; check that it is running and reachable")]
    Unavailable {
        /// Where it was looked for, without credentials.
        at: String,
        /// Whether the batch may have reached it.
        sent: bool,
        /// The underlying error.
        #[source]
        source: Option<Box<dyn Error + Send + Sync>>,
    },
    /// There is no store to ask.
    #[error("there is no store to ask; give the driver one (`store`), or use limits that need none")]
    NoStore,
    /// The store was called where no runtime can carry the call.
    #[error("the store cannot be called outside of a tokio runtime; call from within one")]
    NoRuntime,
    /// The store was not asked about the batch.
    #[error("the store was not asked; send it the batch before its answer is taken in")]
    NotAsked,
    /// The store did not answer in time.
    #[error("the store did not answer within {}; raise its deadline, or see what makes it slow", format_span(*after))]
    Timeout {
        /// How long it was given.
        after: Duration,
    },
    /// A bound of the batch was exceeded; the same batch is never taken.
    #[error("{size} {what} are more than the {max} a store takes")]
    TooLarge {
        /// The thing that exceeds its bound.
        what: &'static str,
        /// How much there is; at least this, if it was not counted to the end.
        size: usize,
        /// How much there may be.
        max: usize,
    },
    /// Other batches kept changing the same keys, and the store gave up.
    #[error("other requests changed the same keys {attempts} times in a row; try again, or spread the key")]
    Conflict {
        /// How often it tried.
        attempts: u32,
    },
    /// The id was used for another batch before. The caller's mistake: ids must not repeat.
    #[error("request id {id} was used for a different batch; draw ids at random or count them")]
    IdReused {
        /// The id.
        id: crate::RequestId,
    },
    /// There is no room for another counter or note.
    #[error(
        "the store has no room for another counter or note before {until}; give it more memory, or more disk if it has one"
    )]
    Full {
        /// The first instant, on the store's clock, at which one in the way may have drained.
        until: Timestamp,
    },
    /// The store has lost what it held: the marker of its epoch is gone or another one.
    #[error(
        "the store has lost its counters (expected epoch {expected}, found {found}); acknowledge it to count anew"
    )]
    DataLost {
        /// The epoch it should have.
        expected: String,
        /// The state that was found instead.
        found: String,
    },
    /// The store cannot do this at all.
    #[error("the store does not support {what}")]
    Unsupported {
        /// The unsupported operation.
        what: String,
    },
}

impl StoreError {
    /// Whether the same batch, under the same id, may succeed when sent again.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Unavailable { .. }
            | Self::NoRuntime
            | Self::NotAsked
            | Self::Timeout { .. }
            | Self::Conflict { .. }
            | Self::Full { .. } => true,
            Self::NoStore
            | Self::TooLarge { .. }
            | Self::IdReused { .. }
            | Self::DataLost { .. }
            | Self::Unsupported { .. } => false,
        }
    }

    /// Whether the batch may have taken effect all the same. An unknown outcome counts as charged:
    /// the caller does not undo it, and if it sends the batch again then under the same id.
    pub fn is_outcome_unknown(&self) -> bool {
        match self {
            Self::Timeout { .. } => true,
            Self::Unavailable { sent, .. } => *sent,
            Self::NoStore
            | Self::NoRuntime
            | Self::NotAsked
            | Self::TooLarge { .. }
            | Self::Conflict { .. }
            | Self::IdReused { .. }
            | Self::Full { .. }
            | Self::DataLost { .. }
            | Self::Unsupported { .. } => false,
        }
    }
}

#[cfg(test)]
#[cfg(not(tidegate_loom))]
mod tests {
    use super::*;

    #[test]
    fn only_what_may_have_reached_the_store_has_an_unknown_outcome() {
        let lost = |sent| StoreError::Unavailable { at: "redis:6379".to_owned(), sent, source: None };
        assert!(lost(true).is_outcome_unknown() && !lost(false).is_outcome_unknown());
        assert!(StoreError::Timeout { after: Duration::from_millis(30) }.is_outcome_unknown());
        assert!(!StoreError::Conflict { attempts: 3 }.is_outcome_unknown());
    }

    #[test]
    fn what_can_never_succeed_is_not_transient() {
        assert!(!StoreError::TooLarge { what: "key bytes", size: 2, max: 1 }.is_transient());
        assert!(!StoreError::Unsupported { what: "rolling limits".to_owned() }.is_transient());
        assert!(StoreError::Conflict { attempts: 3 }.is_transient());
    }

    #[test]
    fn errors_show_the_value_and_what_to_do() {
        let text = StoreError::Timeout { after: Duration::from_millis(30) }.to_string();
        assert_eq!(
            text,
            "the store did not answer within 30ms; raise its deadline, or see what makes it slow"
        );
    }
}

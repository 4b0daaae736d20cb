//! A limit whose store does not decide it.

use std::sync::Arc;

use tidegate_core::lease::Share;
use tidegate_store::StoreError;

use super::leased_key::LeasedKey;

/// Why a limit whose store is silent is not decided by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Silence {
    /// The store did not answer.
    Away,
    /// The store has lost what was used.
    LostData,
}

impl Silence {
    /// Why a limit is not decided by a store that answered with this error.
    pub(crate) fn from_error(error: &StoreError) -> Self {
        if matches!(error, StoreError::DataLost { .. }) { Self::LostData } else { Self::Away }
    }

    /// The detail of a refusal for this reason.
    pub(crate) const fn detail(self) -> &'static str {
        match self {
            Self::Away => "away: the store that decides this limit did not answer",
            Self::LostData => {
                "lost data: the store no longer knows what was used; it counts again when the window ends or the loss is acknowledged"
            }
        }
    }
}

/// The state of a leased limit that its store does not decide.
#[derive(Debug)]
pub(crate) struct Silent {
    pub(crate) about: Arc<LeasedKey>,
    pub(crate) why: Silence,
    /// By which part of the limit this member decides alone.
    pub(crate) share: Share,
}

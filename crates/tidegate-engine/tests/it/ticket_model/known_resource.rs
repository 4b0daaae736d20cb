//! A resource that defers, as the model knows it.

use tidegate_core::Class;
use tidegate_overload::{DeferralConfig, Share};

use super::seconds_sold::SecondsSold;

/// A resource and what the model counts of it since the start of the member.
#[derive(Clone, Debug, Default)]
pub(crate) struct KnownResource {
    pub(crate) places: u64,
    pub(crate) defer: Option<DeferralConfig>,
    pub(crate) sold: u64,
    pub(crate) full: u64,
    pub(crate) early: u64,
    pub(crate) expired: u64,
    pub(crate) replayed: u64,
    /// The tickets that were spent, without those that are good again.
    pub(crate) spent: u64,
    pub(crate) deferred: u64,
    pub(crate) seconds: SecondsSold,
}

impl KnownResource {
    pub(crate) fn defers(&self, class: Class) -> bool {
        self.defer.is_some_and(|defer| defer.takes(class))
    }
}

/// The quarters of a request that a second holds at most.
#[expect(clippy::cast_sign_loss, reason = "a room is at least 4")]
pub(crate) fn quarters_of(share: Share, capacity: f64) -> u32 {
    (share.as_ratio() * capacity * 4.0 + 1e-3).clamp(4.0, 4_000.0) as u32
}

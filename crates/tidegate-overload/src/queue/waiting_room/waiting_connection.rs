//! A connection on which several requests may wait.

use core::num::NonZeroU64;

/// A connection whose requests may wait side by side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitingConnection {
    /// A number that no other connection has while requests of this one wait.
    pub id: NonZeroU64,
    /// The memory that the connection occupies, apart from its requests.
    pub bytes: u32,
}

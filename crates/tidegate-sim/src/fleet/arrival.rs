//! A request as it arrives.

/// A request that a client makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Arrival {
    /// When this attempt was made.
    pub(crate) at: u64,
    pub(crate) member: u32,
    pub(crate) key: u32,
    pub(crate) cost: u32,
    /// Which try it is, from 0.
    pub(crate) attempt: u32,
}

//! Admissions and refusals as the checkers see them.

use tidegate_core::Reason;

/// Where an admission came from, as the engine says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// From a lease, or by the store.
    Grant,
    /// The member decided alone, as the store was silent.
    Alone,
}

/// A request that was admitted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Admitted {
    pub(crate) member: u32,
    pub(crate) run: u64,
    pub(crate) cost: u64,
    /// `None` where the engine does not say; then the wire does.
    pub(crate) source: Option<Source>,
    /// The member's own time.
    pub(crate) member_now: u64,
    pub(crate) attempt: Attempt,
}

/// A request that was refused.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Refusal {
    pub(crate) member: u32,
    pub(crate) run: u64,
    pub(crate) reason: Reason,
    /// The member's own time.
    pub(crate) member_now: u64,
    pub(crate) attempt: Attempt,
}

/// An attempt that was decided.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attempt {
    pub(crate) key: u32,
    pub(crate) cost: u64,
    /// When it was made.
    pub(crate) made: u64,
    pub(crate) is_first: bool,
    /// Whether its caller asks steadily.
    pub(crate) is_steady: bool,
}

//! Mistakes that tests plant in the capacity plane, to show that they would be found.

use tidegate_core::planted_fault::planted;

/// A mistake that is planted by tests only, under `--cfg tidegate_planted_faults`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Units that are given back return to the partition and not to its node.
    NodeForgotten,
    /// A throttled access is charged.
    RefusalCharged,
    /// An access that weighed more than expected is not charged the rest.
    ShortfallForgotten,
}

impl Fault {
    /// Whether the mistake is planted in this thread; always false without the cfg.
    #[inline]
    pub(crate) fn is_planted(self) -> bool {
        planted() == Some(self)
    }
}

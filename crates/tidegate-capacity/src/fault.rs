//! Mistakes that tests plant in the capacity plane, to show that they would be found.

#[cfg(tidegate_planted_faults)]
use tidegate::planted_fault::PlantedFault;

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
    #[cfg_attr(
        not(tidegate_planted_faults),
        expect(clippy::unused_self, reason = "compared under the cfg only")
    )]
    pub(crate) fn is_planted(self) -> bool {
        #[cfg(tidegate_planted_faults)]
        return PlantedFault::of_thread() == Some(self);
        #[cfg(not(tidegate_planted_faults))]
        false
    }
}

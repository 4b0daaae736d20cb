//! Mistakes that tests plant in the walk of the planes, to show that they would be found.

use tidegate_core::planted_fault::planted;

/// A mistake that is planted by tests only, under `--cfg tidegate_planted_faults`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(tidegate_planted_faults), expect(unreachable_pub, reason = "public under the cfg only"))]
pub enum Fault {
    /// A request that one plane refuses keeps what the planes before have charged.
    RefusalKeepsHolds,
    /// Capacity units are not given back.
    UnitsKept,
    /// The requests of a batch before a refused one keep what they hold.
    BatchKept,
    /// A denied request stays in the demand on its resource.
    DenialIsDemand,
    /// The meter counts the outcome of a request twice.
    OutcomeTwice,
    /// The meter forgets the counts of a tenant that it evicts.
    EvictionForgets,
    /// The meter takes a waiting request that goes on for another one.
    WaitOfferedAnew,
    /// The signature of a ticket is not verified.
    TicketUnverified,
}

impl Fault {
    /// Whether the mistake is planted in this thread; always false without the cfg.
    #[inline]
    pub(crate) fn is_planted(self) -> bool {
        planted() == Some(self)
    }
}

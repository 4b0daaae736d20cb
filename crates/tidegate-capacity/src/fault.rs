//! Mistakes that tests plant in the capacity plane, to show that they would be found.

use tidegate_core::planted_fault::planted;

/// A mistake that is planted by tests only, under `--cfg tidegate_planted_faults`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(tidegate_planted_faults), expect(unreachable_pub, reason = "public under the cfg only"))]
pub enum Fault {
    /// Units that are given back return to the partition and not to its node.
    NodeForgotten,
    /// A throttled access is charged.
    RefusalCharged,
    /// An access that weighed more than expected is not charged the rest.
    ShortfallForgotten,
    /// Accesses on the allocated path do not debit the node.
    NodeNotDebited,
    /// The burst credit is filled by the rate, and not by spill alone.
    BurstFilledByRate,
    /// A burst write needs the room of followers, but does not debit it.
    CreditWithoutDebit,
    /// Repeated attempts count as demand.
    RetriesCounted,
    /// Both parts of a cut keep all of its levels.
    TwoBalances,
    /// Units are given back to the partition at the index that the charged one had.
    GivenBackByIndex,
    /// The tokens of tables and accounts are asked and not spent.
    TokensNotSpent,
    /// The ceiling of a partition is asked and not charged.
    CeilingNotCharged,
    /// The allocated path needs the room of nodes, which neighbours use up.
    AllocationNeedsRoom,
    /// A node is promised more than it may be.
    PromiseUnchecked,
    /// Both parts of a cut have half of the ceiling.
    CeilingCut,
    /// Global admission goes no further than the allocations of partitions.
    SpareUnused,
    /// Parts of a cut are joined however young they are, and before their load is known.
    JoinedAtOnce,
    /// The begun thousandth is dropped each time that a level is refilled.
    BegunThousandthDropped,
}

impl Fault {
    /// Whether the mistake is planted in this thread; always false without the cfg.
    #[inline]
    pub(crate) fn is_planted(self) -> bool {
        planted() == Some(self)
    }
}

//! Mistakes that tests plant in leases, to show that they would be found.

/// A mistake that protocols of this kind have been shipped with. Terms have the mistake that was
/// planted in the thread which made them; see `planted_fault.rs`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(not(tidegate_planted_faults), expect(unreachable_pub, reason = "public under the cfg only"))]
pub enum Fault {
    /// The ledger grants without counting what it granted as used.
    GrantWithoutDebit,
    /// A record that is still there is begun anew by each ask.
    RecordBegunAnew,
    /// A record that is absent begins empty instead of full.
    EmptyAtBeginning,
    /// Repeated attempts count as demand.
    RetriesAsDemand,
    /// The holder measures its lease from the reply instead of from the ask.
    ExpiryFromReply,
    /// Returned tokens are credited each time an ask mentions them.
    ReturnAppliedTwice,
    /// A lease may last beyond the end of its window.
    WindowEndIgnored,
    /// A member decides alone although its lease has the tokens.
    AloneWithTokens,
    /// A member still decides alone although the store has answered.
    AloneWhenAnswered,
    /// A member that decides alone takes the whole limit as its share.
    ShareOfOne,
    /// A member admits nothing alone.
    NothingAlone,
    /// A peer's bucket is made larger by tokens that were not granted.
    IncreaseNotGranted,
    /// The lease behind an assignment ends with it, although the peer may have taken it later.
    LeaseEndsWithAssignment,
    /// A bucket after a denial begins full without a grant of its tokens.
    FullAfterDenial,
}

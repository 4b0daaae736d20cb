//! Mistakes that tests plant, to show that they would be found.

/// A mistake that protocols of this kind have been shipped with. Only the feature `planted-faults`
/// lets anyone choose one, and only tests turn that on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(
    not(feature = "planted-faults"),
    expect(unreachable_pub, reason = "public under the feature only")
)]
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
}

#[cfg(feature = "planted-faults")]
std::thread_local! {
    static PLANTED: core::cell::Cell<Option<Fault>> = const { core::cell::Cell::new(None) };
}

impl Fault {
    /// Plants the mistake in all terms that this thread makes from now on; `None` removes it.
    /// Returns the mistake that was planted before. For tests of engines and stores, which make
    /// their terms themselves.
    #[cfg(feature = "planted-faults")]
    pub fn plant(fault: Option<Self>) -> Option<Self> {
        PLANTED.replace(fault)
    }

    /// The mistake that is planted in this thread; always `None` without the feature.
    pub(super) fn planted() -> Option<Self> {
        #[cfg(feature = "planted-faults")]
        return PLANTED.get();
        #[cfg(not(feature = "planted-faults"))]
        None
    }
}

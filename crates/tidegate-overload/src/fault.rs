//! Mistakes that tests plant in the overload plane, to show that they would be found.

use tidegate_core::planted_fault::planted;

/// A mistake that is planted by tests only, under `--cfg tidegate_planted_faults`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// A place in flight is not returned.
    PlaceKept,
    /// The cost of a withdrawn request stays in the demand.
    WithdrawnCounts,
    /// Each attempt that asks the cursor is offered again.
    RepeatOffered,
    /// A request that got a place and was denied then counts as served.
    DeniedServed,
    /// A tenant that was idle starts where it left off, rather than where the others are.
    CreditHoarded,
    /// A full queue displaces requests of the entrant's class before those of lower ones.
    VictimOfOwnClass,
    /// A request whose time is over is served when its turn comes.
    ExpiredServed,
    /// A timeout is no slow answer.
    TimeoutQuick,
    /// All callers are told the same time to come back.
    HintAlike,
    /// An outcome counts for the lowest class.
    OutcomeOfOtherClass,
    /// Work whose end is not reported is not paced.
    PaceUnbounded,
    /// A timeout counts as a success of its latency for an adaptive limit.
    TimeoutSucceeds,
    /// The footprint of a feature leaves out the requests that were refused because it is off.
    RefusedLeftOut,
    /// Relief that was ordered counts twice: as demand that is gone, and as pressure that will go.
    ReliefCountedTwice,
    /// A class degrades before a lower one.
    HigherClassFirst,
    /// A ticket that was spent is not remembered.
    SpentForgotten,
    /// A second of the calendar is sold although the ticket does not fit into its room.
    SlotOversold,
}

impl Fault {
    /// Whether the mistake is planted in this thread; always false without the cfg.
    #[inline]
    pub(crate) fn is_planted(self) -> bool {
        planted() == Some(self)
    }
}

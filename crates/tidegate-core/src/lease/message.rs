//! The messages between holder and ledger.

use core::time::Duration;

use crate::time::Timestamp;

/// The name of a holder: one [`crate::lease::Holder`] of one run of one member.
///
/// A member that restarts is another holder, and so is a holder that a member has made anew; the
/// lease of the former holder ends by itself. So nothing depends on knowing that the former holder
/// is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HolderName {
    /// One run of a member: a number that no other run has.
    pub member: u64,
    /// Which of the run's holders: a number it has not used before for this key.
    pub incarnation: u32,
}

/// The time since the store last lost data, or began.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Epoch {
    /// Its number, at least 1; each loss makes it larger.
    pub number: u32,
    /// When it began, by the store's clock.
    pub began: Timestamp,
    /// Whether there was something to lose: leases of an earlier epoch may still be spent, and what
    /// was counted is gone. False for a store that is new, and once an operator has acknowledged
    /// the loss.
    pub is_after_loss: bool,
}

/// A holder asks the ledger. Totals count from the beginning of the holder and wrap around, so that
/// an ask that is lost, repeated or overtaken changes nothing about what they mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ask {
    /// The holder that asks.
    pub holder: HolderName,
    /// The number of this ask, from 1; each one is sent once.
    pub seq: u32,
    /// The ask whose answer the holder took over last, 0 if none. Answers to earlier asks are not
    /// taken over any more.
    pub acked: u32,
    /// The highest epoch the holder has seen, 0 if none.
    pub epoch: u32,
    /// Tokens that it keeps in hand.
    pub left: u32,
    /// Tokens in hand that it has given back so far, in total.
    pub returned: u32,
    /// Tokens that trickled in and were not used so far, in total.
    pub unused: u32,
    /// Units that were asked of it, first attempts only, as a rate each period.
    pub demand: u32,
    /// The total cost of the requests that wait for the answer; 0 if no request waits.
    pub need: u64,
    /// The cost of the first of them: fewer tokens are of no use to it. At most `need`, and 0 only
    /// if that is.
    pub need_min: u64,
    /// Whether the holder stops here and wants nothing.
    pub is_leaving: bool,
    /// Whether the rate of its lease ends with this ask, as the rate is far above the demand.
    /// Tokens in hand stay.
    pub gives_up: bool,
    /// How long the lease that answers it lasts, whatever the period of the limit; up to
    /// [`LIFETIME_MAX`](super::LIFETIME_MAX). Zero: as long as the ledger finds right.
    ///
    /// For a [`RemoteBucket`](super::RemoteBucket), whose tokens are spent elsewhere. Its rate is
    /// counted in tokens each period like any other, its demand is never too low for a rate, and it
    /// takes over the leases of its `member` that have not been renewed for
    /// [`REPLACED_AFTER`](super::REPLACED_AFTER).
    pub lifetime: Duration,
}

impl Ask {
    /// The first ask of a holder, which has no tokens and knows no epoch.
    ///
    /// `need` is the cost of the one request that waits for the answer, in units; with 0 no request
    /// waits, and such an ask only makes the holder known. All else is 0 or false but `seq`, which
    /// is 1. The other fields can be set where an ask says more:
    ///
    /// ```
    /// use tidegate_core::lease::{Ask, HolderName};
    ///
    /// let holder = HolderName { member: 7, incarnation: 1 };
    /// let first = Ask { demand: 40, ..Ask::first(holder, 3) };
    /// assert_eq!((first.seq, first.acked, first.left, first.need), (1, 0, 0, 3));
    /// ```
    #[must_use]
    pub const fn first(holder: HolderName, need: u64) -> Self {
        Self {
            holder,
            seq: 1,
            acked: 0,
            epoch: 0,
            left: 0,
            returned: 0,
            unused: 0,
            demand: 0,
            need,
            need_min: need,
            is_leaving: false,
            gives_up: false,
            lifetime: Duration::ZERO,
        }
    }

    /// Whether the tokens are spent elsewhere than where the ask is made.
    pub(super) const fn is_remote(&self) -> bool {
        !self.lifetime.is_zero()
    }
}

/// The ledger's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Grant {
    /// The ask it answers.
    pub seq: u32,
    /// The ledger's epoch. A holder obeys the highest it has seen.
    pub epoch: u32,
    /// Tokens that may be spent at once.
    pub lump: u32,
    /// Tokens that the ledger now counts as in the holder's hand, `lump` included, unless it [is
    /// only for the requests that wait](Grant::is_spot). Tokens beyond these belong to a lease that
    /// the ledger no longer knows, and are not spent any more.
    pub held: u32,
    /// Tokens that trickle in, each period. It takes the place of the rate before.
    pub rate: u32,
    /// How long both may be spent. The holder counts from the instant it sent the ask. Zero:
    /// nothing is granted.
    pub ttl: Duration,
    /// Tokens worth keeping in hand; what is above is missed by others.
    pub keep: u32,
    /// Holders with a lease, this one included; at least 1.
    pub members: u32,
    /// Whether the demand is above the supply. A holder that has its share does not ask again
    /// before its time.
    pub is_scarce: bool,
    /// Whether nothing is granted because the store has lost what was used of a quota, and neither
    /// has its window ended since nor has the loss been acknowledged.
    pub is_lost: bool,
    /// How long to wait before asking again if this was not enough, unless the ledger is known to
    /// have room earlier; zero if it was enough.
    pub again: Duration,
    /// Of a window: tokens that were granted to other holders whose lease has ended without a
    /// report. Unspent tokens among them are lost until the window ends, unless the holder comes
    /// back. Those of holders that have lost their place are not counted. 0 of a bucket, where
    /// nothing is lost.
    pub gone: u64,
}

impl Grant {
    /// Whether this is a spot grant: its lump is only for the requests that wait for the answer,
    /// and the ledger counts it as spent.
    pub const fn is_spot(&self) -> bool {
        self.held < self.lump
    }

    /// A grant of nothing, to no ask.
    pub(super) const NOTHING: Self = Self {
        seq: 0,
        epoch: 0,
        lump: 0,
        held: 0,
        rate: 0,
        ttl: Duration::ZERO,
        keep: 0,
        members: 1,
        is_scarce: true,
        is_lost: false,
        again: Duration::ZERO,
        gone: 0,
    };
}

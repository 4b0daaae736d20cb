//! The clock that tickets are on, beside that of the member.

use tidegate_core::Timestamp;

/// The clock that the instants and seconds of tickets are on: that of a store which members share,
/// so that a ticket of one member is due at the same moment at every other one.
///
/// The default is the member's own clock.
///
/// ```
/// # use tidegate_core::Timestamp;
/// # use tidegate_overload::TicketClock;
/// let clock = TicketClock::ahead_by(2_000_000_000);
/// let now = Timestamp::from_secs(1_800_000_000);
/// assert_eq!(clock.from_member(now), Timestamp::from_secs(1_800_000_002));
/// assert_eq!(clock.to_member(clock.from_member(now)), now);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TicketClock {
    ahead_nanos: i64,
}

impl TicketClock {
    /// A clock that is ahead of the member's by so many nanoseconds; behind it if negative.
    pub const fn ahead_by(nanos: i64) -> Self {
        Self { ahead_nanos: nanos }
    }

    /// By how many nanoseconds the clock is ahead of the member's.
    pub const fn ahead_nanos(self) -> i64 {
        self.ahead_nanos
    }

    /// An instant of the member on this clock, bounded by the first and the last instant.
    pub const fn from_member(self, instant: Timestamp) -> Timestamp {
        Timestamp::from_nanos(instant.as_nanos().saturating_add_signed(self.ahead_nanos))
    }

    /// An instant of this clock on that of the member, bounded likewise.
    pub const fn to_member(self, instant: Timestamp) -> Timestamp {
        Timestamp::from_nanos(instant.as_nanos().saturating_add_signed(self.ahead_nanos.saturating_neg()))
    }
}

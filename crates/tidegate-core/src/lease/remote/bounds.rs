//! Times and bounds of remote buckets.

use core::time::Duration;

/// Within this time a message is taken by the peer, or its stream ends: 4 s.
pub const TAKEN_WITHIN: Duration = Duration::from_secs(4);

/// So long after the time to live of an assignment its lease ends at the earliest: 5 s.
pub const LEASE_MARGIN: Duration = Duration::from_secs(5);

/// After so long a holder that had no answer asks again: 1 s.
pub(super) const RETRY: Duration = Duration::from_secs(1);

/// And one that was granted less than its share: others give it back by their next reports.
pub(super) const SHORT_RETRY: Duration = Duration::from_millis(250);

/// A holder that is new to a ledger, or whose ledger has begun anew, asks so many times more before
/// the peer's next report, if it has a larger part than its demand: others may have come by then.
/// The first time is [`RETRY`] after its first grant, and the next after twice as long.
pub(super) const FIRST_LOOKS: u8 = 2;

/// A peer's bucket holds the tokens of so long a time, if there are so many.
pub(super) const BURST_SPAN: Duration = Duration::from_secs(1);

/// And so many at least.
pub(super) const TOKENS_MIN: u32 = 2;

/// A holder without a token in hand gathers those of so long a time from its rate: all holders
/// together never more than a limit may be over its rate.
pub(super) const GATHER_SPAN: Duration = Duration::from_millis(100);

/// A first grant is at most this part of the burst.
pub(super) const FIRST_PART: u64 = 32;

/// A demand that is not known yet counts as this part of the limit.
pub(super) const FIRST_DEMAND: u64 = 4;

/// A demand counts up to so many times the limit.
pub(super) const DEMAND_MAX: u64 = 10;

/// Tokens a period below which a limit is slow.
pub(super) const SLOW_TOKENS: u64 = 80;

/// A holder without a place has no rate, so it asks for the tokens of the time between two reports.
pub(super) const SPOT_SPAN: Duration = Duration::from_secs(5);

/// And for at most so many times the first grant of a holder with a place.
pub(super) const SPOT_PART: u32 = 4;

//! Leases: one limit spent at many members, each from tokens that it was lent.
//!
//! A [`Ledger`] is the record of a key in a shared store; a [`Holder`] is the key's lease at one
//! member. Both are pure: no clock, no socket. A holder is asked to [`take`](Holder::take) and
//! mostly answers by itself; now and then it says that it wants to [`ask`](Holder::ask), the caller
//! carries the [`Ask`] to wherever the ledger is, lets it [answer](Ledger::ask) in one atomic step
//! at the store's time, and carries the [`Grant`] [back](Holder::granted).
//!
//! ```
//! use std::time::Duration;
//! use tidegate_core::lease::{Epoch, Holder, Ledger, LedgerLevel, Take, Terms};
//! use tidegate_core::{Algorithm, Cost, Rate, Timestamp};
//!
//! let start = Timestamp::from_secs(1_800_000_000);
//! let terms = Terms::from_algorithm(&Algorithm::bucket(Rate::per_second(1_000)?)?, start)?;
//! let epoch = Epoch { number: 1, began: start, is_after_loss: false };
//! let (mut ledger, mut holder) = (Ledger::begin(&terms, &epoch), Holder::new(1));
//!
//! // A cold key asks once; afterwards the member decides by itself.
//! let now = start.saturating_add(Duration::from_secs(1));
//! assert_eq!(holder.take(&terms, Cost::ONE, 0, now), Take::Ask);
//! let ask = holder.ask(&terms, 7, 1, now).unwrap();
//! let grant = ledger.ask(now, &terms, &epoch, &ask).grant.unwrap();
//! let level = LedgerLevel { used: 1, reset_in: Duration::from_millis(1) };
//! holder.granted(&terms, &grant, level, now);
//! assert_eq!(holder.take(&terms, Cost::ONE, 0, now), Take::Taken { renew: false });
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! **Promise**, by the members' own instants, even if messages are lost, repeated, overtaken or
//! delayed and members crash:
//!
//! * a bucket: any span `W` admits at most `R·W + B + 0.1 s·R` over all members together, from
//!   grants of one [`Epoch`];
//! * a window: never more than its limit, and less only by what members had in hand that crashed;
//! * where the store lost its data the new record is full, and the old leases run out beside it,
//!   within 17/16 of a lease period: see [`Ledger::begin`];
//! * a member that cannot reach the store admits its [`Share`].
//!
//! `docs/internals/leases-proof.md` says why, and which of it is checked by exhaustion;
//! `docs/internals/leases-port.md` says how a store carries it out with numbers below 2^53.

use core::time::Duration;

mod balance;
mod demand;
mod fault;
mod holder;
mod ledger;
mod message;
mod phase;
mod remote;
mod remote_obstacle;
mod terms;
#[cfg(test)]
#[cfg(not(tidegate_loom))]
mod tests;

pub use balance::{Balance, LedgerLevel};
#[cfg(tidegate_planted_faults)]
pub use fault::Fault;
pub use holder::{Holder, Share, Stamp, Take};
pub use ledger::{AskOutcome, HolderView, Ledger, Movement, Unreadable};
pub use message::{Ask, Epoch, Grant, HolderName};
pub use remote::{Assignment, LEASE_MARGIN, RemoteBucket, RemoteStep, TAKEN_WITHIN, TokenBucket};
pub use remote_obstacle::{
    REMOTE_BURST_MIN, REMOTE_RATE_MAX, REMOTE_UNIT_MAX, RemoteObstacle, remote_obstacle,
};
pub use terms::{Terms, TermsError};

/// The most holders with a lease on one key. A further holder gets only tokens for its waiting
/// requests, so it asks for every request. As long as there are such holders, half of the rate is
/// left to them, and the rate beyond the demand at the others.
pub const HOLDERS_MAX: usize = 256;

/// The shortest time between an ask that brought too little and the next: 100 ms.
pub const SPACING: Duration = Duration::from_millis(100);

/// How long trickling tokens are gathered while no request takes them: a tenth of a second.
pub const DEPTH: Duration = Duration::from_millis(100);

/// How soon a holder asks again after it found no room, while no other known holder could return
/// tokens: 0.8 s. A reset or a refund at another member is seen after that time.
pub const RECHECK: Duration = Duration::from_millis(800);

/// How soon a holder asks again after it found a quota used up, with no tokens in any holder's
/// hand: 30 s.
pub const RECHECK_QUOTA: Duration = Duration::from_secs(30);

/// Demand at a holder, in units a second, from which it is leased a rate or tokens ahead. Below it
/// every request is granted by the ledger, so that no tokens are idle at one member while a caller
/// needs them at another.
pub const LEASED_PER_S: u64 = 16;

/// Of a bucket's rate at least so many units a second are never leased: a caller who moves to
/// another member finds them there.
pub const UNLEASED_PER_S: u64 = 2;

/// A holder that is the only one of its key keeps this part of a period's demand in hand although
/// it is not leased ahead.
const PREFETCH: u32 = 8;

/// A holder counts its lease as over this part of it early (one thirty-second): so much faster may
/// the ledger's clock run than its own.
pub const DRIFT: u32 = 32;

/// The largest integer that every store counts exactly: 2^53 - 1, as far as a double tells integers
/// apart.
const NUMBER_MAX: u64 = (1 << 53) - 1;

/// The longest lease that an [`Ask`] may ask for: 90 s.
pub const LIFETIME_MAX: Duration = Duration::from_secs(90);

/// After so long without an ask a lease with a [lifetime](Ask::lifetime) may be taken over by
/// another holder of the same member: 6 s, an Envoy's report and one second.
pub const REPLACED_AFTER: Duration = Duration::from_secs(6);

/// The most tokens in one grant.
const LENT_MAX: u64 = (1 << 31) - 1;

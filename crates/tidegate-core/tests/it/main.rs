//! The lease protocol: two members, one ledger and a network that loses, repeats, delays and
//! overtakes. Every order of events within small bounds, on the very code that runs in members and
//! stores.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop where it stands")]

#[cfg(tidegate_planted_faults)]
mod faults;
mod fleet;
mod real;

//! The durable store from outside, on the disk of the machine.
#![expect(clippy::unwrap_used, reason = "these are tests")]

mod conformance;
mod directory;
mod place;
mod restart;

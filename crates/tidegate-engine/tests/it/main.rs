//! The engine as its callers use it.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

mod answers;
mod away;
mod carrying;
mod exact;
mod explaining;
mod joining;
mod leases;
mod operations;
mod oracle;
mod order;
mod overrides;
mod reload;
mod renames;
mod restart;
mod shares;
mod together;
mod world;

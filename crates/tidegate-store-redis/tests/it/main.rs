//! The store against a real server of the machine, on loopback.
#![expect(clippy::unwrap_used, reason = "these are tests")]

mod cluster;
mod cluster_faults;
mod conformance;
mod damaged;
mod differential;
mod engine;
mod epochs;
mod failing;
mod gathering;
mod hostile;
mod keeping;
mod ledgers;
mod locked;
mod recovery;
mod relay;
mod slow;
mod states;
mod upgrade;

//! The store against a real server of the machine, on loopback.
#![expect(clippy::unwrap_used, reason = "these are tests")]

mod call_batches;
mod clock_ahead;
mod cluster;
mod cluster_faults;
mod conformance;
mod damaged;
mod differential;
mod engine;
mod epochs;
mod hostile;
mod ledgers;
mod locked;
mod recovery;
mod relay;
mod server_faults;
mod slow;
mod states;
mod stored_keys;
mod upgrade;
mod waiting_requests;

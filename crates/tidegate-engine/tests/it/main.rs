//! The engine as its callers use it.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

mod answers;
mod batch;
mod capacity_control;
mod carried;
mod completion;
mod endings;
mod events;
mod exact_limits;
mod exits;
mod explanation;
#[cfg(tidegate_planted_faults)]
mod faults;
mod features;
mod leases;
mod lent;
mod membership;
mod memory;
mod namespace_shares;
mod offers;
mod operations;
mod oracle;
mod order;
mod overrides;
mod peek;
mod planes_reload;
mod queue;
mod refusal_details;
mod reload;
mod renames;
mod resource_work;
mod restart;
mod shadow_resource;
mod shares;
mod store_silence;
mod streams;
mod ticket_floods;
mod ticket_model;
mod tickets;
mod undecidable_requests;
mod unsettled_places;
mod usage;
mod world;

//! A real server on port 0 with a clock that only moves when told to, and a client that speaks
//! bytes.

#![expect(clippy::unwrap_used, reason = "in a test it says what must hold")]

mod addresses;
mod answers;
mod assumed_members;
mod authority;
mod authorization;
mod authorize;
mod bad_input;
mod bounds;
mod claims;
mod client;
mod daily_queue;
mod decision_table;
mod decisions;
mod departures;
mod documents;
mod drain;
mod earlier_data;
mod explain;
#[cfg(tidegate_planted_faults)]
mod faults;
mod feature_cancellation;
mod feature_levels;
mod feature_operations;
mod features;
mod field;
mod grpc;
mod locks;
mod metrics;
mod metrics_table;
mod operations;
mod operator_lists;
mod paused_clock;
mod planes;
mod plans;
mod proxy;
mod quota_store;
mod refused_keys;
mod reload;
mod request_heads;
mod resp;
mod restart;
mod restartable_daemon;
mod runtime_overrides;
mod sameness;
mod shared_bounds;
mod shed_tenants;
mod store;
mod store_out_of_memory;
mod tls;
mod unix_socket;
mod usage;
mod waiting_memory;
mod world;

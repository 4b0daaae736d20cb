//! The recipes of `docs/gateways` in front of a service, with the gateways they are for.
//!
//! Each test starts a daemon, a gateway and a service of its own, but for the one in `together.rs`:
//! there one daemon serves all of them. The files are the very ones of the recipe; only the
//! addresses in them are exchanged for free ones (`stand.rs`). A gateway that is not installed is a
//! test skipped.

mod caddy;
mod claims;
mod clients;
mod envoy;
mod envoy_quota;
pub(crate) mod exchange;
mod haproxy;
mod nginx;
pub(crate) mod service;
mod shared_daemon;
pub(crate) mod stand;
pub(crate) mod tools;

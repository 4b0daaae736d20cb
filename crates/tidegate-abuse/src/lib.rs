//! Attacks on a running Tidegate daemon: what strangers, neighbours and broken stores can do to it.
//!
//! Each attack starts the daemon's binary on loopback, treats it as a black box, and reports
//! whether the daemon held. An attack is bounded in count and time. `cargo xtask acceptance abuse`
//! runs all of them against a release build; the tests of `tidegate-cli` run the brief ones against
//! a debug build.
//!
//! - [`attack`]: what an attack is, and what it reports
//! - [`suite`]: the table of all attacks, and those that the gate leaves out for now
//! - [`report`]: results as a table and as JSON
//! - [`daemon`]: the process under attack, its addresses, its log and its memory
//! - [`http1`], [`http2`], [`http2_frames`], [`grpc`], [`resp`], [`tls`]: small clients that may
//!   break the rules
//! - [`upstream`], [`redis_relay`]: the services beside the daemon, with faults
//! - `attacks`: the attacks, one file a family

pub mod attack;
mod attacks;
pub mod daemon;
pub mod grpc;
pub mod http1;
pub mod http2;
pub mod http2_frames;
pub mod redis_relay;
pub mod report;
pub mod resp;
pub mod suite;
pub mod tls;
pub mod upstream;

//! Attacks and open-loop load on a running Tidegate daemon, which is a black box to both.
//!
//! Attacks are everything that strangers, neighbours and broken stores can do to a daemon; each is
//! bounded in count and time, and reports whether the daemon held. Load is more than the upstreams
//! of a daemon can serve, from clients that do not slow down. Both start the daemon's binary on
//! loopback.
//!
//! `cargo xtask acceptance abuse` runs all attacks and `cargo xtask acceptance overload` all
//! experiments against a build as it is shipped; the tests of `tidegate-cli` run the brief attacks
//! against a debug build.
//!
//! - [`trial`]: an attack or an experiment, and its outcome
//! - [`findings`]: figures, gates and verdicts; [`report`] prints them
//! - [`attack`]: the result of an attack, and the settings of all trials
//! - [`attacks`]: the attacks, one file a family; the table of all
//! - [`load`]: experiments under load, and the parts that they are made of
//! - [`fleet`]: experiments with a fleet of daemons on one Redis
//! - [`quota`]: experiments with Envoys that hold parts of limits
//! - [`packages`]: archives, packages and images, unpacked, installed and started
//! - [`metering`]: the rows of the meter against the counts of clients
//! - [`protocols`]: the processor time of an answer over each protocol
//! - [`daemon`]: the process under attack, its addresses, its log and its memory
//! - [`http1`], [`http2`], [`grpc`], `resp`, [`tls`]: clients that keep the rules
//! - [`raw`], [`http2_frames`]: connections that may break them
//! - [`upstream`], [`redis_relay`]: the services beside the daemon, with faults

pub mod attack;
pub mod attacks;
pub mod daemon;
pub mod findings;
pub mod fleet;
pub mod grpc;
pub mod http1;
pub mod http2;
pub mod http2_frames;
pub mod load;
mod loopback;
pub mod metering;
pub mod packages;
pub mod protocols;
pub mod quota;
pub mod raw;
pub mod redis_relay;
pub mod report;
mod resp;
pub mod tls;
pub mod trial;
pub mod upstream;

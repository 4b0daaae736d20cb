//! Claims that hold for any untrusted input: one function for each reader of such input.
//!
//! Each function takes any bytes, reads them as the daemon does, goes on with what was read as far
//! as it goes without a socket, and panics where a claim does not hold. The fuzzer in `fuzz/` looks
//! for such bytes; the test of this crate replays what is kept there, so that every run of the
//! tests tries the shapes that are known.
//!
//! The same bytes always do the same: there is no clock and no randomness here, what has to vary is
//! made of the bytes.

#![forbid(unsafe_code)]

mod authorize_query;
mod bodies;
mod draws;
mod envoy_files;
mod file_problems;
mod mutation;
mod policy;
mod preamble;
mod records;
mod redis_replies;
mod resp;
mod rlqs;
mod rls;
mod tickets;
mod tokens;

pub use authorize_query::authorize_query;
pub use bodies::bodies;
pub use envoy_files::envoy_files;
pub use mutation::mutated;
pub use policy::policy;
pub use preamble::preamble;
pub use records::records;
pub use redis_replies::redis_replies;
pub use resp::resp;
pub use rlqs::rlqs;
pub use rls::rls;
pub use tickets::tickets;
pub use tokens::tokens;

/// The result for bytes that break no claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// They were read, and what they say was done.
    Accepted,
    /// They were turned away, and it was said why.
    Refused,
}

/// A function of this crate: any bytes in, a panic where a claim is broken.
pub type Target = fn(&[u8]) -> Taken;

/// Every target by its name, which is that of its folders under `fuzz/corpus` and
/// `fuzz/regressions`.
pub const TARGETS: [(&str, Target); 12] = [
    ("resp", resp),
    ("rls", rls),
    ("rlqs", rlqs),
    ("envoy_files", envoy_files),
    ("policy", policy),
    ("bodies", bodies),
    ("records", records),
    ("tokens", tokens),
    ("preamble", preamble),
    ("authorize_query", authorize_query),
    ("redis_replies", redis_replies),
    ("tickets", tickets),
];

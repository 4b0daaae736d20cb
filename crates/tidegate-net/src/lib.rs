//! Internal, no promise: the network ground of Tidegate's protocols, below each of them. It has
//! connections that are counted, watched and ended, the bounds of request heads, replies, TLS, and
//! files that are read again when they change.
//!
//! Nothing here decides a request or knows a policy.

#![forbid(unsafe_code)]

mod bounds;
pub mod connections;
pub mod file_backed;
mod peer;
pub mod query;
pub mod regular_file;
pub mod reply;
mod request_head;
pub mod tls;

pub use bounds::Bounds;
pub use peer::Peer;
pub use request_head::check_head;

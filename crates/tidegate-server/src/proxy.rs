//! The reverse proxy: what a request says of itself.
//!
//! What comes from strangers is read in one way or not at all: a value that two readers would take differently is
//! rejected rather than chosen, because a caller who can have it counted as one thing and served as another has no limit.

pub mod attributes;
pub mod class;
pub mod client_address;
pub mod deadline;
pub mod jwt;
pub mod path;
pub mod rejection;

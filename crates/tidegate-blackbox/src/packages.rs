//! What `cargo xtask dist` gives away, as a user meets it: unpacked, installed, started.
//!
//! Each part is a trial of the suite `packages` and takes its artifact from the folder that `cargo
//! xtask dist` wrote ([`RunContext::artifact`](crate::attack::RunContext)). A part ends with
//! [`Failure::Skipped`](crate::attack::Failure) and the reason where this machine lacks a tool or
//! `dist` made no such artifact; a claim inside of a part is skipped by `Findings::claimed`.
//!
//! - `suite`: the table of the parts
//! - `archive`: the archive in a root with Debian's base and nothing else
//! - `image`: the image of containers, and its files as a root of their own
//! - `root`: a folder that processes see as the root of the file system
//! - `decisions`: a table of decisions over HTTP and RESP, and the first minute

mod archive;
mod image;
pub mod suite;

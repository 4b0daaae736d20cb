//! The library as its users write programs with it: their first lines, the examples, and what they
//! are told when something is wrong.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

mod examples;
mod first_programs;
mod policy_files;
mod workers;

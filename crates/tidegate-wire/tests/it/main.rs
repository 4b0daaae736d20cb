//! The generated messages agree with their sources.

#![expect(clippy::unwrap_used, reason = "in a test it says what must hold")]

mod generated;

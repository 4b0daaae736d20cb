//! The inputs that are kept, replayed.

#![expect(clippy::unwrap_used, reason = "in a test it says what must hold")]

mod mutations;
mod replay;

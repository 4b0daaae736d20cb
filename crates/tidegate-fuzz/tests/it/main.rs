//! The inputs that are kept, replayed and changed, and a daemon that gets such inputs.

#![expect(clippy::unwrap_used, reason = "in a test it says what must hold")]

mod daemon;
mod mutations;
mod replay;

//! What is generated is what its sources say.

#![expect(clippy::unwrap_used, reason = "in a test it says what must hold")]

mod generated;

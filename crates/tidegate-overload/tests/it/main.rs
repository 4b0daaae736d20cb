//! Tests of the crate from outside, alone in their process: they look at its memory.

mod memory;

//! The engine as its callers use it.

mod operations;
mod order;
mod sameness;
mod world;

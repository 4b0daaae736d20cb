//! What the measurements prove, made small enough for every run of the tests.

mod allocations;
mod flood;
mod hammer;

//! The claims that the measurements prove, small enough for every run of the tests.

mod allocations;
mod flood;
mod governor;
mod hammer;

//! Fleets from seeds: what holds in each, and what is found when it does not.

mod faults;
mod fleets;
mod seeds;

//! Worlds from seeds: what holds in each, and what is found when it does not.

mod concurrency_advice;
mod envoys;
#[cfg(tidegate_planted_faults)]
mod faults;
mod fleets;
mod overload_policy;
mod seed_range;
mod seeds;
mod shadow_resource;
mod shared_resource;

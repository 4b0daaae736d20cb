//! The costs of Tidegate and of its rivals in the same run, and whether its promises hold
//! under load.
//!
//! Everything here is a measurement: it reads clocks, starts threads and reads `/proc`. The library
//! it measures does none of that.

#![forbid(unsafe_code)]
#![expect(clippy::cast_precision_loss, reason = "figures for people have three digits")]
#![expect(clippy::format_push_string, reason = "a report is a page, made once")]

pub mod calls;
pub mod clock;
pub mod flood;
pub mod gated_paths;
pub mod hammer;
pub mod instructions;
pub mod machine;
pub mod memory;
pub mod report;
#[cfg(feature = "rivals")]
pub mod rival;
pub mod scenario;
pub mod tickets;
pub mod timing;
pub mod windows;
pub mod workload;

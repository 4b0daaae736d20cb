//! Clients that hold requests back before they send them.
//!
//! In the worlds of `tidegate simulate` clients send whatever comes. The laboratory has clients
//! that keep to the share of a partition.

use core::fmt;

/// The clients of one direction of a table.
pub trait RequestShaper: fmt::Debug {
    /// Whether a request of `cost` thousandths for a key with this first word may be sent at `at`,
    /// in nanoseconds since the world began; if so, it is counted.
    fn lets_pass(&mut self, word: u64, cost: i64, at: u64) -> bool;
}

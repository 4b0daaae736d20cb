//! Clients that hold requests back before they send them.
//!
//! In the worlds of `tidegate simulate` clients send whatever comes. The laboratory has clients
//! that keep to the share of a partition.

use core::fmt;

use serde::Serializer;
use tidegate_capacity::AccessOperation;

use crate::capacity::scenario::CapacityScenario;

/// Makes the clients of one direction of the table at a position.
pub type ShaperMaker = fn(&CapacityScenario, usize, AccessOperation) -> Box<dyn RequestShaper>;

/// The clients of one direction of a table.
pub trait RequestShaper: fmt::Debug {
    /// Whether a request of `cost` thousandths for a key with this first word may be sent at `at`,
    /// in nanoseconds since the world began; if so, it is counted.
    fn lets_pass(&mut self, word: u64, cost: i64, at: u64) -> bool;
}

/// Writes whether there is a shaper.
#[expect(clippy::ref_option, clippy::trivially_copy_pass_by_ref, reason = "the signature is serde's")]
pub(crate) fn serialize_is_shaped<S: Serializer>(
    shaper: &Option<ShaperMaker>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.serialize_bool(shaper.is_some())
}

//! A request in a fair queue.

use tidegate_core::{Class, Timestamp};

use super::class_queue::FlowNumber;
use super::turn_verdict::QueueShed;

/// A request that waits.
#[derive(Clone, Copy, Debug)]
pub(super) struct QueuedRequest {
    /// The beginning of its wait.
    pub(super) since: Timestamp,
    /// The instant from which it is refused.
    pub(super) until: Timestamp,
    /// The instant at which its answer is late; [`Timestamp::MAX`] without one.
    pub(super) deadline: Timestamp,
    pub(super) tenant: u64,
    pub(super) cost: u32,
    /// Its sub-queue within its class.
    pub(super) flow: FlowNumber,
    pub(super) class: Class,
    pub(super) has_tenant: bool,
    pub(super) has_ticket: bool,
    /// Why it was refused when it asked for its turn; it is about to leave.
    pub(super) shed: Option<QueueShed>,
}

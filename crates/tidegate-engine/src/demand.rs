//! The demand of a request that is not decided yet.

use std::sync::Arc;

use tidegate_core::{Plane, Reason, Refusal, Timestamp};
use tidegate_overload::{OfferOutcome, Overload, RequestLevel, ResourceId};

use crate::fault::Fault;
use crate::place::{OverloadPlane, lacks_in_flight_place};

/// The resource to which a request was offered, and its level then.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Offer {
    pub(crate) resource: ResourceId,
    pub(crate) level: RequestLevel,
}

/// A request that was offered to the overload plane and is not decided yet. Dropped before it is
/// decided, it counts as cancelled.
///
/// Each request that waits has one: it knows its level rather than its tenant.
#[derive(Debug)]
pub(crate) struct Demand {
    /// `None` once it is decided.
    plane: Option<Arc<OverloadPlane>>,
    offered_at: Timestamp,
    offer: Offer,
}

impl Demand {
    /// The demand of a request that was offered at `offered_at`.
    pub(crate) fn new(plane: &Arc<OverloadPlane>, offer: Offer, offered_at: Timestamp) -> Self {
        Self { plane: Some(Arc::clone(plane)), offered_at, offer }
    }

    /// Records the final decision.
    pub(crate) fn decide(mut self, outcome: OfferOutcome) {
        self.record(outcome);
    }

    fn record(&mut self, outcome: OfferOutcome) {
        if let Some(plane) = self.plane.take() {
            self.offer.end(&plane.overload, outcome, self.offered_at);
        }
    }
}

impl Drop for Demand {
    fn drop(&mut self) {
        self.record(OfferOutcome::Cancelled);
    }
}

impl Offer {
    /// Records the final decision on a request. One that was no demand on the system is withdrawn.
    #[inline]
    pub(crate) fn end(self, overload: &Overload, outcome: OfferOutcome, offered_at: Timestamp) {
        overload.record(self.resource, self.level.class(), outcome);
        if is_withdrawn(outcome) {
            overload.withdraw(self.resource, self.level, offered_at);
        }
    }
}

/// Whether a request with this outcome was no demand on the system: it must not use up what the
/// cursor admits. A request that expired or was cancelled was demand that could not be served.
fn is_withdrawn(outcome: OfferOutcome) -> bool {
    matches!(outcome, OfferOutcome::Denied | OfferOutcome::Throttled | OfferOutcome::Failed)
        && !Fault::DenialIsDemand.is_planted()
}

/// Records that a request which was offered before could not be decided.
pub(crate) fn fail(demand: Option<Demand>) {
    if let Some(demand) = demand {
        demand.decide(OfferOutcome::Failed);
    }
}

/// The outcome of a request that was refused and does not wait.
pub(crate) fn outcome_of(refusal: &Refusal) -> OfferOutcome {
    match refusal.plane() {
        Plane::Overload if refusal.reason() == Reason::QueueFull => OfferOutcome::QueueFull,
        Plane::Overload if refusal.reason() == Reason::DeadlineUnmeetable => OfferOutcome::Expired,
        Plane::Overload if lacks_in_flight_place(refusal) => OfferOutcome::NoPlace,
        Plane::Overload => OfferOutcome::Shed,
        Plane::Capacity => OfferOutcome::Throttled,
        Plane::Limits => OfferOutcome::Denied,
    }
}

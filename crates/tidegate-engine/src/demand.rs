//! The demand of a request that is not decided yet.

use std::sync::Arc;

use tidegate_core::{Class, Cost, Plane, Reason, Refusal, Timestamp};
use tidegate_overload::{OfferOutcome, ResourceId};

use crate::fault::Fault;
use crate::place::{OverloadPlane, lacks_in_flight_place};
use crate::request::Request;

/// A request that was offered to the overload plane and is not decided yet. Dropped before it is
/// decided, it counts as cancelled.
#[derive(Debug)]
pub(crate) struct Demand {
    plane: Arc<OverloadPlane>,
    resource: ResourceId,
    class: Class,
    tenant: Option<Box<str>>,
    cost: Cost,
    offered_at: Timestamp,
    is_decided: bool,
}

impl Demand {
    /// The demand of a request that was offered at `offered_at`.
    pub(crate) fn new(
        plane: &Arc<OverloadPlane>,
        resource: ResourceId,
        request: &Request<'_>,
        offered_at: Timestamp,
    ) -> Self {
        Self {
            plane: Arc::clone(plane),
            resource,
            class: request.class,
            tenant: request.tenant.map(Into::into),
            cost: request.cost,
            offered_at,
            is_decided: false,
        }
    }

    /// Records the final decision.
    pub(crate) fn decide(mut self, outcome: OfferOutcome) {
        self.record(outcome);
    }

    fn record(&mut self, outcome: OfferOutcome) {
        if !core::mem::replace(&mut self.is_decided, true) {
            self.plane.overload.record(self.resource, self.class, outcome);
            if is_withdrawn(outcome) {
                let tenant = self.tenant.as_deref();
                self.plane.overload.withdraw(self.resource, self.class, tenant, self.cost, self.offered_at);
            }
        }
    }
}

impl Drop for Demand {
    fn drop(&mut self) {
        self.record(OfferOutcome::Cancelled);
    }
}

/// Whether a request with this outcome was no demand on the system: it must not use up what the
/// cursor admits. A request that expired or was cancelled was demand that could not be served.
pub(crate) fn is_withdrawn(outcome: OfferOutcome) -> bool {
    matches!(outcome, OfferOutcome::Denied | OfferOutcome::Throttled | OfferOutcome::Failed)
        && !Fault::DenialIsDemand.is_planted()
}

/// Records that a request which was offered before could not be decided.
pub(crate) fn fail(demand: Option<Box<Demand>>) {
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

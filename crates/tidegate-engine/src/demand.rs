//! The demand of a request that is not decided yet.

use std::sync::Arc;

use tidegate_core::{Plane, Reason, Refusal};
use tidegate_overload::{OfferOutcome, Overload, RequestRecord};

use crate::fault::Fault;
use crate::place::{OverloadPlane, lacks_in_flight_place};

/// A request that its resource has counted and that is not decided yet. Dropped before it is
/// decided, it counts as cancelled.
///
/// Each request that waits has one: it knows its level rather than its tenant.
#[derive(Debug)]
pub(crate) struct Demand {
    /// `None` once it is decided.
    plane: Option<Arc<OverloadPlane>>,
    record: RequestRecord,
}

impl Demand {
    pub(crate) fn new(plane: &Arc<OverloadPlane>, record: RequestRecord) -> Self {
        Self { plane: Some(Arc::clone(plane)), record }
    }

    /// The same request, served as a later attempt of it was.
    pub(crate) fn served_as(mut self, later: &RequestRecord) -> Self {
        self.record = self.record.served_as(later);
        self
    }

    /// The same request after an attempt that was not admitted after all: it waits or begins anew.
    pub(crate) fn unserved(mut self) -> Self {
        if let Some(plane) = &self.plane {
            plane.overload.unserve(&mut self.record);
        }
        self
    }

    /// Records the final decision.
    pub(crate) fn decide(mut self, outcome: OfferOutcome) {
        self.record(outcome);
    }

    fn record(&mut self, outcome: OfferOutcome) {
        if let Some(plane) = self.plane.take() {
            end(&plane.overload, self.record, outcome);
        }
    }
}

impl Drop for Demand {
    fn drop(&mut self) {
        self.record(OfferOutcome::Cancelled);
    }
}

/// Records the final decision on a request.
#[inline]
pub(crate) fn end(overload: &Overload, record: RequestRecord, outcome: OfferOutcome) {
    let is_demand = outcome == OfferOutcome::Denied && Fault::DenialIsDemand.is_planted();
    overload.end(record, if is_demand { OfferOutcome::Shed } else { outcome });
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

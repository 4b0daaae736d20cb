//! The demand of a request that is not decided yet.

use std::sync::Arc;

use tidegate_core::{OverloadMechanism, Refusal, RefusalDetails, RequestOutcome, Timestamp};
use tidegate_overload::{OfferOutcome, Overload, RequestRecord};

use crate::fault::Fault;
use crate::meter::{MeterAccount, OpenMeterAccount};
use crate::place::OverloadPlane;

/// A request that is offered and not decided yet, as its resource and the meter have counted it.
/// Dropped before it is decided, it counts as cancelled.
///
/// Each request that waits has one: it knows its level and its rows rather than its tenant.
#[derive(Debug)]
pub(crate) struct Demand {
    /// The count of its resource, if there is one; `None` once it is decided.
    counted: Option<(Arc<OverloadPlane>, RequestRecord)>,
    account: OpenMeterAccount,
    since: Timestamp,
}

impl Demand {
    /// A request that was offered at `since`; `None` if nobody has counted it.
    pub(crate) fn new(
        counted: Option<(Arc<OverloadPlane>, RequestRecord)>,
        account: OpenMeterAccount,
        since: Timestamp,
    ) -> Option<Self> {
        (counted.is_some() || account.is_open()).then_some(Self { counted, account, since })
    }

    /// Whether its resource has counted it.
    pub(crate) const fn is_counted(&self) -> bool {
        self.counted.is_some()
    }

    /// The same request, counted at a later attempt of it.
    pub(crate) fn counted_as(mut self, plane: &Arc<OverloadPlane>, later: RequestRecord) -> Self {
        self.counted = Some(match self.counted.take() {
            Some((plane, record)) => (plane, record.served_as(&later)),
            None => (Arc::clone(plane), later),
        });
        self
    }

    /// The same request after an attempt that was not admitted after all: it waits or begins anew.
    pub(crate) fn unserved(mut self) -> Self {
        if let Some((plane, record)) = &mut self.counted {
            plane.overload.unserve(record);
        }
        self
    }

    /// Records that the request is admitted at the cost of so many units; what the meter has, if it
    /// has.
    pub(crate) fn admit(mut self, units: u64, now: Timestamp) -> Option<MeterAccount> {
        self.record(OfferOutcome::Admitted);
        self.account.decide(RequestOutcome::Admitted, units, now.saturating_since(self.since))
    }

    /// Records that the request is not admitted.
    pub(crate) fn end(self, outcome: OfferOutcome, now: Timestamp) {
        self.end_with(outcome, outcome.of_request(), now);
    }

    /// Records that the request is not admitted, because another one of its batch had this outcome;
    /// by its resource it counts with its own.
    pub(crate) fn end_with(mut self, own: OfferOutcome, outcome: RequestOutcome, now: Timestamp) {
        self.record(own);
        drop(self.account.decide(outcome, 0, now.saturating_since(self.since)));
    }

    fn record(&mut self, outcome: OfferOutcome) {
        if let Some((plane, record)) = self.counted.take() {
            end(&plane.overload, record, outcome);
        }
    }
}

impl Drop for Demand {
    fn drop(&mut self) {
        self.record(OfferOutcome::Cancelled);
    }
}

/// Records the final decision on a request.
#[expect(clippy::inline_always, reason = "as `Overload::end`")]
#[inline(always)]
pub(crate) fn end(overload: &Overload, record: RequestRecord, outcome: OfferOutcome) {
    let is_demand = outcome == OfferOutcome::Denied && Fault::DenialIsDemand.is_planted();
    overload.end(record, if is_demand { OfferOutcome::Shed } else { outcome });
}

/// The outcome of a request that cannot be decided. One that was offered before is answered with
/// the refusal `undecidable`, and has its outcome; the caller of another one gets an error.
pub(crate) const fn outcome_of_error(was_offered: bool) -> OfferOutcome {
    if was_offered { OfferOutcome::Unavailable } else { OfferOutcome::Failed }
}

/// The outcome of a request that was refused and does not wait.
pub(crate) fn outcome_of(refusal: &Refusal) -> OfferOutcome {
    let outcome = OfferOutcome::of_refusal(refusal.reason());
    if outcome != OfferOutcome::Shed {
        return outcome;
    }
    let details = refusal.details.as_deref().and_then(RefusalDetails::overload);
    match details.map(|details| details.mechanism) {
        Some(OverloadMechanism::InFlight) => OfferOutcome::NoPlace,
        Some(OverloadMechanism::Streams) => OfferOutcome::NoStream,
        Some(OverloadMechanism::QueueDelay) => OfferOutcome::QueueDelay,
        Some(OverloadMechanism::Pace) => OfferOutcome::OutOfPace,
        _ => outcome,
    }
}

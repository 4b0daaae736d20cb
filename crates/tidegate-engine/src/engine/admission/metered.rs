//! Counting requests in the meter, where there is one.

use tidegate_core::{RequestOutcome, Timestamp};

use crate::engine::Engine;
use crate::meter::{MeterAccount, OpenMeterAccount};
use crate::meter_rows::{MeterRows, Offered};
use crate::permit::IssuingGate;
use crate::request::{OwnedRequest, Request};

/// A request that is offered to the meter and decided by its caller, which may take several calls
/// of the engine. Dropped before it is decided, it counts as cancelled.
#[derive(Debug)]
#[must_use = "a request that is dropped counts as cancelled"]
pub struct OfferedRequest {
    account: OpenMeterAccount,
    units: u64,
    since: Timestamp,
}

impl OfferedRequest {
    /// The same request at the cost of so many units, be it none.
    pub(super) fn with_units(self, units: u64) -> Self {
        Self { account: self.account.with_units(units), units, since: self.since }
    }

    /// The request has this outcome; the units of its cost count if it is admitted.
    pub fn decide(mut self, outcome: RequestOutcome, now: Timestamp) {
        drop(self.account.decide(outcome, self.units, now.saturating_since(self.since)));
    }
}

impl Engine {
    /// Offers a request that is not decided by [`Engine::admit`] and the like to the meter. Without
    /// a meter nothing is counted. The namespace need not be one of the policy's.
    pub fn offer(&self, request: &Request<'_>, now: Timestamp) -> OfferedRequest {
        let resource = self.resource_of(request);
        let of = Offered { request, issuer: IssuingGate::NOWHERE, resource, now };
        OfferedRequest { account: self.meter_offered(&of), units: request.cost.units(), since: now }
    }

    #[inline]
    pub(crate) fn metering(&self) -> Option<&MeterRows> {
        self.metering.as_deref()
    }

    /// Counts a request that is offered and decided at once, if there is a meter; an admitted one
    /// with this cost.
    #[inline]
    pub(crate) fn meter_decided(
        &self,
        of: &Offered<'_, '_>,
        outcome: RequestOutcome,
    ) -> Option<MeterAccount> {
        Some(self.metering()?.decided(of, outcome))
    }

    /// Counts a request that is offered and has to wait, if there is a meter.
    pub(crate) fn meter_offered(&self, of: &Offered<'_, '_>) -> OpenMeterAccount {
        self.metering().map_or(OpenMeterAccount::NOTHING, |metering| metering.offered(of))
    }

    /// Counts units that are charged without being asked for.
    pub(crate) fn meter_report(&self, request: &Request<'_>, now: Timestamp) {
        if let Some(metering) = self.metering() {
            let subject = metering.subject(&self.offered_by(request, now));
            metering.meter.report(&subject, request.cost.units(), now);
        }
    }

    /// Counts requests like `request` that an Envoy has decided by its part of a limit, as it
    /// reports. Without a meter nothing is counted. The requests have no resource, since none has
    /// seen them; a report without requests leaves the tenant as it is.
    pub fn meter_reported(&self, request: &Request<'_>, admitted: u64, denied: u64, now: Timestamp) {
        if let Some(metering) = self.metering()
            && (admitted, denied) != (0, 0)
        {
            let subject = metering.subject(&Offered { resource: None, ..self.offered_by(request, now) });
            metering.meter.report_decided(&subject, (admitted, denied), now);
        }
    }

    /// Counts units that are given back.
    pub(crate) fn meter_refund(&self, request: &Request<'_>, now: Timestamp) {
        if let Some(metering) = self.metering() {
            let subject = metering.subject(&self.offered_by(request, now));
            metering.meter.refund(&subject, request.cost.units(), now);
        }
    }

    /// A request that is counted when the store has answered; `None` without a meter.
    pub(crate) fn metered_later(&self, request: &Request<'_>) -> Option<OwnedRequest> {
        self.metering()?;
        let gate = self.gate(request.namespace);
        let namespace = gate.map_or_else(|_| request.namespace.into(), |gate| gate.shared_namespace());
        Some(OwnedRequest::new(request, namespace))
    }

    /// A request of which neither gate nor resource are known yet.
    pub(crate) fn offered_by<'r, 'a>(&self, request: &'r Request<'a>, now: Timestamp) -> Offered<'r, 'a> {
        let issuer = self.gate_called(request.namespace).map_or(IssuingGate::NOWHERE, |(_, issuer)| issuer);
        Offered { request, issuer, resource: self.resource_of(request), now }
    }
}

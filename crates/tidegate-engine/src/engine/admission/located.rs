//! A request on its walk: where its planes are, and what those before have found.

use std::sync::Arc;

use tidegate_capacity::LocatedAccess;
use tidegate_core::gate::{LocatedCounters, LocatedRequest};
use tidegate_core::shares::Owner;
use tidegate_core::{Gate, Refusal, Timestamp, UnreadRefusal};
use tidegate_overload::{FeatureGrant, FeatureId, RequestRecord, ResourceId, TicketNumber};
use tidegate_store::Operation;

use super::answer::WalkStep;
use super::table_tokens::TokenSources;
use super::waited::Waited;
use crate::access_report::AccessReport;
use crate::continuation::{ExactName, LimitQuestion};
use crate::decision::Refused;
use crate::engine::Engine;
use crate::error::RequestError;
use crate::limit_report::LimitReport;
use crate::meter_rows::Offered;
use crate::permit::IssuingGate;
use crate::request::Request;

/// A request with everything that the planes ask of it, found once.
pub(crate) struct Located<'r, 'a> {
    pub(crate) request: &'r Request<'a>,
    /// The limits of its namespace; `None` if its limits arrive with it.
    pub(crate) gate: Option<&'a Arc<Gate>>,
    pub(crate) owner: Owner,
    pub(crate) issuer: IssuingGate,
    /// The position of the request in its batch.
    pub(crate) at: usize,
    pub(crate) waited: &'r Waited<'r>,
    /// The request as its resource counts it; `None` without one.
    pub(crate) record: Option<RequestRecord>,
    /// Its resource, if that is in shadow mode.
    pub(crate) shadow: Option<ResourceId>,
    /// Its feature, if its resource has it.
    pub(crate) feature: Option<LocatedFeature>,
    /// Its ticket, if it comes in its time.
    pub(crate) ticket: Option<TicketNumber>,
    /// Whether the cursor sheds it, and it is to be deferred if nothing but the load refuses it.
    pub(crate) is_shed: bool,
    /// The counters of its limits, if they were located before the walk.
    pub(crate) counters: Option<&'r LocatedCounters>,
    /// Its limits that a store decides or lends, with their keys. Filled by the local limits, where
    /// the namespace has such limits.
    pub(crate) stored: Option<LocatedRequest<'a>>,
    /// Its access to a table. Filled by the first plane that asks for it.
    access: Option<TableAccess<'a>>,
    /// The question for the store. Filled by the last step.
    pub(crate) question: Option<LimitQuestion>,
    /// The refusal of the limits that are decided here, until somebody reads it.
    pub(crate) refused: Option<UnreadRefusal<'a>>,
    /// On a walk that explains: here the planes leave what they say.
    pub(crate) said: Option<&'r mut Said>,
}

/// The feature of a request that its resource has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LocatedFeature {
    pub(crate) id: FeatureId,
    /// The level that the request gets. Filled by this step.
    pub(crate) grant: Option<FeatureGrant>,
}

/// The access of a request to a table.
pub(crate) struct TableAccess<'a> {
    pub(crate) located: LocatedAccess<'a, 'a>,
    /// From where the tokens of its tables are taken. Filled by the leases.
    pub(crate) sources: TokenSources,
    /// How many charges to leases the request had before those of tables. Filled by the leases.
    pub(crate) leased_limits: usize,
}

/// The words of the planes about a request that is only looked at.
#[derive(Default)]
pub(crate) struct Said {
    /// The refusals, in the order of the walk.
    pub(crate) refusals: Vec<(WalkStep, Refusal)>,
    /// The limits that are decided here.
    pub(crate) limits: Vec<LimitReport>,
    /// The partitions that the request accesses.
    pub(crate) access: Vec<AccessReport>,
    /// The limits that a store decides or lends.
    pub(crate) exact: Vec<ExactName>,
    /// The positions of these limits in the policy.
    pub(crate) exact_at: Vec<usize>,
    /// The look of the store at each of them.
    pub(crate) looks: Vec<Operation>,
}

impl<'a> Located<'_, 'a> {
    /// Whether any of its limits is spent from leases.
    #[inline]
    pub(crate) fn has_leased(&self) -> bool {
        self.gate.is_some_and(|gate| gate.has_leased())
    }

    /// The refusal with which its walk has stopped: of this plane, or of its limits.
    #[inline]
    pub(crate) fn refused(&mut self, by_plane: Option<Refusal>) -> Refused<'a> {
        Refused::by(by_plane, self.refused.take())
    }

    /// The request as it is offered at `now`.
    #[inline]
    pub(crate) fn offered(&self, now: Timestamp) -> Offered<'_, 'a> {
        let resource = self.record.as_ref().map(RequestRecord::resource).or(self.shadow);
        Offered { request: self.request, issuer: self.issuer, resource, now }
    }

    /// The access of the request to a table; `None` without one.
    #[expect(clippy::inline_always, reason = "as `Engine::walk`")]
    #[inline(always)]
    pub(crate) fn access(
        &mut self,
        engine: &'a Engine,
    ) -> Result<Option<&mut TableAccess<'a>>, RequestError> {
        if self.access.is_none()
            && let (Some(capacity), Some(access)) = (&engine.planes.capacity, &self.request.access)
        {
            let access = access.repeated(self.request.attempt > 0 || self.waited.is_offered);
            let located = capacity.locate(self.request.namespace, &access)?;
            self.access = Some(TableAccess { located, sources: TokenSources::new(), leased_limits: 0 });
        }
        Ok(self.access.as_mut())
    }
}

impl Engine {
    /// The gate of a request, and where its permits come from; an error if there is no such
    /// namespace or table.
    #[inline]
    pub(crate) fn gate_of(&self, request: &Request<'_>) -> Result<(&Arc<Gate>, IssuingGate), RequestError> {
        let found = self.gate_called(request.namespace)?;
        self.check_table(request)?;
        Ok(found)
    }

    /// The gate of a namespace, and where its permits come from; an error if there is no such
    /// namespace.
    #[expect(clippy::inline_always, reason = "an error is large to move")]
    #[inline(always)]
    pub(crate) fn gate_called(&self, namespace: &str) -> Result<(&Arc<Gate>, IssuingGate), RequestError> {
        let namespace = self.find(namespace)?;
        let issuer = IssuingGate { namespace: namespace as u32, generation: self.generation };
        // Indexing the vector itself is a call.
        Ok((&self.gates.as_slice()[namespace], issuer))
    }

    /// Locates a request before its walk.
    #[expect(clippy::inline_always, reason = "it is large, and is built where it is used only so")]
    #[inline(always)]
    pub(crate) fn locate<'r, 'a>(
        &self,
        request: &'r Request<'a>,
        (gate, issuer): (&'a Arc<Gate>, IssuingGate),
        waited: &'r Waited<'r>,
        now: Timestamp,
    ) -> Located<'r, 'a> {
        let located = self.locate_by_owner(request, (gate.owner(), issuer), waited, now);
        Located { gate: Some(gate), ..located }
    }

    /// [`Engine::locate`] for a request that brings its limits. Its namespace need not be one of
    /// the policy.
    pub(crate) fn locate_beside_limits<'r, 'a>(
        &self,
        request: &'r Request<'a>,
        waited: &'r Waited<'r>,
        now: Timestamp,
    ) -> Located<'r, 'a> {
        let owner = self.gate(request.namespace).map_or(Owner::NONE, |gate| gate.owner());
        self.locate_by_owner(request, (owner, IssuingGate::NOWHERE), waited, now)
    }

    #[expect(clippy::inline_always, reason = "as `Engine::locate`")]
    #[inline(always)]
    fn locate_by_owner<'r, 'a>(
        &self,
        request: &'r Request<'a>,
        (owner, issuer): (Owner, IssuingGate),
        waited: &'r Waited<'r>,
        now: Timestamp,
    ) -> Located<'r, 'a> {
        let record = self.target_for(owner, request, now);
        let feature = match (&record, request.feature) {
            (Some(record), Some(_)) => self.feature_at(request, record),
            _ => None,
        };
        let is_rehearsed = record.is_none() && self.rehearsal.is_some();
        let shadow = if is_rehearsed { self.shadow_resource(request) } else { None };
        Located {
            request,
            shadow,
            gate: None,
            owner,
            issuer,
            at: 0,
            waited,
            record,
            feature,
            ticket: None,
            is_shed: false,
            counters: None,
            stored: None,
            access: None,
            question: None,
            refused: None,
            said: None,
        }
    }

    /// The resource of a request; `None` if the overload plane has none for it.
    #[inline]
    pub(crate) fn resource_of(&self, request: &Request<'_>) -> Option<ResourceId> {
        self.overload()?.find(request.resource)
    }

    /// The feature of a request that this resource has. A feature of another resource says nothing
    /// of work here.
    #[inline(never)]
    pub(crate) fn feature_at(&self, request: &Request<'_>, record: &RequestRecord) -> Option<LocatedFeature> {
        let overload = self.overload()?;
        let id = overload.find_feature(request.feature?)?;
        let is_here = overload.feature_resource(id) == record.resource();
        is_here.then_some(LocatedFeature { id, grant: None })
    }

    /// A request as its resource will count it; `None` without one, and without an overload plane.
    #[inline]
    pub(crate) fn target_of(
        &self,
        gate: &Gate,
        request: &Request<'_>,
        now: Timestamp,
    ) -> Option<RequestRecord> {
        self.target_for(gate.owner(), request, now)
    }

    /// [`Engine::target_of`] for a request whose namespace has this owner.
    #[inline]
    pub(crate) fn target_for(
        &self,
        owner: Owner,
        request: &Request<'_>,
        now: Timestamp,
    ) -> Option<RequestRecord> {
        let (overload, resource) = (self.overload()?, self.resource_of(request)?);
        if self.rehearsal.is_some() && overload.is_shadow(resource) {
            return None;
        }
        let namespace = u32::from(owner.get());
        let level = overload.request_level(namespace, request.class, request.tenant, now);
        Some(RequestRecord::new(resource, level))
    }

    /// Whether a request is new demand on its resource: a first attempt, or one that repeats no
    /// refusal, whatever its caller says.
    #[inline]
    pub(crate) fn is_new(&self, request: &Request<'_>, record: &RequestRecord) -> bool {
        let repeats = |overload: &tidegate_overload::Overload| {
            overload.resource(record.resource()).takes_refusal(record.level())
        };
        request.attempt == 0 || !self.overload().is_some_and(repeats)
    }
}

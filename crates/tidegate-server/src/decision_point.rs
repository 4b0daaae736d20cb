//! The daemon as the decision point of its reverse proxy.

use core::time::Duration;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use http::HeaderMap;
use tidegate_core::{Class, Refusal, Timestamp};
use tidegate_engine::{Decision, Engine, LimitReport, Request, RequestError};
use tidegate_net::file_backed::Refresh;
use tidegate_net::reply::{OlderHeaders, limit_headers};
use tidegate_policy::policy::claims::AccessParts;
use tidegate_proxy::{DecisionPoint, NotedDecision, ProxyState};
use tidegate_wire::Fault;

use crate::api::operations::allowances;
use crate::context::{DaemonContext, RequestScope};
use crate::engine_fault::engine_fault;
use crate::in_force::InForce;
use crate::protocol::Protocol;
use crate::protocol_hooks::ProtocolHooks;
use crate::records::decisions::Asked;

impl AsRef<Engine> for InForce {
    fn as_ref(&self) -> &Engine {
        &self.engine
    }
}

impl DecisionPoint for DaemonContext {
    type Policy = InForce;

    fn complete<'a>(
        &self,
        policy: &InForce,
        mut request: Request<'a>,
        claimed: Option<Class>,
        default: Class,
        access: Option<AccessParts<'a>>,
        own: Duration,
    ) -> Result<(Request<'a>, Duration), Fault> {
        let InForce { config, .. } = policy;
        let claims = config.claims.of_namespace(request.namespace);
        request.class = claims.class_of(claimed, request.tenant, default);
        if let Some(access) = access {
            config.planes.add_access_parts(&mut request, access)?;
        }
        let wait = config.planes.wait_at_route(own, request.resource, request.class);
        Ok((request, wait))
    }

    fn note(
        &self,
        policy: &InForce,
        request: &Request<'_>,
        decision: Decision,
        read_at: Timestamp,
    ) -> NotedDecision {
        let scope = RequestScope { daemon: self, in_force: policy };
        scope.note(&Asked::borrowed(request, Protocol::Proxy), decision, read_at)
    }

    fn write_allowances(
        &self,
        policy: &InForce,
        request: &Request<'_>,
        limits: &[LimitReport],
        now: Timestamp,
        headers: &mut HeaderMap,
    ) {
        let enforced = RequestScope { daemon: self, in_force: policy }.enforced(request.namespace, limits);
        limit_headers(headers, allowances(&enforced, now), policy.config.older_headers);
        self.write_load(policy, request, headers);
    }

    fn write_load(&self, policy: &InForce, request: &Request<'_>, headers: &mut HeaderMap) {
        if let Some(load) =
            (RequestScope { daemon: self, in_force: policy }).shown_load(request.resource, request.namespace)
        {
            load.write(headers);
        }
    }

    fn refusal_form(&self, policy: &InForce, refusal: &Refusal) -> (u16, OlderHeaders) {
        (policy.config.status_of(refusal), policy.config.older_headers)
    }

    fn engine_fault(&self, error: &RequestError) -> Fault {
        engine_fault(error, self.clock.now())
    }

    fn count_fault(&self, error: &'static str) {
        self.metrics.fault_of_protocol(error);
    }

    fn is_ready(&self) -> bool {
        // Relaxed: a late sight of a change delays nothing but the end of a connection.
        self.is_ready.load(Ordering::Relaxed)
    }
}

impl ProtocolHooks for ProxyState<InForce> {
    fn take_over(&self, next: &Arc<InForce>) {
        Self::take_over(self, next, &next.config.proxying);
    }

    fn files(&self) -> Vec<Arc<dyn Refresh>> {
        Self::files(self)
    }
}

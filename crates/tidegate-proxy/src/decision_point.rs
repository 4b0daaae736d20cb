//! The decision point that the proxy enforces.

use core::time::Duration;

use http::HeaderMap;
use tidegate_core::{Class, Refusal, Timestamp};
use tidegate_engine::{Decision, Engine, LimitReport, Permit, Request, RequestError};
use tidegate_policy::policy::claims::AccessParts;
use tidegate_wire::Fault;
use tidegate_wire::headers::OlderHeaders;

/// The decision point whose decisions the proxy enforces: an engine under a policy, with everything
/// that counts and logs its decisions.
///
/// The engine of the policy and the driver decide requests; here is everything around a decision.
pub trait DecisionPoint: Send + Sync + 'static {
    /// A policy in force, with its engine.
    type Policy: AsRef<Engine> + Send + Sync + 'static;

    /// The request, whose namespace, tenant, feature and resource are set, with its class and its
    /// access, and how long it may wait.
    ///
    /// The class is the claimed one as far as the policy allows it, else the tenant's, else
    /// `default`. Parts that name no table make no access. The wait is `own`, that of the route,
    /// and no longer than the resource lets the class wait; zero for a route without `wait`: not at
    /// all.
    fn complete<'a>(
        &self,
        policy: &Self::Policy,
        request: Request<'a>,
        claimed: Option<Class>,
        default: Class,
        access: Option<AccessParts<'a>>,
        own: Duration,
    ) -> Result<(Request<'a>, Duration), Fault>;

    /// Counts and logs the decision about a request that was read at `read_at`.
    fn note(
        &self,
        policy: &Self::Policy,
        request: &Request<'_>,
        decision: Decision,
        read_at: Timestamp,
    ) -> NotedDecision;

    /// Writes the allowances of these limits, those in shadow mode left out, and the load as
    /// [`write_load`](Self::write_load).
    fn write_allowances(
        &self,
        policy: &Self::Policy,
        request: &Request<'_>,
        limits: &[LimitReport],
        now: Timestamp,
        headers: &mut HeaderMap,
    );

    /// Writes the load of the resource of a request, if answers about this resource show it.
    fn write_load(&self, policy: &Self::Policy, request: &Request<'_>, headers: &mut HeaderMap);

    /// The status of the answer to a refusal, and which older header families are sent beside
    /// `RateLimit`.
    fn refusal_form(&self, policy: &Self::Policy, refusal: &Refusal) -> (u16, OlderHeaders);

    /// The fault of a request that the engine could not decide.
    fn engine_fault(&self, error: &RequestError) -> Fault;

    /// Counts a request that was answered with an error before it was decided or sent on, by the
    /// name of the error.
    fn count_fault(&self, error: &'static str);

    /// Whether new requests are welcome; false while the daemon drains.
    fn is_ready(&self) -> bool;
}

/// A decision that was counted.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "a box for each admission would cost more than the move")]
pub enum NotedDecision {
    /// The permit is the proxy's to settle.
    Admitted(Permit, Vec<LimitReport>),
    /// The request goes no further.
    Refused(Refusal),
}

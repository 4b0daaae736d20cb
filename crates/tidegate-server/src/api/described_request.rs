//! A request that is described by names and values, for the engine: with its tenant, class,
//! feature, ticket, number of attempts, deadline and access, wherever the policy says that they are
//! found.

use tidegate_core::{Class, Cost};
use tidegate_engine::Request;
use tidegate_policy::grammar::ValueSource;
use tidegate_policy::policy::claims::{AccessParts, RequestClaims};
use tidegate_wire::claim::{parse_attempt, parse_deadline_ms};
use tidegate_wire::{Fault, FaultCode};

use crate::authorization::Caller;
use crate::claims::{ATTEMPT_FORM, DEADLINE_FORM, OwnClaims, unreadable, value_in};
use crate::context::RequestScope;

impl RequestScope<'_> {
    /// A request that its caller describes by `pairs`, with its claims in them and in `own`, which
    /// win. Without a `cost` it has the cost that the cost table of its namespace says, or 1.
    pub(crate) fn request_of<'a>(
        &'a self,
        namespace: &'a str,
        pairs: &'a [(&'a str, &'a str)],
        cost: Option<Cost>,
        own: OwnClaims<'a>,
        caller: &Caller,
    ) -> Result<Request<'a>, Fault> {
        let claims = self.in_force.config.claims.of_namespace(namespace);
        let mut request = self.counted_request(namespace, pairs, cost, claims);
        request.feature = own.feature.or(request.feature);
        request.ticket = own.ticket_or(value_in(&claims.ticket, pairs));
        let claimed = match (own.class, &claims.class.from) {
            (None, Some(from)) => value_in(from, pairs).map(str::parse).transpose().map_err(|error| {
                Fault::new(FaultCode::MalformedBody, format_args!("{from}: {error}")).field("class")
            })?,
            (own, _) => own,
        };
        request.class = class_within(claims, &request, claimed, caller);
        let read = |text: &str| parse_attempt(text.as_bytes());
        request.attempt = own
            .attempt
            .map_or_else(|| number(&claims.attempt, pairs, read, ATTEMPT_FORM), |attempt| Ok(Some(attempt)))?
            .unwrap_or(0);
        let read = |text: &str| parse_deadline_ms(text.as_bytes());
        let within = match own.deadline {
            None => number(&claims.deadline, pairs, read, DEADLINE_FORM)?,
            within => within,
        };
        request.deadline = within.map(|within| self.daemon.clock.now().saturating_add(within));
        if let Some(sources) = &claims.access {
            let value = |source: &'a ValueSource| value_in(source, pairs);
            let parts = AccessParts {
                table: value(&sources.table),
                key: value(&sources.key),
                kind: sources.kind.as_ref().and_then(value),
                size: sources.size.as_ref().and_then(value),
            };
            self.in_force.config.planes.add_access_parts(&mut request, parts)?;
        }
        Ok(request)
    }

    /// The request whose cost is given back, with the claims that it is counted by. A claim that
    /// cannot be read is ignored, because it decides nothing here.
    pub(crate) fn refunded_request<'a>(
        &'a self,
        namespace: &'a str,
        pairs: &'a [(&'a str, &'a str)],
        cost: Option<Cost>,
        caller: &Caller,
    ) -> Request<'a> {
        let claims = self.in_force.config.claims.of_namespace(namespace);
        let mut request = self.counted_request(namespace, pairs, cost, claims);
        let claimed = claims.class.from.as_ref().and_then(|from| value_in(from, pairs)?.parse().ok());
        request.class = class_within(claims, &request, claimed, caller);
        request
    }

    /// A request that an Envoy has decided by itself, with the claims that it is counted by. As in
    /// [`Self::refunded_request`], one that cannot be read is ignored.
    pub(crate) fn reported_request<'a>(
        &'a self,
        namespace: &'a str,
        pairs: &'a [(&'a str, &'a str)],
        caller: &Caller,
    ) -> Request<'a> {
        self.refunded_request(namespace, pairs, Some(Cost::ONE), caller)
    }

    /// A request with its cost, its tenant and its feature.
    fn counted_request<'a>(
        &'a self,
        namespace: &'a str,
        pairs: &'a [(&'a str, &'a str)],
        cost: Option<Cost>,
        claims: &'a RequestClaims,
    ) -> Request<'a> {
        // A namespace that does not exist is reported where the request is decided.
        let by_table = || self.in_force.engine.cost_of(namespace, pairs).unwrap_or_default();
        let mut request = Request::new(namespace, pairs).cost(cost.unwrap_or_else(by_table));
        request.tenant = value_in(&claims.tenant, pairs);
        request.feature = value_in(&claims.feature, pairs);
        request
    }
}

/// The class of a request that claims this one, as far as the grant of its caller goes.
fn class_within(
    claims: &RequestClaims,
    request: &Request<'_>,
    claimed: Option<Class>,
    caller: &Caller,
) -> Class {
    let claimed = claimed.map(|class| class.min(caller.ceiling(request.namespace)));
    claims.class_of(claimed, request.tenant, claims.class.default)
}

fn number<'a, T>(
    source: &'a ValueSource,
    pairs: &[(&'a str, &'a str)],
    parse: impl Fn(&str) -> Option<T>,
    form: &str,
) -> Result<Option<T>, Fault> {
    let Some(text) = value_in(source, pairs) else { return Ok(None) };
    parse(text).map(Some).ok_or_else(|| unreadable(source, text, form))
}

//! `GET /v1/permits`: the permits that wait to be settled or released, a page at a time.

use http::StatusCode;
use tidegate_engine::{PermitPage, PermitReport};
use tidegate_net::reply::{self, Reply};
use tidegate_wire::Fault;
use tidegate_wire::permits::{PermitBody, PermitsBody};
use tidegate_wire::retry_after::millis_up;

use crate::api::parameters::Accepted;
use crate::api::route::Route;
use crate::context::RequestScope;

/// The parameters of the route.
const PERMITS: Accepted =
    Accepted { route: "/v1/permits", once: &["namespace", "n", "after"], repeated: &[] };

/// The default and the largest number of permits on a page.
const PERMITS_DEFAULT: usize = 100;
const PERMITS_MAX: usize = 1000;

/// The route.
pub(crate) const ROUTES: &[Route] =
    &[Route::get("/v1/permits", "The permits that wait to be settled or released", |call| {
        Box::pin(async move { call.scope.permits(call.query()) })
    })
    .answers("PermitsBody")
    .query(PERMITS)];

impl RequestScope<'_> {
    pub(crate) fn permits(&self, query: Option<&str>) -> Result<Reply, Fault> {
        let parameters = PERMITS.read(query)?;
        let after = parameters.parsed(
            "after",
            "a whole number",
            |text| text.parse().ok(),
            || "use `next` of the page before".to_owned(),
        )?;
        let page = PermitPage {
            namespace: parameters.get("namespace"),
            after: after.unwrap_or(0),
            n: parameters.number("n", PERMITS_DEFAULT, PERMITS_MAX)?,
        };
        let (engine, now) = (&self.in_force.engine, self.daemon.clock.now());
        // One more than wanted says whether there is another page.
        let (mut permits, total) = engine.kept_permits(&PermitPage { n: page.n + 1, ..page }, now);
        if let Some(namespace) = page.namespace.filter(|_| total == 0) {
            self.check_selection(namespace, None)?;
        }
        let has_more = permits.len() > page.n;
        permits.truncate(page.n);
        let next = permits.last().filter(|_| has_more).map(|last| last.number);
        let body = |permit: PermitReport| PermitBody {
            id: permit.id.prefix(),
            namespace: permit.namespace,
            limits: permit.limits,
            cost: permit.cost.units(),
            age_ms: permit.kept_at.map(|at| millis_up(now.saturating_since(at))),
            expires: permit.expires.to_whole_millis().to_string(),
            remaining_ms: millis_up(permit.expires.saturating_since(now)),
        };
        let permits = permits.into_iter().map(body).collect();
        let max = engine.stats(now).permits_max;
        Ok(reply::json(StatusCode::OK, &PermitsBody { permits, total, max, next }))
    }
}

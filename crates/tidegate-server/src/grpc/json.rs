//! Envoy's rate limit request as JSON over HTTP, for callers that do not speak gRPC.

use http::{HeaderValue, StatusCode};
use tidegate_net::reply::{self, Reply};
use tidegate_wire::Fault;
use tidegate_wire::envoy::{Code, json};

use crate::api::route::{RefusalForm, Route};
use crate::authorization::Caller;
use crate::context::RequestScope;

/// The route of the same service over HTTP.
pub(crate) const ROUTES: &[Route] = &[Route::post(
    "/json",
    "Envoy's rate limit service as JSON, any method; 429 when over a limit",
    |call| {
        Box::pin(async move {
            let (scope, caller) = (call.scope, call.caller);
            let body = call.body.read_at_most(scope.daemon.config.bounds.grpc_message_bytes).await?;
            scope.json(caller, &body).await
        })
    },
)
.any_method()
.takes("EnvoyRequest")
.answers("EnvoyAnswer")
.refuses(RefusalForm::Envoy("EnvoyAnswer"))];

impl RequestScope<'_> {
    /// Answers the request in `body`. Answer and charge are those of the same message over gRPC.
    pub(crate) async fn json(&self, caller: &Caller, body: &[u8]) -> Result<Reply, Fault> {
        let request = json::read(body)?;
        let answer = self.should_rate_limit(caller, &request, None).await?;
        let status = match answer.overall_code() {
            Code::Ok => StatusCode::OK,
            Code::OverLimit => StatusCode::TOO_MANY_REQUESTS,
            // No answer is without a code.
            Code::Unknown => StatusCode::INTERNAL_SERVER_ERROR,
        };
        let mut bytes = Vec::with_capacity(1024);
        json::write(&answer, &mut bytes);
        Ok(reply::with_body(status, HeaderValue::from_static("application/json"), bytes))
    }
}

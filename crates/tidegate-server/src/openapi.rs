//! The description of the API, made from the types that read and write it.

use std::sync::OnceLock;

use tidegate_wire::answer::{
    Admitted, BlockAnswer, LimitAnswer, RefundAnswer, Reported, ResetAnswer, SettleAnswer,
};
use tidegate_wire::blocks::{BlockBody, BlocksBody};
use tidegate_wire::envoy::json::{
    EnvoyAnswer, EnvoyDescriptor, EnvoyEntry, EnvoyHeader, EnvoyLimit, EnvoyOwnLimit, EnvoyRequest,
    EnvoyStatus,
};
use tidegate_wire::explanation::{
    CounterExplanation, DecidedBy, ExplanationBody, LevelExplanation, LimitExplanation, NumbersOf,
    PlaneExplanation, Unmatched, Would,
};
use tidegate_wire::fault::FaultBody;
use tidegate_wire::operation::{
    AccessBody, AccessKind, Block, Check, OutcomeBody, Refund, Release, Report, Reserve, Reset, Settle,
};
use tidegate_wire::permits::{PermitBody, PermitsBody};
use tidegate_wire::problem::RefusalBody;
use tidegate_wire::refused_keys::{ReasonCountBody, RefusedKeyBody, TopKeysBody};
use tidegate_wire::tables::{NodeBody, OperationBody, PartitionBody, Placement, TableBody, TablesBody};
use utoipa::OpenApi;
use utoipa::openapi::path::{HttpMethod, OperationBuilder, ParameterBuilder, ParameterIn, PathItem};
use utoipa::openapi::request_body::RequestBodyBuilder;
use utoipa::openapi::{Content, Ref, Required, ResponseBuilder};

use crate::admin::{Health, LIMITS, LimitsAnswer, PolicyAnswer, TOP_KEYS};
use crate::blocks::BLOCKS;
use crate::endpoint::Endpoint;
use crate::override_history::AuditEntry;
use crate::overrides::{OVERRIDES, OverrideAnswer, OverrideBody, OverridesAnswer, RemovalBody};
use crate::permits::PERMITS;
use crate::reload_status::LastError;
use crate::tables::TABLES;
use tidegate_wire::leases::{AcknowledgedBody, LeaseBody, LeasesBody, MemberBody};

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Tidegate",
        description = "May this request go ahead, and if not, why, and when should it come back?"
    ),
    components(schemas(
        Check,
        Report,
        Refund,
        Reserve,
        Settle,
        Release,
        Reset,
        Block,
        AccessBody,
        AccessKind,
        OutcomeBody,
        Admitted,
        LimitAnswer,
        Reported,
        RefundAnswer,
        SettleAnswer,
        ResetAnswer,
        BlockAnswer,
        RefusalBody,
        FaultBody,
        ExplanationBody,
        Would,
        LimitExplanation,
        Unmatched,
        CounterExplanation,
        NumbersOf,
        DecidedBy,
        LevelExplanation,
        EnvoyRequest,
        EnvoyDescriptor,
        EnvoyEntry,
        EnvoyOwnLimit,
        EnvoyAnswer,
        EnvoyStatus,
        EnvoyLimit,
        EnvoyHeader,
        LimitsAnswer,
        PolicyAnswer,
        LastError,
        OverridesAnswer,
        OverrideAnswer,
        OverrideBody,
        RemovalBody,
        AuditEntry,
        TopKeysBody,
        BlocksBody,
        BlockBody,
        PermitsBody,
        TablesBody,
        TableBody,
        OperationBody,
        PartitionBody,
        NodeBody,
        Placement,
        PlaneExplanation,
        PermitBody,
        RefusedKeyBody,
        ReasonCountBody,
        AcknowledgedBody,
        LeaseBody,
        LeasesBody,
        MemberBody,
        Health
    ))
)]
struct Schemas;

/// The description of an endpoint: its purpose, its body, and its answer.
struct EndpointDescription {
    summary: &'static str,
    body: Option<&'static str>,
    answer: Option<&'static str>,
    refuses: bool,
}

const fn describe(route: Endpoint) -> EndpointDescription {
    let (summary, body, answer, refuses) = match route {
        Endpoint::Check => ("May this request go ahead?", Some("Check"), Some("Admitted"), true),
        Endpoint::Report => ("Charge what was already done", Some("Report"), Some("Reported"), false),
        Endpoint::Refund => ("Give back what was charged, once", Some("Refund"), Some("RefundAnswer"), false),
        Endpoint::Reserve => ("Charge an estimate, settle later", Some("Reserve"), Some("Admitted"), true),
        Endpoint::Settle => ("Say how the work ended", Some("Settle"), Some("SettleAnswer"), false),
        Endpoint::Release => ("Give back what a permit lent", Some("Release"), Some("SettleAnswer"), false),
        Endpoint::Reset => ("Forget what is used", Some("Reset"), Some("ResetAnswer"), false),
        Endpoint::Block => ("Refuse a key for a while", Some("Block"), Some("BlockAnswer"), false),
        Endpoint::Authorize => ("May this request go ahead? For gateways, any method", None, None, true),
        Endpoint::Json => (
            "Envoy's rate limit service as JSON, any method; 429 when over a limit",
            Some("EnvoyRequest"),
            Some("EnvoyAnswer"),
            false,
        ),
        Endpoint::Limits => ("The limits there are", None, Some("LimitsAnswer"), false),
        Endpoint::Overrides => (
            "Numbers of single keys set while running; PUT and DELETE /v1/overrides/{namespace}/{limit} change them",
            None,
            Some("OverridesAnswer"),
            false,
        ),
        Endpoint::Explain => (
            "What each limit is to a request, and why; takes the body of /v1/check and charges nothing",
            Some("Check"),
            Some("ExplanationBody"),
            false,
        ),
        Endpoint::AcknowledgeLoss => (
            "Count quotas anew after the shared store has lost its data, on this member; POST without a body",
            None,
            Some("AcknowledgedBody"),
            false,
        ),
        Endpoint::Leases => {
            ("Members that share the store, and the leases that each holds", None, Some("LeasesBody"), false)
        }
        Endpoint::TopKeys => {
            ("The keys that were refused most within a window", None, Some("TopKeysBody"), false)
        }
        Endpoint::Blocks => ("The blocks in force", None, Some("BlocksBody"), false),
        Endpoint::Permits => {
            ("The permits that wait to be settled or released", None, Some("PermitsBody"), false)
        }
        Endpoint::Tables => ("The tables, and where their partitions lie", None, Some("TablesBody"), false),
        Endpoint::Placements => {
            ("Say on which node a partition lies", Some("Placement"), Some("PartitionBody"), false)
        }
        Endpoint::Rlconfig => ("The limits of the files of envoyproxy/ratelimit, as text", None, None, false),
        Endpoint::Metrics => ("Metrics in the OpenMetrics text format", None, None, false),
        Endpoint::Healthz => ("Whether the daemon lives", None, Some("Health"), false),
        Endpoint::Readyz => ("Whether to send it work", None, Some("Health"), false),
        Endpoint::OpenApi => ("This description", None, None, false),
    };
    EndpointDescription { summary, body, answer, refuses }
}

/// The parameters of a route's query.
fn parameters(route: Endpoint) -> Vec<(&'static str, Required)> {
    let accepted = match route {
        Endpoint::Authorize => return vec![("namespace", Required::True), ("deny_status", Required::False)],
        Endpoint::Limits => LIMITS,
        Endpoint::Overrides => OVERRIDES,
        Endpoint::TopKeys => TOP_KEYS,
        Endpoint::Blocks => BLOCKS,
        Endpoint::Permits => PERMITS,
        Endpoint::Tables => TABLES,
        _ => return Vec::new(),
    };
    accepted.once.iter().chain(accepted.repeated).map(|name| (*name, Required::False)).collect()
}

/// Whether a route is described as a POST; one that takes any method is described by what it is
/// usually asked with.
fn is_posted(route: Endpoint) -> bool {
    describe(route).body.is_some() || route == Endpoint::AcknowledgeLoss
}

/// The document, as JSON.
pub fn document() -> &'static str {
    static DOCUMENT: OnceLock<String> = OnceLock::new();
    DOCUMENT.get_or_init(|| build().to_pretty_json().expect("a description of types serialises"))
}

fn content(schema: &str) -> Content {
    Content::new(Some(Ref::from_schema_name(schema)))
}

fn build() -> utoipa::openapi::OpenApi {
    let mut document = Schemas::openapi();
    for route in Endpoint::ALL {
        let described = describe(route);
        let mut operation = OperationBuilder::new().summary(Some(described.summary));
        if let Some(body) = described.body {
            let body = RequestBodyBuilder::new()
                .content("application/json", content(body))
                .required(Some(Required::True));
            operation = operation.request_body(Some(body.build()));
        }
        let mut answered =
            ResponseBuilder::new().description(if described.refuses { "Admitted" } else { "Done" });
        if let Some(answer) = described.answer {
            answered = answered.content("application/json", content(answer));
        }
        operation = operation.response("200", answered);
        if described.refuses {
            for (status, description) in
                [("429", "The caller is over its limit"), ("503", "There is less to give now")]
            {
                let mut refused = ResponseBuilder::new().description(description);
                if route != Endpoint::Authorize {
                    refused = refused.content("application/problem+json", content("RefusalBody"));
                }
                operation = operation.response(status, refused);
            }
        }
        if route == Endpoint::Json {
            let over = ResponseBuilder::new()
                .description("The caller is over its limit")
                .content("application/json", content("EnvoyAnswer"));
            operation = operation.response("429", over);
        }
        if described.body.is_some() || route == Endpoint::Authorize {
            let fault = ResponseBuilder::new()
                .description("The message could not be taken; nothing was charged")
                .content("application/problem+json", content("FaultBody"));
            operation = operation.response("default", fault);
        }
        for (name, required) in parameters(route) {
            let parameter =
                ParameterBuilder::new().name(name).parameter_in(ParameterIn::Query).required(required);
            operation = operation.parameter(parameter);
        }
        let method = if is_posted(route) { HttpMethod::Post } else { HttpMethod::Get };
        document.paths.paths.insert(route.path().to_owned(), PathItem::new(method, operation));
    }
    let mut one = PathItem::new(HttpMethod::Put, change("Set the numbers of some keys", "OverrideBody"));
    one.delete = Some(change("Take numbers away again", "RemovalBody"));
    document.paths.paths.insert("/v1/overrides/{namespace}/{limit}".to_owned(), one);
    document
}

/// A change of one override. The attributes it is for are the query, whatever their names.
fn change(summary: &str, body: &str) -> utoipa::openapi::path::Operation {
    let body = RequestBodyBuilder::new().content("application/json", content(body)).build();
    let fault = ResponseBuilder::new()
        .description("Nothing was changed")
        .content("application/problem+json", content("FaultBody"));
    let done =
        ResponseBuilder::new().description("Done").content("application/json", content("OverrideAnswer"));
    let named =
        |name| ParameterBuilder::new().name(name).parameter_in(ParameterIn::Path).required(Required::True);
    OperationBuilder::new()
        .summary(Some(summary))
        .parameter(named("namespace"))
        .parameter(named("limit"))
        .request_body(Some(body))
        .response("200", done)
        .response("default", fault)
        .build()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_route_is_described_and_every_schema_it_names_exists() {
        let document: serde_json::Value = serde_json::from_str(document()).unwrap();
        for route in Endpoint::ALL {
            let method = if is_posted(route) { "post" } else { "get" };
            assert!(document["paths"][route.path()][method]["summary"].is_string(), "{}", route.path());
        }
        let text = document.to_string();
        for reference in text.split("\"#/components/schemas/").skip(1) {
            let name = reference.split('"').next().unwrap();
            assert!(document["components"]["schemas"][name].is_object(), "{name} is not described");
        }
        let names = |path: &str| {
            let parameters = document["paths"][path]["get"]["parameters"].as_array().unwrap();
            parameters.iter().map(|one| one["name"].as_str().unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(names("/v1/keys/top"), ["namespace", "limit", "reason", "window", "n", "key"]);
        assert_eq!(names("/v1/blocks"), ["namespace", "limit", "n", "key"]);
        assert_eq!(names("/v1/permits"), ["namespace", "n", "after"]);
        let check = &document["components"]["schemas"]["Check"]["properties"];
        assert_eq!(check["attributes"]["additionalProperties"]["type"], "string");
        assert!(check["cost"]["description"].as_str().unwrap().contains("weighs"));
    }
}

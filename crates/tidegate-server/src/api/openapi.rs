//! The description of the API, made from the types that read and write it and from the routes.
//!
//! It is committed as `openapi.json`, so that a daemon is built without the crates that make it.

use http::Method;
use tidegate_wire::access_explanation::{AccessExplanation, TokensExplanation};
use tidegate_wire::answer::{
    Admitted, BlockAnswer, LimitAnswer, PreviewedCounter, RefundAnswer, Reported, ResetAnswer, ResetPreview,
    SettleAnswer,
};
use tidegate_wire::blocks::{BlockBody, BlocksBody};
use tidegate_wire::envoy::json::{
    EnvoyAnswer, EnvoyDescriptor, EnvoyEntry, EnvoyHeader, EnvoyLimit, EnvoyOwnLimit, EnvoyRequest,
    EnvoyStatus,
};
use tidegate_wire::explanation::{
    CounterExplanation, DecidedBy, ExpectedDecision, ExplanationBody, LevelExplanation, LimitExplanation,
    LoadExplanation, NumbersOf, PlaneExplanation, TicketExplanation, Unmatched,
};
use tidegate_wire::fault::FaultBody;
use tidegate_wire::features::{
    ClassLevelBody, FeatureBody, FeaturePinBody, FeaturePinRequest, FeatureUnpinRequest, FeaturesBody,
};
use tidegate_wire::operation::{
    AccessBody, AccessKind, Block, Check, Explain, IndexWriteBody, OutcomeBody, Refund, Release, Report,
    Reserve, Reset, Settle,
};
use tidegate_wire::permits::{PermitBody, PermitsBody};
use tidegate_wire::problem::RefusalBody;
use tidegate_wire::refused_keys::{LimitCountBody, ReasonCountBody, RefusedKeyBody, TopKeysBody};
use tidegate_wire::resource_history::{AreaBody, HistoryBody, HistorySampleBody, LevelMarkBody, SpanBody};
use tidegate_wire::resources::{
    ClassBody, CursorBody, DeferralBody, ResourceBody, ResourcesBody, SignalAnswer, SignalBody, SignalValue,
    StreamsBody,
};
use tidegate_wire::tables::{NodeBody, OperationBody, PartitionBody, Placement, TableBody, TablesBody};
use tidegate_wire::usage::{
    NamespaceUsageBody, TenantUsageBody, UsageBody, UsageColumns, UsageOfClass, UsageOutcomes, UsageRow,
    UsageRowKind,
};
use utoipa::OpenApi;
use utoipa::openapi::path::{Operation, OperationBuilder, ParameterBuilder, ParameterIn};
use utoipa::openapi::request_body::RequestBodyBuilder;
use utoipa::openapi::{Content, Ref, Required, ResponseBuilder};

use crate::admin::overrides::{OverrideAnswer, OverrideBody, OverridesAnswer, RemovalBody};
use crate::admin::{Health, LimitsAnswer, PolicyAnswer};
use crate::api::route::{RefusalForm, Route, RouteTable, named_segments};
use crate::fleet::override_history::AuditEntry;
use crate::reload::reload_status::LastError;
use tidegate_wire::leases::{
    AcknowledgedBody, DifferentNumbersBody, EnvoyBody, LeaseBody, LeasesBody, MemberBody,
};

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Tidegate",
        description = "May this request go ahead, and if not, why, and when should it come back?"
    ),
    components(schemas(
        Check,
        Explain,
        Report,
        Refund,
        Reserve,
        Settle,
        Release,
        Reset,
        Block,
        AccessBody,
        IndexWriteBody,
        AccessKind,
        OutcomeBody,
        Admitted,
        LimitAnswer,
        Reported,
        RefundAnswer,
        SettleAnswer,
        ResetAnswer,
        ResetPreview,
        PreviewedCounter,
        BlockAnswer,
        RefusalBody,
        FaultBody,
        ExplanationBody,
        ExpectedDecision,
        AccessExplanation,
        TokensExplanation,
        LimitExplanation,
        LoadExplanation,
        TicketExplanation,
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
        LimitCountBody,
        ReasonCountBody,
        AcknowledgedBody,
        EnvoyBody,
        LeaseBody,
        DifferentNumbersBody,
        LeasesBody,
        MemberBody,
        HistoryBody,
        HistorySampleBody,
        AreaBody,
        LevelMarkBody,
        SpanBody,
        FeaturesBody,
        FeatureBody,
        ClassLevelBody,
        FeaturePinBody,
        FeaturePinRequest,
        FeatureUnpinRequest,
        ResourcesBody,
        StreamsBody,
        DeferralBody,
        ResourceBody,
        CursorBody,
        ClassBody,
        SignalBody,
        SignalValue,
        SignalAnswer,
        UsageBody,
        NamespaceUsageBody,
        TenantUsageBody,
        UsageRow,
        UsageRowKind,
        UsageOfClass,
        UsageColumns,
        UsageOutcomes,
        Health
    ))
)]
struct Schemas;

/// The description of these routes, as JSON.
pub(crate) fn describe(routes: &RouteTable) -> String {
    build(routes).to_pretty_json().expect("a description of types serialises")
}

fn content(schema: &str) -> Content {
    Content::new(Some(Ref::from_schema_name(schema)))
}

fn build(routes: &RouteTable) -> utoipa::openapi::OpenApi {
    let mut document = Schemas::openapi();
    for route in routes.all().iter().filter(|route| route.is_described()) {
        let path = document.paths.paths.entry(route.path.to_owned()).or_default();
        let operation = Some(operation(route));
        match documented_method(route) {
            Method::POST => path.post = operation,
            Method::PUT => path.put = operation,
            Method::DELETE => path.delete = operation,
            _ => path.get = operation,
        }
    }
    document
}

/// The method that a route is described by; one that takes any is described by what it is usually
/// asked with.
fn documented_method(route: &Route) -> Method {
    match route.methods.first() {
        Some(method) => method.clone(),
        None if route.description.body.is_some() => Method::POST,
        None => Method::GET,
    }
}

fn operation(route: &Route) -> Operation {
    let described = &route.description;
    let mut operation = OperationBuilder::new().summary(Some(described.summary));
    for name in named_segments(route.path) {
        let parameter =
            ParameterBuilder::new().name(name).parameter_in(ParameterIn::Path).required(Required::True);
        operation = operation.parameter(parameter);
    }
    if let Some(body) = described.body {
        let body = RequestBodyBuilder::new()
            .content("application/json", content(body))
            .required(Some(Required::True));
        operation = operation.request_body(Some(body.build()));
    }
    let may_refuse = matches!(described.refusal, RefusalForm::Problem | RefusalForm::Status);
    let mut answered = ResponseBuilder::new().description(if may_refuse { "Admitted" } else { "Done" });
    if let Some(answer) = described.answer {
        answered = answered.content("application/json", content(answer));
    }
    operation = operation.response("200", answered);
    let over_limit = ("429", "The caller is over its limit");
    let refusals: &[_] = match described.refusal {
        RefusalForm::None => &[],
        RefusalForm::Problem | RefusalForm::Status => &[over_limit, ("503", "There is less to give now")],
        RefusalForm::Envoy(_) => &[over_limit],
    };
    for (status, description) in refusals {
        let mut refused = ResponseBuilder::new().description(*description);
        refused = match described.refusal {
            RefusalForm::Problem => refused.content("application/problem+json", content("RefusalBody")),
            RefusalForm::Envoy(schema) => refused.content("application/json", content(schema)),
            RefusalForm::Status | RefusalForm::None => refused,
        };
        operation = operation.response(*status, refused);
    }
    if described.body.is_some() || described.refusal == RefusalForm::Status {
        let fault = ResponseBuilder::new()
            .description("The message could not be taken; nothing was charged")
            .content("application/problem+json", content("FaultBody"));
        operation = operation.response("default", fault);
    }
    let required = described.required.iter().map(|name| (*name, Required::True));
    let accepted =
        described.parameters.iter().flat_map(|accepted| accepted.once.iter().chain(accepted.repeated));
    let optional = accepted.filter(|name| !described.required.contains(name));
    for (name, required) in required.chain(optional.map(|name| (*name, Required::False))) {
        let parameter =
            ParameterBuilder::new().name(name).parameter_in(ParameterIn::Query).required(required);
        operation = operation.parameter(parameter);
    }
    operation.build()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With `TIDEGATE_BLESS=1` it writes the description instead of comparing it.
    #[test]
    fn the_committed_description_is_the_one_of_the_types_and_routes() {
        let described = describe(&crate::api::routes::ROUTES);
        if std::env::var("TIDEGATE_BLESS").is_ok_and(|value| value == "1") {
            let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/api/openapi.json");
            std::fs::write(path, described).unwrap();
            return;
        }
        assert!(
            described == crate::api::routes::openapi_document(),
            "src/api/openapi.json is out of date; write it with `TIDEGATE_BLESS=1 cargo test -p tidegate-server openapi`"
        );
    }

    #[test]
    fn every_route_is_described_and_every_schema_it_names_exists() {
        let document: serde_json::Value =
            serde_json::from_str(crate::api::routes::openapi_document()).unwrap();
        for route in crate::api::routes::ROUTES.all().iter().filter(|route| route.is_described()) {
            let method = documented_method(route).as_str().to_ascii_lowercase();
            assert!(document["paths"][route.path][method]["summary"].is_string(), "{}", route.path);
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
        assert_eq!(names("/v1/keys/top"), ["namespace", "limit", "reason", "by", "window", "n", "key"]);
        assert_eq!(names("/v1/blocks"), ["namespace", "limit", "n", "key"]);
        assert_eq!(names("/v1/permits"), ["namespace", "n", "after"]);
        let check = &document["components"]["schemas"]["Check"]["properties"];
        assert_eq!(check["attributes"]["additionalProperties"]["type"], "string");
        assert!(check["cost"]["description"].as_str().unwrap().contains("cost table"));
    }
}

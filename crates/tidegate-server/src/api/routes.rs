//! The routes of the HTTP API, assembled from those that their owners register.

use std::sync::LazyLock;

use http::{HeaderValue, StatusCode};
use tidegate_net::reply;

use crate::admin::{
    self, blocks, explain, features, overrides, permits, resource_history, resources, tables, usage,
};
use crate::api::route::{Route, RouteTable};
use crate::api::{authorize, operations};
use crate::grpc;

/// The route of the description itself.
const DESCRIPTION: Route = Route::get("/openapi.json", "This description", |_| {
    Box::pin(async {
        let json = HeaderValue::from_static("application/json");
        Ok(reply::with_body(StatusCode::OK, json, openapi_document().as_bytes().to_vec()))
    })
});

/// All routes.
pub(crate) static ROUTES: LazyLock<RouteTable> = LazyLock::new(|| {
    let owners = [
        operations::ROUTES,
        authorize::ROUTES,
        grpc::json::ROUTES,
        admin::ROUTES,
        explain::ROUTES,
        overrides::ROUTES,
        blocks::ROUTES,
        permits::ROUTES,
        tables::ROUTES,
        resources::ROUTES,
        resource_history::ROUTES,
        features::ROUTES,
        usage::ROUTES,
        &[DESCRIPTION],
    ];
    RouteTable::new(owners.into_iter().flatten().copied())
});

/// The description of the API, as JSON. A test makes it from the types and the routes.
pub fn openapi_document() -> &'static str {
    include_str!("openapi.json")
}

//! `grpc.health.v1`: the status is serving until the daemon drains.

use core::convert::Infallible;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use tidegate_wire::envoy;
use tonic::body::Body;
use tonic::codegen::Service;
use tonic_health::ServingStatus;
use tonic_health::pb::health_server::HealthServer;
use tonic_health::server::{HealthReporter, HealthService};

/// How the paths of the service begin.
pub(super) const PATHS: &str = "/grpc.health.v1.Health/";

/// The services with a health status: the daemon, Envoy's two services, and the name of the first
/// in envoyproxy/ratelimit.
const NAMES: [&str; 4] = ["", envoy::SERVICE, envoy::rlqs::SERVICE, "ratelimit"];

/// The health of the daemon as gRPC asks for it.
#[derive(Debug)]
pub(crate) struct GrpcHealth {
    reporter: HealthReporter,
    server: HealthServer<HealthService>,
}

impl GrpcHealth {
    pub(super) fn new() -> Self {
        let reporter = HealthReporter::new();
        let server = HealthServer::new(HealthService::from_health_reporter(reporter.clone()));
        Self { reporter, server }
    }

    /// Says that the daemon serves.
    pub(crate) async fn serve(&self) {
        self.set(ServingStatus::Serving).await;
    }

    /// Says that the daemon does not want new calls; who watches hears of it.
    pub(crate) async fn drain(&self) {
        self.set(ServingStatus::NotServing).await;
    }

    /// Ends all watches, so that the drain does not wait for them.
    pub(crate) async fn end(&self) {
        let mut reporter = self.reporter.clone();
        for name in NAMES {
            reporter.clear_service_status(name).await;
        }
    }

    async fn set(&self, status: ServingStatus) {
        for name in NAMES {
            self.reporter.set_service_status(name, status).await;
        }
    }

    pub(super) async fn answer(&self, request: Request<Full<Bytes>>) -> Response<Body> {
        never_fails(self.server.clone().call(request).await)
    }
}

/// The answer of a service that has no error.
pub(super) fn never_fails<T>(answer: Result<T, Infallible>) -> T {
    match answer {
        Ok(answer) => answer,
        Err(never) => match never {},
    }
}

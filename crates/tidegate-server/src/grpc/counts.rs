//! Counters of calls by service and status.

use std::sync::OnceLock;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;
use tonic::Code;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CallLabels {
    service: &'static str,
    code: &'static str,
}

/// The counters of the gRPC listener.
#[derive(Debug, Default)]
pub(crate) struct GrpcMetrics {
    calls: Family<CallLabels, Counter>,
    usual: OnceLock<Counter>,
}

/// Which service a call was for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CalledService {
    RateLimit,
    RateLimitQuota,
    Health,
    Reflection,
    Other,
}

impl GrpcMetrics {
    /// Puts them on the page, with `help` for each name.
    pub(crate) fn register(&self, registry: &mut Registry, help: fn(&str) -> &'static str) {
        registry.register("tidegate_grpc_calls", help("tidegate_grpc_calls"), self.calls.clone());
    }

    /// Counts a call that was answered.
    pub(super) fn answered(&self, called: CalledService, code: Code) {
        let create = || {
            let service = match called {
                CalledService::RateLimit => "rate_limit",
                CalledService::RateLimitQuota => "rate_limit_quota",
                CalledService::Health => "health",
                CalledService::Reflection => "reflection",
                CalledService::Other => "other",
            };
            self.calls.get_or_create(&CallLabels { service, code: name_of(code) }).clone()
        };
        match (called, code) {
            (CalledService::RateLimit, Code::Ok) => self.usual.get_or_init(create).inc(),
            _ => create().inc(),
        };
    }
}

/// The name of a status code, as the gRPC documents have it.
const fn name_of(code: Code) -> &'static str {
    match code {
        Code::Ok => "OK",
        Code::Cancelled => "CANCELLED",
        Code::Unknown => "UNKNOWN",
        Code::InvalidArgument => "INVALID_ARGUMENT",
        Code::DeadlineExceeded => "DEADLINE_EXCEEDED",
        Code::NotFound => "NOT_FOUND",
        Code::AlreadyExists => "ALREADY_EXISTS",
        Code::PermissionDenied => "PERMISSION_DENIED",
        Code::ResourceExhausted => "RESOURCE_EXHAUSTED",
        Code::FailedPrecondition => "FAILED_PRECONDITION",
        Code::Aborted => "ABORTED",
        Code::OutOfRange => "OUT_OF_RANGE",
        Code::Unimplemented => "UNIMPLEMENTED",
        Code::Internal => "INTERNAL",
        Code::Unavailable => "UNAVAILABLE",
        Code::DataLoss => "DATA_LOSS",
        Code::Unauthenticated => "UNAUTHENTICATED",
    }
}

//! The form of each [`Reason`] in every protocol: one table, so that all protocols agree.

use tidegate_core::Reason;

/// The form of a refusal for one reason, unless a policy changes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Meaning {
    /// The HTTP status.
    pub status: u16,
    /// The gRPC status code.
    pub grpc: GrpcCode,
    /// The problem type of the body.
    pub problem: ProblemType,
    /// How the caller may retry.
    pub retry: RetryKind,
}

/// The gRPC status codes a refusal may have, by their numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum GrpcCode {
    /// The request lacks something.
    InvalidArgument = 3,
    /// The answer would come after the deadline.
    DeadlineExceeded = 4,
    /// The caller used up what it was promised.
    ResourceExhausted = 8,
    /// The system cannot do it now.
    Unavailable = 14,
}

/// The problem types of draft-ietf-httpapi-ratelimit-headers that refusals use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProblemType {
    /// The caller went over one or more of its limits.
    QuotaExceeded,
    /// Not the caller's doing: there is less to give right now.
    TemporaryReducedCapacity,
    /// Nothing beyond what the HTTP status says (RFC 9457, 4.2.1).
    AboutBlank,
}

impl ProblemType {
    /// The URI, the `type` of the body.
    pub const fn uri(self) -> &'static str {
        match self {
            Self::QuotaExceeded => "https://iana.org/assignments/http-problem-types#quota-exceeded",
            Self::TemporaryReducedCapacity => {
                "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity"
            }
            Self::AboutBlank => "about:blank",
        }
    }

    /// The title of a body with this status: that of the type, or where it is `about:blank` the
    /// phrase of the status.
    pub fn title_at(self, status: u16) -> &'static str {
        let phrase = http::StatusCode::from_u16(status).ok().and_then(|status| status.canonical_reason());
        phrase.filter(|_| self == Self::AboutBlank).unwrap_or(self.title())
    }

    /// The title, the same for every problem of this type.
    pub const fn title(self) -> &'static str {
        match self {
            Self::QuotaExceeded => "Quota Exceeded",
            Self::TemporaryReducedCapacity => "Temporary Reduced Capacity",
            Self::AboutBlank => "Bad Request",
        }
    }
}

/// How the caller of a refused request may retry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetryKind {
    /// Come back at the instant that is named.
    At,
    /// Come back later, and less often each time.
    Backoff,
    /// Not come back with the same request.
    Never,
}

impl RetryKind {
    /// The name in bodies.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::At => "at",
            Self::Backoff => "backoff",
            Self::Never => "never",
        }
    }
}

impl From<tidegate_core::Retry> for RetryKind {
    fn from(retry: tidegate_core::Retry) -> Self {
        match retry {
            tidegate_core::Retry::At(_) => Self::At,
            tidegate_core::Retry::Backoff => Self::Backoff,
            tidegate_core::Retry::Never => Self::Never,
        }
    }
}

impl Meaning {
    /// The meaning of `reason`.
    pub const fn from_reason(reason: Reason) -> Self {
        use {GrpcCode as Grpc, ProblemType as Problem, RetryKind as Retry};
        let (status, grpc, problem, retry) = match reason {
            Reason::RateExceeded
            | Reason::QuotaExceeded
            | Reason::Blocked
            | Reason::TableThroughputExceeded
            | Reason::AccountThroughputExceeded
            | Reason::KeyRangeThroughputExceeded
            | Reason::OnDemandMaximumExceeded => {
                (429, Grpc::ResourceExhausted, Problem::QuotaExceeded, Retry::At)
            }
            Reason::ConcurrencyExceeded => {
                (429, Grpc::ResourceExhausted, Problem::QuotaExceeded, Retry::Backoff)
            }
            Reason::AttributeMissing => (400, Grpc::InvalidArgument, Problem::AboutBlank, Retry::Never),
            Reason::CostExceedsLimit => (429, Grpc::ResourceExhausted, Problem::QuotaExceeded, Retry::Never),
            Reason::NodeSaturated
            | Reason::ReplicaSaturated
            | Reason::Migrating
            | Reason::Deferred
            | Reason::FeatureDisabled
            | Reason::StoreUnavailable
            | Reason::TableFull => (503, Grpc::Unavailable, Problem::TemporaryReducedCapacity, Retry::At),
            Reason::OverloadShed | Reason::QueueFull => {
                (503, Grpc::Unavailable, Problem::TemporaryReducedCapacity, Retry::Backoff)
            }
            Reason::DeadlineUnmeetable => {
                (503, Grpc::DeadlineExceeded, Problem::TemporaryReducedCapacity, Retry::Never)
            }
        };
        Self { status, grpc, problem, retry }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table of DESIGN section 7, written as it stands there.
    const TABLE: &str = "
        rate_exceeded 429 8 quota-exceeded at
        quota_exceeded 429 8 quota-exceeded at
        concurrency_exceeded 429 8 quota-exceeded backoff
        blocked 429 8 quota-exceeded at
        attribute_missing 400 3 about:blank never
        cost_exceeds_limit 429 8 quota-exceeded never
        table_throughput_exceeded 429 8 quota-exceeded at
        account_throughput_exceeded 429 8 quota-exceeded at
        key_range_throughput_exceeded 429 8 quota-exceeded at
        on_demand_maximum_exceeded 429 8 quota-exceeded at
        node_saturated 503 14 temporary-reduced-capacity at
        replica_saturated 503 14 temporary-reduced-capacity at
        migrating 503 14 temporary-reduced-capacity at
        overload_shed 503 14 temporary-reduced-capacity backoff
        queue_full 503 14 temporary-reduced-capacity backoff
        deferred 503 14 temporary-reduced-capacity at
        feature_disabled 503 14 temporary-reduced-capacity at
        deadline_unmeetable 503 4 temporary-reduced-capacity never
        store_unavailable 503 14 temporary-reduced-capacity at
        table_full 503 14 temporary-reduced-capacity at
    ";

    #[test]
    fn every_reason_means_what_the_published_table_says() {
        let rows: Vec<&str> = TABLE.lines().map(str::trim).filter(|row| !row.is_empty()).collect();
        assert_eq!(rows.len(), Reason::ALL.len());
        for (reason, row) in Reason::ALL.into_iter().zip(rows) {
            let Meaning { status, grpc, problem, retry } = Meaning::from_reason(reason);
            let kind = problem.uri().rsplit('#').next().unwrap();
            assert_eq!(format!("{reason} {status} {} {kind} {}", grpc as u8, retry.as_str()), row);
        }
    }
}

//! Why a scenario cannot be simulated.

/// A scenario that cannot be simulated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OverloadScenarioError {
    /// A number is out of range.
    #[error("{what} is {value}; use {range}")]
    OutOfRange {
        /// The setting.
        what: String,
        /// Its value.
        value: String,
        /// The values that may be used.
        range: &'static str,
    },
    /// There is nothing to simulate.
    #[error("a scenario needs at least one service, one client and one design")]
    Empty,
    /// A client calls a service that does not exist.
    #[error("client \"{client}\" calls service {service}, and there are {services}")]
    NoService {
        /// The client.
        client: String,
        /// The position of the service.
        service: usize,
        /// The number of services.
        services: usize,
    },
    /// A client names a feature that does not exist.
    #[error("client \"{client}\" names feature \"{feature}\", which is not among the features: {known}")]
    NoFeature {
        /// The client.
        client: String,
        /// The feature.
        feature: String,
        /// The features that there are.
        known: String,
    },
    /// The overload plane refuses the services.
    #[error("the overload plane refuses the services: {0}")]
    Plane(String),
    /// The run would have too many requests.
    #[error(
        "about {requests} requests under each design are too many; lower the rates or the length below {max}"
    )]
    TooMany {
        /// The requests of one run under one design.
        requests: u64,
        /// The most there may be.
        max: u64,
    },
}

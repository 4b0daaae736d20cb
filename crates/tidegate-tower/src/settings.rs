//! The settings that all services of a layer share.

use core::time::Duration;
use std::sync::Arc;

use bytes::Bytes;
use http::Response;
use http::header::HeaderName;
use tidegate_core::{Class, Cost, Refusal};
use tidegate_driver::Driver;
use tidegate_engine::Outcome;
use tidegate_wire::headers::OlderHeaders;

use crate::extract::{Extract, Head};

pub(crate) type CostOf = Arc<dyn Fn(&Head<'_>) -> Cost + Send + Sync>;
pub(crate) type TimeoutOf = Arc<dyn Fn(&Head<'_>) -> Option<Duration> + Send + Sync>;
pub(crate) type OnRefusal = Arc<dyn Fn(&Refusal, Response<Bytes>) -> Response<Bytes> + Send + Sync>;
pub(crate) type OnSettled = Arc<dyn Fn(Outcome) + Send + Sync>;

/// The settings that all services of a layer share.
#[derive(Clone)]
pub(crate) struct Settings {
    pub(crate) driver: Driver,
    pub(crate) namespace: Arc<str>,
    /// The resource that its requests are served by; `None`: the default resource.
    pub(crate) resource: Option<Arc<str>>,
    pub(crate) attributes: Vec<(Box<str>, Arc<dyn Extract>)>,
    pub(crate) tenant: Option<Arc<dyn Extract>>,
    pub(crate) feature: Option<Arc<dyn Extract>>,
    pub(crate) class: Option<Arc<dyn Extract>>,
    /// `None`: the header `tidegate-ticket`.
    pub(crate) ticket: Option<Arc<dyn Extract>>,
    pub(crate) operation: Option<Arc<dyn Extract>>,
    pub(crate) cost: Option<CostOf>,
    pub(crate) timeout: Option<TimeoutOf>,
    pub(crate) cost_header: Option<HeaderName>,
    pub(crate) older: OlderHeaders,
    pub(crate) on_refusal: Option<OnRefusal>,
    pub(crate) on_settled: Option<OnSettled>,
    /// How long a request of each class may wait, in the order of `Class::ALL`.
    pub(crate) waits: [Duration; Class::ALL.len()],
}

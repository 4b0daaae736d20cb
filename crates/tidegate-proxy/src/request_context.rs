//! The context of one proxied request: its hold, its counters and its access log record.
//!
//! The context lives as long as the request: while it is decided, while an upstream works on it,
//! and in the body of the answer until that has ended or is dropped. Dropping the context settles
//! the hold, so no exit has to.

use core::future::pending;
use core::sync::atomic::Ordering;
use core::time::Duration;
use std::sync::Arc;

use http::HeaderMap;
use tidegate_driver::{Cancellation, Hold};
use tidegate_engine::{CancellableWork, Completion, Outcome, Permit, Units};
use tidegate_net::connections::ConnectionActivity;
use tidegate_wire::true_units::TrueUnits;
use tokio::time::Instant;

use crate::metrics::RouteCounts;
use crate::proxy_context::ProxyContext;
use crate::request_body::RequestBody;
use crate::response_cost::{CostReading, ResponseCost};
use crate::response_end::ResponseEnd;

/// Counts a request as active on its connection, until this is dropped.
#[derive(Debug)]
pub(crate) struct ActiveRequest(Arc<ConnectionActivity>);

impl ActiveRequest {
    pub(crate) fn new(line: Arc<ConnectionActivity>) -> Self {
        line.request_started();
        Self(line)
    }
}

impl ActiveRequest {
    /// The connection it came on.
    pub(crate) fn line(&self) -> Arc<ConnectionActivity> {
        Arc::clone(&self.0)
    }
}

impl Drop for ActiveRequest {
    fn drop(&mut self) {
        self.0.request_finished();
    }
}

/// The hold of a request, counted as in flight until it is settled; dropping it settles it.
pub(crate) struct Held {
    proxy: Arc<ProxyContext>,
    hold: Option<Hold>,
}

impl Held {
    pub(crate) fn new(proxy: Arc<ProxyContext>, permit: Permit) -> Self {
        proxy.metrics.in_flight.fetch_add(1, Ordering::Relaxed);
        let hold = Hold::new(&proxy.driver, permit);
        Self { proxy, hold: Some(hold) }
    }

    /// The head of the answer has come, with this status. A stream gives its place back.
    pub(crate) fn head_arrived(&mut self, status: u16) {
        if let Some(hold) = &mut self.hold {
            hold.answer_begun_with(status);
        }
    }

    /// Settles the hold; the second time nothing happens.
    pub(crate) fn settle(&mut self, completion: Completion) {
        let Some(hold) = self.hold.take() else { return };
        self.proxy.metrics.in_flight.fetch_sub(1, Ordering::Relaxed);
        hold.settle(completion);
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.settle(Outcome::Abandoned.into());
    }
}

/// The end of a request whose feature cancels its work when it is switched off.
pub(crate) struct RequestCancellation {
    pub(crate) work: CancellableWork,
    /// Ends when the request is to be cancelled. Not polled again after that.
    pub(crate) ended: Cancellation,
    /// Whether the caller wants a page for people.
    pub(crate) wants_page: bool,
}

/// The context of one request.
pub(crate) struct RequestContext {
    /// Counted as active on its connection until all of it is dropped.
    pub(crate) active: ActiveRequest,
    pub(crate) held: Option<Held>,
    pub(crate) counts: Arc<RouteCounts>,
    pub(crate) record: AccessLogRecord,
    /// The body of the request, if the true cost depends on its length.
    pub(crate) upload: Option<RequestBody>,
    /// The true cost, as far as the answer has said it.
    pub(crate) response_cost: ResponseCost,
    /// Whether the route takes the true cost from answers, and one has come.
    pub(crate) reads_cost: bool,
    /// Bytes of body that weigh one unit, and the units of every request, where the body's length
    /// was not known.
    pub(crate) measured: Option<(u64, u64)>,
    /// The capacity units that the access truly took, if the answer has said them.
    pub(crate) true_units: Option<TrueUnits>,
    /// The headers with the allowances of the limits.
    pub(crate) allowances: HeaderMap,
    /// The end of the request by its feature, if that cancels its work.
    pub(crate) cancellation: Option<RequestCancellation>,
    /// Whether the connection became a tunnel, whose length says nothing about the upstream.
    pub(crate) is_tunnel: bool,
    ended: Option<ResponseEnd>,
}

/// The line of the access log about one request.
#[derive(Debug)]
pub(crate) struct AccessLogRecord {
    pub(crate) started: Instant,
    pub(crate) method: http::Method,
    pub(crate) path: Option<Box<str>>,
    pub(crate) client: Option<std::net::IpAddr>,
    pub(crate) status: u16,
    pub(crate) decision: &'static str,
    pub(crate) waited: Duration,
    pub(crate) upstream: Option<Duration>,
    /// When its caller stops waiting, if it says so.
    pub(crate) until: Option<Instant>,
    /// Whether a line is written.
    pub(crate) is_wanted: bool,
}

impl RequestContext {
    pub(crate) fn new(active: ActiveRequest, counts: Arc<RouteCounts>, record: AccessLogRecord) -> Self {
        Self {
            active,
            held: None,
            counts,
            record,
            upload: None,
            response_cost: ResponseCost::Unsaid,
            reads_cost: false,
            measured: None,
            true_units: None,
            allowances: HeaderMap::new(),
            cancellation: None,
            is_tunnel: false,
            ended: None,
        }
    }

    /// Waits until the feature of the request cancels its work; for ever if it does not.
    pub(crate) async fn cancelled(cancellation: &mut Option<RequestCancellation>) {
        match cancellation {
            Some(cancellation) => (&mut cancellation.ended).await,
            None => pending().await,
        }
    }

    /// Settles the hold; the first ending counts.
    pub(crate) fn end(&mut self, ending: ResponseEnd) {
        if self.ended.is_some() {
            return;
        }
        self.ended = Some(ending);
        let completion = self.completion(ending);
        if let Some(held) = &mut self.held {
            held.settle(completion);
        }
        if ending != ResponseEnd::Whole {
            self.counts.ended_early(ending.as_str());
        }
        if self.reads_cost {
            let is_said = self.response_cost.units().is_some();
            self.counts.cost_read(if is_said { CostReading::Read } else { CostReading::Absent });
        }
    }

    fn completion(&self, ending: ResponseEnd) -> Completion {
        let outcome = match ending {
            ResponseEnd::Abandoned | ResponseEnd::Cancelled => Outcome::Abandoned,
            ResponseEnd::Whole if self.record.status < 500 => Outcome::Succeeded,
            ResponseEnd::Whole | ResponseEnd::Broken | ResponseEnd::Late => Outcome::Failed,
        };
        let mut completion = Completion::from(outcome);
        completion.true_cost = self.measured_cost();
        completion.true_units =
            self.true_units.map(|units| Units::from_thousandths(units.as_thousandths().into()));
        completion.status = Some(self.record.status).filter(|status| *status > 0);
        if ending == ResponseEnd::Late {
            completion = completion.timed_out();
        }
        if self.is_tunnel || ending == ResponseEnd::Cancelled {
            completion = completion.unsampled();
        }
        completion
    }

    /// The true cost, as the upstream reported it or as the length of the body says.
    fn measured_cost(&self) -> Option<u64> {
        let by_length = self.measured.map(|(bytes, units)| {
            let sent = self.upload.as_ref().and_then(RequestBody::seen).map_or(0, |seen| seen.bytes);
            units.saturating_add(sent.div_ceil(bytes.max(1)))
        });
        self.response_cost.units().or(by_length)
    }
}

impl Drop for RequestContext {
    fn drop(&mut self) {
        self.end(ResponseEnd::Abandoned);
        let record = &mut self.record;
        if record.status == 0 {
            // The client was gone before it was answered; nginx uses this status for it.
            record.status = 499;
        }
        self.counts.answered(record.status);
        if record.is_wanted {
            tracing::info!(
                target: "tidegate::access",
                route = self.counts.route(),
                method = %record.method,
                path = record.path.as_deref().unwrap_or(""),
                client = record.client.map(tracing::field::display),
                status = record.status,
                decision = record.decision,
                ending = self.ended.map_or("", ResponseEnd::as_str),
                took_ms = record.started.elapsed().as_secs_f64() * 1e3,
                waited_ms = record.waited.as_secs_f64() * 1e3,
                upstream_ms = record.upstream.map(|took| took.as_secs_f64() * 1e3),
                "answered"
            );
        }
    }
}

//! Envoy's rate limit quota service: a task for each stream, between its messages and the engine.
//!
//! The head of the call authenticates the caller, the domain of the first report names the
//! namespace. From then on the task waits for whatever comes first: a report, actions of the
//! engine, the end of a delivery, another policy, a drain, or one of its deadlines. An answer is
//! made only when the one before it has been taken, so that nothing queues up: what changes
//! meanwhile is in the engine, and in the next answer.

mod clock_alarm;
mod quota_metrics;
mod refusal_lines;
mod report_rate;
mod report_reader;
mod stream_end;
mod stream_orders;

use core::future::poll_fn;
use core::task::{Context, Poll};
use core::time::Duration;
use std::borrow::Cow;
use std::sync::Arc;

use http::header::CONTENT_TYPE;
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Response};
use hyper::body::Incoming;
use tidegate_core::lease::TAKEN_WITHIN;
use tidegate_engine::{Action, BucketAction, BucketUsage, NotHeld, RemotePeer, RemoteStream};
use tidegate_net::connections::{
    AnswerDelivery, Buffered, ConnectionActivity, DeliveredBody, DeliveryEnd, MessageSender, STREAM_BYTES,
};
use tidegate_policy::policy::authorization::Verb;
use tidegate_wire::envoy::BadRequest;
use tidegate_wire::envoy::rlqs::{self, Assignment, ParsedReport};
use tidegate_wire::{Fault, FaultCode};
use tokio::sync::{oneshot, watch};
use tokio::time::{Instant, sleep_until, timeout, timeout_at};
use tonic::body::Body;

use super::call_faults::{hold_stream, no_room, status_of};
use super::counts::CalledService;
use super::server::{GrpcServer, GrpcState};
use crate::authorization::{AuthenticationError, Caller, Credentials};
use crate::context::{DaemonContext, RequestScope};
use crate::in_force::InForce;
use crate::panics::caught;
use crate::protocol::Protocol;
use crate::records::audit::network;
use clock_alarm::ClockAlarm;
pub(super) use quota_metrics::QuotaMetrics;
pub(super) use refusal_lines::{RefusalLines, RefusedStream};
use report_rate::ReportRate;
use report_reader::{MESSAGE_BYTES_MAX, RawReport, ReportReader, ReportsEnd};
use stream_end::{EndCause, StreamEnd};
use stream_orders::StreamOrder;
pub(super) use stream_orders::StreamOrders;

/// The metadata by which an Envoy names itself.
const NAME: &str = "x-tidegate-envoy";

/// The longest name of an Envoy in bytes.
const NAME_BYTES_MAX: usize = 128;

/// How often the credentials of a stream are looked up although nothing comes on it.
const CHECK_EVERY: Duration = Duration::from_secs(5);

/// How soon the engine is looked at again at the earliest, when it says itself that it is to be.
const LOOK_MIN: Duration = Duration::from_millis(1);

/// Begins a stream; the head of its answer.
pub(super) fn begin(
    server: &GrpcServer,
    line: &Arc<ConnectionActivity>,
    names: &Arc<[String]>,
    parts: &Parts,
    incoming: Incoming,
) -> Result<Response<DeliveredBody<Body>>, Fault> {
    let name = name_of(&parts.headers, line)?;
    let held = hold_stream(line)?;
    let (sender, body) = DeliveredBody::of_messages();
    let now = Instant::now();
    let stream = QuotaStream {
        daemon: Arc::clone(&server.daemon),
        state: Arc::clone(&server.state),
        credentials: Credentials::from_headers(names, &parts.headers),
        name,
        reader: ReportReader::new(incoming, line),
        rate: ReportRate::new(now),
        orders: server.state.orders.listen(),
        alarm: ClockAlarm::default(),
        remote: None,
        delivering: None,
        last_report: now,
        checked: now,
        held,
        under_way: UnderWay::new(Arc::clone(line)),
    };
    server.state.quota_metrics.began();
    tokio::spawn(stream.run(sender));
    let mut response = Response::new(body);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    Ok(response)
}

/// The name of an Envoy: what it calls itself, otherwise its address.
fn name_of(headers: &HeaderMap, line: &ConnectionActivity) -> Result<String, Fault> {
    let Some(name) = headers.get(NAME) else {
        return Ok(line.peer_address().map_or_else(|| "unix".to_owned(), |address| address.to_string()));
    };
    let is_visible = name.as_bytes().iter().all(u8::is_ascii_graphic);
    match name.to_str() {
        Ok(name) if is_visible && (1..=NAME_BYTES_MAX).contains(&name.len()) => Ok(name.to_owned()),
        _ => {
            let fix = format!("send 1 to {NAME_BYTES_MAX} visible characters of ASCII, or leave it out");
            Err(Fault::new(FaultCode::MalformedBody, format_args!("{NAME} is no name")).fix(fix))
        }
    }
}

/// The connection of a stream is in use until this is dropped.
#[derive(Debug)]
struct UnderWay(Arc<ConnectionActivity>);

impl UnderWay {
    fn new(line: Arc<ConnectionActivity>) -> Self {
        line.request_started();
        Self(line)
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.request_finished();
    }
}

/// One open stream.
struct QuotaStream {
    daemon: Arc<DaemonContext>,
    state: Arc<GrpcState>,
    credentials: Credentials,
    /// The name of the Envoy.
    name: String,
    reader: ReportReader,
    rate: ReportRate,
    orders: watch::Receiver<StreamOrder>,
    alarm: ClockAlarm,
    /// The engine's side, once the first report has named the namespace.
    remote: Option<RemoteNamespace>,
    /// The answer that is on its way.
    delivering: Option<AnswerOnItsWay>,
    last_report: Instant,
    /// When the credentials were looked up last.
    checked: Instant,
    held: Buffered,
    under_way: UnderWay,
}

/// A namespace and its stream in the engine.
struct RemoteNamespace {
    name: String,
    stream: RemoteStream,
}

/// An answer that the client has not taken.
struct AnswerOnItsWay {
    end: oneshot::Receiver<DeliveryEnd>,
    until: Instant,
}

impl AnswerOnItsWay {
    async fn taken(&mut self) -> DeliveryEnd {
        // The sender is dropped by no one but the delivery, which says its end.
        (&mut self.end).await.unwrap_or(DeliveryEnd::Undelivered)
    }
}

/// The event that a stream was waiting for.
enum StreamWake {
    Gone,
    Ordered,
    Taken(DeliveryEnd),
    Report(Result<RawReport, ReportsEnd>),
    Actions(Vec<BucketAction>),
    Deadline,
}

impl QuotaStream {
    /// Serves the stream to its end, and says how it ended.
    async fn run(mut self, sender: MessageSender) {
        let daemon = Arc::clone(&self.daemon);
        let end = caught(&daemon.metrics, self.serve(&sender)).await;
        let end = end.unwrap_or_else(|fault| StreamEnd::refused(status_of(&daemon, &fault)));
        // Closed before its client learns of it: a stream that takes over finds its holders free.
        let remote = self.remote.take().map(|remote| remote.name);
        let Self { state, name, delivering, under_way, .. } = self;
        let StreamEnd { cause, status } = end;
        tracing::debug!(
            target: "tidegate::rlqs", envoy = name, cause = cause.as_str(), status = ?status.code(), "a stream has ended"
        );
        if cause.is_error() {
            let (cause, peer) = (cause.as_str(), under_way.0.peer_address());
            let stream = RefusedStream {
                cause,
                envoy: Some(&name),
                namespace: remote.as_deref(),
                peer,
                status: &status,
            };
            state.refusal_lines.write(&stream, daemon.clock.now());
        }
        state.quota_metrics.ended(cause);
        state.metrics.answered(CalledService::RateLimitQuota, status.code());
        let is_taken = match (cause, delivering) {
            (EndCause::SlowReader, _) => false,
            (EndCause::Gone, _) | (_, None) => true,
            (_, Some(mut answer)) => timeout_at(answer.until, answer.taken()).await.is_ok(),
        };
        let mut trailers = HeaderMap::new();
        // An error: no status of ours has metadata that is no header.
        let _ = status.add_header(&mut trailers);
        if !is_taken || timeout(TAKEN_WITHIN, sender.end(trailers)).await.is_err() {
            under_way.0.close();
        }
    }

    async fn serve(&mut self, sender: &MessageSender) -> StreamEnd {
        if self.orders.borrow_and_update().is_ending {
            return StreamEnd::ok(EndCause::Drained);
        }
        loop {
            let step = match self.wake(sender).await {
                StreamWake::Gone | StreamWake::Taken(DeliveryEnd::Undelivered | DeliveryEnd::Reset) => {
                    Err(StreamEnd::gone())
                }
                StreamWake::Ordered if self.orders.borrow_and_update().is_ending => {
                    Err(StreamEnd::ok(EndCause::Drained))
                }
                StreamWake::Ordered => self.check().map(drop),
                StreamWake::Taken(DeliveryEnd::Delivered) => self.taken(),
                StreamWake::Report(report) => self.take(report).await,
                StreamWake::Actions(actions) => self.send(sender, &actions),
                StreamWake::Deadline => self.meet_deadline(),
            };
            if let Err(end) = step {
                return end;
            }
        }
    }

    /// Waits for what comes first.
    async fn wake(&mut self, sender: &MessageSender) -> StreamWake {
        let deadline = self.deadline();
        let Self { daemon, reader, orders, alarm, remote, delivering, .. } = self;
        let is_free = delivering.is_none();
        let taken = async {
            match delivering {
                Some(answer) => answer.taken().await,
                None => core::future::pending().await,
            }
        };
        let actions = async {
            match remote {
                Some(remote) => poll_fn(|cx| poll_actions(daemon, remote, alarm, cx)).await,
                None => core::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = sender.gone() => StreamWake::Gone,
            _ = orders.changed() => StreamWake::Ordered,
            end = taken => StreamWake::Taken(end),
            () = sleep_until(deadline) => StreamWake::Deadline,
            report = reader.next() => StreamWake::Report(report),
            actions = actions, if is_free => StreamWake::Actions(actions),
        }
    }
}

impl QuotaStream {
    /// When the stream is to be looked at although nothing has come.
    fn deadline(&self) -> Instant {
        let late_message = self.reader.begun().map(|begun| begun + self.daemon.config.bounds.body_timeout);
        let late_answer = self.delivering.as_ref().map(|answer| answer.until);
        let others = [Some(self.silent_at()), late_message, late_answer];
        others.into_iter().flatten().fold(self.checked + CHECK_EVERY, Instant::min)
    }

    /// When a report should have come.
    fn silent_at(&self) -> Instant {
        let bounds = &self.daemon.config.bounds;
        self.last_report + if self.remote.is_some() { bounds.idle_timeout } else { bounds.body_timeout }
    }

    fn meet_deadline(&mut self) -> Result<(), StreamEnd> {
        let now = Instant::now();
        if self.delivering.as_ref().is_some_and(|answer| answer.until <= now) {
            return Err(StreamEnd::slow_reader());
        }
        let message_within = self.daemon.config.bounds.body_timeout;
        if self.reader.begun().is_some_and(|begun| begun + message_within <= now) {
            return Err(self.silent("a message has not arrived in time"));
        }
        if self.silent_at() <= now {
            return Err(self.silent("no report has come in time"));
        }
        if self.checked + CHECK_EVERY <= now { self.check().map(drop) } else { Ok(()) }
    }

    fn silent(&self, detail: &str) -> StreamEnd {
        let fault = Fault::new(FaultCode::BodyTimeout, detail).fix("report every 5 s, as Envoy does");
        StreamEnd { cause: EndCause::Silent, status: status_of(&self.daemon, &fault) }
    }

    fn refused(&self, fault: &Fault) -> StreamEnd {
        StreamEnd::refused(status_of(&self.daemon, fault))
    }

    fn bad(&self, problem: &BadRequest) -> StreamEnd {
        self.refused(&Fault::new(FaultCode::MalformedBody, problem))
    }

    /// Holds memory for so many bytes beside those of the stream.
    fn hold(&mut self, bytes: usize) -> Result<(), StreamEnd> {
        self.held.resize(STREAM_BYTES + bytes).map_err(|_| self.refused(&no_room()))
    }

    /// The caller, which may still have the stream; the namespace is still there.
    fn check(&mut self) -> Result<Caller, StreamEnd> {
        self.checked = Instant::now();
        let in_force = self.daemon.in_force.load_full();
        let Some(remote) = &self.remote else {
            return self.permitted(&in_force, None);
        };
        let caller = self.permitted(&in_force, Some(&remote.name))?;
        if in_force.engine.limits(&remote.name).is_err() {
            let scope = RequestScope { daemon: &self.daemon, in_force: &in_force };
            return Err(self.refused(&scope.unknown_namespace(&remote.name)));
        }
        Ok(caller)
    }

    /// The caller, which may have a part of the limits of this namespace.
    fn permitted(&self, in_force: &InForce, namespace: Option<&str>) -> Result<Caller, StreamEnd> {
        let caller = self.credentials.caller(in_force.config.authorization.as_ref());
        let caller = caller.map_err(|error| {
            if error != AuthenticationError::Nothing {
                let now = self.daemon.clock.now();
                self.daemon.audit.failed_login(Protocol::Rls, self.under_way.0.peer_address(), now);
            }
            error.fault()
        });
        let permitted = caller.and_then(|caller| {
            match namespace {
                Some(namespace) => caller.may(Verb::Check, namespace)?,
                None => caller.may_somewhere(Verb::Check)?,
            }
            Ok(caller)
        });
        permitted.map_err(|mut fault| {
            if self.remote.is_some() {
                fault.detail.push_str("; the assignments of this stream end by themselves");
            }
            self.refused(&fault)
        })
    }

    /// The client has read the last answer.
    fn taken(&mut self) -> Result<(), StreamEnd> {
        self.delivering = None;
        if let Some(remote) = &self.remote {
            let engine = &self.daemon.in_force.load().engine;
            engine.taken_remote(&remote.stream, self.daemon.clock.now());
        }
        self.hold(0)
    }

    /// Takes in what has come.
    async fn take(&mut self, report: Result<RawReport, ReportsEnd>) -> Result<(), StreamEnd> {
        let report = report.map_err(|end| self.end_of_reports(&end))?;
        self.last_report = Instant::now();
        if !self.rate.take(report.length, self.last_report) {
            return Err(StreamEnd::too_many_reports());
        }
        self.state.quota_metrics.reports.inc();
        if report.is_cut() {
            self.state.quota_metrics.reports_cut.inc();
        }
        let (message, unreadable) =
            rlqs::decode(&report.bytes, report.is_cut()).map_err(|problem| self.bad(&problem))?;
        let mut parsed = ParsedReport::read(&message).map_err(|problem| self.bad(&problem))?;
        parsed.ignored = parsed.ignored.saturating_add(unreadable);
        let caller = match (&self.remote, parsed.domain) {
            (None, None) => return Err(self.bad(&rlqs::domain_is_missing())),
            (None, Some(domain)) => {
                let caller = self.permitted(&self.daemon.in_force.load_full(), Some(domain))?;
                // Without a shared store limits are lent from the first stream on. A namespace that
                // there is not is told of below.
                let _ = self.daemon.lend(domain).await;
                self.open(&self.daemon.in_force.load_full(), domain, &caller)?;
                caller
            }
            (Some(remote), Some(domain)) if domain != remote.name => {
                return Err(self.bad(&rlqs::domain_has_changed(&remote.name, domain)));
            }
            (Some(_), _) => self.check()?,
        };
        // Only now: the engine before the limits were lent would find none that an Envoy can hold.
        let in_force = self.daemon.in_force.load_full();
        self.report(&in_force, &parsed);
        self.meter(&in_force, &parsed, &caller);
        Ok(())
    }

    fn end_of_reports(&self, end: &ReportsEnd) -> StreamEnd {
        let (detail, fix) = match end {
            ReportsEnd::Closed => return StreamEnd::ok(EndCause::Closed),
            ReportsEnd::NoRoom => return self.refused(&no_room()),
            ReportsEnd::Broken => return StreamEnd::gone(),
            ReportsEnd::Compressed => {
                let fault = Fault::new(FaultCode::NotAvailable, "compressed messages are not read");
                return self.refused(&fault.fix("send them as they are"));
            }
            ReportsEnd::TooLong(length) => {
                (format!("a report has {length} bytes; it takes {MESSAGE_BYTES_MAX}"), "report fewer buckets")
            }
        };
        self.refused(&Fault::new(FaultCode::MalformedBody, detail).fix(fix))
    }

    /// Opens the stream in the engine for the namespace of this name.
    fn open(&mut self, in_force: &InForce, domain: &str, caller: &Caller) -> Result<(), StreamEnd> {
        let now = self.daemon.clock.now();
        let address = || {
            let address = self.under_way.0.peer_address().map(network);
            Cow::from(address.map_or_else(|| "unix".to_owned(), |address| address.to_string()))
        };
        let owner = caller.grant(Verb::Check, domain).map_or_else(address, Cow::from);
        let peer = RemotePeer::new(&self.name, &owner);
        let stream = in_force.engine.open_remote(domain, peer, now).map_err(|error| {
            let scope = RequestScope { daemon: &self.daemon, in_force };
            self.refused(&scope.request_fault(&error, now))
        })?;
        self.checked = self.last_report;
        self.remote = Some(RemoteNamespace { name: domain.to_owned(), stream });
        Ok(())
    }

    /// Reports to the engine.
    fn report(&self, in_force: &InForce, parsed: &ParsedReport<'_>) {
        let Some(remote) = &self.remote else { return };
        let usages = parsed.buckets.iter().map(|bucket| BucketUsage {
            attributes: &bucket.attributes,
            allowed: bucket.allowed,
            denied: bucket.denied,
            elapsed: bucket.elapsed,
        });
        let usages: Vec<BucketUsage<'_>> = usages.collect();
        let taken = in_force.engine.report_remote(&remote.stream, &usages, self.daemon.clock.now());
        let ignored = parsed.ignored.saturating_add(taken.ignored);
        self.state.quota_metrics.buckets_ignored.inc_by(ignored as u64);
        for NotHeld { limit, why, is_full, .. } in &taken.not_held {
            if *is_full {
                tracing::warn!(
                    target: "tidegate::rlqs",
                    namespace = remote.name,
                    limit,
                    why,
                    "too many Envoys hold a part of a key, so `no_assignment_behavior` of a further bucket decides"
                );
                continue;
            }
            tracing::warn!(
                target: "tidegate::rlqs",
                namespace = remote.name,
                limit,
                why,
                "no Envoy is assigned a part of this limit, so `no_assignment_behavior` of its buckets decides"
            );
        }
    }

    /// Counts what the Envoy has decided in the rows that its buckets name, those beyond a bound
    /// too.
    fn meter(&self, in_force: &InForce, parsed: &ParsedReport<'_>, caller: &Caller) {
        let Some(remote) = &self.remote else { return };
        let scope = RequestScope { daemon: &self.daemon, in_force };
        let now = self.daemon.clock.now();
        for bucket in &parsed.buckets {
            let request = scope.reported_request(&remote.name, &bucket.attributes, caller);
            in_force.engine.meter_reported(&request, bucket.allowed, bucket.denied, now);
        }
    }

    /// Sends the actions of the engine in one answer.
    fn send(&mut self, sender: &MessageSender, actions: &[BucketAction]) -> Result<(), StreamEnd> {
        if actions.is_empty() {
            return Ok(());
        }
        for one in actions {
            self.state.quota_metrics.sent(one.action);
        }
        let message = rlqs::framed(actions.iter().map(on_the_wire).collect());
        self.hold(message.len())?;
        let (told, end) = oneshot::channel();
        // An error: nobody waits for it any more.
        let delivery = AnswerDelivery::new(move |end| {
            let _ = told.send(end);
        });
        let delivery = delivery.until_read();
        sender.send(message, delivery).map_err(|_| StreamEnd::gone())?;
        self.delivering = Some(AnswerOnItsWay { end, until: Instant::now() + TAKEN_WITHIN });
        Ok(())
    }
}

/// The actions of the engine in force for a stream; none when it asked to be looked at again.
fn poll_actions(
    daemon: &DaemonContext,
    remote: &RemoteNamespace,
    alarm: &mut ClockAlarm,
    cx: &mut Context<'_>,
) -> Poll<Vec<BucketAction>> {
    let (in_force, now) = (daemon.in_force.load(), daemon.clock.now());
    let actions = in_force.engine.poll_remote(&remote.stream, cx, now);
    daemon.driver.renew_leases();
    if actions.is_ready() {
        return actions;
    }
    let Some(look) = in_force.engine.next_look_remote(&remote.stream) else { return Poll::Pending };
    // It has been done just now.
    let at = look.max(now.saturating_add(LOOK_MIN));
    alarm.poll(&*daemon.clock, at, cx).map(|()| Vec::new())
}

fn on_the_wire(one: &BucketAction) -> rlqs::BucketAction {
    let bucket = one.bucket.iter().map(|(name, value)| (&**name, &**value));
    match one.action {
        Action::Assign { max_tokens, tokens_per_fill, fill_interval, ttl } => {
            let tokens = Assignment::Tokens { max_tokens, tokens_per_fill, fill_interval };
            rlqs::assign(bucket, tokens, ttl)
        }
        Action::Deny { ttl } => rlqs::assign(bucket, Assignment::DenyAll, ttl),
        Action::Abandon => rlqs::abandon(bucket),
    }
}

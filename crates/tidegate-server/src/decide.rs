//! Deciding a request: the one place where protocols call the engine.
//!
//! Nearly every request is decided without waiting for anything, so that part is a plain function.
//! Only a request that must wait goes on as a future of its own, on the heap, which the driver
//! drives.

use core::borrow::Borrow;
use core::time::Duration;
use std::sync::atomic::Ordering;

use tidegate_core::{Refusal, RefusalView, Timestamp};
use tidegate_driver::{PendingRequest, UntoldPermit};
use tidegate_engine::{
    Asking, Decision, LimitReport, Outcome, PeekReport, Permit, PermitId, Progress, Request, RequestError,
    Settled, Step, WaitingConnection,
};
use tidegate_net::connections::{
    AnswerDelivery, ConnectionActivity, DeliveryEnd, SharedConnectionBytes, WaitingBytes,
};
use tidegate_net::reply::Reply;
use tidegate_policy::grammar::ValueSource;
use tidegate_proxy::NotedDecision;
use tidegate_wire::Fault;
use tidegate_wire::answer::AccessUnits;
use tidegate_wire::headers::ShownFeature;

use crate::admin::access_explanation::access_units;
use crate::admitted_charges::AdmittedCharges;
use crate::api::terms::{Keep, Terms};
use crate::context::RequestScope;
use crate::engine_fault::engine_fault;
use crate::envoy::file_domains::DomainCheck;
use crate::metrics::NamespaceTable;
use crate::panics::PlantedPanic;
use crate::protocol::Protocol;
use crate::records::decisions::Asked;
use crate::records::refused_keys::RefusedCounter;

/// How far a request has come without waiting.
pub(crate) enum RequestProgress {
    /// It is answered.
    Done(Reply),
    /// It waits for the store, for a lease, or for files of envoyproxy/ratelimit.
    Wait(Waiting),
}

/// A request that waits, and how it goes on.
pub(crate) enum Waiting {
    /// It is not decided yet.
    Decision(Box<WaitingDecision>),
    /// It is admitted, and the store must remember its permit before it is answered.
    Permit(Box<WaitingPermit>),
    /// It only looks, at counters in the store.
    Peek(Box<WaitingPeek>),
    /// Files of envoyproxy/ratelimit decide it.
    Domain(Box<DomainCheck>),
}

/// A decision that was begun for a route. It keeps nothing of the request that it does not need:
/// its head and body are dropped before it waits.
pub(crate) struct BegunDecision {
    pub(crate) waiting: Waiting,
    pub(crate) namespace: Box<str>,
    pub(crate) resource: Option<Box<str>>,
    /// Whether it waits in a queue, so that a client that ends its output has left.
    pub(crate) is_in_queue: bool,
}

/// How far a route has come with a request.
pub(crate) enum RouteProgress {
    /// The request is answered.
    Answered(Reply),
    /// It waits, and nothing else of the request is needed.
    Waits(Box<BegunDecision>),
}

impl From<Waiting> for RequestProgress {
    fn from(waiting: Waiting) -> Self {
        Self::Wait(waiting)
    }
}

impl From<DomainCheck> for RequestProgress {
    fn from(check: DomainCheck) -> Self {
        Self::Wait(Waiting::Domain(Box::new(check)))
    }
}

pub(crate) struct WaitingDecision {
    asked: Asked<'static>,
    pending: PendingRequest,
    /// Whether it may wait for its turn.
    is_patient: bool,
    terms: Terms,
}

pub(crate) struct WaitingPermit {
    namespace: String,
    asking: Box<Asking<PermitId>>,
    limits: Vec<LimitReport>,
    access: Option<AccessUnits>,
    feature: Option<ShownFeature<'static>>,
    is_patient: bool,
    terms: Terms,
}

pub(crate) struct WaitingPeek {
    pub(crate) namespace: String,
    pub(crate) asking: Box<Asking<PeekReport>>,
    pub(crate) terms: Terms,
}

impl RequestScope<'_> {
    /// Decides and answers a request, as far as that needs no waiting.
    pub(crate) fn begin(&self, request: &Request<'_>, terms: Terms) -> Result<RequestProgress, Fault> {
        let now = terms.now;
        if let Some(files) = self.files_of(request.namespace) {
            return Ok(DomainCheck::new(files, request, false, terms)?.into());
        }
        match self.in_force.engine.admit(request, now).map_err(|error| self.request_fault(&error, now))? {
            Step::Decided(decision) => {
                let asked = Asked::borrowed(request, terms.style.protocol());
                self.conclude(&asked, decision, false, terms.now, terms)
            }
            Step::Ask(pending) => {
                let keeps_attributes = self.daemon.decisions.is_some();
                let asked = Asked::owned(request, terms.style.protocol(), keeps_attributes);
                let pending = self.daemon.driver.drive(pending);
                let is_patient = request.may_wait_until.is_some();
                Ok(Waiting::Decision(Box::new(WaitingDecision { asked, pending, is_patient, terms })).into())
            }
        }
    }

    /// The progress of a route whose decision was begun for a request of this resource and
    /// namespace, and may wait in a queue.
    pub(crate) fn route_progress(
        &self,
        progress: RequestProgress,
        (resource, namespace): (Option<&str>, &str),
        may_queue: bool,
    ) -> RouteProgress {
        match progress {
            RequestProgress::Done(reply) => {
                RouteProgress::Answered(self.with_load(reply, resource, namespace))
            }
            RequestProgress::Wait(waiting) => RouteProgress::Waits(Box::new(BegunDecision {
                waiting,
                namespace: namespace.into(),
                resource: resource.map(Into::into),
                is_in_queue: may_queue,
            })),
        }
    }

    /// Lets a request wait for so long on its connection, whose memory counts meanwhile together
    /// with `message_bytes` of the message that is kept.
    pub(crate) fn let_wait(
        &self,
        request: &mut Request<'_>,
        wait: Duration,
        line: &ConnectionActivity,
        message_bytes: usize,
        now: Timestamp,
    ) {
        request.may_wait_until = Some(now.saturating_add(wait));
        let WaitingBytes { own, connection } = line.waiting_bytes(self.daemon.config.bounds.header_bytes);
        request.waiting_bytes = own + message_bytes + self.logged_bytes(request);
        request.waiting_connection =
            connection.map(|SharedConnectionBytes { id, bytes }| WaitingConnection { id, bytes });
    }

    /// The bytes of the attributes that are copied for the decision log while a request waits.
    fn logged_bytes(&self, request: &Request<'_>) -> usize {
        let pairs = request.attributes.iter().filter(|_| self.daemon.decisions.is_some());
        pairs.map(|(name, value)| size_of::<[String; 2]>() + name.len() + value.len()).sum()
    }

    /// Brings what the request waits for, and answers.
    pub(crate) async fn end(&self, begun: Result<RequestProgress, Fault>) -> Result<Reply, Fault> {
        match begun? {
            RequestProgress::Done(reply) => Ok(reply),
            RequestProgress::Wait(waiting) => Box::pin(self.wait(waiting)).await,
        }
    }

    /// Brings what a request waits for until it is answered.
    pub(crate) async fn wait(&self, mut waiting: Waiting) -> Result<Reply, Fault> {
        loop {
            let begun = match waiting {
                Waiting::Decision(waiting) => {
                    let WaitingDecision { asked, pending, is_patient, terms } = *waiting;
                    let decision = pending.decided().await.decision;
                    self.conclude(&asked, decision, is_patient, terms.now, self.answered(terms))?
                }
                Waiting::Permit(waiting) => {
                    let WaitingPermit { namespace, asking, limits, access, feature, is_patient, terms } =
                        *waiting;
                    let kept = self.daemon.driver.keep(Progress::Ask(asking)).await;
                    let kept = kept.map_err(|error| engine_fault(&error, self.daemon.clock.now()))?;
                    let terms = self.answered(terms);
                    let charged = AdmittedCharges {
                        limits: &limits,
                        access,
                        feature: feature.as_ref(),
                        is_shadow_feature: false,
                    };
                    RequestProgress::Done(self.with_permit(&namespace, kept, charged, is_patient, terms))
                }
                Waiting::Domain(check) => RequestProgress::Done(self.check_domain(*check).await?),
                Waiting::Peek(waiting) => {
                    let WaitingPeek { namespace, asking, terms } = *waiting;
                    let peek = self.complete(Ok(Progress::Ask(asking))).await?;
                    RequestProgress::Done(self.peeked(&namespace, &peek, self.answered(terms)))
                }
            };
            waiting = match begun {
                RequestProgress::Done(reply) => return Ok(reply),
                RequestProgress::Wait(next) => next,
            };
        }
    }

    /// Decides a request for a caller that settles the permit. Dropping the future gives back what
    /// the request holds. Nothing is counted; see [`RequestScope::note`].
    pub(crate) async fn decide(&self, request: &Request<'_>) -> Result<Decision<'static>, RequestError> {
        self.daemon.driver.decide(&self.in_force.engine, request).await
    }

    /// Drives an operation to its end.
    pub(crate) async fn complete<T>(&self, begun: Result<Progress<T>, RequestError>) -> Result<T, Fault> {
        let fault = |error: RequestError| self.request_fault(&error, self.daemon.clock.now());
        self.daemon.driver.complete(begun.map_err(fault)?).await.map_err(fault)
    }

    /// The terms of a request whose decision took time: waits count from the answer.
    fn answered(&self, terms: Terms) -> Terms {
        Terms { now: self.daemon.clock.now(), ..terms }
    }

    /// Counts a decision about a request of `asked_at`, keeps its permit if the caller is to settle
    /// it, and makes the answer. A request that `has_waited` is cancelled if its answer does not
    /// reach the caller, whatever it holds.
    fn conclude(
        &self,
        asked: &Asked<'_>,
        decision: Decision<'_>,
        has_waited: bool,
        asked_at: Timestamp,
        terms: Terms,
    ) -> Result<RequestProgress, Fault> {
        let now = terms.now;
        let (permit, limits) = match self.note(asked, decision, asked_at) {
            NotedDecision::Admitted(permit, limits) => (permit, limits),
            NotedDecision::Refused(refusal) => {
                return Ok(RequestProgress::Done(self.refused(&refusal, terms)));
            }
        };
        let access = self.in_force.engine.access_charge(&permit, 0, now).map(access_units);
        let feature = self.shown_feature(&permit);
        let charged =
            AdmittedCharges { limits: &limits, access, feature: feature.as_ref(), is_shadow_feature: false };
        let expires = match terms.keep {
            Keep::Every(span) => Some(now.saturating_add(span)),
            Keep::Lent => permit.must_be_settled().then(|| self.permit_expiry(&permit, now)),
            Keep::Expiring => permit.expires_at(),
        };
        let Some(expires) = expires else {
            let mut reply = self.admitted(&asked.namespace, None, charged, terms);
            if has_waited {
                reply.body_mut().deliver(self.charge_delivery(permit, drop));
            }
            return Ok(RequestProgress::Done(reply));
        };
        let kept = self.in_force.engine.keep(permit, expires, now);
        Ok(match kept.map_err(|error| engine_fault(&error, now))? {
            Progress::Done(id) => {
                let kept = self.daemon.driver.untold(id);
                RequestProgress::Done(self.with_permit(&asked.namespace, kept, charged, has_waited, terms))
            }
            Progress::Ask(asking) => {
                let namespace = asked.namespace.clone().into_owned();
                let (feature, is_patient) = (feature.map(ShownFeature::into_owned), has_waited);
                let waiting = WaitingPermit { namespace, asking, limits, access, feature, is_patient, terms };
                Waiting::Permit(Box::new(waiting)).into()
            }
        })
    }

    /// The level of the feature that the request of a permit was granted, to be told to its caller.
    pub(crate) fn shown_feature(&self, permit: &Permit) -> Option<ShownFeature<'_>> {
        self.in_force
            .engine
            .granted_feature(permit)
            .map(|granted| ShownFeature::new(granted.name, granted.level))
    }

    /// The answer to an admitted request with a kept permit, which is settled if the answer does
    /// not reach the caller.
    fn with_permit(
        &self,
        namespace: &str,
        kept: UntoldPermit,
        charged: AdmittedCharges<'_>,
        has_waited: bool,
        terms: Terms,
    ) -> Reply {
        let mut reply = self.admitted(namespace, Some(kept.id()), charged, terms);
        let delivery = permit_delivery(kept);
        let delivery = match terms.keep {
            // The connections of a gateway end as it likes; they say nothing about its client.
            Keep::Expiring => delivery,
            Keep::Lent | Keep::Every(_) => delivery.watching_resets(self.in_force.engine.owner(namespace)),
        };
        reply.body_mut().deliver(if has_waited { delivery.after_wait() } else { delivery });
        reply
    }

    /// The delivery of an answer to a request that has waited and whose caller settles nothing: the
    /// permit goes to `delivered` once the answer is written, and is cancelled otherwise.
    pub(crate) fn charge_delivery(
        &self,
        permit: Permit,
        delivered: impl FnOnce(Permit) + Send + 'static,
    ) -> AnswerDelivery {
        let driver = self.daemon.driver.clone();
        let end = move |end| match end {
            DeliveryEnd::Undelivered => driver.settle(permit, Outcome::Cancelled),
            DeliveryEnd::Reset | DeliveryEnd::Delivered => delivered(permit),
        };
        AnswerDelivery::new(end).after_wait()
    }

    /// Counts the decision about a request of `now`, and logs it if decisions are logged.
    pub(crate) fn note(&self, asked: &Asked<'_>, decision: Decision<'_>, now: Timestamp) -> NotedDecision {
        match decision {
            Decision::Admit(permit) => {
                let limits = self.note_admitted(asked, &permit, now);
                NotedDecision::Admitted(permit, limits)
            }
            Decision::Refuse(refused) => {
                let refusal = refused.into_refusal();
                self.note_refusal(&self.in_force.metrics, asked, &refusal, now);
                NotedDecision::Refused(refusal)
            }
        }
    }

    /// Counts an admission, and logs it if admissions are logged; the reports of its limits.
    pub(crate) fn note_admitted(
        &self,
        asked: &Asked<'_>,
        permit: &Permit,
        now: Timestamp,
    ) -> Vec<LimitReport> {
        let limits = self.in_force.engine.statuses(permit);
        self.note_reports(&self.in_force.metrics, asked, &limits, now);
        limits
    }

    /// Counts a refusal in one of these series, and logs it if decisions are logged.
    pub(crate) fn note_refusal(
        &self,
        series: &NamespaceTable,
        asked: &Asked<'_>,
        refusal: &Refusal,
        now: Timestamp,
    ) {
        self.note_refusal_view(series, asked, (&refusal.view(), || refusal), now);
    }

    /// As [`Self::note_refusal`], of a refusal that is only put together for a line of a log.
    pub(crate) fn note_refusal_view<R: Borrow<Refusal>>(
        &self,
        series: &NamespaceTable,
        asked: &Asked<'_>,
        (view, refusal): (&RefusalView<'_>, impl Fn() -> R),
        now: Timestamp,
    ) {
        let took = self.took(now);
        series.refused(view, asked.protocol);
        self.note_refused_key(view, &refusal, asked.protocol, now);
        if let Some(decisions) = &self.daemon.decisions {
            decisions.refused(asked, self.ticket_entry(&asked.namespace), refusal().borrow(), now, took);
        }
    }

    /// Counts an admission in one of these series, and logs it if admissions are logged.
    pub(crate) fn note_reports(
        &self,
        series: &NamespaceTable,
        asked: &Asked<'_>,
        limits: &[LimitReport],
        now: Timestamp,
    ) {
        PlantedPanic::meet();
        let took = self.took(now);
        series.admitted(&asked.namespace, limits, asked.protocol);
        if let Some(decisions) = &self.daemon.decisions {
            decisions.admitted(asked, self.ticket_entry(&asked.namespace), limits, now, took);
        }
    }

    /// The attribute in which requests of a namespace show tickets, which no log shows; `None`
    /// while no resource sells any.
    fn ticket_entry(&self, namespace: &str) -> Option<&str> {
        let config = &self.in_force.config;
        match &config.claims.of_namespace(namespace).ticket {
            ValueSource::Entry(name) if config.planes.defers() => Some(name),
            _ => None,
        }
    }

    /// How long the decision about a request of `now` took.
    fn took(&self, now: Timestamp) -> Duration {
        // The clock of decisions, which stands still in tests.
        let took = self.daemon.clock.now().saturating_since(now);
        self.daemon.metrics.shared().decision_duration.observe(took);
        took
    }

    /// The instant until which a permit is kept: when its loans expire, or after the bound if they
    /// never do.
    pub(crate) fn permit_expiry(&self, permit: &Permit, now: Timestamp) -> Timestamp {
        permit.expires_at().unwrap_or_else(|| now.saturating_add(self.daemon.config.bounds.permit_expiry))
    }

    /// Remembers the key of a refusal among the most refused, and may write a line.
    /// The refusal is only put together for a line.
    pub(crate) fn note_refused_key<R: Borrow<Refusal>>(
        &self,
        view: &RefusalView<'_>,
        refusal: impl FnOnce() -> R,
        protocol: Protocol,
        now: Timestamp,
    ) {
        self.in_force.engine.note_blocked(view, now);
        let counter = RefusedCounter::new(view, &self.in_force.config.claims);
        self.note_refused_counter(&counter, refusal, protocol, now);
    }

    /// As [`Self::note_refused_key`], of the counter of a limit that blocks no key.
    pub(crate) fn note_refused_counter<R: Borrow<Refusal>>(
        &self,
        counter: &RefusedCounter<'_>,
        refusal: impl FnOnce() -> R,
        protocol: Protocol,
        now: Timestamp,
    ) {
        self.daemon.refused_keys.count(counter, now);
        let of = (counter.reason, counter.namespace);
        if !self.in_force.refusal_log.write(of, refusal, protocol, now) {
            self.daemon.metrics.shared().lines_suppressed.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Tells the store what a settled permit gives back. An error leaves it charged: less is
    /// admitted, never more.
    pub(crate) async fn finish(&self, settled: Settled) -> Result<(), Fault> {
        if settled.batches.is_empty() {
            return Ok(());
        }
        let sent = Box::pin(self.daemon.driver.send_settled(settled)).await;
        sent.map_err(|error| engine_fault(&RequestError::Store(error), self.daemon.clock.now()))
    }
}

/// The delivery of an answer with the name of a kept permit.
pub(crate) fn permit_delivery(kept: UntoldPermit) -> AnswerDelivery {
    AnswerDelivery::new(|end| match end {
        DeliveryEnd::Undelivered => drop(kept),
        // A loan is given back; the charges stay, as the caller may have begun its work.
        DeliveryEnd::Reset => kept.settle(Outcome::Abandoned),
        DeliveryEnd::Delivered => drop(kept.told()),
    })
}

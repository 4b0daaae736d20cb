//! Decisions for Envoy's rate limit service: each descriptor is a request, and the questions of one
//! call are admitted together or not at all.
//!
//! Envoy sends a charge after the response in the same message as a question before it. A
//! descriptor with a cost of its own is a charge: it is booked whether or not it fits. A descriptor
//! whose cost comes from the request, or is the default, is a question: a refusal leaves no trace.

use core::time::Duration;
use std::borrow::Cow;
use std::sync::{Mutex, PoisonError};

use smallvec::{SmallVec, smallvec};
use tidegate_core::algorithm::{Fixed, Verdict, WindowStart};
use tidegate_core::refusal::ScopeValues;
use tidegate_core::{
    Algorithm, CarriedLimit, CarriedStatus, Charging, Cost, Reason, Refusal, Retry, Text, Timestamp, Violated,
};
use tidegate_driver::Driver;
use tidegate_engine::{
    BATCH_REQUESTS_MAX, BatchError, Decision, GrantedFeature, LimitReport, Outcome as End, PeekReport,
    Permit, Request, RequestError, Step,
};
use tidegate_net::connections::{AnswerDelivery, ConnectionActivity};
use tidegate_policy::policy::authorization::Verb;
use tidegate_wire::answer::AccessUnits;
use tidegate_wire::envoy::rate_limit_descriptor::Entry;
use tidegate_wire::envoy::request::{DESCRIPTORS_MAX, OwnLimit};
use tidegate_wire::envoy::{
    Descriptor, Hits, Left, Outcome, ParsedRequest, RateLimitDescriptor, RateLimitRequest, RateLimitResponse,
    add_load, answer,
};
use tidegate_wire::headers::ShownFeature;
use tidegate_wire::operation::{WAIT_MS, wait_of_attribute};
use tidegate_wire::{Fault, FaultCode};

use crate::admin::access_explanation::access_units;
use crate::authorization::Caller;
use crate::claims::OwnClaims;
use crate::context::RequestScope;
use crate::engine_fault::engine_fault;
use crate::envoy::carried_keys::Hashes;
use crate::metrics::OVERRIDE;
use crate::protocol::Protocol;
use crate::records::decisions;

/// How much earlier than the caller gives up an answer that was held is sent, for its way back.
const WAY_BACK: Duration = Duration::from_millis(5);

/// How long an answer may be held.
#[derive(Clone, Copy)]
pub(super) struct AnswerHold<'a> {
    /// The connection of the call, of whose streams at most half are held.
    pub(super) line: &'a ConnectionActivity,
    /// How long the caller waits for the answer, as `grpc-timeout` says.
    pub(super) timeout: Option<Duration>,
    /// Where the delivery of an answer that was held goes.
    pub(super) delivery: &'a Mutex<Option<AnswerDelivery>>,
    /// The message, which is kept meanwhile.
    pub(super) message: &'a RateLimitRequest,
}

impl AnswerHold<'_> {
    /// The bytes of the message in its decoded form, with what is made of it for a decision, and
    /// as much again for the buffers that it came in, which the allocator keeps for a while. A call
    /// may bring 256 KiB of descriptors that are only looked at beside the one that waits.
    fn message_bytes(&self) -> usize {
        let entry = |entry: &Entry| {
            // The entry, as an attribute, and as a pair that a request borrows.
            size_of::<Entry>() + 3 * size_of::<(&str, &str)>() + entry.key.capacity() + entry.value.capacity()
        };
        let descriptor = |one: &RateLimitDescriptor| {
            size_of::<RateLimitDescriptor>()
                + size_of::<Descriptor<'_>>()
                + size_of::<DescriptorLine<'_>>()
                + one.entries.iter().map(entry).sum::<usize>()
        };
        let decoded =
            self.message.domain.capacity() + self.message.descriptors.iter().map(descriptor).sum::<usize>();
        2 * decoded
    }

    /// How long an answer is held whose request may wait for `wait`; zero if it is not.
    fn within(&self, wait: Duration, streams: u32) -> Duration {
        if self.line.held() >= u64::from(streams / 2) {
            return Duration::ZERO;
        }
        self.timeout.map_or(wait, |timeout| wait.min(timeout.saturating_sub(WAY_BACK)))
    }
}

/// The entries of a descriptor as attributes.
type Entries<'a> = SmallVec<[(&'a str, &'a str); 8]>;

/// A descriptor with its request.
struct DescriptorLine<'a> {
    descriptor: &'a Descriptor<'a>,
    attributes: &'a [(&'a str, &'a str)],
    /// The request that its entries describe, of the cost that the cost table of the namespace
    /// says.
    request: Request<'a>,
    /// How long it waits at most, if its entries say it.
    wait: Option<Duration>,
}

impl<'a> DescriptorLine<'a> {
    fn new(
        domain: &'a str,
        descriptor: &'a Descriptor<'a>,
        attributes: &'a [(&'a str, &'a str)],
        scope: &'a RequestScope<'_>,
        caller: &Caller,
    ) -> Result<Self, Fault> {
        let value = |name: &str| attributes.iter().find(|(key, _)| *key == name).map(|(_, value)| *value);
        let mut request = scope.request_of(domain, attributes, None, OwnClaims::default(), caller)?;
        scope.in_force.config.planes.add_words(&mut request, value, caller)?;
        let peek = matches!(descriptor.hits, Hits::Look);
        let wait = value(WAIT_MS).map(|millis| wait_of_attribute(millis, peek)).transpose()?;
        // Envoy does not report the end of the work.
        let request = request.end_unknown();
        Ok(Self { descriptor, attributes, request, wait })
    }

    /// The cost, `said` if the caller says it.
    fn cost(&self, said: Option<Cost>) -> Cost {
        said.unwrap_or(self.request.cost)
    }
}

/// The questions that only the policy decides, and that have no outcome yet.
struct Questions<'a> {
    /// The index of the descriptor of each.
    places: SmallVec<[usize; 2]>,
    requests: SmallVec<[Request<'a>; 2]>,
    /// How long the last of them waits at most, if it says it.
    wait: Option<Duration>,
}

impl<'a> Questions<'a> {
    fn new(lines: &'a [DescriptorLine<'_>], outcomes: &[Option<Outcome>]) -> Self {
        let mut questions = Self { places: SmallVec::new(), requests: SmallVec::new(), wait: None };
        for (at, (line, outcome)) in lines.iter().zip(outcomes).enumerate() {
            if let (Hits::Ask(cost), None, None) = (line.descriptor.hits, &line.descriptor.limit, outcome) {
                questions.places.push(at);
                questions.requests.push(line.request.cost(line.cost(cost)));
                questions.wait = line.wait;
            }
        }
        questions
    }
}

/// The charges by the policy while the limits that came with the request are asked. Dropped
/// meanwhile, as when the caller hangs up, they are taken back in the background.
struct PolicyCharges<'d> {
    driver: &'d Driver,
    permit: Option<Permit>,
}

impl PolicyCharges<'_> {
    fn into_permit(mut self) -> Permit {
        self.permit.take().expect("only this and dropping take it")
    }
}

impl Drop for PolicyCharges<'_> {
    fn drop(&mut self) {
        if let Some(permit) = self.permit.take() {
            self.driver.settle(permit, End::Cancelled);
        }
    }
}

// All descriptors of one request can be decided together.
const _: () = assert!(DESCRIPTORS_MAX <= BATCH_REQUESTS_MAX, "a request may have too many questions");

impl RequestScope<'_> {
    /// Answers `ShouldRateLimit`.
    pub(super) async fn should_rate_limit(
        &self,
        caller: &Caller,
        request: &RateLimitRequest,
        hold: Option<AnswerHold<'_>>,
    ) -> Result<RateLimitResponse, Fault> {
        let asked = ParsedRequest::read(request).map_err(|bad| Fault::new(FaultCode::MalformedBody, bad))?;
        for descriptor in &asked.descriptors {
            caller.may(verb(descriptor.hits), asked.domain)?;
        }
        let now = self.daemon.clock.now();
        let is_namespace = self.in_force.engine.limits(asked.domain).is_ok();
        if let Some(files) = self.in_force.config.envoy_ratelimit.as_ref().filter(|_| !is_namespace) {
            return Box::pin(self.by_files(&files.get(), request, now)).await;
        }
        let pairs: Vec<_> = asked.descriptors.iter().map(Descriptor::attributes).collect();
        let pairs: SmallVec<[Entries<'_>; 2]> = pairs
            .iter()
            .map(|pairs| pairs.iter().map(|(name, value)| (name.as_ref(), *value)).collect())
            .collect();
        let lines = asked.descriptors.iter().zip(&pairs);
        let lines = lines
            .map(|(descriptor, pairs)| DescriptorLine::new(asked.domain, descriptor, pairs, self, caller));
        let lines: SmallVec<[DescriptorLine<'_>; 2]> = lines.collect::<Result<_, _>>()?;
        let outcomes = self.outcomes(asked.domain, is_namespace, &lines, hold, now).await?;
        // Waits count from the answer: the store may have taken a while.
        let now = self.daemon.clock.now();
        let mut answer = answer(&outcomes, now, self.in_force.config.older_headers);
        // Of several resources the first one: the answer has one set of headers.
        if let Some(load) =
            lines.iter().find_map(|line| self.shown_load(line.request.resource, line.request.namespace))
        {
            add_load(&mut answer, load);
        }
        Ok(answer)
    }

    async fn outcomes(
        &self,
        domain: &str,
        is_known: bool,
        lines: &[DescriptorLine<'_>],
        hold: Option<AnswerHold<'_>>,
        now: Timestamp,
    ) -> Result<SmallVec<[Outcome; 2]>, Fault> {
        let mut outcomes: SmallVec<[Option<Outcome>; 2]> = smallvec![None; lines.len()];
        // Futures that most calls do not need are boxed, since every call would reserve room for
        // them.
        for (line, outcome) in lines.iter().zip(&mut outcomes) {
            let is_asked_with_others =
                matches!(line.descriptor.hits, Hits::Ask(_)) && (is_known || line.descriptor.limit.is_some());
            if !is_asked_with_others {
                *outcome = Box::pin(self.without_others(domain, is_known, line, now)).await?;
            }
        }
        let is_over = |outcomes: &[Option<Outcome>]| {
            outcomes.iter().any(|outcome| matches!(outcome, Some(Outcome::Over(_))))
        };
        if !is_over(&outcomes) {
            self.ask_together(domain, lines, &mut outcomes, hold, now).await?;
        }
        if outcomes.iter().any(Option::is_none) {
            Box::pin(self.look_at_the_rest(domain, lines, &mut outcomes, now)).await?;
        }
        Ok(outcomes.into_iter().map(|outcome| outcome.unwrap_or(Outcome::within(Vec::new()))).collect())
    }

    /// The outcome of a descriptor that is no question, or has no limits; `None` for the others.
    async fn without_others(
        &self,
        domain: &str,
        is_known: bool,
        line: &DescriptorLine<'_>,
        now: Timestamp,
    ) -> Result<Option<Outcome>, Fault> {
        let Some(limit) = &line.descriptor.limit else {
            if !is_known {
                return Ok(Some(Outcome::within(Vec::new())));
            }
            return Ok(match line.descriptor.hits {
                Hits::Ask(_) => None,
                Hits::Charge(cost) => Some(self.book(&line.request.cost(cost), now).await?),
                Hits::Look => Some(self.look(&line.request.cost(Cost::ONE), now).await?),
                Hits::GiveBack(cost) => Some(self.give_back(&line.request.cost(line.cost(cost)), now).await?),
            });
        };
        Ok(match line.descriptor.hits {
            Hits::Ask(_) => None,
            Hits::Charge(cost) => Some(self.book_own(domain, line, limit, cost, now).await?),
            Hits::Look => Some(self.look_at_own(domain, line, limit, Cost::ONE, now).await?),
            Hits::GiveBack(cost) => {
                Some(self.give_back_own(domain, line, limit, line.cost(cost), now).await?)
            }
        })
    }

    /// Decides all questions together. Either all are charged and have an outcome, or at least one
    /// is refused and nothing is charged.
    async fn ask_together(
        &self,
        domain: &str,
        lines: &[DescriptorLine<'_>],
        outcomes: &mut [Option<Outcome>],
        hold: Option<AnswerHold<'_>>,
        now: Timestamp,
    ) -> Result<(), Fault> {
        let questions = Questions::new(lines, outcomes);
        let asked = self.ask_policy(&questions, outcomes, hold, now).await?;
        let Some((mut permit, has_waited)) = asked else { return Ok(()) };
        if lines.iter().any(|line| line.descriptor.limit.is_some()) {
            let charged = PolicyCharges { driver: &self.daemon.driver, permit: Some(permit) };
            let asked = Box::pin(self.ask_own(domain, lines, outcomes, now)).await;
            permit = charged.into_permit();
            if !matches!(asked, Ok(true)) {
                self.let_go(permit, End::Cancelled, now).await;
                return asked.map(|_| ());
            }
        }
        let mut features = self.in_force.engine.granted_features(&permit);
        for (nth, (at, request)) in questions.places.iter().zip(&questions.requests).enumerate() {
            let limits = self.in_force.engine.statuses_of(&permit, nth);
            let asked = decisions::Asked::borrowed(request, Protocol::Rls);
            self.note_reports(&self.in_force.metrics, &asked, &limits, now);
            let access = self.in_force.engine.access_charge(&permit, nth, now).map(access_units);
            let feature = features.next().flatten().map(shown);
            outcomes[*at] = Some(self.within(domain, limits, access, feature));
        }
        drop(features);
        // Envoy does not say how the work ends: lent things are given back at once, and no limit
        // gives its charge back. A call that has waited is charged when its answer is written.
        if let Some(hold) = hold.filter(|_| has_waited) {
            let driver = self.daemon.driver.clone();
            let delivery = self.charge_delivery(permit, move |permit| driver.settle(permit, End::Abandoned));
            *hold.delivery.lock().unwrap_or_else(PoisonError::into_inner) = Some(delivery);
            return Ok(());
        }
        self.let_go(permit, End::Abandoned, now).await;
        Ok(())
    }

    /// Decides all questions by the policy at once: the permit, and whether they have waited for
    /// their turn; `None` if one is refused, which then has its outcome.
    async fn ask_policy(
        &self,
        questions: &Questions<'_>,
        outcomes: &mut [Option<Outcome>],
        hold: Option<AnswerHold<'_>>,
        now: Timestamp,
    ) -> Result<Option<(Permit, bool)>, Fault> {
        let Questions { places, requests, wait } = questions;
        let mut waiting_line = None;
        let begun = match (&requests[..], hold) {
            ([request], Some(hold)) => {
                let mut request = *request;
                let planes = &self.in_force.config.planes;
                let wait = match *wait {
                    Some(wait) => planes.bounded_wait(wait, request.resource, request.class),
                    None => planes.wait(request.resource, request.class),
                };
                let wait = hold.within(wait, self.daemon.config.bounds.streams);
                if !wait.is_zero() {
                    self.let_wait(&mut request, wait, hold.line, hold.message_bytes(), now);
                    waiting_line = Some(hold.line);
                }
                let begun = self.in_force.engine.admit(&request, now);
                begun.map_err(|source| BatchError::Request { at: 0, source })
            }
            // Questions that are admitted together or not at all do not wait.
            _ => self.in_force.engine.admit_all(requests, now),
        };
        let (decision, has_waited) = match begun {
            Ok(Step::Decided(decision)) => (decision, false),
            Ok(Step::Ask(pending)) => {
                let _held = waiting_line.map(ConnectionActivity::hold);
                let decided = Box::pin(self.daemon.driver.drive(pending).decided()).await;
                (decided.decision, waiting_line.is_some())
            }
            Err(BatchError::Request { at, source: RequestError::KeyTooLong(_) }) => {
                let refusal = uncountable(&requests[at]);
                outcomes[places[at]] = Some(self.note_refused(&requests[at], refusal, now));
                return Ok(None);
            }
            Err(BatchError::Request { source, .. }) => return Err(engine_fault(&source, now)),
            Err(error) => return Err(Fault::new(FaultCode::MalformedBody, error)),
        };
        match decision {
            Decision::Admit(permit) => Ok(Some((permit, has_waited))),
            Decision::Refuse(refused) => {
                let refusals = refused.into_each(requests.len());
                for ((at, request), refusal) in places.iter().zip(requests).zip(refusals) {
                    let Some(refusal) = refusal else { continue };
                    outcomes[*at] = Some(self.note_refused(request, refusal, now));
                }
                Ok(None)
            }
        }
    }

    /// Peeks for questions that were not charged because another one was refused.
    async fn look_at_the_rest(
        &self,
        domain: &str,
        lines: &[DescriptorLine<'_>],
        outcomes: &mut [Option<Outcome>],
        now: Timestamp,
    ) -> Result<(), Fault> {
        for (line, outcome) in lines.iter().zip(&mut *outcomes) {
            if let (Hits::Ask(cost), Some(limit), None) =
                (line.descriptor.hits, &line.descriptor.limit, &outcome)
            {
                *outcome = Some(self.look_at_own(domain, line, limit, line.cost(cost), now).await?);
            }
        }
        let Questions { places, requests, .. } = Questions::new(lines, outcomes);
        match self.in_force.engine.peek_all(&requests, now) {
            // One key is too long for the store; peek for the others one by one.
            Err(RequestError::KeyTooLong(_)) => {
                for (at, request) in places.iter().zip(&requests) {
                    outcomes[*at] = Some(self.look(request, now).await?);
                }
            }
            begun => {
                for (at, peek) in places.iter().zip(self.complete(begun).await?) {
                    outcomes[*at] = Some(self.seen(domain, peek));
                }
            }
        }
        Ok(())
    }

    /// Charges the limits that came with the request, all at once; whether they admit.
    async fn ask_own(
        &self,
        domain: &str,
        lines: &[DescriptorLine<'_>],
        outcomes: &mut [Option<Outcome>],
        now: Timestamp,
    ) -> Result<bool, Fault> {
        let questions = lines.iter().enumerate().filter_map(|(at, line)| match line.descriptor.hits {
            Hits::Ask(cost) => line.descriptor.limit.as_ref().map(|limit| (at, line, limit, line.cost(cost))),
            _ => None,
        });
        let questions: SmallVec<[_; 2]> = questions.collect();
        if questions.is_empty() {
            return Ok(true);
        }
        let limits: Vec<_> =
            questions.iter().map(|(_, line, limit, cost)| own_limit(line, limit, cost.units())).collect();
        let hashes = Hashes::from_limits(&limits);
        let limits = hashes.within(limits);
        let asked = carrier(domain, questions.iter().map(|(_, line, _, _)| *line))?;
        let carried = self.in_force.engine.carry(&asked, &limits, Charging::AllOrNone, now);
        let carried = Box::pin(self.complete(carried)).await?;
        if let Some(refusal) = &carried.refusal {
            for (at, line, _, cost) in &questions {
                outcomes[*at] = Some(self.note_refused(&line.request.cost(*cost), refusal.clone(), now));
            }
            return Ok(false);
        }
        let mut feature =
            carried.feature.map(|one| ShownFeature::new(one.name.to_string(), one.level.to_string()));
        for ((at, line, limit, cost), status) in questions.iter().zip(&carried.limits) {
            let status = as_sent(limit, *status);
            match own_outcome(domain, line, &status, now) {
                Outcome::Over(refusal) => {
                    outcomes[*at] = Some(self.note_refused(&line.request.cost(*cost), refusal, now));
                }
                Outcome::Within { limits, access, .. } if carried.is_admitted => {
                    self.note_own(&line.request.cost(*cost), &status, now);
                    let feature = feature.take_if(|one| line.request.feature == Some(&*one.name));
                    outcomes[*at] = Some(Outcome::Within { limits, access, feature });
                }
                Outcome::Within { .. } => {}
            }
        }
        Ok(carried.is_admitted)
    }

    /// Charges work that may be done already: as a question if it fits, as a debt if not.
    async fn book(&self, request: &Request<'_>, now: Timestamp) -> Result<Outcome, Fault> {
        let refusal = match self.decide(request).await {
            Ok(Decision::Admit(permit)) => {
                let limits =
                    self.note_admitted(&decisions::Asked::borrowed(request, Protocol::Rls), &permit, now);
                let access = self.in_force.engine.access_charge(&permit, 0, now).map(access_units);
                let feature = self.in_force.engine.granted_feature(&permit).map(shown);
                let settled = self.in_force.engine.settle(permit, End::Abandoned, now);
                // An error leaves it lent until it expires: less is admitted, never more.
                let _ = self.finish(settled).await;
                return Ok(self.within(request.namespace, limits, access, feature));
            }
            Ok(Decision::Refuse(refused)) => refused.into_refusal(),
            Err(RequestError::KeyTooLong(_)) => uncountable(request),
            Err(error) => return Err(engine_fault(&error, now)),
        };
        let refused = self.note_refused(request, refusal, now);
        // If it cannot be booked for lack of a store or of memory, the refusal says so already.
        if Box::pin(self.complete(self.in_force.engine.report(request, now))).await.is_ok()
            && let Outcome::Over(refusal) = self.look(&request.cost(Cost::ONE), now).await?
        {
            // The debt makes the wait longer.
            return Ok(Outcome::Over(refusal));
        }
        Ok(refused)
    }

    /// The outcome that a request would have now.
    async fn look(&self, request: &Request<'_>, now: Timestamp) -> Result<Outcome, Fault> {
        let peek = match self.in_force.engine.peek(request, now) {
            Err(RequestError::KeyTooLong(_)) => return Ok(Outcome::Over(uncountable(request))),
            begun => begun,
        };
        let peek = Box::pin(self.complete(peek)).await?;
        Ok(self.seen(request.namespace, peek))
    }

    fn seen(&self, namespace: &str, peek: PeekReport) -> Outcome {
        let PeekReport { refusal, limits, access, feature, .. } = peek;
        if let Some(refusal) = refusal {
            return Outcome::Over(refusal);
        }
        let told = feature.filter(|feature| !feature.is_shadow);
        let feature = told.map(|one| ShownFeature::new(one.name.to_string(), one.level.to_string()));
        self.within(namespace, limits, access.map(access_units), feature)
    }

    async fn give_back(&self, request: &Request<'_>, now: Timestamp) -> Result<Outcome, Fault> {
        Box::pin(self.complete(self.in_force.engine.give_back(request, now))).await?;
        let peek = self.in_force.engine.peek(&request.cost(Cost::ONE), now);
        Ok(self.within(request.namespace, Box::pin(self.complete(peek)).await?.limits, None, None))
    }

    async fn book_own(
        &self,
        domain: &str,
        line: &DescriptorLine<'_>,
        limit: &OwnLimit,
        cost: Cost,
        now: Timestamp,
    ) -> Result<Outcome, Fault> {
        let status = self.carry_own(domain, line, (limit, cost.units()), Charging::Always, now).await?;
        let status = as_sent(limit, status);
        let outcome = own_outcome(domain, line, &status, now);
        let request = line.request.cost(cost);
        match &outcome {
            Outcome::Over(refusal) => {
                let _ = self.note_refused(&request, refusal.clone(), now);
            }
            Outcome::Within { .. } => self.note_own(&request, &status, now),
        }
        Ok(outcome)
    }

    /// Counts an admission by a limit that came with the request, and writes it down where that is
    /// wanted.
    fn note_own(&self, request: &Request<'_>, status: &CarriedStatus, now: Timestamp) {
        let name = OVERRIDE.to_owned();
        let mut report = LimitReport::new(name, status.limit, status.remaining, status.reset_at);
        report.window = status.window;
        let asked = decisions::Asked::borrowed(request, Protocol::Rls);
        self.note_reports(&self.in_force.metrics, &asked, &[report], now);
    }

    /// The outcome that `cost` would have under a limit that came with the request.
    async fn look_at_own(
        &self,
        domain: &str,
        line: &DescriptorLine<'_>,
        limit: &OwnLimit,
        cost: Cost,
        now: Timestamp,
    ) -> Result<Outcome, Fault> {
        let mut status = self.carry_own(domain, line, (limit, 0), Charging::AllOrNone, now).await?;
        if status.remaining < cost.units() && status.verdict == Verdict::Admit {
            status.verdict = if cost.units() > status.limit {
                Verdict::Never { largest: status.limit }
            } else {
                Verdict::Wait { until: status.reset_at }
            };
        }
        Ok(own_outcome(domain, line, &as_sent(limit, status), now))
    }

    /// Charges one limit that came with the request.
    async fn carry_own(
        &self,
        domain: &str,
        line: &DescriptorLine<'_>,
        (limit, units): (&OwnLimit, u64),
        charging: Charging,
        now: Timestamp,
    ) -> Result<CarriedStatus, Fault> {
        let limits = vec![own_limit(line, limit, units)];
        let hashes = Hashes::from_limits(&limits);
        let limits = hashes.within(limits);
        let carried = self.in_force.engine.carry(&Request::new(domain, ()), &limits, charging, now);
        Ok(Box::pin(self.complete(carried)).await?.limits[0])
    }

    async fn give_back_own(
        &self,
        domain: &str,
        line: &DescriptorLine<'_>,
        limit: &OwnLimit,
        cost: Cost,
        now: Timestamp,
    ) -> Result<Outcome, Fault> {
        let limits = vec![own_limit(line, limit, cost.units())];
        let hashes = Hashes::from_limits(&limits);
        let limits = hashes.within(limits);
        let refunded = self.in_force.engine.refund_carried(domain, &limits[0], now);
        let status = Box::pin(self.complete(refunded)).await?;
        Ok(Outcome::within(vec![own_left(&as_sent(limit, status))]))
    }

    fn note_refused(&self, request: &Request<'_>, refusal: Refusal, now: Timestamp) -> Outcome {
        let asked = decisions::Asked::borrowed(request, Protocol::Rls);
        self.note_refusal(&self.in_force.metrics, &asked, &refusal, now);
        Outcome::Over(refusal)
    }

    /// Settles the permit of questions that were admitted together. After an error of the store its
    /// part stays charged: less is admitted, never more.
    async fn let_go(&self, permit: Permit, end: End, now: Timestamp) {
        let settled = self.in_force.engine.settle(permit, end, now);
        let _ = self.finish(settled).await;
    }

    /// The outcome of an admission, with the limits that enforce, of those that a request met.
    fn within(
        &self,
        namespace: &str,
        limits: Vec<LimitReport>,
        access: Option<AccessUnits>,
        feature: Option<ShownFeature<'static>>,
    ) -> Outcome {
        let shadow = self.in_force.shadow_limits(namespace);
        let enforced = limits.into_iter().filter(|one| !shadow.iter().any(|name| **name == *one.name));
        Outcome::Within { limits: enforced.map(left).collect(), access, feature }
    }
}

/// The verb that a caller needs for it.
fn verb(hits: Hits) -> Verb {
    match hits {
        Hits::Ask(_) | Hits::Look => Verb::Check,
        Hits::Charge(_) => Verb::Report,
        Hits::GiveBack(_) => Verb::Refund,
    }
}

fn shown(granted: GrantedFeature<'_>) -> ShownFeature<'static> {
    ShownFeature::new(granted.name, granted.level).into_owned()
}

fn left(report: LimitReport) -> Left {
    Left {
        limit: report.limit,
        remaining: report.remaining,
        window: report.window,
        reset_at: report.reset_at,
        name: Cow::Owned(report.name),
    }
}

/// The request that carries the limits of descriptors: as the first of them describes it (class,
/// tenant, attempt, deadline), with the feature, the ticket, the resource and the access that one
/// of them names. The operation comes from the descriptor with the resource.
fn carrier<'a>(
    domain: &'a str,
    lines: impl Iterator<Item = &'a DescriptorLine<'a>>,
) -> Result<Request<'a>, Fault> {
    let mut lines = lines.peekable();
    let mut request = lines.peek().map_or_else(|| Request::new(domain, ()), |first| first.request);
    (request.attributes, request.access) = (().into(), None);
    (request.resource, request.operation) = (None, None);
    for line in lines {
        if request.access.is_some() && line.request.access.is_some() {
            let what = "several descriptors with limits of their own name a table";
            return Err(Fault::new(FaultCode::MalformedBody, what).fix("send them in calls of their own"));
        }
        request.access = request.access.or(line.request.access);
        if request.resource.is_none() {
            (request.resource, request.operation) = (line.request.resource, line.request.operation);
        }
        request.ticket = request.ticket.or(line.request.ticket);
        request.feature = request.feature.or(line.request.feature);
    }
    Ok(request)
}

/// A limit that came with the request. It counts by every key and value of its descriptor.
fn own_limit<'a>(line: &'a DescriptorLine<'_>, limit: &OwnLimit, cost: u64) -> CarriedLimit<'a> {
    let parts = line.attributes.iter().flat_map(|(name, value)| [name.as_bytes(), value.as_bytes()]);
    let fixed = Fixed::saturating(limit.requests_per_unit.into(), limit.window, WindowStart::Epoch);
    CarriedLimit {
        key: Cow::Owned(parts.collect()),
        algorithm: Cow::Owned(Algorithm::Fixed(fixed.expect("every unit is a window"))),
        cost,
    }
}

/// The refusal of a request whose key is too long for the store of a quota. An error would let it
/// pass: Envoy admits a request on errors by default.
fn uncountable(request: &Request<'_>) -> Refusal {
    let violated = Violated {
        name: Text::from_static("key-length"),
        reason: Reason::Blocked,
        retry: Retry::Never,
        limit: 0,
        remaining: 0,
        window: None,
    };
    let mut refusal = Refusal::new(request.namespace, ScopeValues::new(), violated);
    refusal.detail = Some(Text::from_static("the values that a quota counts by are too long to be stored"));
    refusal
}

/// A status told in the number that the limit was sent with. A window of a second counts less than
/// the largest numbers; files are answered in the same way.
fn as_sent(limit: &OwnLimit, mut status: CarriedStatus) -> CarriedStatus {
    let not_counted = u64::from(limit.requests_per_unit).saturating_sub(status.limit);
    status.limit += not_counted;
    status.remaining += not_counted;
    status
}

fn own_left(status: &CarriedStatus) -> Left {
    Left {
        name: Cow::Borrowed(OVERRIDE),
        limit: status.limit,
        remaining: status.remaining,
        window: status.window,
        reset_at: status.reset_at,
    }
}

fn own_outcome(domain: &str, line: &DescriptorLine<'_>, status: &CarriedStatus, now: Timestamp) -> Outcome {
    let (reason, retry) = match status.verdict {
        Verdict::Admit => return Outcome::within(vec![own_left(status)]),
        Verdict::Wait { until } if status.is_table_full => (Reason::TableFull, Retry::At(until)),
        Verdict::Wait { until } => (exceeded(status.window), Retry::At(until.max(now))),
        Verdict::Never { .. } => (Reason::CostExceedsLimit, Retry::Never),
    };
    let scope: ScopeValues =
        line.attributes.iter().map(|(name, value)| (Text::from(&**name), Text::from(*value))).collect();
    let violated = Violated {
        name: Text::from_static(OVERRIDE),
        reason,
        retry,
        limit: status.limit,
        remaining: status.remaining,
        window: status.window,
    };
    Outcome::Over(Refusal::new(domain, scope, violated))
}

fn exceeded(window: Option<Duration>) -> Reason {
    if window.is_some_and(|window| window >= Duration::from_hours(1)) {
        Reason::QuotaExceeded
    } else {
        Reason::RateExceeded
    }
}

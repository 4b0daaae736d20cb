//! Deciding a request: the one place of this crate where the engine is asked.
//!
//! Nearly every request is decided without waiting for anything, so that part is a plain function.
//! Only a request that must wait, for the store or for its turn, goes on as a future of its own, on
//! the heap.

use core::future::{Future, poll_fn};
use core::pin::{Pin, pin};
use core::task::Poll;
use core::time::Duration;
use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use http::Response;
use smallvec::SmallVec;
use tidegate::{Attributes, Class, Cost, Refusal, Retry, Timestamp};
use tidegate_driver::{Decided, PendingRequest};
use tidegate_engine::{Decision, Engine, EngineError, Pending, Permit, Request, Step};
use tidegate_wire::{Fault, FaultCode};

use crate::answer::{self, Speech};
use crate::extract::{Extract, Head, Rejection, VALUE_BYTES_MAX};
use crate::hold::ResponseHold;
use crate::queue::{Counter, Place, waits_for_others};
use crate::settings::Settings;

/// How often the first in line for a permit asks again although none was given back: one may have
/// expired.
const EXPIRY_CHECK: Duration = Duration::from_millis(100);

/// How long at least a waiting request leaves the engine alone that told it to come back at once.
const PAUSE_MIN: Duration = Duration::from_millis(1);

/// The decision about a request.
#[expect(
    clippy::large_enum_variant,
    reason = "most requests are admitted, and a box for each would cost more than the move"
)]
pub(crate) enum Verdict {
    /// Call the service.
    Admit(ResponseHold),
    /// Answer the request with this refusal or fault.
    Answer(Response<Bytes>),
}

/// A verdict that takes a while.
pub(crate) type Deciding = Pin<Box<dyn Future<Output = Verdict> + Send>>;

#[expect(
    clippy::large_enum_variant,
    reason = "most requests are decided at once, and a box for each would cost more than the move"
)]
pub(crate) enum Begun {
    Decided(Verdict),
    Later(Deciding),
}

/// A request without what it borrowed.
struct Owned {
    attributes: Vec<(Box<str>, Box<str>)>,
    tenant: Option<Box<str>>,
    cost: Cost,
    class: Class,
    deadline: Option<Timestamp>,
    asked_at: Timestamp,
    speech: Speech,
}

impl Owned {
    fn of(request: &Request<'_>, asked_at: Timestamp, speech: Speech) -> Self {
        Self {
            attributes: request.attributes.iter().map(|(name, value)| (name.into(), value.into())).collect(),
            tenant: request.tenant.map(Into::into),
            cost: request.cost,
            class: request.class,
            deadline: request.deadline,
            asked_at,
            speech,
        }
    }
}

/// Why a request waits.
enum Cause {
    /// It is not decided yet.
    Pending(PendingRequest<Pending>),
    Refused(Box<Refusal<'static>>),
    /// Others wait for this counter, and were first.
    Behind(Counter),
}

type Pairs<'h> = SmallVec<[(&'h str, Cow<'h, str>); 8]>;

/// Decides a request, as far as that needs no waiting.
pub(crate) fn begin(settings: &Arc<Settings>, head: &Head<'_>) -> Begun {
    let speech = Speech::of(head.headers);
    let now = settings.driver.now();
    settings.driver.tick_if_due(now);
    match settings.begin(head, now, speech) {
        Ok(begun) => begun,
        Err(fault) => Begun::Decided(Verdict::Answer(answer::fault(&fault, speech))),
    }
}

impl Settings {
    fn begin(self: &Arc<Self>, head: &Head<'_>, now: Timestamp, speech: Speech) -> Result<Begun, Fault> {
        let mut pairs = Pairs::new();
        for (name, extract) in &self.attributes {
            if let Some(value) = take(name, &**extract, head)? {
                pairs.push((name, value));
            }
        }
        let borrowed: SmallVec<[(&str, &str); 8]> =
            pairs.iter().map(|(name, value)| (*name, &**value)).collect();
        let mut request = Request::new(&self.namespace, &borrowed[..]);
        let tenant = match &self.tenant {
            Some(extract) => take("tenant", &**extract, head)?,
            None => request.attributes.get("tenant").map(Cow::Borrowed),
        };
        request.tenant = tenant.as_deref();
        if let Some(extract) = &self.class
            && let Some(class) = take("class", &**extract, head)?
        {
            request.class = class.parse().map_err(|error| Rejection::new(error).into_fault())?;
        }
        if let Some(cost) = &self.cost {
            request.cost = cost(head);
        }
        if let Some(timeout) = self.timeout.as_ref().and_then(|timeout| timeout(head)) {
            request.deadline = Some(now.saturating_add(timeout));
        }
        if self.waits()
            && let Some(counter) = self.ahead_of(&request)
        {
            return Ok(self.later(&request, now, speech, Cause::Behind(counter)));
        }
        let engine = self.driver.engine();
        let step = engine.admit(&request, now).map_err(|error| fault_of(&error))?;
        self.driver.renew_leases();
        Ok(match step {
            Step::Decided(Decision::Admit(permit)) => Begun::Decided(self.admitted(permit, &engine)),
            Step::Decided(Decision::Refuse(refusal)) => {
                if self.is_worth_waiting(&refusal, self.give_up(now, request.deadline)) {
                    self.later(&request, now, speech, Cause::Refused(Box::new(refusal)))
                } else {
                    Begun::Decided(Verdict::Answer(self.refusal(&refusal, now, speech)))
                }
            }
            Step::Ask(pending) => {
                self.later(&request, now, speech, Cause::Pending(self.driver.drive(pending)))
            }
        })
    }

    fn admitted(self: &Arc<Self>, permit: Permit, engine: &Engine) -> Verdict {
        Verdict::Admit(ResponseHold::new(self, permit, engine))
    }

    /// A counter of this request for which others wait that go first.
    fn ahead_of(&self, request: &Request<'_>) -> Option<Counter> {
        if self.queue.waiting() == 0 {
            return None;
        }
        let engine = self.driver.engine();
        let applies = |name: &str| {
            let mut limits = engine.limits(&self.namespace).into_iter().flatten();
            // A resource that is no limit, such as a place in flight, concerns every request.
            limits.find(|limit| limit.name == name).is_none_or(|limit| {
                let mut conditions = limit.matches.iter();
                conditions.all(|one| one.matcher.matches(request.attributes.get(&one.attribute)))
            })
        };
        self.queue.ahead_of(&self.namespace, request.attributes, request.class, applies)
    }

    fn later(self: &Arc<Self>, request: &Request<'_>, now: Timestamp, speech: Speech, cause: Cause) -> Begun {
        let owned = Owned::of(request, now, speech);
        Begun::Later(Box::pin(decide_later(Arc::clone(self), owned, cause)))
    }

    fn waits(&self) -> bool {
        !self.wait.is_zero()
    }

    /// Until when a request waits at most.
    fn give_up(&self, asked_at: Timestamp, deadline: Option<Timestamp>) -> Timestamp {
        // At its deadline a request is late already.
        let latest = deadline.map_or(Timestamp::MAX, |at| at.saturating_sub(Duration::from_nanos(1)));
        asked_at.saturating_add(self.wait).min(latest)
    }

    fn is_worth_waiting(&self, refusal: &Refusal<'_>, give_up: Timestamp) -> bool {
        let comes_in_time = match refusal.retry() {
            Retry::At(at) => at <= give_up,
            Retry::Backoff | Retry::Never => false,
        };
        self.waits() && (comes_in_time || waits_for_others(refusal))
    }

    /// Decides a request that waits, by the engine in force.
    async fn decide(&self, owned: &Owned, attempt: u32) -> Result<Decided<Decision>, Fault> {
        let pending = {
            let pairs: SmallVec<[(&str, &str); 8]> =
                owned.attributes.iter().map(|(name, value)| (&**name, &**value)).collect();
            let mut request = Request::new(&self.namespace, Attributes::new(&pairs));
            request.tenant = owned.tenant.as_deref();
            request.cost = owned.cost;
            request.class = owned.class;
            request.deadline = owned.deadline;
            request.attempt = attempt;
            let engine = self.driver.handle().engine();
            let step = engine.admit(&request, self.driver.now());
            self.driver.renew_leases();
            match step.map_err(|error| fault_of(&error))? {
                Step::Decided(decision) => return Ok(Decided { decision, engine }),
                Step::Ask(pending) => pending,
            }
        };
        Ok(self.driver.drive(pending).decided().await)
    }

    fn conclude(self: &Arc<Self>, decided: Decided<Decision>, speech: Speech) -> Verdict {
        match decided.decision {
            Decision::Admit(permit) => self.admitted(permit, &decided.engine),
            Decision::Refuse(refusal) => self.refused(&refusal, speech),
        }
    }

    fn refused(&self, refusal: &Refusal<'_>, speech: Speech) -> Verdict {
        Verdict::Answer(self.refusal(refusal, self.driver.now(), speech))
    }

    fn refusal(&self, refusal: &Refusal<'_>, now: Timestamp, speech: Speech) -> Response<Bytes> {
        let response = answer::refusal(refusal, now, speech, self.older);
        match &self.on_refusal {
            Some(change) => change(refusal, response),
            None => response,
        }
    }
}

/// One attribute of a request, if it is within its bound.
fn take<'h>(name: &str, extract: &'h dyn Extract, head: &Head<'h>) -> Result<Option<Cow<'h, str>>, Fault> {
    let value = extract.extract(head).map_err(Rejection::into_fault)?;
    match value {
        Some(text) if text.len() > VALUE_BYTES_MAX => Err(Rejection::new(format_args!(
            "attribute \"{name}\" has {} bytes; send at most {VALUE_BYTES_MAX}",
            text.len()
        ))
        .into_fault()),
        value => Ok(value),
    }
}

/// The answer when the engine could not decide.
fn fault_of(error: &EngineError) -> Fault {
    let code = match error {
        EngineError::KeyTooLong(_) => FaultCode::MalformedQuery,
        _ => FaultCode::Internal,
    };
    Fault::new(code, error)
}

async fn decide_later(settings: Arc<Settings>, owned: Owned, cause: Cause) -> Verdict {
    let speech = owned.speech;
    let verdict = wait_for_decision(&settings, owned, cause).await;
    verdict.unwrap_or_else(|fault| Verdict::Answer(answer::fault(&fault, speech)))
}

async fn wait_for_decision(settings: &Arc<Settings>, owned: Owned, cause: Cause) -> Result<Verdict, Fault> {
    let speech = owned.speech;
    let give_up = settings.give_up(owned.asked_at, owned.deadline);
    let (mut counter, mut refusal) = match cause {
        Cause::Behind(counter) => (counter, None),
        Cause::Refused(refusal) => (Counter::of(&settings.namespace, &refusal), Some(*refusal)),
        Cause::Pending(pending) => match pending.decided().await {
            Decided { decision: Decision::Refuse(refusal), .. }
                if settings.is_worth_waiting(&refusal, give_up) =>
            {
                (Counter::of(&settings.namespace, &refusal), Some(refusal))
            }
            decided => return Ok(settings.conclude(decided, speech)),
        },
    };
    let mut place: Option<Place> = None;
    loop {
        let lends = refusal.as_ref().is_some_and(waits_for_others);
        let has_joined = place.is_none();
        match &mut place {
            Some(place) => place.move_to(counter, lends),
            None => {
                place = settings.queue.join(counter, lends, owned.class, settings.waiters_max);
            }
        }
        let Some(here) = &place else {
            // The queue is full. A request that was not decided yet is decided now.
            return Ok(match refusal {
                Some(refusal) => settings.refused(&refusal, speech),
                None => settings.conclude(settings.decide(&owned, 0).await?, speech),
            });
        };
        let due = match refusal.as_ref().map(Refusal::retry) {
            // A place may have been given back before this request stood in line to be called.
            Some(_) if lends && has_joined => Due::Now,
            Some(Retry::At(at)) if at > settings.driver.now() => Due::At(at),
            Some(Retry::At(_)) if !lends => Due::At(settings.driver.now().saturating_add(PAUSE_MIN)),
            // A permit that expires calls no request.
            Some(_) if lends => Due::At(settings.driver.now().saturating_add(EXPIRY_CHECK)),
            Some(_) => Due::WhenCalled,
            None => Due::Now,
        };
        let is_due = turn(settings, here, due, lends, give_up).await;
        if !is_due && let Some(refusal) = refusal {
            return Ok(settings.refused(&refusal, speech));
        }
        match settings.decide(&owned, u32::from(refusal.is_some())).await? {
            Decided { decision: Decision::Refuse(next), .. }
                if is_due && settings.is_worth_waiting(&next, give_up) =>
            {
                counter = Counter::of(&settings.namespace, &next);
                refusal = Some(next);
            }
            decided => return Ok(settings.conclude(decided, speech)),
        }
    }
}

/// When the head of a line asks again.
#[derive(Clone, Copy)]
enum Due {
    Now,
    At(Timestamp),
    /// When something that was lent has come back.
    WhenCalled,
}

/// Waits until a request stands at the head of its line and its time has come; `false` if its
/// patience ends before.
async fn turn(settings: &Settings, place: &Place, due: Due, lends: bool, give_up: Timestamp) -> bool {
    let mut was_called = false;
    loop {
        let now = settings.driver.now();
        let is_head = place.is_head();
        let is_due = match due {
            Due::Now => true,
            Due::At(at) => at <= now || lends && was_called,
            Due::WhenCalled => was_called,
        };
        if is_head && is_due {
            return true;
        }
        if give_up <= now {
            return false;
        }
        let until = match due {
            Due::At(at) if is_head => at.min(give_up),
            _ => give_up,
        };
        was_called = {
            let mut called = pin!(place.called());
            let mut sleep = settings.driver.time().sleep_until(until);
            poll_fn(|cx| {
                if called.as_mut().poll(cx).is_ready() {
                    return Poll::Ready(true);
                }
                sleep.as_mut().poll(cx).map(|()| false)
            })
            .await
        };
    }
}

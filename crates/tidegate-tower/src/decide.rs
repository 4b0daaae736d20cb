//! Deciding a request: the one place of this crate where the engine is asked.
//!
//! Nearly every request is decided without waiting for anything, so that part is a plain function.
//! Only a request that must wait, for the store or for its turn, goes on as a future of its own, on
//! the heap.

use core::future::Future;
use core::pin::Pin;
use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use http::Response;
use smallvec::SmallVec;
use tidegate_core::{Attributes, Refusal, Timestamp};
use tidegate_driver::{Decided, PendingRequest};
use tidegate_engine::{Decision, Engine, Permit, Request, RequestError, Step};
use tidegate_wire::ticket::{self, MALFORMED};
use tidegate_wire::{Fault, FaultCode};

use crate::answer::{self, AnswerFormat};
use crate::extract::{Extract, Head, Rejection, VALUE_BYTES_MAX};
use crate::hold::ResponseHold;
use crate::settings::Settings;

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

type Pairs<'h> = SmallVec<[(&'h str, Cow<'h, str>); 8]>;

/// Decides a request, as far as that needs no waiting.
pub(crate) fn begin(settings: &Arc<Settings>, head: &Head<'_>) -> Begun {
    let format = AnswerFormat::from_headers(head.headers);
    let now = settings.driver.now();
    settings.driver.tick_if_due(now);
    match settings.begin(head, now, format) {
        Ok(begun) => begun,
        Err(fault) => Begun::Decided(Verdict::Answer(answer::fault(&fault, format))),
    }
}

impl Settings {
    fn begin(
        self: &Arc<Self>,
        head: &Head<'_>,
        now: Timestamp,
        format: AnswerFormat,
    ) -> Result<Begun, Fault> {
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
        let feature = self.feature_of(head, request.attributes)?;
        request.feature = feature.as_deref();
        let operation = match &self.operation {
            Some(extract) => extract.extract(head).map_err(Rejection::into_fault)?,
            None => None,
        };
        request.operation = operation.as_deref();
        let ticket = self.ticket_of(head);
        request.ticket = ticket.as_deref();
        request.resource = self.resource.as_deref();
        if let Some(extract) = &self.class
            && let Some(class) = take("class", &**extract, head)?
        {
            request.class = class.parse().map_err(|error| Rejection::new(error).into_fault())?;
        }
        let engine = self.driver.engine();
        request.cost = match &self.cost {
            Some(cost) => cost(head),
            // A namespace that does not exist is found when the layer is made.
            None => engine.cost_of(&self.namespace, request.attributes).unwrap_or_default(),
        };
        if let Some(timeout) = self.timeout.as_ref().and_then(|timeout| timeout(head)) {
            request.deadline = Some(now.saturating_add(timeout));
        }
        let wait = self.waits[request.class as usize];
        // A caller with a ticket in its time waits for its place, also where no other one waits.
        if !wait.is_zero() || request.ticket.is_some() {
            request.may_wait_until = Some(now.saturating_add(wait));
        }
        let step = engine.admit(&request, now).map_err(|error| fault_of(&error))?;
        self.driver.renew_leases();
        Ok(match step {
            Step::Decided(Decision::Admit(permit)) => Begun::Decided(self.admitted(permit, &engine)),
            Step::Decided(Decision::Refuse(refused)) => {
                Begun::Decided(Verdict::Answer(self.refusal(&refused.into_refusal(), now, format)))
            }
            Step::Ask(pending) => {
                let driving = self.driver.drive(pending);
                Begun::Later(Box::pin(decide_later(Arc::clone(self), driving, format)))
            }
        })
    }

    /// The feature of a request. It names no counter, so that a name of any length is taken.
    fn feature_of<'h>(
        &'h self,
        head: &Head<'h>,
        attributes: Attributes<'h>,
    ) -> Result<Option<Cow<'h, str>>, Fault> {
        match &self.feature {
            Some(extract) => extract.extract(head).map_err(Rejection::into_fault),
            None => Ok(attributes.get("feature").map(Cow::Borrowed)),
        }
    }

    /// The ticket of a request, malformed where what it shows cannot be one.
    fn ticket_of<'h>(&'h self, head: &Head<'h>) -> Option<Cow<'h, str>> {
        let Some(extract) = &self.ticket else { return ticket::in_headers(head.headers).map(Cow::Borrowed) };
        match extract.extract(head) {
            Ok(shown) => {
                shown.map(|text| if text.len() > ticket::BYTES_MAX { MALFORMED.into() } else { text })
            }
            Err(_) => Some(MALFORMED.into()),
        }
    }

    fn admitted(self: &Arc<Self>, permit: Permit, engine: &Engine) -> Verdict {
        Verdict::Admit(ResponseHold::new(self, permit, engine))
    }

    fn conclude(self: &Arc<Self>, decided: Decided, format: AnswerFormat) -> Verdict {
        match decided.decision {
            Decision::Admit(permit) => self.admitted(permit, &decided.engine),
            Decision::Refuse(refused) => {
                Verdict::Answer(self.refusal(&refused.into_refusal(), self.driver.now(), format))
            }
        }
    }

    fn refusal(&self, refusal: &Refusal, now: Timestamp, format: AnswerFormat) -> Response<Bytes> {
        let response = answer::refusal(refusal, now, format, self.older);
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
fn fault_of(error: &RequestError) -> Fault {
    let code = match error {
        RequestError::KeyTooLong(_) => FaultCode::MalformedQuery,
        _ => FaultCode::Internal,
    };
    Fault::new(code, error)
}

async fn decide_later(settings: Arc<Settings>, driving: PendingRequest, format: AnswerFormat) -> Verdict {
    let decided = driving.decided().await;
    settings.conclude(decided, format)
}

#[cfg(test)]
mod tests;

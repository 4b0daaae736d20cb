//! The service that a layer makes of another: admits, calls, and keeps the permit with the answer.

use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, ready};
use core::{fmt, mem};
use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use pin_project_lite::pin_project;
use tidegate_engine::Outcome;
use tower_service::Service;

use crate::answer::has_failed;
use crate::body::AdmitBody;
use crate::decide::{Begun, Deciding, Verdict, begin};
use crate::extract::Head;
use crate::hold::ResponseHold;
use crate::settings::Settings;

/// A service whose requests are admitted first. Made by [`crate::AdmitLayer`] and
/// [`crate::ConcurrencyLayer`].
#[derive(Clone)]
pub struct Admit<S> {
    inner: S,
    settings: Arc<Settings>,
}

impl<S> Admit<S> {
    pub(crate) fn new(inner: S, settings: Arc<Settings>) -> Self {
        Self { inner, settings }
    }
}

tidegate_core::debug_fields!(Admit<S: fmt::Debug> { inner });

impl<S, A, B> Service<Request<A>> for Admit<S>
where
    S: Service<Request<A>, Response = Response<B>> + Clone,
    B: Body,
    B::Data: From<Bytes>,
{
    type Response = Response<AdmitBody<B>>;
    type Error = S::Error;
    type Future = AdmitFuture<S, A>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<A>) -> Self::Future {
        let state = match begin(&self.settings, &Head::from_request(&request)) {
            Begun::Decided(Verdict::Admit(hold)) => {
                hold.tell_feature(request.extensions_mut());
                State::Serving { future: self.inner.call(request), hold: Some(hold) }
            }
            Begun::Decided(Verdict::Answer(response)) => State::Answered { response: Some(response) },
            Begun::Later(deciding) => {
                // The service that said it is ready goes along; its clone must be asked anew.
                let clone = self.inner.clone();
                let ready = mem::replace(&mut self.inner, clone);
                State::Deciding { deciding, next: Some((ready, request)) }
            }
        };
        AdmitFuture { state }
    }
}

pin_project! {
    /// The answer of an [`Admit`]. Dropping it gives back what the request holds.
    pub struct AdmitFuture<S, A>
    where
        S: Service<Request<A>>,
    {
        #[pin]
        state: State<S, A>,
    }
}

pin_project! {
    #[project = StateProjection]
    enum State<S, A>
    where
        S: Service<Request<A>>,
    {
        Answered { response: Option<Response<Bytes>> },
        Deciding { deciding: Deciding, next: Option<(S, Request<A>)> },
        // The future stands first: it is dropped before its permit is given back.
        Serving { #[pin] future: S::Future, hold: Option<ResponseHold> },
    }
}

impl<S, A, B> Future for AdmitFuture<S, A>
where
    S: Service<Request<A>, Response = Response<B>>,
    B: Body,
{
    type Output = Result<Response<AdmitBody<B>>, S::Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        const AGAIN: &str = "a future is not polled after it is done";
        let mut state = self.project().state;
        loop {
            match state.as_mut().project() {
                StateProjection::Answered { response } => {
                    return Poll::Ready(Ok(response.take().expect(AGAIN).map(AdmitBody::own)));
                }
                StateProjection::Deciding { deciding, next } => {
                    let verdict = ready!(deciding.as_mut().poll(cx));
                    let (mut service, mut request) = next.take().expect(AGAIN);
                    state.set(match verdict {
                        Verdict::Admit(hold) => {
                            hold.tell_feature(request.extensions_mut());
                            State::Serving { future: service.call(request), hold: Some(hold) }
                        }
                        Verdict::Answer(response) => State::Answered { response: Some(response) },
                    });
                }
                StateProjection::Serving { future, hold } => {
                    let answer = ready!(future.poll(cx));
                    let mut hold = hold.take().expect(AGAIN);
                    return Poll::Ready(match answer {
                        Ok(response) => {
                            let (mut head, body) = response.into_parts();
                            hold.answer(&mut head);
                            let failed = has_failed(Some(head.status), &head.headers);
                            Ok(Response::from_parts(head, AdmitBody::served(body, hold, failed)))
                        }
                        Err(error) => {
                            hold.settle(Outcome::Failed);
                            Err(error)
                        }
                    });
                }
            }
        }
    }
}

impl<S: Service<Request<A>>, A> fmt::Debug for AdmitFuture<S, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match &self.state {
            State::Answered { .. } => "answered",
            State::Deciding { .. } => "deciding",
            State::Serving { .. } => "serving",
        };
        f.debug_tuple("AdmitFuture").field(&state).finish()
    }
}

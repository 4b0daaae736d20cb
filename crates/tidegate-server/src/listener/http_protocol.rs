//! A protocol over HTTP, as the service of a connection knows it.

use core::future::Future;

use http::{Request, Response};
use hyper::body::{Body, Incoming};
use tidegate_net::connections::ConnectionActivity;
use tidegate_wire::Fault;

use crate::context::DaemonContext;
use crate::listener::request_connection::RequestConnection;

/// A protocol over HTTP.
pub(crate) trait HttpProtocol: Send + Sync + 'static {
    /// The bodies of its answers.
    type Body: Body<Data: Send, Error: Into<Box<dyn core::error::Error + Send + Sync>>> + Send + 'static;

    /// Whether its answers are passed on from a server: their streams last, so that each is a task
    /// of its own that can be ended, and their bodies are large.
    const PASSES_ON: bool;

    /// Whether the clients of some of its answers are pinged while the answers last.
    const PROBES_CLIENTS: bool;

    /// Answers one request.
    fn answer(
        &self,
        on: &RequestConnection,
        request: Request<Incoming>,
    ) -> impl Future<Output = Response<Self::Body>> + Send;

    /// The daemon that it is a protocol of.
    fn daemon(&self) -> &DaemonContext;

    /// The answer to a request whose handler panicked.
    fn panicked(&self, fault: &Fault) -> Response<Self::Body>;
}

/// Notes that a request is finished, also when its caller went away before the answer.
pub(crate) struct RequestFinishGuard<'a>(pub(crate) &'a ConnectionActivity);

impl Drop for RequestFinishGuard<'_> {
    fn drop(&mut self) {
        self.0.request_finished();
    }
}

//! The service of one connection, from its TLS handshake to its end, by the protocol of its
//! listener.

use core::convert::Infallible;
use core::future::{Future, poll_fn};
use core::pin::pin;
use core::task::Poll;
use std::sync::Arc;

use futures_util::future::Either;
use http::{Request, Response};
use hyper::body::{Body, Incoming};
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use tidegate_net::connections::{
    ConnectionActivity, ConnectionCommand, DeliveredBody, HiddenEndLooks, MonitoredStream, OpenConnection,
    PeerShutdown, STREAM_WINDOW_BYTES, StreamExecutor, StreamSet,
};
use tidegate_net::reply::{self, Reply, ReplyBody};
use tidegate_net::tls::{Tls, names_in};
use tidegate_net::{Bounds, Peer};
use tidegate_proxy::{AnswerBody, ReverseProxy};
use tidegate_wire::Fault;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::server::TlsStream;

use crate::context::DaemonContext;
use crate::daemon::Daemon;
use crate::grpc::{self, GrpcServer};
use crate::http_api::{self, HttpApi};
use crate::listener_role::{ListenerProtocol, ListenerRole};
use crate::panics::caught;
use crate::request_connection::RequestConnection;
use crate::resp;

/// The bytes of a connection: over TCP or a Unix socket, with TLS or without.
trait ConnectionStream: AsyncRead + AsyncWrite + PeerShutdown + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + PeerShutdown + Send + Unpin> ConnectionStream for S {}

/// All kinds of connections in one type, so that each protocol is compiled once and not four times.
/// A read or a write costs an indirect call.
type BoxedStream = Box<dyn ConnectionStream>;

/// Serves an accepted connection to its end, after the TLS handshake if its listener has one.
pub(crate) fn serve_accepted<S>(
    daemon: Arc<Daemon>,
    serves: ListenerRole,
    peer: Peer,
    stream: S,
    tls: Option<Arc<Tls>>,
    mut open: OpenConnection,
) -> impl Future<Output = ()> + Send
where
    S: AsyncRead + AsyncWrite + PeerShutdown + Send + Unpin + 'static,
{
    // In boxes, so that a connection takes the memory of its own kind and not that of the largest.
    let Some(tls) = tls else {
        return Either::Left(Box::pin(serve(daemon, serves, peer, Box::new(stream), open)));
    };
    Either::Right(Box::pin(async move {
        if let Some(stream) = Box::pin(shake_hands(&daemon.context, &tls, &open.line, stream)).await {
            open.names = names_shown(&stream);
            Box::pin(serve(daemon, serves, peer, Box::new(stream), open)).await;
        }
    }))
}

/// A connection after its TLS handshake, which takes at most as long as a request's headers may.
async fn shake_hands<S>(
    daemon: &DaemonContext,
    tls: &Tls,
    line: &ConnectionActivity,
    stream: S,
) -> Option<TlsStream<S>>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let handshake = tokio::time::timeout(daemon.config.bounds.header_timeout, tls.acceptor().accept(stream));
    let handshake = tokio::select! {
        handshake = handshake => handshake,
        // The listener is full, or the daemon ends.
        () = line.until_commanded() => return None,
    };
    let error = match handshake {
        Ok(Ok(stream)) => return Some(stream),
        Ok(Err(error)) => error.to_string(),
        Err(_) => "it took too long".to_owned(),
    };
    daemon.metrics.broken_tls();
    tracing::debug!(error, "a TLS handshake failed");
    None
}

/// The names in the certificate that a client showed.
fn names_shown<S>(stream: &TlsStream<S>) -> Arc<[String]> {
    let shown = stream.get_ref().1.peer_certificates().and_then(<[_]>::first);
    shown.map_or_else(Arc::default, names_in)
}

/// A protocol over HTTP.
trait HttpProtocol: Send + Sync + 'static {
    /// The bodies of its answers.
    type Body: Body<Data: Send, Error: Into<Box<dyn core::error::Error + Send + Sync>>> + Send + 'static;

    /// Whether its answers are passed on from a server: their streams last, so that each is a task
    /// of its own that can be ended, and their bodies are large.
    const PASSES_ON: bool;

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

impl HttpProtocol for HttpApi {
    type Body = ReplyBody;
    const PASSES_ON: bool = false;

    async fn answer(&self, on: &RequestConnection, request: Request<Incoming>) -> Reply {
        on.line.request_started();
        let _finished = RequestFinishGuard(&on.line);
        let is_http2 = request.version() == http::Version::HTTP_2;
        let mut reply = http_api::answer(self, on, request).await;
        reply.body_mut().go_out(&on.line, is_http2);
        reply
    }

    fn daemon(&self) -> &DaemonContext {
        &self.daemon
    }

    fn panicked(&self, fault: &Fault) -> Reply {
        self.daemon.metrics.fault(fault.code);
        let reply = reply::fault(fault);
        self.metrics.answered(None, reply.status().as_u16());
        reply
    }
}

impl HttpProtocol for GrpcServer {
    type Body = DeliveredBody<tonic::body::Body>;
    const PASSES_ON: bool = false;

    fn answer(
        &self,
        on: &RequestConnection,
        request: Request<Incoming>,
    ) -> impl Future<Output = Response<Self::Body>> + Send {
        on.line.request_started();
        let finished = RequestFinishGuard(&on.line);
        // In a box that is made when the call has its turn: a connection begins hundreds of streams
        // at once, and the answer of a stream that stays open needs none of it.
        Box::pin(async move {
            let _finished = finished;
            let mut response = grpc::answer(self, &on.line, &on.names, request).await;
            response.body_mut().go_out(&on.line);
            response
        })
    }

    fn daemon(&self) -> &DaemonContext {
        &self.daemon
    }

    fn panicked(&self, fault: &Fault) -> Response<Self::Body> {
        grpc::panicked(self, fault)
    }
}

/// The proxy counts a request as under way until the body of its answer has ended.
impl HttpProtocol for ReverseProxy<DaemonContext> {
    type Body = AnswerBody;
    const PASSES_ON: bool = true;

    async fn answer(&self, on: &RequestConnection, request: Request<Incoming>) -> Response<AnswerBody> {
        tidegate_proxy::answer(self, &on.line, on.peer, request).await
    }

    fn daemon(&self) -> &DaemonContext {
        self.decisions()
    }

    fn panicked(&self, fault: &Fault) -> Response<AnswerBody> {
        tidegate_proxy::answer_to_fault(self, fault)
    }
}

/// Serves one connection to its end.
async fn serve(
    daemon: Arc<Daemon>,
    serves: ListenerRole,
    peer: Peer,
    stream: BoxedStream,
    open: OpenConnection,
) {
    let context = &*daemon.context;
    let on =
        || RequestConnection { line: Arc::clone(&open.line), names: Arc::clone(&open.names), peer, serves };
    match serves.speaks {
        ListenerProtocol::Resp => Box::pin(resp::serve(&daemon.resp, stream, peer.address, &open)).await,
        ListenerProtocol::Api => serve_http(context, &daemon.http, on(), stream).await,
        ListenerProtocol::Grpc => serve_http(context, &daemon.grpc, on(), stream).await,
        ListenerProtocol::Proxy => serve_http(context, &daemon.proxy, on(), stream).await,
    }
    open.line.watch_reset().await;
}

/// Serves one connection of a protocol over HTTP to its end.
async fn serve_http<P: HttpProtocol>(
    context: &DaemonContext,
    protocol: &Arc<P>,
    on: RequestConnection,
    stream: BoxedStream,
) {
    let line = Arc::clone(&on.line);
    // One shared thing for each request to hold on to, not two.
    let shared = Arc::new((Arc::clone(protocol), on));
    let service = service_fn(move |request| {
        let shared = Arc::clone(&shared);
        async move {
            let (protocol, on) = &*shared;
            let answered = caught(&protocol.daemon().metrics, protocol.answer(on, request)).await;
            Ok::<_, Infallible>(answered.unwrap_or_else(|fault| protocol.panicked(&fault)))
        }
    });
    let bounds = &context.config.bounds;
    let mut stream = MonitoredStream::http(stream, Arc::clone(&line), bounds.linger);
    let (mut executor, mut together) = (StreamExecutor::Tasks, None);
    if !P::PASSES_ON {
        let streams = StreamSet::default();
        executor = StreamExecutor::InTurn(streams.begun());
        together = Some(streams);
        stream = stream.following_streams();
    }
    let builder = http(executor, bounds, P::PASSES_ON);
    Box::pin(run(context, &builder, together, service, stream, &line)).await;
}

/// How connections are spoken on, whose streams are run by `streams`.
fn http(streams: StreamExecutor, bounds: &Bounds, is_proxy: bool) -> Builder<StreamExecutor> {
    let mut builder = Builder::new(streams);
    builder
        .http1()
        // Idle connections and slow headers are found by the sweep, which costs a request nothing.
        .timer(TokioTimer::new())
        .header_read_timeout(None)
        // Small answers: copying head and body together costs less than handing the kernel two
        // pieces.
        .writev(is_proxy)
        // The API answers a client that has ended its output, unless the request waits in a queue
        // (`ConnectionActivity::hold`).
        .half_close(!is_proxy)
        .max_headers(bounds.headers)
        .max_buf_size(bounds.header_bytes.max(8 << 10));
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(bounds.streams)
        .max_header_list_size(u32::try_from(bounds.header_bytes).unwrap_or(u32::MAX));
    if is_proxy {
        // A body comes so far while its request waits, unread. The library's default is 1 MiB.
        builder.http2().initial_stream_window_size(STREAM_WINDOW_BYTES);
    }
    builder
}

/// Serves one connection until it ends or is told to, with its streams if they are answered
/// together.
async fn run<T, B>(
    daemon: &DaemonContext,
    builder: &Builder<StreamExecutor>,
    mut together: Option<StreamSet>,
    service: T,
    stream: MonitoredStream<BoxedStream>,
    line: &Arc<ConnectionActivity>,
) where
    T: Service<Request<Incoming>, Response = Response<B>, Error = Infallible>,
    T::Future: Send + 'static,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn core::error::Error + Send + Sync>>,
{
    let io = TokioIo::new(stream);
    let mut connection = pin!(builder.serve_connection_with_upgrades(io, service));
    let mut is_registered = false;
    let mut is_finishing = false;
    let mut looks = HiddenEndLooks::default();
    let ended = poll_fn(|cx| {
        loop {
            if let Poll::Ready(ended) = connection.as_mut().poll(cx) {
                return Poll::Ready(Some(ended));
            }
            if together.as_mut().is_some_and(|streams| streams.go_on(cx)) {
                continue;
            }
            match line.order(cx, &mut is_registered) {
                ConnectionCommand::Close => return Poll::Ready(None),
                ConnectionCommand::Finish if !is_finishing => {
                    is_finishing = true;
                    connection.as_mut().graceful_shutdown();
                    // The waker was used up by the order; the next one needs it again.
                    is_registered = false;
                    continue;
                }
                ConnectionCommand::Serve | ConnectionCommand::Finish => {}
            }
            if looks.poll_next(line, cx).is_pending() {
                return Poll::Pending;
            }
        }
    })
    .await;
    if let Some(Err(error)) = ended {
        let is_malformed = error.downcast_ref::<hyper::Error>().is_some_and(hyper::Error::is_parse);
        if is_malformed {
            daemon.metrics.broken_http();
        }
        tracing::debug!(%error, "a connection ended early");
    }
}

/// Notes that a request is finished, also when its caller went away before the answer.
struct RequestFinishGuard<'a>(&'a ConnectionActivity);

impl Drop for RequestFinishGuard<'_> {
    fn drop(&mut self) {
        self.0.request_finished();
    }
}

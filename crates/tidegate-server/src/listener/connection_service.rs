//! The service of one connection, from its TLS handshake to its end, by the protocol of its
//! listener.

use core::convert::Infallible;
use core::future::{Future, poll_fn};
use core::pin::pin;
use core::task::Poll;
use core::time::Duration;
use std::sync::Arc;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use tidegate_core::lease::TAKEN_WITHIN;
use tidegate_net::connections::{
    ConnectionActivity, ConnectionCommand, DeliveredBody, HiddenEndLooks, KeepAliveTimer, MonitoredStream,
    OpenConnection, PeerShutdown, STREAM_WINDOW_BYTES, StreamExecutor, StreamSet,
};
use tidegate_net::tls::{Tls, names_in};
use tidegate_net::{Bounds, Peer};
use tidegate_policy::policy::ListenerRole;
use tidegate_proxy::{AnswerBody, ReverseProxy};
use tidegate_wire::Fault;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::server::TlsStream;

use crate::context::DaemonContext;
use crate::daemon::Daemon;
use crate::grpc::{self, GrpcServer};
use crate::listener::http_protocol::{HttpProtocol, RequestFinishGuard};
use crate::listener::listener_service::ListenerService;
use crate::listener::request_connection::RequestConnection;
use crate::panics::caught;
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
    serves: ListenerService,
    peer: Peer,
    stream: S,
    tls: Option<Arc<Tls>>,
    mut open: OpenConnection,
) -> impl Future<Output = ()> + Send
where
    S: AsyncRead + AsyncWrite + PeerShutdown + Send + Unpin + 'static,
{
    // In a box, so that a connection takes the memory of its own kind and not that of the largest.
    Box::pin(async move {
        let stream: BoxedStream = match tls {
            Some(tls) => {
                let shaken = Box::pin(shake_hands(&daemon.context, &tls, &open.line, stream)).await;
                let Some(stream) = shaken else { return };
                open.names = names_shown(&stream);
                Box::new(stream)
            }
            None => Box::new(stream),
        };
        let context = &*daemon.context;
        let on = || RequestConnection {
            line: Arc::clone(&open.line),
            names: Arc::clone(&open.names),
            peer,
            serves,
        };
        match serves.role {
            ListenerRole::Resp => {
                Box::pin(resp::serve(&daemon.resp, stream, peer.address, &open)).await;
            }
            ListenerRole::Http | ListenerRole::Admin => {
                Box::pin(serve_http(context, &daemon.http, on(), stream)).await;
            }
            ListenerRole::Grpc => Box::pin(serve_http(context, &daemon.grpc, on(), stream)).await,
            ListenerRole::Proxy => Box::pin(serve_http(context, &daemon.proxy, on(), stream)).await,
        }
        open.line.watch_reset().await;
    })
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
    daemon.metrics.fault_of_protocol("tls_handshake");
    tracing::debug!(error, "a TLS handshake failed");
    None
}

/// The names in the certificate that a client showed.
fn names_shown<S>(stream: &TlsStream<S>) -> Arc<[String]> {
    let shown = stream.get_ref().1.peer_certificates().and_then(<[_]>::first);
    shown.map_or_else(Arc::default, names_in)
}

/// How long a client may send nothing before it is asked by a ping whether it has read its answer.
const PING_AFTER: Duration = Duration::from_millis(100);

impl HttpProtocol for GrpcServer {
    type Body = DeliveredBody<tonic::body::Body>;
    const PASSES_ON: bool = false;
    const PROBES_CLIENTS: bool = true;

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
    const PROBES_CLIENTS: bool = false;

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

/// Serves one connection of a protocol over HTTP until it ends or is told to. Streams of a protocol
/// that answers by itself are answered together.
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
    let mut builder = http(executor, bounds, P::PASSES_ON);
    if P::PROBES_CLIENTS {
        let pings = &mut builder.http2();
        pings.timer(KeepAliveTimer::new(Arc::clone(&line)));
        pings.keep_alive_interval(PING_AFTER).keep_alive_timeout(TAKEN_WITHIN);
    }
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
            if looks.poll_next(&line, cx).is_pending() {
                return Poll::Pending;
            }
        }
    })
    .await;
    if let Some(Err(error)) = ended {
        let is_malformed = error.downcast_ref::<hyper::Error>().is_some_and(hyper::Error::is_parse);
        if is_malformed {
            context.metrics.fault_of_protocol("malformed_http");
        }
        tracing::debug!(%error, "a connection ended early");
    }
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

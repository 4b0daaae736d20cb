//! Requests that the proxy gives up while their upstream works on them: the upstream learns of it,
//! and the place is free.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response};
use http_body_util::BodyExt;
use hyper::body::{Body, Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tidegate_clock::Clock;
use tidegate_server::{ListenerRole, ProxyConfig};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::upstream::serve;
use super::{get, route, to};
use crate::client::Client;
use crate::paused_clock::at_this_instant;
use crate::world::{World, loopback};

/// The time of a route after which its requests are given up.
const TIME: Duration = Duration::from_millis(50);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Version {
    Http1,
    Http2,
}

/// How far a request has come when it is given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Moment {
    /// Half of its body was sent.
    Upload,
    /// It was sent, and nothing was answered.
    Work,
    /// Half of its answer was sent.
    Answer,
}

/// Why a request is given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    /// Its client leaves: by closing the connection, or by resetting the stream of HTTP/2.
    ClientLeaves,
    /// The time of its route is over.
    Timeout,
}

/// The news of an upstream about a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum News {
    Begun,
    /// The connection or the stream has ended.
    Ended,
}

/// The work on a request, which tells of its end.
struct Work(mpsc::UnboundedSender<News>);

impl Work {
    fn begin(news: &mpsc::UnboundedSender<News>) -> Self {
        let _ = news.send(News::Begun);
        Self(news.clone())
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        let _ = self.0.send(News::Ended);
    }
}

/// A body that begins and never ends, or an empty one.
struct HalfBody {
    bytes: Option<Bytes>,
    is_empty: bool,
    _work: Option<Work>,
}

impl HalfBody {
    fn begun(work: Option<Work>) -> Self {
        Self { bytes: Some(Bytes::from_static(b"some")), is_empty: false, _work: work }
    }

    fn empty() -> Self {
        Self { bytes: None, is_empty: true, _work: None }
    }
}

impl Body for HalfBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.bytes.take() {
            Some(bytes) => Poll::Ready(Some(Ok(Frame::data(bytes)))),
            None if self.is_empty => Poll::Ready(None),
            None => Poll::Pending,
        }
    }

    fn is_end_stream(&self) -> bool {
        self.is_empty
    }
}

/// An upstream that never ends the work on a request.
pub(super) async fn endless(version: Version, moment: Moment) -> (SocketAddr, mpsc::UnboundedReceiver<News>) {
    let (tell, told) = mpsc::unbounded_channel();
    let address = match version {
        Version::Http1 => endless_http1(moment, tell).await,
        Version::Http2 => endless_http2(moment, tell).await,
    };
    (address, told)
}

async fn endless_http1(moment: Moment, tell: mpsc::UnboundedSender<News>) -> SocketAddr {
    serve(move |mut connection| {
        let tell = tell.clone();
        async move {
            if connection.until(b"\r\n\r\n").await.is_none() {
                return;
            }
            let _work = Work::begin(&tell);
            if moment == Moment::Answer {
                connection.send("HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nsome").await;
            }
            connection.until(b"never").await;
        }
    })
    .await
}

async fn endless_http2(moment: Moment, tell: mpsc::UnboundedSender<News>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let tell = tell.clone();
            let service = service_fn(move |request: Request<Incoming>| {
                let work = Work::begin(&tell);
                async move {
                    let _request = request;
                    if moment != Moment::Answer {
                        std::future::pending::<()>().await;
                    }
                    Ok::<_, Infallible>(Response::new(HalfBody::begun(Some(work))))
                }
            });
            let server = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
            tokio::spawn(server.serve_connection(TokioIo::new(stream), service));
        }
    });
    address
}

/// A request whose client waits for the answer until this is dropped.
pub(super) enum Asked {
    Http1(Client),
    Http2 {
        task: JoinHandle<()>,
        /// Told when some of the answer has come.
        answered: mpsc::UnboundedReceiver<()>,
    },
}

impl Asked {
    pub(super) async fn new(world: &World, version: Version, moment: Moment) -> Self {
        if version == Version::Http1 {
            let mut client = world.proxied().await;
            let head = "content-length: 100\r\n\r\nsome";
            client
                .send(match moment {
                    Moment::Upload => format!("POST / HTTP/1.1\r\nhost: t\r\nx-user: a\r\n{head}"),
                    Moment::Work | Moment::Answer => get("/", "x-user: a\r\n"),
                })
                .await;
            return Self::Http1(client);
        }
        let stream = TokioIo::new(TcpStream::connect(world.proxy()).await.unwrap());
        let (mut sender, connection) =
            hyper::client::conn::http2::handshake(TokioExecutor::new(), stream).await.unwrap();
        tokio::spawn(connection);
        let (method, body) = match moment {
            Moment::Upload => (Method::POST, HalfBody::begun(None)),
            Moment::Work | Moment::Answer => (Method::GET, HalfBody::empty()),
        };
        let request = Request::builder().method(method).uri("http://t/").header("x-user", "a");
        let request = request.body(body).unwrap();
        let (tell, answered) = mpsc::unbounded_channel();
        // The connection outlives the stream.
        let kept = sender.clone();
        let task = tokio::spawn(async move {
            if let Ok(mut response) = sender.send_request(request).await
                && response.frame().await.is_some()
            {
                let _ = tell.send(());
                response.frame().await;
            }
        });
        tokio::spawn(async move {
            let _kept = kept;
            std::future::pending::<()>().await;
        });
        Self::Http2 { task, answered }
    }

    pub(super) async fn is_answered(&mut self) {
        match self {
            Self::Http1(client) => client.has_received("some").await,
            Self::Http2 { answered, .. } => answered.recv().await.expect("an answer"),
        }
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        if let Self::Http2 { task, .. } = self {
            task.abort();
        }
    }
}

/// A world whose upstreams have one place each.
async fn world_of(server: SocketAddr, version: Version, moment: Moment, cause: Cause) -> World {
    let mut route = route("api");
    if cause == Cause::Timeout {
        match moment {
            Moment::Work => route.timeouts.first_byte = TIME,
            Moment::Upload | Moment::Answer => route.timeouts.total = Some(TIME),
        }
    }
    let mut proxy = to(&[server], route);
    proxy.upstreams[0].http2 = version == Version::Http2;
    let mut config = loopback();
    config.listen(ListenerRole::Proxy, "127.0.0.1:0".parse().unwrap());
    config.proxying = ProxyConfig::open(proxy).unwrap();
    World::in_flight(1, config).await
}

impl World {
    /// The places of the default resource that are taken.
    pub(super) fn places_taken(&self) -> u64 {
        self.engine.resource_stats(self.clock.now()).next().unwrap().in_flight
    }
}

/// The clock moves only for the time of the route: no other bound ends the work of the upstream.
#[tokio::test(start_paused = true)]
async fn an_upstream_learns_that_a_request_was_given_up_and_its_place_is_free() {
    let versions = [Version::Http1, Version::Http2];
    for (client, upstream) in versions.into_iter().flat_map(|one| versions.map(|other| (one, other))) {
        for moment in [Moment::Upload, Moment::Work, Moment::Answer] {
            for cause in [Cause::ClientLeaves, Cause::Timeout] {
                let case = format!("{client:?} to {upstream:?}, {moment:?}, {cause:?}");
                let (server, mut news) = endless(upstream, moment).await;
                let world = world_of(server, upstream, moment, cause).await;
                let mut asked = Asked::new(&world, client, moment).await;
                assert_eq!(at_this_instant(&case, news.recv()).await, Some(News::Begun), "{case}");
                if moment == Moment::Answer {
                    at_this_instant(&case, asked.is_answered()).await;
                }
                assert_eq!(world.places_taken(), 1, "{case}");
                let mut asked = Some(asked);
                match cause {
                    Cause::ClientLeaves => drop(asked.take()),
                    Cause::Timeout => tokio::time::advance(2 * TIME).await,
                }
                assert_eq!(at_this_instant(&case, news.recv()).await, Some(News::Ended), "{case}");
                drop(asked);
                world.settled().await;
                assert_eq!(world.places_taken(), 0, "{case}");
            }
        }
    }
}

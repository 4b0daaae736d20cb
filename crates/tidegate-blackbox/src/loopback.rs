//! Services of the suite: each listens on loopback and serves its connections on a thread of its
//! own, until the process ends.

use std::convert::Infallible;
use std::error::Error;
use std::io::Result;
use std::net::{Ipv4Addr, SocketAddr};
use std::thread;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::{Body, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};

use crate::http1::runtime;

/// Starts a service on a free port. `serve` serves a connection, which has this number.
pub(crate) fn start<F: Future<Output = ()> + Send + 'static>(
    serve: impl Fn(TcpStream, u64) -> F + Send + 'static,
) -> Result<SocketAddr> {
    let runtime = runtime()?;
    let listener = runtime.block_on(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)))?;
    let address = listener.local_addr()?;
    thread::spawn(move || {
        runtime.block_on(async {
            for number in 0.. {
                let Ok((stream, _)) = listener.accept().await else { return };
                let _ = stream.set_nodelay(true);
                tokio::spawn(serve(stream, number));
            }
        });
    });
    Ok(address)
}

/// Serves HTTP/1.1 on a connection until its end. A request whose client leaves is dropped.
pub(crate) async fn serve_http<F, B>(
    stream: TcpStream,
    respond: impl Fn(Request<Incoming>) -> F + Send + Sync,
) where
    F: Future<Output = Response<B>> + Send,
    B: Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>> + Send + 'static,
{
    let service = service_fn(|request| {
        let response = respond(request);
        async { Ok::<_, Infallible>(response.await) }
    });
    // The end of a connection is no concern of the others.
    let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}

/// An answer 200 with this body.
pub(crate) fn ok(body: impl Into<Bytes>) -> Response<Full<Bytes>> {
    Response::new(Full::new(body.into()))
}

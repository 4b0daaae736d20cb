//! A client for HTTP/2 that keeps the rules and sends one request a connection.

use std::io::{Error, Result as IoResult};
use std::net::SocketAddr;

use bytes::Bytes;
use futures_util::stream::iter;
use http::{Request, Uri};
use http_body_util::StreamBody;
use hyper::body::{Body, Frame};
use hyper::client::conn::http2::{SendRequest, handshake};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::time::timeout;

use crate::attack::Failure;
use crate::http1::{READ_TIMEOUT, connect, runtime};

/// Connects to `address`.
pub(crate) async fn begin<B>(address: SocketAddr) -> IoResult<SendRequest<B>>
where
    B: Body<Data: Send, Error: std::error::Error + Send + Sync> + Send + Unpin + 'static,
{
    let stream = TokioIo::new(connect(address).await?);
    let (sender, connection) = handshake(TokioExecutor::new(), stream).await.map_err(Error::other)?;
    // Ends with the runtime.
    tokio::spawn(connection);
    Ok(sender)
}

/// The status of the answer to a request to `authority` with the fields `headers`, which may repeat
/// a name. The body has no `content-length`; without one the request ends with its headers.
pub fn ask(
    address: SocketAddr,
    method: &str,
    path: &str,
    authority: &str,
    headers: &[(&str, &str)],
    body: Option<&'static [u8]>,
) -> Result<u16, Failure> {
    let uri = Uri::builder().scheme("http").authority(authority).path_and_query(path).build();
    let mut request = Request::builder().method(method).uri(uri.map_err(unfinished)?);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let frames = body.map(|body| Ok::<_, Error>(Frame::data(Bytes::from_static(body))));
    let request = request.body(StreamBody::new(iter(frames))).map_err(unfinished)?;
    runtime()?.block_on(async {
        let mut sender = begin(address).await?;
        let answer = timeout(READ_TIMEOUT, sender.send_request(request)).await;
        let answer = answer.map_err(|_| Failure::GotThrough("HTTP/2: no answer in 10 s".to_owned()))?;
        Ok(answer.map_err(unfinished)?.status().as_u16())
    })
}

fn unfinished(error: impl core::fmt::Display) -> Failure {
    Failure::Unfinished(format!("HTTP/2: {error}"))
}

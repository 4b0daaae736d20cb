//! A client for HTTP/2 that sends one request a connection.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Uri};

use crate::attack::Failure;

/// How long one request may take.
const REQUEST_MAX: Duration = Duration::from_secs(10);

/// An answer.
#[derive(Clone, Debug)]
pub struct Http2Answer {
    /// Its status.
    pub status: u16,
    /// Its headers and trailers.
    pub headers: http::HeaderMap,
    /// Its body.
    pub body: Vec<u8>,
}

/// Sends a request to `authority` with the fields `headers`, which may repeat a name, on a
/// connection of its own. Without `body` the request ends with its headers; with one it has no
/// `content-length`.
pub fn ask(
    address: SocketAddr,
    method: &str,
    path: &str,
    authority: &str,
    headers: &[(&str, &str)],
    body: Option<&[u8]>,
) -> Result<Http2Answer, Failure> {
    let uri = Uri::builder().scheme("http").authority(authority).path_and_query(path).build();
    let mut request = Request::builder().method(method).uri(uri.map_err(unfinished)?);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.body(()).map_err(unfinished)?;
    let body = body.map(Bytes::copy_from_slice);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let answer = tokio::time::timeout(REQUEST_MAX, exchange(address, request, body)).await;
        answer.map_err(|_| Failure::GotThrough("HTTP/2: no answer in 10 s".to_owned()))?
    })
}

async fn exchange(
    address: SocketAddr,
    request: Request<()>,
    body: Option<Bytes>,
) -> Result<Http2Answer, Failure> {
    let stream = tokio::net::TcpStream::connect(address).await?;
    let (client, connection) = h2::client::handshake(stream).await.map_err(unfinished)?;
    // Ends with the runtime.
    tokio::spawn(connection);
    let mut client = client.ready().await.map_err(unfinished)?;
    let (response, mut sender) = client.send_request(request, body.is_none()).map_err(unfinished)?;
    if let Some(body) = body {
        // A server may answer before it takes the body, and reset the stream after that.
        let _ = sender.send_data(body, true);
    }
    let response = response.await.map_err(unfinished)?;
    let status = response.status().as_u16();
    let mut headers = response.headers().clone();
    let mut received = response.into_body();
    let mut body = Vec::new();
    while let Some(piece) = received.data().await {
        let piece = piece.map_err(unfinished)?;
        let _ = received.flow_control().release_capacity(piece.len());
        body.extend_from_slice(&piece);
    }
    if let Ok(Some(trailers)) = received.trailers().await {
        headers.extend(trailers);
    }
    Ok(Http2Answer { status, headers, body })
}

fn unfinished(error: impl core::fmt::Display) -> Failure {
    Failure::Unfinished(format!("HTTP/2: {error}"))
}

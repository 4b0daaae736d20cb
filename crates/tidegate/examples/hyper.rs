//! A hyper server with limits: `cargo run -p tidegate --features tower --example hyper`, then
//! `curl -i http://127.0.0.1:3000/` a few times.

use std::convert::Infallible;
use std::error::Error;
use std::net::{IpAddr, SocketAddr};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use tidegate::Limit;
use tidegate::tower::{AdmitLayer, extract};
use tokio::net::TcpListener;
use tower::{Layer, service_fn};

/// Three requests a minute for each address.
pub fn layer() -> Result<AdmitLayer, Box<dyn Error>> {
    let limit = Limit::rate("per-address", "3/m")?.key(["client_ip"]);
    let address = extract::client_address(|head| head.extensions.get::<IpAddr>().copied());
    Ok(AdmitLayer::from_limits([limit])?.attribute("client_ip", address).check_attributes()?)
}

async fn hello(_request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    Ok(Response::new(Full::from("hello\n")))
}

/// Serves connections until the listener fails.
pub async fn serve(listener: TcpListener, layer: AdmitLayer) -> std::io::Result<()> {
    loop {
        let (stream, peer): (_, SocketAddr) = listener.accept().await?;
        let with_address = move |mut request: Request<Incoming>| {
            request.extensions_mut().insert(peer.ip());
            request
        };
        let service = tower::ServiceExt::map_request(layer.layer(service_fn(hello)), with_address);
        tokio::spawn(async move {
            let service = TowerToHyperService::new(service);
            let _ = Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    Ok(serve(TcpListener::bind("127.0.0.1:3000").await?, layer()?).await?)
}

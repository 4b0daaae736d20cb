//! A client that keeps to the rate it was promised: `cargo run -p tidegate --features tower
//! --example client`. Calls that come too early wait for their turn.

use std::convert::Infallible;
use std::error::Error;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use tidegate::Limit;
use tidegate::tower::{AdmitLayer, extract};
use tower::{Layer, ServiceExt, service_fn};

/// Ten calls a second to each host, one after the other.
pub fn layer() -> Result<AdmitLayer, Box<dyn Error>> {
    let limit = Limit::rate("per-host", "10/s")?.burst(1).key(["host"]);
    Ok(AdmitLayer::from_limits([limit])?
        .attribute("host", extract::header("host"))
        .wait(Duration::from_secs(5)))
}

/// Stands for the client of a program, such as the one of hyper-util.
async fn send(request: Request<()>) -> Result<Response<Full<Bytes>>, Infallible> {
    Ok(Response::new(Full::from(format!("sent {}", request.uri()))))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let client = layer()?.layer(service_fn(send));
    for number in 1..=5 {
        let request = Request::get(format!("/{number}")).header("host", "api.example").body(())?;
        let response = client.clone().oneshot(request).await?;
        println!("{number}: {}", response.status());
    }
    Ok(())
}

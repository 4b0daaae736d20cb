//! An axum service that stays up under overload: `cargo run -p tidegate-tower --example overload`,
//! then `oha -z 10s -c 500 -H 'x-tier: bronze' http://127.0.0.1:3000/` beside
//! `oha -z 10s -q 200 -H 'x-tier: gold' http://127.0.0.1:3000/`.

use std::time::Duration;

use axum::Router;
use axum::routing::get;
use tidegate_core::Class;
use tidegate_tower::{ConcurrencyLayer, QueueConfig, ResourceConfig, extract};

type Error = Box<dyn std::error::Error>;

/// The requests that the service works on at once, and how long one takes: 1000 a second.
pub const PLACES: u64 = 10;
/// The time that the service takes for one request.
pub const SERVICE_TIME: Duration = Duration::from_millis(10);

/// Ten requests at once; the others wait in a fair queue, gold eight times as often served as
/// bronze, and each tenant of a tier as often as any other.
pub fn layer() -> Result<ConcurrencyLayer, Error> {
    let resource = ResourceConfig::new(PLACES).queue(QueueConfig::default());
    Ok(ConcurrencyLayer::from_resource(resource, 7)?
        // A real service reads the tier from a place that callers cannot write.
        .class(|head: &extract::Head<'_>| match head.headers.get("x-tier")?.as_bytes() {
            b"gold" => Some("critical".into()),
            _ => Some("sheddable".into()),
        })
        .tenant(extract::header("x-tenant"))
        .wait(Duration::from_millis(500))
        .wait_of(Class::Sheddable, Duration::from_millis(100)))
}

/// The service behind a layer.
pub fn app(layer: ConcurrencyLayer) -> Router {
    let work = async || {
        tokio::time::sleep(SERVICE_TIME).await;
        "done\n"
    };
    Router::new().route("/", get(work)).layer(layer)
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:3000").await?;
    Ok(axum::serve(listener, app(layer()?)).await?)
}

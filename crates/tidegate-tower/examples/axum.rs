//! An axum service with limits: `cargo run -p tidegate-tower --example axum`, then
//! `for i in 1 2 3 4; do curl -i -H 'x-user: ada' http://127.0.0.1:3000/hello; done`.

use std::time::{Duration, SystemTime};

use axum::Router;
use axum::routing::get;
use tidegate_core::algorithm::{Bucket, Concurrency};
use tidegate_core::{Algorithm, Limit, Rate};
use tidegate_engine::{Engine, EngineConfig, NamespaceConfig};
use tidegate_tower::{AdmitLayer, extract};

type Error = Box<dyn std::error::Error>;

/// Three requests a minute for each user; two reports at a time for all.
pub fn limits() -> Result<Vec<Limit>, Error> {
    let per_user = Bucket::new(Rate::new(3, Duration::from_mins(1))?, 3)?;
    let reports = Concurrency::new(2, Duration::from_secs(30))?;
    Ok(vec![
        Limit::new("per-user", Algorithm::Bucket(per_user)).key(["user"]),
        Limit::new("reports", Algorithm::Concurrency(reports)).key(["report"]),
    ])
}

/// The service. A request's permit is settled when its answer has ended, or when its client is
/// gone.
pub fn app(seed: [u64; 4]) -> Result<Router, Error> {
    let api = NamespaceConfig { name: "api".into(), limits: limits()? };
    let engine = Engine::builder(EngineConfig::seeded(seed)).namespace(api).build()?;
    let admit = AdmitLayer::new(engine)
        .namespace("api")
        .attribute("user", extract::header("x-user"))
        .attribute("report", |head: &extract::Head<'_>| {
            head.uri.path().starts_with("/report").then(|| "any".into())
        })
        .cost_from_response("x-cost")
        // A request that is a little too early waits instead of being refused.
        .wait(Duration::from_millis(200));
    let app = Router::new()
        .route("/hello", get(async || "hello\n"))
        .route("/report", get(async || ([("x-cost", "2")], "a report costs two\n")));
    Ok(app.layer(admit))
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    // Strangers choose the keys, so they must not know the seed: a service takes it from the
    // system's randomness.
    let seed = SystemTime::UNIX_EPOCH.elapsed()?.as_nanos() as u64;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:3000").await?;
    Ok(axum::serve(listener, app([seed, 2, 3, 4])?).await?)
}

//! An axum service with limits: `cargo run -p tidegate-tower --example axum`, then
//! `for i in 1 2 3 4; do curl -i -H 'x-user: ada' http://127.0.0.1:3000/hello; done`.

use std::time::Duration;

use axum::Router;
use axum::routing::get;
use tidegate_core::Limit;
use tidegate_tower::{AdmitLayer, extract};

type Error = Box<dyn std::error::Error>;

/// Three requests a minute for each user; two reports at a time for all.
pub fn limits() -> Result<Vec<Limit>, Error> {
    Ok(vec![
        Limit::rate("per-user", "3/m")?.key(["user"]),
        Limit::concurrency("reports", 2, "30s")?.key(["report"]),
    ])
}

/// The service. A request's permit is settled when its answer has ended, or when its client is
/// gone.
pub fn app() -> Result<Router, Error> {
    let admit = AdmitLayer::from_limits(limits()?)?
        .attribute("user", extract::header("x-user"))
        .attribute("report", |head: &extract::Head<'_>| {
            head.uri.path().starts_with("/report").then(|| "any".into())
        })
        .cost_from_response("x-cost")
        // A request that is a little too early waits instead of being refused.
        .wait(Duration::from_millis(200))
        .check_attributes()?;
    let app = Router::new()
        .route("/hello", get(async || "hello\n"))
        .route("/report", get(async || ([("x-cost", "2")], "a report costs two\n")));
    Ok(app.layer(admit))
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:3000").await?;
    Ok(axum::serve(listener, app()?).await?)
}

//! An axum service with the limits of a YAML file:
//! `cargo run -p tidegate --features policy,tower --example policy -- policy.yaml`.

use std::error::Error;
use std::path::Path;

use axum::Router;
use axum::routing::get;
use tidegate::tower::{AdmitLayer, extract};

/// The service, by the limits of namespace `api` in the file.
pub fn app(policy: &Path) -> Result<Router, Box<dyn Error>> {
    let admit = AdmitLayer::new(tidegate::policy::engine(policy)?, "api")?
        .attribute("user", extract::header("x-user"))
        .attribute("path", |head: &extract::Head<'_>| Some(head.uri.path().to_owned()))
        .check_attributes()?;
    Ok(Router::new().route("/hello", get(async || "hello\n")).layer(admit))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args_os().nth(1).unwrap_or_else(|| "policy.yaml".into());
    let listener = tokio::net::TcpListener::bind("127.0.0.1:3000").await?;
    Ok(axum::serve(listener, app(Path::new(&path))?).await?)
}

//! An axum service whose images lose quality before its checkout loses speed:
//! `cargo run -p tidegate-tower --example images`, then `curl -i http://127.0.0.1:3000/images/7`.

use std::time::Duration;

use axum::routing::get;
use axum::{Extension, Router};
use tidegate_core::{Class, Limit};
use tidegate_engine::{Engine, EngineConfig, NamespaceConfig};
use tidegate_overload::{FeatureConfig, FeatureLevelConfig, Overload};
use tidegate_tower::{AdmitLayer, EngineHandle, FeatureLevel, ResourceConfig, extract};

type Error = Box<dyn std::error::Error>;

/// The requests that the service works on at once.
pub const PLACES: u64 = 10;

/// The levels of `images`, best first, with what an image costs beside one at the first.
pub const LEVELS: [(&str, f64); 3] = [("720p", 1.0), ("480p", 0.45), ("off", 0.0)];

/// An engine whose feature `images` gives up its levels when the places of the service are in use.
pub fn engine() -> Result<EngineHandle, Error> {
    let mut images = FeatureConfig::new("images", Class::Sheddable);
    images.levels = LEVELS.map(|(name, cost)| FeatureLevelConfig::new(name, cost)).into();
    let overload = Overload::builder(7).default_resource(ResourceConfig::new(PLACES)).feature(images);
    let shop = NamespaceConfig::new("shop", [Limit::rate("all", "100000/s")?]);
    let engine = Engine::builder(EngineConfig::default()).namespace(shop).overload(overload.build()?);
    Ok(engine.build()?.into())
}

/// The layer before the service: the first segment of the path is the feature of a request.
pub fn layer(engine: EngineHandle) -> Result<AdmitLayer, Error> {
    Ok(AdmitLayer::new(engine, "shop")?
        .feature(extract::segment(0))
        .class(|head: &extract::Head<'_>| head.uri.path().starts_with("/images").then(|| "sheddable".into())))
}

/// The service behind a layer.
pub fn app(layer: AdmitLayer) -> Router {
    let images = async |Extension(level): Extension<FeatureLevel>| {
        // A smaller image is made in less time.
        let cost = LEVELS.iter().find(|(name, _)| *name == level.name()).map_or(1.0, |(_, cost)| *cost);
        tokio::time::sleep(Duration::from_millis(20).mul_f64(cost)).await;
        format!("an image in {}\n", level.name())
    };
    let checkout = async || "paid\n";
    Router::new().route("/images/{id}", get(images)).route("/checkout", get(checkout)).layer(layer)
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:3000").await?;
    Ok(axum::serve(listener, app(layer(engine()?)?)).await?)
}

//! An axum service whose images lose quality before its checkout loses speed:
//! `cargo run -p tidegate-tower --example images -- surge` sends it a surge of checkouts beside a
//! steady number of images, and prints the level of an image each second. Meanwhile
//! `curl -i http://127.0.0.1:3000/images/7` shows the same.

use std::time::Duration;

use axum::body::{Body, Bytes, to_bytes};
use axum::http::response::Parts;
use axum::routing::get;
use axum::{Extension, Router};
use http::Request;
use tidegate_core::{Class, Limit};
use tidegate_engine::{Engine, EngineConfig, NamespaceConfig};
use tidegate_overload::{FeatureConfig, FeatureLevelConfig, Overload};
use tidegate_tower::{AdmitLayer, EngineHandle, FeatureLevel, QueueConfig, ResourceConfig, extract};
use tower::ServiceExt;

type Error = Box<dyn std::error::Error>;

/// The requests that the service works on at once.
pub const PLACES: u64 = 10;
/// The time that the service takes for a checkout, and for an image at the best level.
pub const SERVICE_TIME: Duration = Duration::from_millis(50);

/// The levels of `images`, best first, with what an image costs beside one at the first.
pub const LEVELS: [(&str, f64); 3] = [("720p", 1.0), ("480p", 0.45), ("off", 0.0)];

/// An engine whose feature `images` gives up its levels when the places of the service are in use.
pub fn engine() -> Result<EngineHandle, Error> {
    let mut images = FeatureConfig::new("images", Class::Sheddable);
    images.levels = LEVELS.map(|(name, cost)| FeatureLevelConfig::new(name, cost)).into();
    let service = ResourceConfig::new(PLACES).queue(QueueConfig::default());
    let overload = Overload::builder(7).default_resource(service).feature(images);
    let shop = NamespaceConfig::new("shop", [Limit::rate("all", "100000/s")?]);
    let engine = Engine::builder(EngineConfig::default()).namespace(shop).overload(overload.build()?);
    Ok(engine.build()?.into())
}

/// The layer before the service: the first segment of the path is the feature of a request.
pub fn layer(engine: EngineHandle) -> Result<AdmitLayer, Error> {
    Ok(AdmitLayer::new(engine, "shop")?
        // A request that comes when all places are in use by chance waits for one.
        .wait(Duration::from_millis(100))
        .feature(extract::segment(0))
        .class(|head: &extract::Head<'_>| head.uri.path().starts_with("/images").then(|| "sheddable".into())))
}

/// The service behind a layer.
pub fn app(layer: AdmitLayer) -> Router {
    let images = async |Extension(level): Extension<FeatureLevel>| {
        // A smaller image is made in less time.
        let cost = LEVELS.iter().find(|(name, _)| *name == level.name()).map_or(1.0, |(_, cost)| *cost);
        tokio::time::sleep(SERVICE_TIME.mul_f64(cost)).await;
        format!("an image in {}\n", level.name())
    };
    let checkout = async || {
        tokio::time::sleep(SERVICE_TIME).await;
        "paid\n"
    };
    Router::new().route("/images/{id}", get(images)).route("/checkout", get(checkout)).layer(layer)
}

/// The checkouts a second in the stages of the surge. The service bears 200.
pub const CHECKOUT_RATES: [u32; 5] = [60, 125, 155, 100, 60];
/// The images a second beside them.
pub const IMAGE_RATE: u32 = 60;
/// The time of each stage.
pub const STAGE: Duration = Duration::from_secs(20);

/// An answer of the service in the surge.
#[derive(Debug)]
pub struct Answer {
    /// When the request was sent, after the start of the surge.
    pub sent: Duration,
    /// The stage then.
    pub stage: usize,
    /// The path of the request.
    pub path: &'static str,
    /// The status and the headers.
    pub head: Parts,
    /// The body.
    pub body: Bytes,
}

/// Sends the requests of the surge to the service, and shows each answer.
pub async fn surge(app: Router, show: impl Fn(Answer) + Clone + Send + 'static) {
    for (stage, checkout_rate) in CHECKOUT_RATES.into_iter().enumerate() {
        let send = async |path, rate| {
            let mut turns = tokio::time::interval(Duration::from_secs(1) / rate);
            for number in 0..rate * STAGE.as_secs() as u32 {
                turns.tick().await;
                let sent = STAGE * stage as u32 + Duration::from_secs(1) * number / rate;
                let (app, show) = (app.clone(), show.clone());
                tokio::spawn(async move {
                    let request = Request::get(path).body(Body::empty()).expect("the path is valid");
                    let Ok(response) = app.oneshot(request).await;
                    let (head, body) = response.into_parts();
                    let body = to_bytes(body, usize::MAX).await.expect("the body is in memory");
                    show(Answer { sent, stage, path, head, body });
                });
            }
        };
        tokio::join!(send("/images/7", IMAGE_RATE), send("/checkout", checkout_rate));
    }
}

/// Prints the level of the first image of each second.
fn print(answer: &Answer) {
    if answer.path != "/checkout" && answer.sent.subsec_nanos() == 0 {
        let level = answer.head.headers.get("tidegate-feature").and_then(|level| level.to_str().ok());
        let (rate, level) = (CHECKOUT_RATES[answer.stage], level.unwrap_or("no level"));
        println!("{:3} s, {rate:3} checkouts a second: {level}", answer.sent.as_secs());
    }
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let app = app(layer(engine()?)?);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:3000").await?;
    if std::env::args().any(|argument| argument == "surge") {
        tokio::spawn(surge(app.clone(), |answer| print(&answer)));
    }
    Ok(axum::serve(listener, app).await?)
}

//! The overload example at ten times its capacity, in tokio's paused time.

use core::time::Duration;
use std::sync::Arc;

use axum::body::Body;
use http::Request;
use http_body_util::BodyExt;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tower::ServiceExt;

use crate::world::TokioClock;

#[path = "../../examples/overload.rs"]
#[expect(dead_code, unreachable_pub, reason = "an example is a program of its own")]
mod example;

/// The answer to one request.
struct Sample {
    is_gold: bool,
    status: u16,
    reason: Option<String>,
    has_retry_after: bool,
    latency: Duration,
}

async fn ask(app: axum::Router, tier: &'static str, tenant: u64) -> Sample {
    let begun = Instant::now();
    let request = Request::get("/").header("x-tier", tier).header("x-tenant", tenant);
    let response = app.oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
    let (head, body) = response.into_parts();
    body.collect().await.unwrap();
    let reason = head.headers.get("x-tidegate-reason").map(|reason| reason.to_str().unwrap().to_owned());
    Sample {
        is_gold: tier == "gold",
        status: head.status.as_u16(),
        reason,
        has_retry_after: head.headers.contains_key("retry-after"),
        latency: begun.elapsed(),
    }
}

/// Runs so many seconds of an open load: 200 gold requests a second and so many of bronze, evenly
/// spaced.
async fn run(seconds: u32, bronze_rate: u32) -> Vec<Sample> {
    let start = Instant::now();
    let app = example::app(example::layer().unwrap().clock(Arc::new(TokioClock::new())));
    let mut arrivals = Vec::new();
    for (tier, rate) in [("gold", 200), ("bronze", bronze_rate)] {
        let at = |number| Duration::from_secs(1) * number / rate;
        arrivals.extend((0..rate * seconds).map(|number| (at(number), tier, u64::from(number % 50))));
    }
    arrivals.sort_unstable();
    let mut tasks = JoinSet::new();
    for (at, tier, tenant) in arrivals {
        // Sleeps: on tokio's paused clock, no real time passes.
        tokio::time::sleep_until(start + at).await;
        tasks.spawn(ask(app.clone(), tier, tenant));
    }
    tasks.join_all().await
}

#[tokio::test(start_paused = true)]
async fn at_ten_times_the_capacity_gold_is_served_and_bronze_is_shed_with_503() {
    const SECONDS: u32 = 5;
    let all = run(SECONDS, 9_800).await;
    let gold: Vec<_> = all.iter().filter(|sample| sample.is_gold).collect();
    let served = |samples: &[&Sample]| samples.iter().filter(|sample| sample.status == 200).count();
    assert!(served(&gold) * 1000 >= gold.len() * 999, "{} of {}", served(&gold), gold.len());
    let mut latencies: Vec<_> = gold.iter().map(|sample| sample.latency).collect();
    latencies.sort_unstable();
    let p99 = latencies[latencies.len() * 99 / 100];
    assert!(p99 <= 2 * example::SERVICE_TIME, "{p99:?}");
    let all: Vec<_> = all.iter().collect();
    let capacity = example::PLACES as usize * 100 * SECONDS as usize;
    println!("gold {} of {}, p99 {p99:?}; {} of {capacity} served", served(&gold), gold.len(), served(&all));
    assert!(served(&all) * 10 >= capacity * 9, "{} of {capacity} served", served(&all));
    for shed in all.iter().filter(|sample| sample.status != 200) {
        assert_eq!((shed.status, shed.has_retry_after), (503, true), "{:?}", shed.reason);
        let reason = shed.reason.as_deref().unwrap();
        assert!(["overload_shed", "queue_full"].contains(&reason), "{reason}");
    }
}

#[tokio::test(start_paused = true)]
async fn within_its_capacity_nothing_is_shed() {
    let all = run(2, 500).await;
    assert!(all.iter().all(|sample| sample.status == 200));
}

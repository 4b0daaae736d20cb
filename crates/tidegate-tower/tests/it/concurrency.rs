//! The layer that bounds what is under way and nothing else.

use core::time::Duration;
use std::sync::Arc;

use http::Request;
use tidegate_tower::{Clock, ConcurrencyLayer, ManualClock, extract};
use tower::{Layer, ServiceExt, service_fn};

use crate::world::{NOW, hanging, let_run, prompt};

#[tokio::test]
async fn no_more_is_under_way_than_may_be_until_an_answer_has_ended() {
    let layer = ConcurrencyLayer::seeded(2, 7).unwrap();
    let ask = async || layer.layer(service_fn(hanging)).oneshot(Request::new(())).await.unwrap();
    let (one, two) = (ask().await, ask().await);
    assert_eq!((one.status().as_u16(), two.status().as_u16()), (200, 200));
    assert!(!one.headers().contains_key("ratelimit"), "there are no limits");
    let refused = ask().await;
    assert_eq!(
        (refused.status().as_u16(), &refused.headers()["x-tidegate-reason"]),
        (503, &"overload_shed".parse().unwrap())
    );
    assert!(!refused.headers().contains_key("ratelimit-policy"), "the places are nobody's quota");
    drop(one);
    assert_eq!(ask().await.status(), 200);
    drop(two);
}

#[tokio::test]
async fn a_place_may_be_waited_for() {
    let clock = Arc::new(ManualClock::new(NOW));
    let layer = ConcurrencyLayer::seeded(1, 7)
        .unwrap()
        .wait(Duration::from_secs(1))
        .waiters_max(1)
        .class(extract::header("x-class"))
        .tenant(extract::header("x-tenant"))
        .clock(Arc::clone(&clock) as Arc<dyn Clock>);
    let held = layer.layer(service_fn(hanging)).oneshot(Request::new(())).await.unwrap();
    let waits = tokio::spawn(layer.layer(service_fn(prompt)).oneshot(Request::new(())));
    let_run().await;
    assert_eq!(layer.waiting(), 1);
    let refused = layer.layer(service_fn(prompt)).oneshot(Request::new(())).await.unwrap();
    assert_eq!(refused.status(), 503);
    drop(held);
    assert_eq!(waits.await.unwrap().unwrap().status(), 200);
}

#[tokio::test]
async fn under_pressure_the_least_important_are_shed_first_without_anybody_calling_a_tick() {
    let clock = Arc::new(ManualClock::new(NOW));
    let layer = ConcurrencyLayer::seeded(1, 7)
        .unwrap()
        .class(extract::header("x-class"))
        .clock(Arc::clone(&clock) as Arc<dyn Clock>);
    let ask = async |class: &str| {
        let request = Request::builder().header("x-class", class).body(()).unwrap();
        layer.layer(service_fn(hanging)).oneshot(request).await.unwrap()
    };
    let held = ask("critical_plus").await;
    let mut limits = Vec::new();
    for _ in 0..40 {
        for class in ["sheddable", "critical"] {
            let refused = ask(class).await;
            limits.push((class, refused.headers()["x-tidegate-limit"].to_str().unwrap().to_owned()));
        }
        clock.advance(Duration::from_millis(100));
    }
    assert_eq!(limits[0], ("sheddable", "in_flight".to_owned()));
    assert!(limits.contains(&("sheddable", "admission_cursor".to_owned())), "{limits:?}");
    drop(held);
}

#[test]
fn a_bound_of_nothing_is_an_error() {
    assert!(ConcurrencyLayer::seeded(0, 7).is_err());
}

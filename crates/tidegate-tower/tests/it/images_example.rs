//! The images example at each level of its feature.

use core::time::Duration;
use std::sync::Arc;

use axum::body::Body;
use http::Request;
use http_body_util::BodyExt;
use tidegate_engine::FeaturePinning;
use tidegate_tower::{Clock, ManualClock};
use tower::ServiceExt;

use crate::world::NOW;

#[path = "../../examples/images.rs"]
#[expect(dead_code, unreachable_pub, reason = "an example is a program of its own")]
mod example;

/// The status, the header `tidegate-feature` and the body of an answer.
async fn ask(app: &axum::Router, path: &str) -> (u16, Option<String>, String) {
    let request = Request::get(path).body(Body::empty()).unwrap();
    let (head, body) = app.clone().oneshot(request).await.unwrap().into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    let header = head.headers.get("tidegate-feature").map(|level| level.to_str().unwrap().to_owned());
    (head.status.as_u16(), header, String::from_utf8(body.to_vec()).unwrap())
}

#[tokio::test(start_paused = true)]
async fn images_go_from_720p_to_480p_to_off_and_back_and_the_checkout_does_not_notice() {
    let engine = example::engine().unwrap();
    let clock = Arc::new(ManualClock::new(NOW));
    let layer = example::layer(engine.clone()).unwrap().clock(Arc::clone(&clock) as Arc<dyn Clock>);
    let app = example::app(layer);
    let until = NOW.saturating_add(Duration::from_hours(1));
    for level in ["720p", "480p", "off", "480p", "720p"] {
        let (feature, level) = ("images".to_owned(), level.to_owned());
        let pin = FeaturePinning { feature, level: level.clone(), until, by: None, reason: None };
        engine.engine().pin_feature(pin, NOW).unwrap();
        let (status, header, body) = ask(&app, "/images/7").await;
        assert_eq!(header, Some(format!("images={level}")));
        if level == "off" {
            assert_eq!(status, 503);
            assert!(body.contains("\"feature_disabled\""), "{body}");
        } else {
            assert_eq!((status, body), (200, format!("an image in {level}\n")));
        }
        assert_eq!(ask(&app, "/checkout").await, (200, None, "paid\n".to_owned()));
    }
}

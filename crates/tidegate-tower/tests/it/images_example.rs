//! The images example under its surge of checkouts, in tokio's paused time.

use std::sync::{Arc, Mutex};

use crate::world::TokioClock;

#[path = "../../examples/images.rs"]
#[expect(dead_code, unreachable_pub, reason = "an example is a program of its own")]
mod example;

use example::Answer;

fn header<'a>(answer: &'a Answer, name: &str) -> Option<&'a str> {
    answer.head.headers.get(name).map(|value| value.to_str().unwrap())
}

#[tokio::test(start_paused = true)]
async fn under_load_images_go_from_720p_to_480p_to_off_and_back_and_the_checkout_does_not_notice() {
    let layer = example::layer(example::engine().unwrap()).unwrap().clock(Arc::new(TokioClock::new()));
    let answers = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&answers);
    example::surge(example::app(layer), move |answer| seen.lock().unwrap().push(answer)).await;
    // The last requests are still in flight.
    // Sleeps: on tokio's paused clock, no real time passes.
    tokio::time::sleep(2 * example::SERVICE_TIME).await;

    let mut answers = core::mem::take(&mut *answers.lock().unwrap());
    answers.sort_by_key(|answer| answer.sent);
    let (images, checkouts): (Vec<_>, Vec<_>) =
        answers.iter().partition(|answer| answer.path.starts_with("/images"));
    let mut levels = Vec::new();
    for image in &images {
        let level = header(image, "tidegate-feature").unwrap().strip_prefix("images=").unwrap();
        let body = core::str::from_utf8(&image.body).unwrap();
        if level == "off" {
            assert_eq!(image.head.status, 503);
            assert_eq!(header(image, "x-tidegate-reason"), Some("feature_disabled"));
            let wait: u64 = header(image, "retry-after").unwrap().parse().unwrap();
            assert!((1..=example::STAGE.as_secs()).contains(&wait), "{wait}");
            assert!(body.contains("\"feature_disabled\""), "{body}");
        } else {
            assert_eq!((image.head.status.as_u16(), body), (200, &*format!("an image in {level}\n")));
        }
        levels.push((image.stage, level));
    }
    levels.dedup_by_key(|(_, level)| *level);
    let expected = ["720p", "480p", "off", "480p", "720p"];
    assert_eq!(levels, expected.into_iter().enumerate().collect::<Vec<_>>());
    for checkout in &checkouts {
        assert_eq!((checkout.head.status.as_u16(), &*checkout.body), (200, &b"paid\n"[..]));
    }
    let sent = u64::from(example::CHECKOUT_RATES.iter().sum::<u32>()) * example::STAGE.as_secs();
    assert_eq!(checkouts.len() as u64, sent);
}

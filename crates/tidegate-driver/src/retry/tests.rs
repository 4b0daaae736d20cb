use tidegate_core::Violated;

use super::*;

const NOW: Timestamp = Timestamp::from_secs(1_800_000_000);

fn refusal(reason: Reason, retry: Retry) -> Refusal {
    let violated = Violated {
        name: tidegate_core::Text::from_static("jobs"),
        reason,
        retry,
        limit: 10,
        remaining: 0,
        window: None,
    };
    Refusal::new("default", [].into_iter().collect(), violated)
}

fn after(millis: u64) -> NextTry {
    NextTry::At(NOW.saturating_add(Duration::from_millis(millis)))
}

#[test]
fn a_request_is_tried_again_at_the_instant_of_its_refusal_and_not_at_once() {
    let at = |millis| Retry::At(NOW.saturating_add(Duration::from_millis(millis)));
    let mut schedule = RetrySchedule::default();
    assert_eq!(schedule.next(&refusal(Reason::RateExceeded, at(700)), NOW), after(700));
    assert_eq!(schedule.next(&refusal(Reason::RateExceeded, at(0)), NOW), after(1));
    assert_eq!(schedule.next(&refusal(Reason::CostExceedsLimit, Retry::Never), NOW), NextTry::Never);
}

#[test]
fn pauses_without_an_instant_grow_to_a_bound() {
    let mut schedule = RetrySchedule::default();
    let shed = refusal(Reason::StoreUnavailable, Retry::Backoff);
    let pauses: Vec<_> = (0..10).map(|_| schedule.next(&shed, NOW)).collect();
    assert_eq!(pauses[..8], [1, 2, 4, 8, 16, 32, 64, 100].map(after));
    assert_eq!(pauses[9], after(100));
    let mut hinted = refusal(Reason::StoreUnavailable, Retry::Backoff);
    hinted.retry_hint = Some(Duration::from_millis(250));
    assert_eq!(RetrySchedule::default().next(&hinted, NOW), after(250), "a hint is the first pause");
}

#[test]
fn a_place_that_may_come_back_is_looked_for_before_its_permit_expires() {
    let expiry = Retry::At(NOW.saturating_add(Duration::from_mins(5)));
    let mut schedule = RetrySchedule::default();
    assert_eq!(schedule.next(&refusal(Reason::ConcurrencyExceeded, expiry), NOW), after(100));
}

use smallvec::smallvec;
use tidegate_core::{
    AccessOperation, BindingSignal, CapacityDetails, OverloadDetails, OverloadMechanism, Violated,
};

use super::*;

const NOW: Timestamp = Timestamp::from_secs(1_795_210_800);

fn violated(name: &'static str, reason: Reason, retry: Retry) -> Violated {
    Violated {
        name: name.into(),
        reason,
        retry,
        limit: 200,
        remaining: 0,
        window: Some(Duration::from_secs(2)),
    }
}

fn refusal(reason: Reason, retry: Retry) -> Refusal {
    let scope = smallvec![("user".into(), "ada".into())];
    Refusal::new("api", scope, violated("per-user", reason, retry))
}

fn at(millis: u64) -> Retry {
    Retry::At(NOW.saturating_add(Duration::from_millis(millis)))
}

fn body(refusal: &Refusal) -> String {
    serde_json::to_string_pretty(&RefusalBody::new(refusal, 429, NOW)).unwrap()
}

#[test]
fn a_refusal_says_which_limit_why_when_to_come_back_and_how_much_was_left() {
    let mut two = refusal(Reason::RateExceeded, at(10));
    two.violated.push(violated("per-app", Reason::RateExceeded, at(4)));
    assert_eq!(
        body(&two),
        r#"{
  "type": "https://iana.org/assignments/http-problem-types#quota-exceeded",
  "title": "Quota Exceeded",
  "status": 429,
  "detail": "limit \"per-user\" is used up for user=ada: 0 of 200 units left; come back in 10 ms",
  "violated-policies": [
    "per-user",
    "per-app"
  ],
  "decision": "refuse",
  "reason": "rate_exceeded",
  "plane": "limits",
  "namespace": "api",
  "limit": "per-user",
  "scope": {
    "user": "ada"
  },
  "remaining": 0,
  "retry": "at",
  "retry_after_ms": 10,
  "violated": [
    {
      "name": "per-user",
      "reason": "rate_exceeded",
      "limit": 200,
      "remaining": 0,
      "retry_after_ms": 10
    },
    {
      "name": "per-app",
      "reason": "rate_exceeded",
      "limit": 200,
      "remaining": 0,
      "retry_after_ms": 4
    }
  ]
}"#
    );
}

#[test]
fn a_refusal_for_ever_or_for_unknown_time_names_no_time() {
    for (retry, word) in [(Retry::Never, "never"), (Retry::Backoff, "backoff")] {
        let text = body(&refusal(Reason::CostExceedsLimit, retry));
        assert!(text.contains(&format!("\"retry\": \"{word}\"")), "{text}");
        assert!(!text.contains("retry_after_ms"), "{text}");
    }
}

#[test]
fn every_reason_has_a_sentence_and_a_body_that_parses() {
    for reason in Reason::ALL {
        let refusal = refusal(reason, at(10));
        let sentence = Sentence { refusal: &refusal.view(), now: NOW }.to_string();
        assert!(sentence.contains("per-user") && sentence.ends_with("come back in 10 ms"), "{sentence}");
        let body: serde_json::Value = serde_json::from_str(&body(&refusal)).unwrap();
        assert_eq!(body["reason"], reason.as_str());
        assert_eq!(body["plane"], reason.plane().as_str());
    }
}

#[test]
fn what_a_caller_sent_cannot_break_out_of_the_body() {
    let mut hostile = refusal(Reason::RateExceeded, at(10));
    hostile.scope = smallvec![("user".into(), "a\",\"reason\":\"none\u{0}\r\n".into())];
    let parsed: serde_json::Value = serde_json::from_str(&body(&hostile)).unwrap();
    assert_eq!(parsed["reason"], "rate_exceeded");
    assert_eq!(parsed["scope"]["user"], "a\",\"reason\":\"none\u{0}\r\n");
}

#[test]
fn a_wait_has_two_units_at_most_and_no_window_grows_by_rounding() {
    for (millis, text) in [
        (0, "1 ms"),
        (1000, "1 s"),
        (900_001, "15 min"),
        (5_400_000, "1 h 30 min"),
        (10_800_001, "3 h"),
        (86_400_001, "24 h"),
        (183_600_000, "2 d 3 h"),
    ] {
        let refusal = refusal(Reason::RateExceeded, at(millis));
        let sentence = Sentence { refusal: &refusal.view(), now: NOW }.to_string();
        assert!(sentence.ends_with(&format!("; come back in {text}")), "{sentence}");
    }
}

#[test]
fn a_civil_limit_says_until_when_on_a_clock_in_its_zone() {
    let mut refusal = refusal(Reason::QuotaExceeded, at(32_400_000));
    refusal.civil_zone = Some("America/Los_Angeles".into());
    let expected = "limit \"per-user\" is used up for user=ada until 2026-11-21 00:00 America/Los_Angeles: 0 of 200 units \
                    left; come back in 9 h";
    // 2026-11-20 15:00 in Los Angeles.
    let now = Timestamp::from_secs(1_795_215_600);
    refusal.violated[0].retry = Retry::At(now.saturating_add(Duration::from_hours(9)));
    assert_eq!(sentence(&refusal, now), expected);
    refusal.violated[0].retry = Retry::Backoff;
    assert!(!sentence(&refusal, now).contains("until"));
}

#[test]
fn one_permit_and_one_unit_are_singular() {
    let told = |reason| {
        let mut refusal = refusal(reason, Retry::Never);
        refusal.violated[0].limit = 1;
        sentence(&refusal, NOW)
    };
    let held = told(Reason::ConcurrencyExceeded);
    assert!(held.starts_with("the only permit of limit \"per-user\" is held for user=ada"), "{held}");
    assert!(told(Reason::CostExceedsLimit).contains("ever admits at once, 1 unit;"));
}

#[test]
fn a_limit_with_units_left_is_not_used_up() {
    let mut some_left = refusal(Reason::RateExceeded, at(10));
    some_left.violated[0].remaining = 2;
    let told = sentence(&some_left, NOW);
    assert!(
        told.starts_with("limit \"per-user\" has too little left for user=ada: 2 of 200 units left"),
        "{told}"
    );
}

#[test]
fn a_refusal_by_the_capacity_plane_shows_the_part_of_the_table_that_throttled() {
    let range = "4000000000000000-7fffffffffffffff";
    let mut details = CapacityDetails::new("orders", AccessOperation::Write, 1, range, "n1", 2_500);
    let mut throttled = refusal(Reason::TableThroughputExceeded, at(400));
    throttled.details = Some(Box::new(RefusalDetails::Capacity(details.clone())));
    let shown = json(&throttled);
    let expected = serde_json::json!({
        "table": "orders", "operation": "write", "partition": 1, "node": "n1", "rate": 2.5,
        "key_range": "4000000000000000-7fffffffffffffff",
    });
    assert_eq!(shown["capacity"], expected, "what is not observed is absent");
    assert!(shown.get("overload").is_none());
    details.ceiling_thousandths = Some(3_000_000);
    details.consumed_thousandths = Some(2_750);
    details.burst_left_thousandths = Some(0);
    throttled.details = Some(Box::new(RefusalDetails::Capacity(details)));
    let shown = json(&throttled)["capacity"].clone();
    assert_eq!((&shown["ceiling"], &shown["consumed"]), (&3000.into(), &2.75.into()));
    assert_eq!(shown["burst_left"], 0);
}

#[test]
fn a_refusal_by_the_overload_plane_shows_the_cursor_and_the_signal_that_binds() {
    let mut shed = refusal(Reason::OverloadShed, Retry::Backoff);
    let by_cursor = OverloadMechanism::AdmissionCursor { level: 12 };
    let details = OverloadDetails::new(Some("checkout".into()), by_cursor, 129, BindingSignal::Pressure);
    shed.details = Some(Box::new(RefusalDetails::Overload(details)));
    let expected = serde_json::json!({
        "resource": "checkout", "level": 12, "cursor": 129, "binding_signal": "pressure",
    });
    assert_eq!(json(&shed)["overload"], expected);
    assert!(json(&shed).get("capacity").is_none());
    let details = OverloadDetails::new(None, OverloadMechanism::InFlight, 0, BindingSignal::InFlight);
    shed.details = Some(Box::new(RefusalDetails::Overload(details)));
    let expected = serde_json::json!({ "cursor": 0, "binding_signal": "in_flight" });
    assert_eq!(json(&shed)["overload"], expected, "the default resource has no name");
}

#[test]
fn the_sentence_of_an_overload_refusal_says_which_mechanism_refused() {
    let told = |reason, mechanism, places| {
        let mut shed = refusal(reason, Retry::Backoff);
        shed.violated[0].limit = places;
        let details = OverloadDetails::new(Some("app".into()), mechanism, 0, BindingSignal::QueueDelay);
        shed.details = Some(Box::new(RefusalDetails::Overload(details)));
        let sentence = sentence(&shed, NOW);
        sentence.split("; ").next().unwrap().to_owned()
    };
    let cases = [
        (OverloadMechanism::InFlight, 8, "resource \"app\": all 8 places are taken"),
        (OverloadMechanism::InFlight, 1, "resource \"app\": the only place is taken"),
        (OverloadMechanism::Streams, 8, "resource \"app\": all 8 streams are open"),
        (OverloadMechanism::Streams, 1, "resource \"app\": the only stream is open"),
        (OverloadMechanism::Pace, 8, "resource \"app\": requests come faster than 8 places can serve"),
        (
            OverloadMechanism::QueueDelay,
            8,
            "resource \"app\": requests of this class wait too long for a place",
        ),
        (
            OverloadMechanism::AdmissionCursor { level: 3 },
            64,
            "resource \"app\" sheds requests of this importance: queue_delay",
        ),
    ];
    for (mechanism, places, expected) in cases {
        assert_eq!(told(Reason::OverloadShed, mechanism, places), expected);
    }
    let of_full_queue = told(Reason::QueueFull, OverloadMechanism::QueueFull, 0);
    assert_eq!(of_full_queue, "resource \"app\" refused: queue full");
}

fn json(refusal: &Refusal) -> serde_json::Value {
    serde_json::from_str(&body(refusal)).unwrap()
}

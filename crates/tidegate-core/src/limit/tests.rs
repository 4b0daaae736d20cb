use super::*;
use crate::{Algorithm, Cost, Gate, Rate, Timestamp};

/// The message of the error that a limit gives when it is made, or when a gate is built from it.
fn message(limit: Result<Limit, LimitError>) -> String {
    match limit {
        Err(error) => error.to_string(),
        Ok(limit) => match Gate::builder("api").limit(limit).build() {
            Err(error) => error.to_string(),
            Ok(gate) => panic!("{gate:?} was built"),
        },
    }
}

#[test]
fn bad_numbers_name_the_limit_and_the_value_and_say_what_to_write() {
    let long = "x".repeat(129);
    let many = (0..17).map(|number| format!("a{number}"));
    let cases = [
        (
            Limit::rate("per-user", "0/s"),
            "limit \"per-user\": rate \"0/s\" admits nothing; use at least 1 unit, or block the key",
        ),
        (
            Limit::rate("per-user", "99999999999999999999/s"),
            "limit \"per-user\": rate \"99999999999999999999/s\" is above 1000000000 units a second, the largest that is counted exactly; count in larger units",
        ),
        (
            Limit::rate("per-user", "fast"),
            "limit \"per-user\": rate \"fast\" is not written as units/span; write for example 100/s, 5/10m or 1000/1d",
        ),
        (
            Limit::rate("per-user", "2000000000/s"),
            "limit \"per-user\": rate \"2000000000/s\" is above 1000000000 units a second, the largest that is counted exactly; count in larger units",
        ),
        (
            Limit::rate("per-user", "10/s").map(|limit| limit.burst(0)),
            "limit \"per-user\": burst 0 admits nothing; use at least 1, or remove `burst` to allow one span of `rate`",
        ),
        (
            Limit::rate("per-user", "1/d").map(|limit| limit.burst(1000)),
            "limit \"per-user\": burst 1000 takes more than 366d to refill at 1/d; lower `burst` or raise `rate`",
        ),
        (
            Limit::rolling("logins", 5, "10m").map(|limit| limit.burst(10)),
            "limit \"logins\": `burst` is a setting of `rate`, not of `rolling`; remove it",
        ),
        (
            Limit::rate("per-user", "10/s").map(Limit::approximate),
            "limit \"per-user\": `approximate` is a setting of `rolling`, not of `rate`; remove it",
        ),
        (
            Limit::rolling("logins", 5, "10m").map(Limit::from_first_hit),
            "limit \"logins\": `from_first_hit` is a setting of `fixed`, not of `rolling`; remove it",
        ),
        (
            Limit::rolling("logins", 5, "soon"),
            "limit \"logins\": \"soon\" is not a span of time; write for example 10s, 5m, 1h30m or 1d",
        ),
        (
            Limit::fixed("exports", 5, Duration::ZERO),
            "limit \"exports\": window 0s is not between 1us and 366d; use a span in that range, or `calendar` for years",
        ),
        (
            Limit::concurrency("parallel", 5, "0s"),
            "limit \"parallel\": hold 0s is not between 1us and 366d; use the longest time a request may take",
        ),
        (Limit::rate("", "10/s"), "limit \"\": a name has 1 to 128 bytes; name it"),
        (
            Limit::rate(&*long, "10/s"),
            &format!("limit \"{}\": a name has 1 to 128 bytes, and this one 129; shorten it", &long[..128]),
        ),
        (
            Limit::rate("per-user", "10/s").map(|limit| limit.key(many)),
            "limit \"per-user\": 17 attributes in `key`; use at most 16",
        ),
        (
            Limit::rate("per-user", "10/s").map(|limit| limit.key(["user", "user"])),
            "limit \"per-user\": duplicate attribute \"user\" in `key`; remove one",
        ),
        (
            Limit::rate("per-user", "10/s").map(|limit| limit.block_on_exceed(Duration::ZERO)),
            "limit \"per-user\": `block` is not between 1us and 366d; use a span in that range",
        ),
    ];
    for (limit, expected) in cases {
        assert_eq!(message(limit), expected);
    }
}

#[cfg(feature = "calendar")]
#[test]
fn a_bad_calendar_names_the_unit_or_the_zone() {
    assert_eq!(
        message(Limit::calendar("daily", 10, "fortnight", "UTC")),
        "limit \"daily\": invalid calendar unit \"fortnight\"; use minute, hour, day, week, month or year"
    );
    assert_eq!(
        message(Limit::calendar("daily", 10, "day", "Mars/Olympus")),
        "limit \"daily\": time zone \"Mars/Olympus\" does not exist; use an IANA name such as Europe/Berlin or UTC"
    );
}

#[test]
fn numbers_may_be_text_or_values() {
    let text = Limit::rate("one", "100/s").unwrap().burst(200).debt(5).algorithm;
    let value = Limit::rate("one", Rate::per_second(100).unwrap()).unwrap().debt(5).burst(200).algorithm;
    assert_eq!(text, value);
    let Algorithm::Bucket(bucket) = text else { panic!("a rate is a bucket") };
    assert_eq!((bucket.burst(), bucket.debt()), (200, 5));
    let minute = Duration::from_mins(1);
    let same = |one: Result<Limit, LimitError>, other: Result<Limit, LimitError>| {
        assert_eq!(one.unwrap().algorithm, other.unwrap().algorithm);
    };
    same(Limit::rolling("one", 5, "1m"), Limit::rolling("one", 5, minute));
    same(Limit::fixed("one", 5, "1m"), Limit::fixed("one", 5, minute));
    same(Limit::concurrency("one", 5, "1m"), Limit::concurrency("one", 5, minute));
}

#[test]
fn the_first_problem_of_several_is_the_one_that_is_said() {
    let limit = Limit::rate("one", "1/s").unwrap().burst(0).approximate();
    assert!(message(Ok(limit)).contains("burst 0"));
}

#[test]
fn a_value_of_a_megabyte_is_counted_and_told_apart() {
    let gate = Gate::builder("api").limit(Limit::rate("one", "1/h").unwrap().key(["user"])).build().unwrap();
    let now = Timestamp::from_secs(1_800_000_000);
    let (one, other) = ("a".repeat(1 << 20), "a".repeat((1 << 20) - 1) + "b");
    assert!(gate.check(&[("user", &one)], Cost::ONE, now).is_admit());
    assert!(gate.check(&[("user", &other)], Cost::ONE, now).is_admit());
    let refusal = gate.check(&[("user", &one)], Cost::ONE, now).into_result().unwrap_err();
    assert_eq!(refusal.scope[0].1, one);
}

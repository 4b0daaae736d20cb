//! Which limits an Envoy cannot hold, and what is said of them.

use core::time::Duration;

use crate::algorithm::Bucket;
use crate::lease::{LIFETIME_MAX, REMOTE_RATE_MAX, RemoteObstacle, Terms, remote_obstacle};
use crate::limit::Consistency;
use crate::{Algorithm, Limit, Rate};

fn bucket(units: u64, per: Duration, burst: u64) -> Algorithm {
    Algorithm::Bucket(Bucket::new(Rate::new(units, per).unwrap(), burst).unwrap())
}

fn leased(algorithm: &Algorithm) -> Option<RemoteObstacle> {
    remote_obstacle(algorithm, Consistency::Leased)
}

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn a_rate_of_one_a_minute_with_a_burst_of_16_is_the_least_that_an_envoy_holds() {
    let minute = Duration::from_mins(1);
    assert_eq!(leased(&bucket(1, minute, 16)), None);
    assert_eq!(leased(&bucket(1, minute, 15)), Some(RemoteObstacle::Burst(15)));
    let slower = bucket(1, minute + Duration::from_nanos(1), 16);
    assert!(matches!(leased(&slower), Some(RemoteObstacle::Slow(_))), "{:?}", leased(&slower));
    assert_eq!(leased(&bucket(59, Duration::from_mins(59), 16)), None);
    assert_eq!(leased(&bucket(20, SECOND, 20)), None);
}

#[test]
fn a_limit_that_a_member_decides_alone_is_held_and_one_of_the_store_is_not() {
    let rate = bucket(100, SECOND, 100);
    assert_eq!(remote_obstacle(&rate, Consistency::Local), None);
    assert_eq!(remote_obstacle(&rate, Consistency::Exact), Some(RemoteObstacle::Exact));
}

#[test]
fn a_rate_is_held_as_far_as_the_longest_lease_of_the_longest_period_is_counted_exactly() {
    assert_eq!(REMOTE_RATE_MAX, 1_667_999);
    let fastest = bucket(REMOTE_RATE_MAX, SECOND, 1_000);
    assert_eq!(leased(&fastest), None);
    let terms = Terms::for_period(&fastest, Terms::PERIOD_MAX, crate::Timestamp::from_secs(1)).unwrap();
    let to_come = u128::from(terms.quota()) * LIFETIME_MAX.as_micros();
    assert!(to_come < 1 << 53 && to_come + LIFETIME_MAX.as_micros() * 60 > 1 << 53, "{to_come}");
    let faster = bucket(REMOTE_RATE_MAX * 2 + 1, 2 * SECOND, 1_000);
    assert!(matches!(leased(&faster), Some(RemoteObstacle::Fast(_))), "{:?}", leased(&faster));
}

#[test]
fn each_obstacle_says_what_it_is_and_what_to_write_instead() {
    let limits = [
        (Limit::rolling("a", 100, "1m"), "rolling"),
        (Limit::rolling("a", 100, "1m").map(Limit::approximate), "rolling"),
        (Limit::fixed("a", 100, "1m"), "window"),
        (Limit::concurrency("a", 100, "1m"), "concurrency"),
        (Limit::rate("a", "1000/1d"), "quota"),
        (Limit::rate("a", "1000/1h"), "quota"),
        (Limit::rate("a", "1/2m").map(|limit| limit.burst(20)), "slow"),
        (Limit::rate("a", "2000000/s"), "fast"),
        (Limit::rate("a", "10/s"), "burst"),
    ];
    let mut texts = Vec::new();
    for (limit, word) in limits {
        let obstacle = leased(&limit.unwrap().algorithm).unwrap();
        assert_eq!(obstacle.as_str(), word);
        texts.push(obstacle.to_string());
    }
    texts.dedup();
    assert_eq!(
        texts,
        [
            "`rolling` counts in a window, and an Envoy has a token bucket; use `rate`, or Envoy's RLS",
            "`fixed` counts in a window, and an Envoy has a token bucket; use `rate`, or Envoy's RLS",
            "`concurrency` needs the end of each request; use `circuit_breakers` of the cluster in Envoy, or the proxy",
            "rate 1000/d is over an hour or longer, and an Envoy that stops would take its part with it; use a rate over less than an hour, or Envoy's RLS",
            "rate 1000/h is over an hour or longer, and an Envoy that stops would take its part with it; use a rate over less than an hour, or Envoy's RLS",
            "rate 1/2m gives less than one a minute; use at least 1/m, or Envoy's RLS",
            "rate 2000000/s is above 1667999/s, the most that an Envoy's lease counts; use a lower rate, or Envoy's RLS",
            "burst 10 is too little to share; use at least 16, or Envoy's RLS",
        ]
    );
}

#[cfg(feature = "calendar")]
#[test]
fn a_calendar_cannot_be_held() {
    let daily = Limit::calendar("a", 1000, "day", "UTC").unwrap();
    let text = leased(&daily.algorithm).unwrap().to_string();
    let expected =
        "`calendar` counts in a window, and an Envoy has a token bucket; use `rate`, or Envoy's RLS";
    assert_eq!(text, expected);
}

//! Admissions by the second of callers that ask for more than their limit, under several limiters.
//!
//! Time is counted and not read: all limiters see the same requests at the same instants, so that
//! two runs give the same figures. A limiter that only reads a clock of its own cannot take part.

use std::time::Duration;

use tidegate_core::{Cost, Gate, Limit, Timestamp};

use crate::workload::START;

/// Units that the limit allows in [`WINDOW`]; also the burst of the buckets.
pub const LIMIT: u32 = 100;
/// The window of the limit.
pub const WINDOW: Duration = Duration::from_mins(1);
/// The length of a run.
const SECONDS: u64 = 300;
/// Instants a second at which a request may come.
const TICKS: u64 = 100;

/// A caller: the number of requests that it sends at a tick, in hundredths of a second from the
/// start of a window.
type Caller = fn(u64) -> u32;

/// Asks five times a second from the middle of the first minute on: three times its limit.
fn steady(tick: u64) -> u32 {
    u32::from(tick >= 30 * TICKS && tick.is_multiple_of(20))
}

/// Sends a hundred requests in the last five seconds of every other minute and a hundred in the
/// first five seconds of the next.
fn at_the_boundary(tick: u64) -> u32 {
    let second = tick / TICKS % 120;
    u32::from((55..65).contains(&second) && tick.is_multiple_of(5))
}

/// The callers with the names that the report has for them.
const CALLERS: [(&str, Caller); 2] = [
    ("5 requests a second", steady),
    ("100 requests on each side of every other full minute", at_the_boundary),
];

/// A limiter: whether it admits one unit at an instant.
type Limiter = Box<dyn FnMut(Timestamp) -> bool>;

fn gate(limit: Limit) -> Limiter {
    let gate = Gate::builder("bench").limit(limit).build().expect("the limit is valid");
    Box::new(move |now| gate.check(&[("user", "ada")], Cost::ONE, now).is_admit())
}

/// The algorithm of envoyproxy/ratelimit: one counter for each civil minute, which every request
/// increases and which admits up to the limit.
fn minute_counter() -> Limiter {
    let (mut minute, mut count) = (0, 0);
    Box::new(move |now| {
        let current =
            now.as_nanos() / u64::try_from(WINDOW.as_nanos()).expect("a minute has few nanoseconds");
        if current != minute {
            (minute, count) = (current, 0);
        }
        count += 1;
        count <= LIMIT
    })
}

#[cfg(feature = "rivals")]
mod rivals {
    use std::num::NonZeroU32;
    use std::time::SystemTime;

    use governor::clock::FakeRelativeClock;
    use governor::{Quota, RateLimiter};

    use super::{Duration, LIMIT, Limiter, START, WINDOW};

    pub(super) fn governor() -> Limiter {
        let clock = FakeRelativeClock::default();
        let quota = Quota::with_period(WINDOW / LIMIT).expect("the period is above zero");
        let quota = quota.allow_burst(NonZeroU32::new(LIMIT).expect("the burst is above zero"));
        let limiter = RateLimiter::direct_with_clock(quota, clock.clone());
        let mut then = START;
        Box::new(move |now| {
            clock.advance(now.saturating_since(then));
            then = now;
            limiter.check().is_ok()
        })
    }

    pub(super) fn throttlecrab() -> Limiter {
        let mut limiter = throttlecrab::RateLimiter::new(throttlecrab::PeriodicStore::new());
        Box::new(move |now| {
            let now = SystemTime::UNIX_EPOCH + Duration::from_nanos(now.as_nanos());
            let answer = limiter.rate_limit(
                "ada",
                i64::from(LIMIT),
                i64::from(LIMIT),
                WINDOW.as_secs().cast_signed(),
                1,
                now,
            );
            answer.is_ok_and(|(is_admitted, _)| is_admitted)
        })
    }
}

/// The limiters with their names.
fn limiters() -> Vec<(&'static str, Limiter)> {
    let numbers = format!("{LIMIT}/m");
    let rolling =
        Limit::rolling("rolling", u64::from(LIMIT), "1m").expect("the numbers are valid").key(["user"]);
    let rate = Limit::rate("rate", numbers.as_str()).expect("the numbers are valid").key(["user"]);
    let mut all = vec![("Tidegate rolling", gate(rolling)), ("Tidegate rate", gate(rate))];
    #[cfg(feature = "rivals")]
    all.extend([("governor 0.10", rivals::governor()), ("throttlecrab 0.4", rivals::throttlecrab())]);
    all.push(("envoyproxy/ratelimit, simulated", minute_counter()));
    all
}

/// Admissions in each second, by caller and limiter.
fn admissions(caller: Caller, mut limiter: Limiter) -> Vec<u32> {
    let mut seconds = Vec::new();
    for second in 0..SECONDS {
        let mut admitted = 0;
        for tick in second * TICKS..(second + 1) * TICKS {
            let now = START.saturating_add(Duration::from_millis(tick * 1000 / TICKS));
            admitted += (0..caller(tick)).map(|_| u32::from(limiter(now))).sum::<u32>();
        }
        seconds.push(admitted);
    }
    seconds
}

/// The most units in a window of [`WINDOW`] that begins with a second.
fn most_in_a_window(admitted: &[u32]) -> u32 {
    let seconds = usize::try_from(WINDOW.as_secs()).expect("a minute has few seconds");
    admitted.windows(seconds).map(|window| window.iter().sum()).max().unwrap_or_default()
}

/// The report as JSON, for the picture.
pub fn report() -> String {
    let mut text = format!("{{\"limit\":{LIMIT},\"window_s\":{},\"callers\":[", WINDOW.as_secs());
    for (index, (name, caller)) in CALLERS.into_iter().enumerate() {
        text += &format!("{}{{\"name\":\"{name}\",\"limiters\":[", if index > 0 { "," } else { "" });
        for (index, (name, limiter)) in limiters().into_iter().enumerate() {
            let admitted = admissions(caller, limiter);
            let most = most_in_a_window(&admitted);
            let comma = if index > 0 { "," } else { "" };
            text += &format!(
                "{comma}\n{{\"name\":\"{name}\",\"most_in_a_window\":{most},\"admitted\":{admitted:?}}}"
            );
        }
        text += "]}";
    }
    text + "]}\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn most(caller: Caller, name: &str) -> u32 {
        let (_, limiter) = limiters().into_iter().find(|(known, _)| *known == name).unwrap();
        most_in_a_window(&admissions(caller, limiter))
    }

    #[test]
    fn a_rolling_limit_is_never_over_and_a_counter_by_the_minute_admits_twice_as_much() {
        for (_, caller) in CALLERS {
            assert_eq!(most(caller, "Tidegate rolling"), LIMIT);
            assert_eq!(most(caller, "envoyproxy/ratelimit, simulated"), 2 * LIMIT);
            let bucket = most(caller, "Tidegate rate");
            assert!((LIMIT..=2 * LIMIT).contains(&bucket), "{bucket}");
        }
    }

    #[cfg(feature = "rivals")]
    #[test]
    fn a_bucket_admits_what_governor_does_and_throttlecrab_more_to_a_key_that_returns() {
        for (_, caller) in CALLERS {
            let bucket = most(caller, "Tidegate rate");
            assert_eq!(most(caller, "governor 0.10"), bucket);
            // The arrival time of an idle key lies one burst in the past, which is a second burst.
            let rival = most(caller, "throttlecrab 0.4");
            assert!(rival == bucket || rival == 2 * LIMIT, "{rival}");
        }
        assert_eq!(most(at_the_boundary, "throttlecrab 0.4"), 2 * LIMIT);
    }
}

//! Tests of adaptive limits in a small world in virtual time.

#![expect(
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "the world computes with small numbers"
)]

mod world;

use core::time::Duration;

use tidegate_core::Timestamp;

use super::*;
use world::World;

/// The first five are those that the controller was tuned with.
const SEEDS: [u64; 16] = [1, 2, 3, 4, 5, 100, 101, 102, 103, 104, 105, 106, 107, 108, 109, 110];

fn vegas() -> AdaptiveLimit {
    AdaptiveLimit::new(AdaptiveLimitConfig::default()).unwrap()
}

fn with(algorithm: LimitAlgorithm) -> AdaptiveLimit {
    AdaptiveLimit::new(AdaptiveLimitConfig { algorithm, ..AdaptiveLimitConfig::default() }).unwrap()
}

/// Ten minutes of timeouts of 500 ms, at as many arrivals as the limit takes.
fn limit_after_constant_timeouts(limit: AdaptiveLimit, seed: u64) -> (u64, u64) {
    let mut world = World::new(limit, 10, 20, 3000.0, seed);
    world.timeout_ns = Some(500_000_000);
    let report = world.run(600);
    (report.limit_max, world.limit.limit())
}

#[test]
fn constant_timeouts_never_raise_the_limit() {
    for seed in SEEDS {
        let (highest, _) = limit_after_constant_timeouts(vegas(), seed);
        assert!(highest <= 24, "seed {seed}: {highest}");
        let (highest, last) = limit_after_constant_timeouts(with(LimitAlgorithm::Aimd), seed);
        assert!(highest <= 20 && last == 4, "seed {seed}: {highest}");
    }
}

#[test]
fn a_twentieth_of_timeouts_holds_the_limit_and_one_in_two_hundred_does_not() {
    let start = Timestamp::from_secs(1000);
    for (in_how_many, grows) in [(20_u32, false), (200, true)] {
        let limit = vegas();
        for second in 0..10 {
            let now = start.saturating_add(Duration::from_secs(second));
            for number in 0..400 {
                let latency = Duration::from_millis(20);
                let sample = match number % in_how_many {
                    0 => LimitSample::TimedOut { latency },
                    _ => LimitSample::Succeeded { latency },
                };
                limit.record(1, sample, now, now.saturating_add(latency));
            }
            for tick in 1..=10 {
                // Not full, so that no cut measures the baseline.
                limit.tick(now.saturating_add(crate::TICK * tick), limit.limit() * 6 / 10);
            }
        }
        assert_eq!(limit.limit() > 20, grows, "1 in {in_how_many}: {}", limit.limit());
    }
}

#[test]
fn work_that_begins_to_hang_does_not_raise_the_limit_before_its_timeouts_are_known() {
    let start = Timestamp::from_secs(1000);
    let limit = vegas();
    let ms = Duration::from_millis;
    // A hundred requests of 10 ms in a second are one in flight. From 500 ms on nothing ends, and
    // all twenty places are taken.
    for number in 0..50 {
        let admitted = start.saturating_add(ms(10 * number));
        limit.record(
            1,
            LimitSample::Succeeded { latency: ms(10) },
            admitted,
            admitted.saturating_add(ms(10)),
        );
    }
    for tick in 1..=12 {
        limit.tick(start.saturating_add(ms(100 * tick)), if tick <= 5 { 1 } else { 20 });
    }
    assert!(limit.limit() <= 20, "{}", limit.limit());
}

#[test]
fn constant_timeouts_raise_gradient2_to_the_maximum() {
    // The maximum of concurrency-limits itself.
    let config = AdaptiveLimitConfig {
        algorithm: LimitAlgorithm::Gradient,
        max: 200,
        ..AdaptiveLimitConfig::default()
    };
    for seed in SEEDS {
        let limit = AdaptiveLimit::new(config).unwrap();
        let (_, last) = limit_after_constant_timeouts(limit, seed);
        assert_eq!(last, 200, "seed {seed}");
    }
}

#[test]
fn a_cold_start_finds_ten_and_two_hundred_workers_within_ten_seconds() {
    for seed in SEEDS {
        for workers in [10, 200] {
            let mut world = World::new(vegas(), workers, 20, workers as f64 * 100.0, seed);
            world.run(10);
            let limit = world.limit.limit() as f64;
            let share = limit / workers as f64;
            assert!((0.9..=2.0).contains(&share), "seed {seed}, {workers} workers: limit {limit}");
            let throughput = world.run(10).succeeded as f64 / 10.0 / world.capacity();
            assert!(throughput >= 0.9, "seed {seed}, {workers} workers: {throughput}");
        }
    }
}

#[test]
fn a_baseline_three_times_as_long_is_followed_within_ten_seconds_and_back() {
    let mut failures = Vec::new();
    for seed in SEEDS {
        for workers in [10, 200] {
            let mut world = World::new(vegas(), workers, 20, workers as f64 * 100.0, seed);
            world.run(30);
            for service_ms in [60, 20] {
                world.service_ns = service_ms * 1_000_000;
                world.run(10);
                let report = world.run(20);
                let throughput = report.succeeded as f64 / 20.0 / world.capacity();
                let limit = world.limit.limit();
                if throughput < 0.9 || limit > 2 * workers as u64 {
                    failures.push(format!(
                        "seed {seed}, {workers} at {service_ms} ms: {throughput:.2}, limit {limit}"
                    ));
                }
            }
        }
    }
    assert!(failures.is_empty(), "{failures:#?}");
}

#[test]
fn eight_requests_a_minute_change_nothing() {
    for seed in SEEDS {
        let mut world = World::new(vegas(), 2, 300, 8.0 / 60.0, seed);
        let report = world.run(3600);
        assert_eq!((report.limit_min, report.limit_max), (20, 20), "seed {seed}");
    }
}

#[test]
fn a_slow_downstream_is_survived_and_left_within_ten_seconds() {
    for seed in SEEDS {
        let mut world = World::new(vegas(), 20, 20, 2000.0, seed);
        world.run(30);
        world.service_ns = 2_000_000_000;
        world.run(120);
        assert!(world.limit.limit() < 200, "seed {seed}: {}", world.limit.limit());
        world.service_ns = 20_000_000;
        world.run(10);
        let limit = world.limit.limit();
        assert!((18..=40).contains(&limit), "seed {seed}: {limit}");
        let throughput = world.run(10).succeeded as f64 / 10.0 / world.capacity();
        assert!(throughput >= 0.9, "seed {seed}: {throughput}");
    }
}

#[test]
fn moderate_overload_for_ten_minutes_moves_the_limit_nowhere() {
    for seed in SEEDS {
        let mut world = World::new(vegas(), 20, 20, 1300.0, seed);
        world.run(20);
        let mut report = world.run(600);
        let goodput = report.succeeded as f64 / 600.0 / world.capacity();
        assert!(goodput >= 0.95, "seed {seed}: {goodput}");
        assert!(report.limit_max <= 40, "seed {seed}: {}", report.limit_max);
        assert!(report.p99_ns() <= 60_000_000, "seed {seed}: {}", report.p99_ns());
    }
}

#[test]
fn the_ceiling_lowers_the_limit_whatever_the_baseline_says() {
    let config = AdaptiveLimitConfig { ceiling: Some(Duration::from_millis(40)), ..Default::default() };
    for seed in SEEDS {
        let mut world = World::new(AdaptiveLimit::new(config).unwrap(), 20, 100, 2000.0, seed);
        world.run(20);
        assert_eq!(world.limit.limit(), 4, "seed {seed}");
        world.service_ns = 20_000_000;
        world.run(10);
        assert!(world.limit.limit() >= 18, "seed {seed}: {}", world.limit.limit());
    }
}

#[test]
fn missing_samples_late_ticks_and_a_clock_that_steps_back_are_harmless() {
    for algorithm in [LimitAlgorithm::Vegas, LimitAlgorithm::Aimd, LimitAlgorithm::Gradient] {
        let limit = with(algorithm);
        for second in 0..60 {
            assert_eq!(limit.tick(Timestamp::from_secs(1000 + second), 20), 20);
        }
        for seconds in [1000, 2000, 5, 0, u64::MAX / 1_000_000_000, 3, 100_000, 100_001] {
            let now = Timestamp::from_secs(seconds);
            for latency in [Duration::ZERO, Duration::MAX, Duration::from_nanos(1), Duration::from_secs(4)] {
                for _ in 0..20 {
                    limit.record(1, LimitSample::Succeeded { latency }, now.saturating_sub(latency), now);
                }
                limit.record(1, LimitSample::TimedOut { latency }, now.saturating_sub(latency), now);
            }
            limit.record(1, LimitSample::Rejected, now, now);
            for later in [0, 2, 90, 4000] {
                let value = limit.tick(now.saturating_add(Duration::from_secs(later)), u64::MAX);
                assert!((4..=1000).contains(&value), "{value}");
            }
        }
    }
}

#[test]
fn a_setting_out_of_range_is_named_with_the_fix() {
    let config = AdaptiveLimitConfig::default();
    let message = |config: AdaptiveLimitConfig| AdaptiveLimit::new(config).unwrap_err().to_string();
    assert!(message(AdaptiveLimitConfig { min: 0, ..config }).contains("use at least 1"));
    assert!(message(AdaptiveLimitConfig { max: 3, ..config }).contains("`max` 3"));
    assert!(message(AdaptiveLimitConfig { initial: 2000, ..config }).contains("`initial` 2000"));
    let zero = Duration::ZERO;
    assert!(message(AdaptiveLimitConfig { ceiling: Some(zero), ..config }).contains("remove `ceiling`"));
    assert!(message(AdaptiveLimitConfig { timeout: zero, ..config }).contains("`timeout` 0"));
    assert!(message(AdaptiveLimitConfig { window: zero, ..config }).contains("100ms to 30s"));
    assert!(message(AdaptiveLimitConfig { samples_min: 0, ..config }).contains("`samples_min` 0"));
}

#[test]
fn what_one_of_two_namespaces_says_leaves_the_limit_where_the_other_needs_it() {
    const FAILS: fn(Timestamp, LimitSample) -> LimitSample = |_, _| LimitSample::Rejected;
    const TIMES_OUT: fn(Timestamp, LimitSample) -> LimitSample =
        |_, _| LimitSample::TimedOut { latency: Duration::from_secs(10) };
    const AT_ONCE: fn(Timestamp, LimitSample) -> LimitSample =
        |_, _| LimitSample::Succeeded { latency: Duration::from_micros(1) };
    const LONG: fn(Timestamp, LimitSample) -> LimitSample =
        |_, _| LimitSample::Succeeded { latency: Duration::from_secs(2) };
    // Another time in each second, so that no baseline holds.
    const CHANGING: fn(Timestamp, LimitSample) -> LimitSample = |now, _| {
        let is_odd = now.as_nanos() / 1_000_000_000 % 2 == 1;
        LimitSample::Succeeded { latency: Duration::from_millis(if is_odd { 2000 } else { 1 }) }
    };
    let says = [
        ("fails", FAILS),
        ("times out", TIMES_OUT),
        ("at once", AT_ONCE),
        ("long", LONG),
        ("changing", CHANGING),
    ];
    for (name, says) in says {
        for seed in [1, 2, 3] {
            let mut world = World::new(vegas(), 10, 20, 3000.0, seed);
            world.run(60);
            world.says = Some(says);
            let report = world.run(300);
            let of_capacity = report.succeeded as f64 / (300.0 * world.capacity());
            assert!(of_capacity >= 0.98, "{name}, seed {seed}: {of_capacity} of the capacity");
            assert!(report.limit_max <= 30, "{name}, seed {seed}: {}", report.limit_max);
        }
    }
}

#[test]
fn quick_failures_of_one_namespace_leave_the_limit_to_another_whose_work_outlasts_a_window() {
    let (limit, work) = (vegas(), Duration::from_millis(1500));
    let mut at_work: Vec<Timestamp> = Vec::new();
    for tick in 0..600 {
        let now = Timestamp::from_secs(1000).saturating_add(crate::TICK * tick);
        at_work.retain(|admitted| {
            let is_over = now.saturating_since(*admitted) >= work;
            if is_over {
                limit.record(1, LimitSample::Succeeded { latency: work }, *admitted, now);
            }
            !is_over
        });
        // Half of the places, of which one is taken in a tick.
        if (at_work.len() as u64) < limit.limit() / 2 {
            at_work.push(now);
        }
        (0..5).for_each(|_| limit.record(2, LimitSample::Rejected, now, now));
        limit.observe_in_flight([(1, at_work.len() as u64)].into_iter());
        limit.tick(now, at_work.len() as u64);
    }
    assert!(limit.limit() >= 20, "{}", limit.limit());
}

#[test]
fn a_namespace_that_keeps_its_half_of_the_places_does_not_stop_the_limit_from_growing() {
    let (limit, work) = (vegas(), Duration::from_millis(20));
    for tick in 0..600 {
        let now = Timestamp::from_secs(1000).saturating_add(crate::TICK * tick);
        let half = limit.limit() / 2;
        let admitted = now.saturating_sub(work);
        (0..half * 5).for_each(|_| limit.record(1, LimitSample::Succeeded { latency: work }, admitted, now));
        limit.observe_in_flight([(1, half), (2, half + 1)].into_iter());
        limit.tick(now, 2 * half);
    }
    assert!(limit.limit() > 40, "{}", limit.limit());
}

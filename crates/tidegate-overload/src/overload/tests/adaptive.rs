//! A resource whose bound follows the latency of its work.

use super::*;
use crate::places::adaptive_limit::{AdaptiveLimitConfig, LimitAlgorithm};
use crate::places::concurrency::Concurrency;
use crate::places::latency::LatencySample;

const MS: Duration = Duration::from_millis(1);

fn aimd() -> AdaptiveLimitConfig {
    AdaptiveLimitConfig { algorithm: LimitAlgorithm::Aimd, max: 30, ..AdaptiveLimitConfig::default() }
}

fn plane(config: AdaptiveLimitConfig) -> Overload {
    Overload::new(ResourceConfig::adaptive(config), 7).unwrap()
}

/// A second in which all places are taken and twenty requests end like `sample`.
fn full_second(overload: &Overload, second: u64, sample: LatencySample) {
    for tick in second * 10..second * 10 + 10 {
        let now = tick_at(tick);
        let mut held = Vec::new();
        while let Ok(permit) = take_place(overload, ONLY, level_of(Class::Critical), now) {
            held.push(permit);
        }
        for _ in 0..50 {
            assert!(take_place(overload, ONLY, level_of(Class::Critical), now).is_err());
        }
        for permit in held {
            overload.sample(&permit, sample, now, now.saturating_add(20 * MS));
            overload.give_back(permit);
        }
        overload.tick(now.saturating_add(TICK));
    }
}

const QUICK: LatencySample = LatencySample::Succeeded { first_byte: None, end: Duration::from_millis(20) };

#[test]
pub(super) fn the_bound_grows_while_work_succeeds_and_falls_when_it_times_out_or_is_rejected() {
    let overload = plane(aimd());
    let bound = |now| overload.stats(ONLY, now).in_flight_max;
    assert_eq!(bound(START), 20);
    (0..40).for_each(|second| full_second(&overload, second, QUICK));
    assert_eq!(bound(tick_at(400)), 30, "it stops at the maximum");
    let bad = [LatencySample::TimedOut { after: 500 * MS }, LatencySample::Rejected];
    for (round, sample) in (0..).zip(bad) {
        let before = bound(tick_at(400));
        let first = 40 + round * 5;
        (first..first + 5).for_each(|second| full_second(&overload, second, sample));
        assert!(bound(tick_at(400)) < before * 3 / 4, "{sample:?}: {}", bound(tick_at(400)));
    }
    // The last window with rejections ends in the first second.
    full_second(&overload, 50, LatencySample::Failed);
    let before = bound(tick_at(510));
    (51..55).for_each(|second| full_second(&overload, second, LatencySample::Failed));
    assert_eq!(bound(tick_at(550)), before, "an error that says nothing about load moves nothing");
}

#[test]
fn a_slow_reader_of_an_answer_is_no_slow_resource() {
    let overload = plane(aimd());
    // The answer begins within 20 ms, and its reader takes ten seconds, twice the timeout.
    let read_slowly = LatencySample::Succeeded { first_byte: Some(20 * MS), end: 10_000 * MS };
    (0..20).for_each(|second| full_second(&overload, second, read_slowly));
    assert_eq!(overload.stats(ONLY, tick_at(200)).in_flight_max, 30);
}

#[test]
fn the_numbers_say_how_the_bound_is_found() {
    let found = |config| {
        let overload = Overload::new(config, 7).unwrap();
        overload.stats(ONLY, START).concurrency
    };
    assert_eq!(found(ResourceConfig::new(5)), Concurrency::Fixed);
    assert_eq!(found(ResourceConfig::new(5).places_per_instance(1)), Concurrency::PerInstance);
    let aimd = found(ResourceConfig::adaptive(aimd()));
    assert_eq!((aimd, aimd.as_str()), (Concurrency::Adaptive(LimitAlgorithm::Aimd), "aimd"));
}

#[test]
fn a_bound_by_latency_and_by_instances_is_an_error_as_is_a_limit_that_cannot_work() {
    let both = ResourceConfig::adaptive(aimd()).places_per_instance(4);
    let error = Overload::builder(7).resource("app", both).build().unwrap_err();
    assert_eq!(
        error.to_string(),
        "resource \"app\": the bound cannot follow the latency and the instances at once; remove `adaptive` or \
         `places_per_instance`"
    );
    let none = ResourceConfig::adaptive(AdaptiveLimitConfig { min: 0, ..aimd() });
    let error = Overload::builder(7).resource("app", none).build().unwrap_err();
    assert!(error.to_string().starts_with("resource \"app\": adaptive limit: `min` 0"), "{error}");
}

#[test]
fn a_reload_goes_on_from_the_present_limit_within_the_new_bounds() {
    let overload = plane(aimd());
    (0..5).for_each(|second| full_second(&overload, second, QUICK));
    let learned = overload.stats(ONLY, tick_at(50)).in_flight_max;
    assert!(learned > 22, "{learned}");
    let over = |config| {
        let builder = Overload::builder(7).default_resource(config);
        let next = builder.build_over(&overload).unwrap();
        next.stats(ONLY, tick_at(50)).in_flight_max
    };
    assert_eq!(over(ResourceConfig::adaptive(aimd())), learned);
    assert_eq!(over(ResourceConfig::adaptive(AdaptiveLimitConfig { initial: 7, ..aimd() })), learned);
    assert_eq!(over(ResourceConfig::adaptive(AdaptiveLimitConfig { max: 21, ..aimd() })), 21);
    assert_eq!(over(ResourceConfig::new(9)), 9);
    assert_eq!(over(ResourceConfig::adaptive(aimd())), 20, "nothing is remembered of before");
}

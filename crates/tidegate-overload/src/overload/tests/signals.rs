//! Signals, levels and the reserve, through the plane.

use super::*;
use crate::levels::load_level::LoadLevel;
use crate::levels::signal::{PushedValue, SignalConfig, SignalError, SignalSource};
use crate::queue::queue_observation::QueueObservation;

fn with_cpu() -> Overload {
    let cpu = SignalConfig { target: 0.85, ..SignalConfig::new("cpu", SignalSource::Pushed) };
    Overload::builder(7).default_resource(ResourceConfig::new(100)).signal(cpu).build().unwrap()
}

#[test]
fn a_pushed_signal_sets_the_level_until_it_is_stale_and_leaves_the_cursor_alone() {
    let overload = with_cpu();
    for step in 0..30 {
        overload.push_signal("cpu", PushedValue::new(0.80), tick_at(step)).unwrap();
        offer(&overload, 10, tick_at(step));
        overload.tick(tick_at(step));
    }
    let stats = overload.stats(ONLY, tick_at(30));
    assert_eq!((stats.level, stats.binding_signal.as_deref()), (LoadLevel::Hard, Some("cpu")));
    assert_eq!(overload.resource(ONLY).cursor(), Cursor::OPEN);
    for step in 30..100 {
        overload.tick(tick_at(step));
    }
    let stats = overload.stats(ONLY, tick_at(100));
    assert!(stats.signals[0].is_stale && stats.signals[0].pressure.is_none(), "{stats:?}");
    assert_eq!((stats.level, stats.binding_signal.as_deref()), (LoadLevel::Normal, Some("in_flight")));
}

#[test]
fn a_pushed_value_may_bring_its_target_and_its_time() {
    let overload = with_cpu();
    let pushed = PushedValue { value: 0.5, target: Some(0.5), ttl: Some(Duration::from_secs(2)) };
    overload.push_signal("cpu", pushed, START).unwrap();
    (0..=20).for_each(|step| assert_eq!(overload.tick(tick_at(step)), tick_at(step + 1)));
    assert_eq!(overload.stats(ONLY, tick_at(20)).pressure, Some(1.0));
    overload.tick(tick_at(21));
    assert_eq!(overload.stats(ONLY, tick_at(21)).pressure, Some(0.0));
}

#[test]
fn values_that_are_no_measure_and_unknown_names_are_errors_that_change_nothing() {
    let overload = with_cpu();
    for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.1] {
        let error = overload.push_signal("cpu", PushedValue::new(value), START).unwrap_err();
        assert!(matches!(error, SignalError::Value(_)), "{error}");
    }
    for target in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        let pushed = PushedValue { target: Some(target), ..PushedValue::new(0.5) };
        let error = overload.push_signal("cpu", pushed, START).unwrap_err();
        assert!(matches!(error, SignalError::Target(_)), "{error}");
    }
    for (name, problem) in
        [("disk", "does not exist"), ("in_flight", "has the source in_flight, which is measured here")]
    {
        let error = overload.push_signal(name, PushedValue::new(0.5), START).unwrap_err();
        assert_eq!(error.to_string(), format!("signal \"{name}\" {problem}; push one of: cpu"));
    }
    assert_eq!(overload.stats(ONLY, START).signals[0].value, None);
}

#[test]
fn a_value_far_beyond_its_target_counts_as_ten_times_the_target_and_passes_again() {
    let tiny = SignalConfig { target: 1e-300, ..SignalConfig::new("tiny", SignalSource::Pushed) };
    let overload =
        Overload::builder(7).default_resource(ResourceConfig::new(100)).signal(tiny).build().unwrap();
    let pressure = |step| overload.stats(ONLY, tick_at(step)).pressure;
    for step in 0..20 {
        overload.push_signal("tiny", PushedValue::new(1e300), tick_at(step)).unwrap();
        overload.tick(tick_at(step));
    }
    assert_eq!(pressure(20), Some(10.0));
    for step in 20..100 {
        overload.push_signal("tiny", PushedValue::new(0.0), tick_at(step)).unwrap();
        overload.tick(tick_at(step));
    }
    assert!(pressure(100).unwrap() < 0.01, "{:?}", pressure(100));
    assert_eq!(overload.resource(ONLY).level(), LoadLevel::Normal);
}

#[test]
fn an_emergency_keeps_the_reserve_for_the_highest_class() {
    let overload = overload(40);
    overload.resource(ONLY).pin(Some(Cursor::CLOSED), Timestamp::MAX, START);
    for step in 0..20 {
        let standing = QueueObservation {
            delay_ratio: 3.0,
            delay: Duration::from_millis(15),
            is_empty: false,
            shed: 1,
            departures: 0,
        };
        overload.resource(ONLY).observe_queue(standing);
        overload.tick(tick_at(step));
    }
    assert_eq!(overload.resource(ONLY).level(), LoadLevel::Emergency);
    let take = |class| {
        let taken = core::iter::from_fn(|| take_place(&overload, ONLY, level_of(class), START).ok());
        taken.collect::<Vec<_>>()
    };
    let (common, highest) = (take(Class::Critical), take(Class::CriticalPlus));
    assert_eq!((common.len(), highest.len()), (38, 2), "a twentieth of 40 places");
    common.into_iter().chain(highest).for_each(|permit| overload.give_back(permit));
}

#[test]
fn signals_and_reserves_that_cannot_be_are_named() {
    let message = |builder: OverloadBuilder| builder.build().unwrap_err().to_string();
    let base = || Overload::builder(7).default_resource(ResourceConfig::new(10));
    let signal = |name: &str| SignalConfig::new(name, SignalSource::Pushed);
    let absent = SignalConfig { resource: Some("absent".into()), ..signal("cpu") };
    assert_eq!(message(base().signal(absent)), "signal \"cpu\": its resource is not configured; change it");
    assert!(message(base().signal(signal("cpu")).signal(signal("cpu"))).contains("has this name"));
    assert!(message(base().signal(signal(""))).contains("1 to 64 bytes"));
    let zero = SignalConfig { target: 0.0, ..signal("cpu") };
    assert!(message(base().signal(zero)).contains("above 0"));
    let mut config = ResourceConfig::new(10);
    config.reserve = 51;
    assert!(
        message(Overload::builder(7).default_resource(config))
            .starts_with("reserve 51 is not between 0 and 50")
    );
}

#[test]
pub(super) fn slow_answers_set_the_level_and_failures_are_no_answers() {
    use crate::places::latency::LatencySample;
    let source = SignalSource::SlowAnswers { slower_than: Duration::from_millis(200) };
    let slow = SignalConfig { target: 0.1, ..SignalConfig::new("slow", source) };
    let overload =
        Overload::builder(7).default_resource(ResourceConfig::new(100)).signal(slow).build().unwrap();
    let second = |first: u64, samples: &[LatencySample]| {
        for tick in first..first + 20 {
            let now = tick_at(tick);
            for sample in samples {
                let permit = take_place(&overload, ONLY, level_of(Class::Critical), now).unwrap();
                overload.sample(&permit, *sample, now, now);
                overload.give_back(permit);
            }
            overload.tick(now);
        }
        let stats = overload.stats(ONLY, tick_at(first + 19));
        let signal = stats.signals.into_iter().find(|signal| signal.name == "slow").unwrap();
        (signal.value, signal.is_stale, overload.resource(ONLY).level())
    };
    let answer = |ms| LatencySample::Succeeded { first_byte: None, end: Duration::from_millis(ms) };
    let (value, _, level) =
        second(0, &[answer(200), answer(150), LatencySample::Failed, LatencySample::Rejected]);
    assert_eq!((value, level), (Some(0.0), LoadLevel::Normal));
    let late = LatencySample::TimedOut { after: Duration::from_secs(30) };
    let read_slowly = LatencySample::Succeeded {
        first_byte: Some(Duration::from_millis(100)),
        end: Duration::from_mins(1),
    };
    let (value, _, level) = second(20, &[answer(201), late, read_slowly, answer(10)]);
    assert_eq!((value, level), (Some(0.5), LoadLevel::Hard));
    let (_, is_stale, _) = second(40, &[]);
    assert!(is_stale, "without an answer nothing is known");
}

#[test]
fn a_pressure_that_is_no_measure_takes_back_the_signal_before_it() {
    for pressure in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -1.0] {
        let overload = overload(100);
        let cursor_after = |pressures: &[f64]| {
            for (tick, pressure) in (0..).zip(pressures) {
                offer(&overload, 10, tick_at(tick));
                overload.event(Signal::on_all(*pressure), tick_at(tick));
                overload.tick(tick_at(tick));
            }
            overload.resource(ONLY).cursor()
        };
        assert!(cursor_after(&[3.0, 3.0]) > Cursor::OPEN);
        assert_eq!(cursor_after(&[pressure, pressure, pressure]), Cursor::OPEN, "{pressure}");
    }
}

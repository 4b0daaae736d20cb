use proptest::prelude::*;
use tidegate_core::Class;

use super::*;
use crate::LevelThresholds;

const BEGIN: Timestamp = Timestamp::from_secs(1_800_000_000);
const WIDE: usize = 16 << 20;

fn at(seconds: u64) -> Timestamp {
    BEGIN.saturating_add(Duration::from_secs(seconds))
}

/// A sample of ten seconds from second `from` on.
fn sample(from: u64, pressure: f64, work: &[(&str, u64, u64)]) -> HistorySample {
    let mut span = SpanShares::new(at(from));
    for (feature, seconds, units) in work {
        span.add(feature, Class::Critical, "shop", Duration::from_secs(*seconds), *units);
        span.offer(units + 1);
        span.refuse(1);
    }
    span.close(at(from + 10), Some(pressure), 0.7, 0.9)
}

fn filled(bytes_max: usize, seconds: u64) -> ResourceHistory {
    let mut history = ResourceHistory::new(bytes_max);
    for from in (0..seconds).step_by(10) {
        history.push(sample(from, 0.5, &[("search", 3, 1), ("export", 1, 1)]));
    }
    history
}

#[test]
fn the_last_hour_has_tens_of_seconds_the_rest_of_a_day_minutes_and_no_more() {
    let history = filled(WIDE, 25 * 3600);
    let lengths: Vec<u64> = history.samples().map(|one| one.length().as_secs()).collect();
    assert_eq!(lengths.len(), 23 * 60 + 360);
    assert!(lengths[..23 * 60].iter().all(|length| *length == 60), "minutes before");
    assert!(lengths[23 * 60..].iter().all(|length| *length == 10), "tens of seconds in the last hour");
    assert_eq!(history.complete_since(), Some(at(3600)));
    assert_eq!((history.dropped(), history.breaks().count()), (0, 0));
}

#[test]
fn a_minute_has_the_sums_of_its_parts_and_their_mean_pressure() {
    let mut history = ResourceHistory::new(WIDE);
    let pressures = [0.1, 0.2, 0.3, 0.4, 0.5, 0.9];
    for (from, pressure) in (0..).step_by(10).zip(pressures) {
        history.push(sample(from, pressure, &[("search", 3, 1), ("export", from, 2)]));
    }
    for from in (60..60 + 3600).step_by(10) {
        history.push(sample(from, 0.0, &[]));
    }
    let minute = history.samples().next().unwrap();
    assert_eq!((minute.from, minute.until), (at(0), at(60)));
    assert!((minute.pressure.unwrap() - 0.4).abs() < 1e-12, "{:?}", minute.pressure);
    assert_eq!((minute.offered_units, minute.refused_units), (30, 12));
    let rows: Vec<_> = minute
        .features
        .iter()
        .map(|row| (&*row.name, row.totals.place_time_ns / 1_000_000_000, row.totals.units))
        .collect();
    assert_eq!(rows, [("export", 150, 12), ("search", 18, 6)]);
    assert_eq!(minute.classes[Class::Critical as usize].units, 18);
}

#[test]
fn the_mean_of_a_minute_is_weighted_by_time() {
    let sample = |from, until, pressure| SpanShares::new(at(from)).close(at(until), Some(pressure), 0.7, 0.9);
    let mut history = ResourceHistory::new(WIDE);
    history.push(sample(0, 10, 1.0));
    history.push(sample(10, 60, 0.4));
    history.push(sample(60, 4000, 0.0));
    let minute = history.samples().next().unwrap();
    assert!((minute.pressure.unwrap() - 0.5).abs() < 1e-12, "{:?}", minute.pressure);
}

#[test]
fn a_minute_without_a_fresh_signal_is_not_mixed_with_one_that_has_a_pressure() {
    let mut history = ResourceHistory::new(WIDE);
    history.push(SpanShares::new(at(0)).close(at(10), None, 0.7, 0.9));
    history.push(sample(10, 0.8, &[]));
    history.push(sample(5000, 0.8, &[]));
    let pressures: Vec<_> = history.samples().map(|one| one.pressure).collect();
    assert_eq!(pressures, [None, Some(0.8), Some(0.8)]);
}

#[test]
fn a_gap_within_a_minute_stays_a_gap_when_the_minute_is_an_hour_old() {
    let mut history = ResourceHistory::new(WIDE);
    for from in [0, 10, 40, 50, 4000] {
        history.push(sample(from, 0.5, &[]));
    }
    let spans: Vec<_> = history.samples().map(|one| (one.from, one.until)).collect();
    assert_eq!(spans, [(0, 20), (40, 60), (4000, 4010)].map(|(from, until)| (at(from), at(until))));
    assert_eq!(history.breaks().next(), Some(HistoryBreak { until: at(20), from: at(40) }));
}

#[test]
fn a_history_that_is_too_small_drops_the_oldest_minutes_and_says_so() {
    let bound = 200 << 10;
    let history = filled(bound, 25 * 3600);
    assert!(history.bytes() <= bound, "{}", history.bytes());
    let kept = history.samples().count();
    assert_eq!(history.samples().rev().take(360).filter(|one| one.length().as_secs() == 10).count(), 360);
    assert!(kept < 23 * 60 + 360 && history.dropped() > 0);
    assert_eq!(history.complete_since(), history.samples().next().map(|one| one.from));
    assert!(history.complete_since() > Some(at(3600)));
    assert_eq!(history.breaks().count(), 0, "what is left has no holes");
    let bytes = history.bytes();
    assert!(bytes > bound - 1024, "the bound is used: {bytes}");
}

#[test]
fn a_history_without_room_for_a_sample_keeps_none_and_counts_them() {
    let history = filled(100, 60);
    assert_eq!((history.samples().count(), history.dropped(), history.bytes()), (0, 6, 0));
    assert_eq!(history.complete_since(), None);
}

#[test]
fn a_lower_bound_drops_the_oldest_at_once() {
    let mut history = filled(WIDE, 3 * 3600);
    history.set_bytes_max(64 << 10);
    assert!(history.bytes() <= 64 << 10 && history.dropped() > 0);
    assert_eq!(history.samples().next_back().unwrap().until, at(3 * 3600));
}

#[test]
fn a_sample_names_twelve_and_adds_the_rest_to_other() {
    let mut span = SpanShares::new(BEGIN);
    for feature in 0..10_000_u64 {
        let name = format!("feature-{feature}");
        span.add(&name, Class::Sheddable, &name, Duration::from_secs(feature), 1);
    }
    span.add(OTHER_NAME, Class::Sheddable, &"n".repeat(4096), Duration::from_secs(5), 1);
    let sample = span.close(at(10), Some(1.0), 0.7, 0.9);
    assert_eq!((sample.features.len(), sample.namespaces.len()), (13, 13));
    assert_eq!((&*sample.features[0].name, &*sample.features[12].name), ("feature-9999", OTHER_NAME));
    for rows in [&sample.features, &sample.namespaces] {
        let place_time: u64 = rows.iter().map(|row| row.totals.place_time_ns).sum();
        let units: u64 = rows.iter().map(|row| row.totals.units).sum();
        let of_class = sample.classes[Class::Sheddable as usize];
        assert_eq!((place_time, units), (of_class.place_time_ns, of_class.units), "sums never fall");
    }
}

#[test]
fn a_feature_that_comes_late_is_named_if_it_has_the_most_work() {
    let mut span = SpanShares::new(BEGIN);
    for feature in 0..SPAN_ROWS_MAX * 2 {
        span.add(&format!("small-{feature}"), Class::Critical, "shop", Duration::from_millis(1), 1);
    }
    span.add("large", Class::Critical, "shop", Duration::from_mins(1), 1);
    let sample = span.close(at(10), Some(1.0), 0.7, 0.9);
    assert_eq!(&*sample.features[0].name, "large");
}

#[test]
fn names_take_their_bytes_once_however_many_samples_have_them() {
    let long = "n".repeat(HISTORY_NAME_BYTES_MAX);
    let bytes = |name: &str| {
        let mut history = ResourceHistory::new(WIDE);
        (0..100).for_each(|index| history.push(sample(index * 10, 0.5, &[(name, 1, 1)])));
        history.bytes()
    };
    assert_eq!(bytes(&long) - bytes("n"), HISTORY_NAME_BYTES_MAX - 1);
}

#[test]
fn a_day_of_the_largest_samples_takes_less_than_two_mebibytes() {
    let mut history = ResourceHistory::new(WIDE);
    let names: Vec<String> = (0..20).map(|index| format!("{index:0128}")).collect();
    for from in (0..25 * 3600).step_by(10) {
        let mut span = SpanShares::new(at(from));
        for name in &names {
            span.add(name, Class::Critical, name, Duration::from_secs(1), 1);
        }
        history.push(span.close(at(from + 10), Some(0.5), 0.7, 0.9));
    }
    let each = size_of::<HistorySample>() + 2 * (HISTORY_NAMES_MAX + 1) * size_of::<ShareRow>();
    assert_eq!((each, history.dropped()), (992, 0));
    assert!(history.bytes() <= 1_800_000, "{}", history.bytes());
}

#[test]
fn a_step_of_an_hour_forward_is_a_gap_and_no_sample_is_invented() {
    let mut history = filled(WIDE, 600);
    history.push(sample(600 + 3600, 0.5, &[]));
    history.push(sample(610 + 3600, 0.5, &[]));
    let breaks: Vec<_> = history.breaks().collect();
    assert_eq!(breaks, [HistoryBreak { until: at(600), from: at(4200) }]);
    let length: Duration = history.samples().map(HistorySample::length).sum();
    assert_eq!(length.as_secs(), 620);
}

#[test]
fn a_step_of_an_hour_back_repeats_times_and_keeps_within_the_bounds() {
    let mut history = filled(WIDE, 2 * 3600);
    for from in (3600..4 * 3600).step_by(10) {
        history.push(sample(from, 0.5, &[]));
        assert!(history.samples().count() <= FINE_MAX + MINUTES_MAX);
    }
    let breaks: Vec<_> = history.breaks().collect();
    assert_eq!(breaks, [HistoryBreak { until: at(7200), from: at(3600) }]);
    let length: Duration = history.samples().map(HistorySample::length).sum();
    assert_eq!(length.as_secs(), 5 * 3600);
}

#[test]
fn areas_add_up_to_the_pressure_by_whatever_they_are_divided() {
    let mut span = SpanShares::new(BEGIN);
    span.add("search", Class::Critical, "shop", Duration::from_millis(333), 7);
    span.add("export", Class::Sheddable, "shop", Duration::from_secs(1), 7);
    span.add("search", Class::Sheddable, "desk", Duration::from_nanos(1), 7);
    let sample = span.close(at(10), Some(0.77), 0.7, 0.9);
    assert_eq!(AreaMeasure::from_sample(&sample), AreaMeasure::PlaceTime);
    for by in AreaOwner::ALL {
        let heights: f64 = areas(&sample, by).iter().map(|(_, height)| height).sum();
        assert!((heights - 0.77).abs() < 1e-9, "{by:?}: {heights}");
    }
    let by_feature = areas(&sample, AreaOwner::Feature);
    assert_eq!(by_feature[0].0, "export");
    assert!((by_feature[0].1 - 0.77 * 1000.0 / 1_333.000_001).abs() < 1e-12);
}

#[test]
fn areas_are_by_units_where_no_end_is_known_and_unattributed_without_work() {
    let by_units = sample(0, 0.6, &[("search", 0, 1), ("export", 0, 2)]);
    assert_eq!(AreaMeasure::from_sample(&by_units), AreaMeasure::Units);
    let heights = areas(&by_units, AreaOwner::Feature);
    assert_eq!(heights.iter().map(|(name, _)| *name).collect::<Vec<_>>(), ["export", "search"]);
    assert!((heights[0].1 - 0.4).abs() < 1e-12 && (heights[1].1 - 0.2).abs() < 1e-12);
    let idle = sample(0, 0.6, &[]);
    for by in AreaOwner::ALL {
        assert_eq!(areas(&idle, by), [(UNATTRIBUTED, 0.6)]);
    }
    let unknown = SpanShares::new(BEGIN).close(at(10), None, 0.7, 0.9);
    assert_eq!(areas(&unknown, AreaOwner::Feature), []);
}

#[test]
fn a_pressure_that_is_no_number_is_absent_and_one_beyond_all_is_the_highest() {
    let close = |pressure| SpanShares::new(BEGIN).close(at(10), pressure, 0.7, 0.9);
    let mut history = ResourceHistory::new(WIDE);
    for pressure in [Some(f64::NAN), Some(f64::INFINITY), Some(-1.0), Some(1e300)] {
        history.push(close(pressure));
    }
    let kept: Vec<_> = history.samples().map(|one| one.pressure).collect();
    assert_eq!(kept, [None, Some(PRESSURE_MAX), Some(0.0), Some(PRESSURE_MAX)]);
}

/// A set that is looked at every second.
fn observed(set: &mut HistorySet, seconds: core::ops::Range<u64>, pressure: f64) {
    for second in seconds {
        set.observe([("app", Some(pressure))], at(second));
    }
}

#[test]
fn the_samples_of_a_resource_carry_its_own_thresholds() {
    let mut set = HistorySet::new(WIDE);
    observed(&mut set, 0..11, 0.25);
    set.set_levels("app", LevelThresholds { soft: 0.5, hard: 0.95, ..LevelThresholds::DEFAULT });
    observed(&mut set, 11..21, 0.25);
    let thresholds: Vec<_> = set.history("app").unwrap().samples().map(|one| (one.soft, one.hard)).collect();
    for (found, expected) in thresholds.iter().zip([(0.7, 0.9), (0.5, 0.95)]) {
        assert!((found.0 - expected.0).abs() < 1e-4 && (found.1 - expected.1).abs() < 1e-4, "{thresholds:?}");
    }
    assert_eq!(thresholds.len(), 2);
}

#[test]
fn a_set_makes_a_sample_each_ten_seconds_with_the_work_added_before() {
    let mut set = HistorySet::new(WIDE);
    observed(&mut set, 0..10, 0.25);
    assert!(set.history("app").is_some_and(|history| history.samples().next().is_none()));
    assert!(set.span_end(at(9)).is_none() && set.span_end(at(10)) == Some(SpanEnd::at(at(10))));
    set.shares("app").unwrap().add("search", Class::Critical, "shop", Duration::from_secs(1), 1);
    observed(&mut set, 10..21, 0.75);
    let samples: Vec<_> = set.history("app").unwrap().samples().cloned().collect();
    assert_eq!(
        samples.iter().map(|one| (one.from, one.until)).collect::<Vec<_>>(),
        [(at(0), at(10)), (at(10), at(20))]
    );
    // Nine seconds at 0.25 and the last at 0.75.
    assert!((samples[0].pressure.unwrap() - 0.3).abs() < 1e-6, "{:?}", samples[0].pressure);
    assert_eq!((samples[0].features.len(), samples[1].features.len()), (1, 0));
    assert_eq!(
        (samples[0].soft.to_bits(), samples[0].hard.to_bits()),
        (0.7_f64.to_bits(), 0.9_f64.to_bits())
    );
    assert!(set.shares("other").is_none());
}

#[test]
fn a_set_ends_its_span_where_the_clock_stepped() {
    let mut set = HistorySet::new(WIDE);
    observed(&mut set, 0..15, 0.5);
    observed(&mut set, 3614..3631, 0.5);
    observed(&mut set, 20..31, 0.5);
    let samples: Vec<_> = set.history("app").unwrap().samples().map(|one| (one.from, one.until)).collect();
    let expected = [(0, 14), (3614, 3624), (3624, 3630), (20, 30)].map(|(from, until)| (at(from), at(until)));
    assert_eq!(samples, expected);
    assert_eq!(set.history("app").unwrap().breaks().count(), 2);
}

#[test]
fn resources_have_equal_parts_and_a_removed_one_is_forgotten() {
    let mut set = HistorySet::new(40 << 10);
    let names: Vec<String> = (0..4).map(|index| format!("r{index}")).collect();
    for second in 0..4000 {
        set.observe(names.iter().map(|name| (&**name, Some(0.5))), at(second));
    }
    for name in &names {
        let history = set.history(name).unwrap();
        assert!(history.bytes() <= 10 << 10 && history.dropped() > 0, "{}", history.bytes());
    }
    let before = set.history("r0").unwrap().samples().count();
    for second in 4000..8000 {
        set.observe([("r0", Some(0.5))], at(second));
    }
    assert!(set.history("r1").is_none());
    assert!(set.history("r0").unwrap().samples().count() > 2 * before, "its part is four times as large");
}

#[test]
fn a_span_begins_at_the_first_look_and_ends_at_the_last_one_before_a_step_of_the_clock() {
    let mut set = HistorySet::new(WIDE);
    assert_eq!(set.span_end(at(5)), Some(SpanEnd::at(at(5))), "it ends what was before");
    observed(&mut set, 5..12, 0.5);
    assert_eq!(set.span_end(at(14)), None);
    assert_eq!(set.span_end(at(15)), Some(SpanEnd::at(at(15))));
    for stepped in [at(3600), at(2)] {
        assert_eq!(set.span_end(stepped), Some(SpanEnd { until: at(11), next_from: stepped }));
    }
}

#[test]
fn the_work_that_is_counted_elsewhere_takes_from_the_part_of_its_resource() {
    let mut set = HistorySet::new(40 << 10);
    set.set_work_bytes("app", 1 << 10);
    observed(&mut set, 0..4000, 0.5);
    let bytes = |set: &HistorySet| set.history("app").unwrap().bytes();
    assert!(bytes(&set) > 30 << 10, "{}", bytes(&set));
    set.set_work_bytes("app", 30 << 10);
    assert!(bytes(&set) <= 10 << 10, "{}", bytes(&set));
    observed(&mut set, 4000..8000, 0.5);
    assert!(bytes(&set) <= 10 << 10, "{}", bytes(&set));
    set.set_work_bytes("app", 41 << 10);
    assert_eq!(bytes(&set), 0);
}

#[test]
fn a_set_of_no_bytes_keeps_nothing() {
    let mut set = HistorySet::new(0);
    observed(&mut set, 0..100, 0.5);
    assert!(set.history("app").is_none() && set.span_end(at(200)).is_none());
}

proptest! {
    /// With any steps of the clock and any names, the bound holds, no count of bytes drifts, and
    /// the areas add up.
    #[test]
    fn any_clock_and_any_names_keep_the_bounds(
        bytes_max in 0_usize..40_000,
        steps in prop::collection::vec((0_u64..200_000, 0_u64..100, 0_usize..40, 0.0..3.0_f64), 1..300),
    ) {
        let mut history = ResourceHistory::new(bytes_max);
        let mut now = 100_000_u64;
        for (jump, length, names, pressure) in steps {
            now = match jump {
                0..50_000 => now.saturating_sub(jump),
                50_000..60_000 => now + jump,
                _ => now,
            };
            let mut span = SpanShares::new(at(now));
            for name in 0..names {
                let place_time = Duration::from_nanos(jump * name as u64);
                span.add(&format!("f{}", (name as u64 + length) % 50), Class::Critical, "n", place_time, jump);
            }
            now += length;
            history.push(span.close(at(now), Some(pressure), 0.7, 0.9));
            prop_assert!(history.bytes() <= bytes_max);
            prop_assert!(history.fine.len() <= FINE_MAX && history.minutes.len() <= MINUTES_MAX);
        }
        for one in history.samples() {
            let heights: f64 = areas(one, AreaOwner::Feature).iter().map(|(_, height)| height).sum();
            prop_assert!((heights - one.pressure.unwrap_or(0.0)).abs() < 1e-9);
            prop_assert!(one.features.len() <= HISTORY_NAMES_MAX + 1);
        }
        history.set_bytes_max(0);
        prop_assert_eq!((history.heap_bytes, history.names.len(), history.bytes()), (0, 0, 0));
    }
}

fn mark(second: u64, feature: &str, level: &str) -> LevelMark {
    LevelMark {
        at: at(second),
        feature: feature.into(),
        level: level.into(),
        is_worse: true,
        is_shadow: false,
    }
}

#[test]
fn the_oldest_of_too_many_marks_is_dropped_and_counted() {
    let mut history = ResourceHistory::new(WIDE);
    let empty = history.bytes();
    for second in 0..HISTORY_MARKS_MAX as u64 + 3 {
        history.mark(mark(second, "thumbnails", "off"));
    }
    assert_eq!((history.marks().count(), history.marks_dropped()), (HISTORY_MARKS_MAX, 3));
    assert_eq!(history.marks().next(), Some(&mark(3, "thumbnails", "off")));
    assert!(history.bytes() > empty, "marks are a part of the bound");
}

#[test]
fn marks_of_yesterday_go_with_the_samples_of_yesterday() {
    let mut history = ResourceHistory::new(WIDE);
    history.push(sample(0, 0.5, &[]));
    history.mark(mark(5, "thumbnails", "off"));
    history.mark(mark(30, "thumbnails", "full"));
    history.push(sample(24 * 3600, 0.5, &[]));
    assert_eq!(history.marks().cloned().collect::<Vec<_>>(), [mark(30, "thumbnails", "full")]);
    assert_eq!(history.marks_dropped(), 0, "it was old enough");
}

#[test]
fn a_history_with_marks_stays_within_its_bytes_and_one_of_no_bytes_has_none() {
    let bytes_max = 4 << 10;
    let mut history = ResourceHistory::new(bytes_max);
    let name = "x".repeat(128);
    for second in 0..HISTORY_MARKS_MAX as u64 {
        history.push(sample(second * 10, 0.5, &[("search", 3, 1)]));
        history.mark(mark(second * 10, &name, "480p"));
        assert!(history.bytes() <= bytes_max, "{} bytes", history.bytes());
    }
    assert!(history.marks_dropped() > 0 && history.marks().count() > 0);
    history.set_bytes_max(0);
    history.mark(mark(9999, "thumbnails", "off"));
    assert_eq!((history.marks().count(), history.bytes()), (0, 0));
}

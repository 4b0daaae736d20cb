//! Counts, and the keys of their metrics.

use tidegate_policy::envoy::{DescriptorLimit, Files, METRIC_KEYS_MAX, MetricKeys, Unit};

use super::{World, descriptor, domain, files, files_under, with_hits};

/// The key of what is counted for a hit, as it is and where there are too many.
fn keys(files: &Files, entries: &[(&str, &str)]) -> (String, Option<String>) {
    let descriptors = [descriptor(entries)];
    let answer = World::new().ask(files, &descriptors, 0);
    let key = &answer.counts[0].key;
    (key.bounded.to_string(), key.exact.clone())
}

fn one(descriptor: &str) -> Files {
    files(&domain(&[descriptor]))
}

const LIMIT: &str = "rate_limit: { unit: minute, requests_per_unit: 10 }";

#[test]
fn a_key_has_the_values_and_patterns_of_the_file_and_no_others() {
    let nested = |inner: &str| one(&format!("{{ key: a, value: x, descriptors: [{{ {inner}, {LIMIT} }}] }}"));
    for (inner, expected) in
        [("key: b, value: y", "d.a_x.b_y"), ("key: b", "d.a_x.b"), ("key: b, value: 'y*'", "d.a_x.b_y*")]
    {
        assert_eq!(keys(&nested(inner), &[("a", "x"), ("b", "y")]), (expected.to_owned(), None), "{inner}");
    }
}

#[test]
fn value_to_metric_puts_the_value_of_the_request_at_its_level() {
    let files = one(&format!(
        "{{ key: a, value_to_metric: true, descriptors: [{{ key: b, value: 'y*', descriptors: [{{ key: c, value: 'z*', value_to_metric: true, {LIMIT} }}] }}] }}"
    ));
    assert_eq!(
        keys(&files, &[("a", "1"), ("b", "y2"), ("c", "z3")]),
        ("d.a_other.b_y*.c_other".to_owned(), Some("d.a_1.b_y*.c_z3".to_owned()))
    );
    // An empty value adds nothing, not even an underscore.
    let plain = one(&format!("{{ key: a, value_to_metric: true, {LIMIT} }}"));
    assert_eq!(keys(&plain, &[("a", "")]).1.as_deref(), Some("d.a"));
}

#[test]
fn detailed_metric_on_the_last_descriptor_puts_every_value_of_the_request() {
    let files = one(&format!(
        "{{ key: a, descriptors: [{{ key: b, value: 'y*', descriptors: [{{ key: c, detailed_metric: true, {LIMIT} }}] }}] }}"
    ));
    assert_eq!(
        keys(&files, &[("a", "1"), ("b", "y2"), ("c", "3")]),
        ("d.a_other.b_other.c_other".to_owned(), Some("d.a_1.b_y2.c_3".to_owned()))
    );
}

#[test]
fn values_that_share_a_counter_share_its_key() {
    for extra in ["value_to_metric: true", "detailed_metric: true"] {
        let files = one(&format!("{{ key: a, value: 'x*', share_threshold: true, {extra}, {LIMIT} }}"));
        assert_eq!(keys(&files, &[("a", "x1")]), ("d.a_x*".to_owned(), None), "{extra}");
    }
}

#[test]
fn names_have_no_separators_and_no_dots_of_addresses() {
    let files = one(&format!("{{ key: 'a:b', value: 10.0.0.1, {LIMIT} }}"));
    assert_eq!(keys(&files, &[("a:b", "10.0.0.1")]).0, "d.a_b_10_0_0_1");
}

#[test]
fn limits_of_requests_and_values_in_metrics_leave_no_more_keys_than_the_bound() {
    let files = one(&format!("{{ key: a, value_to_metric: true, {LIMIT} }}"));
    let (world, mut known) = (World::new(), MetricKeys::default());
    let mut names = std::collections::BTreeSet::new();
    for value in 0..3 * METRIC_KEYS_MAX {
        let value = value.to_string();
        let mut own = descriptor(&[("b", &value)]);
        own.limit = Some(DescriptorLimit { requests_per_unit: 1, unit: Unit::Day });
        let descriptors = [descriptor(&[("a", &value)]), own];
        for counts in &world.ask(&files, &descriptors, 0).counts {
            names.insert(known.name(&counts.key).name.to_owned());
        }
    }
    assert_eq!(names.len(), METRIC_KEYS_MAX + 2);
    assert!(names.contains("d.a_other") && names.contains("d.other") && names.contains("d.b_0"));
}

#[test]
fn hits_are_counted_as_within_near_and_over_a_limit() {
    let files = one(&format!("{{ key: a, {LIMIT} }}"));
    let world = World::new();
    // The near hits of a limit of ten are the ninth and the tenth.
    for (hits, within, near, over) in
        [(7, 7, 0, 0), (2, 2, 1, 0), (0, 0, 0, 0), (3, 0, 1, 2), (5, 0, 0, 5), (0, 0, 0, 0)]
    {
        let descriptors = [with_hits(&[("a", "")], hits)];
        let counts = &world.ask(&files, &descriptors, 0).counts[0];
        assert_eq!(
            (counts.total_hits, counts.within_limit, counts.near_limit, counts.over_limit),
            (hits, within, near, over),
            "{hits}"
        );
        assert_eq!((counts.shadow_mode, counts.total_negative_hits), (0, 0));
    }
}

#[test]
fn the_near_ratio_is_rounded_as_single_precision_rounds_it() {
    for (ratio, limit, near) in
        [("0.8", 10, 8), ("0.8", 3, 2), ("0.5", 7, 3), ("0", 5, 0), ("1", 5, 5), ("0.7", 10, 7)]
    {
        let text =
            domain(&[&format!("{{ key: a, rate_limit: {{ unit: minute, requests_per_unit: {limit} }} }}")]);
        let files = files_under(&format!("near_limit_ratio: {ratio}"), &[&text]);
        let descriptors = [with_hits(&[("a", "")], limit)];
        let answer = World::new().ask(&files, &descriptors, 0);
        assert_eq!(answer.counts[0].near_limit, limit - near, "{ratio} of {limit}");
    }
}

#[test]
fn what_is_refused_without_being_charged_is_counted_as_over() {
    let text = domain(&[&format!("{{ key: a, {LIMIT} }}")]);
    let files = files_under("semantics: tidegate", &[&text]);
    let (world, descriptors) = (World::new(), [with_hits(&[("a", "")], 7)]);
    world.ask(&files, &descriptors, 0);
    let counts = &world.ask(&files, &descriptors, 0).counts[0];
    assert_eq!((counts.total_hits, counts.over_limit, counts.near_limit, counts.within_limit), (7, 7, 0, 0));
}

#[test]
fn a_limit_that_single_precision_rounds_up_is_near_at_itself() {
    let text = domain(&["{ key: a, rate_limit: { unit: minute, requests_per_unit: 16777219 } }"]);
    let files = files_under("near_limit_ratio: '1'", &[&text]);
    let descriptors = [with_hits(&[("a", "")], 16_777_220)];
    let answer = World::new().ask(&files, &descriptors, 0);
    assert_eq!((answer.counts[0].over_limit, answer.counts[0].near_limit), (1, 0));
}

//! The counters that are charged, and the answers.

use tidegate_core::Timestamp;
use tidegate_policy::envoy::{Descriptor, DescriptorLimit, Files, RequestError, Unit};

use super::{MINUTE, World, descriptor, domain, files, files_under, with_hits};

fn per_minute(many: u32) -> Files {
    files(&domain(&[&format!("{{ key: a, rate_limit: {{ unit: minute, requests_per_unit: {many} }} }}")]))
}

#[test]
fn every_value_of_a_key_alone_and_of_a_pattern_has_its_own_counter() {
    let files = files(&domain(&[
        "{ key: a, rate_limit: { unit: minute, requests_per_unit: 5 } }",
        "{ key: b, value: 'x*', rate_limit: { unit: minute, requests_per_unit: 5 } }",
    ]));
    let world = World::new();
    for (key, value) in [("a", "1"), ("a", "2"), ("a", ""), ("b", "x1"), ("b", "x2")] {
        assert_eq!(world.hit(&files, &[&[(key, value)]]), "ok: ok 4 of 5/minute 37s", "{key} {value}");
    }
    assert_eq!(world.hit(&files, &[&[("a", "1")]]), "ok: ok 3 of 5/minute 37s");
}

#[test]
fn values_share_one_counter_where_the_file_says_so_at_any_depth() {
    let files = files(&domain(&[
        "{ key: b, value: 'x*', share_threshold: true, rate_limit: { unit: minute, requests_per_unit: 5 }, descriptors: [{ key: c, rate_limit: { unit: minute, requests_per_unit: 9 } }] }",
    ]));
    let world = World::new();
    assert_eq!(world.hit(&files, &[&[("b", "x1")]]), "ok: ok 4 of 5/minute 37s");
    assert_eq!(world.hit(&files, &[&[("b", "x2")]]), "ok: ok 3 of 5/minute 37s");
    assert_eq!(world.hit(&files, &[&[("b", "x1"), ("c", "1")]]), "ok: ok 8 of 9/minute 37s");
    assert_eq!(world.hit(&files, &[&[("b", "x2"), ("c", "1")]]), "ok: ok 7 of 9/minute 37s");
    assert_eq!(world.hit(&files, &[&[("b", "x2"), ("c", "2")]]), "ok: ok 8 of 9/minute 37s");
}

#[test]
fn counters_of_other_entries_with_the_same_letters_are_apart() {
    let files = files(&domain(&[
        "{ key: a, rate_limit: { unit: minute, requests_per_unit: 5 }, descriptors: [{ key: c, rate_limit: { unit: minute, requests_per_unit: 5 } }] }",
    ]));
    let world = World::new();
    for entries in [&[("a", "bc")][..], &[("a", "b"), ("c", "")], &[("a", ""), ("c", "b")]] {
        assert_eq!(world.hit(&files, &[entries]), "ok: ok 4 of 5/minute 37s", "{entries:?}");
    }
}

#[test]
fn another_number_keeps_what_was_used_and_another_unit_begins_anew() {
    let world = World::new();
    assert_eq!(world.hit(&per_minute(5), &[&[("a", "1")]]), "ok: ok 4 of 5/minute 37s");
    assert_eq!(world.hit(&per_minute(9), &[&[("a", "1")]]), "ok: ok 7 of 9/minute 37s");
    assert_eq!(world.hit(&per_minute(2), &[&[("a", "1")]]), "over: over 0 of 2/minute 37s");
    let per_hour = files(&domain(&["{ key: a, rate_limit: { name: n, unit: hour, requests_per_unit: 5 } }"]));
    assert_eq!(world.hit(&per_hour, &[&[("a", "1")]]), "ok: ok 4 of 5/hour n 2797s");
}

#[test]
fn a_name_is_no_part_of_a_counter() {
    let world = World::new();
    let named = files(&domain(&["{ key: a, rate_limit: { name: n, unit: minute, requests_per_unit: 5 } }"]));
    world.hit(&per_minute(5), &[&[("a", "1")]]);
    assert_eq!(world.hit(&named, &[&[("a", "1")]]), "ok: ok 3 of 5/minute n 37s");
}

#[test]
fn two_descriptors_with_one_counter_are_charged_twice() {
    assert_eq!(
        World::new().hit(&per_minute(3), &[&[("a", "1")], &[("a", "1")]]),
        "ok: ok 2 of 3/minute 37s; ok 1 of 3/minute 37s"
    );
}

#[test]
fn hits_are_the_descriptors_else_the_requests_and_at_least_one() {
    let (world, files) = (World::new(), per_minute(100));
    let plain = || [descriptor(&[("a", "1")])];
    assert_eq!(world.say(&files, &plain(), 0), "ok: ok 99 of 100/minute 37s");
    assert_eq!(world.say(&files, &plain(), 9), "ok: ok 90 of 100/minute 37s");
    assert_eq!(world.say(&files, &[with_hits(&[("a", "1")], 40)], 9), "ok: ok 50 of 100/minute 37s");
    assert_eq!(world.say(&files, &[with_hits(&[("a", "1")], 0)], 9), "ok: ok 50 of 100/minute 37s");
}

#[test]
fn refused_hits_are_counted_even_those_of_one_large_request() {
    let (world, small) = (World::new(), per_minute(5));
    assert_eq!(world.say(&small, &[with_hits(&[("a", "1")], 20)], 0), "over: over 0 of 5/minute 37s");
    // All twenty were counted, as a higher limit shows.
    assert_eq!(world.say(&per_minute(100), &[with_hits(&[("a", "1")], 0)], 0), "ok: ok 80 of 100/minute 37s");
}

#[test]
fn every_descriptor_is_charged_when_another_is_over() {
    let files = files(&domain(&[
        "{ key: a, rate_limit: { unit: minute, requests_per_unit: 0 } }",
        "{ key: b, rate_limit: { unit: minute, requests_per_unit: 5 } }",
    ]));
    let world = World::new();
    for left in [4, 3, 2] {
        assert_eq!(
            world.hit(&files, &[&[("a", "")], &[("b", "")]]),
            format!("over: over 0 of 0/minute 37s; ok {left} of 5/minute 37s")
        );
    }
}

#[test]
fn nothing_is_charged_over_a_limit_when_increments_stop_there() {
    let text = domain(&[
        "{ key: a, rate_limit: { unit: minute, requests_per_unit: 1 } }",
        "{ key: b, rate_limit: { unit: minute, requests_per_unit: 5 } }",
    ]);
    let files = files_under("stop_increment_when_over_limit: true", &[&text]);
    let world = World::new();
    let both: &[&[(&str, &str)]] = &[&[("a", "")], &[("b", "")]];
    assert_eq!(world.hit(&files, both), "ok: ok 0 of 1/minute 37s; ok 4 of 5/minute 37s");
    for _ in 0..3 {
        assert_eq!(world.hit(&files, both), "over: over 0 of 1/minute 37s; ok 4 of 5/minute 37s");
    }
}

#[test]
fn a_look_at_a_limit_that_is_just_used_up_is_ok_and_above_it_is_over() {
    let (world, files) = (World::new(), per_minute(5));
    let look = [with_hits(&[("a", "1")], 0)];
    assert_eq!(world.say(&files, &look, 0), "ok: ok 5 of 5/minute 37s");
    world.say(&files, &[with_hits(&[("a", "1")], 5)], 0);
    assert_eq!(world.say(&files, &look, 0), "ok: ok 0 of 5/minute 37s");
    world.hit(&files, &[&[("a", "1")]]);
    assert_eq!(world.say(&files, &look, 0), "over: over 0 of 5/minute 37s");
    assert_eq!(World::new().say(&per_minute(0), &look, 0), "ok: ok 0 of 0/minute 37s");
}

#[test]
fn windows_begin_at_multiples_of_the_unit_and_the_reset_is_told_in_whole_seconds() {
    let all: Vec<String> = Unit::ALL
        .map(|unit| format!("{{ key: {0}, rate_limit: {{ unit: {0}, requests_per_unit: 1 }} }}", unit.name()))
        .into();
    let files = files(&domain(&all.iter().map(String::as_str).collect::<Vec<_>>()));
    let mut world = World::new();
    for unit in Unit::ALL {
        let length = unit.length().as_secs();
        let start = MINUTE / length * length + length;
        for (nanos_after, until_reset) in [(0, length), (999_999_999, length), (1_000_000_000, length - 1)] {
            world.now = Timestamp::from_nanos(start * 1_000_000_000 + nanos_after);
            let until_reset = if until_reset == 0 { length } else { until_reset };
            let said = world.hit(&files, &[&[(unit.name(), &start.to_string())]]);
            assert!(
                said.ends_with(&format!("/{} {until_reset}s", unit.name())),
                "{unit:?} {nanos_after}: {said}"
            );
        }
        // The last instant of a window, and the first of the next.
        let end = start + length;
        world.now = Timestamp::from_nanos(end * 1_000_000_000 - 1);
        assert!(world.hit(&files, &[&[(unit.name(), "x")]]).contains(" 0 of 1/"));
        assert!(world.hit(&files, &[&[(unit.name(), "x")]]).starts_with("over: over 0 of 1/"));
        assert!(world.hit(&files, &[&[(unit.name(), "x")]]).ends_with(" 1s"));
        world.now = Timestamp::from_secs(end);
        assert!(world.hit(&files, &[&[(unit.name(), "x")]]).starts_with("ok: ok 0 of 1/"));
    }
}

#[test]
fn what_has_no_limit_and_what_is_unlimited_are_told_apart_and_not_charged() {
    let files = files(&domain(&["{ key: a, rate_limit: { unlimited: true } }", "{ key: b }"]));
    let descriptors = [descriptor(&[("a", "1")]), descriptor(&[("b", "1")]), descriptor(&[("c", "1")])];
    assert!(files.resolve("d", &descriptors, 0).unwrap().ask().is_none());
    assert_eq!(World::new().say(&files, &descriptors, 0), "ok: ok 4294967295; ok; ok");
}

#[test]
fn a_rule_in_shadow_mode_is_ok_with_its_limit_and_nothing_left() {
    let files = files(&domain(&[
        "{ key: a, shadow_mode: true, rate_limit: { unit: minute, requests_per_unit: 1 } }",
    ]));
    let world = World::new();
    assert_eq!(world.hit(&files, &[&[("a", "")]]), "ok: ok 0 of 1/minute 37s");
    let descriptors = [descriptor(&[("a", "")])];
    let answer = world.ask(&files, &descriptors, 0);
    assert_eq!(super::said(&answer), "ok: ok 0 of 1/minute 37s");
    assert_eq!((answer.counts[0].over_limit, answer.counts[0].shadow_mode), (1, 1));
}

#[test]
fn global_shadow_mode_lets_everything_through_and_leaves_the_statuses() {
    let text = domain(&["{ key: a, rate_limit: { unit: minute, requests_per_unit: 0 } }"]);
    for semantics in ["strict", "tidegate"] {
        let files = files_under(&format!("shadow: true, semantics: {semantics}"), &[&text]);
        let descriptors = [descriptor(&[("a", "")])];
        let answer = World::new().ask(&files, &descriptors, 0);
        assert_eq!(super::said(&answer), "ok: over 0 of 0/minute 37s");
        assert!(answer.is_shadowed);
    }
}

#[test]
fn a_request_is_over_when_all_of_quota_mode_are_or_any_other_is() {
    let limit = |key: &str, is_quota: bool, many: u32| {
        format!(
            "{{ key: {key}, quota_mode: {is_quota}, rate_limit: {{ unit: minute, requests_per_unit: {many} }} }}"
        )
    };
    let all =
        [limit("q_over", true, 0), limit("q_ok", true, 9), limit("over", false, 0), limit("ok", false, 9)];
    let text = domain(&all.iter().map(String::as_str).collect::<Vec<_>>());
    for semantics in ["strict", "tidegate"] {
        let files = files_under(&format!("semantics: {semantics}"), &[&text]);
        for (keys, overall) in [
            (&["q_over"][..], "over"),
            (&["q_over", "q_ok"], "ok"),
            (&["q_over", "q_over"], "over"),
            (&["q_over", "ok"], "over"),
            (&["q_ok", "over"], "over"),
            (&["q_ok", "ok"], "ok"),
            (&["q_over", "q_ok", "ok"], "ok"),
            (&["q_over", "none"], "over"),
        ] {
            let descriptors: Vec<_> = keys.iter().map(|key| descriptor(&[(*key, "")])).collect();
            let said = World::new().say(&files, &descriptors, 0);
            let statuses: Vec<&str> = keys
                .iter()
                .map(|key| match *key {
                    "none" => "ok",
                    key if key.ends_with("over") => "over 0 of 0/minute 37s",
                    _ => "ok 8 of 9/minute 37s",
                })
                .collect();
            assert_eq!(said.split_once(": ").unwrap().0, overall, "{semantics} {keys:?}: {said}");
            if semantics == "strict" {
                assert_eq!(said, format!("{overall}: {}", statuses.join("; ")), "{keys:?}");
            }
        }
    }
}

#[test]
fn under_global_quota_mode_a_descriptor_without_a_limit_has_passed() {
    let text = domain(&["{ key: a, rate_limit: { unit: minute, requests_per_unit: 0 } }"]);
    let files = files_under("quota_mode: true", &[&text]);
    let world = World::new();
    assert_eq!(world.hit(&files, &[&[("a", "")]]), "over: over 0 of 0/minute 37s");
    assert_eq!(world.hit(&files, &[&[("a", "")], &[("b", "")]]), "ok: over 0 of 0/minute 37s; ok");
    let mut own = descriptor(&[("c", "")]);
    own.limit = Some(DescriptorLimit { requests_per_unit: 5, unit: Unit::Minute });
    assert_eq!(
        world.say(&files, &[descriptor(&[("a", "")]), own], 0),
        "ok: over 0 of 0/minute 37s; ok 4 of 5/minute 37s"
    );
}

#[test]
fn a_limit_whose_name_is_replaced_is_neither_told_nor_charged() {
    let files = files(&domain(&[
        "{ key: a, rate_limit: { name: base, unit: minute, requests_per_unit: 5 } }",
        "{ key: b, shadow_mode: true, rate_limit: { unit: minute, requests_per_unit: 5, replaces: [{ name: base }] } }",
        "{ key: c, rate_limit: { unlimited: true, replaces: [{ name: base }] } }",
        "{ key: e, rate_limit: { unit: minute, requests_per_unit: 5 } }",
    ]));
    let world = World::new();
    assert_eq!(world.hit(&files, &[&[("a", "")], &[("b", "")]]), "ok: ok; ok 4 of 5/minute 37s");
    assert_eq!(world.hit(&files, &[&[("c", "")], &[("a", "")]]), "ok: ok 4294967295; ok");
    assert_eq!(
        world.hit(&files, &[&[("a", "")], &[("e", "")]]),
        "ok: ok 4 of 5/minute base 37s; ok 4 of 5/minute 37s"
    );
}

#[test]
fn a_limit_cannot_take_its_own_place() {
    let text = domain(&[
        "{ key: a, rate_limit: { name: n, unit: day, requests_per_unit: 1, replaces: [{ name: n }] } }",
    ]);
    assert!(super::problems(&text)[0].contains("limit \"n\" takes its own place; name another limit"));
}

#[test]
fn a_limit_in_the_request_shares_the_counter_of_the_files_with_the_same_unit_and_nothing_else() {
    let files = files(&domain(&[
        "{ key: a, shadow_mode: true, rate_limit: { name: n, unit: minute, requests_per_unit: 5 } }",
    ]));
    let world = World::new();
    let own = |many, unit: Unit| -> [Descriptor<'static>; 1] {
        let mut own = descriptor(&[("a", "1")]);
        own.limit = Some(DescriptorLimit { requests_per_unit: many, unit });
        [own]
    };
    assert_eq!(world.hit(&files, &[&[("a", "1")]]), "ok: ok 4 of 5/minute n 37s");
    assert_eq!(world.say(&files, &own(9, Unit::Minute), 0), "ok: ok 7 of 9/minute 37s");
    assert_eq!(world.say(&files, &own(9, Unit::Hour), 0), "ok: ok 8 of 9/hour 2797s");
    // Neither the shadow mode nor the name of the file's limit.
    assert_eq!(world.say(&files, &own(1, Unit::Minute), 0), "over: over 0 of 1/minute 37s");
}

#[test]
fn a_limit_in_the_request_with_an_unknown_unit_is_an_error_and_no_panic() {
    for number in [0, 8, -1, i32::MAX] {
        assert_eq!(DescriptorLimit::new(1, number), Err(RequestError::Unit(number)));
    }
    for unit in Unit::ALL {
        assert_eq!(DescriptorLimit::new(1, unit.number()).unwrap().unit, unit);
    }
    assert!(RequestError::Unit(0).to_string().contains("unknown unit 0; use 1 (second) to 6 (year)"));
}

#[test]
fn the_largest_numbers_are_counted_without_overflow() {
    let files = files(&domain(&[
        "{ key: s, rate_limit: { unit: second, requests_per_unit: 4294967295 } }",
        "{ key: y, rate_limit: { unit: year, requests_per_unit: 4294967295 } }",
    ]));
    let world = World::new();
    assert!(world.hit(&files, &[&[("s", "")]]).starts_with("ok: ok 4294967294 of 4294967295/second"));
    for key in ["s", "y"] {
        for _ in 0..3 {
            let said = world.say(&files, &[with_hits(&[(key, "")], u64::MAX)], u32::MAX);
            assert!(said.starts_with("over: over 0 of 4294967295/"), "{said}");
        }
    }
}

#[test]
fn hits_are_given_back_down_to_none_used_and_never_refused() {
    let (world, files) = (World::new(), per_minute(3));
    let back = |hits| {
        let mut back = with_hits(&[("a", "1")], hits);
        back.gives_back = true;
        [back]
    };
    world.say(&files, &[with_hits(&[("a", "1")], 5)], 0);
    assert_eq!(world.say(&files, &back(1), 0), "ok: ok 0 of 3/minute 37s");
    assert_eq!(world.say(&files, &back(2), 0), "ok: ok 1 of 3/minute 37s");
    let descriptors = back(100);
    let answer = world.ask(&files, &descriptors, 0);
    assert_eq!(super::said(&answer), "ok: ok 3 of 3/minute 37s");
    assert_eq!((answer.counts[0].total_negative_hits, answer.counts[0].total_hits), (100, 0));
    assert_eq!(world.hit(&files, &[&[("a", "1")]]), "ok: ok 2 of 3/minute 37s");
}

#[test]
fn giving_back_to_a_limit_that_is_over_keeps_no_other_from_being_charged() {
    let text = |many: u32| {
        domain(&[
            &format!("{{ key: a, rate_limit: {{ unit: minute, requests_per_unit: {many} }} }}"),
            "{ key: b, rate_limit: { unit: minute, requests_per_unit: 5 } }",
        ])
    };
    for settings in ["semantics: strict", "stop_increment_when_over_limit: true", "semantics: tidegate"] {
        let world = World::new();
        world.say(&files_under(settings, &[&text(9)]), &[with_hits(&[("a", "")], 9)], 0);
        let lowered = files_under(settings, &[&text(2)]);
        let mut back = with_hits(&[("a", "")], 1);
        back.gives_back = true;
        for left in [4, 3] {
            assert_eq!(
                world.say(&lowered, &[back.clone(), descriptor(&[("b", "")])], 0),
                format!("ok: ok 0 of 2/minute 37s; ok {left} of 5/minute 37s"),
                "{settings}"
            );
        }
    }
}

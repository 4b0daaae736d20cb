//! Which limit a descriptor has.

use tidegate_policy::envoy::{Descriptor, DescriptorLimit, Files, RequestError, Unit};

use super::{NOW, World, descriptor, domain, files, problems, said};

/// Descriptors that tell which of them was matched by their number.
fn numbered(keys: &[&str]) -> Files {
    let limit = |(index, key): (usize, &&str)| {
        format!("{{ {key}, rate_limit: {{ unit: minute, requests_per_unit: {} }} }}", index + 1)
    };
    let all: Vec<String> = keys.iter().enumerate().map(limit).collect();
    files(&domain(&all.iter().map(String::as_str).collect::<Vec<_>>()))
}

/// The number of the descriptor that was matched; 0 for none.
fn matched(files: &Files, entries: &[(&str, &str)]) -> u32 {
    let descriptors = [descriptor(entries)];
    let answer = World::new().ask(files, &descriptors, 0);
    answer.statuses[0].current_limit.as_ref().map_or(0, |limit| limit.requests_per_unit)
}

#[test]
fn an_unknown_domain_has_no_limit_and_is_told_apart_for_the_metrics() {
    let files = numbered(&["key: a"]);
    let descriptors = [Descriptor::new([("a", "x")])];
    let resolved = files.resolve("other", &descriptors, 0).unwrap();
    assert!(resolved.ask().is_none());
    let answer = resolved.answer(NOW);
    assert_eq!((said(&answer).as_str(), answer.is_domain_known), ("ok: ok", false));
    assert!(files.resolve("d", &descriptors, 0).unwrap().answer(NOW).is_domain_known);
}

#[test]
fn attributes_that_lead_nowhere_in_thousands_of_ways_are_refused() {
    let any = |below: &str| format!("{{ key: '*', descriptors: [{below}] }}");
    let one = "{ key: path, rate_limit: { unit: minute, requests_per_unit: 1 } }";
    let names: Vec<String> = (0..64).map(|index| format!("a{index}")).collect();
    let attributes: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "v")).collect();
    let descriptors = |levels: usize, attributes: &[(&str, &str)]| {
        let tree = (0..levels).fold(one.to_owned(), |below, _| any(&below));
        files(&domain(&[&tree])).descriptors("d", attributes).map(|found| found.len())
    };
    assert_eq!(descriptors(2, &attributes), Ok(0), "64 times 64");
    // A million million ways: the answer does not wait for them.
    assert_eq!(descriptors(7, &attributes), Err(RequestError::TooManyDescriptors));
    assert_eq!(descriptors(2, &[("b", "v"), ("path", "v")]), Ok(4));
}

#[test]
fn a_request_without_domain_or_descriptors_is_its_senders_mistake() {
    let files = numbered(&["key: a"]);
    let descriptors = [Descriptor::new([("a", "x")])];
    assert_eq!(files.resolve("", &descriptors, 0).unwrap_err(), RequestError::NoDomain);
    assert_eq!(files.resolve("d", &[], 0).unwrap_err(), RequestError::NoDescriptors);
    // A descriptor without entries matches nothing.
    assert_eq!(World::new().hit(&files, &[&[]]), "ok: ok");
}

#[test]
fn the_very_value_goes_before_patterns_and_patterns_before_the_key_alone() {
    let files = numbered(&["key: a", "key: a, value: 'foo*'", "key: a, value: foobar"]);
    for (value, number) in [("foobar", 3), ("foox", 2), ("foo", 2), ("bar", 1), ("", 1)] {
        assert_eq!(matched(&files, &[("a", value)]), number, "{value}");
    }
    assert_eq!(matched(&files, &[("b", "foobar")]), 0);
}

#[test]
fn of_several_patterns_the_first_in_the_file_counts() {
    let files = numbered(&["key: a, value: '*bar'", "key: a, value: 'foo*'", "key: a, value: 'foo*bar'"]);
    for (value, number) in [("foobar", 1), ("foobaz", 2), ("foo*bar", 3)] {
        assert_eq!(matched(&files, &[("a", value)]), number, "{value}");
    }
}

#[test]
fn a_star_stands_for_any_characters_in_any_place_and_for_none() {
    let files =
        numbered(&["key: a, value: '/api/*/users/*'", "key: a, value: 'x*y*z'", "key: b, value: '*'"]);
    for (key, value, number) in [
        ("a", "/api/v1/users/", 1),
        ("a", "/api//users/7", 1),
        ("a", "/api/users/7", 0),
        ("a", "xyz", 2),
        ("a", "x--y--z", 2),
        ("a", "x--y--z-", 0),
        ("b", "anything", 3),
        ("b", "", 3),
    ] {
        assert_eq!(matched(&files, &[(key, value)]), number, "{key} {value}");
    }
}

#[test]
fn patterns_hold_below_other_descriptors_too() {
    let files = files(&domain(&[
        "{ key: a, value: 'x*', descriptors: [{ key: b, value: 'y*', rate_limit: { unit: minute, requests_per_unit: 5 } }] }",
    ]));
    assert_eq!(matched(&files, &[("a", "x1"), ("b", "y1")]), 5);
    assert_eq!(matched(&files, &[("a", "x1"), ("b", "z1")]), 0);
}

#[test]
fn a_limit_counts_only_for_the_last_entry_and_nothing_is_inherited() {
    let files = files(&domain(&[
        "{ key: a, rate_limit: { unit: minute, requests_per_unit: 1 }, descriptors: [{ key: b, descriptors: [{ key: c, rate_limit: { unit: minute, requests_per_unit: 3 } }] }] }",
    ]));
    for (entries, number) in [
        (&[("a", "x")][..], 1),
        (&[("a", "x"), ("b", "x")], 0),
        (&[("a", "x"), ("b", "x"), ("c", "x")], 3),
        (&[("a", "x"), ("b", "x"), ("c", "x"), ("d", "x")], 0),
        (&[("b", "x"), ("c", "x")], 0),
        (&[("b", "x"), ("a", "x")], 0),
    ] {
        assert_eq!(matched(&files, entries), number, "{entries:?}");
    }
}

#[test]
fn a_descriptor_without_a_limit_lets_pass_what_the_key_alone_would_hold_back() {
    let files = files(&domain(&[
        "{ key: ip, rate_limit: { unit: minute, requests_per_unit: 1 } }",
        "{ key: ip, value: 10.0.0.1 }",
        "{ key: ip, value: '10.1.*' }",
    ]));
    for (value, number) in [("10.0.0.2", 1), ("10.0.0.1", 0), ("10.1.2.3", 0)] {
        assert_eq!(matched(&files, &[("ip", value)]), number, "{value}");
    }
}

#[test]
fn key_and_value_are_not_joined_so_that_no_other_pair_is_taken_for_them() {
    let files = numbered(&["key: a, value: b_c", "key: a_b, value: d", "key: x_"]);
    assert_eq!(matched(&files, &[("a", "b_c")]), 1);
    // The peer takes this for the first.
    assert_eq!(matched(&files, &[("a_b", "c")]), 0);
    assert_eq!(matched(&files, &[("a", "b_d")]), 0);
    // The peer takes an empty value for an underscore at the end of the key.
    assert_eq!(matched(&files, &[("x", "")]), 0);
    assert_eq!(matched(&files, &[("x_", "")]), 3);
    // Two descriptors that are a duplicate in the peer.
    numbered(&["key: a, value: b_c", "key: a_b, value: c"]);
}

#[test]
fn a_star_in_a_key_stands_for_characters_of_the_key() {
    let files = numbered(&["key: 'foo*'", "key: 'bar*', value: x"]);
    for (key, value, number) in
        [("foo", "z", 1), ("foobar", "z", 1), ("fo", "z", 0), ("bar1", "x", 2), ("bar1", "y", 0)]
    {
        assert_eq!(matched(&files, &[(key, value)]), number, "{key} {value}");
    }
}

#[test]
fn shared_counters_are_for_patterns_only() {
    for (value, is_right) in [("'foo*'", true), ("'*'", true), ("foo", false), ("''", false)] {
        let text = domain(&[&format!("{{ key: a, value: {value}, share_threshold: true }}")]);
        if is_right {
            files(&text);
        } else {
            assert!(problems(&text)[0].contains("share_threshold is for values with a `*`"), "{value}");
        }
    }
}

#[test]
fn a_limit_in_the_request_takes_the_place_of_the_files_in_a_domain_that_is_known() {
    let files = numbered(&["key: a"]);
    let limit = DescriptorLimit::new(7, Unit::Hour.number()).unwrap();
    let mut own = descriptor(&[("a", "x")]);
    own.limit = Some(limit);
    let mut unmatched = descriptor(&[("z", "x")]);
    unmatched.limit = Some(limit);
    let descriptors = [own, unmatched];
    let world = World::new();
    assert_eq!(world.say(&files, &descriptors, 0), "ok: ok 6 of 7/hour 2797s; ok 6 of 7/hour 2797s");
    assert!(files.resolve("other", &descriptors, 0).unwrap().ask().is_none());
}

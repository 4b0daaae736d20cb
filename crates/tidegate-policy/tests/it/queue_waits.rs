//! How long each class waits in a queue: one span for every class, spans by class, and classes that
//! are left out.

use std::time::Duration;

use tidegate_core::Class;
use tidegate_policy::{Policy, compare};

use crate::{problems, settings, warnings};

/// A policy with one resource whose queue has these settings.
pub(super) fn with_queue(queue: &str) -> String {
    format!(
        "resources: {{ a: {{ concurrency: 1, queue: {{ {queue} }} }} }}\n\
         namespaces: {{ api: {{ limits: [{{ name: all, rate: 1/s }}] }} }}\n"
    )
}

fn waits(queue: &str) -> [u64; 4] {
    waits_of(&settings(&with_queue(queue)))
}

/// In milliseconds, from the least important class.
fn waits_of(policy: &Policy) -> [u64; 4] {
    Class::ALL.map(|class| policy.resources[0].wait(class).as_millis() as u64)
}

/// The texts for a class, each with its wait in milliseconds.
const WRITTEN: [(Option<&str>, u64); 4] =
    [(None, 0), (Some("off"), 0), (Some("100ms"), 100), (Some("200ms"), 200)];

/// The settings `wait` that list the classes in every way, each with what is written for the
/// classes from the least important one.
pub(super) fn every_way() -> impl Iterator<Item = (String, [(Option<&'static str>, u64); 4])> {
    (0..WRITTEN.len().pow(4)).map(|number| {
        let written = [0, 1, 2, 3].map(|place| WRITTEN[number / WRITTEN.len().pow(place) % WRITTEN.len()]);
        let listed = Class::ALL.into_iter().zip(written);
        let entries: Vec<String> =
            listed.filter_map(|(class, (text, _))| Some(format!("{class}: {}", text?))).collect();
        (format!("wait: {{ {} }}", entries.join(", ")), written)
    })
}

#[test]
fn issue_39_a_class_left_out_waits_as_long_as_the_longest_wait_of_a_lower_class() {
    for (queue, expected) in [
        // The policy of docs/overload.md as it was: `critical_plus` did not wait.
        ("wait: { critical: 250ms, sheddable_plus: 250ms, sheddable: 250ms }", [250; 4]),
        ("wait: { sheddable: 2s }", [2000; 4]),
        ("wait: { critical: 2s, sheddable_plus: 500ms }", [0, 500, 2000, 2000]),
        ("wait: { sheddable: 2s, sheddable_plus: 500ms }", [2000, 500, 2000, 2000]),
        // Without a lower class that waits, a class that is left out does not wait.
        ("wait: { critical_plus: 1s }", [0, 0, 0, 1000]),
        ("wait: { critical: 1s }", [0, 0, 1000, 1000]),
        ("wait: { sheddable: off }", [0; 4]),
        ("wait: { sheddable: 1s, critical_plus: off }", [1000, 1000, 1000, 0]),
        ("wait: {}", [0; 4]),
        ("requests: 9", [0; 4]),
    ] {
        assert_eq!(waits(queue), expected, "{queue}");
    }
}

#[test]
fn however_classes_are_listed_one_that_is_left_out_waits_no_less_than_a_lower_one() {
    for (queue, written) in every_way() {
        let waits = waits(&queue);
        for (at, (text, own)) in written.into_iter().enumerate() {
            let longest = written[..at].iter().map(|(_, lower)| *lower).max().unwrap_or(0);
            assert_eq!(waits[at], if text.is_some() { own } else { longest }, "{queue}");
        }
    }
}

#[test]
fn one_span_is_the_wait_of_every_class() {
    assert_eq!(waits("wait: 250ms"), [250; 4]);
    assert_eq!(waits("wait: \"1h\""), [3_600_000; 4]);
    assert_eq!(waits("wait: off"), [0; 4]);
    let same = "wait: { critical_plus: 1s, critical: 1s, sheddable_plus: 1s, sheddable: 1s }";
    assert_eq!(waits("wait: 1s"), waits(same));
    let text = with_queue("wait: \"${WAIT:-1s}\"");
    assert_eq!(settings(&text).resources[0].wait(Class::Critical), Duration::from_secs(1));
}

#[test]
fn a_wait_that_is_none_says_where_and_what_to_write() {
    let told = |queue: &str| {
        let lines = problems(&with_queue(queue));
        assert_eq!(lines.len(), 1, "{lines:?}");
        lines[0].split_once("queue.").unwrap().1.to_owned()
    };
    for (queue, expected) in [
        (
            "wait: 2h",
            "wait: a wait of 2h is out of range; use 1ms to 1h, or `off` for a class that does not wait",
        ),
        (
            "wait: 0s",
            "wait: a wait of 0s is out of range; use 1ms to 1h, or `off` for a class that does not wait",
        ),
        ("wait: 250", "wait: wait \"250\" is not a span of time; add a unit, for example 250ms or 250s"),
        (
            "wait: [1s]",
            "wait: expected text or a mapping, found a list; write `key: value` without dashes and square brackets",
        ),
        (
            "wait: { sheddable: none }",
            "wait.sheddable: wait \"none\" is not a span of time; write a whole number with ns, us, ms, s, m, h, d or w, for example 10m, 1h30m or 7d",
        ),
        (
            "wait: { sheddables: 1s }",
            "wait.sheddables: unknown key \"sheddables\"; did you mean `sheddable`?",
        ),
    ] {
        assert_eq!(told(queue), expected, "{queue}");
    }
}

#[test]
fn a_comparison_shows_the_wait_of_each_class_as_a_policy_would_write_it() {
    let shown = |old: &str, new: &str| -> Vec<(String, String, String)> {
        let comparison = compare(&settings(&with_queue(old)), &settings(&with_queue(new)));
        comparison.settings.into_iter().map(|change| (change.path, change.old, change.new)).collect()
    };
    let change = |class: &str, old: &str, new: &str| {
        (format!("resources.a.queue.wait.{class}"), old.to_owned(), new.to_owned())
    };
    assert_eq!(
        shown("wait: { critical: 2s, sheddable: 1s }", "wait: { critical: 250ms, sheddable: 1s }"),
        [change("critical_plus", "2s", "1s"), change("critical", "2s", "250ms")]
    );
    // The same waits, written in another way.
    assert_eq!(shown("wait: { sheddable: 250ms }", "wait: 250ms"), []);
    // The comparison shows waits in a form that is read as the same waits.
    for (queue, _) in every_way() {
        let changed = shown("wait: 3s", &queue);
        let wait_of = |class: &Class| {
            let path = format!("resources.a.queue.wait.{class}");
            let found = changed.iter().find(|(changed, ..)| *changed == path);
            format!("{class}: {}", found.map_or("3s", |(_, _, new)| new.as_str()))
        };
        let again: Vec<String> = Class::ALL.iter().map(wait_of).collect();
        let again = format!("wait: {{ {} }}", again.join(", "));
        assert_eq!(waits(&again), waits(&queue), "{again}");
    }
}

#[test]
fn only_a_written_wait_is_told_to_be_less_than_that_of_a_lower_class() {
    for (queue, written) in every_way() {
        let less = warnings(&with_queue(&queue));
        let less: Vec<&String> = less.iter().filter(|line| line.contains("lower class")).collect();
        let expected: Vec<Class> = Class::ALL
            .into_iter()
            .filter(|class| {
                let (text, own) = written[*class as usize];
                let lower = written[..*class as usize].iter().map(|(_, lower)| *lower).max().unwrap_or(0);
                text.is_some() && own < lower
            })
            .collect();
        assert_eq!(less.len(), expected.len(), "{queue}: {less:?}");
        for (line, class) in less.into_iter().zip(expected) {
            assert!(line.contains(&format!(": resources.a.queue.wait.{class}: class {class} ")), "{line}");
        }
    }
}

#[test]
fn issue_39_the_wait_of_a_queue_bounds_that_of_a_route_and_off_wins_over_it() {
    let waits = |queue: &str, own: u64| {
        let policy = settings(&with_queue(queue));
        let own = Duration::from_millis(own);
        Class::ALL.map(|class| policy.resources[0].wait_at_route(own, class).as_millis() as u64)
    };
    let off = "wait: { critical_plus: off, sheddable: 250ms }";
    assert_eq!(waits(off, 2000), [250, 250, 250, 0]);
    assert_eq!(waits(off, 100), [100, 100, 100, 0]);
    assert_eq!(waits(off, 0), [250, 250, 250, 0]);
    assert_eq!(waits("wait: off", 2000), [0; 4]);
    // Such a queue says nothing about waits: the route's own counts.
    assert_eq!(waits("requests: 9", 2000), [2000; 4]);
    assert_eq!(waits("requests: 9", 0), [0; 4]);
}

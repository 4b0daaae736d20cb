//! The shares of the namespaces at a resource.

use tidegate_policy::compare;

use crate::{problems, settings, warnings};

/// A policy with the namespaces `checkout` and `batch`, and a resource with these shares.
fn with_shares(shares: &str) -> String {
    with_resource(&format!("queue: {{ wait: 250ms }}, {shares}"))
}

fn with_resource(settings: &str) -> String {
    let limits = "{ limits: [{ name: all, rate: 1/s }] }";
    format!(
        "resources: {{ a: {{ concurrency: 1, {settings} }} }}\n\
         namespaces: {{ checkout: {limits}, batch: {limits} }}\n"
    )
}

fn shares(text: &str) -> Vec<(String, u32)> {
    settings(&with_shares(text)).resources[0].shares.clone().into_iter().collect()
}

#[test]
fn issue_39_namespaces_have_the_shares_that_are_written_and_no_others() {
    assert_eq!(shares(""), []);
    assert_eq!(shares("shares: {}"), []);
    assert_eq!(shares("shares: { checkout: 10000 }"), [("checkout".to_owned(), 10_000)]);
    let both = [("batch".to_owned(), 1), ("checkout".to_owned(), 3)];
    assert_eq!(shares("shares: { checkout: 3, batch: 1 }"), both);
    assert_eq!(warnings(&with_shares("shares: { checkout: 3, batch: 1 }")), [""; 0]);
}

#[test]
fn a_share_that_is_none_says_where_and_what_to_write() {
    let told = |shares: &str| {
        let lines = problems(&with_shares(shares));
        assert_eq!(lines.len(), 1, "{lines:?}");
        lines[0].split_once("resources.a.").unwrap().1.to_owned()
    };
    for (shares, expected) in [
        ("shares: { batch: 0 }", "shares.batch: 0 is out of range; use a whole number from 1 to 10000"),
        (
            "shares: { batch: 10001 }",
            "shares.batch: 10001 is out of range; use a whole number from 1 to 10000",
        ),
        (
            "shares: { batch: 0.5 }",
            "shares.batch: expected a whole number, found \"0.5\"; use a whole number from 1 to 10000",
        ),
        (
            "shares: [batch]",
            "shares: expected a mapping, found a list; write `key: value` without dashes and square brackets",
        ),
        (
            "shares: { chekout: 3 }",
            "shares.chekout: namespace \"chekout\" is not under `namespaces:`; did you mean checkout?",
        ),
        (
            "shares: { elsewhere: 3 }",
            "shares.elsewhere: namespace \"elsewhere\" is not under `namespaces:`; add it there, or name one that is; all domains of `envoy_ratelimit` files that are not there have one share of 1 together",
        ),
    ] {
        assert_eq!(told(shares), expected, "{shares}");
    }
}

#[test]
fn at_most_as_many_namespaces_as_a_resource_tells_apart_have_a_share() {
    let text = |count: u32| {
        let join = |entry: &dyn Fn(u32) -> String| (0..count).map(entry).collect::<Vec<_>>().join(", ");
        let namespaces = join(&|number| format!("n{number}: {{ limits: [{{ name: all, rate: 1/s }}] }}"));
        let shares = join(&|number| format!("n{number}: {}", number + 1));
        format!(
            "resources: {{ a: {{ concurrency: 1, queue: {{ wait: 1s }}, shares: {{ {shares} }} }} }}\n\
             namespaces: {{ {namespaces} }}\n"
        )
    };
    assert_eq!(settings(&text(64)).resources[0].shares.len(), 64);
    let lines = problems(&text(65));
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(lines[0].ends_with("resources.a.shares: shares of 65 namespaces; use at most 64"), "{lines:?}");
}

#[test]
fn shares_of_a_resource_without_a_queue_are_warned_about() {
    let expected = "t.yaml:1:43: resources.a.shares: the shares of resource \"a\" change nothing, because it has no queue; add `queue: { wait: 500ms }` to the resource, or remove `shares`";
    assert_eq!(warnings(&with_resource("shares: { batch: 3 }")), [expected]);
    assert_eq!(warnings(&with_resource("shares: {}")), [""; 0]);
}

#[test]
fn a_comparison_shows_shares_as_a_policy_would_write_them() {
    let shown = |old: &str, new: &str| -> Vec<String> {
        let comparison = compare(&settings(&with_shares(old)), &settings(&with_shares(new)));
        let changed = comparison.settings.iter();
        changed.map(|one| format!("{}: {} -> {} {}", one.path, one.old, one.new, one.needs_restart)).collect()
    };
    assert_eq!(
        shown("shares: { checkout: 2 }", "shares: { checkout: 3, batch: 2 }"),
        ["resources.a.shares.batch: none -> 2 false", "resources.a.shares.checkout: 2 -> 3 false"]
    );
    assert_eq!(shown("", "shares: {}"), [""; 0]);
    assert_eq!(shown("shares: { checkout: 3, batch: 1 }", "shares: { batch: 1, checkout: 3 }"), [""; 0]);
}

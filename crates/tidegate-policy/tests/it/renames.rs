//! Which renames a file may ask for.

use crate::{assert_files, settings, with_limit};

/// A file with limits of these names, each with the name it had.
fn renames(limits: &[(&str, Option<&str>)]) -> String {
    let one = |(name, was): &(&str, Option<&str>)| match was {
        Some(was) => format!("{{ name: {name}, was: {was}, rate: 1/s }}"),
        None => format!("{{ name: {name}, rate: 1/s }}"),
    };
    with_limit(&limits.iter().map(one).collect::<Vec<_>>().join(", "))
}

#[test]
fn a_name_may_be_taken_over_when_its_limit_was_renamed_too() {
    for limits in [
        &[("b", Some("a"))][..],
        &[("a", Some("b")), ("b", Some("a"))],
        &[("a", Some("b")), ("b", Some("c")), ("c", Some("a"))],
        &[("c", Some("b")), ("b", Some("a"))],
    ] {
        let policy = settings(&renames(limits));
        let read: Vec<(&str, Option<&str>)> = policy.namespaces[0]
            .limits
            .iter()
            .map(|limit| (limit.name.as_str(), limit.was.as_deref()))
            .collect();
        assert_eq!(read, limits);
    }
}

#[test]
fn no_two_limits_go_on_with_the_same_usage() {
    assert_files(&[
        (
            &renames(&[("b", Some("a")), ("c", Some("a"))]),
            &[
                "t.yaml:1:80: namespaces.api.limits[1].was: limits[0] was \"a\" too; keep `was` on the one that goes on with what was used",
            ],
        ),
        (
            &renames(&[("a", None), ("b", Some("a"))]),
            &[
                "t.yaml:1:72: namespaces.api.limits[1].was: `was` is the name of another limit, \"a\"; remove `was`, or give that limit, if it was renamed too, its own `was`",
            ],
        ),
        (
            &renames(&[("a", Some("a"))]),
            &[
                "t.yaml:1:48: namespaces.api.limits[0].was: `was` is the name the limit still has, \"a\"; remove `was`, or give the name it had before",
            ],
        ),
    ]);
}

//! The list of features, and the sources of the feature of a request.

use tidegate_overload::FeatureConfig;
use tidegate_policy::{compare, schema};

use crate::{problems, settings, warnings};

const POLICY: &str = "
listen: { proxy: 127.0.0.1:8000 }
features: [thumbnails, search]
namespaces:
  shop: { limits: [{ name: all, rate: 1/s }], request: { feature: entry.feature } }
  plain: { limits: [{ name: all, rate: 1/s }] }
proxy:
  upstreams: { app: [http://127.0.0.1:3000] }
  routes:
    - { name: named, match: { path: /thumbnails }, upstream: app, namespace: shop, feature: '\"thumbnails\"' }
    - { name: by-path, upstream: app, namespace: shop, feature: path.0 }
";

/// The most features of a policy.
const FEATURES_MAX: usize = 1000;

const NO_LIST: &str = "no feature is under `features:`, so each request counts as `other`";

fn names(policy: &str) -> Vec<String> {
    settings(policy).features.into_iter().map(|feature| feature.name).collect()
}

/// A policy with this list, and without sources.
fn listing(features: &str) -> String {
    format!("namespaces: {{ a: {{ limits: [{{ name: all, rate: 1/s }}] }} }}\nfeatures: {features}\n")
}

#[test]
fn features_are_a_list_of_names_in_the_order_of_the_file() {
    assert_eq!(warnings(POLICY), [""; 0]);
    assert_eq!(names(POLICY), ["thumbnails", "search"]);
    assert_eq!(names(&listing("[]")), [""; 0]);
    let policy = settings(POLICY);
    let sources = policy.proxy.routes.iter().map(|route| route.feature.as_ref().unwrap().to_string());
    assert_eq!(sources.collect::<Vec<_>>(), ["\"thumbnails\"", "path.0"]);
    assert_eq!(policy.namespace("plain").unwrap().request.feature.to_string(), "entry.feature");
    let most: Vec<String> = (0..FEATURES_MAX).map(|index| format!("f{index}")).collect();
    assert_eq!(names(&listing(&format!("[{}]", most.join(", ")))), most);
}

#[test]
fn a_name_that_cannot_be_is_told_with_its_line_and_a_fix() {
    let long = "x".repeat(129);
    let most: Vec<String> = (0..=FEATURES_MAX).map(|index| format!("f{index}")).collect();
    for (list, expected) in [
        (
            "\n- search\n- thumbnails\n- search".to_owned(),
            ":5:3: features[2]: duplicate feature \"search\"; first named at line 3; remove one of them",
        ),
        ("[search, \"\"]".to_owned(), ":2:20: features[1]: the name of the feature is empty; give it one"),
        (format!("[{long}]"), "has 129 bytes; use at most 128"),
        (
            "[\"a\\tb\"]".to_owned(),
            "features[0]: the name of the feature, \"a\\tb\", contains control characters; remove them",
        ),
        (format!("[{}]", most.join(", ")), "features: 1001 features; use at most 1000"),
        ("search".to_owned(), "features: "),
    ] {
        let lines = problems(&listing(&list));
        assert!(lines.len() == 1 && lines[0].contains(expected), "{list}: {lines:#?}");
    }
    let near = format!("[{}]", "x".repeat(128));
    assert_eq!(names(&listing(&near))[0].len(), FeatureConfig::NAME_BYTES_MAX);
}

#[test]
fn a_source_whose_requests_all_count_as_other_is_warned_of_with_its_line() {
    for (from, to, expected) in [
        (
            "'\"thumbnails\"'",
            "'\"thumbnail\"'",
            &[
                ":10:93: proxy.routes[0].feature: feature \"thumbnail\" is not under `features:`, so it counts as `other`; \
                did you mean thumbnails?",
            ][..],
        ),
        (
            "feature: entry.feature",
            "feature: '\"orders\"'",
            &[
                "namespaces.shop.request.feature: feature \"orders\" is not under `features:`, so it counts as `other`; add it there",
            ],
        ),
        (
            "features: [thumbnails, search]\n",
            "",
            &[
                &format!("namespaces.shop.request.feature: {NO_LIST}; add the names there"),
                "proxy.routes[0].feature: feature \"thumbnails\" is not under `features:`",
                &format!("proxy.routes[1].feature: {NO_LIST}"),
            ],
        ),
    ] {
        assert!(POLICY.contains(from), "{from}");
        let lines = warnings(&POLICY.replacen(from, to, 1));
        let is_expected = lines.iter().zip(expected).all(|(line, expected)| line.contains(expected));
        assert!(is_expected && lines.len() == expected.len(), "{to}: {lines:#?}");
    }
    // The default source is nobody's wish.
    assert_eq!(warnings("namespaces: { a: { limits: [{ name: all, rate: 1/s }] } }"), [""; 0]);
}

#[test]
fn a_change_of_features_and_of_their_sources_needs_no_restart_and_is_shown() {
    assert_eq!(schema()["properties"]["features"]["x-reload"], true);
    let other =
        POLICY.replace("[thumbnails, search]", "[thumbnails]").replace("feature: path.0", "feature: path.1");
    let (old, new) = (settings(POLICY), settings(&other));
    let changes = compare(&old, &new).settings;
    let shown: Vec<_> =
        changes.iter().map(|one| (&*one.path, &*one.old, &*one.new, one.needs_restart)).collect();
    assert_eq!(
        shown,
        [
            ("proxy.routes.by-path.feature", "path.0", "path.1", false),
            ("features.search.levels", "[]", "none", false),
        ]
    );
    let taken_over = new.in_place_of(&old);
    assert_eq!(taken_over.features.iter().map(|feature| &*feature.name).collect::<Vec<_>>(), ["thumbnails"]);
}

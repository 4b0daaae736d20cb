//! Features that degrade: their levels and settings, and how these fit the rest of the policy.

use core::time::Duration;

use tidegate_core::Class;
use tidegate_overload::{FeatureConfig, FeatureLevelConfig, FeatureMode, FeatureScope, OnDisable};
use tidegate_policy::compare;

use crate::{assert_files, problems, settings, warnings};

/// A policy whose only resource is `app`, with these features.
fn with_features(features: &str) -> String {
    format!(
        "resources: {{ app: {{ concurrency: 4 }} }}\nfeatures: {features}\nnamespaces: {{ a: {{ limits: [{{ name: all, rate: 1/s }}] }} }}\n"
    )
}

/// The features of such a policy.
fn features(features: &str) -> Vec<FeatureConfig> {
    settings(&with_features(features)).features
}

/// The problems of a list of features, each line without its position.
fn told(features: &str) -> Vec<String> {
    let lines = problems(&with_features(features)).into_iter();
    lines.map(|line| line.split_once(": ").expect("a position comes first").1.to_owned()).collect()
}

const LEVELS: &str = "levels: [{ name: full, cost: 1 }, { name: off, cost: 0 }]";

#[test]
fn a_feature_has_every_setting_of_the_plane() {
    let all = features(
        "
- search
- { name: zoom }
- name: thumbnails
  resource: app
  class: sheddable
  utility: 3
  min_dwell: 1m30s
  on_disable: cancel
  grace: 500ms
  scope: class
  mode: shadow
  levels: [{ name: full, cost: 1.0 }, { name: 720p, cost: 0.55 }, { name: off, cost: 0 }]
- { name: previews, levels: [{ name: '1', cost: 1 }, { name: true, cost: 1e-3 }] }
",
    );
    let mut thumbnails = FeatureConfig::new("thumbnails", Class::Sheddable);
    thumbnails.resource = Some("app".to_owned());
    thumbnails.utility = 3.0;
    thumbnails.min_dwell = Duration::from_secs(90);
    thumbnails.on_disable = OnDisable::Cancel { grace: Duration::from_millis(500) };
    thumbnails.scope = FeatureScope::Class;
    thumbnails.mode = FeatureMode::Shadow;
    thumbnails.levels = [("full", 1.0), ("720p", 0.55), ("off", 0.0)]
        .map(|(name, cost)| FeatureLevelConfig::new(name, cost))
        .into();
    let mut previews = FeatureConfig::new("previews", Class::SheddablePlus);
    previews.resource = Some("app".to_owned());
    previews.levels = vec![FeatureLevelConfig::new("1", 1.0), FeatureLevelConfig::new("true", 0.001)];
    let counted = ["search", "zoom"].map(|name| FeatureConfig::new(name, Class::default()));
    assert_eq!(all, [counted.as_slice(), &[thumbnails, previews]].concat());
    assert!(all.iter().all(|feature| feature.check().is_ok()));
}

#[test]
fn the_plane_has_the_features_with_levels_and_no_others() {
    let policy = settings(&with_features(&format!("[search, {{ name: thumbnails, {LEVELS} }}]")));
    let plane = policy.overload().build().unwrap();
    let configs: Vec<_> = plane.features().map(|(_, feature)| feature.config().clone()).collect();
    assert_eq!(configs, policy.features[1..]);
}

#[test]
fn as_many_features_and_levels_as_there_may_be_are_taken() {
    let levels: Vec<String> =
        (0..16).map(|index| format!("{{ name: l{index}, cost: {} }}", 1.0 / f64::from(1 << index))).collect();
    let levels = levels.join(", ");
    let most: Vec<String> =
        (0..1000).map(|index| format!("{{ name: f{index}, levels: [{levels}] }}")).collect();
    let all = features(&format!("[{}]", most.join(", ")));
    assert_eq!((all.len(), all[999].levels.len()), (1000, 16));
    assert!(all.iter().all(|feature| feature.check().is_ok()));
    let more = format!("[{}, one-more]", most.join(", "));
    assert_eq!(told(&more), ["features: 1001 features; use at most 1000"]);
}

/// Each feature with all of its problems.
fn assert_told(cases: &[(String, &[&str])]) {
    for (feature, expected) in cases {
        assert_eq!(told(&format!("[{{ {feature} }}]")), *expected, "{feature}");
    }
}

#[test]
fn what_levels_cannot_be_is_told_where_it_stands() {
    let level = "{ name: full, cost: 1 }";
    let long = "x".repeat(65);
    let many: Vec<String> = (0..17).map(|index| format!("{{ name: l{index}, cost: 1 }}")).collect();
    let many = many.join(", ");
    assert_told(&[
        (
            "name: t, class: sheddable, mode: shadow".to_owned(),
            &[
                "features[0]: feature \"t\" has `class` and `mode` and no levels, so it never degrades; add `levels: [{ name: full, cost: 1 }, { name: off, cost: 0 }]`, or keep the name alone",
            ][..],
        ),
        (
            "name: t, levels: [], utility: 2".to_owned(),
            &[
                "features[0]: feature \"t\" has `utility` and no levels, so it never degrades; add `levels: [{ name: full, cost: 1 }, { name: off, cost: 0 }]`, or keep the name alone",
            ],
        ),
        (
            format!("name: t, levels: [{level}]"),
            &[
                "features[0].levels: 1 level cannot change; add a cheaper level, as `{ name: off, cost: 0 }`, or keep the name of the feature alone",
            ],
        ),
        (format!("name: t, levels: [{many}]"), &["features[0].levels: 17 levels; use at most 16"]),
        (
            "name: t, levels: [{ name: a, cost: 0.9 }, { name: b, cost: 0.9 }, { name: c, cost: 0.95 }]"
                .to_owned(),
            &[
                "features[0].levels[0].cost: the first level, \"a\", has cost 0.9; use `cost: 1`; the costs of the others are parts of it",
                "features[0].levels[1].cost: level \"b\" has cost 0.9, not less than the 0.9 of level \"a\" before it; list the levels from best to worst, each with a lower cost",
                "features[0].levels[2].cost: level \"c\" has cost 0.95, not less than the 0.9 of level \"b\" before it; list the levels from best to worst, each with a lower cost",
            ],
        ),
        (
            format!("name: t, levels: [{level}, {{ name: off, cost: 0.2 }}, {{ name: gone, cost: 0 }}]"),
            &[
                "features[0].levels[1].cost: level \"off\" has cost 0.2, so it refuses no request; use `cost: 0`, or another name",
            ],
        ),
        (
            format!(
                "name: t, levels: [{level}, {{ name: b, cost: 1.5 }}, {{ name: c, cost: half }}, {{ name: d, cost: '0.1' }}]"
            ),
            &[
                "features[0].levels[1].cost: 1.5 is out of range; use a number from 0 to 1",
                "features[0].levels[2].cost: expected a number, found \"half\"; write a decimal, for example 0.5",
                "features[0].levels[3].cost: expected a number, found the text \"0.1\"; remove the quotes",
            ],
        ),
        (
            format!(
                "name: t, levels: [{level}, {{ name: full, cost: 0.5 }}, {{ name: 'a b', cost: 0.4 }}, {{ name: 'a=b', cost: 0.3 }}, {{ name: '', cost: 0.2 }}, {{ name: é, cost: 0.1 }}]"
            ),
            &[
                "features[0].levels[1].name: duplicate level name \"full\"; first defined at line 2; rename one of them",
                "features[0].levels[2].name: the name of the level, \"a b\", contains ' ', which the header `tidegate-feature` cannot carry; use letters, digits, `-`, `_` and `.`, as in 480p",
                "features[0].levels[3].name: the name of the level, \"a=b\", contains '=', which the header `tidegate-feature` cannot carry; use letters, digits, `-`, `_` and `.`, as in 480p",
                "features[0].levels[4].name: the name of the level is empty; give it one",
                "features[0].levels[5].name: the name of the level, \"é\", contains 'é', which the header `tidegate-feature` cannot carry; use letters, digits, `-`, `_` and `.`, as in 480p",
            ],
        ),
        (
            format!(
                "name: t, levels: [{level}, {{ name: {long}, cost: 0.5 }}, {{ cost: 0.4 }}, {{ name: x, cots: 0 }}]"
            ),
            &[
                &format!(
                    "features[0].levels[1].name: the name of the level, \"{long}\", has 65 bytes; use at most 64"
                ),
                "features[0].levels[2].name: `name` is missing; add `name:`, its name, as `480p`, unique in the feature",
                "features[0].levels[3].cots: unknown key \"cots\"; did you mean `cost`?",
            ],
        ),
    ]);
}

#[test]
fn what_a_feature_cannot_have_is_told_where_it_stands() {
    assert_told(&[
        (
            format!("name: 'a;b', {LEVELS}"),
            &[
                "features[0].name: the name of the feature, \"a;b\", contains ';', which the header `tidegate-feature` cannot carry; use letters, digits, `-`, `_` and `.`, as in 480p",
            ],
        ),
        (
            format!(
                "name: t, {LEVELS}, resource: apo, utility: 0, min_dwell: 2d, on_disable: cancel, grace: 2h"
            ),
            &[
                "features[0].resource: resource \"apo\" does not exist; did you mean app?",
                "features[0].utility: utility 0 is not above 0; use the worth beside other features, as 1 or 3",
                "features[0].min_dwell: min_dwell \"2d\" is out of range; use a span from 0s to 1d",
                "features[0].grace: grace \"2h\" is out of range; use a span from 0s to 1h",
            ],
        ),
        (
            format!("name: t, {LEVELS}, grace: 1s, class: high, scope: user, min_dwel: 1s"),
            &[
                "features[0].grace: only `on_disable: cancel` has `grace`; remove it, or add `on_disable: cancel`",
                "features[0].class: \"high\" is not a value of this key; use critical_plus, critical, sheddable_plus or sheddable",
                "features[0].scope: \"user\" is not a value of this key; use global, class or tenant",
                "features[0].min_dwel: unknown key \"min_dwel\"; did you mean `min_dwell`?",
            ],
        ),
        (
            format!("name: t, {LEVELS} }}, t, {{ name: t, {LEVELS}"),
            &[
                "features[1]: duplicate feature \"t\"; first named at line 2; remove one of them",
                "features[2].name: duplicate feature \"t\"; first named at line 2; remove one of them",
            ],
        ),
    ]);
}

#[test]
fn levels_follow_the_only_resource_or_the_one_that_is_named() {
    let feature = format!("features: [{{ name: t, {LEVELS} }}]");
    assert_eq!(features(&format!("[{{ name: t, {LEVELS} }}]"))[0].resource.as_deref(), Some("app"));
    let many: Vec<String> = (0..20).map(|index| format!("r{index:02}: {{ concurrency: 1 }}")).collect();
    let many = many.join(", ");
    assert_files(&[
        (
            &feature,
            &[
                "t.yaml:1:12: features[0]: feature \"t\" has levels, and there is no resource whose load they follow; add one under `resources:`, as `resources: { app: { concurrency: 64 } }`",
            ],
        ),
        (
            &format!("resources: {{ a: {{ concurrency: 1 }}, b: {{ concurrency: 1 }} }}\n{feature}"),
            &[
                "t.yaml:2:12: features[0]: feature \"t\" does not say the resource whose load its levels follow; add `resource:` with a or b",
            ],
        ),
        (
            &format!("resources: {{ {many} }}\n{feature}"),
            &[
                "t.yaml:2:12: features[0]: feature \"t\" does not say the resource whose load its levels follow; add `resource:` with r00, r01, r02, r03, r04, r05, r06, r07 or another of `resources:`",
            ],
        ),
        (
            &format!(
                "resources: {{ app: {{ concurrency: 1 }} }}\nfeatures: [{{ name: t, resource: database, {LEVELS} }}]"
            ),
            &[
                "t.yaml:2:33: features[0].resource: resource \"database\" does not exist; use app, or add it under `resources:`",
            ],
        ),
        (
            &format!("features: [{{ name: t, resource: database, {LEVELS} }}]"),
            &[
                "t.yaml:1:33: features[0].resource: resource \"database\" does not exist; add it under `resources:`",
            ],
        ),
    ]);
}

/// A proxy whose only route has these settings, with a feature of these settings.
fn proxied(listen: &str, route: &str, namespace: &str, feature: &str) -> String {
    format!(
        "
listen: {{ proxy: 127.0.0.1:8000{listen} }}
resources: {{ app: {{ concurrency: 4 }} }}
namespaces: {{ shop: {{ limits: [{{ name: all, rate: 1/s }}], request: {{ {namespace} }} }} }}
features: [{{ name: t, {LEVELS}{feature} }}]
proxy:
  upstreams: {{ app: [http://127.0.0.1:3000] }}
  routes: [{{ upstream: app, namespace: shop, attributes: {{ user: header.x-user }}{route} }}]
"
    )
}

#[test]
fn a_feature_that_no_request_can_name_is_warned_of() {
    let unnamed = "t.yaml:5:12: features[0]: no request can name feature \"t\", so its levels change nothing: no route with a namespace has a `feature` that gives this name; add `feature: '\"t\"'` to a route";
    assert_eq!(warnings(&proxied("", "", "", "")), [unnamed]);
    assert_eq!(warnings(&proxied("", ", feature: '\"t\"'", "", "")), [""; 0]);
    assert_eq!(warnings(&proxied("", ", feature: path.0", "", "")), [""; 0]);
    // The API has a member for it.
    assert_eq!(warnings(&proxied(", http: 127.0.0.1:8080", "", "", "")), [""; 0]);
    assert_eq!(warnings(&proxied(", resp: 127.0.0.1:6380", "", "", "")), [""; 0]);
    assert_eq!(warnings(&with_features(&format!("[{{ name: t, {LEVELS} }}]"))), [""; 0]);
    let grant = |verb: &str, namespace: &str| {
        format!(
            "authorization: [{{ token: '${{SECRET}}-of-16-letters', namespaces: [{namespace}], verbs: [{verb}, place] }}]{}",
            proxied("", "", "", "")
        )
    };
    assert_eq!(warnings(&grant("check", "shop")), [""; 0]);
    assert_eq!(warnings(&grant("check", "'*'")), [""; 0]);
    assert_eq!(warnings(&grant("report", "shop")).len(), 1);
    assert_eq!(warnings(&grant("check", "other")).len(), 1);
    // A route without a namespace asks for nothing.
    let bare = proxied("", ", feature: '\"t\"'", "", "").replace(" namespace: shop,", "");
    assert!(warnings(&bare).iter().any(|line| *line == unnamed), "{:#?}", warnings(&bare));
}

#[test]
fn a_feature_of_a_higher_class_than_its_requests_is_warned_of() {
    let named = ", feature: '\"t\"'";
    let above = |class: &str, most: &str| {
        format!(
            "t.yaml:5:89: features[0].class: feature \"t\" has class {class}, but its requests have at most class {most}, so they are shed before the feature degrades; use `class: {most}`, or let its requests have a higher class"
        )
    };
    for (route, namespace, class, most) in [
        ("", "", "critical", Some("sheddable_plus")),
        ("", "", "sheddable_plus", None),
        (", class: { default: sheddable }", "", "sheddable_plus", Some("sheddable")),
        (", class: { from: header.x-class }", "", "critical", Some("sheddable_plus")),
        (", class: { from: header.x-class, ceiling: critical }", "", "critical", None),
        (
            ", class: { from: header.x-class, ceiling: critical }",
            "class: { ceiling: sheddable_plus }",
            "critical",
            Some("sheddable_plus"),
        ),
        (
            ", class: { default: critical }",
            "tenants: { acme: critical_plus }",
            "critical_plus",
            Some("critical"),
        ),
        (
            ", class: { default: critical }, tenant: user",
            "tenants: { acme: critical_plus }",
            "critical_plus",
            None,
        ),
    ] {
        let policy = proxied("", &format!("{named}{route}"), namespace, &format!(", class: {class}"));
        let expected: Vec<String> = most.map(|most| above(class, most)).into_iter().collect();
        assert_eq!(warnings(&policy), expected, "{route} {namespace} {class}");
    }
    let trusted =
        proxied("", &format!("{named}, class: {{ from: header.x-class }}"), "", ", class: critical_plus");
    assert_eq!(warnings(&trusted).len(), 1);
    assert_eq!(warnings(&trusted.replace("proxy:\n", "proxy:\n  trusted: [10.0.0.0/8]\n")), [""; 0]);
    // Callers of the API claim a class up to their ceiling.
    let api = |ceiling: &str| {
        let policy = proxied(", http: 127.0.0.1:8080", "", "", ", class: critical");
        format!(
            "authorization: [{{ token: '${{SECRET}}-of-16-letters', namespaces: [shop], verbs: [check, place], ceiling: {ceiling} }}]{policy}"
        )
    };
    assert_eq!(warnings(&api("sheddable_plus")), [above("critical", "sheddable_plus")]);
    assert_eq!(warnings(&api("critical")), [""; 0]);
}

#[test]
fn a_setting_without_effect_is_warned_of() {
    let named = ", feature: '\"t\"'";
    assert_eq!(
        warnings(&proxied("", named, "", ", scope: tenant")),
        [
            "t.yaml:5:89: features[0].scope: `scope: tenant` divides nothing: no request of feature \"t\" has a tenant; add `tenant` to the routes of the feature, or remove `scope`"
        ]
    );
    assert_eq!(warnings(&proxied("", &format!("{named}, tenant: user"), "", ", scope: tenant")), [""; 0]);
    let cancel = proxied("", named, "", ", on_disable: cancel");
    assert_eq!(warnings(&cancel), [""; 0]);
    assert_eq!(
        warnings(&cancel.replace("{ name: off, cost: 0 }", "{ name: low, cost: 0.1 }")),
        [
            "t.yaml:5:96: features[0].on_disable: feature \"t\" is never off, so `on_disable: cancel` cancels nothing; add the level `{ name: off, cost: 0 }`, or remove `on_disable`"
        ]
    );
}

#[test]
fn a_change_of_levels_needs_no_restart_and_is_shown() {
    let old = with_features(&format!("[search, {{ name: t, {LEVELS} }}]"));
    let changes = |new: &str| -> Vec<String> {
        let (old, new) = (settings(&old), settings(&with_features(new)));
        let changes = compare(&old, &new).settings;
        assert!(changes.iter().all(|one| !one.needs_restart));
        assert_eq!(new.clone().in_place_of(&old).features, new.features);
        changes.iter().map(|one| format!("{}: {} -> {}", one.path, one.old, one.new)).collect()
    };
    assert_eq!(
        changes(
            "[{ name: search }, { name: t, resource: app, min_dwell: 10000ms, levels: [{ name: full, cost: 1.0 }, { name: off, cost: 0.0 }] }]"
        ),
        [""; 0]
    );
    assert_eq!(
        changes(
            "[search, { name: t, class: critical, on_disable: cancel, levels: [{ name: full, cost: 1 }, { name: 480p, cost: 0.3 }, { name: off, cost: 0 }] }]"
        ),
        [
            "features.t.levels.480p.cost: none -> 0.3",
            "features.t.class: sheddable_plus -> critical",
            "features.t.on_disable: finish -> cancel",
            "features.t.grace: none -> 2s",
        ]
    );
    assert_eq!(changes(&format!("[{{ name: t, {LEVELS} }}]")), ["features.search.levels: [] -> none"]);
    assert_eq!(
        changes(&format!("[search, zoom, {{ name: t, {LEVELS} }}]")),
        ["features.zoom.levels: none -> []"]
    );
    // Without levels it has no other settings.
    let counted = changes("[search, t]");
    assert!(counted.contains(&"features.t.levels: none -> []".to_owned()), "{counted:#?}");
    assert!(counted.contains(&"features.t.levels.off.cost: 0.0 -> none".to_owned()), "{counted:#?}");
}

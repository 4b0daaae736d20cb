//! Warnings about sections of a policy that do not fit each other.

use crate::warnings;

const LISTEN: &str = "listen: { proxy: 127.0.0.1:8000 }";

/// The warnings about a policy with these limits and routes, each without its place.
fn told(listen: &str, limits: &str, routes: &str) -> Vec<String> {
    let text = format!(
        "{listen}\nnamespaces: {{ api: {{ limits: [ {{ name: all, rate: 9/s }}, {limits} ] }} }}\n\
         proxy: {{ upstreams: {{ app: [\"http://127.0.0.1:1\"] }}, jwt: {{ unverified: true }}, routes: [ {routes} ] }}\n"
    );
    let without_place = |line: String| line.splitn(3, ' ').nth(2).unwrap_or_default().to_owned();
    warnings(&text).into_iter().map(without_place).collect()
}

/// A route of the namespace with these entries.
fn route(more: &str) -> String {
    format!("{{ upstream: app, namespace: api, {more} }}")
}

#[test]
fn issue_15_a_limit_that_no_route_feeds_is_warned_about() {
    const UNSET: &str = "limit \"x\" counts no request of the proxy: no route of namespace \"api\" sets \"op\"; change `attributes` of a route or the limit, unless it is for callers of the HTTP API only";
    const OTHER: &str = "limit \"x\" counts no request of the proxy: no route of namespace \"api\" has the attributes that its `key` and `match` ask for; change `attributes` of a route or the limit, unless it is for callers of the HTTP API only";
    for (limit, routes, expected) in [
        ("key: [op]", route("attributes: { user: jwt.sub }"), Some(UNSET)),
        ("match: { op: Export }", route("attributes: { user: jwt.sub }"), Some(UNSET)),
        ("match: { op: { present: true } }", route(""), Some(UNSET)),
        ("match: { op: Export }", route("attributes: { op: '\"Import\"' }"), Some(OTHER)),
        (
            "match: { op: POST }",
            route("match: { method: [GET, HEAD] }, attributes: { op: method }"),
            Some(OTHER),
        ),
        ("match: { op: /b }", route("match: { path: /a }, attributes: { op: path }"), Some(OTHER)),
        (
            "key: [op, user]",
            [
                route("attributes: { op: header.x }"),
                route("match: { path: /a }, attributes: { user: header.x }"),
            ]
            .join(", "),
            Some(OTHER),
        ),
        // Some request may be one it applies to.
        ("key: [op]", route("attributes: { op: header.x-op }"), None),
        ("key: [op], missing: group", route(""), None),
        ("match: { op: { present: false } }", route(""), None),
        ("match: { op: { not: Export } }", route(""), None),
        ("match: { op: Export }", route("attributes: { op: '\"Export\"' }"), None),
        ("match: { op: POST }", route("attributes: { op: method }"), None),
        ("match: { op: POST }", route("match: { method: [POST, GET] }, attributes: { op: method }"), None),
        ("match: { op: /a/b }", route("match: { path: /a/* }, attributes: { op: path }"), None),
    ] {
        let limit = format!("{{ name: x, rate: 1/s, {limit} }}");
        let told = told(LISTEN, &limit, &routes);
        // The second of two routes may be out of reach; that is another test.
        let told: Vec<&str> =
            told.iter().map(String::as_str).filter(|line| !line.contains("never reached")).collect();
        assert_eq!(told, Vec::from_iter(expected), "{limit} {routes}");
    }
}

#[test]
fn issue_15_a_limit_that_other_protocols_may_feed_is_not_warned_about() {
    let limit = "{ name: x, rate: 1/s, key: [op] }";
    for listen in [
        "listen: { proxy: 127.0.0.1:8000, grpc: 127.0.0.1:8081 }",
        "listen: { proxy: 127.0.0.1:8000, resp: 127.0.0.1:6380 }",
        "listen: { proxy: 127.0.0.1:8000 }\nauthorize: { headers: { x-op: op } }",
    ] {
        assert_eq!(told(listen, limit, &route("")), Vec::<String>::new(), "{listen}");
    }
    assert_eq!(told(LISTEN, limit, "{ upstream: app }"), Vec::<String>::new(), "no route of the namespace");
}

#[test]
fn issue_15_a_route_of_which_a_limit_refuses_everything_is_warned_about() {
    const REFUSED: &str = "every request of route \"route-0\" is refused: limit \"x\" needs attribute \"user\", which the route does not set; add it to `attributes` of the route, or use `missing: group` or `missing: skip`";
    for (limit, more, expected) in [
        ("", "", Some(REFUSED)),
        ("match: { op: Export }", "attributes: { op: '\"Export\"' }", Some(REFUSED)),
        ("match: { op: { present: false } }", "", Some(REFUSED)),
        ("mode: shadow", "", None),
        ("", "attributes: { user: header.x-user }", None),
        ("match: { op: Export }", "attributes: { op: header.op }", None),
    ] {
        let limit = format!("{{ name: x, key: [user], missing: refuse, rate: 1/s, {limit} }}");
        assert_eq!(told(LISTEN, &limit, &route(more)), Vec::from_iter(expected), "{limit} {more}");
    }
}

#[test]
fn issue_15_an_attribute_that_a_route_misspells_is_told_the_one_that_was_meant() {
    let route = route("attributes: { usr: header.x-user }, cost: { units: 9 }");
    assert_eq!(
        told(LISTEN, "{ name: x, key: [user], missing: refuse, rate: 1/s, burst: 2 }", &route),
        [
            "every request of route \"route-0\" is refused: limit \"x\" needs attribute \"user\", which the route does not set; did you mean usr, which it sets?"
        ]
    );
    assert_eq!(
        told(LISTEN, "{ name: x, key: [user], rate: 1/s, burst: 2 }", &route),
        [
            "limit \"x\" counts no request of the proxy: no route of namespace \"api\" sets \"user\"; did you mean usr?"
        ]
    );
}

#[test]
fn issue_15_a_cost_above_what_a_limit_admits_at_once_is_warned_about() {
    let warning = |number: &str| {
        format!(
            "limit \"x\" never admits a request of route \"route-0\" that it applies to: the cost of 6 is above its {number} of 5; lower the cost, or raise the {number}"
        )
    };
    for (limit, more, expected) in [
        ("rate: 1/s, burst: 5", "cost: { units: 6 }", Some(warning("burst"))),
        ("fixed: { limit: 5, window: 1s }", "cost: { units: 6 }", Some(warning("limit"))),
        ("rolling: { limit: 5, window: 1s }", "cost: { units: 6, body: 1KiB }", Some(warning("limit"))),
        ("rate: 1/s, burst: 6", "cost: { units: 6 }", None),
        ("rate: 1/s, burst: 5, debt: 1", "cost: { units: 6 }", None),
        ("concurrency: { limit: 5, hold: 1s }", "cost: { units: 6 }", None),
        ("rate: 1/s, burst: 5, mode: shadow", "cost: { units: 6 }", None),
        (
            "rate: 1/s, burst: 5, key: [op], overrides: [{ op: a, burst: 9 }]",
            "cost: { units: 6 }, attributes: { op: header.op }",
            None,
        ),
        (
            "rate: 1/s, burst: 5, match: { op: a }",
            "cost: { units: 6 }, attributes: { op: '\"b\"' }, wait: 1s",
            None,
        ),
    ] {
        let limit = format!("{{ name: x, {limit} }}");
        let told = told(LISTEN, &limit, &route(more));
        let told: Vec<&String> = told.iter().filter(|line| !line.contains("counts no request")).collect();
        assert_eq!(told, Vec::from_iter(&expected), "{limit} {more}");
    }
}

#[test]
fn issue_15_a_route_behind_one_that_takes_all_its_requests_is_warned_about() {
    for (earlier, later, is_hidden) in [
        ("", "path: /a", true),
        ("path: /*", "path: /a/*", true),
        ("path: /a*", "path: /a/b", true),
        ("path: /a/*", "path: /a/*/c, method: [GET]", true),
        ("path: /a, method: [GET, POST]", "path: /a, method: [GET]", true),
        ("host: a.example", "host: a.example, path: /x", true),
        ("host: { suffix: .example }", "host: [a.example, b.example]", true),
        ("path: /*", "", true),
        ("path: /*", "method: [GET]", true),
        ("path: /a/*", "", false),
        ("path: /a", "path: /a*", false),
        ("path: /a/*", "path: /a", false),
        ("path: /a/*/c", "path: /a/b/c", false),
        ("path: /a, method: [GET]", "path: /a", false),
        ("path: /a, host: a.example", "path: /a", false),
        ("host: a.example", "host: { suffix: .example }", false),
        ("headers: { x-b: [\"1\", \"2\"] }", "path: /a, headers: { x-b: \"2\" }", true),
        ("path: /a, headers: { x-b: \"1\" }", "path: /a", false),
        ("headers: { x-b: \"1\" }", "headers: { x-b: { not: \"2\" } }", false),
        ("headers: { x-b: \"1\", x-c: \"1\" }", "headers: { x-b: \"1\" }", false),
    ] {
        let routes = format!(
            "{{ upstream: app, match: {{ {earlier} }} }}, {{ name: late, upstream: app, match: {{ {later} }} }}"
        );
        let expected = "route \"late\" is never reached: route \"route-0\" takes its requests first; put it before \"route-0\", or remove it";
        let expected = is_hidden.then(|| expected.to_owned());
        assert_eq!(told(LISTEN, "", &routes), Vec::from_iter(expected), "{routes}");
    }
}

#[test]
fn issue_15_a_slow_limit_of_a_shared_store_is_told_what_members_admit_without_it() {
    let of = |limit: &str, members: &str| {
        let store = format!("{{ kind: redis, urls: [redis://127.0.0.1:1], {members} }}");
        warnings(&format!("store: {store}\nnamespaces: {{ api: {{ limits: [ {{ name: x, {limit} }} ] }} }}"))
    };
    let warning = |share: u64, most: u64| {
        format!(
            "t.yaml:2:32: namespaces.api.limits[0]: while the store does not answer, each member admits up to {share} of the {most} units of limit \"x\" by itself; write `on_store_failure: local` if that is meant, or `refuse`"
        )
    };
    for (limit, members, expected) in [
        ("rate: 5/m", "", Some(warning(5, 5))),
        ("rate: 10/m", "members: 3", Some(warning(10, 10))),
        ("rate: 20/m", "members: 4", Some(warning(10, 20))),
        ("fixed: { limit: 5, window: 1m }", "", Some(warning(5, 5))),
        ("rate: 5/m, consistency: exact", "", Some(warning(5, 5))),
        // One member, large enough shares, a rate that soon exceeds them, or a policy that says
        // what it wants.
        ("rate: 5/m", "members: 1", None),
        ("rate: 40/m", "members: 4", None),
        ("rate: 20/m", "", None),
        ("rate: 5/s", "", None),
        ("rate: 5/m, on_store_failure: local", "", None),
        ("rate: 5/m, on_store_failure: refuse", "", None),
        ("rate: 5/m, consistency: local", "", None),
        ("fixed: { limit: 5, window: 1h }", "", None),
    ] {
        assert_eq!(of(limit, members), Vec::from_iter(expected), "{limit} {members}");
    }
}

/// The texts between ```` ```yaml ```` and its end.
fn blocks(document: &str) -> impl Iterator<Item = &str> {
    document.split("```yaml\n").skip(1).filter_map(|rest| rest.split("```").next())
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the test, and not the crate, reads the published files")]
fn issue_15_no_published_policy_has_sections_that_do_not_fit() {
    let top: std::path::PathBuf = [env!("CARGO_MANIFEST_DIR"), "..", ".."].iter().collect();
    let mut folders = vec![top.join("docs"), top.join("examples"), top.join("deploy")];
    let mut files = vec![
        top.join("README.md"),
        top.join("crates/tidegate-policy/src/example.yaml"),
        top.join("crates/tidegate-policy/src/upstream.yaml"),
    ];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { folders.push(path) } else { files.push(path) }
        }
    }
    let mut policies = 0;
    for file in files {
        let is = |ending: &str| file.extension().is_some_and(|own| own == ending);
        if !is("yaml") && !is("md") {
            continue;
        }
        let text = std::fs::read_to_string(&file).unwrap();
        let texts: Vec<&str> = if is("md") { blocks(&text).collect() } else { vec![&text] };
        for text in texts {
            // Some are files of other programs, or parts of a policy.
            let Ok(checked) = crate::check(text) else { continue };
            policies += 1;
            for warning in checked.warnings {
                let of_sections = [
                    "counts no request of the proxy",
                    "is refused: limit",
                    "never admits a request of route",
                    "is never reached",
                    "while the store does not answer",
                    "is compared as plain text",
                ];
                let said = warning.to_string();
                assert!(!of_sections.iter().any(|part| said.contains(part)), "{}: {said}", file.display());
            }
        }
    }
    assert!(policies >= 20, "{policies}");
}

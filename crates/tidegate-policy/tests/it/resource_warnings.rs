//! Warnings about queues, resources and signals that do not do what their policy seems to want.

use std::path::Path;

use tidegate_core::Class;
use tidegate_policy::parse;

use super::queue_waits::with_queue;
use crate::warnings;

/// The warnings about a queue, each from the path of its key on.
fn told(queue: &str) -> Vec<String> {
    let from_path =
        |line: String| line.split_once("resources.a.").expect("it is about the queue").1.to_owned();
    warnings(&with_queue(queue)).into_iter().map(from_path).collect()
}

/// Each queue with all that is told about it.
fn assert_told(cases: &[(&str, &[&str])]) {
    for (queue, expected) in cases {
        assert_eq!(told(queue), *expected, "{queue}");
    }
}

#[test]
fn issue_39_a_class_that_waits_less_than_a_lower_one_is_warned_about() {
    assert_eq!(
        warnings(&with_queue("wait: { critical: 250ms, sheddable: 2s }")),
        [
            "t.yaml:1:62: resources.a.queue.wait.critical: class critical waits 250ms, less than the 2s of the lower class sheddable; write `critical: 2s`, unless its callers leave sooner"
        ]
    );
    assert_told(&[
        (
            "wait: { sheddable: 250ms, critical_plus: off }",
            &[
                "queue.wait.critical_plus: class critical_plus does not wait, but the lower class sheddable waits 250ms; remove `critical_plus: off`, unless its callers cannot wait",
            ],
        ),
        ("wait: { critical: 2s, sheddable_plus: 500ms, sheddable: off }", &[]),
        ("wait: { critical_plus: 1s, critical: 1s }", &[]),
        ("wait: 250ms", &[]),
        ("wait: off", &["queue: no class may wait, so the queue is never used; write `wait: 500ms`"]),
        ("", &["queue: no class may wait, so the queue is never used; write `wait: 500ms`"]),
    ]);
}

#[test]
fn issue_39_weights_upside_down_are_warned_about() {
    assert_told(&[
        (
            "wait: 1s, weights: { critical: 2, sheddable: 10 }",
            &[
                "queue.weights.critical: class critical has the weight 2, less than the 10 of the lower class sheddable; write at least `critical: 10`, or a smaller weight for sheddable",
                "queue.weights.sheddable: class sheddable has the weight 10, more than the 4 of the higher class sheddable_plus; write at most `sheddable: 4`, or a larger weight for sheddable_plus",
            ],
        ),
        (
            "wait: 1s, weights: { critical_plus: 1 }",
            &[
                "queue.weights.critical_plus: class critical_plus has the weight 1, less than the 8 of the lower class critical; write at least `critical_plus: 8`, or a smaller weight for critical",
            ],
        ),
        ("wait: 1s, weights: { critical_plus: 3, critical: 3, sheddable_plus: 3, sheddable: 3 }", &[]),
        // The weight of a class that is served after all others does not count.
        ("wait: 1s, weights: { sheddable: 100 }, min_share: { sheddable: 0.05 }", &[]),
    ]);
}

#[test]
fn weights_are_told_to_be_upside_down_exactly_where_a_higher_class_has_less() {
    const DEFAULTS: [u64; 4] = [1, 4, 8, 16];
    const WRITTEN: [Option<u64>; 4] = [None, Some(1), Some(5), Some(20)];
    for number in 0..WRITTEN.len().pow(4) {
        let written = [0, 1, 2, 3].map(|place| WRITTEN[number / WRITTEN.len().pow(place) % WRITTEN.len()]);
        let listed = Class::ALL.into_iter().zip(written);
        let entries: Vec<String> =
            listed.filter_map(|(class, weight)| Some(format!("{class}: {}", weight?))).collect();
        let queue = format!("wait: 1s, weights: {{ {} }}", entries.join(", "));
        let weight = |at: usize| written[at].unwrap_or(DEFAULTS[at]);
        let inverted = |at: usize, other: usize| match at.cmp(&other) {
            std::cmp::Ordering::Greater => weight(at) < weight(other),
            _ => weight(at) > weight(other),
        };
        let told = told(&queue);
        let is_inverted = (0..4).any(|at| (0..at).any(|lower| inverted(at, lower)));
        assert_eq!(!told.is_empty(), is_inverted, "{queue}: {told:?}");
        // Each stands at a weight that is written and belongs to such a pair.
        for line in told {
            let key = line.strip_prefix("queue.weights.").and_then(|rest| rest.split_once(": ")).unwrap().0;
            let at = Class::ALL.iter().position(|class| class.as_str() == key).unwrap();
            assert!(
                written[at].is_some() && (0..4).any(|other| other != at && inverted(at, other)),
                "{line}"
            );
        }
    }
}

#[test]
fn issue_39_a_delay_target_above_the_wait_is_warned_about() {
    assert_told(&[
        (
            "wait: 500ms, delay_target: { sheddable: 2s, critical: 500ms, critical_plus: 501ms }",
            &[
                "queue.delay_target.sheddable: the delay target 2s of class sheddable is above its wait of 500ms, so it sheds nothing; use at most 500ms, or write `sheddable: off`",
                "queue.delay_target.critical_plus: the delay target 501ms of class critical_plus is above its wait of 500ms, so it sheds nothing; use at most 500ms, or write `critical_plus: off`",
            ],
        ),
        // Nor is the default reached: 20 ms for two classes, 5 ms for the others.
        (
            "wait: 10ms",
            &[
                "queue.wait: the wait 10ms of class sheddable is below its default delay target of 20ms, which then sheds nothing; use at least 20ms, or write `delay_target: { sheddable: off, sheddable_plus: off }`",
            ],
        ),
        (
            "wait: { critical: 4ms }",
            &[
                "queue.wait.critical: the wait 4ms of class critical is below its default delay target of 5ms, which then sheds nothing; use at least 5ms, or write `delay_target: { critical: off, critical_plus: off }`",
            ],
        ),
        // A class that is left out has no key of its own.
        (
            "wait: { sheddable: 3ms }, delay_target: { sheddable: off, sheddable_plus: off }",
            &[
                "queue.wait: the wait 3ms of class critical is below its default delay target of 5ms, which then sheds nothing; use at least 5ms, or write `delay_target: { critical: off, critical_plus: off }`",
            ],
        ),
        ("wait: 20ms", &[]),
        (
            "wait: 1ms, delay_target: { critical_plus: off, critical: 1ms, sheddable_plus: off, sheddable: off }",
            &[],
        ),
        // A class that does not wait has no queue whose delay could be too long.
        ("wait: { critical: 1s }, delay_target: { sheddable: 2s }", &[]),
    ]);
}

#[test]
fn issue_39_lifo_for_a_class_that_does_not_wait_is_warned_about() {
    assert_told(&[
        (
            "wait: { critical: 1s }, lifo: [critical, sheddable]",
            &[
                "queue.lifo[1]: class sheddable does not wait, so `lifo` has no effect on it; write `wait: { sheddable: 500ms }`, or remove sheddable here",
            ],
        ),
        (
            "lifo: [critical]",
            &[
                "queue: no class may wait, so the queue is never used; write `wait: 500ms`",
                "queue.lifo[0]: class critical does not wait, so `lifo` has no effect on it; write `wait: { critical: 500ms }`, or remove critical here",
            ],
        ),
        ("wait: { sheddable: 1s }, lifo: [critical_plus]", &[]),
    ]);
}

/// A policy with these sections beside its namespace.
fn with_sections(sections: &str) -> String {
    format!("namespaces: {{ shop: {{ limits: [{{ name: all, rate: 100/s }}] }} }}\n{sections}\n")
}

#[test]
fn issue_39_a_signal_of_queue_delay_without_a_queue_is_warned_about() {
    let delay = |more: &str| format!("signals: [{{ name: delay, source: queue_delay{more} }}]");
    let queued = "resources: { app: { concurrency: 1, queue: { wait: 1s } }, bare: { concurrency: 1 } }";
    let bare = "resources: { bare: { concurrency: 1 } }";
    for (resources, signal, expected) in [
        (
            queued,
            delay(", resource: bare"),
            Some(
                "t.yaml:3:34: signals[0].source: signal \"delay\" has no value, because resource \"bare\" has no queue; add `queue: { wait: 500ms }` to the resource, or remove the signal",
            ),
        ),
        (
            bare,
            delay(""),
            Some(
                "t.yaml:3:34: signals[0].source: signal \"delay\" has no value, because no resource has a queue; add `queue: { wait: 500ms }` to a resource, or remove the signal",
            ),
        ),
        (queued, delay(", resource: app"), None),
        (queued, delay(""), None),
        (bare, "signals: [{ name: busy, source: in_flight }]".to_owned(), None),
    ] {
        let told = warnings(&with_sections(&format!("{resources}\n{signal}")));
        assert_eq!(told, Vec::from_iter(expected), "{resources}\n{signal}");
    }
}

#[test]
fn issue_39_a_share_of_the_fleet_without_a_shared_store_is_warned_about() {
    const ALONE: &str = "t.yaml:2:44: resources.app.share: share \"auto\" divides nothing without a store that the members share, to know how many there are; use `store: { kind: redis }`, or remove `share`";
    for (share, store, expected) in [
        ("auto", "", Some(ALONE)),
        ("auto", "store: { kind: memory }", Some(ALONE)),
        ("auto", "store: { kind: embedded, path: d }", Some(ALONE)),
        ("auto", "store: { kind: redis, urls: [redis://h] }", None),
        ("full", "", None),
    ] {
        let resources = format!("resources: {{ app: {{ concurrency: 8, share: {share} }} }}\n{store}");
        assert_eq!(warnings(&with_sections(&resources)), Vec::from_iter(expected), "{share} {store}");
    }
}

/// The warnings about these resources beside these upstreams, each with a route.
fn proxied(resources: &[&str], upstreams: &[&str], more: &str) -> Vec<String> {
    let all = |names: &[&str], of: &dyn Fn(&str) -> String| {
        names.iter().map(|name| of(name)).collect::<Vec<_>>().join(", ")
    };
    let mut told = warnings(&with_sections(&format!(
        "resources: {{ {} }}\nlisten: {{ proxy: 127.0.0.1:1 }}\n\
         proxy: {{ upstreams: {{ {} }}, routes: [{}] }}\n{more}",
        all(resources, &|name| format!("{name}: {{ concurrency: 1 }}")),
        all(upstreams, &|name| format!("{name}: [\"http://127.0.0.1:2\"]")),
        all(upstreams, &|name| format!(
            "{{ match: {{ path: /{name} }}, upstream: {name}, namespace: shop }}"
        )),
    )));
    told.retain(|line| line.contains(": resources."));
    told
}

#[test]
fn issue_39_a_resource_that_resembles_an_upstream_without_one_is_warned_about() {
    assert_eq!(
        proxied(&["ap"], &["app"], ""),
        [
            "t.yaml:2:18: resources.ap: resource \"ap\" is no upstream of the proxy, and upstream \"app\" has no resource; did you mean `app`?"
        ]
    );
    for (resource, upstreams, meant) in [
        ("chekout", &["cart", "checkout"][..], Some("checkout")),
        ("Check-Out", &["check_out"], Some("check_out")),
        ("apps", &["app"], Some("app")),
        // Another thing, which callers of the API name.
        ("reports", &["app"], None),
        ("db", &["app"], None),
        ("app", &["app", "ap"], None),
        ("chackout", &["checkout"], Some("checkout")),
        ("pap", &["app"], Some("app")),
        // Three letters with another one are another word, and a namespace is a name of its own.
        ("api", &["app"], None),
        ("shop", &["shops"], None),
        // Numbered names are as near to each other as misspelt ones.
        ("shard-2", &["shard-1"], None),
        ("app2", &["app"], None),
        ("ap", &[], None),
    ] {
        let told = proxied(&[resource], upstreams, "");
        let expected = meant.map(|meant| format!("; did you mean `{meant}`?"));
        assert_eq!(told.len(), usize::from(expected.is_some()), "{resource} {upstreams:?}: {told:?}");
        assert!(told.iter().zip(&expected).all(|(line, end)| line.ends_with(end)), "{told:?}");
    }
    // The upstream has its resource, so `ap` is another one.
    assert_eq!(proxied(&["ap", "app"], &["app"], ""), [""; 0]);
}

#[test]
fn issue_39_a_resource_that_no_request_can_name_is_warned_about() {
    const UNNAMED: &str = "t.yaml:2:19: resources.job: no request can name resource \"job\": no route with a namespace leads to an upstream of this name, and no grant has the verb `place` in a namespace of this policy; add `place` to the `verbs` of a grant, or remove the resource";
    let grant = |namespaces: &str, verbs: &str| {
        format!(
            "authorization: [{{ certificate: a, namespaces: {namespaces}, verbs: {verbs} }}, \
             {{ certificate: b, namespaces: [shop] }}]"
        )
    };
    for (more, expected) in [
        (String::new(), None),
        (grant("[shop]", "[check]"), Some(UNNAMED)),
        (grant("[shop]", "[report, signal]"), Some(UNNAMED)),
        (grant("[elsewhere]", "[check, place]"), Some(UNNAMED)),
        (grant("[shop]", "[check, place]"), None),
        (grant("[elsewhere, shop]", "[check, place]"), None),
        (grant("[\"*\"]", "[check, place]"), None),
        // The namespace may be a domain of these files.
        (format!("{}\nenvoy_ratelimit: {{ path: d }}", grant("[elsewhere]", "[check, place]")), None),
    ] {
        assert_eq!(proxied(&["job"], &["app"], &more), Vec::from_iter(expected), "{more}");
        // The proxy needs no grant to name the resource of an upstream.
        assert_eq!(proxied(&["job"], &["job"], &more), [""; 0], "{more}");
    }
    // An upstream to which no route leads takes no request.
    let text = format!(
        "resources: {{ job: {{ concurrency: 1 }} }}\nproxy: {{ upstreams: {{ job: [\"http://127.0.0.1:2\"] }} }}\n{}",
        grant("[shop]", "[check]")
    );
    assert_eq!(warnings(&with_sections(&text)), [UNNAMED]);
}

#[test]
fn issue_39_a_resource_that_routes_pass_by_is_warned_about() {
    const UNBOUND: &str = "t.yaml:3:63: proxy.routes[0]: resource \"app\" does not bound the requests of route \"route-0\", because the route has no namespace; add `namespace` to the route; it may be one without limits";
    const UNNAMED: &str = "t.yaml:2:19: resources.app: no request can name resource \"app\": no route with a namespace leads to an upstream of this name, and no grant has the verb `place` in a namespace of this policy; add `place` to the `verbs` of a grant, or remove the resource";
    let told = |routes: &str, more: &str| {
        warnings(&with_sections(&format!(
            "resources: {{ app: {{ concurrency: 1 }} }}\n\
             proxy: {{ upstreams: {{ app: [\"http://127.0.0.1:2\"] }}, routes: [{routes}] }}\n\
             listen: {{ proxy: 127.0.0.1:1 }}\n{more}"
        )))
    };
    let closed = "authorization: [{ certificate: a, namespaces: [shop], verbs: [check] }]";
    assert_eq!(told("{ upstream: app }", ""), [UNBOUND]);
    assert_eq!(told("{ upstream: app }", closed), [UNNAMED]);
    assert_eq!(told("{ upstream: app, namespace: shop }", closed), [""; 0]);
}

#[test]
fn issue_39_a_queue_in_which_only_a_route_lets_requests_wait_is_not_said_to_be_unused() {
    let told = |queue: &str, route: &str| {
        warnings(&with_sections(&format!(
            "resources: {{ app: {{ concurrency: 1, queue: {{ requests: 9, {queue} }} }} }}\n\
             proxy: {{ upstreams: {{ app: [\"http://127.0.0.1:2\"] }}, \
             routes: [{{ upstream: app, namespace: shop, {route} }}] }}\nlisten: {{ proxy: 127.0.0.1:1 }}"
        )))
    };
    for (queue, route, said) in [
        ("lifo: [critical]", "wait: 2s", &[][..]),
        ("lifo: [critical]", "", &["the queue is never used", "`lifo` has no effect"]),
        ("wait: off", "wait: 2s", &["the queue is never used"]),
        ("delay_target: { critical: 3s }", "wait: 2s", &["above its wait of 2s, so it sheds nothing"]),
        (
            "wait: { critical_plus: off, sheddable: 250ms }",
            "wait: 2s",
            &["class critical_plus does not wait"],
        ),
    ] {
        let told = told(queue, route);
        assert_eq!(told.len(), said.len(), "{queue} {route}: {told:?}");
        assert!(told.iter().zip(said).all(|(line, said)| line.contains(said)), "{queue} {route}: {told:?}");
    }
}

/// The policies of a file: the file itself, or the blocks of YAML of a document.
#[expect(clippy::disallowed_methods, reason = "the test, and not the crate, reads the files")]
fn policies_of(path: &Path) -> Vec<String> {
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("yaml" | "yml") => Vec::from_iter(std::fs::read_to_string(path).ok()),
        Some("md") => {
            let text = std::fs::read_to_string(path).expect("the document can be read");
            let blocks = text.split("```yaml\n").skip(1);
            blocks.filter_map(|block| Some(block.split_once("```")?.0.to_owned())).collect()
        }
        _ => Vec::new(),
    }
}

/// Every file below the folders of a repository that users copy from.
fn files_to_copy() -> Vec<std::path::PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut folders = ["docs", "deploy", "examples", "crates"].map(|name| root.join(name)).to_vec();
    let mut files = vec![root.join("README.md")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("the folder can be listed") {
            let path = entry.expect("the folder can be listed").path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if path.is_file() {
                files.push(path);
            } else if path.is_dir()
                && !name.starts_with(['.', '_'])
                && name != "target"
                && name != "node_modules"
            {
                folders.push(path);
            }
        }
    }
    files
}

#[test]
fn no_committed_policy_has_a_warning_about_its_resources_signals_and_features() {
    let mut with_resources = 0;
    for path in files_to_copy() {
        for text in policies_of(&path) {
            let Ok(checked) = parse("policy.yaml", &text, &|_| None) else { continue };
            with_resources += usize::from(!checked.policy.resources.is_empty());
            let sections = ["resources", "signals", "features"];
            let is_ours = |path: &str| sections.iter().any(|section| path.starts_with(section));
            let told: Vec<String> = checked
                .warnings
                .iter()
                .filter(|warning| is_ours(&warning.path))
                .map(ToString::to_string)
                .collect();
            assert!(told.is_empty(), "{}: {told:#?}", path.display());
        }
    }
    assert!(with_resources >= 3, "only {with_resources} policies have resources");
}

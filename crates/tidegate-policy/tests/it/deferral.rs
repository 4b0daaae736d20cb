//! Deferral of requests: valid settings, and what is said about those that do not work.

use std::time::Duration;

use tidegate_core::Class;
use tidegate_overload::{DeferralConfig, QueueConfig, RoomUse, Share};
use tidegate_policy::compare;
use tidegate_policy::grammar::ValueSource;
use tidegate_policy::policy::deferral::DeferralPolicy;
use tidegate_policy::policy::resources::ResourcePolicy;

use crate::{problems, settings, warnings};

/// A policy whose only resource defers with these keys.
fn with_defer(defer: &str) -> String {
    format!("resources: {{ app: {{ concurrency: 9, defer: {{ {defer} }} }} }}")
}

/// All that is said about a policy whose only resource defers with these keys, from the path of the
/// key on.
fn told(defer: &str) -> Vec<String> {
    let from_path = |line: String| line.split_once("resources.app.").expect("it is about app").1.to_owned();
    problems(&with_defer(defer)).into_iter().map(from_path).collect()
}

#[test]
fn a_resource_defers_classes_by_settings_with_defaults() {
    let text = "
resources:
  app:
    concurrency: 9
    defer:
      classes: [sheddable, sheddable_plus]
      share: 0.25
      horizon: 10m
      max_deferrals: 0
      operation: header.x-operation
      key_file: keys/tickets
    queue: { requests: 5, min_share: { sheddable: 0.05 } }
  plain: { concurrency: 1, defer: { classes: [critical] } }
  refusing: { concurrency: 1 }
";
    let policy = settings(text);
    let [app, plain, refusing] = &policy.resources[..] else { panic!("{:?}", policy.resources) };
    let defer = DeferralConfig {
        share: Share::percent(25),
        horizon: Duration::from_mins(10),
        max_deferrals: 0,
        ..DeferralConfig::new([Class::Sheddable, Class::SheddablePlus])
    };
    assert_eq!(app.config.defer, Some(defer));
    assert_eq!(app.config.waiting_max, Some(RoomUse::new(5, 64 << 20)));
    let deferral = app.deferral.as_ref().unwrap();
    assert_eq!(deferral.operation.as_ref().unwrap().to_string(), "header.x-operation");
    assert_eq!(deferral.key_file.as_deref(), Some("keys/tickets"));
    assert_eq!(plain.config.defer, Some(DeferralConfig::new([Class::Critical])));
    assert_eq!(plain.deferral, Some(DeferralPolicy::default()));
    assert_eq!((refusing.config.defer, &refusing.deferral), (None, &None));
    assert!(policy.overload().build().is_ok());
}

#[test]
fn a_resource_that_defers_and_has_no_queue_has_the_queue_of_the_defaults() {
    let config = |text: &str| settings(text).resources.remove(0).config;
    let plain = config(&with_defer("classes: [sheddable]"));
    assert_eq!(plain.queue, Some(QueueConfig::default()));
    let bounds = RoomUse::new(ResourcePolicy::REQUESTS_DEFAULT, ResourcePolicy::BYTES_DEFAULT);
    assert_eq!(plain.waiting_max, Some(bounds));
    let text = "resources: { app: { concurrency: 9, queue: {}, defer: { classes: [sheddable] } } }";
    assert_eq!(config(text), plain);
}

#[test]
fn an_operation_is_any_source_that_some_protocol_reads() {
    for text in ["header.x-op", "query.op", "path.0", "method", "entry.op", "'\"batch\"'"] {
        let policy = settings(&with_defer(&format!("classes: [sheddable], operation: {text}")));
        let operation: &ValueSource =
            policy.resources[0].deferral.as_ref().unwrap().operation.as_ref().unwrap();
        assert_eq!(operation.to_string(), text.trim_matches('\''));
    }
}

#[test]
fn what_does_not_work_of_deferral_is_told_where_it_stands() {
    for (defer, expected) in [
        (
            "",
            "defer.classes: `classes` is missing; add `classes:`, the classes whose requests are deferred, at least one",
        ),
        (
            "classes: []",
            "defer.classes: no class is deferred; name at least one, such as `classes: [sheddable]`",
        ),
        (
            "classes: [shedable]",
            "defer.classes[0]: \"shedable\" is not a value of this key; did you mean sheddable? It is one of critical_plus, critical, sheddable_plus or sheddable",
        ),
        (
            "classes: [sheddable, critical, sheddable]",
            "defer.classes[2]: class sheddable is listed twice; remove one of them",
        ),
        (
            "classes: [sheddable], share: 0",
            "defer.share: share 0 reserves nothing for those who come back; use a share such as 0.2, or remove `defer`",
        ),
        (
            "classes: [sheddable], share: 1",
            "defer.share: share \"1\" is not a part from 0 to 0.9; write a decimal with at most two places, for example 0.05",
        ),
        (
            "classes: [sheddable], share: -0.1",
            "defer.share: share \"-0.1\" is not a part from 0 to 0.9; write a decimal with at most two places, for example 0.05",
        ),
        (
            "classes: [sheddable], share: 0.125",
            "defer.share: share \"0.125\" is not a part from 0 to 0.9; write a decimal with at most two places, for example 0.05",
        ),
        (
            "classes: [sheddable], share: 0.88 }, queue: { min_share: { sheddable: 0.05, critical: 0.05, sheddable_plus: 0.05 }",
            "defer.share: share 0.88 is more than the 0.85 that can be reserved beside `min_share`; use at most 0.85",
        ),
        (
            "classes: [sheddable], horizon: 9s",
            "defer.horizon: horizon \"9s\" is out of range; use whole seconds from 10s to 1h",
        ),
        (
            "classes: [sheddable], horizon: 61m",
            "defer.horizon: horizon \"61m\" is out of range; use whole seconds from 10s to 1h",
        ),
        (
            "classes: [sheddable], horizon: 10500ms",
            "defer.horizon: horizon \"10500ms\" is out of range; use whole seconds from 10s to 1h",
        ),
        (
            "classes: [sheddable], horizon: 600",
            "defer.horizon: horizon \"600\" is not a span of time; add a unit, for example 600ms or 600s",
        ),
        (
            "classes: [sheddable], max_deferrals: 101",
            "defer.max_deferrals: 101 is out of range; use a whole number from 0 to 100",
        ),
        (
            "classes: [sheddable], operation: log.op",
            "defer.operation: \"log.op\" is a field of a log, and limits that read logs are not available in this version; write header.NAME, cookie.NAME, query.NAME, path, path.N, method, host, jwt.CLAIM, client_ip, entry.NAME, or text in double quotes",
        ),
        (
            "classes: [sheddable], operation: jwt.op",
            "defer.operation: \"jwt.op\" reads a token, and there are no keys to verify tokens with; add `jwt:` under `proxy:`",
        ),
        (
            "classes: [sheddable], key_file: ''",
            "defer.key_file: \"\" is not the path of a file; write a path of 1 to 4096 bytes",
        ),
        ("classes: [sheddable], shares: 0.2", "defer.shares: unknown key \"shares\"; did you mean `share`?"),
    ] {
        assert_eq!(told(defer), [expected], "{defer}");
    }
    let all = "classes: [], share: 2, horizon: 1s, max_deferrals: 200, operation: x, key_file: ''";
    assert_eq!(told(all).len(), 6, "{:#?}", told(all));
}

#[test]
fn all_resources_have_one_key_file() {
    let text = |b: &str, c: &str| {
        format!(
            "resources:\n  a: {{ concurrency: 1, defer: {{ classes: [sheddable], key_file: /k }} }}\n  \
             b: {{ concurrency: 1, defer: {{ classes: [sheddable]{b} }} }}\n  \
             c: {{ concurrency: 1, defer: {{ classes: [sheddable]{c} }} }}\n"
        )
    };
    assert_eq!(settings(&text("", ", key_file: /k")).ticket_key_file(), Some("/k"));
    assert_eq!(settings(&with_defer("classes: [sheddable]")).ticket_key_file(), None);
    assert_eq!(
        problems(&text("", ", key_file: /other")),
        [
            "t.yaml:4:65: resources.c.defer.key_file: resource \"c\" has another key file than resource \"a\", and all tickets have one key; write `key_file: /k`, or remove it here"
        ]
    );
}

/// The warnings about the resource of a policy.
fn warned(text: &str) -> Vec<String> {
    let about = |line: String| Some(line.split_once("resources.app.")?.1.to_owned());
    warnings(text).into_iter().filter_map(about).collect()
}

#[test]
fn tickets_whose_key_no_store_keeps_are_warned_about() {
    let lost = "defer: tickets end with the process, because their key is drawn at the start and kept by no store; add `key_file`, or `store: { kind: embedded }`";
    let app = with_defer("classes: [sheddable]");
    for (store, expected) in [
        ("", &[lost][..]),
        ("store: { kind: memory }", &[lost]),
        ("store: { kind: embedded }", &[]),
        ("store: { kind: redis, urls: [redis://127.0.0.1] }", &[]),
        ("namespaces: { a: { limits: [{ name: day, rate: 9/d }] } }", &[]),
    ] {
        assert_eq!(warned(&format!("{app}\n{store}\n")), expected, "{store}");
    }
    assert_eq!(warned(&with_defer("classes: [sheddable], key_file: /k")), [""; 0]);
}

#[test]
fn an_operation_that_no_request_of_the_resource_has_is_warned_about() {
    let app = |operation: &str| {
        with_defer(&format!("classes: [sheddable], key_file: /k, operation: {operation}"))
            + "\nnamespaces: { a: { limits: [{ name: all, rate: 9/s }] } }\n"
    };
    let routed =
        "proxy: { upstreams: { app: [http://127.0.0.1:1] }, routes: [{ upstream: app, namespace: a }] }\n";
    let unrouted = "defer.operation: no request of the resource has the operation `header.x-op`: no route with a namespace leads to it; write entry.NAME, or text in double quotes; or remove `operation`, and the feature is the operation";
    assert_eq!(warned(&app("header.x-op")), [unrouted]);
    assert_eq!(warned(&app("entry.op")), [""; 0]);
    let everywhere = "listen: { proxy: 127.0.0.1:8000 }\n".to_owned() + routed;
    assert_eq!(warned(&(app("header.x-op") + &everywhere)), [""; 0]);
    assert_eq!(
        warned(&(app("entry.op") + &everywhere)),
        [
            "defer.operation: no request of the resource has the operation `entry.op`: all its requests pass the proxy, which reads no entries; write header.NAME, or another source of a route; or remove `operation`, and the feature is the operation"
        ]
    );
    assert_eq!(warned(&(app("'\"batch\"'") + &everywhere)), [""; 0]);
}

#[test]
fn a_change_of_deferral_needs_no_restart() {
    let (old, new) =
        (settings(&with_defer("classes: [sheddable]")), "classes: [sheddable, critical], share: 0.3");
    let comparison = compare(&old, &settings(&with_defer(new)));
    let changed: Vec<String> = comparison
        .settings
        .iter()
        .map(|one| format!("{}: {} -> {} {}", one.path, one.old, one.new, one.needs_restart))
        .collect();
    assert_eq!(
        changed,
        [
            "resources.app.defer.classes: [sheddable] -> [sheddable, critical] false",
            "resources.app.defer.share: 0.2 -> 0.3 false"
        ]
    );
}

#[test]
fn a_route_reads_the_operation_that_the_resource_of_its_upstream_names() {
    let routes = "
namespaces: { a: { limits: [{ name: all, rate: 9/s }] } }
proxy:
  upstreams: { app: [http://127.0.0.1:1], other: [http://127.0.0.1:2] }
  routes:
    - { match: { path: /free }, upstream: app }
    - { match: { path: /other }, upstream: other, namespace: a }
    - { upstream: app, namespace: a }
";
    for (operation, expected) in [
        ("operation: header.x-op", Some("header.x-op")),
        ("operation: path.0", Some("path.0")),
        ("operation: '\"batch\"'", Some("\"batch\"")),
        ("operation: entry.op", None),
        ("", None),
    ] {
        let policy = settings(&(with_defer(&format!("classes: [sheddable], {operation}")) + routes));
        let routes = policy.proxy.routes.iter();
        let sources: Vec<_> = routes.map(|route| route.operation.as_ref().map(ToString::to_string)).collect();
        assert_eq!(sources, [None, None, expected.map(str::to_owned)], "{operation}");
        let last = policy.proxy.routes.last().unwrap();
        let is_read = |source: &str| last.sources().any(|one| one.to_string() == source);
        assert!(expected.is_none_or(is_read), "{operation}");
    }
}

//! Streams: `hold` of routes and `streams` of resources.

use tidegate_overload::ResourceConfig;
use tidegate_policy::policy::proxy::RouteHold;

use crate::{problems, settings, warnings};

/// A policy with a route to `app` and these resources.
fn policy(route: &str, resources: &str) -> String {
    format!(
        "listen: {{ proxy: 127.0.0.1:0 }}
namespaces: {{ shop: {{ limits: [{{ name: all, rate: 1000/s }}] }} }}
resources: {{ {resources} }}
proxy:
  upstreams: {{ app: ['http://127.0.0.1:1'], other: ['http://127.0.0.1:1'] }}
  routes:
    - {{ upstream: app, {route} }}
"
    )
}

/// The problems, each from the path of its key on.
fn told(route: &str, resources: &str) -> Vec<String> {
    let from_path = |line: String| line.splitn(4, ':').nth(3).expect("a place and a text").trim().to_owned();
    problems(&policy(route, resources)).into_iter().map(from_path).collect()
}

#[test]
fn issue_39_a_route_holds_its_place_to_the_end_and_a_resource_has_a_thousand_streams_unless_told_otherwise() {
    let usual = settings(&policy("namespace: shop", "app: { concurrency: 4 }"));
    assert_eq!(usual.proxy.routes[0].hold, RouteHold::End);
    assert_eq!(usual.resources[0].config.streams_max, ResourceConfig::STREAMS);
    assert_eq!(usual.stream_namespaces("app").count(), 0);
    let route = "namespace: shop, hold: first_byte";
    let told = settings(&policy(route, "app: { concurrency: 4, streams: 20 }"));
    assert_eq!(told.proxy.routes[0].hold, RouteHold::FirstByte);
    assert_eq!(told.resources[0].config.streams_max, 20);
    assert_eq!(told.stream_namespaces("app").collect::<Vec<_>>(), ["shop"]);
    assert_eq!(told.stream_namespaces("other").count(), 0);
}

#[test]
fn issue_39_first_byte_needs_a_namespace_and_a_resource_of_the_upstream() {
    assert_eq!(
        told("namespace: shop, hold: first_byte", "other: { concurrency: 4 }"),
        [
            "proxy.routes[0].hold: hold \"first_byte\" has no place to give back, because upstream \"app\" has no resource; add `resources: { app: { concurrency: 20, streams: 1000 } }` with how many requests the upstream works on at once, or remove `hold`"
        ]
    );
    assert_eq!(
        told("hold: first_byte", "app: { concurrency: 4 }"),
        [
            "proxy.routes[0].hold: hold \"first_byte\" is of no effect, because the route has no namespace; add `namespace:`, which may be one without limits, or remove `hold`"
        ]
    );
}

#[test]
fn issue_39_a_number_of_streams_that_refuses_all_or_bounds_none_is_told_with_its_remedy() {
    let route = "namespace: shop, hold: first_byte";
    assert_eq!(
        told(route, "app: { concurrency: 4, streams: 0 }"),
        [
            "resources.app.streams: streams 0 would refuse every request of routes with `hold: first_byte`; use 1 to 1000000; or remove `hold` from the routes, whose requests then keep their places to the end"
        ]
    );
    assert_eq!(
        told(route, "app: { concurrency: 4, streams: 1000001 }"),
        ["resources.app.streams: streams 1000001 is out of range; use 1 to 1000000"]
    );
}

#[test]
fn issue_39_streams_without_a_route_that_has_some_are_warned_about() {
    let idle = "app: { concurrency: 4, streams: 20 }";
    assert_eq!(
        warnings(&policy("namespace: shop", idle)),
        [
            "t.yaml:3:46: resources.app.streams: the streams of resource \"app\" bound nothing, because no route to it has `hold: first_byte`; add `hold: first_byte` to the routes with streams, or remove `streams`"
        ]
    );
    assert_eq!(warnings(&policy("namespace: shop, hold: first_byte", idle)), [""; 0]);
    // Shares divide streams, also where no queue waits.
    let shared = "app: { concurrency: 4, shares: { shop: 2 } }";
    assert_eq!(warnings(&policy("namespace: shop, hold: first_byte", shared)), [""; 0]);
}

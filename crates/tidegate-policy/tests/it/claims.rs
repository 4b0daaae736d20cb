//! Where requests say more about themselves: valid settings, and the messages about invalid ones.

use tidegate_core::Class;
use tidegate_policy::compare;
use tidegate_policy::policy::claims::RequestClaims;

use crate::{problems, settings, warnings};

const POLICY: &str = "
listen: { proxy: 127.0.0.1:8000 }
features: [reports, search]
authorization: [{ name: batch, token: 0123456789abcdef, namespaces: [shop], ceiling: sheddable }]
namespaces:
  shop:
    limits: [{ name: all, rate: 100/s }]
    tables: [{ name: orders, provisioned: { read: 10, write: 10 } }]
    request:
      tenant: entry.account
      class: { from: entry.class, default: sheddable, ceiling: critical }
      feature: entry.part
      tenants: { gold: critical_plus, batch: sheddable }
      deadline: entry.wait
      attempt: '\"1\"'
      ticket: entry.slot
      access: { table: '\"orders\"', key: entry.account, kind: entry.op, size: entry.bytes }
  plain: { limits: [{ name: all, rate: 1/s }] }
proxy:
  trusted: [10.0.0.0/8]
  jwt: { unverified: true }
  upstreams: { app: [http://127.0.0.1:3000] }
  routes:
    - upstream: app
      namespace: shop
      attributes: { account: jwt.sub }
      tenant: account
      class: { from: jwt.class }
      feature: path.0
      deadline: query.wait
      attempt: jwt.attempt
      access: { table: '\"orders\"', key: path.1, kind: method, size: header.content-length }
";

#[test]
fn a_namespace_and_a_route_say_where_requests_describe_themselves() {
    assert_eq!(warnings(POLICY), [""; 0]);
    let policy = settings(POLICY);
    let shop = &policy.namespace("shop").unwrap().request;
    assert_eq!(shop.tenant.to_string(), "entry.account");
    assert_eq!((shop.class.default, shop.class.ceiling), (Class::Sheddable, Class::Critical));
    assert_eq!(shop.feature.to_string(), "entry.part");
    assert_eq!(RequestClaims::default().feature.to_string(), "entry.feature");
    assert_eq!(shop.ticket.to_string(), "entry.slot");
    assert_eq!(RequestClaims::default().ticket.to_string(), "entry.ticket");
    assert_eq!(shop.tenants.get("gold"), Some(&Class::CriticalPlus));
    let sources: Vec<String> = shop.access.as_ref().unwrap().sources().map(ToString::to_string).collect();
    assert_eq!(sources, ["\"orders\"", "entry.account", "entry.op", "entry.bytes"]);
    assert_eq!(policy.namespace("plain").unwrap().request, RequestClaims::default());
    let route = &policy.proxy.routes[0];
    assert_eq!(route.class.ceiling, Class::CriticalPlus, "a claim of a token is not the client's");
    let sources: Vec<String> = route.sources().map(ToString::to_string).collect();
    let expected =
        ["jwt.sub", "jwt.class", "path.0", "query.wait", "jwt.attempt", "\"orders\"", "path.1", "method"];
    assert_eq!(sources[..8], expected);
    assert_eq!(policy.authorization[0].ceiling, Class::Sheddable);
}

#[test]
fn a_class_that_the_client_writes_is_bounded_by_the_default_unless_the_route_says_otherwise() {
    for (class, ceiling) in [
        ("{ from: header.x-class }", Class::SheddablePlus),
        ("{ from: query.class, default: sheddable }", Class::Sheddable),
        ("{ from: header.x-class, ceiling: critical }", Class::Critical),
        ("{ default: critical }", Class::CriticalPlus),
    ] {
        let text = POLICY.replace("{ from: jwt.class }", class);
        assert_eq!(settings(&text).proxy.routes[0].class.ceiling, ceiling, "{class}");
    }
}

#[test]
fn a_source_or_table_that_cannot_be_is_told_with_its_place_and_a_fix() {
    for (from, to, expected) in [
        (
            "tenant: entry.account",
            "tenant: header.x-account",
            "namespaces.shop.request.tenant: \"header.x-account\" is a part of an HTTP request that only the reverse proxy \
             sees; write entry.NAME, or text in double quotes",
        ),
        (
            "from: entry.class",
            "from: log.class",
            "namespaces.shop.request.class.from: \"log.class\" is a field of a log, and limits that read logs are not \
             available in this version; write entry.NAME",
        ),
        (
            "key: path.1",
            "key: entry.order",
            "proxy.routes[0].access.key: \"entry.order\" is an entry of a descriptor, and a proxied request has none; write \
             header.NAME",
        ),
        (
            "{ table: '\"orders\"', key: path.1",
            "{ table: '\"order\"', key: path.1",
            "proxy.routes[0].access.table: table \"order\" is not one of namespace \"shop\"; did you mean orders?",
        ),
        (
            "{ table: '\"orders\"', key: entry.account",
            "{ table: '\"users\"', key: entry.account",
            "namespaces.shop.request.access.table: table \"users\" is not one of namespace \"shop\"; name one of its \
             `tables:`",
        ),
        (
            "{ limits: [{ name: all, rate: 1/s }] }",
            "{ limits: [], request: { access: { table: entry.t, key: entry.k } } }",
            "namespaces.plain.request.access: namespace \"plain\" has no tables; add some under its `tables:`",
        ),
        (
            "default: sheddable, ceiling: critical",
            "default: critical, ceiling: sheddable",
            "namespaces.shop.request.class.ceiling: the ceiling sheddable is below the default critical; raise it",
        ),
        ("gold: critical_plus", "gold: urgent", "namespaces.shop.request.tenants.gold: "),
        (
            "ticket: entry.slot",
            "ticket: header.x-ticket",
            "namespaces.shop.request.ticket: \"header.x-ticket\" is a part of an HTTP request that only the reverse \
             proxy sees",
        ),
        (
            "feature: entry.part",
            "feature: path.0",
            "namespaces.shop.request.feature: \"path.0\" is a part of an HTTP request that only the reverse proxy sees",
        ),
        (
            "feature: path.0",
            "feature: entry.part",
            "proxy.routes[0].feature: \"entry.part\" is an entry of a descriptor, and a proxied request has none",
        ),
        (
            "jwt: { unverified: true }",
            "waiting: 1",
            "proxy.routes[0].class.from: \"jwt.class\" reads a token",
        ),
    ] {
        assert!(POLICY.contains(from), "{from}");
        let lines = problems(&POLICY.replacen(from, to, 1));
        assert!(lines.iter().any(|line| line.contains(expected)), "{to}: {lines:#?}");
    }
    let without = POLICY.replace("      namespace: shop\n", "");
    let lines = problems(&without);
    assert!(lines[0].contains("the access is of no effect, because the route has no namespace"), "{lines:?}");
}

#[test]
fn a_change_of_what_requests_say_needs_no_restart_and_is_shown() {
    let other = POLICY
        .replace("gold: critical_plus", "gold: critical")
        .replace("ceiling: sheddable }", "ceiling: critical }");
    let settings = compare(&settings(POLICY), &settings(&other)).settings;
    assert!(settings.iter().all(|one| !one.needs_restart), "{settings:?}");
    let [tenant, grant] = settings.as_slice() else { panic!("{settings:?}") };
    assert_eq!(tenant.path, "namespaces.shop.request.tenants.gold");
    assert_eq!((tenant.old.as_str(), tenant.new.as_str()), ("critical_plus", "critical"));
    assert_eq!(grant.path, "authorization.batch.ceiling");
    assert_eq!((grant.old.as_str(), grant.new.as_str()), ("sheddable", "critical"));
}

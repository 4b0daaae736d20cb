//! The reverse proxy: valid settings, and the messages about invalid ones.

use std::time::Duration;
use tidegate_policy::policy::ListenerRole;

use tidegate_core::Class;
use tidegate_policy::parse;
use tidegate_policy::policy::proxy::{ClientHeader, Retry, Trust, UnusualPaths, UpstreamTls};

fn problems(text: &str) -> Vec<String> {
    let problems = match parse("t.yaml", text, &|_| None) {
        Ok(checked) => panic!("no problem in {text}\n{:?}", checked.policy),
        Err(problems) => problems,
    };
    problems.problems.iter().map(|one| format!("{}: {}; {}", one.path, one.what, one.fix)).collect()
}

const NAMESPACE: &str = "namespaces: { api: { limits: [{ name: all, rate: 1/s }] } }\n";

#[test]
fn the_design_s_example_is_read_as_it_stands() {
    let text = format!(
        "{NAMESPACE}listen: {{ proxy: 127.0.0.1:8000 }}
proxy:
  upstreams: {{ app: [http://127.0.0.1:3000] }}
  trusted: [10.0.0.0/8]
  jwt: {{ keys_file: /run/keys.pem, issuer: us }}
  routes:
    - match: {{ path: \"/v1/*\" }}
      upstream: app
      namespace: api
      attributes: {{ api_key: header.x-api-key, user: jwt.sub, session: cookie.sid, method: method, ip: client_ip }}
      class: {{ from: header.x-class, default: sheddable_plus }}
"
    );
    let checked = parse("t.yaml", &text, &|_| None).unwrap();
    assert_eq!(checked.warnings, []);
    let proxy = &checked.policy.proxy;
    assert_eq!(checked.policy.listener(ListenerRole::Proxy).unwrap().address.to_string(), "127.0.0.1:8000");
    assert_eq!(proxy.upstreams[0].servers, ["http://127.0.0.1:3000".parse().unwrap()]);
    assert_eq!(proxy.trusted, ["10.0.0.0/8".parse().unwrap()]);
    assert_eq!(proxy.jwt.as_ref().unwrap().trust, Trust::KeysFile("/run/keys.pem".to_owned()));
    let route = &proxy.routes[0];
    assert_eq!((route.name.as_str(), route.path.as_ref().unwrap().as_str()), ("route-0", "/v1/*"));
    assert_eq!((route.upstream.as_str(), route.namespace.as_deref()), ("app", Some("api")));
    assert_eq!(route.attributes.len(), 5);
    assert_eq!(route.class.from, Some("header.x-class".parse().unwrap()));
    assert_eq!((route.class.default, route.class.ceiling), (Class::SheddablePlus, Class::SheddablePlus));
    assert_eq!((route.wait, route.retry, route.timeouts.total), (Duration::ZERO, Retry::Idempotent, None));
}

#[test]
fn everything_may_be_said() {
    let text = format!(
        "{NAMESPACE}listen: {{ proxy: 127.0.0.1:8000 }}
proxy:
  upstreams:
    app:
      servers: [http://a:1, \"http://[::1]:2\"]
      http2: true
      connect_timeout: 2s
      idle_connections: 0
      failures: 0
      out_for: 1m
      health: {{ path: /healthz, interval: 1s, timeout: 100ms }}
  client_header: forwarded
  paths: normalise
  jwt: {{ unverified: true, audiences: [a], leeway: 0s }}
  waiting: 0
  keep_headers: [X-Original-URL, api_key]
  access_log: true
  routes:
    - name: all
      match: {{ host: {{ suffix: .example }}, method: [GET, HEAD] }}
      upstream: app
      namespace: api
      attributes: {{ user: 'jwt.org.\"a.b\"', kind: '\"shop\"', first: path.0 }}
      tenant: user
      deadline: X-Wait-Ms
      cost: {{ units: 2, body: 1KiB, from_response: X-Cost }}
      wait: 2s
      timeouts: {{ first_byte: 10s, idle: 5s, total: 1h }}
      retry: connect
      upgrades: [WebSocket, chat/1]
      refusal: {{ content_type: text/html, body: <p>no }}
"
    );
    let checked = parse("t.yaml", &text, &|_| None).unwrap();
    let proxy = &checked.policy.proxy;
    assert!(proxy.access_log && proxy.waiting == 0);
    assert_eq!(
        (proxy.client_header, proxy.unusual_paths),
        (ClientHeader::Forwarded, UnusualPaths::Normalise)
    );
    let upstream = &proxy.upstreams[0];
    assert!(upstream.http2 && upstream.failures == 0 && upstream.idle_connections == 0);
    let route = &proxy.routes[0];
    assert_eq!(route.methods, ["GET", "HEAD"]);
    assert!(route.host.as_ref().unwrap().matches(Some("shop.example")));
    assert_eq!((route.cost.units.unwrap().units(), route.cost.body_bytes.unwrap().get()), (2, 1024));
    assert_eq!(
        (route.cost.from_response[0].to_string().as_str(), &route.deadline),
        ("header.x-cost", &Some("header.x-wait-ms".parse().unwrap()))
    );
    assert_eq!((route.wait, route.timeouts.total), (Duration::from_secs(2), Some(Duration::from_hours(1))));
    assert_eq!(route.refusal.as_ref().unwrap().content_type, "text/html");
    assert_eq!(route.upgrades, ["websocket", "chat/1"]);
    assert_eq!(proxy.keep_headers, ["x-original-url", "api_key"]);
}

#[test]
fn http_2_and_tls_cannot_be_allowed_as_a_change_of_protocol() {
    for protocol in ["h2c", "H2C", "h2", "h2c-14", "HTTP/2.0", "TLS/1.2", "h3"] {
        let text = format!(
            "{NAMESPACE}listen: {{ proxy: 127.0.0.1:8000 }}
proxy:
  upstreams: {{ app: [http://a] }}
  routes: [{{ upstream: app, upgrades: [websocket, {protocol}] }}]
"
        );
        let problems = problems(&text);
        assert!(
            problems[0].starts_with("proxy.routes[0].upgrades[1]: ") && problems.len() == 1,
            "{problems:?}"
        );
        assert!(problems[0].contains("a tunnel past every limit"), "{problems:?}");
    }
}

#[test]
fn a_host_or_method_that_no_request_has_is_warned_of() {
    let text = format!(
        "{NAMESPACE}listen: {{ proxy: 127.0.0.1:8000 }}
proxy:
  upstreams: {{ app: [http://a] }}
  routes:
    - {{ upstream: app, match: {{ host: Limited.example., method: [GET, TRACE] }} }}
    - {{ upstream: app, match: {{ host: [a.example, \"b.example:80\", \"[::1]\", \"[0:0::1]\"] }} }}
"
    );
    let warnings = parse("t.yaml", &text, &|_| None).unwrap().warnings;
    let warnings: Vec<String> =
        warnings.iter().map(|one| format!("{}: {}; {}", one.path, one.what, one.fix)).collect();
    let ends = ["write limited.example", "answers it with 405; remove it", "write b.example", "write [::1]"];
    for end in ends {
        assert!(warnings.iter().any(|warning| warning.ends_with(end)), "{end}: {warnings:?}");
    }
    assert_eq!(
        warnings.iter().filter(|warning| warning.contains("matches no request")).count(),
        4,
        "{warnings:?}"
    );
}

#[test]
fn what_cannot_work_is_told_with_its_place_and_a_fix() {
    let text = format!(
        "{NAMESPACE}proxy:
  upstreams: {{ app: [127.0.0.1:3000, https://a, http://a/x, http://a:0, ftp://a, https://-a], none: [] }}
  trusted: [10.0.0.0/8, lots]
  jwt: {{ secret_file: s, keys_file: k }}
  routes:
    - {{ upstream: ap, namespace: apl, wait: 2h }}
    - match: {{ path: v1/*, method: [get] }}
      upstream: app
      attributes: {{ user: headers.x, key: header., claim: jwt. }}
      tenant: usr
      class: {{ from: entry.class }}
      deadline: no header
      cost: {{ body: 0B }}
      timeouts: {{ idle: 0s }}
    - {{ name: route-1, upstream: app, match: {{ path: /a/../b }} }}
    - {{ upstream: app, match: {{ path: '^/x.*' }} }}
"
    );
    let all = problems(&text).join("\n");
    for expected in [
        "proxy.upstreams.app[0]: server \"127.0.0.1:3000\" has no scheme; write http://127.0.0.1:3000",
        "proxy.upstreams.app[2]: server \"http://a/x\" has more than a host and a port",
        "proxy.upstreams.app[3]: server \"http://a:0\" has no port",
        "proxy.upstreams.app[4]: server \"ftp://a\" is of a scheme that is neither http nor https",
        "proxy.upstreams.app[5]: server \"https://-a\" has a host that no certificate can be for; say what it is as",
        "proxy.upstreams.none: upstream \"none\" has 0 servers; list 1 to 256",
        "proxy.trusted[1]: ",
        "proxy.jwt: expected one way to verify tokens, found 2; give one of",
        "proxy.routes[0].upstream: upstream \"ap\" is not under `proxy.upstreams:`; did you mean app?",
        "proxy.routes[0].namespace: namespace \"apl\" is not under `namespaces:`; did you mean api?",
        "proxy.routes[0].wait: wait \"2h\" is out of range; use a span from 0s to 1h",
        "proxy.routes[1].match.path: path \"v1/*\" does not begin with /; write /v1/*",
        "proxy.routes[1].match.method[0]: \"get\" is not a method; write it in capitals",
        "proxy.routes[1].attributes.user: \"headers.x\" is not a source of a value: it names no part of a request; did you mean header.NAME?",
        "proxy.routes[1].attributes.key: \"header.\" is not a source of a value",
        "proxy.routes[1].attributes.claim: \"jwt.\" is not a source of a value",
        "proxy.routes[1].tenant: tenant \"usr\" is not under `attributes:`; did you mean user?",
        "proxy.routes[1].class.from: \"entry.class\" is an entry of a descriptor, and a proxied request has none; write header.NAME",
        "proxy.routes[1].deadline: \"no header\" is not the name of a header",
        "proxy.routes[1].cost.body: ",
        "proxy.routes[1].timeouts.idle: idle \"0s\" is out of range; use a span from 1ms to 1d",
        "proxy.routes[2].name: duplicate route name \"route-1\"; first defined at line ",
        "proxy.routes[3].match.path: path \"^/x.*\" is a regular expression, and paths are globs; write /x*",
        "proxy.routes[2].match.path: path \"/a/../b\" contains a segment that the proxy rejects before it matches routes",
    ] {
        assert!(all.contains(expected), "{expected}\n{all}");
    }
}

#[test]
fn tls_to_an_upstream_needs_no_more_than_https() {
    let text = "proxy:
  upstreams:
    plain: [https://a, https://10.0.0.1:8443, \"https://[::1]:1/\", http://a]
    empty: { servers: [https://a], tls: {} }
    whole: { servers: [https://-], tls: { ca: ca.pem, cert: c.pem, key: k.pem, server_name: app.internal } }
";
    let checked = parse("t.yaml", text, &|_| None).unwrap();
    let [empty, plain, whole] = &checked.policy.proxy.upstreams[..] else { panic!("three upstreams") };
    assert_eq!((&empty.tls, &plain.tls), (&Some(UpstreamTls::default()), &None));
    let tls = whole.tls.as_ref().unwrap();
    assert_eq!((tls.ca.as_deref(), tls.server_name.as_deref()), (Some("ca.pem"), Some("app.internal")));
    assert_eq!(tls.identity, Some(("c.pem".to_owned(), "k.pem".to_owned())));
}

#[test]
fn tls_to_an_upstream_that_cannot_work_is_told_with_its_place_and_a_fix() {
    let text = "proxy:
  upstreams:
    a: { servers: [https://a, http://b:80], tls: {} }
    b: { servers: [https://b], tls: { cert: c.pem } }
    c: { servers: [https://c], tls: { key: k.pem, ca: '' } }
    d: { servers: [https://d], tls: { server_name: 'https://d' } }
    e: { servers: [https://e], tls: { server_name: 1.2.3 } }
    f: { servers: [https://f], tls: { insecure: true } }
";
    let all = problems(text).join("\n");
    for expected in [
        "proxy.upstreams.a.servers[1]: server \"http://b:80\" is connected to without TLS, and its upstream has `tls`; \
         write https://b:80, or take `tls` out",
        "proxy.upstreams.b.tls: cert without its key; name its private key as `key`",
        "proxy.upstreams.c.tls: key without a certificate; name its certificate as `cert`",
        "proxy.upstreams.c.tls.ca: ",
        "proxy.upstreams.d.tls.server_name: \"https://d\" is not the name of a server; write a host name or an address",
        "proxy.upstreams.e.tls.server_name: ",
    ] {
        assert!(all.contains(expected), "{expected}\n{all}");
    }
    assert!(all.contains("insecure"), "there is no way around the checks\n{all}");
}

#[test]
fn a_claim_without_a_way_to_check_it_is_a_problem() {
    let text = format!(
        "{NAMESPACE}proxy: {{ upstreams: {{ a: [http://a] }}, routes: [{{ upstream: a, attributes: {{ user: jwt.sub }} }}] }}"
    );
    assert_eq!(
        problems(&text),
        [
            "proxy.routes[0].attributes.user: \"jwt.sub\" reads a token, and there are no keys to verify tokens with; add `jwt:` under `proxy:`"
        ]
    );
}

#[test]
fn routes_and_a_listener_belong_together() {
    let warning = |text: &str| {
        let checked = parse("t.yaml", text, &|_| None).unwrap();
        checked.warnings.iter().map(|one| one.what.clone()).collect::<Vec<_>>()
    };
    let text = format!("{NAMESPACE}proxy: {{ upstreams: {{ a: [http://a] }}, routes: [{{ upstream: a }}] }}");
    assert_eq!(warning(&text), ["there are routes, and no listener that takes requests for them"]);
    let text = format!("{NAMESPACE}listen: {{ proxy: 127.0.0.1:8000 }}");
    assert_eq!(warning(&text), ["there is no route, so every request is answered 404"]);
}

#[test]
fn an_address_that_any_client_may_write_is_warned_of() {
    let warnings = |source: &str, trusted: &str| {
        let text = format!(
            "{NAMESPACE}listen: {{ proxy: 127.0.0.1:8000 }}
proxy:
  upstreams: {{ app: [http://a] }}
  trusted: [{trusted}]
  routes: [{{ upstream: app, attributes: {{ ip: {source} }} }}]
"
        );
        let warnings = parse("t.yaml", &text, &|_| None).unwrap().warnings;
        warnings.iter().filter(|one| one.what.contains("any client may send")).count()
    };
    for source in ["header.X-Real-IP", "header.x-forwarded-for", "header.cf-connecting-ip"] {
        assert_eq!((warnings(source, ""), warnings(source, "10.0.0.0/8")), (1, 0), "{source}");
    }
    assert_eq!(warnings("client_ip", ""), 0);
}

#[test]
fn a_trusted_network_with_bits_behind_its_prefix_is_a_problem() {
    let trusting = |networks: &str| format!("{NAMESPACE}proxy: {{ trusted: [{networks}] }}\n");
    for (network, expected) in [
        (
            "10.1.2.3/8",
            "network \"10.1.2.3/8\" has bits set behind its prefix; write 10.0.0.0/8, or the address without a prefix",
        ),
        (
            "'2001:db8::1/32'",
            "network \"2001:db8::1/32\" has bits set behind its prefix; write 2001:db8::/32, or the address without a prefix",
        ),
        ("10/8", "invalid network \"10/8\"; write for example 10.0.0.0/8, 2001:db8::/32 or a single address"),
    ] {
        let found = problems(&trusting(network)).join("\n");
        assert!(found.contains(&format!("proxy.trusted[0]: {expected}")), "{network}: {found}");
    }
    let networks =
        "10.0.0.0/8, 192.0.2.1, '2001:db8::/32', '::1', '::ffff:10.0.0.0/104', '::ffff:0.0.0.0/96', '::/0'";
    let checked = parse("t.yaml", &trusting(networks), &|_| None).unwrap();
    let shown: Vec<_> = checked.policy.proxy.trusted.iter().map(ToString::to_string).collect();
    let expected =
        ["10.0.0.0/8", "192.0.2.1/32", "2001:db8::/32", "::1/128", "10.0.0.0/8", "0.0.0.0/0", "::/0"];
    assert_eq!(shown, expected);
}

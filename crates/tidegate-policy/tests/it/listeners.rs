//! Where the reverse proxy listens, and how it knows who connects.

use tidegate_policy::compare;
use tidegate_policy::policy::ListenerRole;

use super::{check, problems, settings};

/// A policy with this listener and these trusted peers, counting by the client's address.
fn policy(listener: &str, trusted: &str) -> String {
    format!(
        "namespaces: {{ api: {{ limits: [{{ name: all, rate: 1/s }}] }} }}
listen: {{ {listener} }}
proxy:
  upstreams: {{ app: [http://a] }}
  trusted: [{trusted}]
  routes: [{{ upstream: app, namespace: api, attributes: {{ ip: client_ip }} }}]
"
    )
}

fn warnings(text: &str) -> Vec<String> {
    check(text)
        .expect("it has no problems")
        .warnings
        .iter()
        .map(|one| format!("{}: {}", one.path, one.what))
        .collect()
}

#[test]
fn the_proxy_protocol_is_expected_where_it_is_asked_for() {
    let expected = policy("proxy: { address: 127.0.0.1:8000, proxy_protocol: true }", "10.0.0.0/8");
    let with_it = settings(&expected).listen.into_iter().filter(|listener| listener.proxy_protocol);
    assert_eq!(with_it.map(|listener| listener.role).collect::<Vec<_>>(), [ListenerRole::Proxy]);
    assert_eq!(warnings(&expected), [""; 0]);
    let not = policy("proxy: 127.0.0.1:8000", "");
    assert!(!settings(&not).listener(ListenerRole::Proxy).unwrap().proxy_protocol);
}

#[test]
fn a_listener_that_would_close_every_connection_is_a_problem() {
    let listener = "proxy: { address: 127.0.0.1:8000, proxy_protocol: true }";
    for trusted in ["", "unix"] {
        let told = problems(&policy(listener, trusted)).join(" ");
        assert!(told.contains("every connection would be closed"), "{told}");
        assert!(told.contains("add the address of the balancer to `trusted:` under `proxy:`"), "{told}");
    }
    let listener = "proxy: { address: 'unix:/run/t.sock', proxy_protocol: true }";
    let told = problems(&policy(listener, "10.0.0.0/8")).join(" ");
    assert!(told.contains("add `trusted: [unix]` under `proxy:`"), "{told}");
    assert!(settings(&policy(listener, "unix")).listener(ListenerRole::Proxy).unwrap().proxy_protocol);
}

#[test]
fn only_the_proxy_listens_behind_the_proxy_protocol() {
    for name in ["http", "admin"] {
        let listener = format!("{name}: {{ address: 127.0.0.1:8082, proxy_protocol: true }}");
        let told = problems(&policy(&listener, "10.0.0.0/8")).join(" ");
        assert!(told.contains("only read where requests are passed on"), "{told}");
        assert!(told.contains(&format!("listen.{name}.proxy_protocol")), "{told}");
    }
}

#[test]
fn peers_on_a_unix_socket_may_be_trusted_and_are_nobody_otherwise() {
    let listener = "proxy: 'unix:/run/t.sock'";
    let proxy = settings(&policy(listener, "unix, 10.0.0.0/8")).proxy;
    assert!(proxy.trusts_unix);
    assert_eq!(proxy.trusted, ["10.0.0.0/8".parse().unwrap()]);
    assert_eq!(warnings(&policy(listener, "unix")), [""; 0]);
    assert_eq!(
        warnings(&policy(listener, "127.0.0.0/8")),
        ["listen.proxy: client_ip is always absent, because peers on a Unix socket have no address"]
    );
}

#[test]
fn expecting_the_proxy_protocol_is_a_change_that_needs_a_restart() {
    let before = settings(&policy("proxy: 127.0.0.1:8000", "10.0.0.0/8"));
    let after = settings(&policy("proxy: { address: 127.0.0.1:8000, proxy_protocol: true }", "10.0.0.0/8"));
    let changes = compare(&before, &after).settings;
    let told: Vec<_> =
        changes.iter().map(|one| (one.path.as_str(), one.new.as_str(), one.needs_restart)).collect();
    assert_eq!(told, [("listen.proxy.proxy_protocol", "true", true)]);
}

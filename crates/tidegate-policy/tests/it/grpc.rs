//! Where gRPC is listened for.

use tidegate_policy::policy::{Address, ListenerRole};

use super::{check, problems, settings};

fn policy(listen: &str) -> String {
    format!("namespaces: {{ api: {{ limits: [{{ name: all, rate: 1/s }}] }} }}\nlisten: {{ {listen} }}\n")
}

#[test]
fn grpc_is_listened_for_where_it_is_asked_for_and_nowhere_else() {
    assert!(settings(&policy("http: 127.0.0.1:8080")).listener(ListenerRole::Grpc).is_none());
    let listener = settings(&policy("grpc: 127.0.0.1:8081")).listener(ListenerRole::Grpc).unwrap().clone();
    assert_eq!(listener.address.to_string(), "127.0.0.1:8081");
    let tls = "grpc: { address: 'unix:/run/t.sock', tls: { cert: a, key: b, client_ca: c } }";
    let listener = settings(&policy(tls)).listener(ListenerRole::Grpc).unwrap().clone();
    assert_eq!(listener.address, Address::Unix("/run/t.sock".into()));
    assert_eq!(listener.tls.unwrap().client_ca.as_deref(), Some("c"));
}

#[test]
fn an_address_of_another_listener_or_beyond_this_machine_is_a_problem() {
    let told = problems(&policy("http: 127.0.0.1:8080, grpc: 127.0.0.1:8080")).join(" ");
    assert!(told.contains("listen.grpc: grpc listens on 127.0.0.1:8080 as another listener does"), "{told}");
    let told = problems(&policy("grpc: 0.0.0.0:8081")).join(" ");
    assert!(told.contains("listen.grpc: 0.0.0.0:8081 is reachable from other machines"), "{told}");
    assert!(check(&policy("grpc: { address: '0.0.0.0:8081', insecure: true }")).is_ok());
    assert!(check(&policy("http: 127.0.0.1:0, grpc: 127.0.0.1:0")).is_ok(), "any free port");
}

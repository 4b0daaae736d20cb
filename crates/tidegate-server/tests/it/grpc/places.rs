//! Where the listener is, and whom it serves.

use std::sync::Arc;
use std::time::Duration;

use prost::Message;
use rcgen::ExtendedKeyUsagePurpose;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tidegate_policy::policy::Tls;
use tidegate_server::{Address, ListenerRole, ManualClock, from_policy};
use tidegate_test_support::TemporaryFolder;
use tidegate_wire::envoy::{RateLimitDescriptor, SHOULD_RATE_LIMIT};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsConnector;

use super::hostile::{exchange, framed};
use super::{back, config, request, user, weighing};
use crate::authority::Authority;
use crate::world::{START, World, api};

fn message(domain: &str, descriptor: RateLimitDescriptor) -> Vec<u8> {
    framed(&request(domain, &[descriptor]).encode_to_vec())
}

#[tokio::test]
async fn it_is_on_a_unix_socket_as_well() {
    let folder = TemporaryFolder::new();
    let path = folder.path().join("grpc.sock");
    let mut config = config();
    config.listen(ListenerRole::Grpc, Address::Unix(path.clone()));
    let world = World::with([api()], config).await;
    let stream = UnixStream::connect(&path).await.unwrap();
    let told = exchange(stream, SHOULD_RATE_LIMIT, None, message("api", user("ada"))).await;
    assert_eq!(told, ("0".to_owned(), String::new()));
    assert_eq!(world.handle.shutdown().await.cut_off, 0);
    assert!(!path.exists());
}

#[tokio::test]
async fn it_speaks_tls_and_then_nothing_else() {
    let (folder, authority) = (TemporaryFolder::new(), Authority::new());
    let issued = authority.issue(ExtendedKeyUsagePurpose::ServerAuth);
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let files = Tls { cert: write("cert", &issued.cert), key: write("key", &issued.key), client_ca: None };
    let mut config = config();
    config.listen(ListenerRole::Grpc, "127.0.0.1:0".parse().unwrap()).tls = Some(files);
    let world = World::with([api()], config).await;
    let address = world.handle.grpc().unwrap().tcp().unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let mut client = builder.with_root_certificates(authority.roots()).with_no_client_auth();
    client.alpn_protocols = vec![b"h2".to_vec()];
    let stream = TcpStream::connect(address).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    let stream = TlsConnector::from(Arc::new(client)).connect(name, stream).await.unwrap();
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    let told = exchange(stream, SHOULD_RATE_LIMIT, None, message("api", user("ada"))).await;
    assert_eq!(told, ("0".to_owned(), String::new()));
}

#[tokio::test]
async fn a_policy_opens_it_and_says_who_may_ask_charge_and_give_back() {
    const TOKEN: &str = "checkout-token-0123456789";
    let text = format!(
        "memory: {{ keys: 1MiB }}
store: {{ kind: memory }}
listen: {{ grpc: '127.0.0.1:0', http: '127.0.0.1:0' }}
authorization:
  - {{ name: checkout, token: {TOKEN}, namespaces: [api], verbs: [check, report] }}
namespaces:
  api: {{ limits: [{{ name: per-user, key: [user], fixed: {{ limit: 100, window: 1h }} }}] }}
"
    );
    let policy = tidegate_policy::parse("policy.yaml", &text, &|_| None).unwrap().policy;
    let mut config = from_policy::server_config(&policy).unwrap();
    config.bounds.drain_grace = Duration::ZERO;
    let clock = Arc::new(ManualClock::new(START));
    let handle = from_policy::serve_on(&policy, text.as_bytes(), config, clock).await.unwrap();
    let address = handle.grpc().unwrap().tcp().unwrap();
    let told = async |token, domain, descriptor| {
        let stream = TcpStream::connect(address).await.unwrap();
        exchange(stream, SHOULD_RATE_LIMIT, token, message(domain, descriptor)).await.0
    };
    assert_eq!(told(None, "api", user("ada")).await, "16");
    assert_eq!(told(Some("wrong-token-0123456789"), "api", user("ada")).await, "16");
    assert_eq!(told(Some(TOKEN), "api", user("ada")).await, "0");
    assert_eq!(told(Some(TOKEN), "api", weighing(0, user("ada"))).await, "0");
    assert_eq!(told(Some(TOKEN), "api", weighing(2, user("ada"))).await, "0");
    assert_eq!(told(Some(TOKEN), "api", back(user("ada"))).await, "7", "refund was not granted");
    assert_eq!(told(Some(TOKEN), "web", user("ada")).await, "7", "another namespace");
    handle.shutdown().await;
}

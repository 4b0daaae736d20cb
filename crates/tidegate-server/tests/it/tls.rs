//! TLS on a listener: clients with a valid certificate are served; plain text and other
//! certificates are refused and disturb no other client.

use std::io::Write as _;
use std::net::SocketAddr;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use rcgen::ExtendedKeyUsagePurpose;
use rustls::pki_types::ServerName;
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, HandshakeKind, SupportedProtocolVersion};
use tidegate_policy::policy::Tls;
use tidegate_server::ListenerRole;
use tidegate_test_support::TemporaryFolder;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::authority::{Authority, Issued};
use crate::client::Client;
use crate::world::{World, api, loopback};

/// The files of a listener with a certificate of this authority.
fn files(folder: &TemporaryFolder, server: &Authority, clients: Option<&Authority>) -> Tls {
    let write = |name: &str, text: &str| -> String {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let issued = server.issue(ExtendedKeyUsagePurpose::ServerAuth);
    Tls {
        cert: write("cert.pem", &issued.cert),
        key: write("key.pem", &issued.key),
        client_ca: clients.map(|clients| write("clients.pem", &clients.pem())),
    }
}

/// Connects to a listener with a client that resumes sessions, if it can, and reads the first bytes
/// of an answer. Whether the session was resumed; `None` if the listener did not serve the client.
async fn resumes(address: SocketAddr, config: &Arc<ClientConfig>) -> Option<bool> {
    let stream = TcpStream::connect(address).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    let mut stream = TlsConnector::from(Arc::clone(config)).connect(name, stream).await.ok()?;
    // Each listener answers this with something, which comes behind the tickets of TLS 1.3.
    stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: t\r\n\r\n").await.ok()?;
    stream.read_u8().await.ok()?;
    Some(stream.get_ref().1.handshake_kind() == Some(HandshakeKind::Resumed))
}

/// A client that keeps sessions to resume them.
fn resuming(
    version: &'static SupportedProtocolVersion,
    server: &Authority,
    client: Option<&Issued>,
) -> Arc<ClientConfig> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_protocol_versions(&[version]).unwrap();
    let builder = builder.with_root_certificates(server.roots());
    Arc::new(match client {
        None => builder.with_no_client_auth(),
        Some(issued) => builder.with_client_auth_cert(vec![issued.chain()], issued.secret()).unwrap(),
    })
}

/// A daemon with TLS by `files` on all its listeners.
async fn everywhere(files: &Tls, idle_timeout: Duration) -> (World, [SocketAddr; 5]) {
    let mut config = loopback();
    config.bounds.idle_timeout = idle_timeout;
    for role in ListenerRole::ALL {
        config.listen(role, "127.0.0.1:0".parse().unwrap()).tls = Some(files.clone());
    }
    config.proxying = tidegate_server::ProxyConfig::to_upstream("http://127.0.0.1:9", "api").unwrap();
    let world = World::with([api()], config).await;
    let handle = &world.handle;
    let others = [handle.admin(), handle.grpc(), handle.resp(), handle.proxy()];
    let [admin, grpc, resp, proxy] = others.map(|address| address.unwrap().tcp().unwrap());
    let http = world.address();
    (world, [http, admin, grpc, resp, proxy])
}

/// A certificate that has expired since would be good for as long as its client resumes.
#[tokio::test]
async fn with_a_ca_for_clients_no_session_is_resumed_on_any_listener() {
    const IDLE_TIMEOUT: Duration = Duration::from_secs(75);
    let (folder, server, clients) = (TemporaryFolder::new(), Authority::new(), Authority::new());
    let certificate = clients.issue(ExtendedKeyUsagePurpose::ClientAuth);
    let (_open, open) = everywhere(&files(&folder, &server, None), IDLE_TIMEOUT).await;
    let (_guarded, guarded) = everywhere(&files(&folder, &server, Some(&clients)), IDLE_TIMEOUT).await;
    for version in [&TLS12, &TLS13] {
        for (open, guarded) in open.into_iter().zip(guarded) {
            let anybody = resuming(version, &server, None);
            let kinds = (resumes(open, &anybody).await, resumes(open, &anybody).await);
            assert_eq!(kinds, (Some(false), Some(true)), "{version:?}: this client resumes");
            let client = resuming(version, &server, Some(&certificate));
            for turn in 0..3 {
                assert_eq!(resumes(guarded, &client).await, Some(false), "{version:?}, turn {turn}");
            }
        }
    }
}

/// rustls has no renegotiation: a client that asks for one waits until its connection is closed as
/// idle.
#[tokio::test]
async fn a_renegotiation_is_refused_on_every_listener() {
    const TEST: &str = "a_renegotiation_is_refused_on_every_listener";
    let (folder, server) = (TemporaryFolder::new(), Authority::new());
    let (_world, addresses) = everywhere(&files(&folder, &server, None), Duration::from_secs(2)).await;
    let mut clients = Vec::new();
    for address in addresses {
        let mut command = std::process::Command::new("openssl");
        command.args(["s_client", "-tls1_2", "-msg", "-connect", &address.to_string()]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let Ok(mut openssl) = command.spawn() else {
            let _ = writeln!(std::io::stdout(), "skipped: {TEST}: openssl is not installed");
            return;
        };
        let mut input = openssl.stdin.take().unwrap();
        clients.push(tokio::task::spawn_blocking(move || {
            // A line with R alone has s_client begin a renegotiation.
            input.write_all(b"R\n").unwrap();
            let output = openssl.wait_with_output().unwrap();
            // Without input s_client would end before the renegotiation does.
            drop(input);
            String::from_utf8_lossy(&output.stdout).into_owned()
        }));
    }
    for (address, client) in addresses.into_iter().zip(clients) {
        let said = client.await.unwrap();
        let count = |what: &str| said.lines().filter(|line| line.ends_with(what)).count();
        assert_eq!((count(", ClientHello"), count(", ServerHello")), (2, 1), "{address}: {said}");
    }
}

async fn connect(
    world: &World,
    server: &Authority,
    client: Option<&Issued>,
) -> std::io::Result<TlsStream<TcpStream>> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let builder = builder.with_root_certificates(server.roots());
    let config = match client {
        None => builder.with_no_client_auth(),
        Some(issued) => builder.with_client_auth_cert(vec![issued.chain()], issued.secret()).unwrap(),
    };
    let stream = TcpStream::connect(world.address()).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    TlsConnector::from(Arc::new(config)).connect(name, stream).await
}

#[tokio::test]
async fn a_listener_with_tls_serves_https_and_tells_plain_text_nothing() {
    let (folder, authority) = (TemporaryFolder::new(), Authority::new());
    let mut config = loopback();
    config.listeners[0].tls = Some(files(&folder, &authority, None));
    let world = World::with([api()], config).await;
    let mut client = Client::over(connect(&world, &authority, None).await.unwrap());
    let answer = client.post("/v1/check", r#"{"namespace":"api","attributes":{"user":"ada"}}"#).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    // One client speaks plain text, another trusts another authority.
    let mut plain = world.client().await;
    plain.send("GET /healthz HTTP/1.1\r\nhost: t\r\n\r\n").await;
    assert!(plain.answer().await.is_none());
    assert!(connect(&world, &Authority::new(), None).await.is_err());
    let page = client.get("/metrics").await.body;
    assert!(page.contains("tidegate_faults_total{error=\"tls_handshake\"} 2\n"), "{page}");
}

#[tokio::test]
async fn with_a_ca_for_clients_only_its_clients_are_served() {
    let (folder, server, clients) = (TemporaryFolder::new(), Authority::new(), Authority::new());
    let mut config = loopback();
    config.listeners[0].tls = Some(files(&folder, &server, Some(&clients)));
    let world = World::with([api()], config).await;
    let is_served = |issued: Option<Issued>| {
        let (world, server) = (&world, &server);
        async move {
            // In TLS 1.3 a client learns only with the first answer that it was turned away.
            let Ok(stream) = connect(world, server, issued.as_ref()).await else { return false };
            let mut client = Client::over(stream);
            client.try_send("GET /healthz HTTP/1.1\r\nhost: t\r\n\r\n").await.is_ok()
                && client.answer().await.is_some()
        }
    };
    assert!(is_served(Some(clients.issue(ExtendedKeyUsagePurpose::ClientAuth))).await);
    assert!(!is_served(None).await, "no certificate");
    assert!(!is_served(Some(server.issue(ExtendedKeyUsagePurpose::ClientAuth))).await, "another authority's");
}

#[tokio::test(start_paused = true)]
async fn a_handshake_that_never_comes_ends_after_the_time_for_headers() {
    let (folder, authority) = (TemporaryFolder::new(), Authority::new());
    let mut config = loopback();
    config.listeners[0].tls = Some(files(&folder, &authority, None));
    config.bounds.header_timeout = Duration::from_secs(3);
    let world = World::with([api()], config).await;
    let mut silent = world.client().await;
    assert!(silent.is_ended().await);
}

#[tokio::test]
async fn a_balancer_names_the_client_before_the_handshake() {
    use tidegate_policy::policy::proxy::Proxy;
    use tidegate_server::ProxyConfig;
    let (folder, authority) = (TemporaryFolder::new(), Authority::new());
    let mut config = loopback();
    let listener = config.listen(ListenerRole::Proxy, "127.0.0.1:0".parse().unwrap());
    listener.tls = Some(files(&folder, &authority, None));
    listener.proxy_protocol = true;
    let mut proxy = Proxy::to_upstream("http://127.0.0.1:9", "api").unwrap();
    proxy.trusted = vec!["127.0.0.1".parse().unwrap()];
    config.proxying = ProxyConfig::open(proxy).unwrap();
    let world = World::with([api()], config).await;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let tls = builder.with_root_certificates(authority.roots()).with_no_client_auth();
    let mut stream = TcpStream::connect(world.handle.proxy().unwrap().tcp().unwrap()).await.unwrap();
    stream.write_all(b"PROXY TCP4 203.0.113.9 10.0.0.1 1 2\r\n").await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    let mut client = Client::over(TlsConnector::from(Arc::new(tls)).connect(name, stream).await.unwrap());
    let answer = client.get("/").await;
    assert_eq!((answer.status, answer.json()["error"].as_str()), (502, Some("upstream_unreachable")));
}

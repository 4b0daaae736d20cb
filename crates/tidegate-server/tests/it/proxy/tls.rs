//! TLS to upstreams: requests go only to a server that proves its name.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rcgen::{ExtendedKeyUsagePurpose, date_time_ymd};
use rustls::ServerConfig;
use tidegate_core::error_chain;
use tidegate_policy::policy::proxy::{Health, Proxy, Retry, UpstreamTls};
use tidegate_server::{ManualClock, from_policy};
use tidegate_test_support::{TemporaryFolder, eventually};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::upstream::{serve, serve_tls, well, well_tls};
use super::{get, route, to, world};
use crate::authority::{Authority, Issued};
use crate::client::Client;
use crate::world::{START, World};

/// A client that trusts an authority and has no certificate.
pub(super) fn trusting(authority: &Authority, folder: &TemporaryFolder) -> UpstreamTls {
    let mut tls = UpstreamTls::default();
    let ca = authority.written(&folder.path().join("ca.pem"));
    tls.ca = Some(ca.into_os_string().into_string().unwrap());
    tls
}

/// A server that 127.0.0.1 is a right name of.
fn usual(authority: &Authority) -> Arc<ServerConfig> {
    authority.issue_as(&["127.0.0.1"], |_| ()).server(None, "http/1.1")
}

fn https(servers: &[SocketAddr], tls: UpstreamTls, namespace: &str) -> Proxy {
    let mut config = to(&[], route(namespace));
    let upstream = &mut config.upstreams[0];
    upstream.servers = servers.iter().map(|address| format!("https://{address}").parse().unwrap()).collect();
    upstream.tls = Some(tls);
    config
}

/// Asks ten times, more often than a user may, and gives what is said of it, which is that nothing
/// was charged.
async fn unreachable(world: &World) -> String {
    let mut details = Vec::new();
    for _ in 0..10 {
        let answer = world.through("/", "x-user: ada\r\n").await;
        assert_eq!((answer.status, answer.json()["error"].as_str()), (502, Some("upstream_unreachable")));
        details.push(answer.json()["detail"].as_str().unwrap().to_owned());
    }
    details.swap_remove(0)
}

#[tokio::test]
async fn a_server_that_proves_its_name_is_spoken_to_over_tls() {
    let (folder, authority) = (TemporaryFolder::new(), Authority::new());
    let named = |names: &[&str]| authority.issue_as(names, |_| ()).server(None, "");
    for (names, host, server_name) in [
        (&["127.0.0.1"][..], "127.0.0.1", None),
        (&["localhost"], "localhost", None),
        (&["app.internal"], "127.0.0.1", Some("app.internal")),
    ] {
        let (server, seen) = well_tls(named(names)).await;
        let mut tls = trusting(&authority, &folder);
        tls.server_name = server_name.map(str::to_owned);
        let mut config = https(&[], tls, "api");
        config.upstreams[0].servers.push(format!("https://{host}:{}", server.port()).parse().unwrap());
        let world = world(config).await;
        let mut client = world.proxied().await;
        for left in ["r=2", "r=1"] {
            client.send(get("/v1/a", "x-user: ada\r\n")).await;
            let answer = client.answer().await.unwrap();
            assert_eq!((answer.status, answer.body.as_str()), (200, "ok"), "{names:?} {answer:?}");
            assert!(answer.header("ratelimit").unwrap().contains(left), "{answer:?}");
        }
        let seen = seen.lock().unwrap().join("");
        assert_eq!(seen.matches("GET /v1/a HTTP/1.1\r\n").count(), 2, "{seen}");
        assert!(seen.contains("host: shop.example\r\n"), "{seen}");
    }
}

#[tokio::test]
async fn a_server_that_does_not_prove_its_name_is_not_spoken_to_and_nothing_is_charged() {
    let (folder, authority) = (TemporaryFolder::new(), Authority::new());
    let expired = authority.issue_as(&["127.0.0.1"], |params| {
        params.not_before = date_time_ymd(2020, 1, 1);
        params.not_after = date_time_ymd(2021, 1, 1);
    });
    let other_name = authority.issue_as(&["other.example"], |_| ());
    let unknown = Authority::new().issue_as(&["127.0.0.1"], |_| ());
    let for_clients = authority.issue_as(&["127.0.0.1"], |params| {
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    });
    for (issued, hint) in [
        (expired, "expired"),
        (other_name, "not valid for name"),
        (unknown, "UnknownIssuer"),
        (for_clients, "does not allow"),
    ] {
        let (server, seen) = well_tls(issued.server(None, "http/1.1")).await;
        let world = world(https(&[server], trusting(&authority, &folder), "api")).await;
        let detail = unreachable(&world).await;
        assert!(detail.contains("the TLS handshake failed") && detail.contains(hint), "{hint}: {detail}");
        assert_eq!(seen.lock().unwrap().len(), 0);
        world.settled().await;
    }
}

#[tokio::test]
async fn a_server_that_speaks_plain_text_is_told_from_one_with_a_wrong_certificate() {
    let (folder, authority) = (TemporaryFolder::new(), Authority::new());
    let server = serve(|mut connection| async move {
        connection.send("HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n").await;
        let _ = tokio::io::copy(&mut connection.stream, &mut tokio::io::sink()).await;
    })
    .await;
    let world = world(https(&[server], trusting(&authority, &folder), "api")).await;
    let detail = unreachable(&world).await;
    assert!(detail.contains("the server does not speak TLS"), "{detail}");
}

#[tokio::test(start_paused = true)]
async fn a_handshake_that_hangs_ends_with_connect_timeout_and_another_server_is_tried() {
    let (folder, authority) = (TemporaryFolder::new(), Authority::new());
    let silent = serve(|mut connection| async move {
        connection.until(b"never").await;
    })
    .await;
    let mut config = https(&[silent], trusting(&authority, &folder), "api");
    config.upstreams[0].connect_timeout = Duration::from_secs(2);
    let asked = tokio::time::Instant::now();
    let world_of_one = world(config.clone()).await;
    let answer = world_of_one.through("/", "x-user: ada\r\n").await;
    let detail = answer.json()["detail"].as_str().unwrap().to_owned();
    assert!(answer.status == 502 && detail.contains("no connection within 2 s"), "{detail}");
    assert!(asked.elapsed() < Duration::from_secs(4), "{:?}", asked.elapsed());
    let (server, _) = well_tls(usual(&authority)).await;
    config.upstreams[0].servers.push(format!("https://{server}").parse().unwrap());
    let world = world(config).await;
    for user in ["a", "b", "c"] {
        assert_eq!(world.through("/", &format!("x-user: {user}\r\n")).await.status, 200);
    }
}

#[tokio::test]
async fn a_server_that_asks_who_we_are_is_shown_our_certificate_and_without_one_turns_us_away() {
    let (folder, authority, clients) = (TemporaryFolder::new(), Authority::new(), Authority::new());
    let asking = authority.issue_as(&["127.0.0.1"], |_| ()).server(Some(&clients), "http/1.1");
    let (server, seen) = well_tls(asking).await;
    let (cert, key) = (folder.path().join("cert.pem"), folder.path().join("key.pem"));
    let write = |issued: &Issued| {
        std::fs::write(&cert, &issued.cert).unwrap();
        std::fs::write(&key, &issued.key).unwrap();
    };
    let showing = || {
        let mut tls = trusting(&authority, &folder);
        let text = |path: &std::path::Path| path.to_str().unwrap().to_owned();
        tls.identity = Some((text(&cert), text(&key)));
        tls
    };
    write(&clients.issue(ExtendedKeyUsagePurpose::ClientAuth));
    let ours = world(https(&[server], showing(), "api")).await;
    assert_eq!(ours.through("/", "x-user: ada\r\n").await.status, 200);
    let nothing = world(https(&[server], trusting(&authority, &folder), "api")).await;
    let detail = unreachable(&nothing).await;
    assert!(detail.contains("CertificateRequired"), "{detail}");
    write(&authority.issue(ExtendedKeyUsagePurpose::ClientAuth));
    let others = world(https(&[server], showing(), "api")).await;
    let detail = unreachable(&others).await;
    assert!(detail.contains("received fatal alert"), "{detail}");
    assert_eq!(seen.lock().unwrap().len(), 1, "only ours was read");
}

#[tokio::test(start_paused = true)]
async fn a_renewed_file_of_roots_counts_for_new_connections_and_a_broken_one_changes_nothing() {
    let (folder, old, new) = (TemporaryFolder::new(), Authority::new(), Authority::new());
    let (server, _) = well_tls(usual(&new)).await;
    let world = world(https(&[server], trusting(&old, &folder), "api")).await;
    assert_eq!(world.through("/", "x-user: a\r\n").await.status, 502);
    trusting(&new, &folder);
    // Sleeps: on tokio's paused clock, no real time passes.
    tokio::time::sleep(Duration::from_secs(6)).await;
    assert_eq!(world.through("/", "x-user: b\r\n").await.status, 200);
    std::fs::write(folder.path().join("ca.pem"), "half").unwrap();
    // Sleeps: on tokio's paused clock, for longer than an idle connection is kept.
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert_eq!(world.through("/", "x-user: c\r\n").await.status, 200);
}

#[tokio::test]
async fn a_server_that_does_not_agree_to_http_2_is_not_spoken_to_in_it() {
    let (folder, authority) = (TemporaryFolder::new(), Authority::new());
    for protocol in ["http/1.1", ""] {
        let issued = authority.issue_as(&["127.0.0.1"], |_| ());
        let (server, _) = well_tls(issued.server(None, protocol)).await;
        let mut config = https(&[server], trusting(&authority, &folder), "api");
        config.upstreams[0].http2 = true;
        let detail = unreachable(&world(config).await).await;
        assert!(detail.contains("does not agree to HTTP/2"), "{protocol}: {detail}");
    }
}

#[tokio::test]
async fn a_changed_protocol_is_passed_on_over_tls() {
    let (folder, authority) = (TemporaryFolder::new(), Authority::new());
    let server = serve_tls(usual(&authority), |mut connection| async move {
        let request = connection.request().await.unwrap();
        assert!(request.contains("upgrade: websocket\r\n"), "{request}");
        connection
            .send("HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\nhi")
            .await;
        connection.until(b"ping").await.unwrap();
        connection.send("pong").await;
        connection.until(b"never").await;
    })
    .await;
    let world = world(https(&[server], trusting(&authority, &folder), "parallel")).await;
    let mut stream = TcpStream::connect(world.proxy()).await.unwrap();
    let asked = get("/ws", "x-user: ada\r\nconnection: Upgrade\r\nupgrade: websocket\r\n");
    stream.write_all(asked.as_bytes()).await.unwrap();
    let mut got = Vec::new();
    while !got.ends_with(b"\r\n\r\nhi") {
        assert_ne!(stream.read_buf(&mut got).await.unwrap(), 0, "{}", String::from_utf8_lossy(&got));
    }
    stream.write_all(b"ping").await.unwrap();
    let mut pong = [0; 4];
    stream.read_exact(&mut pong).await.unwrap();
    assert_eq!(&pong, b"pong");
    drop(stream);
    world.settled().await;
}

#[tokio::test]
async fn a_body_flows_over_tls_while_it_is_made() {
    let (folder, authority) = (TemporaryFolder::new(), Authority::new());
    let server = serve_tls(usual(&authority), |mut connection| async move {
        connection.until(b"\r\n\r\n").await.unwrap();
        connection.send("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n").await;
        // Each piece of the answer is sent when one of the request has come.
        for _ in 0..3 {
            connection.until(b"4\r\nping\r\n").await.unwrap();
            connection.send("4\r\npong\r\n").await;
        }
        connection.until(b"0\r\n\r\n").await.unwrap();
        connection.send("0\r\n\r\n").await;
    })
    .await;
    let world = world(https(&[server], trusting(&authority, &folder), "parallel")).await;
    let mut stream = TcpStream::connect(world.proxy()).await.unwrap();
    let head = "POST / HTTP/1.1\r\nhost: a\r\nx-user: ada\r\ntransfer-encoding: chunked\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut got = Vec::new();
    for piece in 1..=3 {
        stream.write_all(b"4\r\nping\r\n").await.unwrap();
        while String::from_utf8_lossy(&got).matches("pong").count() < piece {
            assert_ne!(stream.read_buf(&mut got).await.unwrap(), 0, "{}", String::from_utf8_lossy(&got));
        }
    }
    stream.write_all(b"0\r\n\r\n").await.unwrap();
    while !got.ends_with(b"0\r\n\r\n") {
        assert_ne!(stream.read_buf(&mut got).await.unwrap(), 0, "{}", String::from_utf8_lossy(&got));
    }
    world.settled().await;
}

#[tokio::test]
async fn servers_are_asked_over_tls_whether_they_are_well() {
    let (folder, authority) = (TemporaryFolder::new(), Authority::new());
    let (good, seen) = well_tls(usual(&authority)).await;
    let (forged, _) = well_tls(usual(&Authority::new())).await;
    let (plain, plain_seen) = well().await;
    let mut config = https(&[forged, plain, good], trusting(&authority, &folder), "api");
    config.upstreams[0].failures = 0;
    let mut health = Health::new("/healthz");
    health.interval = Duration::from_millis(10);
    config.upstreams[0].health = Some(health);
    let mut free = config.clone();
    free.routes[0].namespace = None;
    free.routes[0].retry = Retry::Off;
    let world = world(free).await;
    // Two rounds: the first has asked all of them by then.
    eventually("all were asked", async || seen.lock().unwrap().len() >= 2).await;
    for _ in 0..6 {
        assert_eq!(world.through("/", "").await.status, 200, "only the one that is well gets requests");
    }
    assert!(seen.lock().unwrap()[0].starts_with("GET /healthz HTTP/1.1\r\n"));
    assert_eq!(plain_seen.lock().unwrap().len(), 0);
}

#[tokio::test]
async fn a_policy_names_the_files_and_one_that_is_broken_makes_no_daemon() {
    let (folder, authority, clients) = (TemporaryFolder::new(), Authority::new(), Authority::new());
    let issued = authority.issue_as(&["app.internal"], |_| ());
    let (server, _) = well_tls(issued.server(Some(&clients), "http/1.1")).await;
    let path = |name: &str| folder.path().join(name);
    let ours = clients.issue(ExtendedKeyUsagePurpose::ClientAuth);
    authority.written(&path("ca.pem"));
    std::fs::write(path("cert.pem"), ours.cert).unwrap();
    std::fs::write(path("key.pem"), ours.key).unwrap();
    let text = format!(
        "listen: {{ http: 127.0.0.1:0, proxy: 127.0.0.1:0 }}
proxy:
  upstreams:
    app:
      servers: [https://{server}]
      tls: {{ ca: {0}/ca.pem, cert: {0}/cert.pem, key: {0}/key.pem, server_name: app.internal }}
  routes: [{{ upstream: app }}]
",
        folder.path().display()
    );
    let policy = tidegate_policy::parse("t.yaml", &text, &|_| None).unwrap().policy;
    let config = from_policy::server_config(&policy).unwrap();
    let clock = Arc::new(ManualClock::new(START));
    let handle = from_policy::serve_on(&policy, text.as_bytes(), config, clock).await.unwrap();
    let mut client = Client::connect(handle.proxy().unwrap().tcp().unwrap()).await;
    assert_eq!(client.get("/").await.status, 200);
    handle.shutdown().await;
    std::fs::write(path("ca.pem"), "").unwrap();
    let error = error_chain(&from_policy::server_config(&policy).unwrap_err());
    assert!(error.contains("TLS to upstream app cannot be set up") && error.contains("ca.pem"), "{error}");
}

#[test]
fn names_that_a_policy_lets_through_can_be_looked_for_in_a_certificate() {
    let (folder, authority) = (TemporaryFolder::new(), Authority::new());
    let ca = authority.written(&folder.path().join("ca.pem"));
    let longest = format!("{}.{}.{}.{}", "a".repeat(63), "b".repeat(63), "c".repeat(63), "d".repeat(61));
    let names = [
        "a",
        "a_b.c-d",
        "App.Internal",
        "a.b.",
        "1.2.3.4a",
        "xn--bcher-kva.example",
        "_a",
        "10.0.0.1",
        "::1",
    ];
    for name in names.into_iter().chain([&*longest]) {
        let text = format!(
            "proxy: {{ upstreams: {{ a: {{ servers: [https://-], tls: {{ ca: {}, server_name: \"{name}\" }} }} }} }}",
            ca.display()
        );
        let policy = tidegate_policy::parse("t.yaml", &text, &|_| None).unwrap().policy;
        from_policy::server_config(&policy).unwrap();
    }
}

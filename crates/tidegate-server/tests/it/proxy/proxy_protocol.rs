//! Balancers that say by the PROXY protocol who the client is, and others that would like to.

use tidegate_policy::policy::proxy::Route;
use tidegate_test_support::eventually;
use tokio::io::AsyncReadExt;

use super::upstream::{Seen, well};
use super::{get, namespaces, route, to};
use tidegate_server::{ListenerRole, ProxyConfig};

use crate::client::{Answer, Client};
use crate::paused_clock::at_this_instant;
use crate::world::{World, loopback};

/// Three requests a second for each address.
fn by_address() -> Route {
    let mut by_address = route("api");
    let user = ("user".to_owned(), "client_ip".parse().unwrap());
    by_address.attributes = vec![user];
    by_address
}

/// A listener that expects the PROXY protocol from these networks.
async fn behind(trusted: &[&str]) -> (World, Seen) {
    let (server, seen) = well().await;
    let mut config = loopback();
    config.listen(ListenerRole::Proxy, "127.0.0.1:0".parse().unwrap()).proxy_protocol = true;
    let mut proxy = to(&[server], by_address());
    proxy.trusted = trusted.iter().map(|text| text.parse().unwrap()).collect();
    config.proxying = ProxyConfig::open(proxy).unwrap();
    (World::with(namespaces(), config).await, seen)
}

/// Version 2 with this command, IPv4 addresses and an addition.
fn second(command: u8, source: [u8; 4]) -> Vec<u8> {
    let mut bytes = b"\r\n\r\n\0\r\nQUIT\n".to_vec();
    bytes.extend([command, 0x11, 0, 19]);
    bytes.extend(source);
    bytes.extend([10, 0, 0, 1, 0x12, 0x67, 1, 187, 3, 0, 4, 1, 2, 3, 4]);
    bytes
}

/// One request behind a preamble, sent in one piece with it.
async fn behind_preamble(world: &World, preamble: &[u8], headers: &str) -> Option<Answer> {
    let mut client = world.proxied().await;
    client.send([preamble, get("/", headers).as_bytes()].concat()).await;
    client.answer().await
}

fn senders(seen: &Seen) -> Vec<String> {
    let seen = seen.lock().unwrap();
    let line = |request: &String| {
        let rest = request.split("x-forwarded-for: ").nth(1).unwrap();
        rest.split("\r\n").next().unwrap().to_owned()
    };
    seen.iter().map(line).collect()
}

#[tokio::test]
async fn the_client_is_whom_a_trusted_balancer_names_and_is_counted_by_that_address() {
    let (world, seen) = behind(&["127.0.0.0/8"]).await;
    let first = b"PROXY TCP4 203.0.113.9 10.0.0.1 4711 443\r\n";
    for preamble in [&first[..], &second(0x21, [203, 0, 113, 9]), first] {
        assert_eq!(behind_preamble(&world, preamble, "").await.unwrap().status, 200);
    }
    assert_eq!(behind_preamble(&world, first, "").await.unwrap().status, 429, "one address, one counter");
    let six = b"PROXY TCP6 2001:db8::7 :: 1 2\r\n";
    assert_eq!(behind_preamble(&world, six, "").await.unwrap().status, 200, "others are counted apart");
    assert_eq!(senders(&seen), ["203.0.113.9", "203.0.113.9", "203.0.113.9", "2001:db8::7"]);
}

#[tokio::test]
async fn a_preamble_may_come_byte_by_byte_and_what_follows_it_is_not_lost() {
    let (world, seen) = behind(&["127.0.0.1"]).await;
    for preamble in [&b"PROXY TCP4 1.2.3.4 5.6.7.8 1 2\r\n"[..], &second(0x21, [1, 2, 3, 4])] {
        let mut client = world.proxied().await;
        for byte in preamble {
            client.send([*byte]).await;
            tokio::task::yield_now().await;
        }
        let both = format!("{}{}", get("/a", ""), get("/b", "x-user: x\r\n"));
        client.send(both).await;
        assert_eq!(client.answer().await.unwrap().status, 200);
        assert!(client.answer().await.is_some());
    }
    assert_eq!(senders(&seen)[..2], ["1.2.3.4", "1.2.3.4"]);
}

#[tokio::test]
async fn whom_nobody_names_has_the_address_of_the_balancer_and_is_believed_about_nobody() {
    let (world, seen) = behind(&["127.0.0.0/8"]).await;
    let spoofed = "x-forwarded-for: 6.6.6.6\r\n";
    for preamble in [&b"PROXY UNKNOWN\r\n"[..], b"PROXY UNKNOWN 1.2.3.4 x\r\n", &second(0x20, [1, 2, 3, 4])] {
        assert_eq!(behind_preamble(&world, preamble, spoofed).await.unwrap().status, 200);
    }
    assert_eq!(senders(&seen), ["127.0.0.1"; 3]);
    assert_eq!(behind_preamble(&world, b"PROXY UNKNOWN\r\n", "").await.unwrap().status, 429);
}

#[tokio::test]
async fn what_the_named_client_says_of_others_counts_only_if_it_is_trusted_itself() {
    let (world, seen) = behind(&["127.0.0.1", "192.0.2.0/24"]).await;
    let stranger = b"PROXY TCP4 203.0.113.9 10.0.0.1 1 2\r\n";
    let trusted = b"PROXY TCP4 192.0.2.7 10.0.0.1 1 2\r\n";
    let named = "x-forwarded-for: 6.6.6.6\r\n";
    for _ in 0..3 {
        assert_eq!(behind_preamble(&world, stranger, named).await.unwrap().status, 200);
    }
    assert_eq!(behind_preamble(&world, stranger, "x-forwarded-for: 7.7.7.7\r\n").await.unwrap().status, 429);
    for _ in 0..3 {
        assert_eq!(behind_preamble(&world, trusted, named).await.unwrap().status, 200);
    }
    assert_eq!(behind_preamble(&world, trusted, named).await.unwrap().status, 429);
    assert_eq!(behind_preamble(&world, trusted, "").await.unwrap().status, 200, "it asks for itself");
    let senders = senders(&seen);
    assert_eq!((senders[0].as_str(), senders[3].as_str()), ("203.0.113.9", "6.6.6.6, 192.0.2.7"));
}

#[tokio::test(start_paused = true)]
async fn connections_that_do_not_begin_so_are_closed_and_counted() {
    let (world, seen) = behind(&["127.0.0.0/8"]).await;
    let long = [&second(0x21, [1, 2, 3, 4])[..14], &[0xff, 0xff]].concat();
    for (begun, is_counted) in [
        // None at all, of another version, malformed, too long, cut off, slow; and nothing sent.
        (&b"GET / HTTP/1.1\r\nhost: t\r\n\r\n"[..], true),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", true),
        (b"PROXY TCP4 1.2.3.4\r\nGET / HTTP/1.1\r\n\r\n", true),
        (b"PROXY TCP5 1.2.3.4 5.6.7.8 1 2\r\n", true),
        (&long, true),
        (&[b' '; 200], true),
        (b"PROXY TCP4 1.2.3.4 5.6", true),
    ] {
        let before = faults(&world, "proxy_protocol").await;
        let mut client = world.proxied().await;
        client.send(begun).await;
        assert!(client.is_ended().await, "{begun:?}");
        let counted = faults(&world, "proxy_protocol").await - before;
        assert_eq!(counted == 1, is_counted, "{begun:?}");
    }
    let before = faults(&world, "proxy_protocol").await;
    drop(world.proxied().await);
    let mut reset = tokio::net::TcpStream::connect(world.proxy()).await.unwrap();
    tokio::io::AsyncWriteExt::shutdown(&mut reset).await.unwrap();
    assert_eq!(reset.read(&mut [0]).await.unwrap(), 0);
    assert_eq!(faults(&world, "proxy_protocol").await, before, "whoever only looks whether we are there");
    assert_eq!(seen.lock().unwrap().len(), 0);
    let other = at_this_instant("an answer", behind_preamble(&world, b"PROXY UNKNOWN\r\n", "")).await;
    assert!(other.is_some(), "nobody else is disturbed");
}

#[tokio::test]
async fn who_is_not_trusted_cannot_say_who_it_is() {
    let (world, seen) = behind(&["10.0.0.0/8"]).await;
    let mut client = world.proxied().await;
    // It may be closed before all of it was sent.
    let _ = client.try_send(b"PROXY TCP4 1.2.3.4 5.6.7.8 1 2\r\nGET / HTTP/1.1\r\nhost: t\r\n\r\n").await;
    assert!(client.is_ended().await);
    assert_eq!((faults(&world, "untrusted_peer").await, seen.lock().unwrap().len()), (1, 0));
}

#[tokio::test]
async fn a_daemon_that_ends_does_not_wait_for_a_preamble() {
    let (world, _) = behind(&["127.0.0.0/8"]).await;
    let mut client = world.proxied().await;
    client.send("PROXY TCP4").await;
    eventually("its connection is accepted", async || {
        !world.client().await.get("/metrics").await.body.contains("tidegate_connections 1\n")
    })
    .await;
    assert_eq!(world.handle.shutdown().await.cut_off, 0);
    assert!(client.is_ended().await);
}

async fn faults(world: &World, error: &str) -> u64 {
    let page = world.client().await.get("/metrics").await.body;
    let line = format!("tidegate_faults_total{{error=\"{error}\"}} ");
    page.split(&line).nth(1).map_or(0, |rest| rest.lines().next().unwrap().parse().unwrap())
}

/// Where no preamble is expected, a request without one is served.
#[tokio::test]
async fn where_no_preamble_is_expected_one_is_no_request() {
    let (server, seen) = well().await;
    let world = super::world(to(&[server], by_address())).await;
    let mut client: Client = world.proxied().await;
    client.send(b"PROXY TCP4 1.2.3.4 5.6.7.8 1 2\r\nGET / HTTP/1.1\r\nhost: t\r\n\r\n").await;
    assert_eq!(client.answer().await.unwrap().status, 400);
    assert_eq!(seen.lock().unwrap().len(), 0);
}

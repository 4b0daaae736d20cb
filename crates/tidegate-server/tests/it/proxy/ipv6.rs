//! A listener on IPv6: addresses of clients, trusted networks and PROXY preambles.

use std::io::Write;
use std::net::SocketAddr;

use super::upstream::{Seen, well};
use super::{get, namespaces, route, to};
use tidegate_server::{ListenerRole, ProxyConfig};

use crate::client::Client;
use crate::world::{World, loopback};

/// A proxy on `[::1]` that counts by address; `None` on a machine without IPv6.
async fn on_ipv6(test: &str, trusted: &[&str], proxy_protocol: bool) -> Option<(World, Seen)> {
    if std::net::TcpListener::bind("[::1]:0").is_err() {
        let _ = writeln!(std::io::stdout(), "skipped: {test}: the machine has no IPv6 loopback address");
        return None;
    }
    let (server, seen) = well().await;
    let mut by_address = route("api");
    let user = ("user".to_owned(), "client_ip".parse().unwrap());
    by_address.attributes = vec![user];
    let mut config = loopback();
    config.listen(ListenerRole::Proxy, "[::1]:0".parse().unwrap()).proxy_protocol = proxy_protocol;
    let mut proxy = to(&[server], by_address);
    proxy.trusted = trusted.iter().map(|text| text.parse().unwrap()).collect();
    config.proxying = ProxyConfig::open(proxy).unwrap();
    Some((World::with(namespaces(), config).await, seen))
}

async fn status(proxy: SocketAddr, preamble: &str, headers: &str) -> u16 {
    let mut client = Client::connect(proxy).await;
    client.send(format!("{preamble}{}", get("/", headers))).await;
    client.answer().await.unwrap().status
}

#[tokio::test]
async fn a_client_over_ipv6_is_counted_by_its_address_whatever_it_says() {
    let test = "a_client_over_ipv6_is_counted_by_its_address_whatever_it_says";
    let Some((world, seen)) = on_ipv6(test, &["127.0.0.0/8", "2001:db8::/32"], false).await else { return };
    for said in ["2001:db8::1", "[2001:db8::2]:80", "::ffff:127.0.0.1"] {
        assert_eq!(status(world.proxy(), "", &format!("x-forwarded-for: {said}\r\n")).await, 200);
    }
    assert_eq!(status(world.proxy(), "", "x-forwarded-for: 2001:db8::3\r\n").await, 429);
    for request in &*seen.lock().unwrap() {
        assert!(request.contains("x-forwarded-for: ::1\r\n"), "{request}");
    }
}

#[tokio::test]
async fn a_trusted_peer_over_ipv6_names_the_client() {
    let test = "a_trusted_peer_over_ipv6_names_the_client";
    let Some((world, seen)) = on_ipv6(test, &["::1"], false).await else { return };
    // One address in three spellings, and an IPv4 address written as IPv6.
    for said in ["2001:db8::1", "2001:DB8:0:0::1", "[2001:db8::1]:4711"] {
        assert_eq!(status(world.proxy(), "", &format!("x-forwarded-for: {said}\r\n")).await, 200, "{said}");
    }
    assert_eq!(status(world.proxy(), "", "x-forwarded-for: 2001:db8::1\r\n").await, 429);
    for said in ["192.0.2.1", "::ffff:192.0.2.1", "192.0.2.1:80"] {
        assert_eq!(status(world.proxy(), "", &format!("x-forwarded-for: {said}\r\n")).await, 200, "{said}");
    }
    assert_eq!(status(world.proxy(), "", "x-forwarded-for: 192.0.2.1\r\n").await, 429);
    assert!(seen.lock().unwrap()[0].contains("x-forwarded-for: 2001:db8::1, ::1\r\n"));
}

#[tokio::test]
async fn a_preamble_over_ipv6_names_the_client() {
    let test = "a_preamble_over_ipv6_names_the_client";
    let Some((world, _)) = on_ipv6(test, &["::1/128"], true).await else { return };
    let preamble = "PROXY TCP6 2001:db8::7 ::1 4711 443\r\n";
    for _ in 0..3 {
        assert_eq!(status(world.proxy(), preamble, "").await, 200);
    }
    assert_eq!(status(world.proxy(), preamble, "").await, 429);
    assert_eq!(status(world.proxy(), "PROXY TCP6 2001:db8::8 ::1 1 2\r\n", "").await, 200);
}

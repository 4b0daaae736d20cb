//! Servers that close idle connections, at the moment in which the proxy uses them again.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tidegate_policy::policy::proxy::{Proxy, Retry};
use tokio::io::AsyncWriteExt;

use super::upstream::serve;
use super::{route, to, world};

/// A server that answers the first request of each connection and, when it reads the second, closes
/// without an answer: what the proxy sees when a server closes an idle connection in the instant of
/// its next use.
async fn closing_at_the_second() -> (SocketAddr, Arc<AtomicUsize>) {
    let closed = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&closed);
    let address = serve(move |mut connection| {
        let count = Arc::clone(&count);
        async move {
            if connection.request().await.is_some() {
                connection.send("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await;
                if connection.request().await.is_some() {
                    count.fetch_add(1, Ordering::Relaxed);
                }
                let _ = connection.stream.shutdown().await;
            }
        }
    })
    .await;
    (address, closed)
}

fn without_retries(server: SocketAddr) -> Proxy {
    let mut free = route("api");
    free.namespace = None;
    free.retry = Retry::Off;
    to(&[server], free)
}

#[tokio::test]
async fn a_connection_that_was_closed_while_idle_costs_no_request_even_without_retries() {
    let (server, closed) = closing_at_the_second().await;
    let world = world(without_retries(server)).await;
    let mut client = world.proxied().await;
    for _ in 0..200 {
        assert_eq!(client.get("/").await.status, 200);
    }
    assert!(closed.load(Ordering::Relaxed) >= 50, "{closed:?}: no connection was used again");
}

#[tokio::test]
async fn a_request_that_may_have_been_carried_out_is_not_sent_again() {
    let (server, closed) = closing_at_the_second().await;
    let world = world(without_retries(server)).await;
    let mut client = world.proxied().await;
    let mut statuses = Vec::new();
    for _ in 0..10 {
        statuses.push(client.post("/", "once").await.status);
    }
    let broken = statuses.iter().filter(|status| **status == 502).count();
    assert_eq!(broken, closed.load(Ordering::Relaxed), "{statuses:?}");
    assert!(broken > 0 && statuses.iter().all(|status| matches!(status, 200 | 502)), "{statuses:?}");
}

#[tokio::test]
async fn a_server_that_closes_a_fresh_connection_is_not_asked_again_without_retries() {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let server = serve(move |mut connection| {
        let count = Arc::clone(&count);
        async move {
            if connection.request().await.is_some() {
                count.fetch_add(1, Ordering::Relaxed);
            }
        }
    })
    .await;
    let world = world(without_retries(server)).await;
    assert_eq!(world.through("/", "").await.status, 502);
    assert_eq!(asked.load(Ordering::Relaxed), 1);
}

//! Requests that wait for a limit or a permit.

use std::time::Duration;

use tidegate_server::proxy::{ProxyConfig, RouteConfig};
use tokio::io::AsyncReadExt;
use tokio::sync::mpsc;

use super::upstream::{Connection, serve, well};
use super::{get, route, to, world};
use crate::client::Client;
use crate::world::World;

fn patient(namespace: &str) -> RouteConfig {
    let mut patient = route(namespace);
    patient.wait = Duration::from_mins(5);
    patient
}

/// A server that hands its connections, each with a request read, to the test.
async fn handed() -> (std::net::SocketAddr, mpsc::UnboundedReceiver<(String, Connection)>) {
    let (give, take) = mpsc::unbounded_channel();
    let address = serve(move |mut connection| {
        let give = give.clone();
        async move {
            if let Some(request) = connection.request().await {
                let _ = give.send((request, connection));
            }
        }
    })
    .await;
    (address, take)
}

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";

impl World {
    async fn asked(&self, target: &str, headers: &str) -> Client {
        let mut client = self.proxied().await;
        client.send(get(target, headers)).await;
        client
    }

    async fn until_waiting(&self, count: usize) {
        for _ in 0..5000 {
            if self.handle.proxy_waiting() == count {
                return;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        panic!("{} wait, not {count}", self.handle.proxy_waiting());
    }
}

#[tokio::test]
async fn a_request_waits_for_its_limit_and_goes_on_when_it_may() {
    let (server, seen) = well().await;
    let world = world(to(&[server], patient("api"))).await;
    for _ in 0..3 {
        assert_eq!(world.through("/", "x-user: ada\r\n").await.status, 200);
    }
    let mut waiting = world.asked("/", "x-user: ada\r\n").await;
    world.until_waiting(1).await;
    assert_eq!(seen.lock().unwrap().len(), 3);
    assert_eq!(world.through("/", "x-user: bob\r\n").await.status, 200, "others do not");
    world.clock.advance(Duration::from_secs(1));
    assert_eq!(waiting.answer().await.unwrap().status, 200);
    world.settled().await;
}

#[tokio::test]
async fn who_would_wait_too_long_is_refused_at_once() {
    let (server, _) = well().await;
    let mut short = route("api");
    short.wait = Duration::from_millis(999);
    let world = world(to(&[server], short)).await;
    for _ in 0..3 {
        world.through("/", "x-user: ada\r\n").await;
    }
    assert_eq!(world.through("/", "x-user: ada\r\n").await.status, 429);
    // So is who has no time left, however long the route would wait.
    let world = super::world(to(&[server], patient("api"))).await;
    for _ in 0..3 {
        world.through("/", "x-user: ada\r\n").await;
    }
    assert_eq!(world.through("/", "x-user: ada\r\ngrpc-timeout: 900m\r\n").await.status, 429);
}

#[tokio::test]
async fn permits_go_to_the_highest_class_and_then_to_whoever_came_first() {
    let (server, mut at_work) = handed().await;
    let mut classes = patient("parallel");
    classes.class.header = Some(http::HeaderName::from_static("x-class"));
    let world = world(to(&[server], classes)).await;
    let mut clients = vec![world.asked("/0", "x-user: ada\r\n").await];
    let (_, mut working) = at_work.recv().await.unwrap();
    let arrivals = [
        ("/1", "sheddable"),
        ("/2", "critical"),
        ("/3", "sheddable"),
        ("/4", "critical"),
        ("/5", "critical_plus"),
    ];
    for (count, (target, class)) in arrivals.into_iter().enumerate() {
        clients.push(world.asked(target, &format!("x-user: ada\r\nx-class: {class}\r\n")).await);
        world.until_waiting(count + 1).await;
    }
    let mut order = String::new();
    for _ in arrivals {
        working.send(OK).await;
        let (request, next) = at_work.recv().await.unwrap();
        order.push_str(&request[5..6]);
        working = next;
    }
    working.send(OK).await;
    assert_eq!(order, "52413");
    for client in &mut clients {
        assert_eq!(client.answer().await.unwrap().status, 200);
    }
    world.settled().await;
}

#[tokio::test]
async fn a_thousand_clients_that_leave_while_they_wait_leave_nothing_behind() {
    let (server, mut at_work) = handed().await;
    let world = world(to(&[server], patient("parallel"))).await;
    let mut first = world.asked("/", "x-user: ada\r\n").await;
    let (_, mut working) = at_work.recv().await.unwrap();
    for round in 0..10 {
        let mut clients = Vec::new();
        for _ in 0..100 {
            clients.push(world.asked("/", "x-user: ada\r\n").await);
        }
        world.until_waiting(100).await;
        drop(clients);
        world.until_waiting(0).await;
        assert_eq!(world.handle.proxy_in_flight(), 1, "round {round}");
    }
    working.send(OK).await;
    assert_eq!(first.answer().await.unwrap().status, 200);
    world.settled().await;
    assert!(world.is_free("ada").await);
}

#[tokio::test]
async fn a_client_that_leaves_while_its_body_lies_unread_is_noticed_too() {
    let (server, mut at_work) = handed().await;
    let world = world(to(&[server], patient("parallel"))).await;
    let _first = world.asked("/", "x-user: ada\r\n").await;
    let _working = at_work.recv().await.unwrap();
    let mut client = world.proxied().await;
    client.send("POST / HTTP/1.1\r\nhost: t\r\nx-user: ada\r\ncontent-length: 4\r\n\r\nbody").await;
    world.until_waiting(1).await;
    drop(client);
    world.until_waiting(0).await;
}

#[tokio::test]
async fn a_client_that_leaves_with_much_of_its_body_unread_is_noticed_too() {
    let (server, mut at_work) = handed().await;
    let world = world(to(&[server], patient("parallel"))).await;
    let _first = world.asked("/", "x-user: ada\r\n").await;
    let _working = at_work.recv().await.unwrap();
    let mut client = world.proxied().await;
    client.send("POST / HTTP/1.1\r\nhost: t\r\nx-user: ada\r\ncontent-length: 100000000\r\n\r\n").await;
    world.until_waiting(1).await;
    client.send("a".repeat(100_000)).await;
    drop(client);
    world.until_waiting(0).await;
}

#[tokio::test]
async fn only_so_many_wait() {
    let (server, mut at_work) = handed().await;
    let mut config: ProxyConfig = to(&[server], patient("parallel"));
    config.waiting = 2;
    let world = world(config).await;
    let _first = world.asked("/", "x-user: ada\r\n").await;
    let _working = at_work.recv().await.unwrap();
    let _waiting = [world.asked("/", "x-user: ada\r\n").await, world.asked("/", "x-user: ada\r\n").await];
    world.until_waiting(2).await;
    let refused = world.through("/", "x-user: ada\r\n").await;
    assert_eq!((refused.status, refused.json()["reason"].as_str()), (429, Some("concurrency_exceeded")));
}

#[tokio::test]
async fn a_drain_refuses_those_that_wait_and_finishes_what_is_under_way() {
    let (server, mut at_work) = handed().await;
    let world = world(to(&[server], patient("parallel"))).await;
    let mut first = world.asked("/", "x-user: ada\r\n").await;
    let (_, mut working) = at_work.recv().await.unwrap();
    let mut waiting = world.asked("/", "x-user: ada\r\n").await;
    world.until_waiting(1).await;
    let shutdown = tokio::spawn(world.handle.shutdown());
    let refused = waiting.answer().await.unwrap();
    assert_eq!((refused.status, refused.header("connection")), (429, Some("close")));
    // The answer may come in pieces and is still sent whole.
    working.send("HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nsl").await;
    working.send("ow").await;
    assert_eq!(first.answer().await.unwrap().body, "slow");
    assert_eq!(shutdown.await.unwrap().cut_off, 0);
}

#[tokio::test]
async fn killing_the_client_or_the_server_at_any_moment_leaves_no_permit_held() {
    let (server, mut at_work) = handed().await;
    let world = world(to(&[server], route("parallel"))).await;
    for moment in 0..60 {
        let mut client = world.asked("/", "x-user: ada\r\n").await;
        let (_, mut working) = at_work.recv().await.unwrap();
        match moment % 6 {
            0 => drop(client),
            1 => drop(working),
            2 => {
                working.send("HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nsome").await;
                drop(client);
            }
            3 => {
                working.send("HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nsome").await;
                drop(working);
                assert_eq!(client.answer().await, None);
            }
            4 => {
                working.stream.set_zero_linger().unwrap();
                drop(working);
                assert_eq!(client.answer().await.unwrap().status, 502);
            }
            _ => {
                working.send("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\nsome\r\n").await;
                let mut rest = Vec::new();
                drop(client);
                let _ = working.stream.read_buf(&mut rest).await;
            }
        }
        world.settled().await;
        assert!(world.is_free("ada").await, "moment {moment}");
    }
}

//! Routes with `hold: first_byte`: their requests give back their places when their answers begin,
//! and their streams when these end, however they end.

use std::net::SocketAddr;
use std::time::Duration;

use tidegate_clock::Clock;
use tidegate_overload::{ResourceConfig, StreamStats};
use tidegate_policy::policy::proxy::{Route, RouteHold};
use tidegate_server::{ListenerRole, ProxyConfig};
use tidegate_test_support::eventually;
use tokio::io::AsyncWriteExt;

use super::cancellation::{Asked, Moment, News, Version, endless};
use super::hostile::head;
use super::stalled_readers::{generous, http2, until_frame};
use super::upstream::serve;
use super::{get, route, to};
use crate::client::Client;
use crate::paused_clock::at_this_instant;
use crate::world::{World, loopback};

/// The time of a route after which its requests are given up.
const TIME: Duration = Duration::from_millis(50);

const UPGRADE: &str = "x-user: a\r\nconnection: upgrade\r\nupgrade: websocket\r\n";

fn streaming() -> Route {
    let mut route = route("free");
    route.hold = RouteHold::FirstByte;
    route
}

/// A world in which all requests take this route to this server.
async fn world(server: SocketAddr, version: Version, route: Route, resource: &ResourceConfig) -> World {
    let mut proxy = to(&[server], route);
    proxy.upstreams[0].http2 = version == Version::Http2;
    let mut config = loopback();
    config.bounds.drain_grace = Duration::ZERO;
    config.bounds.drain = Duration::from_millis(50);
    // Connections are looked at every 10 ms.
    config.bounds.header_timeout = Duration::from_millis(40);
    config.listen(ListenerRole::Proxy, "127.0.0.1:0".parse().unwrap());
    config.proxying = ProxyConfig::open(proxy).unwrap();
    World::with_resource(resource, config).await
}

/// A server that switches to the protocol that the client offers, and then sends a line.
async fn obliging() -> SocketAddr {
    serve(|mut connection| async move {
        if connection.request().await.is_some() {
            let head = "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket";
            connection.send(format!("{head}\r\n\r\nsome")).await;
            connection.until(b"never").await;
        }
    })
    .await
}

impl World {
    fn streams(&self) -> StreamStats {
        self.engine.resource_stats(self.clock.now()).next().unwrap().streams.unwrap_or_default()
    }

    /// The places that are taken, and the streams that are open.
    fn held(&self) -> (u64, u64) {
        (self.places_taken(), self.streams().open)
    }

    async fn until_nothing_is_held(&self, case: &str) {
        self.settled().await;
        assert_eq!(self.held(), (0, 0), "{case}");
    }

    /// A client of this connection that has changed its protocol.
    async fn upgraded(&self) -> Client {
        let mut client = self.proxied().await;
        client.send(get("/", UPGRADE)).await;
        client.has_received("some").await;
        client
    }
}

#[tokio::test(start_paused = true)]
async fn issue_39_a_stream_keeps_no_place_and_is_given_back_when_its_client_leaves_or_its_time_is_over() {
    let versions = [Version::Http1, Version::Http2];
    for (client, upstream) in versions.into_iter().flat_map(|one| versions.map(|other| (one, other))) {
        for total in [None, Some(TIME)] {
            let case = format!("{client:?} to {upstream:?}, {total:?}");
            let (server, mut news) = endless(upstream, Moment::Answer).await;
            let mut route = streaming();
            route.timeouts.total = total;
            let world = world(server, upstream, route, &ResourceConfig::new(1)).await;
            let mut streams = Vec::new();
            // More of them than there are places.
            let begin = async {
                for open in 1..=3 {
                    let mut asked = Asked::new(&world, client, Moment::Answer).await;
                    assert_eq!(news.recv().await, Some(News::Begun), "{case}");
                    asked.is_answered().await;
                    assert_eq!(world.held(), (0, open), "{case}");
                    streams.push(asked);
                }
            };
            at_this_instant(&case, begin).await;
            match total {
                None => drop(core::mem::take(&mut streams)),
                Some(_) => tokio::time::advance(2 * TIME).await,
            }
            for _ in 0..3 {
                assert_eq!(at_this_instant(&case, news.recv()).await, Some(News::Ended), "{case}");
            }
            drop(streams);
            world.until_nothing_is_held(&case).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn issue_39_a_stream_that_never_sends_a_byte_keeps_its_place_until_the_timeout_of_its_route() {
    for version in [Version::Http1, Version::Http2] {
        let (server, mut news) = endless(version, Moment::Work).await;
        let mut route = streaming();
        route.timeouts.first_byte = TIME;
        let world = world(server, version, route, &ResourceConfig::new(1)).await;
        let asked = Asked::new(&world, version, Moment::Work).await;
        let refused = async {
            assert_eq!(news.recv().await, Some(News::Begun));
            assert_eq!(world.held(), (1, 1));
            world.through("/", "x-user: b\r\n").await
        };
        let refused = at_this_instant("the place is taken", refused).await;
        assert_eq!(
            (refused.status, refused.json()["limit"].as_str()),
            (503, Some("in_flight")),
            "{refused:?}"
        );
        tokio::time::advance(2 * TIME).await;
        assert_eq!(news.recv().await, Some(News::Ended));
        world.until_nothing_is_held("after the timeout").await;
        drop(asked);
    }
}

#[tokio::test]
async fn issue_39_a_stream_too_many_is_refused_before_it_reaches_the_upstream() {
    let (server, mut news) = endless(Version::Http1, Moment::Answer).await;
    let resource = ResourceConfig::new(4).streams_max(1);
    let world = world(server, Version::Http1, streaming(), &resource).await;
    let mut asked = Asked::new(&world, Version::Http1, Moment::Answer).await;
    asked.is_answered().await;
    assert_eq!(news.recv().await, Some(News::Begun));
    let refused = world.through("/", "x-user: b\r\n").await;
    let body = refused.json();
    let told = (refused.status, body["reason"].as_str(), body["limit"].as_str());
    assert_eq!(told, (503, Some("overload_shed"), Some("streams")), "{refused:?}");
    assert!(refused.header("retry-after").is_some(), "{refused:?}");
    assert!(refused.body.contains("the only stream is open"), "{refused:?}");
    assert_eq!((world.held(), world.streams().refused), ((0, 1), 1));
    assert!(news.try_recv().is_err(), "the upstream got no second request");
    let stats = world.engine.resource_stats(world.clock.now()).next().unwrap();
    assert_eq!((stats.offered, stats.demand), (2, 1), "it is no demand for places");
    drop(asked);
    world.until_nothing_is_held("the client has left").await;
    Asked::new(&world, Version::Http1, Moment::Answer).await.is_answered().await;
}

#[tokio::test]
async fn issue_39_a_request_that_cannot_become_a_stream_waits_for_no_place() {
    let (server, mut news) = endless(Version::Http1, Moment::Work).await;
    let mut route = streaming();
    route.wait = Duration::from_secs(30);
    let resource = ResourceConfig::new(1).streams_max(1);
    let world = world(server, Version::Http1, route, &resource).await;
    let _asked = Asked::new(&world, Version::Http1, Moment::Work).await;
    assert_eq!(news.recv().await, Some(News::Begun));
    let refused = world.through("/", "x-user: b\r\n").await;
    assert_eq!((refused.status, refused.json()["limit"].as_str()), (503, Some("streams")), "{refused:?}");
    assert_eq!((world.held(), world.handle.proxy_waiting()), ((1, 1), 0));
}

#[tokio::test]
async fn issue_39_the_first_byte_of_a_stream_calls_the_next_request_that_waits_for_a_place() {
    let (server, mut news) = endless(Version::Http1, Moment::Answer).await;
    let mut route = streaming();
    route.wait = Duration::from_secs(30);
    let world = world(server, Version::Http1, route, &ResourceConfig::new(1)).await;
    let all: Vec<_> = (0..5).map(|_| Asked::new(&world, Version::Http1, Moment::Answer)).collect();
    let mut open = Vec::new();
    for asked in all {
        open.push(asked.await);
    }
    for asked in &mut open {
        asked.is_answered().await;
        assert_eq!(news.recv().await, Some(News::Begun));
    }
    assert_eq!(world.held(), (0, 5));
}

#[tokio::test]
async fn issue_39_a_stream_that_its_upstream_ends_or_breaks_off_is_given_back() {
    for (rest, case) in [("k", "it ends"), ("", "it breaks off")] {
        let (send, told) = tokio::sync::watch::channel(false);
        let server = serve(move |mut connection| {
            let mut told = told.clone();
            async move {
                if connection.request().await.is_some() {
                    connection.send("HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nsome").await;
                    told.wait_for(|goes_on| *goes_on).await.unwrap();
                    connection.send(rest).await;
                }
            }
        })
        .await;
        let world = world(server, Version::Http1, streaming(), &ResourceConfig::new(1)).await;
        let mut client = world.proxied().await;
        client.send(get("/", "x-user: a\r\n")).await;
        client.has_received("some").await;
        assert_eq!(world.held(), (0, 1), "{case}");
        send.send(true).unwrap();
        world.until_nothing_is_held(case).await;
    }
}

#[tokio::test(start_paused = true)]
async fn issue_39_a_stream_of_http_2_whose_client_takes_nothing_is_given_back() {
    let mut route = streaming();
    route.timeouts.idle = Duration::from_millis(60);
    let world = world(generous().await, Version::Http1, route, &ResourceConfig::new(1)).await;
    let mut stream = http2(&world, 0).await;
    stream.write_all(&head(1)).await.unwrap();
    let begun = async {
        until_frame(&mut stream, 1, 1).await;
        world.held()
    };
    assert_eq!(at_this_instant("the answer begins", begun).await, (0, 1));
    until_frame(&mut stream, 3, 1).await;
    world.until_nothing_is_held("the stream is reset").await;
}

#[tokio::test]
async fn issue_39_a_stream_of_http_1_whose_client_takes_nothing_is_given_back() {
    let mut route = streaming();
    route.timeouts.idle = Duration::from_millis(600);
    let world = world(generous().await, Version::Http1, route, &ResourceConfig::new(1)).await;
    let mut client = world.proxied().await;
    client.send(get("/", "x-user: a\r\n")).await;
    eventually("the answer begins", async || world.held() == (0, 1)).await;
    eventually("it is cut off", async || world.held() == (0, 0)).await;
    drop(client);
}

#[tokio::test]
async fn issue_39_an_upgraded_connection_keeps_no_place_and_its_stream_until_it_ends() {
    let world = world(obliging().await, Version::Http1, streaming(), &ResourceConfig::new(1)).await;
    let mut clients = Vec::new();
    for open in 1..=3 {
        clients.push(world.upgraded().await);
        assert_eq!(world.held(), (0, open));
    }
    drop(clients);
    world.until_nothing_is_held("the clients have left").await;
}

#[tokio::test(start_paused = true)]
async fn issue_39_an_upgraded_connection_that_says_nothing_for_idle_is_given_back() {
    let mut route = streaming();
    route.timeouts.idle = TIME;
    let world = world(obliging().await, Version::Http1, route, &ResourceConfig::new(1)).await;
    let client = at_this_instant("it changes its protocol", world.upgraded()).await;
    assert_eq!(world.held(), (0, 1));
    world.until_nothing_is_held("it was silent").await;
    drop(client);
}

#[tokio::test]
async fn issue_39_a_drain_gives_back_the_streams() {
    for version in [Version::Http1, Version::Http2] {
        let (server, mut news) = endless(version, Moment::Answer).await;
        let world = world(server, version, streaming(), &ResourceConfig::new(1)).await;
        let mut asked = Asked::new(&world, version, Moment::Answer).await;
        asked.is_answered().await;
        assert_eq!(news.recv().await, Some(News::Begun));
        assert_eq!(world.held(), (0, 1));
        let World { handle, engine, clock } = world;
        handle.shutdown().await;
        assert_eq!(news.recv().await, Some(News::Ended), "{version:?}");
        let streams = || engine.resource_stats(clock.now()).next().unwrap().streams.unwrap_or_default().open;
        eventually("the stream is given back", async || streams() == 0).await;
    }
    let world = world(obliging().await, Version::Http1, streaming(), &ResourceConfig::new(1)).await;
    let _client = world.upgraded().await;
    let World { handle, engine, clock } = world;
    handle.shutdown().await;
    let streams = || engine.resource_stats(clock.now()).next().unwrap().streams.unwrap_or_default().open;
    eventually("the tunnel is given back", async || streams() == 0).await;
}

#[tokio::test]
async fn issue_39_four_endless_streams_leave_all_places_to_short_requests() {
    let server = serve(|mut connection| async move {
        while let Some(request) = connection.request().await {
            if request.starts_with("GET /events") {
                connection.send("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\nsome").await;
                connection.until(b"never").await;
                return;
            }
            connection.send("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await;
        }
    })
    .await;
    for (hold, statuses) in [(RouteHold::FirstByte, [200; 20]), (RouteHold::End, [503; 20])] {
        let mut route = route("free");
        route.hold = hold;
        let world = world(server, Version::Http1, route, &ResourceConfig::new(4)).await;
        let mut streams = Vec::new();
        for _ in 0..4 {
            let mut client = world.proxied().await;
            client.send(get("/events", "x-user: a\r\n")).await;
            client.has_received("some").await;
            streams.push(client);
        }
        let mut got = [0; 20];
        for status in &mut got {
            *status = world.through("/", "x-user: b\r\n").await.status;
        }
        assert_eq!(got, statuses, "{hold:?}");
    }
}

//! Ending: what was read is answered whole.

use std::time::Duration;

use tokio::net::TcpStream;

use crate::client::post;
use crate::world::{World, api, loopback};

const CHECK: &str = r#"{"namespace":"api","attributes":{"user":"ada"}}"#;

#[tokio::test]
async fn requests_in_flight_are_answered_whole_and_idle_connections_end() {
    let world = World::api().await;
    let address = world.address();
    let mut idle = world.client().await;
    assert_eq!(idle.get("/healthz").await.status, 200);
    // Read so far: the headers and half of the body.
    let mut in_flight = Vec::new();
    for _ in 0..5 {
        let mut client = world.client().await;
        client
            .send(format!(
                "POST /v1/check HTTP/1.1\r\nhost: t\r\ncontent-length: {}\r\nexpect: 100-continue\r\n\r\n",
                CHECK.len()
            ))
            .await;
        assert_eq!(client.answer().await.unwrap().status, 100, "the server reads the body");
        client.send(&CHECK[..10]).await;
        in_flight.push(client);
    }
    let shutdown = tokio::spawn(world.handle.shutdown());
    assert!(idle.is_ended().await);
    assert!(TcpStream::connect(address).await.is_err(), "nothing new is accepted");
    let mut statuses = Vec::new();
    for client in &mut in_flight {
        client.send(&CHECK[10..]).await;
        let answer = client.answer().await.expect("a whole answer");
        assert_eq!(answer.header("connection"), Some("close"));
        assert!(answer.json()["decision"].is_string(), "{answer:?}");
        assert!(client.is_ended().await);
        statuses.push(answer.status);
    }
    assert_eq!(statuses, [200, 200, 200, 429, 429]);
    assert_eq!(shutdown.await.unwrap().cut_off, 0);
}

#[tokio::test]
async fn a_caller_that_goes_away_does_not_hold_up_the_drain() {
    let world = World::api().await;
    let mut gone = world.client().await;
    gone.send("POST /v1/check HTTP/1.1\r\nhost: t\r\ncontent-length: 47\r\nexpect: 100-continue\r\n\r\n")
        .await;
    assert_eq!(gone.answer().await.unwrap().status, 100);
    gone.send(&CHECK[..10]).await;
    let shutdown = tokio::spawn(world.handle.shutdown());
    drop(gone);
    assert_eq!(shutdown.await.unwrap().cut_off, 0);
}

#[tokio::test]
async fn requests_that_follow_each_other_on_one_connection_are_answered_until_the_last_that_was_read() {
    let world = World::api().await;
    let mut client = world.client().await;
    // Two whole requests in one segment, and the third begun: the server has read all of it before
    // it drains.
    let begun = format!(
        "POST /v1/check HTTP/1.1\r\nhost: t\r\ncontent-length: {}\r\nexpect: 100-continue\r\n\r\n",
        CHECK.len()
    );
    client.send(format!("{}{}{begun}", post("/v1/check", CHECK), post("/v1/check", CHECK))).await;
    let mut statuses = Vec::new();
    for _ in 0..3 {
        statuses.push(client.answer().await.unwrap().status);
    }
    assert_eq!(statuses, [200, 200, 100]);
    let shutdown = tokio::spawn(world.handle.shutdown());
    client.send(CHECK).await;
    assert_eq!(client.answer().await.unwrap().status, 200);
    assert_eq!(shutdown.await.unwrap().cut_off, 0);
}

#[tokio::test]
async fn what_does_not_end_in_time_is_cut_off_and_counted() {
    let mut config = loopback();
    config.bounds.drain = Duration::from_millis(50);
    let world = World::with([api()], config).await;
    let mut stuck = world.client().await;
    stuck
        .send("POST /v1/check HTTP/1.1\r\nhost: t\r\ncontent-length: 47\r\nexpect: 100-continue\r\n\r\n")
        .await;
    assert_eq!(stuck.answer().await.unwrap().status, 100);
    assert_eq!(world.handle.shutdown().await.cut_off, 1);
    assert!(stuck.is_ended().await);
}

#[tokio::test]
async fn a_busy_caller_gets_its_next_answer_and_is_told_to_close_with_it() {
    let mut config = loopback();
    config.bounds.drain_grace = Duration::from_mins(1);
    let world = World::with([api()], config).await;
    let mut busy = Vec::new();
    for _ in 0..5 {
        let mut client = world.client().await;
        assert_eq!(client.post("/v1/check", CHECK).await.header("connection"), None);
        busy.push(client);
    }
    let shutdown = tokio::spawn(world.handle.shutdown());
    // The answer that is told to close is the one after the daemon was told to end.
    for client in &mut busy {
        loop {
            let answer = client.post("/v1/check", CHECK).await;
            assert!(answer.json()["decision"].is_string(), "{answer:?}");
            if answer.header("connection") == Some("close") {
                break;
            }
        }
        assert!(client.is_ended().await);
    }
    assert_eq!(shutdown.await.unwrap().cut_off, 0, "and no minute has to pass");
}

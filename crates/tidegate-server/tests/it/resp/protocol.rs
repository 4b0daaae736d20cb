//! Pipelines, bad input, slow clients, and the end.

use std::io::ErrorKind;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tidegate_policy::policy::Tls;
use tidegate_test_support::{PATIENCE, TemporaryFolder};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsConnector;

use super::throttle::page;
use super::{Client, Reply, address, config, framed, words, world, world_with};
use tidegate_server::ListenerRole;

use crate::authority::Authority;
use crate::paused_clock::at_this_instant;
use crate::world::api;

#[tokio::test]
async fn what_is_not_the_protocol_is_told_so_and_ends_the_connection() {
    let (world, _) = world().await;
    for (bytes, error) in [
        (&b"*2\r\n$4\r\nECHO\r\n$2147483648\r\n"[..], "invalid bulk length \"2147483648\""),
        (b"*2147483648\r\n", "invalid multibulk length \"2147483648\""),
        (b"*-1\r\n", "invalid multibulk length \"-1\""),
        (b"*1\r\n$-1\r\n", "invalid bulk length \"-1\""),
        (b"*1\r\n*1\r\n$4\r\nPING\r\n", "expected '$', got '*'"),
        (b"PING \"unclosed\r\n", "unbalanced quotes in request"),
    ] {
        let mut client = Client::connect(address(&world)).await;
        client.send([b"PING\r\n", bytes, b"PING\r\n"].concat()).await;
        assert_eq!(client.line().await, "+PONG");
        let answer = client.line().await;
        assert!(answer.starts_with(&format!("-ERR Protocol error: {error}")), "{answer}");
        assert!(client.is_ended().await, "{error}");
    }
    assert!(page(&world).await.contains("tidegate_faults_total{error=\"malformed_resp\"} 6"));
}

#[tokio::test]
async fn a_line_without_end_is_cut_off() {
    let (_world, mut client) = world().await;
    // The server may close before all is sent.
    let _ = client.stream.write_all(&vec![b'x'; 1 << 20]).await;
    let answer = client.line().await;
    assert!(answer.starts_with("-ERR Protocol error: too big inline request"), "{answer}");
}

#[tokio::test]
async fn garbage_is_no_command_and_requests_of_a_browser_end_the_connection() {
    let (world, mut client) = world().await;
    client.send("GET / HTTP/1.1\r\n\x01\x02\u{7f}\r\n").await;
    assert_eq!(client.line().await, "-ERR unknown command 'GET', with args beginning with: '/' 'HTTP/1.1' ");
    assert_eq!(client.line().await, r"-ERR unknown command '\x01\x02\x7f', with args beginning with: ");
    client.send("Host: 127.0.0.1\r\n\r\nCL.THROTTLE k 0 1 60\r\n").await;
    assert!(client.line().await.starts_with("-ERR this listener speaks RESP, not HTTP"));
    assert!(client.is_ended().await);
    let mut client = Client::connect(address(&world)).await;
    client.send("POST / HTTP/1.1\r\n\r\nCL.THROTTLE k 0 1 60\r\n").await;
    assert!(client.line().await.starts_with("-ERR this listener speaks RESP, not HTTP"));
    assert!(client.is_ended().await);
    let mut client = Client::connect(address(&world)).await;
    assert_eq!(client.ask("CL.THROTTLE k 0 1 60").await, "[0, 1, 0, -1, 60]", "what followed was not read");
}

#[tokio::test]
async fn half_a_frame_and_then_silence_ends_when_a_request_must_have_come() {
    let mut config = config();
    config.bounds.header_timeout = Duration::from_millis(100);
    let (world, mut fresh) = world_with([api()], config).await;
    let mut used = Client::connect(address(&world)).await;
    let mut idle = Client::connect(address(&world)).await;
    fresh.send("*2\r\n$4\r\nECHO\r\n$10\r\nhal").await;
    used.send("PING\r\n*2\r\n$4\r\nECHO\r\n$10\r\nhal").await;
    assert_eq!(idle.ask("PING").await, "+PONG");
    assert_eq!(used.line().await, "+PONG");
    assert!(fresh.is_ended().await);
    assert!(used.is_ended().await);
    assert_eq!(idle.ask("PING").await, "+PONG", "who is idle between commands may stay");
}

#[tokio::test]
async fn a_command_that_comes_byte_by_byte_is_read() {
    let (_world, mut client) = world().await;
    for byte in framed(&["ECHO", "piece by piece"]) {
        client.send([byte]).await;
        tokio::task::yield_now().await;
    }
    assert_eq!(client.reply().await.to_string(), "piece by piece");
}

#[tokio::test]
async fn the_largest_command_is_answered() {
    let (_world, mut client) = world().await;
    let largest = "x".repeat(64 << 10);
    assert_eq!(client.ask_for(&["ECHO", &largest]).await, largest);
    let mut keys = vec!["DEL".to_owned()];
    keys.extend((0..1023).map(|index| format!("{index}{}", "k".repeat(900))));
    assert_eq!(client.ask_for(&keys).await, "0");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_thousand_pipelined_commands_are_answered_in_order() {
    let (_world, client) = world().await;
    let (mut read, mut write) = client.stream.into_split();
    let writer = tokio::spawn(async move {
        let line = words("CL.THROTTLE bench 49999 1 60");
        for _ in 0..100 {
            write.write_all(&line.repeat(1000)).await.unwrap();
        }
        write
    });
    let mut replies = Vec::new();
    let mut expected = Vec::new();
    for used in 1..=100_000 {
        let values = if used <= 50_000 {
            [0, 50_000, 50_000 - used, -1, used * 60]
        } else {
            [1, 50_000, 0, 60, 3_000_000]
        };
        expected.extend(b"*5\r\n");
        expected.extend(values.iter().flat_map(|value| format!(":{value}\r\n").into_bytes()));
    }
    while replies.len() < expected.len() {
        assert!(read.read_buf(&mut replies).await.unwrap() > 0);
    }
    assert!(replies == expected, "every reply in its place, and exactly 50000 admitted");
    drop(writer.await.unwrap());
}

/// Above its bound of unwritten replies a connection is not read from, so that what a client does
/// not take piles up at its own end.
#[tokio::test]
async fn a_client_that_does_not_read_is_not_read_from() {
    /// The bound of 1 MiB, without the bytes that no connection is charged for.
    const FULL: u64 = (1 << 20) - (8 << 10);
    let (world, mut client) = world().await;
    let echo = framed(&["ECHO", &"x".repeat(1000)]);
    let chunk = echo.repeat(1000);
    let (mut sent, mut turns_in_vain, since) = (0, 0, Instant::now());
    // Until the server holds as much as it may and takes nothing more, although it has had its turn
    // again and again: all buffers on the way are full.
    while turns_in_vain < 5 {
        match client.stream.try_write(&chunk[sent % chunk.len()..]) {
            Ok(written) => (sent, turns_in_vain) = (sent + written, 0),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::WouldBlock, "{error}");
                // The answer to another client comes after the turn of the server.
                let page = page(&world).await;
                let held = page.lines().find_map(|line| line.strip_prefix("tidegate_buffered_bytes "));
                let is_full = held.unwrap().parse::<u64>().unwrap() >= FULL;
                turns_in_vain = if is_full { turns_in_vain + 1 } else { 0 };
            }
        }
        assert!(sent < 64 << 20, "it is read without a bound");
        assert!(since.elapsed() < PATIENCE, "the server neither takes more nor holds all that it may");
    }
    for _ in 0..sent / echo.len() {
        assert!(matches!(client.reply().await, Reply::Bulk(bytes) if bytes.len() == 1000));
    }
    let begun = sent % echo.len();
    client.send(&echo[begun..]).await;
    assert!(matches!(client.reply().await, Reply::Bulk(bytes) if bytes.len() == 1000), "and then it goes on");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_never_reads_is_cut_off() {
    let mut config = config();
    config.bounds.idle_timeout = Duration::from_millis(200);
    let (world, mut client) = world_with([api()], config).await;
    let chunk = framed(&["ECHO", &"x".repeat(1000)]).repeat(1000);
    while client.stream.write_all(&chunk).await.is_ok() {}
    let page = at_this_instant("the page", page(&world)).await;
    assert!(page.contains("tidegate_connections_timed_out_total 1"), "{page}");
}

#[tokio::test]
async fn what_was_read_is_answered_before_the_daemon_ends() {
    let (world, mut client) = world().await;
    let mut idle = Client::connect(address(&world)).await;
    let mut half = Client::connect(address(&world)).await;
    assert_eq!(idle.ask("PING").await, "+PONG");
    half.send("PING\r\n*1\r\n$4\r\nPI").await;
    assert_eq!(half.line().await, "+PONG");
    client.send(words("CL.THROTTLE k 999 1 60").repeat(500)).await;
    assert_eq!(client.reply().await.to_string(), "[0, 1000, 999, -1, 60]");
    let shutdown = tokio::spawn(world.handle.shutdown());
    for used in 2..=500 {
        assert!(client.reply().await.to_string().starts_with(&format!("[0, 1000, {}, ", 1000 - used)));
    }
    for client in [&mut client, &mut idle, &mut half] {
        assert!(client.is_ended().await);
    }
    assert_eq!(shutdown.await.unwrap().cut_off, 0);
}

#[tokio::test]
async fn what_a_client_sent_before_it_closed_its_side_is_answered() {
    let (_world, mut client) = world().await;
    client.send("PING\r\nECHO a\r\nPI").await;
    client.stream.shutdown().await.unwrap();
    assert_eq!((client.line().await.as_str(), client.reply().await), ("+PONG", Reply::Bulk(b"a".to_vec())));
    assert!(client.is_ended().await);
}

#[tokio::test]
async fn connections_are_counted_with_the_others() {
    let (world, mut client) = world().await;
    client.ask("PING").await;
    // One connection of the client, one of the reader of the page.
    assert!(page(&world).await.contains("tidegate_connections 2"));
}

#[tokio::test]
async fn a_unix_socket_is_served() {
    let folder = TemporaryFolder::new();
    let path = folder.join("resp.sock");
    let mut config = config();
    config.listen(ListenerRole::Resp, tidegate_server::Address::Unix(path.clone()));
    let world = crate::world::World::with([api()], config).await;
    let mut client = Client::over(UnixStream::connect(&path).await.unwrap());
    assert_eq!(client.ask("CL.THROTTLE k 1 1 60").await, "[0, 2, 1, -1, 60]");
    drop(world);
}

#[tokio::test]
async fn tls_is_spoken_where_it_is_configured() {
    let (folder, authority) = (TemporaryFolder::new(), Authority::new());
    let issued = authority.issue(rcgen::ExtendedKeyUsagePurpose::ServerAuth);
    let (cert, key) = (folder.path().join("cert.pem"), folder.path().join("key.pem"));
    std::fs::write(&cert, &issued.cert).unwrap();
    std::fs::write(&key, &issued.key).unwrap();
    let mut config = config();
    let text = |path: &std::path::Path| path.to_str().unwrap().to_owned();
    config.listen(ListenerRole::Resp, "127.0.0.1:0".parse().unwrap()).tls =
        Some(Tls { cert: text(&cert), key: text(&key), client_ca: None });
    let (world, mut plain) = world_with([api()], config).await;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(provider);
    let builder = builder.with_safe_default_protocol_versions().unwrap();
    let trusting = builder.with_root_certificates(authority.roots()).with_no_client_auth();
    let stream = TcpStream::connect(address(&world)).await.unwrap();
    let name = rustls::pki_types::ServerName::try_from("localhost").unwrap();
    let stream = TlsConnector::from(Arc::new(trusting)).connect(name, stream).await.unwrap();
    let mut client = Client::over(stream);
    assert_eq!(client.ask("CL.THROTTLE k 1 1 60").await, "[0, 2, 1, -1, 60]");
    let large = "x".repeat(60_000);
    client.send(framed(&["ECHO", &large]).repeat(30)).await;
    for _ in 0..30 {
        assert!(matches!(client.reply().await, Reply::Bulk(bytes) if bytes.len() == large.len()));
    }
    plain.send("PING\r\n").await;
    while plain.fill().await {}
    assert!(!plain.buffer.starts_with(b"+PONG"), "plain text is told nothing");
}

#[tokio::test]
async fn nothing_is_served_to_redis_clients_unless_it_is_configured() {
    let world = crate::world::World::api().await;
    assert_eq!(world.handle.resp(), None);
}

#[tokio::test]
async fn a_thousand_connections_come_and_go() {
    let (world, _client) = world().await;
    for _ in 0..1000 {
        let mut stream = TcpStream::connect(address(&world)).await.unwrap();
        stream.write_all(b"CL.THROTTLE k 9 1 60\r\nCL.THR").await.unwrap();
    }
    let mut client = Client::connect(address(&world)).await;
    assert_eq!(client.ask("CL.THROTTLE k 9 1 60").await, "[1, 10, 0, 60, 600]");
    while world.handle.resp().is_some() && !page(&world).await.contains("tidegate_connections 3") {
        tokio::task::yield_now().await;
    }
}

//! A server that is hostile or broken: what it sends takes no memory beyond a bound, and ends its
//! connection.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tidegate_core::{Algorithm, Cost, Rate, error_chain};
use tidegate_store::{Batch, FleetStore as _, Key, Kind, NoteKind, Operation, RequestId, Store, StoreError};
use tidegate_store_redis::{Circuit, RedisConfig, RedisStore};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::engine::{PATIENCE, within};

/// How much a hostile server tries to send over one connection.
const SENT_MAX: usize = 256 << 20;

/// How much of it is taken over one connection: a reply within its bound, and what the buffers of
/// both sockets hold.
const TAKEN_MAX: usize = 40 << 20;

/// A server that lets a connection in, and answers a script or a scan with `first` and then `more`,
/// again and again.
struct Hostile {
    port: u16,
    /// The most bytes it could send over one connection.
    sent: Arc<AtomicUsize>,
}

impl Hostile {
    async fn start(lets_in: bool, first: &'static [u8], more: Vec<u8>) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let (port, sent) = (listener.local_addr().unwrap().port(), Arc::new(AtomicUsize::new(0)));
        let most = Arc::clone(&sent);
        tokio::spawn(async move {
            // One connection after the other, so that one test does not fill the machine.
            while let Ok((stream, _)) = listener.accept().await {
                let bytes = answer(stream, lets_in, first, &more).await;
                most.fetch_max(bytes, Ordering::Relaxed);
            }
        });
        Self { port, sent }
    }

    fn store(&self) -> RedisStore {
        let mut config = RedisConfig::new([format!("redis://127.0.0.1:{}", self.port)]);
        config.deadline = Duration::from_secs(2);
        RedisStore::open(config).unwrap()
    }
}

/// Answers one connection until it is closed. How many bytes were sent.
async fn answer(mut stream: TcpStream, lets_in: bool, first: &[u8], more: &[u8]) -> usize {
    let mut bytes = vec![0; 1 << 16];
    loop {
        let Ok(length @ 1..) = stream.read(&mut bytes).await else { return 0 };
        let read = &bytes[..length];
        let asks =
            [&b"EVAL"[..], b"HSCAN"].iter().any(|name| read.windows(name.len()).any(|part| part == *name));
        if asks || !lets_in {
            break;
        }
        // The greeting is two commands, each of which begins with a star.
        if stream.write_all(b"+OK\r\n+OK\r\n").await.is_err() {
            return 0;
        }
    }
    let mut sent = first.len();
    if stream.write_all(first).await.is_err() {
        return 0;
    }
    let mut at = 0;
    while sent < SENT_MAX {
        // A server that nobody reads from any more stops.
        match tokio::time::timeout(Duration::from_secs(1), stream.write(&more[at..])).await {
            Ok(Ok(length @ 1..)) => (sent, at) = (sent + length, (at + length) % more.len()),
            _ => break,
        }
    }
    // Until the connection is closed.
    let _ = tokio::time::timeout(Duration::from_secs(1), stream.read(&mut bytes)).await;
    sent
}

fn check(id: u128) -> Batch {
    let algorithm = Algorithm::bucket(Rate::per_minute(1000).unwrap()).unwrap();
    let key = Key::new("api", b"limit", b"ada").unwrap();
    Batch::all_or_nothing(RequestId(id), [Operation::new(key, algorithm, Kind::Check { cost: Cost::ONE })])
}

/// A hostile server: whether it lets connections in first, its first bytes and those it repeats,
/// and the expected text of the error.
type Case = (&'static str, bool, &'static [u8], Vec<u8>, &'static str);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reply_beyond_its_bounds_ends_its_connection_before_it_takes_memory() {
    let zeros = vec![b'0'; 1 << 16];
    let strings = [&b"$65536\r\n"[..], &zeros, b"\r\n"].concat();
    let cases: [Case; 9] = [
        ("a string of gigabytes", true, b"$4000000000\r\n", zeros.clone(), "longer than"),
        ("an array of a billion", true, b"*999999999\r\n", b":1\r\n".repeat(4096), "more than"),
        ("a map of a billion", true, b"%999999999\r\n", b":1\r\n".repeat(4096), "more than"),
        ("arrays in arrays", true, b"", b"*1\r\n".repeat(4096), "deep"),
        ("arrays that double", true, b"", b"*1000\r\n".repeat(4096), "deep"),
        ("a line without an end", true, b"+", zeros.clone(), "longer than"),
        ("an array of long strings", true, b"*4096\r\n", strings, "longer than"),
        ("a long greeting", false, b"$100000\r\n", zeros.clone(), "longer than"),
        (
            "replies that nobody asked for",
            true,
            b":1\r\n",
            b":1\r\n".repeat(4096),
            "that no command asked for",
        ),
    ];
    for (name, lets_in, first, more, says) in cases {
        let server = Hostile::start(lets_in, first, more).await;
        let (store, mut id) = (server.store(), 0);
        within(PATIENCE, async || {
            id += 1;
            let text = error_chain(&store.run(&check(id)).await.unwrap_err());
            if text.contains(says) { Ok(()) } else { Err(format!("{name}: {text}")) }
        })
        .await;
        let sent = server.sent.load(Ordering::Relaxed);
        println!("{name}: {} KiB sent", sent >> 10);
        assert!(sent <= TAKEN_MAX, "{name}: {sent} bytes were taken");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_answers_scripts_with_something_else_opens_the_breaker() {
    let server = crate::relay::Relay::start(crate::relay::Traffic::EachCommand("+OK")).await;
    let store = RedisStore::open(RedisConfig::new([server.url()])).unwrap();
    let since = Instant::now();
    while store.stats().circuit == Circuit::Closed {
        let error = store.run(&check(1)).await.unwrap_err();
        assert!(matches!(error, StoreError::Unavailable { .. } | StoreError::Timeout { .. }), "{error}");
        assert!(since.elapsed() < PATIENCE, "{:?}", store.stats());
    }
    let text = error_chain(&store.run(&check(2)).await.unwrap_err());
    assert!(text.contains("not one of the script's"), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_scan_that_never_ends_is_given_up_at_the_bound_of_notes() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    // Answers every command of a connection with another page of a scan, whose cursor is never 0.
    tokio::spawn(async move {
        let mut number = 0_u64;
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut bytes = vec![0; 1 << 16];
            while let Ok(length @ 1..) = stream.read(&mut bytes).await {
                let is_scan = bytes[..length].windows(5).any(|part| part == b"HSCAN");
                let mut reply = b"+OK\r\n+OK\r\n".to_vec();
                if bytes[..length].windows(4).any(|part| part == b"EVAL") {
                    // Status, clock and marker, and the answer to a batch of nothing.
                    reply = b"*4\r\n:0\r\n:1700000000000000\r\n$6\r\nmarker\r\n$11\r\n".to_vec();
                    reply.extend_from_slice(&[0; 11]);
                    reply.extend_from_slice(b"\r\n");
                }
                if is_scan {
                    reply = b"*2\r\n$1\r\n7\r\n*20000\r\n".to_vec();
                    for _ in 0..20_000 {
                        number += 1;
                        let name = format!("{number:016}");
                        reply.extend_from_slice(format!("$16\r\n{name}\r\n").as_bytes());
                    }
                }
                if stream.write_all(&reply).await.is_err() {
                    break;
                }
            }
        }
    });
    let mut config = RedisConfig::new([format!("redis://127.0.0.1:{port}")]);
    // Neither the first call nor a page of the scan is to be late.
    (config.deadline, config.connect_timeout) = (PATIENCE, PATIENCE);
    let store = RedisStore::open(config).unwrap();
    let error = store.notes(NoteKind::Override).await.unwrap_err();
    assert!(error_chain(&error).contains("which no fleet writes"), "{}", error_chain(&error));
}

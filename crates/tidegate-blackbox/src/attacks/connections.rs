//! Attacks with connections: silent ones, slow ones, and heads that are too large.

use std::io::ErrorKind;
use std::thread;
use std::time::{Duration, Instant};

use crate::attack::{AttackResult, Failure, RunContext, require};
use crate::daemon::Daemon;
use crate::raw::{self, RawConnection};
use crate::upstream::{Manner, Upstream};
use crate::{http1, resp};

/// The configured bound of connections, and the silent connections that are opened at one listener.
const CONNECTIONS: usize = 256;
const SILENT: usize = 400;
/// Connections at each of the other listeners. The first ones may have been accepted ahead.
const OTHERS: usize = 6;
/// How long another listener may take to answer beside them.
const ANSWER_MAX: Duration = Duration::from_secs(3);
/// The size of a head that is far too large.
const HEAD_BYTES: usize = 200 << 10;

/// Silent connections at one listener leave room at the others.
pub(crate) fn silent_connections(context: &RunContext) -> AttackResult {
    let upstream = Upstream::start(Manner::Plain)?;
    let policy = format!(
        "listen: {{ http: '127.0.0.1:0', grpc: '127.0.0.1:0', resp: '127.0.0.1:0', proxy: '127.0.0.1:0', admin: '127.0.0.1:0' }}\n\
         http: {{ bounds: {{ connections: {CONNECTIONS} }} }}\n\
         namespaces: {{ honest: {{ limits: [{{ name: rate, key: [user], missing: group, rate: 1000/s }}] }} }}\n\
         proxy: {{ upstreams: {{ app: ['{}'] }}, routes: [{{ upstream: app }}] }}\n",
        upstream.url()
    );
    let daemon = Daemon::start(context, &policy)?;
    let silent: Vec<_> = (0..SILENT).map_while(|_| RawConnection::open(daemon.http().ok()?).ok()).collect();
    thread::sleep(Duration::from_millis(300));
    let mut refused = Vec::new();
    let mut open = Vec::new();
    for (name, address, request) in [
        ("RESP", daemon.resp()?, resp::command(&["PING"])),
        ("the proxy", daemon.proxy()?, raw::encoded(&http1::get("/"))),
        ("the admin listener", daemon.admin()?, raw::encoded(&http1::get("/metrics"))),
        // Over HTTP/1 it answers 505, which is an answer too.
        ("gRPC", daemon.grpc()?, raw::encoded(&http1::get("/"))),
    ] {
        for _ in 0..OTHERS {
            let mut connection = RawConnection::open(address)?;
            connection.set_read_timeout(ANSWER_MAX)?;
            let answered = connection.send(&request).and_then(|()| connection.read(&mut [0; 1]));
            // They stay open, so that each needs a place of its own.
            open.push(connection);
            if !matches!(answered, Ok(1)) {
                refused.push(name);
                break;
            }
        }
    }
    require!(
        refused.is_empty(),
        "beside {} silent connections at the HTTP listener no answer from: {}",
        silent.len(),
        refused.join(", ")
    )?;
    Ok(format!(
        "beside {} silent connections at the HTTP listener every other listener answers",
        silent.len()
    ))
}

/// A head that is too large is read to its end, so that its sender reads 431 instead of a broken
/// connection.
pub(crate) fn large_heads(context: &RunContext) -> AttackResult {
    let policy = "listen: { http: '127.0.0.1:0' }\n\
        namespaces: { honest: { limits: [{ name: rate, rate: 1000/s }] } }\n";
    let daemon = Daemon::start(context, policy)?;
    let mut connection = RawConnection::open(daemon.http()?)?;
    connection.send(b"GET /v1/authorize?namespace=honest HTTP/1.1\r\nhost: localhost\r\nx-large: ")?;
    let piece = vec![b'a'; 4 << 10];
    for sent in (0..HEAD_BYTES).step_by(piece.len()) {
        if let Err(error) = connection.send(&piece) {
            return Err(Failure::GotThrough(format!(
                "the connection broke after {} KiB of the head ({error}), which a gateway that fails open takes for an outage",
                sent >> 10
            )));
        }
        thread::sleep(Duration::from_millis(1));
    }
    let answer = connection.send(b"\r\n\r\n").and_then(|()| connection.answer());
    let status = answer.map(|answer| answer.status);
    require!(matches!(status, Ok(431)), "a head of {} KiB is answered {status:?}", HEAD_BYTES >> 10)?;
    Ok(format!("a head of {} KiB is read to its end and answered 431", HEAD_BYTES >> 10))
}

/// A head that begins as HTTP/2's preface and never ends gets no more time than any other.
pub(crate) fn heads_that_begin_as_the_preface(context: &RunContext) -> AttackResult {
    let policy = "listen: { http: '127.0.0.1:0' }\nhttp: { bounds: { request_timeout: 1s } }\n\
        namespaces: { honest: { limits: [{ name: rate, rate: 1000/s }] } }\n";
    let daemon = Daemon::start(context, policy)?;
    let mut seen = Vec::new();
    for head in ["GET /x HTTP/1.1\r\n", "PRI /x HTTP/1.1\r\n", "PRI * HTTP/2.0\r\n", "P"] {
        let mut connection = RawConnection::open(daemon.http()?)?;
        connection.set_read_timeout(Duration::from_secs(5))?;
        let began = Instant::now();
        connection.send(head.as_bytes())?;
        let mut buffer = [0; 1024];
        loop {
            match connection.read(&mut buffer) {
                Ok(0) => break,
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::ConnectionReset => break,
                Err(_) => {
                    return Err(Failure::GotThrough(format!("{:?} is still open after 5 s", head.trim())));
                }
            }
        }
        let took = began.elapsed().as_secs_f64();
        require!(took < 4.0, "{:?} was open for {took:.1} s, with a time of 1 s for a request", head.trim())?;
        seen.push(format!("{:?} {took:.1} s", head.trim()));
    }
    Ok(format!("closed after {}", seen.join(", ")))
}

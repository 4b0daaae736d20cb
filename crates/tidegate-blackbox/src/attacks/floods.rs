//! Floods: many keys, many streams, unread replies. The daemon stays within its memory and goes on
//! serving.

use std::thread;
use std::time::{Duration, Instant};

use tidegate_test_support::TemporaryFolder;

use crate::attack::{AttackResult, Failure, RunContext, require};
use crate::attacks::require_honest_check;
use crate::daemon::Daemon;
use crate::http2_frames::{Http2Connection, post_fields};
use crate::raw::{self, RawConnection};
use crate::upstream::{Manner, Upstream};
use crate::{grpc, http1, resp};

/// Keys of a flood over one protocol.
const KEYS: u64 = 60_000;
/// Connections whose peer reads no reply, or sends no more than a part of a command.
const UNREAD: usize = 300;
const HALF_COMMANDS: usize = 300;
/// Connections and streams with bodies that never end.
const UNFINISHED_CONNECTIONS: usize = 12;
const UNFINISHED_STREAMS: usize = 250;
/// How long streams are opened and reset at once.
const RESETS_TIME: Duration = Duration::from_secs(3);
/// The most lines that such a flood may leave in the log.
const LOG_LINES_MAX: u64 = 200;

// The table of keys has a bound of its own (`memory.keys`); a small one leaves what else grows in
// sight.
const POLICY: &str = r"
memory: { keys: 32MiB }
listen: { http: '127.0.0.1:0', resp: '127.0.0.1:0', grpc: '127.0.0.1:0' }
namespaces:
  hostile: { limits: [{ name: rate, key: [user], missing: group, rate: 1/m }] }
  honest: { limits: [{ name: rate, key: [user], missing: group, rate: 1000/s }] }
";

/// Unique keys over gRPC.
pub(crate) fn unique_keys_over_grpc(context: &RunContext) -> AttackResult {
    let daemon = Daemon::start(context, POLICY)?;
    let request = |number: u64| grpc::request("hostile", "user", &number.to_string());
    let ended = grpc::flood(daemon.grpc()?, KEYS, 100, request)?;
    require!(ended == KEYS, "only {ended} of {KEYS} calls ended")?;
    let is_admitted = grpc::is_admitted(daemon.grpc()?, grpc::request("honest", "user", "ada"))?;
    require!(is_admitted, "after {KEYS} unique keys, an honest call is refused")?;
    Ok(format!("{KEYS} calls with unique keys ended; an honest one is answered OK"))
}

/// Unique keys over HTTP and RESP.
pub(crate) fn unique_keys_over_http_and_resp(context: &RunContext) -> AttackResult {
    let daemon = Daemon::start(context, POLICY)?;
    let check = |number: u64| http1::check("hostile", &number.to_string());
    raw::flood(daemon.http()?, KEYS, 4, check)?;
    let command = |number: u64| resp::command(&["TG.CHECK", "hostile", "user", &format!("r{number}")]);
    resp::flood(daemon.resp()?, KEYS, 4, command)?;
    require_honest_check(&daemon, "ada", "after unique keys over HTTP and RESP")?;
    Ok(format!("{KEYS} unique keys over each of HTTP and RESP; the honest namespace is admitted"))
}

/// Unique keys through the reverse proxy.
pub(crate) fn unique_keys_through_the_proxy(context: &RunContext) -> AttackResult {
    let upstream = Upstream::start(Manner::Plain)?;
    let policy = format!(
        "memory: {{ keys: 32MiB }}\nlisten: {{ http: '127.0.0.1:0', proxy: '127.0.0.1:0' }}\n\
         namespaces:\n  api: {{ limits: [{{ name: rate, key: [user], missing: group, rate: 10/s }}] }}\n\
         proxy:\n  upstreams: {{ app: ['{}'] }}\n  \
         routes: [{{ upstream: app, namespace: api, attributes: {{ user: header.x-user }} }}]\n",
        upstream.url()
    );
    let daemon = Daemon::start(context, &policy)?;
    let count = KEYS / 10;
    let request = |number: u64| http1::get_with("/", &[("x-user", &number.to_string())]);
    let statuses = raw::flood(daemon.proxy()?, count, 4, request)?;
    let passed = statuses.get(&200).copied().unwrap_or(0);
    require!(passed == count, "of {count} requests with unique keys only {passed} passed: {statuses:?}")?;
    Ok(format!("{count} requests with unique keys passed"))
}

/// Unread replies and unfinished commands on many connections.
pub(crate) fn unread_replies_and_half_commands(context: &RunContext) -> AttackResult {
    let daemon = Daemon::start(context, POLICY)?;
    let text = "a".repeat(60_000);
    let echo = resp::command(&["ECHO", &text]);
    let mut open = Vec::new();
    for _ in 0..UNREAD {
        let Ok(mut connection) = RawConnection::open(daemon.resp()?) else { break };
        connection.set_write_timeout(Duration::from_millis(2))?;
        // The kernel buffers a part of the replies, so send until the daemon reads no more.
        for _ in 0..100 {
            if connection.send(&echo).is_err() {
                break;
            }
        }
        open.push(connection);
    }
    let mut half = b"*14\r\n".to_vec();
    for _ in 0..12 {
        half.extend_from_slice(format!("${}\r\n{text}\r\n", text.len()).as_bytes());
    }
    for _ in 0..HALF_COMMANDS {
        let Ok(mut connection) = RawConnection::open(daemon.resp()?) else { break };
        connection.set_write_timeout(Duration::from_millis(100))?;
        let _ = connection.send(&half);
        open.push(connection);
    }
    require_honest_check(&daemon, "ada", "beside unread replies")?;
    let used = daemon.memory_above_idle() >> 20;
    require!(used <= 256, "{} connections that do not read took {used} MiB", open.len())?;
    Ok(format!("{} connections took {used} MiB, and the honest namespace is admitted", open.len()))
}

/// Bodies of calls without a token, sent as far as the daemon takes them.
pub(crate) fn bodies_before_authentication(context: &RunContext) -> AttackResult {
    let folder = TemporaryFolder::new();
    let tokens = folder.write("tokens", "a-token-of-the-suite-with-room\n");
    let tokens = tokens.display();
    let policy =
        format!("{POLICY}authorization: [{{ name: ops, token_file: {tokens}, namespaces: ['*'] }}]\n");
    let daemon = Daemon::start_in(context, folder, &policy)?;
    // A message of 240 KiB, which is below the bound of one message.
    let start = [0, 0, 3, 0xc0, 0];
    unfinished_bodies(&daemon, grpc::PATH, "application/grpc", &start, 240 << 10, true)
}

/// Bodies that never end, over HTTP/2, where no token is asked for.
pub(crate) fn unfinished_bodies_over_http2(context: &RunContext) -> AttackResult {
    let daemon = Daemon::start(context, POLICY)?;
    let seen = unfinished_bodies(&daemon, "/v1/check", "application/json", b"{", 60_000, false)?;
    require_honest_check(&daemon, "ada", &seen)?;
    Ok(seen)
}

fn unfinished_bodies(
    daemon: &Daemon<'_>,
    path: &str,
    content_type: &str,
    start: &[u8],
    length: usize,
    is_grpc: bool,
) -> AttackResult {
    let address = if is_grpc { daemon.grpc()? } else { daemon.http()? };
    let fields = post_fields(path, content_type);
    let (mut open, mut sent) = (Vec::new(), 0);
    for _ in 0..UNFINISHED_CONNECTIONS {
        let mut connection = Http2Connection::open(address)?;
        for _ in 0..UNFINISHED_STREAMS {
            match connection.send_unfinished(&fields, start, length) {
                Ok(0) | Err(_) => break,
                Ok(length) => sent += length,
            }
            // The peer says from time to time how much more it takes.
            if !connection.has_window(length)
                && !connection.read_for(Duration::from_millis(10)).unwrap_or(false)
            {
                break;
            }
        }
        open.push(connection);
    }
    thread::sleep(Duration::from_millis(200));
    let (used, sent) = (daemon.memory_above_idle() >> 20, sent >> 20);
    let seen = format!("{} connections sent {sent} MiB of bodies, which took {used} MiB", open.len());
    require!(used <= 256, "{seen}")?;
    Ok(seen)
}

/// Streams that are opened and reset at once fill neither the log nor the daemon.
pub(crate) fn stream_resets(context: &RunContext) -> AttackResult {
    let daemon = Daemon::start(context, POLICY)?;
    let fields = post_fields(grpc::PATH, "application/grpc");
    let began = Instant::now();
    let before = daemon.log_lines();
    let (mut connections, mut resets) = (0, 0);
    while began.elapsed() < RESETS_TIME {
        let Ok(mut connection) = Http2Connection::open(daemon.grpc()?) else { continue };
        connections += 1;
        for _ in 0..20 {
            let batch: Vec<u8> = (0..50).flat_map(|_| connection.reset_request(&fields)).collect();
            if connection.send(&batch).is_err() {
                break;
            }
            resets += 50;
            if connection.is_going_away() || !connection.read_for(Duration::from_millis(1)).unwrap_or(false) {
                break;
            }
        }
    }
    thread::sleep(Duration::from_millis(300));
    let lines = daemon.log_lines() - before;
    let seen = format!("{resets} resets on {connections} connections left {lines} lines in the log");
    require!(lines <= LOG_LINES_MAX, "{seen}")?;
    require_honest_check(&daemon, "ada", &seen)?;
    Ok(seen)
}

/// Every kind of listener serves on IPv6.
pub(crate) fn listeners_on_ipv6(context: &RunContext) -> AttackResult {
    if std::net::TcpListener::bind("[::1]:0").is_err() {
        return Err(Failure::Skipped("this machine has no address ::1".to_owned()));
    }
    let upstream = Upstream::start(Manner::Plain)?;
    let policy = format!(
        "{}proxy:\n  upstreams: {{ app: ['{}'] }}\n  \
         routes: [{{ upstream: app, namespace: hostile, attributes: {{ user: client_ip }} }}]\n",
        POLICY.replace("127.0.0.1", "[::1]").replace("listen: {", "listen: { proxy: '[::1]:0',"),
        upstream.url()
    );
    let daemon = Daemon::start(context, &policy)?;
    require_honest_check(&daemon, "ada", "over IPv6")?;
    let is_admitted = grpc::is_admitted(daemon.grpc()?, grpc::request("honest", "user", "ada"))?;
    require!(is_admitted, "over IPv6, gRPC refuses")?;
    let reply = resp::RespConnection::open(daemon.resp()?)?.ask(&["PING"])?;
    require!(resp::text(&reply) == Some("PONG"), "over IPv6, RESP answers {reply:?}")?;
    let statuses: Vec<u16> = (0..2)
        .map(|_| {
            http1::ask(daemon.proxy()?, http1::get("/")).map(|answer| answer.status).map_err(Failure::from)
        })
        .collect::<Result<_, _>>()?;
    require!(
        statuses == [200, 429],
        "over IPv6, one address may make one request a minute, and the proxy answers {statuses:?}"
    )?;
    Ok("HTTP, gRPC, RESP and the proxy serve on ::1, and the proxy counts by its address".to_owned())
}

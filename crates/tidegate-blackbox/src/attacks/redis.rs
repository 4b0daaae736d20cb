//! Attacks from below: a Redis server that fails, lies, floods, or holds a damaged key.

use std::thread;
use std::time::{Duration, Instant};

use crate::attack::{AttackResult, Failure, RunContext, in_parallel, require};
use crate::daemon::Daemon;
use crate::http1::{self, Http1Client};
use crate::redis_relay::{self, RedisRelay, RelayMode, start_server};

/// How long a fault lasts.
const FAULT: Duration = Duration::from_secs(6);
/// How long the daemon may take to use the server again.
const RECOVERY_MAX: Duration = Duration::from_secs(5);
/// How often a check is tried meanwhile.
const CHECK_EVERY: Duration = Duration::from_millis(40);
/// Callers beside those whose key is damaged, these, and checks of each.
const CALLERS: usize = 12;
const DAMAGED: usize = 4;
const CHECKS: usize = 200;

const TLS_ALERT: &[u8] = &[21, 3, 3, 0, 2, 2, 40];
const HTTP_503: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
const SSH_BANNER: &[u8] = b"SSH-2.0-OpenSSH_9.6\r\n";
const RANDOM_BYTES: &[u8] = &[0x8f, 0x13, 0xe2, 0x5c, 0x07, 0xd9, 0x40, 0xb6, 0x9a, 0x71, 0xf8, 0x2e];

fn policy(relay: &RedisRelay) -> String {
    format!(
        "listen: {{ http: '127.0.0.1:0' }}\n\
         store: {{ kind: redis, urls: ['{}'], deadline: 200ms }}\n\
         namespaces:\n  honest:\n    limits:\n      \
         - {{ name: quota, key: [user], missing: group, fixed: {{ limit: 100000, window: 2h }}, consistency: exact, on_store_failure: refuse }}\n",
        relay.url()
    )
}

/// A fault of the server, and how it begins.
struct Fault {
    name: &'static str,
    mode: Option<RelayMode>,
    /// Whether the connections that are open end when it begins.
    ends_connections: bool,
}

fn faults() -> Vec<Fault> {
    let speaks = |name, bytes| Fault { name, mode: Some(RelayMode::Speaks(bytes)), ends_connections: true };
    let fails = |name, error| Fault { name, mode: Some(RelayMode::Fails(error)), ends_connections: false };
    vec![
        Fault { name: "frozen", mode: Some(RelayMode::Frozen), ends_connections: false },
        Fault { name: "half-open", mode: Some(RelayMode::HalfOpen), ends_connections: false },
        speaks("HTTP 503", HTTP_503),
        speaks("TLS alert", TLS_ALERT),
        speaks("SSH banner", SSH_BANNER),
        speaks("random bytes", RANDOM_BYTES),
        Fault {
            name: "maxclients",
            mode: Some(RelayMode::Rejects("ERR max number of clients reached")),
            ends_connections: true,
        },
        fails("LOADING", "LOADING Redis is loading the dataset in memory"),
        fails("NOAUTH", "NOAUTH Authentication required."),
        fails("READONLY", "READONLY You can't write against a read only replica."),
        fails("OOM", "OOM command not allowed when used memory > 'maxmemory'."),
        Fault { name: "moved", mode: None, ends_connections: true },
    ]
}

/// The link recovers within seconds from every fault.
pub(crate) fn faults_of_the_server(context: &RunContext) -> AttackResult {
    let faults = faults();
    let results = in_parallel(&faults, |fault| recovery(context, fault));
    let (mut held, mut failed) = (Vec::new(), Vec::new());
    for (fault, result) in faults.iter().zip(results) {
        match result {
            Ok(took) => held.push(format!("{} {:.1} s", fault.name, took.as_secs_f64())),
            Err(Failure::GotThrough(text)) => failed.push(format!("{}: {text}", fault.name)),
            Err(Failure::Unfinished(text)) => failed.push(format!("{}: unfinished: {text}", fault.name)),
            Err(skipped) => return Err(skipped),
        }
    }
    let held = held.join(", ");
    require!(failed.is_empty(), "{}; recovered: {held}", failed.join("; "))?;
    Ok(format!("recovered: {held}"))
}

/// How long the daemon takes to use the server again after `fault`.
fn recovery(context: &RunContext, fault: &Fault) -> Result<Duration, Failure> {
    let server = start_server(&[])?;
    let relay = RedisRelay::start(&server)?;
    let daemon = Daemon::start(context, &policy(&relay))?;
    let mut connection = Http1Client::open(daemon.http()?)?;
    let mut check = || -> Result<u16, Failure> { Ok(connection.ask(http1::check("honest", "ada"))?.status) };
    let began = Instant::now();
    while check()? != 200 {
        if began.elapsed() > RECOVERY_MAX {
            return Err(Failure::Unfinished(format!(
                "no check is admitted before the fault: {}",
                daemon.log()
            )));
        }
        thread::sleep(CHECK_EVERY);
    }
    // A server that has moved is a new one behind the same address, and has no data: the quota
    // would be refused on purpose. So the old one stays and only its connections end.
    relay.set_mode(fault.mode.clone().unwrap_or(RelayMode::Passes), fault.ends_connections);
    let began = Instant::now();
    // Of a half-open server new connections are served, so it has recovered as soon as it has
    // begun.
    let lasts = if matches!(fault.mode, None | Some(RelayMode::HalfOpen)) { Duration::ZERO } else { FAULT };
    while began.elapsed() < lasts {
        check()?;
        thread::sleep(CHECK_EVERY);
    }
    if !lasts.is_zero() {
        let ends_connections = !matches!(fault.mode, Some(RelayMode::Frozen));
        relay.set_mode(RelayMode::Passes, ends_connections);
    }
    let recovered = Instant::now();
    // The first answers may come from before the daemon has noticed.
    thread::sleep(CHECK_EVERY);
    while check()? != 200 {
        require!(
            recovered.elapsed() < RECOVERY_MAX,
            "no check is admitted {} s after the server's recovery",
            RECOVERY_MAX.as_secs()
        )?;
        thread::sleep(CHECK_EVERY);
    }
    Ok(recovered.elapsed())
}

/// A damaged key fails its own callers only.
pub(crate) fn damaged_keys(context: &RunContext) -> AttackResult {
    let server = start_server(&[])?;
    let relay = RedisRelay::start(&server)?;
    let daemon = Daemon::start(context, &policy(&relay))?;
    let address = daemon.http()?;
    http1::ask(address, http1::check("honest", "first"))?;
    let before = redis_relay::keys(&server)?;
    http1::ask(address, http1::check("honest", "damaged"))?;
    let keys = redis_relay::keys(&server)?;
    let new: Vec<String> = keys.into_iter().filter(|key| !before.contains(key)).collect();
    if new.is_empty() {
        return Err(Failure::Unfinished("a check makes no key in Redis".to_owned()));
    }
    let mut seen = Vec::new();
    for (kind, commands) in [
        ("of a wrong type", vec![vec!["DEL"], vec!["LPUSH", "x"]]),
        ("with damaged bytes", vec![vec!["DEL"], vec!["SET", "x"]]),
    ] {
        for key in &new {
            for command in &commands {
                let mut words = command.clone();
                words.insert(1, key);
                redis_relay::ask(&server, &words)?;
            }
        }
        let (failed, total) = callers_beside_a_damaged_key(address)?;
        require!(failed == 0, "a key {kind} fails {failed} of {total} checks of other callers")?;
        seen.push(format!("a key {kind} fails none of {total} checks of other callers"));
    }
    Ok(seen.join(", "))
}

/// How many checks of other callers are not admitted while one caller uses its damaged key, and of
/// how many.
fn callers_beside_a_damaged_key(address: std::net::SocketAddr) -> Result<(usize, usize), Failure> {
    let asks = |user: &str, count: usize| -> std::io::Result<usize> {
        let mut connection = Http1Client::open(address)?;
        let mut failed = 0;
        for _ in 0..count {
            failed += usize::from(connection.ask(http1::check("honest", user))?.status != 200);
        }
        Ok(failed)
    };
    let callers = (0..DAMAGED)
        .map(|_| "damaged".to_owned())
        .chain((0..CALLERS).map(|caller| format!("caller{caller}")));
    let failed: std::io::Result<Vec<usize>> =
        in_parallel(callers, |user| asks(&user, CHECKS)).into_iter().collect();
    // Those of the damaged key come first.
    Ok((failed?[DAMAGED..].iter().sum(), CALLERS * CHECKS))
}

/// A reply without end takes no memory.
pub(crate) fn endless_replies(context: &RunContext) -> AttackResult {
    let server = start_server(&[])?;
    let relay = RedisRelay::start(&server)?;
    relay.set_mode(RelayMode::Floods, true);
    let daemon = Daemon::start(context, &policy(&relay))?;
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(4) {
        http1::ask(daemon.http()?, http1::check("honest", "ada"))?;
        thread::sleep(CHECK_EVERY);
    }
    let used = daemon.memory_above_idle() >> 20;
    let seen = format!("{} connections that reply with a text of 1 GiB took {used} MiB", relay.accepted());
    require!(used <= 256, "{seen}")?;
    Ok(seen)
}

/// A server without memory is reported as an unavailable store.
pub(crate) fn servers_out_of_memory(context: &RunContext) -> AttackResult {
    let server = start_server(&[])?;
    let relay = RedisRelay::start(&server)?;
    let daemon = Daemon::start(context, &policy(&relay))?;
    let address = daemon.http()?;
    http1::ask(address, http1::check("honest", "ada"))?;
    redis_relay::ask(&server, &["CONFIG", "SET", "maxmemory", "1"])?;
    let answer = http1::ask(address, http1::check("honest", "grace"))?;
    let (reason, status) = (answer.member("reason"), answer.status);
    require!(
        reason == "store_unavailable",
        "with `maxmemory` reached a check gets {status} {reason}: {}",
        answer.member("detail")
    )?;
    Ok(format!("with `maxmemory` reached a check gets {status} {reason}: {}", answer.member("detail")))
}

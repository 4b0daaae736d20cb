//! Callers that leave around their turn, beside callers that stay.
//!
//! Thousands of callers ask for a permit or a place, by a check that waits or by a reservation, and
//! leave without reading the answer: by a close, a half-close or a reset, within [`AROUND`] of
//! their turn. Half of them leave when the answer has come, and half at the time at which the one
//! before was answered. Six honest callers work beside them. When the last has left, nothing may be
//! held after [`HELD_MAX`].

use std::io::{ErrorKind, Read, Result as IoResult, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};
use tidegate_test_support::{SplitMix64, TemporaryFolder};
use tokio::runtime::Runtime;

use crate::attack::{AttackResult, Failure, RunContext, all_hold, in_parallel, require};
use crate::daemon::Daemon;
use crate::http1::{self, Http1Client};
use crate::http2_frames::{Http2Connection, post_fields, reset_of};
use crate::raw::{self, connect};
use crate::redis_relay::start_server;
use crate::resp::command;
use crate::tls::Authority;

/// The span before and after its turn in which a caller leaves.
const AROUND: Duration = Duration::from_millis(2);
/// How long after the last caller something may be held.
const HELD_MAX: Duration = Duration::from_millis(1500);
/// Callers that stay, how long each works, and how long each waits for its turn.
const HONEST: usize = 6;
const WORK: Duration = Duration::from_millis(50);
/// The least part of the work of honest callers alone that they do beside those that leave.
const HONEST_PART_MIN: f64 = 0.9;
/// Threads of callers that leave.
const LEAVERS: u32 = 32;
/// How long a caller waits for its turn at most.
const WAIT_MAX: Duration = Duration::from_millis(500);

/// How a caller speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Spoken {
    Http1,
    Http2,
    Tls,
    Resp,
}

/// Where permits are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kept {
    Memory,
    Files,
    Redis,
}

/// How many callers leave, and in what time.
#[derive(Clone, Copy, Debug)]
struct Crowd {
    callers: u32,
    within: Duration,
    /// How long the honest callers are measured alone before, to judge their throughput; `None`: it
    /// is not judged.
    alone: Option<Duration>,
    /// How many protocols and stores are tried at once.
    at_once: usize,
}

const BRIEF: Crowd = Crowd { callers: 800, within: Duration::from_secs(2), alone: None, at_once: 2 };

const LONG: Crowd = Crowd {
    callers: 10_000,
    within: Duration::from_secs(20),
    alone: Some(Duration::from_secs(10)),
    at_once: 1,
};

/// Over each protocol, with permits and places in memory; then with permits in each store.
const COMBINATIONS: [(Spoken, Kept); 6] = [
    (Spoken::Http1, Kept::Memory),
    (Spoken::Http2, Kept::Memory),
    (Spoken::Tls, Kept::Memory),
    (Spoken::Resp, Kept::Memory),
    (Spoken::Http1, Kept::Files),
    (Spoken::Http2, Kept::Redis),
];

/// A few seconds for each protocol and store.
pub(crate) fn brief_run(context: &RunContext) -> AttackResult {
    run_all(context, BRIEF, &COMBINATIONS)
}

/// Ten thousand callers for each protocol with permits in memory, and for each store.
pub(crate) fn long_run(context: &RunContext) -> AttackResult {
    let all = [Spoken::Http1, Spoken::Http2, Spoken::Tls, Spoken::Resp].into_iter().flat_map(|spoken| {
        [Kept::Memory, Kept::Files, Kept::Redis].into_iter().map(move |kept| (spoken, kept))
    });
    run_all(context, LONG, &all.collect::<Vec<_>>())
}

fn run_all(context: &RunContext, crowd: Crowd, combinations: &[(Spoken, Kept)]) -> AttackResult {
    let run = |(spoken, kept): &(Spoken, Kept)| match run(context, crowd, *spoken, *kept) {
        Err(Failure::Skipped(why)) => Ok(format!("{spoken:?} with {kept:?} skipped: {why}")),
        result => result,
    };
    all_hold(combinations.chunks(crowd.at_once).flat_map(|at_once| in_parallel(at_once, run)))
}

fn run(context: &RunContext, crowd: Crowd, spoken: Spoken, kept: Kept) -> AttackResult {
    let redis = match kept {
        Kept::Redis => Some(start_server(&["--unixsocket", "redis.sock"])?),
        Kept::Memory | Kept::Files => None,
    };
    let folder = TemporaryFolder::new();
    let authority = Authority::new()?;
    let tls = authority.listener_setting(&folder, false)?;
    let store = match (kept, &redis) {
        (Kept::Files, _) => "store: { kind: embedded, path: data }\n".to_owned(),
        (_, Some(redis)) => {
            let socket = redis.folder().join("redis.sock");
            format!("store: {{ kind: redis, urls: ['unix://{}'], deadline: 2s }}\n", socket.display())
        }
        _ => String::new(),
    };
    let exact = if kept == Kept::Memory { "" } else { ", consistency: exact" };
    let listener = if spoken == Spoken::Tls {
        format!("{{ address: '127.0.0.1:0', tls: {tls} }}")
    } else {
        "'127.0.0.1:0'".to_owned()
    };
    let policy = format!(
        "listen: {{ http: {listener}, admin: '127.0.0.1:0', resp: '127.0.0.1:0' }}\n{store}\
         namespaces:\n  shop:\n    limits:\n      \
         - {{ name: jobs, key: [kind], missing: skip, concurrency: {{ limit: 8, hold: 1h }}{exact} }}\n\
         resources:\n  app: {{ concurrency: 8, queue: {{ requests: 2000, wait: {{ sheddable_plus: 5s, critical: 5s }} }} }}\n"
    );
    let daemon = Daemon::start_in(context, folder, &policy)?;
    let target = Target {
        spoken,
        address: if spoken == Spoken::Resp { daemon.resp()? } else { daemon.http()? },
        http: daemon.http()?,
        tls: authority.client(None, rustls::ALL_VERSIONS)?,
    };
    let alone = match crowd.alone {
        Some(alone) => Some(honest_beside(&target, alone, None)?.per_second),
        None => None,
    };
    let beside = honest_beside(&target, crowd.within, Some(crowd.callers))?;
    thread::sleep(HELD_MAX);
    let held = http1::ask(daemon.admin()?, http1::get("/v1/permits"))?.json()["total"].clone();
    let places = daemon.metric("tidegate_resource_in_flight{resource=\"app\"}")?;
    let part = alone.map(|alone| beside.per_second / alone.max(f64::MIN_POSITIVE));
    let of_alone =
        part.map_or_else(String::new, |part| format!(", {:.0} % of what they do alone", part * 100.0));
    let text = format!(
        "{spoken:?} with {kept:?}: {} left, {} of them answered; {held} permits and {places} places are held; honest callers do \
         {:.0} a second{of_alone}, {} of their releases fail",
        beside.left, beside.answered, beside.per_second, beside.failed_releases,
    );
    let is_free = held == 0 && places == 0;
    let is_served = beside.per_second > 0.0 && part.is_none_or(|part| part >= HONEST_PART_MIN);
    require!(is_free && is_served && beside.failed_releases == 0 && beside.answered > 0, "{text}")?;
    Ok(text)
}

/// The daemon as callers reach it.
struct Target {
    spoken: Spoken,
    /// Where callers that leave ask.
    address: SocketAddr,
    /// Where honest callers ask.
    http: SocketAddr,
    tls: Arc<ClientConfig>,
}

/// The counts of honest callers and of those that left.
struct Seen {
    per_second: f64,
    failed_releases: u64,
    left: u64,
    answered: u64,
}

/// Honest callers for a while, beside so many that leave.
fn honest_beside(target: &Target, within: Duration, leavers: Option<u32>) -> Result<Seen, Failure> {
    let began = Instant::now();
    let is_over = AtomicBool::new(false);
    let crowd =
        CrowdState { left: AtomicU64::new(0), answered: AtomicU64::new(0), wait_us: AtomicU64::new(2000) };
    let (done, failed) = (AtomicU32::new(0), AtomicU64::new(0));
    let errors: Vec<String> = thread::scope(|scope| {
        let honest: Vec<_> = (0..HONEST)
            .map(|_| {
                let (is_over, done, failed) = (&is_over, &done, &failed);
                scope.spawn(move || work(target, is_over, done, failed))
            })
            .collect();
        let leaving: Vec<_> = (0..leavers.map_or(0, |_| LEAVERS))
            .map(|number| {
                let (crowd, callers) = (&crowd, leavers.unwrap_or(0).div_ceil(LEAVERS));
                scope.spawn(move || leave_one_by_one(target, crowd, number, callers, within))
            })
            .collect();
        let leaving = leaving.into_iter().map(|one| one.join().expect("a caller does not panic"));
        let mut errors: Vec<String> = leaving.filter_map(|one| Some(one.err()?.to_string())).collect();
        thread::sleep(within.saturating_sub(began.elapsed()));
        // Relaxed: the threads only have to see it some time, and joining orders the rest.
        is_over.store(true, Ordering::Relaxed);
        let honest = honest.into_iter().map(|one| one.join().expect("a caller does not panic"));
        errors.extend(honest.filter_map(|one| Some(one.err()?.to_string())));
        errors
    });
    if let Some(error) = errors.first() {
        return Err(Failure::Unfinished(format!("{} callers failed: {error}", errors.len())));
    }
    Ok(Seen {
        per_second: f64::from(done.into_inner()) / began.elapsed().as_secs_f64(),
        failed_releases: failed.into_inner(),
        left: crowd.left.into_inner(),
        answered: crowd.answered.into_inner(),
    })
}

/// Statistics of the callers that leave; relaxed, as they order nothing.
struct CrowdState {
    left: AtomicU64,
    answered: AtomicU64,
    /// How long the last answered caller has waited.
    wait_us: AtomicU64,
}

/// The body of a check of these.
fn body(wants: Wanted) -> String {
    let wait = WAIT_MAX.as_millis();
    let permit = r#","attributes":{"kind":"job"}"#;
    let place = r#","resource":"app""#;
    let (permit, place) = match wants {
        Wanted::Permit => (permit, ""),
        Wanted::Place => ("", place),
        Wanted::Both => (permit, place),
    };
    format!(r#"{{"namespace":"shop"{permit}{place},"wait_ms":{wait}}}"#)
}

/// The body of a reservation of these.
fn reservation(wants: Wanted) -> String {
    let what = match wants {
        Wanted::Permit => r#""attributes":{"kind":"job"}"#,
        Wanted::Place => r#""resource":"app""#,
        Wanted::Both => r#""attributes":{"kind":"job"},"resource":"app""#,
    };
    format!(r#"{{"namespace":"shop",{what},"expires_ms":3600000}}"#)
}

/// The thing that a caller asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wanted {
    Permit,
    Place,
    /// As honest callers do, who take six of the eight of each.
    Both,
}

/// An honest caller: it asks, works and releases, on one connection.
fn work(target: &Target, is_over: &AtomicBool, done: &AtomicU32, failed: &AtomicU64) -> IoResult<()> {
    let mut connection = match target.spoken {
        Spoken::Tls => Http1Client::open_tls(target.http, &target.tls)?,
        _ => Http1Client::open(target.http)?,
    };
    while !is_over.load(Ordering::Relaxed) {
        let answer = connection.ask(http1::post("/v1/check", body(Wanted::Both)))?;
        let permit = answer.member("permit");
        if permit.is_empty() {
            // A store may refuse at once.
            thread::sleep(Duration::from_millis(1));
            continue;
        }
        thread::sleep(WORK);
        if connection.ask(http1::release(&permit))?.status == 200 {
            done.fetch_add(1, Ordering::Relaxed);
        } else {
            failed.fetch_add(1, Ordering::Relaxed);
        }
    }
    Ok(())
}

fn over_tls(target: &Target, stream: TcpStream) -> IoResult<StreamOwned<ClientConnection, TcpStream>> {
    stream.set_read_timeout(Some(http1::READ_TIMEOUT))?;
    let invalid = |error| std::io::Error::new(ErrorKind::InvalidData, error);
    let name = ServerName::try_from("localhost").expect("a host name");
    let client = ClientConnection::new(Arc::clone(&target.tls), name).map_err(invalid)?;
    let mut stream = StreamOwned::new(client, stream);
    while stream.conn.is_handshaking() {
        stream.conn.complete_io(&mut stream.sock)?;
    }
    Ok(stream)
}

/// So many callers one after the other, spread over `within`.
fn leave_one_by_one(
    target: &Target,
    crowd: &CrowdState,
    number: u32,
    callers: u32,
    within: Duration,
) -> IoResult<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let mut random = SplitMix64::new(number.into());
    let began = Instant::now();
    for caller in 0..callers {
        let at = within * caller / callers;
        thread::sleep(at.saturating_sub(began.elapsed()));
        ask_and_leave(target, crowd, &runtime, &mut random)?;
        crowd.left.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}

fn ask_and_leave(
    target: &Target,
    crowd: &CrowdState,
    runtime: &Runtime,
    random: &mut SplitMix64,
) -> IoResult<()> {
    let wants = if random.below(2) == 0 { Wanted::Place } else { Wanted::Permit };
    // A reservation does not wait, and expires no sooner than a permit.
    let (path, body) =
        if random.below(4) == 0 { ("/v1/reserve", reservation(wants)) } else { ("/v1/check", body(wants)) };
    let mut stream = match target.spoken {
        Spoken::Http2 => {
            let mut connection = Http2Connection::open(target.address)?;
            connection.send_whole(&post_fields(path, "application/json"), body.as_bytes())?;
            connection.into_stream()
        }
        _ => connect(target.address)?,
    };
    let request = raw::encoded(&http1::post(path, body));
    match target.spoken {
        Spoken::Http1 => stream.write_all(&request)?,
        Spoken::Http2 => {}
        Spoken::Tls => {
            let mut secured = over_tls(target, stream)?;
            secured.write_all(&request)?;
            secured.flush()?;
            stream = secured.sock;
        }
        Spoken::Resp if wants == Wanted::Place => {
            let wait = WAIT_MAX.as_millis().to_string();
            let check = ["TG.CHECK", "shop", "RELEASE", "resource", "app", "tidegate-wait-ms", &wait];
            stream.write_all(&command(&check))?;
        }
        Spoken::Resp => {
            let wait = WAIT_MAX.as_millis().to_string();
            stream.write_all(&command(&["TG.CHECK", "shop", "kind", "job", "tidegate-wait-ms", &wait]))?;
        }
    }
    let asked_at = Instant::now();
    let around = Duration::from_micros(random.below(2 * AROUND.as_micros() as u64));
    let waits_for_answer = random.below(2) == 0;
    let expected = Duration::from_micros(crowd.wait_us.load(Ordering::Relaxed)) + around;
    let patience = if waits_for_answer { 2 * WAIT_MAX } else { expected.saturating_sub(AROUND) };
    stream.set_read_timeout(Some(patience.max(Duration::from_micros(1))))?;
    // The answer is seen and not read.
    if has_answer(&mut stream, target.spoken) {
        crowd.answered.fetch_add(1, Ordering::Relaxed);
        crowd.wait_us.store(asked_at.elapsed().as_micros() as u64, Ordering::Relaxed);
        thread::sleep(around / 2);
    }
    match random.below(if target.spoken == Spoken::Http2 { 4 } else { 3 }) {
        0 => drop(stream),
        1 => {
            // A client that is gone already has nothing to end.
            let _ = stream.shutdown(Shutdown::Write);
            thread::sleep(around / 2);
            drop(stream);
        }
        2 => {
            stream.set_nonblocking(true)?;
            let _within = runtime.enter();
            let stream = tokio::net::TcpStream::from_std(stream)?;
            stream.set_zero_linger()?;
        }
        _ => {
            let _ = stream.write_all(&reset_of(1));
            // The connection stays for a while, as others would use it.
            thread::sleep(AROUND);
        }
    }
    Ok(())
}

/// Waits until an answer has come, at most as long as a read may take, and leaves it unread.
fn has_answer(stream: &mut TcpStream, spoken: Spoken) -> bool {
    let mut head = [0; 9];
    loop {
        match stream.peek(&mut head) {
            Ok(1..) if spoken != Spoken::Http2 => return true,
            Ok(9) if head[5..] != [0; 4] => return true,
            // A frame of the connection, which belongs to no answer.
            Ok(9) => {
                let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
                if stream.read_exact(&mut vec![0; head.len() + length]).is_err() {
                    return false;
                }
            }
            _ => return false,
        }
    }
}

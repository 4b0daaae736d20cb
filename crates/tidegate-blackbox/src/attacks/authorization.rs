//! Attacks on authorization: reloads that take it off, guessed tokens, and what the log says of it.

use std::thread;
use std::time::{Duration, Instant};

use tidegate_test_support::{TemporaryFolder, holds_within};

use crate::attack::{AttackResult, Failure, RunContext, require};
use crate::daemon::Daemon;
use crate::grpc::GrpcClient;
use crate::resp::{self, is_error};
use crate::tls::Authority;
use crate::{grpc, http1};

const TOKEN: &str = "a-token-of-the-suite-with-room";
/// The SHA-256 of nothing.
const EMPTY_HASH: &str = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
/// Guesses that are sent on one connection, for at most so long, and those of them that may be
/// answered.
const GUESSES: usize = 2_000;
const GUESS_TIME: Duration = Duration::from_secs(3);
const GUESSES_ANSWERED_MAX: usize = 100;
/// The longest that a line of the log may take, also on a busy machine.
const LOGGED_WITHIN: Duration = Duration::from_secs(10);
/// How often a listener is tried after a reload, with [`TRY_AFTER`] between.
const TRIES: usize = 8;
const TRY_AFTER: Duration = Duration::from_millis(250);

const NAMESPACES: &str =
    "namespaces: { honest: { limits: [{ name: rate, key: [user], missing: group, rate: 1000/s }] } }\n";

fn grants(folder: &TemporaryFolder) -> String {
    let tokens = folder.write("tokens", format!("{TOKEN}\n"));
    let tokens = tokens.display();
    let verbs = "[check, report, refund, reset, block, inspect, change]";
    format!(
        "authorization: [{{ name: suite-grant, token_file: {tokens}, namespaces: ['*'], verbs: {verbs} }}]\n"
    )
}

/// No reload opens a listener that asks for tokens, unless its new policy says `insecure: true`.
pub(crate) fn reloads_without_authorization(context: &RunContext) -> AttackResult {
    let authority = Authority::new()?;
    let mut opened = Vec::new();
    let mut tried = Vec::new();
    for change in ["client_ca instead", "loopback addresses", "no listen"] {
        let folder = TemporaryFolder::new();
        let grants = grants(&folder);
        let tls = authority.listener_setting(&folder, true)?;
        let listen = |address: &str, more: &str| {
            let one = |name: &str| format!("{name}: {{ address: '{address}:0'{more} }}");
            let each: Vec<String> = ["http", "grpc", "resp"].iter().map(|name| one(name)).collect();
            format!("listen: {{ {}, admin: '127.0.0.1:0' }}\n", each.join(", "))
        };
        let before = format!("{}{grants}{NAMESPACES}", listen("0.0.0.0", ""));
        let after = match change {
            "client_ca instead" => format!("{}{NAMESPACES}", listen("0.0.0.0", &format!(", tls: {tls}"))),
            "loopback addresses" => format!("{}{NAMESPACES}", listen("127.0.0.1", "")),
            _ => NAMESPACES.to_owned(),
        };
        let daemon = Daemon::start_in(context, folder, &before)?;
        require_closed(&daemon)
            .map_err(|listener| Failure::Unfinished(format!("before the reload: {listener:?}")))?;
        daemon.rewrite_policy(&after)?;
        for _ in 0..TRIES {
            thread::sleep(TRY_AFTER);
            if let Err(Failure::GotThrough(listener)) = require_closed(&daemon) {
                opened.push(format!("{change} opens {listener}"));
                break;
            }
        }
        tried.push(change);
    }
    require!(opened.is_empty(), "{}", opened.join("; "))?;
    Ok(format!("every listener asks for a token after each of: {}", tried.join(", ")))
}

/// Fails when a listener serves without a token.
fn require_closed(daemon: &Daemon<'_>) -> Result<(), Failure> {
    let reset = http1::post("/v1/reset", r#"{"namespace":"honest","attributes":{"user":"ada"}}"#);
    let status = http1::ask(daemon.http()?, reset)?.status;
    require!(status != 200, "HTTP (a reset gets {status})")?;
    let reply = resp::RespConnection::open(daemon.resp()?)?.ask(&["TG.CHECK", "honest", "user", "ada"])?;
    require!(is_error(&reply), "RESP ({reply:?})")?;
    let answer = GrpcClient::open(daemon.grpc()?)?.ask(grpc::request("honest", "user", "ada"), &[])?;
    require!(answer.is_err(), "gRPC ({answer:?})")?;
    let status = http1::ask(daemon.admin()?, http1::get("/metrics"))?.status;
    require!(status != 200, "the admin listener (metrics get {status})")
}

/// Nothing is no token.
pub(crate) fn empty_tokens(context: &RunContext) -> AttackResult {
    let mut seen = Vec::new();
    for (name, secret) in
        [("the hash in the policy", None), ("the hash in a file", Some(format!("{EMPTY_HASH}\n")))]
    {
        let folder = TemporaryFolder::new();
        let token = match secret {
            None => format!("token: '{EMPTY_HASH}'"),
            Some(text) => format!("token_file: {}", folder.write("tokens", text).display()),
        };
        let policy = format!(
            "listen: {{ http: '127.0.0.1:0', resp: '127.0.0.1:0' }}\n\
             authorization: [{{ name: nobody, {token}, namespaces: ['*'] }}]\n{NAMESPACES}"
        );
        let Ok(daemon) = Daemon::try_start(context, folder, &policy)? else {
            seen.push(format!("{name} is refused at the start"));
            continue;
        };
        let body = r#"{"namespace":"honest","attributes":{"user":"ada"}}"#;
        for header in [("authorization", "Bearer "), ("authorization", "Bearer"), ("tidegate-token", "")] {
            let answer = http1::ask(daemon.http()?, http1::with_body("POST", "/v1/check", &[header], body))?;
            require!(answer.status == 401, "{name}: {header:?} is answered {}", answer.status)?;
        }
        let reply = resp::RespConnection::open(daemon.resp()?)?.ask(&["AUTH", ""])?;
        require!(is_error(&reply), "{name}: AUTH with nothing is answered {reply:?}")?;
        seen.push(format!("{name} admits nobody"));
    }
    Ok(seen.join(", "))
}

/// A connection that guesses tokens is closed.
pub(crate) fn guessed_tokens(context: &RunContext) -> AttackResult {
    let folder = TemporaryFolder::new();
    let policy =
        format!("listen: {{ http: '127.0.0.1:0', resp: '127.0.0.1:0' }}\n{}{NAMESPACES}", grants(&folder));
    let daemon = Daemon::start_in(context, folder, &policy)?;
    let mut connection = resp::RespConnection::open(daemon.resp()?)?;
    connection.set_read_timeout(GUESS_TIME)?;
    let began = Instant::now();
    let mut answered = 0;
    'guesses: while answered < GUESSES && began.elapsed() < GUESS_TIME {
        let guesses: Vec<u8> = (0..10)
            .flat_map(|number| {
                resp::command(&["AUTH", &format!("a-guess-of-some-length-{answered}-{number}")])
            })
            .collect();
        if connection.send(&guesses).is_err() {
            break;
        }
        for _ in 0..10 {
            // A connection that is closed answers no more, and one that is slowed down answers a
            // few.
            if began.elapsed() > GUESS_TIME || connection.value().is_err() {
                break 'guesses;
            }
            answered += 1;
        }
    }
    let took = began.elapsed().as_secs_f64();
    let seen = format!("{answered} guesses on one connection were answered in {took:.1} s");
    require!(answered <= GUESSES_ANSWERED_MAX, "{seen}")?;
    // A peer that knows its token is served from the same address.
    let mut connection = resp::RespConnection::open(daemon.resp()?)?;
    let reply = connection.ask(&["AUTH", TOKEN])?;
    require!(resp::text(&reply) == Some("OK"), "{seen}; a good token is answered {reply:?}")?;
    Ok(seen)
}

/// The log names the grant of each change and reports failed logins.
pub(crate) fn unlogged_changes(context: &RunContext) -> AttackResult {
    let folder = TemporaryFolder::new();
    let policy =
        format!("listen: {{ http: '127.0.0.1:0', resp: '127.0.0.1:0' }}\n{}{NAMESPACES}", grants(&folder));
    let daemon = Daemon::start_in(context, folder, &policy)?;
    let bearer = format!("Bearer {TOKEN}");
    let bearer = [("authorization", &*bearer)];
    let key = r#""namespace":"honest","attributes":{"user":"ada"}"#;
    let changes = [
        ("a reset", http1::with_body("POST", "/v1/reset", &bearer, format!("{{{key}}}"))),
        (
            "a block",
            http1::with_body(
                "POST",
                "/v1/block",
                &bearer,
                format!(r#"{{{key},"limit":"rate","for_ms":1000}}"#),
            ),
        ),
        (
            "an override",
            http1::with_body(
                "PUT",
                "/v1/overrides/honest/rate?user=ada",
                &bearer,
                r#"{"numbers":{"rate":"5/s"},"reason":"a ticket","by":"somebody else"}"#,
            ),
        ),
    ];
    let mut unnamed = Vec::new();
    for (name, request) in changes {
        let before = daemon.log().len();
        let answer = http1::ask(daemon.http()?, request)?;
        require!(answer.status == 200, "{name} is answered {}", answer.status)?;
        if !holds_within(LOGGED_WITHIN, || daemon.log()[before..].contains("suite-grant")) {
            unnamed.push(format!("{name} without its grant"));
        }
    }
    let before = daemon.log_lines();
    let guess = [("authorization", "Bearer a-guess-of-some-length")];
    http1::ask(daemon.http()?, http1::with_body("POST", "/v1/reset", &guess, format!("{{{key}}}")))?;
    if !holds_within(LOGGED_WITHIN, || daemon.log_lines() > before) {
        unnamed.push("a failed login without a line".to_owned());
    }
    require!(unnamed.is_empty(), "in the log: {}", unnamed.join(", "))?;
    Ok("the log names the grant of a reset, a block and an override, and reports a failed login".to_owned())
}

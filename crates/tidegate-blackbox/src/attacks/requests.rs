//! Requests to the API that have two readings, come from another site, or cost more than they
//! should.

use std::time::{Duration, Instant};

use tidegate_test_support::TemporaryFolder;

use crate::attack::{AttackResult, Failure, RunContext, require};
use crate::daemon::Daemon;
use crate::grpc::{self, GrpcClient};
use crate::http1;
use crate::raw;

const POLICY: &str = r"
listen: { http: '127.0.0.1:0', grpc: '127.0.0.1:0' }
namespaces:
  honest: { limits: [{ name: rate, key: [user], missing: group, rate: 1000/s }] }
";

/// How long one check may take, however its pattern and its value are chosen.
const MATCH_MAX: Duration = Duration::from_millis(250);
/// More metadata entries than the most headers of a request.
const METADATA_ENTRIES: usize = 200;

/// Sends each request on a connection of its own, and fails for each whose status is not the
/// expected one.
fn require_statuses(daemon: &Daemon<'_>, requests: &[(&str, Vec<u8>, u16)]) -> AttackResult {
    let mut wrong = Vec::new();
    for (name, request, expected) in requests {
        let status = raw::ask(daemon.http()?, request).map(|answer| answer.status);
        match status {
            Ok(status) if status == *expected => {}
            Ok(status) => wrong.push(format!("{name}: {status} instead of {expected}")),
            Err(error) => wrong.push(format!("{name}: {error} instead of {expected}")),
        }
    }
    require!(wrong.is_empty(), "{}", wrong.join("; "))?;
    let names: Vec<String> = requests.iter().map(|(name, _, status)| format!("{name} {status}")).collect();
    Ok(names.join(", "))
}

/// Parameters that stand twice are not taken.
pub(crate) fn doubled_parameters(context: &RunContext) -> AttackResult {
    let daemon = Daemon::start(context, POLICY)?;
    let ask =
        |query: &str| raw::encoded(&http1::get(&format!("/v1/authorize?namespace=honest&user=ada{query}")));
    require_statuses(
        &daemon,
        &[
            ("nothing twice", ask(""), 200),
            ("cost twice", ask("&cost=1&cost=900"), 400),
            ("class twice", ask("&class=critical&class=sheddable"), 400),
            ("deny_status twice", ask("&deny_status=403&deny_status=404"), 400),
            ("namespace twice", ask("&namespace=other"), 400),
        ],
    )
}

/// HTTP/1.1 without exactly one Host is not served.
pub(crate) fn hosts_missing_or_doubled(context: &RunContext) -> AttackResult {
    let daemon = Daemon::start(context, POLICY)?;
    let ask = |hosts: &str| {
        format!("GET /v1/authorize?namespace=honest&user=ada HTTP/1.1\r\n{hosts}\r\n").into_bytes()
    };
    require_statuses(
        &daemon,
        &[
            ("one Host", ask("host: localhost\r\n"), 200),
            ("no Host", ask(""), 400),
            ("two Hosts", ask("host: localhost\r\nhost: localhost\r\n"), 400),
        ],
    )
}

/// A page of another site changes nothing through a browser on the same machine.
pub(crate) fn requests_of_other_sites(context: &RunContext) -> AttackResult {
    let daemon = Daemon::start(context, POLICY)?;
    let body = r#"{"namespace":"honest","attributes":{"user":"ada"}}"#;
    let reset = |headers: &[_]| raw::encoded(&http1::with_body("POST", "/v1/reset", headers, body));
    let text = |headers: &str| {
        let length = body.len();
        let head = format!("POST /v1/reset HTTP/1.1\r\n{headers}content-type: text/plain\r\n");
        format!("{head}content-length: {length}\r\n\r\n{body}").into_bytes()
    };
    let requests = [
        ("Origin", reset(&[("origin", "https://evil.example")])),
        ("Sec-Fetch-Site", reset(&[("sec-fetch-site", "cross-site")])),
        ("text/plain with Origin", text("host: localhost\r\norigin: https://evil.example\r\n")),
        ("a foreign Host", text("host: evil.example\r\n")),
    ];
    let control = raw::ask(daemon.http()?, &reset(&[]))?.status;
    require!(control == 200, "a reset of this machine gets {control}")?;
    let mut taken = Vec::new();
    for (name, request) in requests {
        if raw::ask(daemon.http()?, &request)?.status == 200 {
            taken.push(name);
        }
    }
    require!(taken.is_empty(), "/v1/reset is done with: {}", taken.join(", "))?;
    Ok("no reset with Origin, Sec-Fetch-Site or a foreign Host is done".to_owned())
}

/// A JSON array is no object.
pub(crate) fn arrays_for_objects(context: &RunContext) -> AttackResult {
    let daemon = Daemon::start(context, POLICY)?;
    let object = r#"{"namespace":"honest","attributes":{"user":"ada"}}"#;
    let array = r#"["honest",{"user":"ada"}]"#;
    let post = |path, body| raw::encoded(&http1::post(path, body));
    require_statuses(
        &daemon,
        &[
            ("an object", post("/v1/check", object), 200),
            ("an array at /v1/check", post("/v1/check", array), 400),
            ("an array at /v1/reset", post("/v1/reset", r#"["honest",{"user":"ada"},null]"#), 400),
            ("an array at /v1/report", post("/v1/report", r#"["honest",{"user":"ada"},1]"#), 400),
        ],
    )
}

/// gRPC takes no more metadata than HTTP takes headers.
pub(crate) fn metadata_entries(context: &RunContext) -> AttackResult {
    let daemon = Daemon::start(context, POLICY)?;
    let names: Vec<String> = (0..METADATA_ENTRIES).map(|number| format!("x-entry-{number}")).collect();
    let request = grpc::request("honest", "user", "ada");
    // A reset stream is a refusal too.
    let answer = GrpcClient::open(daemon.grpc()?)?.ask(request.clone(), &names)?;
    require!(answer.is_err(), "a call with {METADATA_ENTRIES} metadata entries is answered OK")?;
    grpc::is_admitted(daemon.grpc()?, request)?;
    Ok(format!("a call with {METADATA_ENTRIES} metadata entries is refused, and the next one is served"))
}

/// No pattern and no value make one check expensive.
pub(crate) fn patterns_of_many_stars(context: &RunContext) -> AttackResult {
    // The letters of the value change without a period, so that an automaton that is built on the
    // way keeps growing.
    let mixed: String =
        (0..64_000_u64).map(|at| if (at * at / 7 + at / 3) % 5 < 2 { 'a' } else { 'b' }).collect();
    let patterns = [
        ("*a".repeat(1000) + "c", "a".repeat(64_000)),
        ("*a??".repeat(1000) + "c", mixed.clone()),
        ("*a?b".repeat(1000) + "c", mixed),
    ];
    let mut slowest = Duration::ZERO;
    for (pattern, value) in patterns {
        let policy = format!(
            "listen: {{ http: '127.0.0.1:0' }}\nhttp: {{ bounds: {{ attribute: 64KiB, body: 1MiB }} }}\n\
             namespaces:\n  honest:\n    limits:\n      - {{ name: glob, match: {{ path: {{ glob: '{pattern}' }} }}, rate: 1000/s }}\n"
        );
        // A pattern that the policy refuses costs nothing.
        let Ok(daemon) = Daemon::try_start(context, TemporaryFolder::new(), &policy)? else {
            continue;
        };
        let body = format!(r#"{{"namespace":"honest","attributes":{{"path":"{value}"}}}}"#);
        let mut connection = http1::Http1Client::open(daemon.http()?)?;
        for _ in 0..3 {
            let began = Instant::now();
            let answer = connection.ask(http1::post("/v1/check", &*body))?;
            let took = began.elapsed();
            if answer.status != 200 {
                return Err(Failure::Unfinished(format!("the check is answered {}", answer.status)));
            }
            slowest = slowest.max(took);
        }
    }
    let seen = format!("the slowest check took {} ms", slowest.as_millis());
    require!(slowest < MATCH_MAX, "{seen}")?;
    Ok(seen)
}

//! Attacks on the tables of counters: keys, rings, spec numbers and series.

use std::thread;
use std::time::{Duration, Instant};

use tidegate_test_support::TemporaryFolder;

use crate::attack::{AttackResult, Failure, RunContext, require};
use crate::attacks::permits::counts;
use crate::attacks::require_honest_check;
use crate::daemon::Daemon;
use crate::{grpc, http1, raw, resp};

/// More keys than a table of 1 MiB has places.
const KEYS: u64 = 80_000;
/// The descriptors of one call: all of them are charged or none, so few places stay free.
const DESCRIPTORS: u64 = 10;
/// More checks of [`RING_COST`] than the pool of rings has room for.
const RING_CHECKS: u64 = 64;
const RING_COST: u64 = 1_000_000;
/// More values than the metrics of Envoy's rules name.
const METRIC_VALUES: u64 = 1_200;
/// More changes than a word of the table has spec numbers.
const OVERRIDE_CHANGES: u64 = 1_100_000;
const OVERRIDE_TIME_MAX: Duration = Duration::from_secs(100);
const YEAR_SECONDS: &str = "31536000";
const MONTH_SECONDS: &str = "2678400";

const POLICY: &str = r"
listen: { http: '127.0.0.1:0', resp: '127.0.0.1:0', grpc: '127.0.0.1:0' }
memory: { keys: 1MiB }
namespaces:
  hostile: { limits: [{ name: rolling, key: [user], missing: group, rolling: { limit: 1048576, window: 50m } }] }
  honest: { limits: [{ name: rolling, key: [user], missing: group, rolling: { limit: 1048576, window: 50m } }] }
";

/// `CL.THROTTLE` with a period of a year fills no table for others.
pub(crate) fn year_long_throttle(context: &RunContext) -> AttackResult {
    let daemon = Daemon::start(context, POLICY)?;
    let throttle = |period: &'static str| {
        move |number: u64| resp::command(&["CL.THROTTLE", &format!("key-{number}"), "0", "1", period])
    };
    let years = resp::flood(daemon.resp()?, 100, 4, throttle(YEAR_SECONDS))?;
    let months = resp::flood(daemon.resp()?, KEYS, 4, throttle(MONTH_SECONDS))?;
    let after = format!(
        "after 100 keys of CL.THROTTLE with a period of a year ({} errors) and {KEYS} of 31 days ({} errors)",
        resp::errors(&years),
        resp::errors(&months)
    );
    require_honest_check(&daemon, "ada", &after)?;
    Ok(format!("{after}, a new key of the honest namespace is admitted"))
}

/// Envoy's limits of a year that come with the request fill no table for others.
pub(crate) fn year_long_descriptors(context: &RunContext) -> AttackResult {
    let daemon = Daemon::start(context, POLICY)?;
    let request = |number: u64| {
        let values = number * DESCRIPTORS..(number + 1) * DESCRIPTORS;
        grpc::request_of("hostile", values.map(|value| grpc::once_a_year("user", &value.to_string())))
    };
    let ended = grpc::flood(daemon.grpc()?, KEYS / DESCRIPTORS, 100, request)?;
    let after = format!("after {} descriptors with a limit of a year each", ended * DESCRIPTORS);
    require_honest_check(&daemon, "ada", &after)?;
    Ok(format!("{after}, a new key of the honest namespace is admitted"))
}

/// Large costs on rolling limits leave rings for others.
pub(crate) fn large_costs(context: &RunContext) -> AttackResult {
    // The pool of rings belongs to the table of keys, so a small table has none for such costs at
    // all.
    let daemon = Daemon::start(context, &POLICY.replace("keys: 1MiB", "keys: 256MiB"))?;
    let check = |namespace: &str, number: u64| {
        let user = format!(r#""attributes":{{"user":"{number}"}}"#);
        http1::post("/v1/check", format!(r#"{{"namespace":"{namespace}",{user},"cost":{RING_COST}}}"#))
    };
    let statuses = raw::flood(daemon.http()?, RING_CHECKS, 1, |number| check("hostile", number))?;
    let after = format!("after checks of cost {RING_COST} with {}", counts(&statuses));
    let answer = http1::ask(daemon.http()?, check("honest", 1))?;
    require!(
        answer.status == 200,
        "{after}, the honest namespace gets {} {} for its first one",
        answer.status,
        answer.reason()
    )?;
    Ok(format!("{after}, the first one of the honest namespace is admitted"))
}

/// The values of one domain leave places in the metrics for those of another.
pub(crate) fn metric_values(context: &RunContext) -> AttackResult {
    let folder = TemporaryFolder::new();
    for domain in ["hostile", "honest"] {
        let rule =
            "{ key: user, detailed_metric: true, rate_limit: { unit: second, requests_per_unit: 100000 } }";
        folder.write(format!("{domain}.yaml"), format!("domain: {domain}\ndescriptors:\n  - {rule}\n"));
    }
    let files = folder.path().display();
    let policy = format!(
        "listen: {{ http: '127.0.0.1:0', grpc: '127.0.0.1:0' }}\nenvoy_ratelimit: {{ path: '{files}' }}\n"
    );
    let daemon = Daemon::start(context, &policy)?;
    let names = |value: &str| -> Result<bool, Failure> {
        grpc::is_admitted(daemon.grpc()?, grpc::request("honest", "user", value))?;
        Ok(http1::ask(daemon.admin()?, http1::get("/metrics"))?.text().contains(&format!("user_{value}")))
    };
    if !names("grace")? {
        return Err(Failure::Unfinished("the metrics do not name the first value".to_owned()));
    }
    let request = |number: u64| grpc::request("hostile", "user", &format!("value{number}"));
    let ended = grpc::flood(daemon.grpc()?, METRIC_VALUES, 100, request)?;
    require!(
        names("ada")?,
        "after {ended} values of one domain, the metrics do not name the value of another"
    )?;
    Ok(format!("after {ended} values of one domain, the metrics name the value of another"))
}

/// Any number of override changes leaves reloads in force.
pub(crate) fn override_changes(context: &RunContext) -> AttackResult {
    // The windows differ, so that no reload finds its numbers among those of the overrides.
    let policy = |limit: u32| {
        format!(
            "listen: {{ http: '127.0.0.1:0' }}\n\
             namespaces:\n  hostile: {{ limits: [{{ name: window, key: [user], missing: group, fixed: {{ limit: 10, window: 1m }} }}] }}\n  \
             honest: {{ limits: [{{ name: window, key: [user], missing: group, fixed: {{ limit: {limit}, window: 40s }} }}] }}\n"
        )
    };
    let daemon = Daemon::start(context, &policy(1000))?;
    let change = |number: u64| {
        let body = format!(r#"{{"numbers":{{"limit":{}}},"reason":"flood","by":"eve"}}"#, number + 1);
        http1::with_body("PUT", "/v1/overrides/hostile/window?user=eve", &[], body)
    };
    let began = Instant::now();
    let (mut sent, mut done, step) = (0, 0, 20_000);
    while sent < OVERRIDE_CHANGES && began.elapsed() < OVERRIDE_TIME_MAX {
        let statuses = raw::flood(daemon.admin()?, step, 1, |number| change(sent + number))?;
        sent += step;
        done += statuses.get(&200).copied().unwrap_or(0);
    }
    let took = began.elapsed().as_secs_f64();
    daemon.rewrite_policy(&policy(777))?;
    let deadline = Instant::now() + Duration::from_secs(5);
    loop {
        let answer = http1::ask(daemon.http()?, http1::check("honest", "ada"))?;
        if answer.header("ratelimit-policy").is_some_and(|policy| policy.contains("q=777;")) {
            return Ok(format!(
                "after {done} of {sent} changes in {took:.0} s, a reload with new numbers is in force"
            ));
        }
        require!(
            Instant::now() < deadline,
            "after {done} of {sent} changes in {took:.0} s, a reload with new numbers is not in force after 5 s"
        )?;
        thread::sleep(Duration::from_millis(100));
    }
}

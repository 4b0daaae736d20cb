//! Attacks on what the daemon keeps between requests: permits and refund keys.

use std::collections::BTreeMap;

use crate::attack::{AttackResult, Failure, RunContext, require};
use crate::attacks::require_honest_check;
use crate::daemon::Daemon;
use crate::resp::{self, Value, command};
use crate::{http1, raw};

/// Connections of a flood.
const CONNECTIONS: u64 = 4;
/// More than twice as many permits as the daemon keeps.
const SETTLED: u64 = 140_000;
/// Permits that are open at a time while [`SETTLED`] are taken and released; far below every share.
const SETTLED_AT_ONCE: u64 = 7_000;
/// More permits than the daemon keeps.
const HELD: u64 = 70_000;
/// More refund keys than the daemon remembers.
const REFUND_KEYS: u64 = 270_000;

// The table of keys has a bound of its own (`memory.keys`); a small one leaves what else grows in
// sight.
const POLICY: &str = r"
memory: { keys: 32MiB }
listen: { http: '127.0.0.1:0', resp: '127.0.0.1:0' }
namespaces:
  hostile:
    limits:
      - { name: parallel, key: [user], missing: group, concurrency: { limit: 65536, hold: 24h } }
      - { name: rate, key: [user], missing: group, rate: 1000000/s }
  honest:
    limits:
      - { name: parallel, key: [user], missing: group, concurrency: { limit: 10, hold: 10m } }
      - { name: rate, key: [user], missing: group, rate: 1000000/s }
";

/// Checks and releases with a long hold leave nothing behind. `user` takes a round and a number.
pub(crate) fn settled_permits(context: &RunContext, user: fn(u64, u64) -> String) -> AttackResult {
    let daemon = Daemon::start(context, POLICY)?;
    let address = daemon.resp()?;
    let mut taken = 0;
    for round in 0..SETTLED / SETTLED_AT_ONCE {
        let check = |number: u64| command(&["TG.CHECK", "hostile", "user", &user(round, number)]);
        let replies = resp::flood(address, SETTLED_AT_ONCE, CONNECTIONS, check)?;
        let permits: Vec<&str> = replies.iter().filter_map(permit_in).collect();
        taken += permits.len();
        let release = |number: u64| command(&["TG.RELEASE", permits[number as usize]]);
        let errors = resp::errors(&resp::flood(address, permits.len() as u64, CONNECTIONS, release)?);
        require!(errors == 0, "{errors} releases failed")?;
        if permits.is_empty() {
            break;
        }
    }
    require_honest_check(&daemon, "ada", &format!("after {taken} permits that were all released"))?;
    Ok(format!("after {taken} permits that were all released, the honest namespace gets a permit"))
}

/// Users of a namespace that keep their permits take none from another namespace.
pub(crate) fn held_permits(context: &RunContext, user: fn(u64) -> String) -> AttackResult {
    let daemon = Daemon::start(context, POLICY)?;
    let check = |number: u64| command(&["TG.CHECK", "hostile", "user", &user(number)]);
    let replies = resp::flood(daemon.resp()?, HELD, CONNECTIONS, check)?;
    let kept = replies.iter().filter_map(permit_in).count();
    require_honest_check(&daemon, "ada", &format!("beside {kept} permits of another namespace"))?;
    Ok(format!("beside {kept} permits of another namespace, the honest one gets a permit"))
}

/// One namespace that fills the memory of refund keys takes no place from another.
pub(crate) fn refund_keys(context: &RunContext) -> AttackResult {
    let daemon = Daemon::start(context, POLICY)?;
    let refund = |namespace: &str, key: &str| {
        let body =
            format!(r#"{{"namespace":"{namespace}","attributes":{{"user":"ada"}},"refund_key":"{key}"}}"#);
        http1::post("/v1/refund", body)
    };
    let numbered = |number: u64| refund("hostile", &number.to_string());
    let statuses = raw::flood(daemon.http()?, REFUND_KEYS, CONNECTIONS, numbered)?;
    let answer = http1::ask(daemon.http()?, refund("honest", "order-1815"))?;
    let (status, wait) = (answer.status, answer.header("retry-after").unwrap_or("none"));
    let after = format!("after {}", counts(&statuses));
    require!(status == 200, "{after}, an honest refund gets {status} with Retry-After {wait}")?;
    Ok(format!("{after}, an honest refund is applied"))
}

/// The names of permits of two fresh daemons have nothing in common.
pub(crate) fn permit_names(context: &RunContext) -> AttackResult {
    let first_permits = |context| -> Result<Vec<String>, Failure> {
        let daemon = Daemon::start(context, POLICY)?;
        let mut names = Vec::new();
        for _ in 0..8 {
            let answer = http1::ask(daemon.http()?, http1::check("honest", "ada"))?;
            names.push(answer.member("permit"));
        }
        Ok(names)
    };
    let (first, second) = (first_permits(context)?, first_permits(context)?);
    require!(first.iter().all(|name| name.len() >= 32), "a name is shorter than 128 bits: {first:?}")?;
    let guessed = second.iter().filter(|name| first.contains(name)).count();
    require!(guessed == 0, "{guessed} of 8 permits are named as those of another fresh daemon")?;
    Ok("no permit is named as one of another fresh daemon".to_owned())
}

fn permit_in(reply: &Value) -> Option<&str> {
    let Value::Array(parts) = reply else { return None };
    let at = parts.iter().position(|part| resp::text(part) == Some("permit"))?;
    resp::text(parts.get(at + 1)?)
}

/// How many answers had which status, as text.
pub(crate) fn counts(statuses: &BTreeMap<u16, u64>) -> String {
    let each: Vec<String> =
        statuses.iter().map(|(status, count)| format!("{count} answers {status}")).collect();
    each.join(" and ")
}

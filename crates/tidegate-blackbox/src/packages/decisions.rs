//! The first minute of a user, and a table of decisions that every protocol answers alike.

use std::net::SocketAddr;

use serde_json::json;

use crate::attack::{AttackResult, Failure, require};
use crate::http1::{self, Answer};
use crate::resp::{RespConnection, Value, text};

/// A policy whose limits do not refill while the table is asked.
pub(super) const POLICY: &str = "\
listen: { http: '127.0.0.1:0', resp: '127.0.0.1:0' }
store: { kind: memory }
namespaces:
  api:
    limits:
      - { name: per-user, key: [user], rate: 3/h, burst: 3 }
      - { name: per-app, key: [app], rate: 5/h, burst: 5 }
      - { name: trial, key: [trial], rate: 1/h, burst: 1, mode: shadow }
";

/// A request of the table and its decision.
struct TableRow {
    /// Attributes and their values; each protocol has values of its own.
    attributes: &'static [(&'static str, &'static str)],
    cost: u64,
    decision: TableDecision,
}

/// The decision on a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TableDecision {
    /// Admitted, with this many units left of the tightest limit, if one applies.
    Admit { left: Option<u64> },
    /// Refused for this reason, by this limit, and whether it says when to come back.
    Refuse { reason: &'static str, limit: &'static str, comes_back: bool },
}

const UNLIMITED: TableDecision = TableDecision::Admit { left: None };

const fn admit(left: u64) -> TableDecision {
    TableDecision::Admit { left: Some(left) }
}

const fn exceeded(limit: &'static str) -> TableDecision {
    TableDecision::Refuse { reason: "quota_exceeded", limit, comes_back: true }
}

const ADA: &[(&str, &str)] = &[("user", "ada")];
const ADA_IN_SHOP: &[(&str, &str)] = &[("user", "ada"), ("app", "shop")];
const BOB_IN_SHOP: &[(&str, &str)] = &[("user", "bob"), ("app", "shop")];
const EVE: &[(&str, &str)] = &[("user", "eve")];

/// The table, in the order in which it is asked.
const TABLE: &[TableRow] = &[
    // A limit counts down, refuses, and another key has units of its own.
    TableRow { attributes: ADA, cost: 1, decision: admit(2) },
    TableRow { attributes: ADA, cost: 2, decision: admit(0) },
    TableRow { attributes: ADA, cost: 1, decision: exceeded("per-user") },
    // A refusal by one limit charges none: the other has all five units but the one of bob.
    TableRow { attributes: ADA_IN_SHOP, cost: 1, decision: exceeded("per-user") },
    TableRow { attributes: BOB_IN_SHOP, cost: 1, decision: admit(2) },
    TableRow { attributes: &[("app", "shop")], cost: 4, decision: admit(0) },
    TableRow { attributes: BOB_IN_SHOP, cost: 1, decision: exceeded("per-app") },
    // A cost that is never admitted says so, and charges nothing.
    TableRow {
        attributes: EVE,
        cost: 4,
        decision: TableDecision::Refuse {
            reason: "cost_exceeds_limit",
            limit: "per-user",
            comes_back: false,
        },
    },
    TableRow { attributes: EVE, cost: 3, decision: admit(0) },
    // A limit in shadow refuses nothing, and a request without a limit goes ahead.
    TableRow { attributes: &[("trial", "t")], cost: 1, decision: UNLIMITED },
    TableRow { attributes: &[("trial", "t")], cost: 1, decision: UNLIMITED },
    TableRow { attributes: &[("other", "x")], cost: 1, decision: UNLIMITED },
];

/// Asks the whole table over HTTP and over RESP.
pub(super) fn table(http: SocketAddr, resp: SocketAddr) -> AttackResult {
    let mut wrong = Vec::new();
    let mut connection = RespConnection::open(resp)?;
    for (index, row) in TABLE.iter().enumerate() {
        let over_http = http_decision(http, row)?;
        let over_resp = resp_decision(&mut connection, row)?;
        for (protocol, found) in [("HTTP", over_http), ("RESP", over_resp)] {
            if found != expected(row.decision) {
                let expected = expected(row.decision);
                wrong.push(format!("row {}, {protocol}: {found}, expected {expected}", index + 1));
            }
        }
    }
    require!(wrong.is_empty(), "{}", wrong.join("; "))?;
    Ok(format!("{} decisions over HTTP and as many over RESP", TABLE.len()))
}

/// A decision in words, in which the protocols are compared.
fn expected(decision: TableDecision) -> String {
    match decision {
        TableDecision::Admit { left: Some(left) } => format!("admit, {left} left"),
        TableDecision::Admit { left: None } => "admit".to_owned(),
        TableDecision::Refuse { reason, limit, comes_back } => {
            format!("refuse, {reason} by {limit}, {}", if comes_back { "come back" } else { "never" })
        }
    }
}

fn http_decision(address: SocketAddr, row: &TableRow) -> Result<String, Failure> {
    let attributes: serde_json::Map<String, serde_json::Value> = row
        .attributes
        .iter()
        .map(|(name, value)| ((*name).to_owned(), json!(format!("http-{value}"))))
        .collect();
    let body = json!({ "namespace": "api", "attributes": attributes, "cost": row.cost });
    let answer = http1::ask(address, http1::post("/v1/check", body.to_string()))?;
    let json = answer.json();
    Ok(if answer.status == 200 {
        left_words(json["remaining"].as_u64())
    } else {
        let comes_back = json["retry_after_ms"].as_u64().is_some() && answer.header("retry-after").is_some();
        refusal_words(&answer.reason(), json["limit"].as_str().unwrap_or_default(), comes_back)
    })
}

fn resp_decision(connection: &mut RespConnection, row: &TableRow) -> Result<String, Failure> {
    let cost = row.cost.to_string();
    let values: Vec<String> = row.attributes.iter().map(|(_, value)| format!("resp-{value}")).collect();
    let mut words = vec!["TG.CHECK", "api", "COST", &cost];
    for ((name, _), value) in row.attributes.iter().zip(&values) {
        words.extend([*name, value.as_str()]);
    }
    let reply = connection.ask(&words)?;
    let Value::Array(items) = &reply else {
        return Err(Failure::GotThrough(format!("TG.CHECK answered {reply:?}")));
    };
    let member = |name: &str| {
        let at = items.iter().position(|item| text(item) == Some(name))?;
        items.get(at + 1)
    };
    let word = |name: &str| member(name).and_then(text).unwrap_or_default().to_owned();
    let number = |name: &str| match member(name) {
        Some(Value::Int(number)) => u64::try_from(*number).ok(),
        _ => None,
    };
    Ok(match word("decision").as_str() {
        "admit" => left_words(number("remaining")),
        _ => refusal_words(&word("reason"), &word("limit"), number("retry_after_ms").is_some()),
    })
}

fn left_words(left: Option<u64>) -> String {
    left.map_or("admit".to_owned(), |left| format!("admit, {left} left"))
}

fn refusal_words(reason: &str, limit: &str, comes_back: bool) -> String {
    format!("refuse, {reason} by {limit}, {}", if comes_back { "come back" } else { "never" })
}

/// Does what the daemon's first lines tell a user to paste: a request that goes ahead, and the same
/// until it is refused and explains itself.
pub(super) fn first_minute(printed: &str, address: SocketAddr) -> AttackResult {
    let line = printed.lines().find(|line| line.contains("/v1/check -d '"));
    let line = line.ok_or_else(|| Failure::GotThrough(format!("nothing to paste: {printed}")))?;
    let body = line.split('\'').nth(1).unwrap_or_default();
    let mut admitted = 0;
    let refusal: Answer = loop {
        let answer = http1::ask(address, http1::post("/v1/check", body))?;
        if answer.status != 200 {
            break answer;
        }
        admitted += 1;
        require!(admitted < 20, "20 requests of the first minute were admitted and none refused")?;
    };
    let json = refusal.json();
    let detail = json["detail"].as_str().unwrap_or_default().to_owned();
    let explains = refusal.status == 429
        && json["reason"] == "rate_exceeded"
        && json["retry_after_ms"].as_u64().is_some()
        && json["limit"].as_str().is_some();
    require!(admitted > 0 && explains, "{admitted} admitted, then {}: {}", refusal.status, refusal.text())?;
    Ok(format!("{admitted} admitted, then 429: {detail}"))
}

//! `tidegate limits`.

use std::fmt::Write as _;

use serde::Deserialize;
use serde_json::Value;
use tidegate_wire::display::HumanDuration;

use crate::arguments::operator_commands::Limits;
use crate::client::{self, ClientError, print, target, wait_for};
use crate::columns::Columns;
use crate::exit::Exit;

/// The part of `GET /v1/limits` that is shown.
#[derive(Deserialize)]
struct LimitsShown {
    policy: PolicyShown,
    namespaces: Vec<NamespaceShown>,
    #[serde(default)]
    domains: Vec<DomainShown>,
    overrides: Vec<Value>,
}

/// The part of the policy in force that is shown.
#[derive(Deserialize)]
struct PolicyShown {
    version: u64,
    since: String,
    #[serde(default)]
    last_error: Option<ErrorShown>,
    #[serde(default)]
    restart_needed: Vec<String>,
}

/// The error of a later policy that was not taken over.
#[derive(Deserialize)]
struct ErrorShown {
    at: String,
    problems: String,
}

/// The part of a namespace that is shown.
#[derive(Deserialize)]
struct NamespaceShown {
    name: String,
    limits: Vec<LimitShown>,
}

/// A domain of files of envoyproxy/ratelimit.
#[derive(Deserialize)]
struct DomainShown {
    name: String,
    rules: Vec<RuleShown>,
}

/// A rule of a domain.
#[derive(Deserialize)]
struct RuleShown {
    name: String,
    entries: Vec<(String, Option<String>)>,
    limits: Vec<String>,
    mode: String,
}

/// The part of a limit that is shown.
#[derive(Deserialize)]
struct LimitShown {
    name: String,
    key: Vec<String>,
    matches: Vec<String>,
    limit: u64,
    window_ms: Option<u64>,
    mode: String,
    overrides: usize,
}

pub(crate) fn run(arguments: &Limits) -> Exit {
    print(arguments.json, wait_for(ask(arguments)), table)
}

async fn ask(arguments: &Limits) -> Result<Value, ClientError> {
    let namespace = arguments.namespace.iter().map(|namespace| ("namespace", namespace.as_str()));
    client::get(&arguments.daemon, &target("/v1/limits", &namespace.collect::<Vec<_>>())).await
}

fn table(answer: &Value) -> String {
    let Ok(shown) = LimitsShown::deserialize(answer) else { return format!("{answer:#}\n") };
    let mut text = String::new();
    let PolicyShown { version, since, last_error, restart_needed } = shown.policy;
    let _ = writeln!(text, "Policy {version} is in force since {since}.");
    if let Some(error) = last_error {
        let _ = writeln!(text, "The policy of {} was not taken over:\n{}", error.at, error.problems);
    }
    if !restart_needed.is_empty() {
        let _ = writeln!(text, "These settings count after a restart: {}.", restart_needed.join(", "));
    }
    let mut columns =
        Columns::new(["NAMESPACE", "LIMIT", "KEY", "MATCHES ON", ">UNITS", ">WINDOW", "MODE", ">OVERRIDES"]);
    for namespace in shown.namespaces {
        for limit in namespace.limits {
            columns.push([
                namespace.name.clone(),
                limit.name,
                limit.key.join(", "),
                limit.matches.join(", "),
                limit.limit.to_string(),
                limit
                    .window_ms
                    .map_or_else(|| "at once".to_owned(), |ms| HumanDuration::from_millis(ms).to_string()),
                limit.mode,
                limit.overrides.to_string(),
            ]);
        }
    }
    let mut rules = Columns::new(["DOMAIN", "RULE", "ENTRIES", "LIMITS", "MODE"]);
    for domain in shown.domains {
        for rule in domain.rules {
            let entry = |(key, value): &(String, Option<String>)| match value {
                Some(value) => format!("{key}={value}"),
                None => key.clone(),
            };
            let limits = if rule.limits.is_empty() { "unlimited".to_owned() } else { rule.limits.join(", ") };
            let entries: Vec<String> = rule.entries.iter().map(entry).collect();
            rules.push([domain.name.clone(), rule.name, entries.join(", "), limits, rule.mode]);
        }
    }
    let tables = [columns.text(), rules.text()];
    if tables.iter().all(String::is_empty) {
        text.push_str("There are no limits.\n");
    }
    for table in tables.iter().filter(|table| !table.is_empty()) {
        text.extend(["\n", table]);
    }
    if !shown.overrides.is_empty() {
        let _ = writeln!(
            text,
            "\nOverrides set while running: {}; see `tidegate override list`.",
            shown.overrides.len()
        );
    }
    text
}

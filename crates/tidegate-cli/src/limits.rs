//! `tidegate limits`.

mod page;
pub(crate) mod shown;

use std::fmt::Write as _;
use std::path::Path;

use serde::Deserialize;
use serde_json::{Value, json};
use tidegate_server::describe_policy;
use tidegate_wire::display::HumanDuration;

use self::shown::{LimitsShown, PolicyShown};
use crate::arguments::operator_commands::{Limits, NamespaceFilter};
use crate::client::{self, ClientError, print, target, wait_for};
use crate::columns::Columns;
use crate::exit::Exit;
use crate::policy_file;

pub(crate) fn run(arguments: &Limits) -> Exit {
    let words = |answer: &Value| {
        if arguments.markdown { page::page(answer, arguments.contact.as_deref()) } else { table(answer) }
    };
    let answer = match &arguments.config {
        None => wait_for(ask(&arguments.filter)),
        Some(path) => read(path, arguments.filter.namespace.as_deref()),
    };
    print(arguments.json, answer, words)
}

/// The limits of a configuration file, as a daemon would answer.
fn read(path: &Path, namespace: Option<&str>) -> Result<Value, ClientError> {
    let checked = policy_file::read(path).map_err(|error| error.for_command(path))?;
    let described = describe_policy(&checked.policy);
    let mut namespaces = serde_json::to_value(described).expect("text and numbers always serialise");
    if let (Some(wanted), Some(all)) = (namespace, namespaces.as_array_mut()) {
        all.retain(|one| one["name"] == wanted);
        if all.is_empty() {
            let there: Vec<&str> = checked.policy.namespaces.iter().map(|one| one.name.as_str()).collect();
            let there = there.join(", ");
            return Err(ClientError::Untaken(format!(
                "namespace \"{wanted}\" does not exist; there are: {there}"
            )));
        }
    }
    Ok(json!({ "namespaces": namespaces }))
}

async fn ask(filter: &NamespaceFilter) -> Result<Value, ClientError> {
    client::get(&filter.daemon, &target("/v1/limits", filter.query().as_slice())).await
}

fn table(answer: &Value) -> String {
    let Ok(shown) = LimitsShown::deserialize(answer) else { return format!("{answer:#}\n") };
    let mut text = String::new();
    if let Some(PolicyShown { version, since, last_error, restart_needed }) = shown.policy {
        let _ = writeln!(text, "Policy {version} is in force since {since}.");
        if let Some(error) = last_error {
            let _ = writeln!(text, "The policy of {} was not taken over:\n{}", error.at, error.problems);
        }
        if !restart_needed.is_empty() {
            let _ = writeln!(text, "These settings count after a restart: {}.", restart_needed.join(", "));
        }
    }
    let mut columns =
        Columns::new(["NAMESPACE", "LIMIT", "KEY", "MATCHES ON", ">UNITS", ">WINDOW", "MODE", ">OVERRIDES"]);
    let mut plans = Columns::new(["NAMESPACE", "PLAN", "LIMIT", "ALLOWANCE"]);
    let mut costs = Columns::new(["NAMESPACE", "COST", "OF REQUESTS WITH"]);
    let mut throughput = Columns::new(["NAMESPACE", "TABLE", ">READ UNITS/S", ">WRITE UNITS/S"]);
    for namespace in shown.namespaces {
        for row in namespace.costs {
            let of =
                if row.conditions.is_empty() { "any other".to_owned() } else { row.conditions.join(", ") };
            costs.push([namespace.name.clone(), row.cost.to_string(), of]);
        }
        for table in namespace.tables {
            let (read, write) = (table.read_units_per_second, table.write_units_per_second);
            throughput.push([namespace.name.clone(), table.name, read.to_string(), write.to_string()]);
        }
        for limit in namespace.limits {
            for plan in limit.plans {
                plans.push([namespace.name.clone(), plan.plan, limit.name.clone(), plan.allowance]);
            }
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
    let tables = [columns.text(), plans.text(), costs.text(), throughput.text(), rules.text()];
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

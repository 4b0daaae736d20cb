//! The page for callers that `tidegate limits --markdown` prints.

use std::fmt::Write as _;

use serde::Deserialize;
use serde_json::Value;
use tidegate_server::{LimitDescription, NamespaceAnswer, TableDescription};
use tidegate_wire::display::HumanDuration;

use super::shown::LimitsShown;

/// The page of all namespaces in the answer.
pub(super) fn page(answer: &Value, contact: Option<&str>) -> String {
    let Ok(shown) = LimitsShown::deserialize(answer) else { return format!("{answer:#}\n") };
    let mut text = String::new();
    for namespace in &shown.namespaces {
        limits_of(namespace, &mut text);
    }
    if shown.namespaces.is_empty() {
        text.push_str("# Limits\n\nThere are no limits.\n\n");
    }
    text.push_str(
        "## When a limit is reached\n\n\
         The response has the status of its limit above, and says in `Retry-After` how many seconds to wait. A repeat that comes \
         earlier is refused again. Its body is a problem document (`application/problem+json`): `limit` is the limit, `reason` why it \
         refused, `retry_after_ms` the wait in milliseconds. A response without `Retry-After` means that waiting does not help: the request \
         itself must change.\n\n\
         Responses carry `RateLimit` and `RateLimit-Policy`: `r` is what is left, `t` the seconds until it is more. A client that slows \
         down as `r` comes near 0 is not refused.\n\n\
         Wait for as long as `Retry-After` says, add a little at random, and give up after a few attempts. A refused request \
         was not carried out and counts against no limit, so repeating it is safe.\n\n\
         ## Asking for more\n\n",
    );
    let place = match contact {
        Some(contact) => format!("Write to {}", escaped(contact)),
        None => "Ask the operators of this service".to_owned(),
    };
    let _ = writeln!(
        text,
        "{place} with the name of the limit, the values that it counts for you, how much you need, and until when. Single callers can \
         have other numbers at once."
    );
    text
}

fn limits_of(namespace: &NamespaceAnswer, text: &mut String) {
    let _ = writeln!(text, "# Limits of {}\n", code(&namespace.name));
    // A shadow limit refuses nothing, and a caller cannot see it.
    let enforced: Vec<&LimitDescription> =
        namespace.limits.iter().filter(|limit| limit.mode == "enforce").collect();
    if enforced.is_empty() {
        if namespace.tables.is_empty() {
            text.push_str("There are no limits.\n\n");
        }
        tables_of(namespace, text);
        return;
    }
    text.push_str(
        "Every limit that applies to a request must admit it. A request that one of them refuses counts against none.\n\n\
         | limit | allowance | counted for each | applies to | status |\n|---|---|---|---|---|\n",
    );
    for limit in enforced {
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} |",
            code(&limit.name),
            allowance(namespace, limit),
            counted_for(limit),
            applies_to(limit),
            limit.status
        );
    }
    text.push('\n');
    costs_of(namespace, text);
    tables_of(namespace, text);
}

/// The throughput of its tables, which no limit of the list above bounds.
fn tables_of(namespace: &NamespaceAnswer, text: &mut String) {
    if namespace.tables.is_empty() {
        return;
    }
    text.push_str(
        "Reads and writes of these tables cost units, by the bytes that they move. They are refused while the units of the table \
         are used up, or those of the part of it that holds the key.\n\n\
         | table | units of reading a second | units of writing a second |\n|---|---|---|\n",
    );
    for table in &namespace.tables {
        let TableDescription { name, read_units_per_second: read, write_units_per_second: write } = table;
        let _ = writeln!(text, "| {} | {read} | {write} |", code(name));
    }
    text.push('\n');
}

/// The numbers of the limit for each plan. Its own numbers count for requests without a plan, and
/// for plans that it does not list.
fn allowance(namespace: &NamespaceAnswer, limit: &LimitDescription) -> String {
    let mut text = escaped(&limit.allowance);
    if limit.zone_from.is_some() {
        text.push_str(", or in the time zone of the caller");
    }
    if let Some(outcomes) = &limit.refund_on {
        let _ = write!(text, "; not counted: {}", escaped(outcomes));
    }
    if let Some(blocks_for) = limit.blocks_for_ms {
        let span = HumanDuration::from_millis(blocks_for);
        let _ = write!(text, "; a key that exceeds it is refused for {span}");
    }
    let Some(plans) = namespace.plans.as_ref().filter(|_| !limit.plans.is_empty()) else { return text };
    let has_numbers = |plan: &str| limit.plans.iter().any(|one| one.plan == plan);
    let others: Vec<String> = plans
        .names
        .iter()
        .filter(|plan| !has_numbers(plan))
        .map(|plan| format!("plan {}", code(plan)))
        .collect();
    let own = match (&plans.default, others.is_empty()) {
        (Some(default), true) if has_numbers(default) => None,
        (Some(default), false) if has_numbers(default) => Some(others.join(", ")),
        (_, true) => Some("without a plan".to_owned()),
        (_, false) => Some(format!("{}, and without a plan", others.join(", "))),
    };
    let mut rows: Vec<String> = own.iter().map(|whose| format!("{whose}: {text}")).collect();
    for one in &limit.plans {
        let default = if plans.default.as_ref() == Some(&one.plan) { " (the default)" } else { "" };
        rows.push(format!("plan {}{default}: {}", code(&one.plan), escaped(&one.allowance)));
    }
    rows.join("<br>")
}

/// The costs of requests that do not cost one unit.
fn costs_of(namespace: &NamespaceAnswer, text: &mut String) {
    if namespace.costs.is_empty() {
        return;
    }
    text.push_str(
        "The cost of a request is that of the first row that it meets, otherwise 1.\n\n\
         | request | units |\n|---|---|\n",
    );
    for row in &namespace.costs {
        let conditions: Vec<String> = row.conditions.iter().map(|one| condition(one)).collect();
        let conditions =
            if conditions.is_empty() { "every other".to_owned() } else { conditions.join(" and ") };
        let _ = writeln!(text, "| {conditions} | {} |", row.cost);
    }
    text.push('\n');
}

/// The attributes of its key.
fn counted_for(limit: &LimitDescription) -> String {
    if limit.key.is_empty() {
        return "all callers together".to_owned();
    }
    limit.key.iter().map(|name| code(name)).collect::<Vec<_>>().join(" and ")
}

/// The requests that it looks at. All of its conditions must hold.
fn applies_to(limit: &LimitDescription) -> String {
    let conditions: Vec<String> = limit.conditions.iter().map(|one| condition(one)).collect();
    let where_they_hold =
        if conditions.is_empty() { String::new() } else { format!(" where {}", conditions.join(" and ")) };
    let names = || limit.key.iter().map(|name| code(name)).collect::<Vec<_>>().join(" and ");
    let all = if conditions.is_empty() { "all requests" } else { "requests" };
    match limit.missing.as_str() {
        _ if limit.key.is_empty() => format!("{all}{where_they_hold}"),
        "skip" => format!("requests with {}{where_they_hold}", names()),
        "group" => format!("{all}{where_they_hold}; those without {} share one counter", names()),
        _ => format!("{all}{where_they_hold}; those without {} are refused", names()),
    }
}

/// A condition as a sentence goes on: `path is a value that starts with "/search"`.
fn condition(text: &str) -> String {
    match text.split_once(": ") {
        Some((attribute, wanted)) => format!("{} is {}", code(attribute), escaped(wanted)),
        None => escaped(text),
    }
}

/// A name as code. Names may hold any character but line breaks.
fn code(name: &str) -> String {
    // A longer fence than any run of backticks in the name, as CommonMark has it.
    let longest = name.split(|other| other != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest + 1);
    let space = if longest > 0 { " " } else { "" };
    format!("{fence}{space}{}{space}{fence}", in_cell(name))
}

/// Text that Markdown shows as it is.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        if matches!(character, '\\' | '`' | '*' | '_' | '[' | ']' | '<' | '>' | '|' | '#') {
            escaped.push('\\');
        }
        escaped.push(if character.is_control() { ' ' } else { character });
    }
    escaped
}

/// A bar ends a cell even in code.
fn in_cell(text: &str) -> String {
    text.replace('|', "\\|").replace(char::is_control, " ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn limit(name: &str, change: impl FnOnce(&mut Value)) -> Value {
        let mut limit = json!({
            "name": name, "key": ["user"], "matches": [], "conditions": [], "limit": 5, "mode": "enforce", "overrides": 0,
            "allowance": "5/s, at most 5 at once", "missing": "skip", "status": 429,
        });
        change(&mut limit);
        limit
    }

    fn page_of(limits: &[Value]) -> String {
        page(&json!({ "namespaces": [{ "name": "api", "attributes": [], "limits": limits }] }), None)
    }

    #[test]
    fn a_page_lists_enforced_limits_and_says_for_whom_they_count() {
        let text = page_of(&[
            limit("per-user", |_| {}),
            limit("exports", |one| {
                one["conditions"] =
                    json!(["operation: \"Export\"", "path: a value that starts with \"/v1\""]);
                one["key"] = json!([]);
                one["status"] = json!(503);
            }),
            limit("trial", |one| one["mode"] = json!("shadow")),
            limit("grouped", |one| one["missing"] = json!("group")),
            limit("strict", |one| {
                one["conditions"] = json!(["method: \"POST\""]);
                one["missing"] = json!("refuse");
                one["blocks_for_ms"] = json!(600_000);
            }),
        ]);
        let rows: Vec<&str> = text.lines().filter(|line| line.starts_with("| `")).collect();
        assert_eq!(
            rows,
            [
                "| `per-user` | 5/s, at most 5 at once | `user` | requests with `user` | 429 |",
                "| `exports` | 5/s, at most 5 at once | all callers together | requests where `operation` is \"Export\" and `path` is a \
                 value that starts with \"/v1\" | 503 |",
                "| `grouped` | 5/s, at most 5 at once | `user` | all requests; those without `user` share one counter | 429 |",
                "| `strict` | 5/s, at most 5 at once; a key that exceeds it is refused for 10 min | `user` | requests \
                 where `method` is \"POST\"; those without `user` are refused | 429 |",
            ]
        );
    }

    #[test]
    fn plans_and_costs_are_on_the_page() {
        let numbers = |plan: &str, allowance: &str| json!({ "plan": plan, "allowance": allowance });
        let with_plans = |name: &str, plans: Value| limit(name, |one| one["plans"] = plans);
        let answer = |default: Option<&str>| {
            json!({ "namespaces": [{
                "name": "api",
                "attributes": [], "limits": [
                    with_plans("reads", json!([numbers("free", "1/s"), numbers("pro", "unlimited")])),
                    with_plans("writes", json!([numbers("pro", "9/s")])),
                    limit("daily", |one| {
                        one["zone_from"] = json!("zone");
                        one["refund_on"] = json!("failed, 404");
                    }),
                ],
                "plans": { "names": ["free", "pro"], "attribute": "plan", "assigned": 0, "default": default },
                "costs": [{ "conditions": ["path: a value that starts with \"/search\""], "cost": 10 },
                          { "conditions": [], "cost": 2 }],
            }] })
        };
        let cells = |default: Option<&str>| -> Vec<String> {
            let text = page(&answer(default), None);
            let rows = text.lines().filter(|line| line.starts_with("| "));
            rows.map(|row| row.split(" | ").nth(1).unwrap().trim_end_matches(" |").to_owned()).collect()
        };
        let own = "5/s, at most 5 at once";
        assert_eq!(
            cells(Some("free"))[1..],
            [
                "plan `free` (the default): 1/s<br>plan `pro`: unlimited".to_owned(),
                format!("plan `free`, and without a plan: {own}<br>plan `pro`: 9/s"),
                format!("{own}, or in the time zone of the caller; not counted: failed, 404"),
                "units".to_owned(),
                "10".to_owned(),
                "2".to_owned(),
            ]
        );
        assert_eq!(
            cells(None)[1],
            format!("without a plan: {own}<br>plan `free`: 1/s<br>plan `pro`: unlimited")
        );
    }

    #[test]
    fn tables_are_on_the_page_also_without_any_limit() {
        let table = json!({ "name": "orders", "read_units_per_second": 400, "write_units_per_second": 100 });
        for limits in [json!([]), json!([limit("per-user", |_| {})])] {
            let text = page(
                &json!({ "namespaces": [{ "name": "shop", "attributes": [], "limits": limits, "tables": [table] }] }),
                None,
            );
            assert!(text.contains("\n| `orders` | 400 | 100 |\n"), "{text}");
            assert!(!text.contains("There are no limits."), "{text}");
        }
    }

    #[test]
    fn names_cannot_break_the_table_or_become_markup() {
        let text = page_of(&[limit("a`|b", |one| {
            one["conditions"] = json!(["path: a value like \"/*|[x](y)\""]);
        })]);
        let row = text.lines().find(|line| line.contains("a`")).unwrap();
        assert!(row.starts_with("| `` a`\\|b `` |"), "{row}");
        assert!(row.contains("\"/\\*\\|\\[x\\](y)\""), "{row}");
        let named = page(&json!({ "namespaces": [] }), Some("<b>"));
        assert!(named.contains("There are no limits.") && named.contains("Write to \\<b\\> with"), "{named}");
    }
}

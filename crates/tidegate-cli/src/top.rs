//! `tidegate top`.

use std::fmt::Write as _;

use serde::Serialize;
use tidegate_wire::display::HumanDuration;
use tidegate_wire::explanation::ExplanationBody;
use tidegate_wire::refused_keys::{LimitCountBody, RefusedKeyBody, TopKeysBody};

use crate::arguments::operator_commands::{KeyGroups, Top};
use crate::arguments::request::{Attribute, Class, LoadTarget, Question};
use crate::client::{self, ClientError, print, target, wait_for};
use crate::columns::{Columns, one_line};
use crate::exit::Exit;
use crate::explain::table;

/// The keys, and the answer of each limit to the selected caller.
#[derive(Serialize)]
struct TopAnswer {
    #[serde(flatten)]
    top: TopKeysBody,
    #[serde(skip_serializing_if = "Option::is_none")]
    explanation: Option<ExplanationBody>,
}

pub(crate) fn run(arguments: &Top) -> Exit {
    print(arguments.json, wait_for(ask(arguments)), |answer| words(arguments, answer))
}

async fn ask(arguments: &Top) -> Result<TopAnswer, ClientError> {
    let n = arguments.n.to_string();
    let keys: Vec<String> = arguments.attributes.iter().map(pair).collect();
    let mut query = vec![("window", arguments.window.as_str()), ("n", &n)];
    query.extend(arguments.namespace.iter().map(|namespace| ("namespace", namespace.as_str())));
    query.extend(arguments.limit.iter().map(|limit| ("limit", limit.as_str())));
    query.extend(arguments.reason.iter().map(|reason| ("reason", reason.as_str())));
    query.extend(arguments.by.map(|KeyGroups::Tenant| ("by", "tenant")));
    query.extend(keys.iter().map(|key| ("key", key.as_str())));
    let top = client::get(&arguments.daemon, &target("/v1/keys/top", &query)).await?;
    let (Some(namespace), false) = (&arguments.namespace, arguments.attributes.is_empty()) else {
        return Ok(TopAnswer { top, explanation: None });
    };
    let question = Question {
        namespace: namespace.clone(),
        attributes: arguments.attributes.clone(),
        ..Question::default()
    };
    let target = target_of(&arguments.target, &top);
    let explanation = match client::explain(&arguments.daemon, &question, &target, None).await {
        Ok(explanation) => Some(explanation),
        Err(error) if arguments.target.resource.is_some() => return Err(error),
        // A domain of files has refused keys and no limits that can be explained.
        Err(_) => None,
    };
    Ok(TopAnswer { top, explanation })
}

/// The class and the resource at which the overload plane refused the selected keys most, as far as
/// the arguments leave them open.
fn target_of(asked: &LoadTarget, top: &TopKeysBody) -> LoadTarget {
    let refused = top.keys.iter().flat_map(|key| {
        let limits = key.limits.iter().map(|one| (&one.class, &one.resource));
        core::iter::once((&key.class, &key.resource)).chain(limits)
    });
    let targets: Vec<_> = refused
        .filter_map(|(class, resource)| Some((Class::named(class.as_deref()?), resource.clone()?)))
        .collect();
    let fits = |(class, resource): &&(Option<Class>, String)| {
        (asked.class.is_none() || asked.class == *class)
            && asked.resource.as_ref().is_none_or(|asked| asked == resource)
    };
    let Some((class, resource)) = targets.iter().find(fits).or(targets.first()) else {
        return asked.clone();
    };
    LoadTarget {
        class: asked.class.or(*class),
        resource: asked.resource.clone().or_else(|| Some(resource.clone())),
    }
}

fn pair((name, value): &Attribute) -> String {
    format!("{name}={value}")
}

fn words(arguments: &Top, answer: &TopAnswer) -> String {
    let top = &answer.top;
    let mut text = String::new();
    let of = arguments.namespace.as_ref().map_or(String::new(), |name| format!(" in {}", one_line(name)));
    let refusals = if top.refusals == 1 { "refusal" } else { "refusals" };
    let _ = writeln!(text, "{} {refusals}{of} since {}.", top.refusals, top.since);
    let rows = if arguments.by.is_some() { tenants(top).text() } else { keys(top).text() };
    if !top.keys.is_empty() {
        text.push('\n');
    }
    text.push_str(&rows);
    if top.more > 0 {
        let _ = writeln!(
            text,
            "and {} more; list them with -n, or select with NAMESPACE, NAME=VALUE, --limit",
            top.more
        );
    }
    if top.keys.is_empty() && !arguments.attributes.is_empty() {
        let key: Vec<String> = arguments.attributes.iter().map(|one| one_line(&pair(one))).collect();
        let _ = match top.uncounted_max {
            0 => writeln!(text, "No key with {} was refused.", key.join(", ")),
            most => writeln!(
                text,
                "No counted key has {}: one that is not counted was refused at most {most} times.",
                key.join(", ")
            ),
        };
    }
    if let Some(explanation) = &answer.explanation {
        text.push('\n');
        text.push_str(&table::of(explanation, &format!("by the daemon at {}", arguments.daemon.at)));
    }
    text
}

/// A line for each key.
fn keys(top: &TopKeysBody) -> Columns<7> {
    let mut columns =
        Columns::new(["NAMESPACE", "LIMIT", "KEY", ">REFUSED", ">PER S", ">LAST SEEN", "REASONS"]);
    for key in &top.keys {
        columns.push([
            key.namespace.clone(),
            match &key.resource {
                Some(resource) => format!("{} at {resource}", key.limit),
                None => key.limit.clone(),
            },
            if key.key.is_empty() { "one counter for all".to_owned() } else { key.key.clone() },
            between(key.refusals, key.error),
            format!("{:.1}", key.rate_per_s),
            format!("{} ago", HumanDuration::from_millis(key.last_seen_ms)),
            reasons(key),
        ]);
    }
    columns
}

/// A line for each tenant.
fn tenants(top: &TopKeysBody) -> Columns<6> {
    let mut columns =
        Columns::new(["NAMESPACE", "TENANT", ">REFUSED", ">PER S", ">LAST SEEN", "LIMIT OR MECHANISM"]);
    for row in &top.keys {
        let limit = |one: &LimitCountBody| {
            let part = |word: &str, name: &Option<String>| {
                name.as_ref().map_or(String::new(), |name| format!(" {word} {name}"))
            };
            let (class, resource) = (part("of", &one.class), part("at", &one.resource));
            format!("{}{class}{resource} {}", one.limit, between(one.refusals, one.error))
        };
        let tenant = row.key.strip_prefix("tenant=").unwrap_or("none");
        columns.push([
            row.namespace.clone(),
            tenant.to_owned(),
            between(row.refusals, row.error),
            format!("{:.1}", row.rate_per_s),
            format!("{} ago", HumanDuration::from_millis(row.last_seen_ms)),
            row.limits.iter().map(limit).collect::<Vec<_>>().join(", "),
        ]);
    }
    columns
}

/// The least and the most it may be.
fn between(refusals: u64, error: u64) -> String {
    if error == 0 {
        refusals.to_string()
    } else {
        format!("{} to {refusals}", refusals.saturating_sub(error))
    }
}

fn reasons(key: &RefusedKeyBody) -> String {
    let [only] = &key.reasons[..] else {
        let each =
            key.reasons.iter().map(|one| format!("{} {}", one.reason, between(one.refusals, one.error)));
        return each.collect::<Vec<_>>().join(", ");
    };
    only.reason.clone()
}

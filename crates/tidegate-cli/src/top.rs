//! `tidegate top`.

use std::fmt::Write as _;

use clap::ValueEnum;
use serde::Serialize;
use tidegate_wire::display::HumanDuration;
use tidegate_wire::explanation::ExplanationBody;
use tidegate_wire::refused_keys::{LimitCountBody, RefusedKeyBody, TopKeysBody, WithoutTenantBody};

use crate::arguments::operator_commands::{KeyGroups, Top};
use crate::arguments::request::{Attribute, Class, ExplainedRequest, LoadTarget, Question, RequestDoor};
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
    let LoadTarget { class, resource } = &arguments.target;
    let is_explained = arguments.namespace.is_some() && !arguments.attributes.is_empty();
    if !is_explained && (class.is_some() || resource.is_some()) {
        let why = "--class and --resource say which request of a caller is explained; name the caller, as \
                   `tidegate top api customer=t40 --class critical`";
        return Err(ClientError::Untaken(why.to_owned()));
    }
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
    let ShedRequest { target, tenant, door } = shed_request(&arguments.target, &top);
    let request =
        ExplainedRequest { feature: None, tenant: tenant.as_deref(), door, wait: None, ticket: None };
    let explanation = match client::explain(&arguments.daemon, &question, &target, request).await {
        Ok(explanation) => Some(explanation),
        Err(error) if arguments.target.resource.is_some() => return Err(error),
        // A domain of files has refused keys and no limits that can be explained.
        Err(_) => None,
    };
    Ok(TopAnswer { top, explanation })
}

/// A request as the overload plane decides it.
#[derive(Clone, Debug, Default)]
struct ShedRequest {
    target: LoadTarget,
    tenant: Option<String>,
    /// The door whose rules say the tenant, for keys that are known to have no tenant.
    door: Option<RequestDoor>,
}

/// The request that the overload plane refused most of those with the selected attributes, as far
/// as the arguments leave it open.
fn shed_request(asked: &LoadTarget, top: &TopKeysBody) -> ShedRequest {
    let request = |class: &Option<String>, resource: &Option<String>, tenant: &Option<String>| {
        let class = Class::from_str(class.as_deref()?, false).ok();
        let target = LoadTarget { class, resource: resource.clone() };
        Some(ShedRequest { target, tenant: tenant.clone(), door: None })
    };
    let of_tenants = top.keys.iter().flat_map(|key| {
        let limits = key.limits.iter().map(|one| request(&one.class, &one.resource, &key.tenant));
        core::iter::once(request(&key.class, &key.resource, &key.tenant)).chain(limits)
    });
    let without = top.without_tenant.iter().flat_map(|without| &without.limits);
    // The attributes of such a request name a tenant at the proxy alone.
    let without = without.map(|one| {
        Some(ShedRequest { door: Some(RequestDoor::Check), ..request(&one.class, &one.resource, &None)? })
    });
    let shed: Vec<ShedRequest> = of_tenants.chain(without).flatten().collect();
    let fits = |one: &&ShedRequest| {
        (asked.class.is_none() || asked.class == one.target.class)
            && (asked.resource.is_none() || asked.resource == one.target.resource)
    };
    let named = shed.iter().find(|one| one.target.resource.is_some());
    let Some(most) = shed.iter().find(fits).filter(|one| one.target.resource.is_some()).or(named) else {
        return ShedRequest { target: asked.clone(), ..ShedRequest::default() };
    };
    let target = LoadTarget {
        class: asked.class.or(most.target.class),
        resource: asked.resource.clone().or_else(|| most.target.resource.clone()),
    };
    ShedRequest { target, ..most.clone() }
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
    if let Some(without) = &top.without_tenant {
        write_without_tenant(&mut text, without);
    } else if top.keys.is_empty() && !arguments.attributes.is_empty() {
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
        text.push_str(&table::text(explanation, &format!("by the daemon at {}", arguments.daemon.at)));
    }
    text
}

/// The refusals that no attribute selects.
fn write_without_tenant(text: &mut String, without: &WithoutTenantBody) {
    let WithoutTenantBody { refusals, error, because, .. } = without;
    let counts = limits_in_words(&without.limits);
    let were = if *refusals == 1 { "refusal was" } else { "refusals were" };
    let refused = between(*refusals, *error);
    table::wrap(text, 0, &one_line(&format!("{refused} {were} of requests without a tenant: {counts}.")));
    table::wrap(text, 0, &one_line(&format!("No attribute selects them: {because}.")));
}

/// Refusals by limit, or by mechanism, class and resource.
fn limits_in_words(limits: &[LimitCountBody]) -> String {
    let words = limits.iter().map(|one| {
        let part = |word: &str, name: &Option<String>| {
            name.as_ref().map_or(String::new(), |name| format!(" {word} {name}"))
        };
        let (class, resource) = (part("of", &one.class), part("at", &one.resource));
        format!("{}{class}{resource} {}", one.limit, between(one.refusals, one.error))
    });
    words.collect::<Vec<_>>().join(", ")
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
        let tenant = match row.tenant.as_deref() {
            None => "(no tenant)",
            Some("") => "\"\"",
            Some(tenant) => tenant,
        };
        columns.push([
            row.namespace.clone(),
            tenant.to_owned(),
            between(row.refusals, row.error),
            format!("{:.1}", row.rate_per_s),
            format!("{} ago", HumanDuration::from_millis(row.last_seen_ms)),
            limits_in_words(&row.limits),
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

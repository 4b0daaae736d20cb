//! `tidegate override`.

use std::collections::BTreeMap;

use http::Method;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::arguments::operator_commands::{
    LimitKeys, NamespaceFilter, Override, OverrideAction, RemoveOverride, SetOverride,
};
use crate::arguments::request::{Attribute, whole_millis};
use crate::client::{self, ClientError, print, target, wait_for};
use crate::columns::{Columns, one_line};
use crate::exit::Exit;

/// The part of `GET /v1/overrides` that is shown.
#[derive(Deserialize)]
struct OverridesShown {
    overrides: Vec<OverrideShown>,
}

/// The part of an override that is shown.
#[derive(Deserialize)]
struct OverrideShown {
    namespace: String,
    limit: String,
    when: BTreeMap<String, String>,
    numbers: String,
    state: String,
    #[serde(default)]
    until: Option<String>,
    reason: String,
    by: String,
}

pub(crate) fn run(arguments: &Override) -> Exit {
    let (answer, past) = match &arguments.action {
        OverrideAction::Set(set) => (wait_for(send_set(set)), "set"),
        OverrideAction::Remove(remove) => (wait_for(send_removal(remove)), "removed"),
        OverrideAction::List(list) => {
            return print(arguments.json, wait_for(ask_list(list)), table);
        }
    };
    print(arguments.json, answer, |answer| match OverrideShown::deserialize(answer) {
        Ok(one) => {
            let until = one.until.as_ref().map_or(String::new(), |until| format!(" until {until}"));
            let (limit, namespace, when) = (one_line(&one.limit), one_line(&one.namespace), one.when());
            format!("The override of {limit} in {namespace} for {when} is {past}: {}{until}.\n", one.numbers)
        }
        Err(_) => format!("The override is {past}.\n"),
    })
}

impl OverrideShown {
    fn when(&self) -> String {
        let pairs = self.when.iter().map(|(name, value)| one_line(&format!("{name}={value}")));
        pairs.collect::<Vec<_>>().join(", ")
    }
}

/// The address of an override.
fn address(keys: &LimitKeys) -> Result<String, ClientError> {
    if keys.attributes.is_empty() {
        let why =
            "an override is for some keys: name at least one attribute of the limit's key, as in user=ada";
        return Err(ClientError::Untaken(why.to_owned()));
    }
    let path = format!("/v1/overrides/{}/{}", client::encoded(&keys.namespace), client::encoded(&keys.limit));
    let pairs = keys.attributes.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    Ok(target(&path, &pairs.collect::<Vec<_>>()))
}

async fn send_set(set: &SetOverride) -> Result<Value, ClientError> {
    let numbers = numbers(&set.numbers);
    let mut body = json!({ "numbers": numbers, "reason": set.reason, "by": set.by });
    client::set_member(&mut body, "expires_ms", set.span.map(whole_millis));
    client::operate(&set.keys.daemon, Method::PUT, &address(&set.keys)?, body).await
}

async fn send_removal(remove: &RemoveOverride) -> Result<Value, ClientError> {
    let body = json!({ "reason": remove.reason, "by": remove.by });
    client::operate(&remove.keys.daemon, Method::DELETE, &address(&remove.keys)?, body).await
}

/// Numbers as the API takes them: whole numbers as numbers, the rest as the words of the policy.
fn numbers(pairs: &[Attribute]) -> Value {
    let value = |text: &str| text.parse::<u64>().map_or_else(|_| Value::from(text), Value::from);
    Value::Object(pairs.iter().map(|(name, text)| (name.clone(), value(text))).collect())
}

async fn ask_list(filter: &NamespaceFilter) -> Result<Value, ClientError> {
    client::get(&filter.daemon, &target("/v1/overrides", filter.query().as_slice())).await
}

fn table(answer: &Value) -> String {
    let all = OverridesShown::deserialize(answer).map_or_else(|_| Vec::new(), |shown| shown.overrides);
    if all.is_empty() {
        return "No override is set.\n".to_owned();
    }
    let mut columns =
        Columns::new(["NAMESPACE", "LIMIT", "KEYS", "NUMBERS", "STATE", "UNTIL", "BY", "REASON"]);
    for one in all {
        let when = one.when();
        columns.push([
            one.namespace,
            one.limit,
            when,
            one.numbers,
            one.state,
            one.until.unwrap_or_else(|| "removed".to_owned()),
            one.by,
            one.reason,
        ]);
    }
    columns.text()
}

//! `tidegate block`.

use core::time::Duration;
use std::fmt::Write as _;

use http::Method;
use serde_json::{Value, json};
use tidegate_wire::blocks::BlocksBody;
use tidegate_wire::display::HumanDuration;

use crate::arguments::operator_commands::{Block, BlockAction, LimitKeys, ListBlocks};
use crate::client::{self, ClientError, object, print, target, wait_for};
use crate::columns::{Columns, one_line};
use crate::exit::Exit;

pub(crate) fn run(arguments: &Block) -> Exit {
    let (keys, span) = match &arguments.action {
        BlockAction::Set(set) => (&set.keys, set.span),
        BlockAction::Remove(keys) => (keys, Duration::ZERO),
        BlockAction::List(list) => return print(arguments.json, wait_for(ask_list(list)), table),
    };
    print(arguments.json, wait_for(send(keys, span)), |answer| {
        let pairs = keys.attributes.iter().map(|(name, value)| format!("{name}={value}"));
        let key = pairs.collect::<Vec<_>>().join(", ");
        let key = one_line(&if key.is_empty() { "The only key".to_owned() } else { key });
        if let Some(until) = answer["blocked_until"].as_str() {
            return format!("{key} is blocked under {} until {until}.\n", keys.limit);
        }
        let LimitKeys { namespace, limit, attributes, .. } = keys;
        let pairs = attributes.iter().map(|(name, value)| format!(" {name}={value}"));
        let pairs = one_line(&pairs.collect::<String>());
        format!(
            "{key} is not blocked under {limit}. What is used stays: where the limit is used up, the next request is \
             refused and may block the key again; `tidegate reset {namespace}{pairs} --limit {limit}` forgets it.\n"
        )
    })
}

async fn send(keys: &LimitKeys, span: Duration) -> Result<Value, ClientError> {
    let LimitKeys { namespace, limit, attributes, .. } = keys;
    let attributes = object(attributes)?;
    let millis = u64::try_from(span.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX);
    let body = json!({ "namespace": namespace, "limit": limit, "attributes": attributes, "for_ms": millis });
    client::operate(&keys.daemon, Method::POST, "/v1/block", body).await
}

async fn ask_list(list: &ListBlocks) -> Result<BlocksBody, ClientError> {
    let n = list.n.to_string();
    let keys: Vec<String> = list.attributes.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let mut query = vec![("n", n.as_str())];
    query.extend(list.namespace.iter().map(|namespace| ("namespace", namespace.as_str())));
    query.extend(list.limit.iter().map(|limit| ("limit", limit.as_str())));
    query.extend(keys.iter().map(|key| ("key", key.as_str())));
    client::get(&list.daemon, &target("/v1/blocks", &query)).await
}

fn table(body: &BlocksBody) -> String {
    if body.blocks.is_empty() {
        return "No key is blocked, as far as this daemon knows.\n".to_owned();
    }
    let mut columns = Columns::new(["NAMESPACE", "LIMIT", "KEY", ">ENDS IN", "UNTIL", "SET BY"]);
    for block in &body.blocks {
        let pairs = block.key.iter().map(|(name, value)| format!("{name}={value}"));
        columns.push([
            block.namespace.clone(),
            block.limit.clone(),
            pairs.collect::<Vec<_>>().join(", "),
            HumanDuration::from_millis(block.remaining_ms).to_string(),
            block.until.clone(),
            match block.why.as_str() {
                "operation" => "an operation".to_owned(),
                _ => "on_exceed, or another member".to_owned(),
            },
        ]);
    }
    let mut text = columns.text();
    if body.more > 0 {
        let _ = writeln!(
            text,
            "and {} more; list them with -n, or select with NAMESPACE, NAME=VALUE, --limit",
            body.more
        );
    }
    if body.unlisted > 0 {
        let _ = writeln!(text, "{} refusals were by blocks that there was no room to list.", body.unlisted);
    }
    text
}

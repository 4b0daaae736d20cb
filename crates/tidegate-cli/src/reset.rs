//! `tidegate reset`.

use http::Method;
use serde_json::{Map, Value};

use crate::arguments::operator_commands::Reset;
use crate::client::{self, ClientError, object, print, wait_for};
use crate::exit::Exit;

pub(crate) fn run(arguments: &Reset) -> Exit {
    print(arguments.json, wait_for(send(arguments)), |answer| match answer["counters"].as_u64() {
        Some(0) => "No counter was in use or blocked.\n".to_owned(),
        Some(1) => "1 counter was in use or blocked, and is reset.\n".to_owned(),
        counters => format!("{} counters were in use or blocked, and are reset.\n", counters.unwrap_or(0)),
    })
}

async fn send(arguments: &Reset) -> Result<Value, ClientError> {
    let mut body = Map::new();
    body.insert("namespace".to_owned(), arguments.namespace.as_str().into());
    body.insert("attributes".to_owned(), object(&arguments.attributes)?);
    if let Some(limit) = &arguments.limit {
        body.insert("limit".to_owned(), limit.as_str().into());
    }
    client::operate(&arguments.daemon, Method::POST, "/v1/reset", body).await
}

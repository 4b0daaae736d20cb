//! The HTTP API, as a caller.

use core::num::NonZeroU64;

use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HOST, USER_AGENT};
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use tidegate_wire::explanation::ExplanationBody;
use tidegate_wire::text::shortened;

use super::answer::{CheckAnswer, no_daemon};
use super::connection::{ANSWER_BYTES_MAX, connect, naming, within_deadline};
use super::error::ClientError;
use super::token::token;
use crate::address::Protocol;
use crate::arguments::request::{
    AccessArguments, Attribute, CheckOptions, Daemon, ExplainedRequest, LoadTarget, Question, whole_millis,
    word,
};
use crate::limits::shown::LimitsShown;

/// The body of a check.
fn body_of(question: &Question) -> Value {
    let attributes: Map<String, Value> =
        question.attributes.iter().map(|(name, value)| (name.clone(), value.as_str().into())).collect();
    let mut body = json!({ "namespace": question.namespace, "attributes": attributes });
    set_member(&mut body, "cost", question.cost.map(NonZeroU64::get));
    let AccessArguments { table, key, kind, size } = &question.access;
    let access = table.as_ref().zip(key.as_ref());
    let access =
        access.map(|(table, key)| json!({ "table": table, "key": key, "kind": word(*kind), "size": size }));
    set_member(&mut body, "access", access);
    body
}

/// Sets a member of a body, if there is a value for it.
pub(crate) fn set_member(body: &mut Value, name: &str, value: Option<impl Into<Value>>) {
    if let Some(value) = value {
        body[name] = value.into();
    }
}

pub(super) async fn check(
    daemon: &Daemon,
    question: &Question,
    options: &CheckOptions,
    token: Option<&str>,
) -> Result<CheckAnswer, ClientError> {
    let mut body = body_of(question);
    set_member(&mut body, "peek", options.peek.then_some(true));
    set_member(&mut body, "class", options.class.map(word));
    set_member(&mut body, "feature", options.feature.as_deref());
    set_member(&mut body, "resource", options.resource.as_deref());
    set_member(&mut body, "wait_ms", options.wait.map(whole_millis));
    let (status, answer) = send(daemon, Method::POST, "/v1/check", body, token).await?;
    CheckAnswer::read(status, &answer)
}

/// Asks what each limit is to a request.
pub(crate) async fn explain(
    daemon: &Daemon,
    question: &Question,
    target: &LoadTarget,
    request: ExplainedRequest<'_>,
) -> Result<ExplanationBody, ClientError> {
    let mut body = body_of(question);
    set_member(&mut body, "class", target.class.map(word));
    set_member(&mut body, "resource", target.resource.as_deref());
    set_member(&mut body, "feature", request.feature);
    set_member(&mut body, "tenant", request.tenant);
    set_member(&mut body, "door", request.door.map(word));
    set_member(&mut body, "ticket", request.ticket);
    set_member(&mut body, "wait_ms", request.wait.map(whole_millis));
    operate(daemon, Method::POST, "/v1/explain", body).await
}

/// The attributes that a namespace, or the rules of a domain, look at. Only an
/// operator is told.
pub(crate) async fn limit_attributes(daemon: &Daemon, namespace: &str) -> Result<Vec<String>, ClientError> {
    let limits: LimitsShown = operate(daemon, Method::GET, "/v1/limits", json!({})).await?;
    if let Some(domain) = limits.domains.into_iter().find(|known| known.name == namespace) {
        let entries = domain.rules.into_iter().flat_map(|rule| rule.entries);
        let keys: Vec<String> = entries.map(|(key, _)| key).collect();
        let has_pattern = keys.iter().any(|key| key.contains('*'));
        let unknown =
            || ClientError::Untaken(format!("domain \"{namespace}\" looks at more than is known by name"));
        return if has_pattern { Err(unknown()) } else { Ok(keys) };
    }
    let of = limits.namespaces.into_iter().find(|known| known.name == namespace);
    let of = of.filter(|known| !known.limits.is_empty());
    let unknown = || ClientError::Untaken(format!("namespace \"{namespace}\" has no limits"));
    of.map(|known| known.attributes.into_iter().collect()).ok_or_else(unknown)
}

/// Requests a target of the HTTP API.
pub(crate) async fn get<T: DeserializeOwned>(daemon: &Daemon, target: &str) -> Result<T, ClientError> {
    operate(daemon, Method::GET, target, json!({})).await
}

/// A path with its query.
pub(crate) fn target(path: &str, query: &[(&str, &str)]) -> String {
    let pairs = query.iter().map(|(name, value)| format!("{}={}", encoded(name), encoded(value)));
    let query: Vec<String> = pairs.collect();
    if query.is_empty() { path.to_owned() } else { format!("{path}?{}", query.join("&")) }
}

/// Text as a part of a path or query.
pub(crate) fn encoded(text: &str) -> String {
    utf8_percent_encode(text, NON_ALPHANUMERIC).to_string()
}

/// Attributes as an object, unless one is given twice: a choice between them would be a guess.
pub(crate) fn object(attributes: &[Attribute]) -> Result<Value, ClientError> {
    let mut object = Map::new();
    for (name, value) in attributes {
        if object.insert(name.clone(), value.as_str().into()).is_some() {
            return Err(ClientError::Untaken(format!("duplicate attribute \"{name}\"; give it once")));
        }
    }
    Ok(object.into())
}

/// Sends a request with this body to a route of the HTTP API, whose answer is JSON.
pub(crate) async fn operate<T: DeserializeOwned>(
    daemon: &Daemon,
    method: Method,
    path: &str,
    body: Value,
) -> Result<T, ClientError> {
    let answer = ask_bytes(daemon, method, path, body).await?;
    serde_json::from_slice(&answer).map_err(|_| naming(&daemon.at, no_daemon(StatusCode::OK)))
}

/// The body of an answer with status 200. It does not depend on what is in it, so that what sends
/// the request is compiled once.
async fn ask_bytes(daemon: &Daemon, method: Method, path: &str, body: Value) -> Result<Bytes, ClientError> {
    if daemon.at.protocol != Protocol::Http {
        let at = &daemon.at;
        let why = format!("{at} does not speak the HTTP API; name an http://, https:// or unix: listener");
        return Err(ClientError::Untaken(why));
    }
    within_deadline(&daemon.at, async {
        let token = token(daemon)?;
        let (status, answer) = send(daemon, method, path, body, token.as_deref()).await?;
        if status == StatusCode::OK {
            return Ok(answer);
        }
        let said: CheckAnswer = serde_json::from_slice(&answer).map_err(|_| no_daemon(status))?;
        Err(said.fault(status))
    })
    .await
}

async fn send(
    daemon: &Daemon,
    method: Method,
    path: &str,
    body: Value,
    token: Option<&str>,
) -> Result<(StatusCode, Bytes), ClientError> {
    let stream = TokioIo::new(connect(daemon).await?);
    let silent = |error: hyper::Error| {
        if error.is_parse() {
            return ClientError::OtherProtocol("what answers there is not HTTP".to_owned());
        }
        ClientError::silent(&error)
    };
    let (mut sender, connection) = http1::handshake(stream).await.map_err(silent)?;
    // The connection task ends when the sender is dropped.
    tokio::spawn(connection);
    let mut request = Request::builder()
        .method(method)
        .uri(path)
        .header(HOST, daemon.at.authority())
        .header(USER_AGENT, concat!("tidegate/", env!("CARGO_PKG_VERSION")))
        .header(CONTENT_TYPE, "application/json");
    if let Some(token) = token {
        request = request.header(AUTHORIZATION, format!("Bearer {token}"));
    }
    let body = Full::new(Bytes::from(body.to_string()));
    let request = request
        .body(body)
        .map_err(|error| ClientError::Untaken(shortened(&error.to_string(), 256).into()))?;
    let (head, body) = sender.send_request(request).await.map_err(silent)?.into_parts();
    let body = Limited::new(body, ANSWER_BYTES_MAX).collect().await;
    let body = body.map_err(|error| ClientError::Silent(format!("its answer cannot be read: {error}")))?;
    Ok((head.status, body.to_bytes()))
}

//! The HTTP API, as a caller.

use std::collections::BTreeMap;

use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HOST, USER_AGENT};
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use tidegate_wire::explanation::ExplanationBody;
use tidegate_wire::leases::{AcknowledgedBody, LeasesBody};
use tidegate_wire::text::shortened;

use super::{ANSWER_BYTES_MAX, Speaks, TOKEN, Terms, Unanswered, connect, token, within_deadline};
use crate::arguments::asking::{Attribute, Daemon, Question};

/// What a daemon says of a request: the body of an answer, of a refusal, or of a fault.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Said {
    pub(crate) decision: String,
    pub(crate) remaining: Option<u64>,
    pub(crate) limits: Vec<Left>,
    pub(crate) violated: Vec<Refusing>,
    pub(crate) permit: Option<String>,
    pub(crate) shadow: Vec<String>,
    pub(crate) reason: Option<String>,
    pub(crate) limit: Option<String>,
    pub(crate) scope: Option<BTreeMap<String, String>>,
    pub(crate) retry: Option<String>,
    pub(crate) retry_after_ms: Option<u64>,
    pub(crate) detail: Option<String>,
    pub(crate) error: Option<String>,
    pub(crate) fix: Option<String>,
}

/// What a limit has left.
#[derive(Debug, Deserialize, serde::Serialize)]
pub(crate) struct Left {
    pub(crate) name: String,
    pub(crate) limit: u64,
    pub(crate) remaining: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reset_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) window_end: Option<String>,
}

/// A limit that refused.
#[derive(Debug, Deserialize, serde::Serialize)]
pub(crate) struct Refusing {
    pub(crate) name: String,
    pub(crate) reason: String,
    pub(crate) limit: u64,
    pub(crate) remaining: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) retry_after_ms: Option<u64>,
}

impl Said {
    /// A body that decides; otherwise what was wrong with the question.
    pub(super) fn read(status: StatusCode, body: &[u8]) -> Result<Self, Unanswered> {
        let said: Self = serde_json::from_slice(body).map_err(|_| no_daemon(status))?;
        match said.decision.as_str() {
            "admit" | "refuse" => Ok(said),
            _ => Err(said.fault(status)),
        }
    }

    fn fault(self, status: StatusCode) -> Unanswered {
        let (Some(detail), Some(_)) = (self.detail, self.error) else { return no_daemon(status) };
        let why = match self.fix {
            _ if status == StatusCode::UNAUTHORIZED => {
                format!("{detail}; name a token with --token-file FILE or {TOKEN}")
            }
            Some(fix) => format!("{detail}; {fix}"),
            None => detail,
        };
        if status.is_server_error() { Unanswered::Silent(why) } else { Unanswered::Untaken(why) }
    }
}

fn no_daemon(status: StatusCode) -> Unanswered {
    Unanswered::Silent(format!("what answers there, with status {}, is no Tidegate", status.as_u16()))
}

/// The body of a check.
fn body_of(question: &Question) -> Map<String, Value> {
    let attributes: Map<String, Value> =
        question.attributes.iter().map(|(name, value)| (name.clone(), value.as_str().into())).collect();
    let mut body = Map::new();
    body.insert("namespace".to_owned(), question.namespace.as_str().into());
    body.insert("attributes".to_owned(), attributes.into());
    body.insert("cost".to_owned(), question.cost.get().into());
    body
}

pub(super) async fn check(
    daemon: &Daemon,
    question: &Question,
    terms: Terms,
    token: Option<&str>,
) -> Result<Said, Unanswered> {
    let mut body = body_of(question);
    if terms.peek {
        body.insert("peek".to_owned(), json!(true));
    }
    if let Some(class) = terms.class {
        body.insert("class".to_owned(), json!(class.as_str()));
    }
    let (status, answer) = send(daemon, Method::POST, "/v1/check", body, token).await?;
    Said::read(status, &answer)
}

/// Asks what each limit is to a request.
pub(crate) async fn explain(daemon: &Daemon, question: &Question) -> Result<ExplanationBody, Unanswered> {
    if daemon.at.speaks != Speaks::Http {
        let why = format!("{} explains nothing; name an http://, https:// or unix: listener", daemon.at);
        return Err(Unanswered::Untaken(why));
    }
    ask(daemon, Method::POST, "/v1/explain", body_of(question)).await
}

/// The limits of a daemon, as far as it is of use here.
#[derive(Debug, Deserialize)]
struct Limits {
    namespaces: Vec<NamespaceLimits>,
    /// The domains of files of envoyproxy/ratelimit.
    #[serde(default)]
    domains: Vec<DomainRules>,
}

#[derive(Debug, Deserialize)]
struct DomainRules {
    name: String,
    rules: Vec<RuleEntries>,
}

#[derive(Debug, Deserialize)]
struct RuleEntries {
    entries: Vec<(String, Option<String>)>,
}

#[derive(Debug, Deserialize)]
struct NamespaceLimits {
    name: String,
    limits: Vec<LimitAttributes>,
}

#[derive(Debug, Deserialize)]
struct LimitAttributes {
    key: Vec<String>,
    matches: Vec<String>,
}

/// The attributes that the limits of a namespace, or the rules of a domain, look at. Only an
/// operator is told.
pub(crate) async fn limit_attributes(daemon: &Daemon, namespace: &str) -> Result<Vec<String>, Unanswered> {
    let limits: Limits = ask(of_operators(daemon)?, Method::GET, "/v1/limits", Map::new()).await?;
    if let Some(domain) = limits.domains.into_iter().find(|known| known.name == namespace) {
        let entries = domain.rules.into_iter().flat_map(|rule| rule.entries);
        let keys: Vec<String> = entries.map(|(key, _)| key).collect();
        let has_pattern = keys.iter().any(|key| key.contains('*'));
        let unknown =
            || Unanswered::Untaken(format!("domain \"{namespace}\" looks at more than is known by name"));
        return if has_pattern { Err(unknown()) } else { Ok(keys) };
    }
    let of = limits.namespaces.into_iter().find(|known| known.name == namespace);
    let of = of.filter(|known| !known.limits.is_empty());
    let unknown = || Unanswered::Untaken(format!("namespace \"{namespace}\" has no limits"));
    Ok(of
        .ok_or_else(unknown)?
        .limits
        .into_iter()
        .flat_map(|limit| [limit.key, limit.matches].concat())
        .collect())
}

/// Who shares the daemon's store, and what each has been lent.
pub(crate) async fn leases(daemon: &Daemon) -> Result<LeasesBody, Unanswered> {
    ask(of_operators(daemon)?, Method::GET, "/v1/leases", Map::new()).await
}

/// Has the daemon go on after its store has lost its data.
pub(crate) async fn acknowledge(daemon: &Daemon) -> Result<AcknowledgedBody, Unanswered> {
    ask(of_operators(daemon)?, Method::POST, "/v1/leases/acknowledge", Map::new()).await
}

/// Asks for what is at this target.
pub(crate) async fn get<T: DeserializeOwned>(daemon: &Daemon, target: &str) -> Result<T, Unanswered> {
    operate(daemon, Method::GET, target, Map::new()).await
}

/// Does what a route of the HTTP API does with this body.
pub(crate) async fn operate<T: DeserializeOwned>(
    daemon: &Daemon,
    method: Method,
    target: &str,
    body: Map<String, Value>,
) -> Result<T, Unanswered> {
    ask(of_operators(daemon)?, method, target, body).await
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
pub(crate) fn object(attributes: &[Attribute]) -> Result<Value, Unanswered> {
    let mut object = Map::new();
    for (name, value) in attributes {
        if object.insert(name.clone(), value.as_str().into()).is_some() {
            return Err(Unanswered::Untaken(format!("duplicate attribute \"{name}\"; give it once")));
        }
    }
    Ok(object.into())
}

/// A daemon that is asked through its HTTP API.
fn of_operators(daemon: &Daemon) -> Result<&Daemon, Unanswered> {
    if daemon.at.speaks == Speaks::Http {
        return Ok(daemon);
    }
    let why =
        format!("{} does not speak the HTTP API; name an http://, https:// or unix: listener", daemon.at);
    Err(Unanswered::Untaken(why))
}

/// Asks for something that is described in JSON.
async fn ask<T: DeserializeOwned>(
    daemon: &Daemon,
    method: Method,
    path: &str,
    body: Map<String, Value>,
) -> Result<T, Unanswered> {
    within_deadline(&daemon.at, async {
        let token = token(daemon)?;
        let (status, answer) = send(daemon, method, path, body, token.as_deref()).await?;
        if status == StatusCode::OK {
            return serde_json::from_slice(&answer).map_err(|_| no_daemon(status));
        }
        let said: Said = serde_json::from_slice(&answer).map_err(|_| no_daemon(status))?;
        Err(said.fault(status))
    })
    .await
}

async fn send(
    daemon: &Daemon,
    method: Method,
    path: &str,
    body: Map<String, Value>,
    token: Option<&str>,
) -> Result<(StatusCode, Bytes), Unanswered> {
    let stream = TokioIo::new(connect(daemon).await?);
    let silent = |error: hyper::Error| Unanswered::silent(&error);
    let (mut sender, connection) = http1::handshake(stream).await.map_err(silent)?;
    // It ends with the sender.
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
    let body = Full::new(Bytes::from(Value::Object(body).to_string()));
    let request =
        request.body(body).map_err(|error| Unanswered::Untaken(shortened(&error.to_string(), 256).into()))?;
    let (head, body) = sender.send_request(request).await.map_err(silent)?.into_parts();
    let body = Limited::new(body, ANSWER_BYTES_MAX).collect().await;
    let body = body.map_err(|error| Unanswered::Silent(format!("its answer cannot be read: {error}")))?;
    Ok((head.status, body.to_bytes()))
}

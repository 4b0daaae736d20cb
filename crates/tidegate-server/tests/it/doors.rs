//! A daemon and the ways to ask it: its protocols, and a layer of tower over the same engine.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Map, Value, json};
use tidegate_engine::Engine;
use tidegate_server::{Clock, Handle, ManualClock, Server, from_policy};
use tidegate_tower::{AdmitLayer, FeatureLevel, extract};
use tidegate_wire::envoy::{Code, RateLimitResponse, RateLimitUnit, metadata};
use tokio::net::TcpStream;
use tower::{Layer, ServiceExt, service_fn};

use crate::client::{Answer, Client};
use crate::grpc::{Envoy, descriptor, request, under};
use crate::proxy::upstream::{Seen, well};
use crate::resp;
use crate::world::{START, memory_store};

/// The ways to ask: the protocols of a daemon, and a layer of tower over the same engine.
pub(crate) const DOORS: [&str; 11] = [
    "check",
    "reserve",
    "authorize",
    "rls",
    "rls of two",
    "rls override",
    "rls override of two",
    "json",
    "resp",
    "proxy",
    "tower",
];

pub(crate) struct Daemon {
    pub(crate) handle: Handle,
    pub(crate) engine: Arc<Engine>,
    pub(crate) clock: Arc<ManualClock>,
    /// The requests that the server behind the proxy has received.
    pub(crate) upstream: Seen,
}

/// A request of the namespace `shop`, as each door takes it.
pub(crate) struct DoorRequest<'a> {
    /// The body of `/v1/check` and `/v1/reserve`.
    pub(crate) body: Value,
    /// The names and values of a query, of a descriptor and of a command.
    pub(crate) words: Vec<(&'a str, &'a str)>,
    /// The resource of the layer of tower.
    pub(crate) resource: &'a str,
    /// The path at the proxy.
    pub(crate) path: &'a str,
    /// The headers at the proxy and at the layer of tower.
    pub(crate) headers: Vec<(&'a str, &'a str)>,
}

/// The answer of a door, by the means of its protocol.
#[derive(Debug)]
pub(crate) struct DoorAnswer {
    pub(crate) is_admitted: bool,
    /// The status, where a refusal has one of its own.
    pub(crate) status: Option<u16>,
    pub(crate) reason: Option<String>,
    /// The wait of a refusal, in seconds rounded up.
    pub(crate) retry_seconds: Option<u64>,
    /// The headers, where the protocol has any.
    headers: Vec<(String, String)>,
    /// The members of the body, of the metadata or of the reply.
    members: Value,
}

impl Daemon {
    /// A daemon of this policy, in which `SERVER` stands for a server behind the proxy.
    pub(crate) async fn before_server(text: &str) -> Self {
        let (server, upstream) = well().await;
        Self { upstream, ..Self::with_policy(&text.replace("SERVER", &server.to_string())).await }
    }

    /// A daemon of this policy.
    pub(crate) async fn with_policy(text: &str) -> Self {
        let checked = tidegate_policy::parse("policy.yaml", text, &|_| None);
        let policy = checked.unwrap_or_else(|problems| panic!("{problems}")).policy;
        let mut config = from_policy::server_config(&policy).unwrap();
        config.bounds.drain_grace = Duration::ZERO;
        let clock = Arc::new(ManualClock::new(START));
        let engine = Arc::new(from_policy::engine(&policy, [1, 2, 3, 4], START).unwrap());
        let (store, time) = (memory_store(&clock), Arc::clone(&clock) as Arc<dyn Clock>);
        let handle = Server::start(config, Arc::clone(&engine), store, time).await.unwrap();
        Self { handle, engine, clock, upstream: Seen::default() }
    }

    pub(crate) fn http(&self) -> SocketAddr {
        self.handle.http().unwrap().tcp().unwrap()
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Answer {
        Client::connect(self.http()).await.post(path, &body.to_string()).await
    }

    /// Sends a request with these header lines through the proxy.
    pub(crate) async fn through(&self, path: &str, headers: &str) -> Answer {
        let mut client = Client::connect(self.handle.proxy().unwrap().tcp().unwrap()).await;
        client.send(format!("GET {path} HTTP/1.1\r\nhost: a\r\n{headers}\r\n")).await;
        client.answer().await.expect("an answer")
    }

    pub(crate) async fn ask_door(&self, door: &str, asked: &DoorRequest<'_>) -> DoorAnswer {
        let words = &asked.words;
        match door {
            "check" | "reserve" => {
                DoorAnswer::from_http(&self.post(&format!("/v1/{door}"), &asked.body).await)
            }
            "authorize" => {
                let word = |(name, value): &(&str, &str)| {
                    format!("&{name}={}", utf8_percent_encode(value, NON_ALPHANUMERIC))
                };
                let words: String = words.iter().map(word).collect();
                let target = format!("/v1/authorize?namespace=shop{words}");
                let answer = Client::connect(self.http()).await.get(&target).await;
                let reason = answer.header("x-tidegate-reason").map(str::to_owned);
                DoorAnswer { reason, ..DoorAnswer::from_http(&answer) }
            }
            "rls" | "rls of two" | "rls override" | "rls override of two" => {
                let own = |asked| under(100_000, RateLimitUnit::Second, asked);
                let (asked, other) = (descriptor(words), descriptor(&[("user", "ada")]));
                let asked = match door {
                    "rls" => vec![asked],
                    "rls of two" => vec![asked, other],
                    "rls override" => vec![own(asked)],
                    _ => vec![own(other), own(asked)],
                };
                let address = self.handle.grpc().unwrap().tcp().unwrap();
                let answer = Envoy::at(address).await.call(request("shop", &asked)).await.unwrap();
                DoorAnswer::from_envoy(&answer)
            }
            "json" => {
                let entry = |(key, value): &(&str, &str)| json!({ "key": key, "value": value });
                let entries: Vec<Value> = words.iter().map(entry).collect();
                let body = json!({ "domain": "shop", "descriptors": [{ "entries": entries }] });
                DoorAnswer::from_envoy_json(&self.post("/json", &body).await)
            }
            "resp" => {
                let address = self.handle.resp().unwrap().tcp().unwrap();
                let mut client = resp::Client::over(TcpStream::connect(address).await.unwrap());
                let words = words.iter().flat_map(|(name, value)| [*name, *value]);
                let words: Vec<&str> = ["TG.CHECK", "shop"].into_iter().chain(words).collect();
                DoorAnswer::from_resp(&client.ask_for(&words).await)
            }
            "proxy" => {
                let line = |(name, value): &(&str, &str)| format!("{name}: {value}\r\n");
                let headers: String = asked.headers.iter().map(line).collect();
                DoorAnswer::from_http(&self.through(asked.path, &headers).await)
            }
            _ => self.through_tower(asked).await,
        }
    }

    async fn through_tower(&self, asked: &DoorRequest<'_>) -> DoorAnswer {
        let layer = AdmitLayer::new(Arc::clone(&self.engine), "shop").unwrap();
        let layer = layer.resource(asked.resource).unwrap();
        let layer = layer.tenant(extract::header("x-tenant")).feature(extract::header("x-feature"));
        let layer = layer.clock(Arc::clone(&self.clock) as Arc<dyn Clock>);
        // The service answers with the level of the feature that it finds.
        let service = layer.layer(service_fn(async |request: http::Request<()>| {
            let level = request.extensions().get::<FeatureLevel>();
            let members =
                level.map(|level| json!({ "feature": level.feature(), "feature_level": level.name() }));
            let body = members.unwrap_or_else(|| json!({})).to_string();
            Ok::<_, Infallible>(http::Response::new(Full::new(Bytes::from(body))))
        }));
        let mut request = http::Request::builder();
        for (name, value) in &asked.headers {
            request = request.header(*name, *value);
        }
        let (head, body) = service.oneshot(request.body(()).unwrap()).await.unwrap().into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        let headers = head.headers.iter();
        let headers = headers.map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned()));
        let body = String::from_utf8(body.to_vec()).unwrap();
        DoorAnswer::from_http(&Answer { status: head.status.as_u16(), headers: headers.collect(), body })
    }
}

impl DoorAnswer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn member(&self, name: &str) -> Option<&str> {
        self.members[name].as_str()
    }

    pub(crate) fn from_http(answer: &Answer) -> Self {
        let members = serde_json::from_str(&answer.body).unwrap_or_default();
        let is_admitted = answer.status == 200;
        Self { status: Some(answer.status), ..Self::new(is_admitted, answer.headers.clone(), members) }
    }

    pub(crate) fn from_envoy(answer: &RateLimitResponse) -> Self {
        let headers = &answer.response_headers_to_add;
        let headers = headers.iter().map(|header| (header.key.clone(), header.value.clone()));
        let members = answer.dynamic_metadata.as_ref().map(metadata::json).unwrap_or_default();
        Self::new(answer.overall_code() == Code::Ok, headers.collect(), members)
    }

    fn from_envoy_json(answer: &Answer) -> Self {
        let mut body = answer.json();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let headers = body["responseHeadersToAdd"].as_array().into_iter().flatten();
        let headers = headers.map(|header| (text(&header["key"]), text(&header["value"])));
        let headers = headers.collect();
        Self::new(answer.status == 200, headers, body["dynamicMetadata"].take())
    }

    /// The reply is a list of names and values. A name may also be a value, so the last occurrence
    /// counts.
    fn from_resp(reply: &str) -> Self {
        let parts: Vec<&str> = reply.trim_matches(['[', ']', '{', '}']).split(", ").collect();
        let pairs = parts.windows(2).map(|pair| (pair[0].to_owned(), Value::from(pair[1])));
        let members = Value::Object(pairs.collect::<Map<_, _>>());
        let millis = members["retry_after_ms"].as_str().map(|millis| millis.parse::<u64>().unwrap());
        let retry_seconds = millis.map(|millis| millis.div_ceil(1000));
        let is_admitted = members["decision"] == "admit";
        Self { retry_seconds, ..Self::new(is_admitted, Vec::new(), members) }
    }

    fn new(is_admitted: bool, headers: Vec<(String, String)>, members: Value) -> Self {
        let reason = members["reason"].as_str().map(str::to_owned);
        let mut answer = Self { is_admitted, status: None, reason, retry_seconds: None, headers, members };
        answer.retry_seconds = answer.header("retry-after").map(|seconds| seconds.parse().unwrap());
        answer
    }
}

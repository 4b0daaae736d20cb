//! Deferral through every protocol: the ticket that a refused request gets, and what becomes of a
//! request that comes back with it.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};
use tidegate_core::Timestamp;
use tidegate_engine::{Cursor, Engine, Event, TicketKeys};
use tidegate_overload::TicketIssuer;
use tidegate_server::{Clock, Handle, ManualClock, Server, from_policy};
use tidegate_tower::{AdmitLayer, extract};
use tidegate_wire::envoy::{Code, RateLimitUnit, metadata};
use tokio::net::TcpStream;
use tower::{Layer, ServiceExt, service_fn};

use crate::client::{Answer, Client};
use crate::grpc::{Envoy, descriptor, request, under};
use crate::proxy::upstream::{Seen, well};
use crate::resp;
use crate::world::{START, memory_store};

const POLICY: &str = r#"
store: { kind: memory }
listen: { http: 127.0.0.1:0, grpc: 127.0.0.1:0, resp: 127.0.0.1:0, proxy: 127.0.0.1:0 }
namespaces:
  shop: { limits: [{ name: all, rate: 100000/s }] }
resources:
  app: { concurrency: 1000, defer: { classes: [sheddable_plus], share: 0.5 } }
proxy:
  upstreams: { app: ["http://SERVER"] }
  routes:
    - { upstream: app, namespace: shop, attributes: { who: header.x-tenant }, tenant: who }
"#;

/// The ways to ask: the protocols of a daemon, and a layer of tower over the same engine.
const DOORS: [&str; 9] =
    ["check", "reserve", "authorize", "rls", "rls override", "json", "resp", "proxy", "tower"];

/// The states of a ticket, and what a request with it meets while the cursor sheds all others of
/// its class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    None,
    Early,
    Due,
    Spent,
    Expired,
    OfAnotherTenant,
    Cut,
    Nonsense,
}

struct Daemon {
    handle: Handle,
    engine: Arc<Engine>,
    clock: Arc<ManualClock>,
    upstream: Seen,
}

/// The answer of a door.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Told {
    is_admitted: bool,
    status: Option<u16>,
    reason: Option<String>,
    /// The ticket of the header, and that of the body or the metadata.
    header: Option<String>,
    member: Option<String>,
    not_before: Option<String>,
    retry_seconds: Option<u64>,
}

impl Told {
    fn ticket(&self) -> &str {
        self.header.as_deref().or(self.member.as_deref()).expect("a ticket")
    }
}

fn member(object: &Value, name: &str) -> Option<String> {
    object[name].as_str().map(str::to_owned)
}

impl Daemon {
    async fn start() -> Self {
        let (server, upstream) = well().await;
        let text = POLICY.replace("SERVER", &server.to_string());
        let checked = tidegate_policy::parse("policy.yaml", &text, &|_| None);
        let policy = checked.unwrap_or_else(|problems| panic!("{problems}")).policy;
        let mut config = from_policy::server_config(&policy).unwrap();
        config.bounds.drain_grace = Duration::ZERO;
        let clock = Arc::new(ManualClock::new(START));
        let engine = Arc::new(from_policy::engine(&policy, [1, 2, 3, 4], START).unwrap());
        let (store, time) = (memory_store(&clock), Arc::clone(&clock) as Arc<dyn Clock>);
        let handle = Server::start(config, Arc::clone(&engine), store, time).await.unwrap();
        engine.set_ticket_keys(Some(TicketKeys::new(&[7; 32]).unwrap()));
        engine.set_ticket_issuer(TicketIssuer { member: 1, start: 1 });
        Self { handle, engine, clock, upstream }
    }

    fn http(&self) -> SocketAddr {
        self.handle.http().unwrap().tcp().unwrap()
    }

    /// Lets nothing but the highest class pass from now on.
    fn close(&self) {
        let now = self.clock.now();
        let until = now.saturating_add(Duration::from_hours(1));
        let pin = Event::Pin { resource: Some("app"), level: Some(Cursor::CLOSED.level()), until };
        self.engine.event(pin, now).unwrap();
    }

    fn open(&self) {
        let now = self.clock.now();
        self.engine.event(Event::Pin { resource: Some("app"), level: None, until: now }, now).unwrap();
    }

    fn counts(&self) -> tidegate_overload::DeferralCounts {
        self.engine.resource_stats(self.clock.now()).find_map(|one| one.deferral).unwrap().counts
    }

    async fn ask(&self, door: &str, tenant: &str, ticket: Option<&str>) -> Told {
        let words: Vec<(&str, &str)> =
            [("user", Some("ada")), ("tenant", Some(tenant)), ("ticket", ticket), ("resource", Some("app"))]
                .into_iter()
                .filter_map(|(name, value)| Some((name, value?)))
                .collect();
        match door {
            "check" | "reserve" => {
                let body = json!({
                    "namespace": "shop", "attributes": { "tenant": tenant }, "resource": "app", "ticket": ticket,
                });
                let mut client = Client::connect(self.http()).await;
                Self::of_http(&client.post(&format!("/v1/{door}"), &body.to_string()).await)
            }
            "authorize" => {
                let word = |(name, value): &(&str, &str)| {
                    format!("&{name}={}", utf8_percent_encode(value, NON_ALPHANUMERIC))
                };
                let words: String = words.iter().map(word).collect();
                let target = format!("/v1/authorize?namespace=shop{words}");
                let answer = Client::connect(self.http()).await.get(&target).await;
                let reason = answer.header("x-tidegate-reason").map(str::to_owned);
                Told { reason, ..Self::of_http(&answer) }
            }
            "rls" | "rls override" => {
                let asked = descriptor(&words);
                let own = door == "rls override";
                let asked = if own { under(100_000, RateLimitUnit::Second, asked) } else { asked };
                let address = self.handle.grpc().unwrap().tcp().unwrap();
                let answer = Envoy::at(address).await.call(request("shop", &[asked])).await.unwrap();
                let header = |name: &str| {
                    let found = answer.response_headers_to_add.iter().find(|header| header.key == name);
                    found.map(|header| header.value.clone())
                };
                let fields = answer.dynamic_metadata.as_ref().map(metadata::json).unwrap_or_default();
                Told {
                    is_admitted: answer.overall_code() == Code::Ok,
                    status: None,
                    reason: member(&fields, "reason"),
                    header: header("tidegate-ticket"),
                    member: member(&fields, "ticket"),
                    not_before: member(&fields, "not_before"),
                    retry_seconds: header("retry-after").map(|seconds| seconds.parse().unwrap()),
                }
            }
            "json" => {
                let entry = |(key, value): &(&str, &str)| json!({ "key": key, "value": value });
                let entries: Vec<Value> = words.iter().map(entry).collect();
                let body = json!({ "domain": "shop", "descriptors": [{ "entries": entries }] });
                let answer = Client::connect(self.http()).await.post("/json", &body.to_string()).await;
                let body = answer.json();
                let header = |name: &str| {
                    let headers = body["responseHeadersToAdd"].as_array()?;
                    let found = headers.iter().find(|header| header["key"] == name)?;
                    Some(found["value"].as_str().unwrap().to_owned())
                };
                let fields = &body["dynamicMetadata"];
                Told {
                    is_admitted: answer.status == 200,
                    status: None,
                    reason: member(fields, "reason"),
                    header: header("tidegate-ticket"),
                    member: member(fields, "ticket"),
                    not_before: member(fields, "not_before"),
                    retry_seconds: header("retry-after").map(|seconds| seconds.parse().unwrap()),
                }
            }
            "resp" => {
                let address = self.handle.resp().unwrap().tcp().unwrap();
                let mut client = resp::Client::over(TcpStream::connect(address).await.unwrap());
                let words = words.iter().flat_map(|(name, value)| [*name, *value]);
                let words: Vec<&str> = ["TG.CHECK", "shop"].into_iter().chain(words).collect();
                let reply = client.ask_for(&words).await;
                let parts: Vec<&str> = reply.trim_matches(['[', ']', '{', '}']).split(", ").collect();
                let value = |name: &str| {
                    let at = parts.iter().rposition(|part| *part == name)?;
                    Some(parts[at + 1].to_owned())
                };
                let millis = value("retry_after_ms").map(|millis| millis.parse::<u64>().unwrap());
                Told {
                    is_admitted: value("decision").as_deref() == Some("admit"),
                    status: None,
                    reason: value("reason"),
                    header: None,
                    member: value("ticket"),
                    not_before: value("not_before"),
                    retry_seconds: millis.map(|millis| millis.div_ceil(1000)),
                }
            }
            "proxy" => {
                let header = ticket.map_or(String::new(), |ticket| format!("tidegate-ticket: {ticket}\r\n"));
                let mut client = Client::connect(self.handle.proxy().unwrap().tcp().unwrap()).await;
                let head = format!("GET / HTTP/1.1\r\nhost: a\r\nx-tenant: {tenant}\r\n{header}\r\n");
                client.send(head).await;
                Self::of_http(&client.answer().await.expect("an answer"))
            }
            _ => self.through_tower(tenant, ticket).await,
        }
    }

    async fn through_tower(&self, tenant: &str, ticket: Option<&str>) -> Told {
        let layer = AdmitLayer::new(Arc::clone(&self.engine), "shop").unwrap();
        let layer = layer.resource("app").unwrap().tenant(extract::header("x-tenant"));
        let layer = layer.clock(Arc::clone(&self.clock) as Arc<dyn Clock>);
        let service = layer.layer(service_fn(async |_: http::Request<()>| {
            Ok::<_, Infallible>(http::Response::new(Full::new(Bytes::new())))
        }));
        let mut request = http::Request::builder().header("x-tenant", tenant);
        if let Some(ticket) = ticket {
            request = request.header("tidegate-ticket", ticket);
        }
        let (head, body) = service.oneshot(request.body(()).unwrap()).await.unwrap().into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        let headers = head.headers.iter();
        let headers = headers.map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned()));
        let body = String::from_utf8(body.to_vec()).unwrap();
        Self::of_http(&Answer { status: head.status.as_u16(), headers: headers.collect(), body })
    }

    fn of_http(answer: &Answer) -> Told {
        let body: Value = serde_json::from_str(&answer.body).unwrap_or_default();
        Told {
            is_admitted: answer.status == 200,
            status: Some(answer.status),
            reason: member(&body, "reason"),
            header: answer.header("tidegate-ticket").map(str::to_owned),
            member: member(&body, "ticket"),
            not_before: member(&body, "not_before"),
            retry_seconds: answer.header("retry-after").map(|seconds| seconds.parse().unwrap()),
        }
    }
}

/// The instant of a text as `2027-01-15T08:00:01.25Z`, of the day of [`START`].
fn instant(text: &str) -> Timestamp {
    let (day, time) = text.strip_suffix('Z').unwrap().split_once('T').unwrap();
    let midnight = START.as_secs() / 86_400 * 86_400;
    assert!(Timestamp::from_secs(midnight).to_string().starts_with(day), "{text} is of another day");
    let parts: Vec<f64> = time.split(':').map(|part| part.parse().unwrap()).collect();
    let seconds = parts.iter().fold(0.0, |sum, part| sum * 60.0 + part);
    Timestamp::from_secs(midnight).saturating_add(Duration::from_secs_f64(seconds))
}

/// The decision table: doors and states of a ticket.
#[tokio::test]
async fn every_door_defers_and_takes_the_ticket_back_in_its_time_only() {
    use State::{Cut, Due, Early, Expired, None as Without, Nonsense, OfAnotherTenant, Spent};
    let daemon = Daemon::start().await;
    for door in DOORS {
        for state in [Without, Early, Due, Spent, Expired, OfAnotherTenant, Cut, Nonsense] {
            let what = format!("{door}, {state:?}");
            daemon.close();
            let first = daemon.ask(door, "ada", None).await;
            assert!(!first.is_admitted, "{what}: {first:?}");
            assert_eq!(first.reason.as_deref(), Some("deferred"), "{what}: {first:?}");
            assert!(first.status.is_none_or(|status| status == 503), "{what}: {first:?}");
            let ticket = first.ticket().to_owned();
            assert!((100..=256).contains(&ticket.len()), "{what}: {first:?}");
            assert_eq!(first.header.is_some(), door != "resp", "{what}: {first:?}");
            assert_eq!(first.member.is_some(), door != "authorize", "{what}: {first:?}");
            // The wait is rounded up to whole seconds, never below what is promised.
            let waits = first.retry_seconds.expect("a wait");
            let mut due = daemon.clock.now().saturating_add(Duration::from_secs(waits));
            if let Some(not_before) = &first.not_before {
                let not_before = instant(not_before);
                assert!(not_before > daemon.clock.now() && not_before <= due, "{what}: {first:?}");
                due = not_before.max(due);
            }
            let (tenant, shown, at) = match state {
                Without => ("ada", String::new(), due),
                Early => ("ada", ticket.clone(), daemon.clock.now()),
                Due | Spent => ("ada", ticket.clone(), due),
                Expired => ("ada", ticket.clone(), due.saturating_add(Duration::from_secs(7))),
                OfAnotherTenant => ("eve", ticket.clone(), due),
                Cut => ("ada", ticket[..100].to_owned(), due),
                Nonsense => ("ada", "nonsense".to_owned(), due),
            };
            daemon.clock.set(at.max(daemon.clock.now()));
            let shown = Some(shown).filter(|shown| !shown.is_empty());
            if state == Spent {
                let once = daemon.ask(door, tenant, shown.as_deref()).await;
                assert!(once.is_admitted, "{what}: {once:?}");
            }
            let before = daemon.counts();
            let again = daemon.ask(door, tenant, shown.as_deref()).await;
            let counts = daemon.counts();
            match state {
                Due => {
                    assert!(again.is_admitted, "{what}: {again:?}");
                    assert_eq!(counts.redeemed, before.redeemed + 1, "{what}");
                }
                Early => {
                    assert_eq!(again.ticket(), ticket, "{what}");
                    assert_eq!(again.reason.as_deref(), Some("deferred"), "{what}");
                    assert_eq!((counts.early, counts.sold), (before.early + 1, before.sold), "{what}");
                }
                _ => {
                    assert_eq!(again.reason.as_deref(), Some("deferred"), "{what}: {again:?}");
                    assert_ne!(again.ticket(), ticket, "{what}");
                    assert_eq!(counts.sold, before.sold + 1, "{what}");
                }
            }
            assert_eq!(counts.replayed, before.replayed + u64::from(state == Spent), "{what}");
            assert_eq!(counts.expired, before.expired + u64::from(state == Expired), "{what}");
            daemon.open();
            daemon.clock.advance(Duration::from_secs(30));
            drop(daemon.engine.tick(daemon.clock.now()));
        }
    }
    // The upstream of the proxy sees no ticket.
    let seen = daemon.upstream.lock().unwrap();
    assert!(!seen.is_empty() && seen.iter().all(|head| !head.contains("ticket")), "{seen:?}");
}

//! The claims of requests through every protocol: class and its bounds, tenant,
//! attempt, deadline, and the access to a table. The decision log shows the class that counted.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};
use tidegate_server::{Handle, ManualClock, from_policy};
use tidegate_test_support::{TemporaryFolder, eventually};
use tokio::net::TcpStream;

use crate::authorization::{bearer, request as send};
use crate::client::{Answer, Client};
use crate::grpc::{Envoy, descriptor, request};
use crate::proxy::upstream::well;
use crate::resp;
use crate::world::START;

const POLICY: &str = "
namespaces:
  shop:
    limits: [{ name: all, key: [account], rate: 1000/s }]
    tables: [{ name: orders, provisioned: { read: 4, write: 4 } }]
    request:
      tenant: entry.account
      class: { from: entry.class, default: sheddable_plus, ceiling: critical }
      tenants: { gold: critical_plus, batch: sheddable }
      deadline: entry.wait
      attempt: entry.try
      access: { table: entry.table, key: entry.account, kind: entry.op }
  plain: { limits: [{ name: all, rate: 1000/s }] }
resources: { app: { concurrency: 8 }, open: { concurrency: 8 } }
";

const ROUTES: &str = "
  routes:
    - match: { path: /orders/* }
      upstream: app
      namespace: shop
      attributes: { account: header.x-account }
      access: { table: '\"orders\"', key: path.1, size: header.content-length }
    - match: { path: /strict }
      upstream: app
      namespace: shop
      attributes: { account: header.x-account }
      tenant: account
      class: { from: header.x-class }
    - match: { path: /open }
      upstream: open
      namespace: plain
      class: { from: query.class, default: sheddable, ceiling: critical }
      deadline: query.wait
";

pub(crate) struct Daemon {
    pub(crate) handle: Handle,
    clock: Arc<ManualClock>,
    folder: TemporaryFolder,
}

impl Daemon {
    async fn start(head: &str, trusted: &str) -> Self {
        let proxied = |server| {
            format!(
                "{head}
proxy:
  trusted: {trusted}
  upstreams: {{ app: [\"http://{server}\"], open: [\"http://{server}\"] }}{ROUTES}{POLICY}"
            )
        };
        Self::with(proxied).await
    }

    /// With every protocol and the decision log. `rest` of the policy has the address of an
    /// upstream.
    pub(crate) async fn with(rest: impl FnOnce(SocketAddr) -> String) -> Self {
        let folder = TemporaryFolder::new();
        let (server, _) = well().await;
        let rest = rest(server);
        let text = format!(
            "store: {{ kind: memory }}
listen: {{ http: 127.0.0.1:0, grpc: 127.0.0.1:0, resp: 127.0.0.1:0, proxy: 127.0.0.1:0 }}
log: {{ decisions: {{ path: {}/decisions.jsonl }} }}
{rest}",
            folder.path().display()
        );
        let checked = tidegate_policy::parse("policy.yaml", &text, &|_| None);
        let policy = checked.unwrap_or_else(|problems| panic!("{problems}")).policy;
        let mut config = from_policy::server_config(&policy).unwrap();
        config.bounds.drain_grace = Duration::ZERO;
        let clock = Arc::new(ManualClock::new(START));
        let handle =
            from_policy::serve_on(&policy, text.as_bytes(), config, Arc::clone(&clock) as _).await.unwrap();
        Self { handle, clock, folder }
    }

    pub(crate) fn http(&self) -> SocketAddr {
        self.handle.http().unwrap().tcp().unwrap()
    }

    pub(crate) fn grpc(&self) -> SocketAddr {
        self.handle.grpc().unwrap().tcp().unwrap()
    }

    /// Asks by the protocol with these attributes; the answer as text.
    async fn ask(&self, protocol: &str, words: &[(&str, &str)]) -> String {
        self.ask_of("shop", protocol, words).await
    }

    /// The same in another namespace.
    pub(crate) async fn ask_of(&self, namespace: &str, protocol: &str, words: &[(&str, &str)]) -> String {
        match protocol {
            "http" => {
                let attributes: serde_json::Map<String, Value> =
                    words.iter().map(|(name, value)| ((*name).to_owned(), json!(value))).collect();
                let body = json!({"namespace": namespace, "attributes": attributes}).to_string();
                let answer = Client::connect(self.http()).await.post("/v1/check", &body).await;
                format!("{} {}", answer.status, answer.body)
            }
            "authorize" => {
                // The query has a class of its own, which wins over the attribute.
                let word = |(name, value): &(&str, &str)| {
                    format!("&{name}={}", utf8_percent_encode(value, NON_ALPHANUMERIC))
                };
                let words: Vec<String> = words.iter().map(word).collect();
                let target = format!("/v1/authorize?namespace={namespace}{}", words.concat());
                Client::connect(self.http()).await.get(&target).await.shown()
            }
            "rls" => {
                let mut envoy = Envoy::at(self.grpc()).await;
                format!("{:?}", envoy.call(request(namespace, &[descriptor(words)])).await)
            }
            _ => {
                let address = self.handle.resp().unwrap().tcp().unwrap();
                let mut client = resp::Client::over(TcpStream::connect(address).await.unwrap());
                let words = words.iter().flat_map(|(name, value)| [*name, *value]);
                let words: Vec<&str> = ["TG.CHECK", namespace].into_iter().chain(words).collect();
                client.ask_for(&words).await
            }
        }
    }

    pub(crate) async fn through(&self, line: &str, headers: &str) -> Answer {
        let mut client = Client::connect(self.handle.proxy().unwrap().tcp().unwrap()).await;
        client.send(format!("{line} HTTP/1.1\r\nhost: a\r\n{headers}\r\n")).await;
        client.answer().await.expect("an answer")
    }

    pub(crate) fn advance(&self, by: Duration) {
        self.clock.advance(by);
    }

    /// The numbers of a page of usage.
    pub(crate) async fn usage(&self, path: &str) -> Value {
        let answer = Client::connect(self.http()).await.get(&format!("/v1/usage{path}")).await;
        assert_eq!(answer.status, 200, "{path}: {answer:?}");
        answer.json()
    }

    pub(crate) async fn until_waiting(&self, count: usize) {
        eventually("requests wait", async || self.handle.proxy_waiting() == count).await;
    }

    pub(crate) async fn series(&self, series: &str) -> String {
        let page = Client::connect(self.http()).await.get("/metrics").await.body;
        let line = page.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("no {series} in {page}")).to_owned()
    }

    /// Stops it; the lines of the decision log.
    pub(crate) async fn lines(self) -> Vec<Value> {
        self.handle.shutdown().await;
        let path: PathBuf = self.folder.path().join("decisions.jsonl");
        let text = std::fs::read_to_string(path).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Stops it; the protocol and the class of each decision, in their order.
    async fn classes(self) -> Vec<(String, String)> {
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        self.lines().await.iter().map(|line| (text(&line["protocol"]), text(&line["class"]))).collect()
    }
}

pub(crate) const PROTOCOLS: [&str; 4] = ["http", "authorize", "rls", "resp"];

#[tokio::test]
async fn a_class_is_found_by_the_policy_and_bounded_by_tenant_and_ceiling_at_every_protocol() {
    let daemon = Daemon::start("", "[]").await;
    let rows: [(&[(&str, &str)], &str); 7] = [
        (&[("account", "ada")], "sheddable_plus"),
        (&[("account", "ada"), ("class", "critical")], "critical"),
        (&[("account", "ada"), ("class", "critical_plus")], "critical"),
        (&[("account", "gold")], "critical_plus"),
        (&[("account", "gold"), ("class", "sheddable")], "sheddable"),
        (&[("account", "batch"), ("class", "critical_plus")], "sheddable"),
        (&[("class", "critical_plus")], "critical"),
    ];
    let mut expected = Vec::new();
    for protocol in PROTOCOLS {
        for (words, class) in rows {
            let answer = daemon.ask(protocol, words).await;
            assert!(answer.contains("admit") || answer.contains("200") || answer.contains("Ok"), "{answer}");
            expected.push((protocol.to_owned(), class.to_owned()));
        }
        let unknown = daemon.ask(protocol, &[("account", "ada"), ("class", "urgent")]).await;
        assert!(unknown.contains("urgent") && unknown.contains("critical_plus, critical"), "{unknown}");
    }
    assert_eq!(daemon.classes().await, expected);
}

#[tokio::test]
async fn a_namespace_that_says_nothing_of_classes_takes_the_usual_entry() {
    let daemon = Daemon::start("", "[]").await;
    let mut expected = Vec::new();
    for protocol in PROTOCOLS {
        for (words, class) in [
            (&[("tidegate-class", "critical")][..], "critical"),
            (&[("tidegate-class", "sheddable"), ("account", "ada")], "sheddable"),
            (&[("account", "ada")], "sheddable_plus"),
        ] {
            let answer = daemon.ask_of("plain", protocol, words).await;
            assert!(answer.contains("admit") || answer.contains("200") || answer.contains("Ok"), "{answer}");
            expected.push((protocol.to_owned(), class.to_owned()));
        }
    }
    assert_eq!(daemon.classes().await, expected);
}

#[tokio::test]
async fn a_token_has_a_ceiling_of_its_own() {
    let head = "authorization: [{ name: low, token: 0123456789abcdef, namespaces: [shop, plain], ceiling: sheddable }]";
    let daemon = Daemon::start(head, "[]").await;
    let token = bearer("0123456789abcdef");
    for (namespace, account) in [("shop", "gold"), ("shop", "ada"), ("plain", "ada")] {
        let body =
            json!({"namespace": namespace, "attributes": {"account": account}, "class": "critical_plus"});
        let stream = TcpStream::connect(daemon.http()).await.unwrap();
        let mut client = Client::over(stream);
        let answer = send(&mut client, "POST /v1/check", &token, &body.to_string()).await;
        assert_eq!(answer.status, 200, "{}", answer.body);
    }
    let classes = daemon.classes().await;
    assert!(classes.len() == 3 && classes.iter().all(|(_, class)| class == "sheddable"), "{classes:?}");
}

#[tokio::test]
async fn a_client_of_the_proxy_can_only_lower_its_class_unless_a_trusted_peer_or_the_policy_says_more() {
    for (trusted, rows) in [
        ("[]", [("critical_plus", "ada", "sheddable_plus"), ("sheddable", "ada", "sheddable")]),
        ("[127.0.0.0/8]", [("critical_plus", "ada", "critical"), ("critical_plus", "gold", "critical_plus")]),
    ] {
        let daemon = Daemon::start("", trusted).await;
        for (class, account, _) in rows {
            let headers = format!("x-class: {class}\r\nx-account: {account}\r\n");
            assert_eq!(daemon.through("GET /strict", &headers).await.status, 200);
        }
        assert_eq!(daemon.through("GET /strict", "x-account: gold\r\n").await.status, 200);
        assert_eq!(daemon.through("GET /open?class=critical_plus", "").await.status, 200);
        assert_eq!(daemon.through("GET /open", "").await.status, 200);
        let urgent = daemon.through("GET /open?class=urgent", "").await;
        assert!(urgent.status == 400 && urgent.body.contains("query.class"), "{}", urgent.body);
        let open = if trusted == "[]" { "critical" } else { "critical_plus" };
        let expected: Vec<&str> =
            rows.iter().map(|(_, _, class)| *class).chain(["critical_plus", open, "sheddable"]).collect();
        let classes = daemon.classes().await;
        let classes: Vec<&str> = classes.iter().map(|(_, class)| class.as_str()).collect();
        assert_eq!(classes, expected, "{trusted}");
    }
}

#[tokio::test]
async fn an_attempt_that_repeats_no_refusal_counts_as_demand_whatever_its_caller_says() {
    for (trusted, offered) in [("[]", "3"), ("[127.0.0.0/8]", "3")] {
        let daemon = Daemon::start("", trusted).await;
        for attempt in ["", "tidegate-attempt: 1\r\n", "tidegate-attempt: 2\r\n"] {
            assert_eq!(daemon.through("GET /open", attempt).await.status, 200);
        }
        let series = r#"tidegate_resource_offered_total{resource="open"}"#;
        assert_eq!(daemon.series(series).await, offered, "{trusted}");
    }
    let daemon = Daemon::start("", "[]").await;
    let body = r#"{"namespace":"shop","attributes":{},"resource":"app"}"#;
    for (headers, status) in [("", 200), ("tidegate-attempt: 1\r\n", 200), ("tidegate-attempt: one\r\n", 400)]
    {
        let mut client = Client::over(TcpStream::connect(daemon.http()).await.unwrap());
        assert_eq!(send(&mut client, "POST /v1/check", headers, body).await.status, status, "{headers}");
    }
    for (protocol, words) in [
        ("http", &[("try", "1"), ("resource", "app")][..]),
        ("authorize", &[("try", "1"), ("resource", "app")]),
        ("rls", &[("try", "1"), ("resource", "app")]),
        ("resp", &[("try", "1"), ("resource", "app")]),
    ] {
        let answer = daemon.ask(protocol, words).await;
        assert!(answer.contains("admit") || answer.contains("200") || answer.contains("Ok"), "{answer}");
        let malformed = daemon.ask(protocol, &[("try", "-1")]).await;
        assert!(malformed.contains("entry.try") && malformed.contains("digits"), "{protocol}: {malformed}");
    }
    // The two checks above, and one of each other protocol; `http` here names no resource, but has
    // an attribute of that name.
    assert_eq!(daemon.series(r#"tidegate_resource_offered_total{resource="app"}"#).await, "5");
}

#[tokio::test]
async fn a_request_whose_caller_waits_no_more_is_refused_at_every_protocol() {
    let daemon = Daemon::start("", "[]").await;
    for protocol in PROTOCOLS {
        let refused = daemon.ask(protocol, &[("wait", "0")]).await;
        assert!(refused.contains("deadline_unmeetable"), "{protocol}: {refused}");
        let admitted = daemon.ask(protocol, &[("wait", "1000")]).await;
        assert!(!admitted.contains("deadline_unmeetable"), "{protocol}: {admitted}");
        let malformed = daemon.ask(protocol, &[("wait", "soon")]).await;
        assert!(malformed.contains("milliseconds"), "{protocol}: {malformed}");
    }
    let body = r#"{"namespace":"plain","attributes":{}}"#;
    for (headers, status) in [("tidegate-deadline-ms: 0\r\n", 503), ("tidegate-deadline-ms: 50\r\n", 200)] {
        let mut client = Client::over(TcpStream::connect(daemon.http()).await.unwrap());
        assert_eq!(send(&mut client, "POST /v1/check", headers, body).await.status, status, "{headers}");
        assert_eq!(daemon.through("GET /open", headers).await.status, status);
    }
    assert_eq!(daemon.through("GET /open?wait=0", "").await.status, 503);
    assert_eq!(daemon.through("GET /open?wait=soon", "").await.status, 200, "ignored at the proxy");
}

#[tokio::test]
async fn an_access_is_found_by_the_policy_at_every_protocol() {
    let daemon = Daemon::start("", "[]").await;
    let write = [("table", "orders"), ("account", "ada"), ("op", "write")];
    for protocol in PROTOCOLS {
        for _ in 0..4 {
            let answer = daemon.ask(protocol, &write).await;
            assert!(!answer.contains("throughput_exceeded"), "{protocol}: {answer}");
        }
        let refused = daemon.ask(protocol, &write).await;
        assert!(refused.contains("throughput_exceeded"), "{protocol}: {refused}");
        let foreign = daemon.ask(protocol, &[("table", "other"), ("account", "ada")]).await;
        assert!(foreign.contains("other"), "{protocol}: {foreign}");
        let keyless = daemon.ask(protocol, &[("table", "orders")]).await;
        assert!(keyless.contains("needs a key"), "{protocol}: {keyless}");
        daemon.clock.advance(Duration::from_secs(10));
    }
    for method in ["PUT", "DELETE", "PUT", "PUT"] {
        assert_eq!(daemon.through(&format!("{method} /orders/7"), "content-length: 0\r\n").await.status, 200);
    }
    let refused = daemon.through("PUT /orders/7", "content-length: 0\r\n").await;
    assert!(refused.status == 429 && refused.body.contains("\"table\":\"orders\""), "{}", refused.body);
    assert_eq!(daemon.through("GET /orders/7", "").await.status, 200, "reads have their own");
    let keyless = daemon.through("GET /orders/", "").await;
    assert!(keyless.status == 400 && keyless.body.contains("needs a key"), "{}", keyless.body);
    daemon.clock.advance(Duration::from_secs(10));
    // 3000 bytes weigh three units: the second request takes the last one and goes into debt.
    let body = "x".repeat(3000);
    for status in [200, 200, 429] {
        let mut client = Client::connect(daemon.handle.proxy().unwrap().tcp().unwrap()).await;
        let head = "PUT /orders/7 HTTP/1.1\r\nhost: a\r\ncontent-length: 3000\r\n\r\n";
        client.send(format!("{head}{body}")).await;
        let answer = client.answer().await.expect("an answer");
        assert_eq!(answer.status, status, "{}", answer.body);
    }
}

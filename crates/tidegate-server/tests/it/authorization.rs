//! Tokens and certificates of callers at the listeners that speak HTTP.

use std::sync::Arc;
use std::time::Duration;

use rcgen::{ExtendedKeyUsagePurpose, SanType};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tidegate_server::policy_file::PolicyFile;
use tidegate_server::{Handle, ListenerRole, ManualClock, from_policy};
use tidegate_test_support::{TemporaryFolder, eventually, eventually_some};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::authority::{Authority, Issued};
use crate::client::{Answer, Client};
use crate::world::START;

pub(crate) const CHECKOUT: &str = "checkout-token-0123456789";
pub(crate) const OPS: &str = "operators-token-0123456789";

const NAMESPACES: &str = "store: { kind: memory }
namespaces:
  api: { limits: [{ name: per-user, key: [user], fixed: { limit: 100, window: 1h } }] }
  web: { limits: [{ name: per-user, key: [user], fixed: { limit: 100, window: 1h } }] }
";

/// A daemon whose grants are those of a policy in a folder.
pub(crate) struct Guarded {
    folder: TemporaryFolder,
    pub(crate) handle: Handle,
}

impl Guarded {
    /// `rest` is what else the policy says, `FOLDER` in it the folder.
    pub(crate) async fn start(folder: TemporaryFolder, rest: &str) -> Self {
        let path = folder.path().join("policy.yaml");
        std::fs::write(&path, Self::policy(&folder, rest)).unwrap();
        let (file, text) = PolicyFile::open(path).unwrap();
        let checked = tidegate_policy::parse_bytes("policy.yaml", &text, &|_| None);
        let policy = checked.unwrap_or_else(|problems| panic!("{problems}")).policy;
        let mut config = from_policy::server_config(&policy).unwrap();
        config.listen(ListenerRole::Http, "127.0.0.1:0".parse().unwrap());
        config.bounds.drain_grace = Duration::ZERO;
        let clock = Arc::new(ManualClock::new(START));
        let mut handle = from_policy::serve_on(&policy, &text, config, clock).await.unwrap();
        handle.follow(file, policy);
        Self { folder, handle }
    }

    fn policy(folder: &TemporaryFolder, rest: &str) -> String {
        let folder = folder.path().to_str().unwrap();
        format!("memory: {{ keys: 1MiB }}\n{NAMESPACES}{}", rest.replace("FOLDER", folder))
    }

    /// With the tokens of this test.
    async fn usual() -> Self {
        let folder = TemporaryFolder::new();
        std::fs::write(folder.path().join("checkout"), CHECKOUT).unwrap();
        let rest = format!(
            "authorization:
  - {{ name: checkout, token_file: FOLDER/checkout, namespaces: [api], verbs: [check, report] }}
  - {{ name: operators, token: {OPS}, namespaces: ['*'], verbs: [inspect, change, reset] }}
"
        );
        Self::start(folder, &rest).await
    }

    /// Puts another policy in the place of the one there is, and has it taken over soon.
    pub(crate) fn reload(&self, rest: &str) {
        let path = self.folder.path().join("policy.yaml");
        std::fs::write(path, Self::policy(&self.folder, rest)).unwrap();
        self.handle.reload();
    }

    /// As [`Guarded::reload`], with the whole policy.
    pub(crate) fn replace(&self, policy: &str) {
        std::fs::write(self.folder.path().join("policy.yaml"), policy).unwrap();
        self.handle.reload();
    }

    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.handle.http().unwrap().tcp().unwrap()).await.unwrap()
    }

    /// Sends one request with these headers.
    async fn ask(&self, line: &str, headers: &str, body: &str) -> Answer {
        request(&mut Client::over(self.connect().await), line, headers, body).await
    }
}

pub(crate) async fn request<S>(client: &mut Client<S>, line: &str, headers: &str, body: &str) -> Answer
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
{
    let length = body.len();
    client
        .send(format!("{line} HTTP/1.1\r\nhost: t\r\n{headers}content-length: {length}\r\n\r\n{body}"))
        .await;
    client.answer().await.expect("an answer")
}

pub(crate) fn bearer(token: &str) -> String {
    format!("authorization: Bearer {token}\r\n")
}

fn body(namespace: &str) -> String {
    format!(r#"{{"namespace":"{namespace}","attributes":{{"user":"ada"}}}}"#)
}

#[tokio::test]
async fn who_shows_no_token_or_a_wrong_one_is_told_so_and_charged_nothing() {
    let daemon = Guarded::usual().await;
    let wrong = bearer("checkout-token-012345678");
    for headers in ["", &wrong, "authorization: Basic Y2hlY2tvdXQ=\r\n", "authorization: Bearer\r\n"] {
        for (line, body) in [
            ("POST /v1/check", body("api")),
            ("POST /v1/report", "not even JSON".to_owned()),
            ("POST /v1/settle", "{}".to_owned()),
            ("GET /v1/authorize?namespace=api&user=ada", String::new()),
            ("GET /v1/limits", String::new()),
            ("GET /metrics", String::new()),
            ("GET /openapi.json", String::new()),
            ("PUT /v1/overrides/api/per-user?user=ada", "{}".to_owned()),
        ] {
            let answer = daemon.ask(line, headers, &body).await;
            assert_eq!((answer.status, answer.header("www-authenticate")), (401, Some("Bearer")), "{line}");
            assert_eq!(answer.json()["error"], "unauthenticated", "{line}");
            assert!(!answer.body.contains("0123456"), "what was shown is not repeated: {answer:?}");
        }
    }
    let left = daemon.ask("POST /v1/check", &bearer(CHECKOUT), &body("api")).await;
    assert_eq!(left.json()["remaining"], 99);
    for line in ["GET /healthz", "GET /readyz"] {
        assert_eq!(daemon.ask(line, "", "").await.status, 200, "whether it lives is no secret");
    }
}

#[tokio::test]
async fn a_token_is_good_for_its_namespaces_and_verbs_only() {
    let daemon = Guarded::usual().await;
    let (checkout, ops) = (bearer(CHECKOUT), bearer(OPS));
    let status = async |line: &str, token: &str, body: &str| daemon.ask(line, token, body).await.status;
    assert_eq!(status("POST /v1/check", &checkout, &body("api")).await, 200);
    assert_eq!(status("POST /v1/report", &checkout, &body("api")).await, 200);
    assert_eq!(status("GET /v1/authorize?namespace=api&user=ada", &checkout, "").await, 200);
    assert_eq!(status("GET /v1/authorize?namespace=web&user=ada", &checkout, "").await, 403);
    for operation in ["check", "report", "reserve", "reset", "block", "refund"] {
        let rest = r#","limit":"per-user","for_ms":1000,"refund_key":"a","expires_ms":1000}"#;
        let body = body("web").replace('}', "");
        let body = body.replace(r#""ada""#, r#""ada"}"#);
        let keys: &[&str] = match operation {
            "block" => &["limit", "for_ms"],
            "refund" => &["refund_key"],
            "reserve" => &["expires_ms"],
            _ => &[],
        };
        let rest: serde_json::Map<String, serde_json::Value> =
            serde_json::from_str(&format!("{{{}", &rest[1..])).unwrap();
        let rest: String =
            keys.iter().map(|key| format!(r#","{key}":{}"#, rest[*key])).collect::<Vec<_>>().concat();
        let answer =
            daemon.ask(&format!("POST /v1/{operation}"), &checkout, &format!("{body}{rest}}}")).await;
        assert_eq!(answer.status, 403, "{operation}: {answer:?}");
        assert_eq!(answer.json()["error"], "forbidden", "{operation}");
        assert!(answer.body.contains("checkout may not"), "{answer:?}");
    }
    assert_eq!(status("POST /v1/reset", &checkout, &body("api")).await, 403);
    assert_eq!(status("POST /v1/reset", &ops, &body("web")).await, 200);
    assert_eq!(status("POST /v1/check", &ops, &body("web")).await, 403);
    for line in [
        "GET /v1/limits",
        "GET /metrics",
        "GET /v1/keys/top",
        "GET /v1/blocks",
        "GET /v1/permits",
        "GET /v1/overrides",
        "GET /v1/usage",
    ] {
        assert_eq!((status(line, &ops, "").await, status(line, &checkout, "").await), (200, 403), "{line}");
    }
    let numbers = r#"{"numbers":{"limit":7},"reason":"asked for"}"#;
    let path = "PUT /v1/overrides/api/per-user?user=ada";
    assert_eq!(status(path, &checkout, numbers).await, 403);
    assert_eq!(status(path, &ops, numbers).await, 200);
}

#[tokio::test]
async fn the_audit_log_names_the_grant_whatever_the_caller_says_of_itself() {
    let (log, _guard) = crate::proxy::log::listen("tidegate::audit=info");
    let grants = format!(
        "authorization: [{{ name: operators, token: {OPS}, namespaces: ['*'], verbs: [inspect, change, reset, block] }}]\n"
    );
    let daemon = Guarded::start(TemporaryFolder::new(), &grants).await;
    let ops = bearer(OPS);
    let numbers = r#"{"numbers":{"limit":7},"reason":"asked for","by":"the director"}"#;
    assert_eq!(daemon.ask("PUT /v1/overrides/api/per-user?user=ada", &ops, numbers).await.status, 200);
    let change = &daemon.ask("GET /v1/overrides", &ops, "").await.json()["history"][0];
    assert_eq!((change["by"].as_str(), change["grant"].as_str()), (Some("the director"), Some("operators")));
    let key = r#"{"namespace":"api","attributes":{"user":"ada"},"limit":"per-user""#;
    assert_eq!(daemon.ask("POST /v1/reset", &ops, &format!("{key}}}")).await.status, 200);
    for span in [1000, 0] {
        let block = format!("{key},\"for_ms\":{span}}}");
        assert_eq!(daemon.ask("POST /v1/block", &ops, &block).await.status, 200);
    }
    // A request that shows nothing is no attempt.
    for headers in ["", &bearer("a-token-of-nobody-at-all")] {
        assert_eq!(daemon.ask("POST /v1/check", headers, &body("api")).await.status, 401);
    }
    let lines: Vec<_> = log.lines().into_iter().map(|line| line["fields"].clone()).collect();
    let shown: Vec<String> = lines
        .iter()
        .map(|line| {
            let fields = ["message", "by", "grant", "operation", "limit", "key", "protocol", "peer"];
            let values = fields.iter().filter_map(|field| line.get(*field)?.as_str());
            values.collect::<Vec<_>>().join(" | ")
        })
        .collect();
    let expected = [
        "an override was changed | the director | operators | per-user",
        "the counters of a key were reset | operators | reset | per-user | user=ada",
        "a key was blocked | operators | block | per-user | user=ada",
        "the block of a key was lifted | operators | block | per-user | user=ada",
        "authentication failed: the token or certificate is not one of the policy's | http | 127.0.0.1",
    ];
    assert_eq!(shown, expected);
    let text = format!("{lines:?}");
    assert!(!text.contains("nobody") && !text.contains(OPS), "no token is logged: {text}");
}

/// A FIFO as a file of tokens kept the start waiting for a writer.
#[tokio::test]
async fn a_file_that_the_policy_names_must_be_a_regular_one() {
    let folder = TemporaryFolder::new();
    let fifo = folder.path().join("fifo");
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let fifo = fifo.display();
    for (rest, setting) in [
        (format!("authorization: [{{ token_file: {fifo}, namespaces: ['*'] }}]\n"), "the tokens in"),
        (format!("envoy_ratelimit: {{ path: {fifo} }}\n"), "fifo"),
        (format!("proxy: {{ jwt: {{ issuer: i, audiences: [a], secret_file: {fifo} }} }}\n"), "fifo"),
    ] {
        let text = format!("{NAMESPACES}{rest}");
        let policy = match tidegate_policy::parse("policy.yaml", &text, &|_| None) {
            Ok(checked) => checked.policy,
            Err(problems) => panic!("{problems}"),
        };
        let error = from_policy::server_config(&policy).unwrap_err();
        let mut said = error.to_string();
        let mut source = std::error::Error::source(&error);
        while let Some(error) = source {
            said.push_str(": ");
            said.push_str(&error.to_string());
            source = error.source();
        }
        assert!(
            said.contains(setting) && said.contains("it is a FIFO; name a regular file"),
            "{rest}: {said}"
        );
    }
}

/// A gateway passes its client's `Authorization` on, which says nothing of the gateway.
#[tokio::test]
async fn a_gateway_shows_its_token_in_a_header_of_its_own() {
    let daemon = Guarded::usual().await;
    let line = "GET /v1/authorize?namespace=api&user=ada";
    let own = format!("tidegate-token: {CHECKOUT}\r\n");
    let client = bearer("a token of the gateway's client");
    assert_eq!(daemon.ask(line, &format!("{client}{own}"), "").await.status, 200);
    assert_eq!(daemon.ask(line, &client, "").await.status, 401);
    let forged = format!("tidegate-token: nonsense\r\n{}", bearer(CHECKOUT));
    assert_eq!(daemon.ask(line, &forged, "").await.status, 401, "the header of its own wins");
}

#[tokio::test]
async fn a_reload_gives_and_takes_away_what_tokens_permit() {
    let daemon = Guarded::usual().await;
    let checkout = bearer(CHECKOUT);
    assert_eq!(daemon.ask("POST /v1/check", &checkout, &body("web")).await.status, 403);
    let until = async |line: &str, namespace: &str, status: u16| {
        let what = format!("{line} in {namespace} answers {status}");
        let holds = async || daemon.ask(line, &checkout, &body(namespace)).await.status == status;
        eventually(&what, holds).await;
    };
    daemon.reload("authorization: [{ token_file: FOLDER/checkout, namespaces: [web] }]\n");
    until("POST /v1/check", "web", 200).await;
    assert_eq!(daemon.ask("POST /v1/check", &checkout, &body("api")).await.status, 403);
    // A policy whose tokens cannot be read changes nothing.
    daemon.reload("authorization: [{ token_file: FOLDER/nowhere, namespaces: [api] }]\n");
    daemon.reload("authorization: [{ token_file: FOLDER/checkout, namespaces: [api] }]\n");
    until("POST /v1/check", "api", 200).await;
    daemon.reload("");
    until("POST /v1/reset", "api", 200).await;
}

/// The listener is open to other machines for the time of this test and asks for a token
/// throughout.
#[tokio::test]
async fn a_reload_cannot_take_the_grants_from_a_listener_that_other_machines_reach() {
    const GRANTS: &str =
        "authorization: [{ token: operators-token-0123456789, namespaces: ['*'], verbs: [inspect] }]\n";
    let daemon =
        Guarded::start(TemporaryFolder::new(), &format!("{GRANTS}listen: {{ grpc: \"0.0.0.0:0\" }}\n")).await;
    let in_force = async || daemon.ask("GET /v1/limits", &bearer(OPS), "").await.json()["policy"].clone();
    let reloaded = async |rest: &str, is_done: &dyn Fn(&serde_json::Value) -> bool| {
        daemon.reload(rest);
        eventually_some("the reload ends", async || {
            let policy = in_force().await;
            is_done(&policy).then_some(policy)
        })
        .await
    };
    let without = "listen: { grpc: \"127.0.0.1:8081\" }\n";
    let refused = reloaded(without, &|policy| policy.get("last_error").is_some()).await;
    let problems = refused["last_error"]["problems"].as_str().unwrap();
    assert!(problems.contains("listen.grpc is open on 0.0.0.0:0"), "{problems}");
    assert!(problems.contains("keep `authorization:`, or restart"), "{problems}");
    assert_eq!(daemon.ask("GET /v1/limits", "", "").await.status, 401, "the grants stay in force");
    let taken = reloaded(&format!("{GRANTS}{without}"), &|policy| policy["version"] == 2).await;
    assert_eq!(taken["restart_needed"], serde_json::json!(["listen.grpc"]), "{taken}");
}

/// TLS that asks for a certificate of `clients`.
fn listen(folder: &TemporaryFolder, server: &Authority, clients: &Authority) -> String {
    let issued = server.issue(ExtendedKeyUsagePurpose::ServerAuth);
    for (name, text) in [("cert", &issued.cert), ("key", &issued.key), ("ca", &clients.pem())] {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    "listen: { http: { address: 127.0.0.1:0, tls: { cert: FOLDER/cert, key: FOLDER/key, client_ca: FOLDER/ca } } }\n"
        .to_owned()
}

#[tokio::test]
async fn a_certificate_is_somebody_by_its_names_and_not_by_its_common_name() {
    let (folder, server, clients) = (TemporaryFolder::new(), Authority::new(), Authority::new());
    let rest = listen(&folder, &server, &clients)
        + "authorization:
  - { certificate: spiffe://prod/checkout, namespaces: [api] }
  - { certificate: ops.internal, namespaces: [web] }
";
    let daemon = Guarded::start(folder, &rest).await;
    let ask = async |issued: &Issued, namespace: &str| {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder =
            ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let config = builder
            .with_root_certificates(server.roots())
            .with_client_auth_cert(vec![issued.chain()], issued.secret())
            .unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        let connector = TlsConnector::from(Arc::new(config));
        let stream = connector.connect(name, daemon.connect().await).await.unwrap();
        request(&mut Client::over(stream), "POST /v1/check", "", &body(namespace)).await.status
    };
    let issue = |names: &[&str], uri: &str, common: &str| {
        clients.issue_as(names, |params| {
            params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
            params.distinguished_name.push(rcgen::DnType::CommonName, common);
            if !uri.is_empty() {
                params.subject_alt_names.push(SanType::URI(uri.try_into().unwrap()));
            }
        })
    };
    let checkout = issue(&[], "spiffe://prod/checkout", "");
    assert_eq!((ask(&checkout, "api").await, ask(&checkout, "web").await), (200, 403));
    let both = issue(&["ops.internal"], "spiffe://prod/checkout", "");
    assert_eq!((ask(&both, "api").await, ask(&both, "web").await), (200, 200));
    let unknown = issue(&["other.internal"], "spiffe://prod/checkout/v2", "ops.internal");
    assert_eq!((ask(&unknown, "api").await, ask(&unknown, "web").await), (401, 401));
}

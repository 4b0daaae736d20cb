//! The locks of all listeners, as tables: who is turned away at the handshake, and who may ask what
//! after it.

use std::net::SocketAddr;
use std::sync::Arc;

use prost::Message;
use rcgen::{CertificateParams, ExtendedKeyUsagePurpose, date_time_ymd};
use rustls::pki_types::ServerName;
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, SupportedProtocolVersion};
use serde_json::{Value, json};
use tidegate_server::Address;
use tidegate_test_support::TemporaryFolder;
use tidegate_wire::envoy::SHOULD_RATE_LIMIT;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::authority::{Authority, Issued};
use crate::authorization::{CHECKOUT, Guarded, OPS, request};
use crate::client::Client;
use crate::grpc::hostile::{exchange, framed};
use crate::proxy::log::listen;
use crate::proxy::upstream::{Seen, well};
use crate::{grpc, resp};

/// A listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Listener {
    Http,
    Grpc,
    Resp,
    Proxy,
    Admin,
}

const LISTENERS: [Listener; 5] =
    [Listener::Http, Listener::Grpc, Listener::Resp, Listener::Proxy, Listener::Admin];

/// The operation that is requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    /// An operation that `checkout` is granted.
    Granted,
    /// The same in a namespace that it may do nothing in.
    OtherNamespace,
    /// Something else in its own namespace.
    OtherVerb,
}

/// The result, translated from the answer of each listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    Served,
    /// 401, `UNAUTHENTICATED`, `NOAUTH`, `WRONGPASS`.
    Unknown,
    /// 403, `PERMISSION_DENIED`, `NOPERM`.
    Forbidden,
}

/// A daemon with all five listeners.
struct Locked {
    daemon: Guarded,
    server: Authority,
    clients: Authority,
    /// The requests that the service behind the proxy received.
    seen: Seen,
}

impl Locked {
    /// `checkout` checks and overrides in `api`, by a token or as `edge.internal`; `OPS` checks
    /// everywhere and looks at everything, as does `ops.internal`.
    async fn start(has_tls: bool) -> Self {
        let (folder, server, clients) = (TemporaryFolder::new(), Authority::new(), Authority::new());
        let issued = server.issue(ExtendedKeyUsagePurpose::ServerAuth);
        for (name, text) in [("cert", &issued.cert), ("key", &issued.key), ("ca", &clients.pem())] {
            std::fs::write(folder.path().join(name), text).unwrap();
        }
        let tls =
            if has_tls { ", tls: { cert: FOLDER/cert, key: FOLDER/key, client_ca: FOLDER/ca }" } else { "" };
        let listener = format!("{{ address: 127.0.0.1:0{tls} }}");
        let (app, seen) = well().await;
        let rest = format!(
            "listen: {{ http: {listener}, grpc: {listener}, resp: {listener}, proxy: {listener}, admin: {listener} }}
proxy: {{ upstreams: {{ app: [http://{app}] }}, routes: [{{ upstream: app }}] }}
authorization:
  - {{ name: checkout, token: {CHECKOUT}, namespaces: [api, resp], verbs: [check, change] }}
  - {{ name: checkout-by-name, certificate: edge.internal, namespaces: [api, resp], verbs: [check, change] }}
  - {{ name: operators, token: {OPS}, namespaces: ['*'], verbs: [check, inspect] }}
  - {{ name: operators-by-name, certificate: ops.internal, namespaces: ['*'], verbs: [check, inspect] }}
"
        );
        Self { daemon: Guarded::start(folder, &rest).await, server, clients, seen }
    }

    fn address(&self, listener: Listener) -> SocketAddr {
        let handle = &self.daemon.handle;
        let address = match listener {
            Listener::Http => handle.http(),
            Listener::Grpc => handle.grpc(),
            Listener::Resp => handle.resp(),
            Listener::Proxy => handle.proxy(),
            Listener::Admin => handle.admin(),
        };
        address.and_then(Address::tcp).unwrap()
    }

    async fn plain(&self, listener: Listener) -> TcpStream {
        TcpStream::connect(self.address(listener)).await.unwrap()
    }

    /// A connection whose handshake is done, as its client sees it.
    async fn tls(
        &self,
        listener: Listener,
        shown: Option<&Issued>,
        version: &'static SupportedProtocolVersion,
    ) -> std::io::Result<TlsStream<TcpStream>> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder =
            ClientConfig::builder_with_provider(provider).with_protocol_versions(&[version]).unwrap();
        let builder = builder.with_root_certificates(self.server.roots());
        let mut config = match shown {
            None => builder.with_no_client_auth(),
            Some(issued) => builder.with_client_auth_cert(vec![issued.chain()], issued.secret()).unwrap(),
        };
        if listener == Listener::Grpc {
            config.alpn_protocols = vec![b"h2".to_vec()];
        }
        let name = ServerName::try_from("localhost").unwrap();
        TlsConnector::from(Arc::new(config)).connect(name, self.plain(listener).await).await
    }

    /// With what alert a client is turned away before it has asked anything.
    async fn alert(
        &self,
        listener: Listener,
        shown: Option<&Issued>,
        version: &'static SupportedProtocolVersion,
    ) -> String {
        let error = match self.tls(listener, shown, version).await {
            Err(error) => error,
            // In TLS 1.3 a client is done before the server has seen its certificate.
            Ok(mut stream) => match stream.read(&mut [0]).await {
                Err(error) => error,
                Ok(read) => panic!("{listener:?} turns nobody away: {read} bytes"),
            },
        };
        error.to_string()
    }

    /// Asks, and sees that no secret is repeated.
    async fn ask<S>(&self, listener: Listener, stream: S, token: Option<&str>, asked: Asked) -> Told
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let namespace = if asked == Asked::OtherNamespace { "web" } else { "api" };
        let (told, text) = match listener {
            Listener::Grpc => {
                let user = grpc::user("ada");
                let user = if asked == Asked::OtherVerb { grpc::back(user) } else { user };
                let message = framed(&grpc::request(namespace, &[user]).encode_to_vec());
                let (status, text) = exchange(stream, SHOULD_RATE_LIMIT, token, message).await;
                let told = match status.as_str() {
                    "0" => Told::Served,
                    "16" => Told::Unknown,
                    "7" => Told::Forbidden,
                    _ => panic!("{status} {text}"),
                };
                (told, text)
            }
            Listener::Resp => {
                let mut client = resp::Client::over(stream);
                let mut reply = match token {
                    Some(token) => client.ask(&format!("AUTH {token}")).await,
                    None => "+OK".to_owned(),
                };
                if reply == "+OK" {
                    let command = match asked {
                        Asked::OtherVerb => "DEL k".to_owned(),
                        _ => format!("TG.CHECK {namespace} user ada"),
                    };
                    reply = client.ask(&command).await;
                }
                let told = match reply.split(' ').next().unwrap() {
                    "-NOAUTH" | "-WRONGPASS" => Told::Unknown,
                    "-NOPERM" => Told::Forbidden,
                    word => {
                        assert!(!word.starts_with('-'), "{reply}");
                        Told::Served
                    }
                };
                (told, reply)
            }
            Listener::Http | Listener::Proxy | Listener::Admin => {
                let check = format!(r#"{{"namespace":"{namespace}","attributes":{{"user":"ada"}}}}"#);
                let (line, body) = match (listener, asked) {
                    (Listener::Http, Asked::OtherVerb) => ("POST /v1/reset".to_owned(), check),
                    (Listener::Http, _) => ("POST /v1/check".to_owned(), check),
                    (Listener::Admin, Asked::OtherVerb) => ("GET /metrics".to_owned(), String::new()),
                    (Listener::Admin, _) => {
                        let numbers = r#"{"numbers":{"limit":7},"reason":"asked for"}"#.to_owned();
                        (format!("PUT /v1/overrides/{namespace}/per-user?user=bob"), numbers)
                    }
                    _ => ("GET /".to_owned(), String::new()),
                };
                let headers =
                    token.map_or_else(String::new, |token| format!("authorization: Bearer {token}\r\n"));
                let answer = request(&mut Client::over(stream), &line, &headers, &body).await;
                let told = match answer.status {
                    200 => Told::Served,
                    401 => Told::Unknown,
                    403 => Told::Forbidden,
                    _ => panic!("{line}: {answer:?}"),
                };
                (told, answer.body)
            }
        };
        assert!(!text.contains("0123456"), "{listener:?} repeats what was shown: {text}");
        told
    }
}

/// A certificate for clients with this name, otherwise as `change` has it.
fn issue(authority: &Authority, name: &str, change: impl FnOnce(&mut CertificateParams)) -> Issued {
    authority.issue_as(&[name], |params| {
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        change(params);
    })
}

#[tokio::test]
async fn every_listener_takes_the_certificates_of_its_ca_that_are_in_force_and_no_others() {
    let (written, _guard) = listen("tidegate_server=debug");
    let locked = Locked::start(true).await;
    let of_ca = |change: fn(&mut CertificateParams)| Some(issue(&locked.clients, "edge.internal", change));
    let refused = [
        ("none", None, "CertificateRequired", "no certificates"),
        ("another CA", Some(issue(&Authority::new(), "edge.internal", |_| ())), "UnknownCA", "UnknownIssuer"),
        (
            "expired",
            of_ca(|params| {
                params.not_before = date_time_ymd(2020, 1, 1);
                params.not_after = date_time_ymd(2021, 1, 1);
            }),
            "CertificateExpired",
            "expired",
        ),
        (
            "not yet valid",
            of_ca(|params| {
                params.not_before = date_time_ymd(2999, 1, 1);
                params.not_after = date_time_ymd(3000, 1, 1);
            }),
            "CertificateExpired",
            "not valid yet",
        ),
        (
            "of a server",
            of_ca(|params| params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth]),
            "UnsupportedCertificate",
            "does not allow",
        ),
    ];
    let valid = of_ca(|_| ());
    let mut expected = Vec::new();
    for listener in LISTENERS {
        for version in [&TLS12, &TLS13] {
            for (what, shown, alert, why) in &refused {
                let told = locked.alert(listener, shown.as_ref(), version).await;
                assert!(told.contains(alert), "{listener:?} {version:?} {what}: {told}");
                expected.push(*why);
            }
            let stream = locked.tls(listener, valid.as_ref(), version).await.unwrap();
            assert_eq!(
                locked.ask(listener, stream, None, Asked::Granted).await,
                Told::Served,
                "{listener:?}"
            );
        }
    }
    assert_eq!(locked.seen.lock().unwrap().len(), 2, "the service behind the proxy heard of nobody else");
    let reasons: Vec<Value> = written
        .lines()
        .into_iter()
        .filter(|line| line["fields"]["message"] == "a TLS handshake failed")
        .map(|line| line["fields"]["error"].clone())
        .collect();
    assert_eq!(reasons.len(), expected.len(), "{reasons:?}");
    for (reason, why) in reasons.iter().zip(&expected) {
        assert!(reason.as_str().unwrap().contains(why), "{why}: {reason}");
    }
    let ops = issue(&locked.clients, "ops.internal", |_| ());
    let mut client = Client::over(locked.tls(Listener::Admin, Some(&ops), &TLS13).await.unwrap());
    let page = client.get("/metrics").await.body;
    let counted = format!("tidegate_faults_total{{error=\"tls_handshake\"}} {}\n", expected.len());
    assert!(page.contains(&counted), "{page}");
}

/// `OPS` sees that only the served requests were charged or changed anything.
async fn changed_only<S>(mut http: Client<S>, mut admin: Client<S>, served: &[Listener])
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let token = format!("authorization: Bearer {OPS}\r\n");
    let charged = served
        .iter()
        .filter(|listener| matches!(listener, Listener::Http | Listener::Grpc | Listener::Resp))
        .count();
    for (namespace, charged) in [("api", charged), ("web", 0)] {
        let body = format!(r#"{{"namespace":"{namespace}","attributes":{{"user":"ada"}},"peek":true}}"#);
        let answer = request(&mut http, "POST /v1/check", &token, &body).await.json();
        assert_eq!(answer["remaining"], 100 - charged, "{namespace}: {answer}");
    }
    let answer = request(&mut admin, "GET /v1/overrides", &token, "").await.json();
    let overrides = answer["overrides"].as_array().unwrap();
    let found: Vec<_> = overrides.iter().map(|one| &one["namespace"]).collect();
    let expected: &[Value] = if served.contains(&Listener::Admin) { &[json!("api")] } else { &[] };
    assert_eq!(found, expected.iter().collect::<Vec<_>>(), "{answer}");
}

/// The expected result at each listener for a caller without valid credentials, or with those of
/// `checkout`. The proxy asks for none: its callers are those of the service behind it.
fn expected(listener: Listener, is_checkout: bool, asked: Asked) -> Told {
    match (listener, is_checkout, asked) {
        (Listener::Proxy, ..) | (_, true, Asked::Granted) => Told::Served,
        (_, false, _) => Told::Unknown,
        (_, true, Asked::OtherNamespace | Asked::OtherVerb) => Told::Forbidden,
    }
}

const ALL: [Asked; 3] = [Asked::Granted, Asked::OtherNamespace, Asked::OtherVerb];

#[tokio::test]
async fn at_every_door_a_token_is_good_for_its_namespaces_and_verbs_and_no_token_for_nothing() {
    let locked = Locked::start(false).await;
    let mut served = Vec::new();
    for listener in LISTENERS {
        for asked in ALL {
            for (token, is_checkout) in
                [(None, false), (Some("checkout-token-012345678"), false), (Some(CHECKOUT), true)]
            {
                let told = locked.ask(listener, locked.plain(listener).await, token, asked).await;
                assert_eq!(told, expected(listener, is_checkout, asked), "{listener:?} {token:?} {asked:?}");
                if told == Told::Served {
                    served.push(listener);
                }
            }
        }
    }
    let [http, admin] = [locked.plain(Listener::Http).await, locked.plain(Listener::Admin).await];
    changed_only(Client::over(http), Client::over(admin), &served).await;
}

#[tokio::test]
async fn at_every_door_a_certificate_is_good_for_its_namespaces_and_verbs_and_a_wrong_token_spoils_it() {
    let locked = Locked::start(true).await;
    let edge = issue(&locked.clients, "edge.internal", |_| ());
    let nobody = issue(&locked.clients, "nobody.internal", |_| ());
    let wrong = Some("checkout-token-012345678");
    let mut served = Vec::new();
    for listener in LISTENERS {
        for asked in ALL {
            for (shown, token, is_checkout) in [
                (&nobody, None, false),
                (&nobody, Some(CHECKOUT), true),
                (&edge, None, true),
                (&edge, wrong, false),
            ] {
                let stream = locked.tls(listener, Some(shown), &TLS13).await.unwrap();
                let told = locked.ask(listener, stream, token, asked).await;
                assert_eq!(told, expected(listener, is_checkout, asked), "{listener:?} {token:?} {asked:?}");
                if told == Told::Served {
                    served.push(listener);
                }
            }
        }
    }
    let connect = async |listener| Client::over(locked.tls(listener, Some(&edge), &TLS13).await.unwrap());
    let (http, admin) = (connect(Listener::Http).await, connect(Listener::Admin).await);
    changed_only(http, admin, &served).await;
}

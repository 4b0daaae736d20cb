//! The reverse proxy as a policy writes it.

use std::sync::Arc;

use tidegate_server::{ManualClock, from_policy};

use super::get;
use super::upstream::well;
use crate::client::Client;
use crate::restartable_daemon::{Kept, RestartableDaemon};
use crate::world::START;

fn policy(text: &str) -> tidegate_policy::Policy {
    tidegate_policy::parse("t.yaml", text, &|_| None).unwrap().policy
}

#[tokio::test]
async fn a_policy_is_all_that_a_proxy_needs() {
    let (server, seen) = well().await;
    let text = format!(
        "listen: {{ http: 127.0.0.1:0, proxy: 127.0.0.1:0 }}
namespaces: {{ api: {{ limits: [{{ name: per-user, key: [user], rate: 1/m, burst: 2 }}] }} }}
proxy:
  upstreams: {{ app: [http://{server}] }}
  routes:
    - {{ match: {{ path: /free }}, upstream: app }}
    - {{ match: {{ path: \"/v1/*\", host: shop.example, method: [GET] }}, upstream: app, namespace: api,
        attributes: {{ user: header.x-user }} }}
"
    );
    let policy = policy(&text);
    let config = from_policy::server_config(&policy).unwrap();
    let clock = Arc::new(ManualClock::new(START));
    let handle = from_policy::serve_on(&policy, text.as_bytes(), config, clock).await.unwrap();
    let mut client = Client::connect(handle.proxy().unwrap().tcp().unwrap()).await;
    let mut statuses = Vec::new();
    for target in ["/v1/a", "/v1/b", "/v1/c", "/free", "/other"] {
        client.send(get(target, "x-user: ada\r\n")).await;
        statuses.push(client.answer().await.unwrap().status);
    }
    assert_eq!(statuses, [200, 200, 429, 200, 404]);
    assert_eq!(seen.lock().unwrap().len(), 3);
    handle.shutdown().await;
}

#[test]
fn what_the_policy_lets_through_the_proxy_takes() {
    let text = "
namespaces: { api: { limits: [{ name: all, rate: 1/s }] } }
proxy:
  upstreams:
    app: { servers: [http://a, \"http://a:1/\", \"http://[::1]:2\", http://a_b.c-d:65535], health: { path: \"/h?x=1\" } }
  trusted: [10.0.0.0/8, \"::1\", 127.0.0.1, \"fd00::/8\"]
  jwt: { unverified: true }
  routes:
    - match: { path: \"/v*/x/*\", method: [GET, M-SEARCH] }
      upstream: app
      namespace: api
      deadline: X_Odd.Name
      attributes:
        { a: header.x_odd, b: \"cookie.a$b\", c: query.ä, d: path, e: path.9999, f: method, g: host, h: jwt.a.\"b.c\".d,
          i: client_ip, j: '\"\"' }
    - { upstream: app, match: { path: / } }
    - { upstream: app, match: { path: /* }, refusal: { body: no } }
";
    let config = from_policy::server_config(&policy(text)).unwrap();
    assert_eq!(config.proxying.settings().routes.len(), 3);
}

#[tokio::test]
async fn a_reload_sends_the_next_request_elsewhere_and_one_with_problems_does_not() {
    let (one, one_seen) = well().await;
    let (other, other_seen) = well().await;
    let to = |server: &str, upstream: &str| {
        format!(
            "  api: {{ limits: [] }}\nlisten: {{ proxy: 127.0.0.1:0 }}
proxy: {{ upstreams: {{ app: [http://{server}] }}, routes: [{{ upstream: {upstream}, namespace: api }}] }}\n"
        )
    };
    let daemon = RestartableDaemon::start(Kept::Memory, &to(&one.to_string(), "app"), START).await;
    let mut client = Client::connect(daemon.proxy()).await;
    assert_eq!(client.get("/").await.status, 200);
    assert_eq!(daemon.reload(&to(&other.to_string(), "app")).await, None);
    assert_eq!(client.get("/").await.status, 200, "on the same connection");
    assert_eq!((one_seen.lock().unwrap().len(), other_seen.lock().unwrap().len()), (1, 1));
    let problems = daemon.reload(&to(&one.to_string(), "apq")).await.unwrap();
    assert!(problems.contains("did you mean app?"), "{problems}");
    assert_eq!(client.get("/").await.status, 200);
    assert_eq!((one_seen.lock().unwrap().len(), other_seen.lock().unwrap().len()), (1, 2));
}

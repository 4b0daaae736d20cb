//! The reverse proxy, before servers that behave and servers that do not. Bytes are compared where
//! they matter.

mod answers;
mod bodies;
mod cancellation;
mod connection_header;
mod forward;
mod hostile;
mod hosts;
mod http2;
mod ipv6;
mod latency;
pub(crate) mod log;
mod policy;
mod proxy_protocol;
mod queue;
mod reused_connections;
mod stalled_readers;
mod store;
mod streams;
mod tls;
mod tokens;
mod true_cost;
mod unix;
mod untrusted_headers;
mod upgrades;
pub(crate) mod upstream;

use std::net::SocketAddr;
use std::time::Duration;

use tidegate_core::algorithm::Concurrency;
use tidegate_core::{Algorithm, Limit};
use tidegate_engine::NamespaceConfig;
use tidegate_policy::policy::proxy::{Proxy, Route, Upstream};
use tidegate_server::{ListenerRole, ProxyConfig};
use tidegate_test_support::eventually;

use crate::client::{Answer, Client};
use crate::world::{World, api, loopback};

/// `api` and `parallel`: one request at a time for each user.
fn namespaces() -> [NamespaceConfig; 2] {
    let one = Algorithm::Concurrency(Concurrency::new(1, Duration::from_secs(30)).unwrap());
    let parallel = NamespaceConfig::new("parallel", [Limit::new("one", one).key(["user"])]);
    [api(), parallel]
}

/// A route that takes everything to `app`, with the user in `x-user`.
pub(crate) fn route(namespace: &str) -> Route {
    let mut route = Route::new("all", "app");
    route.namespace = Some(namespace.to_owned());
    let user = ("user".to_owned(), "header.x-user".parse().unwrap());
    route.attributes = vec![user];
    route
}

pub(crate) fn to(servers: &[SocketAddr], route: Route) -> Proxy {
    let urls = servers.iter().map(|address| format!("http://{address}").parse().unwrap());
    let mut config = Proxy::default();
    config.upstreams.push(Upstream::new("app", urls));
    config.routes.push(route);
    config
}

async fn world(config: Proxy) -> World {
    let mut server = loopback();
    server.listen(ListenerRole::Proxy, "127.0.0.1:0".parse().unwrap());
    server.proxying = ProxyConfig::open(config).unwrap();
    World::with(namespaces(), server).await
}

impl World {
    fn proxy(&self) -> SocketAddr {
        self.handle.proxy().unwrap().tcp().unwrap()
    }

    async fn proxied(&self) -> Client {
        Client::connect(self.proxy()).await
    }

    /// One GET on a connection of its own.
    async fn through(&self, target: &str, headers: &str) -> Answer {
        let mut client = self.proxied().await;
        client.send(get(target, headers)).await;
        client.answer().await.expect("an answer")
    }

    /// Waits until no permit is held and no request waits.
    async fn settled(&self) {
        eventually("no permit is held and no request waits", async || {
            self.handle.proxy_in_flight() == 0 && self.handle.proxy_waiting() == 0
        })
        .await;
    }

    /// Waits until a request is passed on.
    async fn until_in_flight(&self) {
        eventually("a request is in flight", async || self.handle.proxy_in_flight() > 0).await;
    }

    /// Whether a user of `parallel` has its permit.
    async fn is_free(&self, user: &str) -> bool {
        let body = format!(r#"{{"namespace":"parallel","attributes":{{"user":"{user}"}},"peek":true}}"#);
        let answer = self.post("/v1/check", &body).await;
        answer.status == 200
    }
}

/// `headers` end with a line break each.
pub(crate) fn get(target: &str, headers: &str) -> String {
    format!("GET {target} HTTP/1.1\r\nhost: shop.example\r\n{headers}\r\n")
}

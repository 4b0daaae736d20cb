//! Addresses as attributes: blanks around one do not make another caller of it, at any protocol.

use tidegate_core::Limit;
use tidegate_engine::NamespaceConfig;
use tidegate_policy::policy::proxy::Route;
use tidegate_server::{ListenerRole, ProxyConfig};

use crate::client::{Answer, Client};
use crate::grpc::{Envoy, descriptor, request};
use crate::proxy::upstream::well;
use crate::proxy::{get, route, to};
use crate::resp;
use crate::world::{World, bucket, loopback};

const MOST: u64 = 6;

fn per_address() -> [Limit; 1] {
    [bucket("per-address", 1, MOST).key(["ip"])]
}

fn by_header() -> Route {
    let mut route = route("api");
    route.attributes = vec![("ip".to_owned(), "header.x-address".parse().unwrap())];
    route
}

/// Every protocol, before a server.
async fn world() -> World {
    let mut config = loopback();
    let free = || "127.0.0.1:0".parse().unwrap();
    for role in [ListenerRole::Proxy, ListenerRole::Grpc, ListenerRole::Resp] {
        config.listen(role, free());
    }
    let (server, _) = well().await;
    config.proxying = ProxyConfig::open(to(&[server], by_header())).unwrap();
    World::with([NamespaceConfig::new("api", per_address())], config).await
}

#[tokio::test]
async fn an_address_with_blanks_around_it_is_the_same_caller_everywhere() {
    let world = world().await;
    let check = async |ip: &str| {
        let body = format!(r#"{{"namespace":"api","attributes":{{"ip":"{ip}"}}}}"#);
        world.post("/v1/check", &body).await
    };
    assert_eq!(check("10.0.0.1").await.json()["limits"][0]["remaining"], 5);
    assert_eq!(check(" 10.0.0.1\\t").await.json()["limits"][0]["remaining"], 4);
    let authorized = world.client().await.get("/v1/authorize?namespace=api&ip=+10.0.0.1%20").await;
    assert_eq!(authorized.status, 200, "{authorized:?}");
    let mut envoy = Envoy::at(world.handle.grpc().unwrap().tcp().unwrap()).await;
    let answer = envoy.call(request("api", &[descriptor(&[("ip", "10.0.0.1 ")])])).await.unwrap();
    assert_eq!(answer.statuses[0].limit_remaining, 2);
    let mut redis = resp::Client::connect(world.handle.resp().unwrap().tcp().unwrap()).await;
    let reply = redis.ask_for(&["TG.CHECK", "api", "ip", " 10.0.0.1"]).await;
    assert!(reply.contains("remaining, 1"), "{reply}");
    let mut client = Client::connect(world.handle.proxy().unwrap().tcp().unwrap()).await;
    client.send(get("/", "x-address: \t10.0.0.1 \r\n")).await;
    assert_eq!(client.answer().await.unwrap().status, 200);
    assert_eq!(check("10.0.0.1").await.status, 429, "all were one caller");
}

#[tokio::test]
async fn an_explanation_says_that_a_value_is_no_address() {
    let world = world().await;
    let explained = async |ip: &str| -> Answer {
        let body = format!(r#"{{"namespace":"api","attributes":{{"ip":"{ip}"}}}}"#);
        world.post("/v1/explain", &body).await
    };
    let because = |answer: &Answer| answer.json()["limits"][0]["because"].as_str().unwrap().to_owned();
    assert_eq!(because(&explained(" 10.0.0.1").await), "6 of 6 left, nothing is used");
    let told = because(&explained("10.0.0.1, 10.0.0.2").await);
    assert_eq!(told, "6 of 6 left, nothing is used; ip is no address and counts as written");
}

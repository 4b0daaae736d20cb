//! From the head of a request to the attributes that limits count by.

use http::Request;
use tidegate_core::{Cost, Limit};
use tidegate_tower::{Head, extract};
use tower::{Layer, ServiceExt, service_fn};

use crate::world::{SECOND, World, bucket, builder, prompt};

#[tokio::test]
async fn every_kind_of_extractor_names_a_counter_of_its_own() {
    let keys = ["org", "method", "app", "region", "plan"];
    let limit = Limit::new("rate", bucket(1, SECOND, 1)).key(keys);
    let world = World::new(builder([limit])).with(|layer| {
        layer
            .attribute("org", extract::segment(1))
            .attribute("method", extract::method())
            .attribute("app", extract::query("app"))
            .attribute("region", extract::constant("eu"))
            .attribute("plan", extract::extension(|plan: &u8| Some(plan.to_string())))
    });
    let ask = async |method: &str, uri: &str, plan: u8| {
        let request = Request::builder().method(method).uri(uri).extension(plan).body(()).unwrap();
        world.layer.layer(service_fn(prompt)).oneshot(request).await.unwrap().status().as_u16()
    };
    assert_eq!(ask("GET", "/orgs/acme?app=x", 1).await, 200);
    assert_eq!(ask("GET", "/orgs/acme?app=x", 1).await, 429);
    assert_eq!(ask("GET", "/orgs/%61cme?app=%78", 1).await, 429, "the same in another spelling");
    assert_eq!(ask("PUT", "/orgs/acme?app=x", 1).await, 200);
    assert_eq!(ask("GET", "/orgs/else?app=x", 1).await, 200);
    assert_eq!(ask("GET", "/orgs/acme?app=y", 1).await, 200);
    assert_eq!(ask("GET", "/orgs/acme?app=x", 2).await, 200);
    for _ in 0..2 {
        assert_eq!(ask("GET", "/orgs/acme", 1).await, 200, "a limit that lacks an attribute is skipped");
    }
}

#[tokio::test]
async fn a_request_weighs_what_the_service_says() {
    let limit = Limit::new("rate", bucket(10, SECOND, 10)).key(["user"]);
    let weight =
        |head: &Head<'_>| if head.method == http::Method::POST { Cost::new(7).unwrap() } else { Cost::ONE };
    let world = World::new(builder([limit])).with(|layer| layer.cost(weight));
    let ask = async |method: &str| {
        let request = Request::builder().method(method).header("x-user", "ada").body(()).unwrap();
        world.layer.layer(service_fn(prompt)).oneshot(request).await.unwrap().status().as_u16()
    };
    assert_eq!((ask("POST").await, ask("POST").await, ask("GET").await), (200, 429, 200));
}

//! The gateway subrequest.

use tidegate_server::{AuthorizeHeaders, ServerConfig};

use crate::world::{World, api, loopback};

fn config() -> ServerConfig {
    let mut config = loopback();
    config.authorize_headers = AuthorizeHeaders::new([("x-user", "user"), ("x-tenant", "tenant")]).unwrap();
    config
}

#[tokio::test]
async fn a_gateway_gets_status_and_headers_and_an_empty_body() {
    let world = World::with([api()], config()).await;
    let mut client = world.client().await;
    let admitted = client.get("/v1/authorize?namespace=api&user=ada").await;
    assert_eq!(
        admitted.shown(),
        "200\nratelimit-policy: \"per-user\";q=3;w=3\nratelimit: \"per-user\";r=2;t=1\ncontent-length: 0\n\n"
    );
    for _ in 0..2 {
        client.get("/v1/authorize?namespace=api&user=ada").await;
    }
    let refused = client.get("/v1/authorize?namespace=api&user=ada").await;
    assert_eq!(
        refused.shown(),
        concat!(
            "429\nretry-after: 1\nratelimit-policy: \"per-user\";q=3;w=3\nratelimit: \"per-user\";r=0;t=1\n",
            "x-tidegate-reason: rate_exceeded\nx-tidegate-limit: per-user\ncontent-length: 0\n\n"
        )
    );
    let as_nginx_takes_it = client.get("/v1/authorize?namespace=api&user=ada&deny_status=403").await;
    assert_eq!((as_nginx_takes_it.status, as_nginx_takes_it.header("retry-after")), (403, Some("1")));
}

#[tokio::test]
async fn every_method_is_taken_and_bodies_are_left_alone() {
    let world = World::with([api()], config()).await;
    let mut client = world.client().await;
    let target = "/v1/authorize?namespace=api&account=1";
    assert_eq!(client.head(target).await.status, 200);
    for method in ["GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "PROPFIND"] {
        let body = "not { json \u{0}";
        let length = body.len();
        client
            .send(format!("{method} {target} HTTP/1.1\r\nhost: t\r\ncontent-length: {length}\r\n\r\n{body}"))
            .await;
        assert_eq!(client.answer().await.unwrap().status, 200, "{method}");
    }
}

#[tokio::test]
async fn configured_headers_are_attributes_and_win_over_the_query() {
    let world = World::with([api()], config()).await;
    let mut client = world.client().await;
    let mut ask = async |query: &str, header: &str| {
        client.send(format!("GET /v1/authorize?{query} HTTP/1.1\r\nhost: t\r\n{header}\r\n\r\n")).await;
        client.answer().await.unwrap()
    };
    for _ in 0..3 {
        assert_eq!(ask("namespace=api&user=someone-else", "x-user: ada").await.status, 200);
    }
    assert_eq!(ask("namespace=api&user=someone-else", "X-User: ada").await.status, 429);
    assert_eq!(ask("namespace=api&user=someone-else", "x-other: ada").await.status, 200);
    let twice = ask("namespace=api", "x-user: ada\r\nx-user: bob").await;
    assert_eq!((twice.status, twice.json()["error"].as_str()), (400, Some("malformed_query")));
    let none = ask("user=ada", "x-user: ada").await;
    assert_eq!((none.status, none.json()["error"].as_str()), (400, Some("malformed_query")));
    assert_eq!(ask("namespace=nope", "x-user: ada").await.status, 404);
}

#[tokio::test]
async fn a_query_without_a_namespace_means_the_configured_one() {
    let mut config = config();
    config.authorize_namespace = Some("api".to_owned());
    let world = World::with([api()], config).await;
    let mut client = world.client().await;
    assert_eq!(client.get("/v1/authorize?user=ada").await.header("ratelimit"), Some(r#""per-user";r=2;t=1"#));
    assert_eq!(client.get("/v1/authorize").await.status, 200);
}

#[tokio::test]
async fn a_permit_comes_as_a_header() {
    let world = World::with([api()], config()).await;
    let mut client = world.client().await;
    let admitted = client.get("/v1/authorize?namespace=api&tenant=acme").await;
    let permit = admitted.header("x-tidegate-permit").unwrap().to_owned();
    let released = client.post("/v1/release", &format!(r#"{{"permit":"{permit}"}}"#)).await;
    assert_eq!(released.status, 200);
}

#[tokio::test]
async fn an_authorized_request_takes_no_place_in_flight() {
    let world = World::in_flight(1, config()).await;
    let mut client = world.client().await;
    for user in ["ada", "bob", "cyd"] {
        let admitted = client.get(&format!("/v1/authorize?namespace=api&user={user}")).await;
        assert_eq!((admitted.status, admitted.header("x-tidegate-permit")), (200, None), "{user}");
    }
    // A check has a permit to settle, so it keeps its place until then.
    let checked = world.check(r#"{"user":"dan"}"#).await;
    let permit = checked.json()["permit"].as_str().unwrap().to_owned();
    assert_eq!(world.check(r#"{"user":"eve"}"#).await.status, 503);
    // No place is free, and none is needed.
    assert_eq!(client.get("/v1/authorize?namespace=api&user=eve").await.status, 200);
    assert_eq!(world.post("/v1/release", &format!(r#"{{"permit":"{permit}"}}"#)).await.status, 200);
    assert_eq!(client.get("/v1/authorize?namespace=api&user=eve").await.status, 200);
}

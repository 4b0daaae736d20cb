//! `GET /v1/blocks` and `GET /v1/permits`.

use std::time::Duration;

use serde_json::{Value, json};
use tidegate_engine::NamespaceConfig;

use crate::restartable_daemon::{Kept, RestartableDaemon};
use crate::world::{START, World, fixed, loopback};

async fn get(world: &World, path: &str) -> Value {
    let answer = world.client().await.get(path).await;
    assert_eq!(answer.status, 200, "{path}: {answer:?}");
    answer.json()
}

/// Limit and key of each block.
fn keys(blocks: &Value) -> Vec<String> {
    let blocks = blocks["blocks"].as_array().unwrap();
    blocks.iter().map(|one| format!("{} {}", one["limit"].as_str().unwrap(), one["key"])).collect()
}

#[tokio::test]
async fn blocks_by_operations_and_by_limits_are_listed_until_they_end_or_are_lifted() {
    let limits = vec![
        fixed("per-user", 100, Duration::from_mins(1)).key(["user"]),
        fixed("strict", 1, Duration::from_mins(1)).key(["app"]).block_on_exceed(Duration::from_mins(10)),
    ];
    let world = World::with([NamespaceConfig::new("api", limits)], loopback()).await;
    let block = async |user: &str, ms: u64| {
        let body = format!(
            r#"{{"namespace":"api","attributes":{{"user":"{user}"}},"limit":"per-user","for_ms":{ms}}}"#
        );
        assert_eq!(world.post("/v1/block", &body).await.status, 200);
    };
    block("ada", 60_000).await;
    block("bob", 120_000).await;
    for _ in 0..2 {
        world.check(r#"{"app":"shop"}"#).await;
    }
    let blocks = get(&world, "/v1/blocks").await;
    let (ada, bob, shop) =
        (r#"per-user {"user":"ada"}"#, r#"per-user {"user":"bob"}"#, r#"strict {"app":"shop"}"#);
    assert_eq!(keys(&blocks), [shop, bob, ada], "the one that ends last first");
    assert_eq!(
        blocks["blocks"][0],
        json!({"namespace": "api", "limit": "strict", "key": {"app": "shop"}, "until": "2026-11-20T23:10:00Z",
            "remaining_ms": 600_000, "why": "refusal", "seen_at": "2026-11-20T23:00:00Z"})
    );
    assert_eq!(blocks["blocks"][1]["why"], "operation");
    assert_eq!((&blocks["more"], &blocks["unlisted"]), (&json!(0), &json!(0)));
    assert_eq!(keys(&get(&world, "/v1/blocks?limit=per-user").await), [bob, ada]);
    assert_eq!(keys(&get(&world, "/v1/blocks?key=user=ada&namespace=api").await), [ada]);
    let first = get(&world, "/v1/blocks?n=1").await;
    assert_eq!((keys(&first), &first["more"]), (vec![shop.to_owned()], &json!(2)));
    block("bob", 0).await;
    assert_eq!(keys(&get(&world, "/v1/blocks").await), [shop, ada], "a lifted block is gone");
    world.post("/v1/reset", r#"{"namespace":"api","attributes":{"app":"shop"}}"#).await;
    assert_eq!(keys(&get(&world, "/v1/blocks").await), [ada], "a reset lifts the block");
    world.clock.advance(Duration::from_mins(1));
    assert_eq!(keys(&get(&world, "/v1/blocks").await), [""; 0], "a block that has ended is gone");
    let mut client = world.client().await;
    for (query, status) in
        [("n=x", 400), ("nmaespace=api", 400), ("namespace=no", 404), ("namespace=api&limit=no", 404)]
    {
        assert_eq!(client.get(&format!("/v1/blocks?{query}")).await.status, status, "{query}");
    }
}

/// People read them, so no instant has more than milliseconds.
#[tokio::test]
async fn instants_are_shown_in_milliseconds() {
    let limits = vec![fixed("per-user", 100, Duration::from_mins(1)).key(["user"])];
    let world = World::with([NamespaceConfig::new("api", limits)], loopback()).await;
    world.clock.advance(Duration::from_nanos(123_456_789));
    let ada = r#"{"namespace":"api","attributes":{"user":"ada"}"#;
    let blocked =
        world.post("/v1/block", &format!(r#"{ada},"limit":"per-user","for_ms":60000}}"#)).await.json();
    assert_eq!(blocked["blocked_until"], "2026-11-20T23:01:00.123Z");
    assert_eq!(get(&world, "/v1/blocks").await["blocks"][0]["until"], blocked["blocked_until"]);
    let body = r#"{"numbers":{"limit":4},"expires_ms":60000,"reason":"r"}"#;
    let set = world.client().await.request("PUT", "/v1/overrides/api/per-user?user=bob", body).await.json();
    assert_eq!(
        (&set["until"], &set["set_at"]),
        (&json!("2026-11-20T23:01:00.123Z"), &json!("2026-11-20T23:00:00.123Z"))
    );
    let history = get(&world, "/v1/overrides").await["history"][0]["at"].clone();
    assert_eq!(history, "2026-11-20T23:00:00.123Z");
    let bob = r#"{"namespace":"api","attributes":{"user":"bob"}}"#;
    let explained = world.post("/v1/explain", bob).await.json();
    assert_eq!(explained["limits"][0]["counter"]["until"], set["until"], "{explained}");
    world.post("/v1/reserve", r#"{"namespace":"api","attributes":{"user":"bob"},"expires_ms":60000}"#).await;
    let permits = get(&world, "/v1/permits").await;
    assert_eq!(permits["permits"][0]["expires"], "2026-11-20T23:01:00.123Z", "{permits}");
}

#[tokio::test]
async fn blocks_and_permits_are_listed_after_a_reload_and_a_restart() {
    let namespaces = "  api: { limits: [\
         { name: hourly, key: [user], fixed: { limit: 100, window: 1h } }, \
         { name: quick, key: [app], match: { method: GET }, rate: 1000/s } ] }\n";
    let mut daemon = RestartableDaemon::start(Kept::Files, namespaces, START).await;
    let block = r#","limit":"quick","for_ms":600000"#;
    assert_eq!(daemon.ask("/v1/block", r#"{"app":"x","method":"GET"}"#, block).await.status, 200);
    let block = r#","limit":"hourly","for_ms":900000"#;
    assert_eq!(daemon.ask("/v1/block", r#"{"user":"eve"}"#, block).await.status, 200);
    let (eve, x) = (r#"hourly {"user":"eve"}"#, r#"quick {"app":"x"}"#);
    let reserve = r#","cost":10,"expires_ms":3600000"#;
    assert_eq!(daemon.ask("/v1/reserve", r#"{"user":"ada"}"#, reserve).await.status, 200);
    let quick = daemon.ask("/v1/reserve", r#"{"app":"y","method":"GET"}"#, reserve).await;
    assert_eq!(quick.status, 200, "{quick:?}");
    assert_eq!(daemon.reload(&namespaces.replace("1000/s", "999/s")).await, None);
    let permits = daemon.get("/v1/permits?namespace=api").await.json();
    let limits = |index: usize| &permits["permits"][index]["limits"];
    assert_eq!(
        (limits(0), limits(1)),
        (&json!(["hourly"]), &json!(["quick"])),
        "a reload changes nothing: {permits}"
    );
    assert_eq!(keys(&daemon.get("/v1/blocks").await.json()), [eve, x]);
    daemon.restart().await;
    let blocks = daemon.get("/v1/blocks").await.json();
    assert_eq!(keys(&blocks), [x], "the store knows the other block and not its key: {blocks}");
    assert_eq!(daemon.ask("/v1/check", r#"{"user":"eve"}"#, "").await.json()["reason"], "blocked");
    let blocks = daemon.get("/v1/blocks").await.json();
    assert_eq!(
        (keys(&blocks), &blocks["blocks"][0]["why"]),
        (vec![eve.to_owned(), x.to_owned()], &json!("refusal"))
    );
    let permits = daemon.get("/v1/permits?namespace=api").await.json();
    let permit = &permits["permits"][0];
    assert_eq!((&permits["total"], &permit["cost"], &permit["limits"]), (&json!(1), &json!(10), &json!([])));
    assert!(permit.get("age_ms").is_none() && permit["remaining_ms"] == 3_600_000, "{permits}");
}

#[tokio::test]
async fn permits_are_listed_by_pages_without_the_secret_part_of_their_names() {
    let world = World::api().await;
    let mut given = Vec::new();
    for index in 0..3 {
        let admitted = world.check(&format!(r#"{{"tenant":"t{index}"}}"#)).await.json();
        given.push(admitted["permit"].as_str().unwrap().to_owned());
        world.clock.advance(Duration::from_secs(1));
    }
    let permits = get(&world, "/v1/permits").await;
    assert_eq!(
        permits["permits"][0],
        json!({"id": &given[0][..8], "namespace": "api", "limits": ["parallel"], "cost": 1, "age_ms": 3000,
            "expires": "2026-11-20T23:00:30Z", "remaining_ms": 27_000})
    );
    assert_eq!((&permits["total"], &permits["max"], permits.get("next")), (&json!(3), &json!(8), None));
    assert!(!given.iter().any(|id| permits.to_string().contains(id.as_str())));
    let ids = |page: &Value| {
        let permits = page["permits"].as_array().unwrap();
        permits.iter().map(|one| one["id"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let first = get(&world, "/v1/permits?n=2").await;
    let next = first["next"].as_u64().unwrap();
    let second = get(&world, &format!("/v1/permits?n=2&after={next}")).await;
    let all: Vec<_> = ids(&first).into_iter().chain(ids(&second)).collect();
    assert_eq!(all, given.iter().map(|id| id[..8].to_owned()).collect::<Vec<_>>());
    assert!(second.get("next").is_none(), "{second}");
    world.post("/v1/release", &format!(r#"{{"permit":"{}"}}"#, given[0])).await;
    assert_eq!(get(&world, "/v1/permits?namespace=api").await["total"], 2);
    world.clock.advance(Duration::from_secs(30));
    assert_eq!(get(&world, "/v1/permits").await["total"], 0, "all have expired");
    let mut client = world.client().await;
    for (query, status) in [("after=x", 400), ("n=0", 400), ("cursor=1", 400), ("namespace=no", 404)] {
        assert_eq!(client.get(&format!("/v1/permits?{query}")).await.status, status, "{query}");
    }
}

//! Callers of every door that take all places of a resource and settle nothing.

use std::time::Duration;

use serde_json::json;
use tokio::net::TcpStream;

use super::Daemon;
use crate::client::post;
use crate::resp;

const SHARED: &str = "
namespaces:
  shop: { limits: [] }
  blog: { limits: [] }
resources:
  app: { concurrency: 20, queue: { wait: 60s } }
";

#[tokio::test]
async fn issue_39_a_place_of_check_reserve_and_resp_expires_and_its_settlement_says_so() {
    for door in ["/v1/check", "/v1/reserve", "resp"] {
        let daemon = Daemon::start(SHARED).await;
        let mut held = Vec::new();
        let mut resp = resp::Client::over(
            TcpStream::connect(daemon.handle.resp().unwrap().tcp().unwrap()).await.unwrap(),
        );
        for _ in 0..20 {
            if door == "resp" {
                let answer = resp.ask("TG.CHECK blog RELEASE resource app").await;
                let permit = answer.split("permit, ").nth(1).unwrap_or_else(|| panic!("{answer}"));
                held.push(permit.trim_end_matches(']').to_owned());
            } else {
                let answer = daemon.post(door, &json!({"namespace": "blog", "resource": "app"})).await.json();
                held.push(answer["permit"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned());
            }
        }
        let urgent =
            json!({"namespace": "shop", "resource": "app", "class": "critical_plus", "wait_ms": 1500});
        let mut waiting = daemon.client().await;
        waiting.send(post("/v1/check", &urgent.to_string())).await;
        daemon.until_waiting(1).await;
        daemon.clock.advance(Duration::from_millis(1100));
        let admitted = waiting.answer().await.unwrap();
        assert_eq!(admitted.status, 200, "{door}: {admitted:?}");
        let expired = daemon.series(r#"tidegate_resource_places_expired_total{resource="app"}"#).await;
        assert_eq!(expired, "1", "{door}");
        let mut settled = Vec::new();
        for permit in &held[..2] {
            let body = json!({ "permit": permit });
            settled.push(daemon.post("/v1/settle", &body).await.json());
        }
        assert_eq!(settled, [json!({"permit": "settled", "place": "expired"}), json!({"permit": "settled"})]);
        let in_flight = daemon.series(r#"tidegate_resource_in_flight{resource="app"}"#).await;
        assert_eq!(in_flight, "19", "{door}: the place went over to the other namespace");
        let again = daemon.post("/v1/settle", &json!({ "permit": held[0] })).await;
        assert_eq!(again.status, 404, "{again:?}");
    }
}

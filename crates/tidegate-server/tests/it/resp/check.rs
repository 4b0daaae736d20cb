//! `TG.CHECK`: the limits of the policy over RESP.

use std::time::Duration;

use super::world;

#[tokio::test]
async fn a_check_says_what_is_left_or_which_limit_refuses_why_and_for_how_long() {
    let (world, mut client) = world().await;
    for remaining in [2, 1, 0] {
        let answer = format!("[decision, admit, remaining, {remaining}]");
        assert_eq!(client.ask("TG.CHECK api user ada").await, answer);
    }
    world.clock.advance(Duration::from_micros(1500));
    assert_eq!(
        client.ask("TG.CHECK api user ada").await,
        "[decision, refuse, reason, rate_exceeded, limit, per-user, remaining, 0, \
         retry_after_ms, 999, detail, limit \\\"per-user\\\" is used up for user=ada: 0 of 3 units left; come back in 999 ms]"
    );
    assert_eq!(
        client.ask("TG.CHECK api COST 9 user ada").await,
        "[decision, refuse, reason, cost_exceeds_limit, limit, per-user, remaining, 0, retry_after_ms, null, \
         detail, the cost is larger than limit \\\"per-user\\\" ever admits at once, 3 units; the same request will never be admitted]"
    );
    client.ask("HELLO 3").await;
    assert_eq!(
        client.ask("tg.check api user ada").await,
        "{decision, refuse, reason, rate_exceeded, limit, per-user, remaining, 0, \
         retry_after_ms, 999, detail, limit \\\"per-user\\\" is used up for user=ada: 0 of 3 units left; come back in 999 ms}"
    );
    assert_eq!(client.ask("tg.check api cost 2 user grace").await, "{decision, admit, remaining, 1}");
    assert_eq!(client.ask("tg.check api app one").await, "{decision, admit, remaining, 4}");
    assert_eq!(client.ask("tg.check api").await, "{decision, admit, remaining, null}", "no limit applies");
}

#[tokio::test]
async fn a_cost_of_zero_only_looks() {
    let (_world, mut client) = world().await;
    for _ in 0..5 {
        assert_eq!(client.ask("TG.CHECK api COST 0 user ada").await, "[decision, admit, remaining, 3]");
    }
    assert_eq!(client.ask("TG.CHECK api COST 3 user ada").await, "[decision, admit, remaining, 0]");
    assert!(
        client
            .ask("TG.CHECK api COST 0 user ada")
            .await
            .starts_with("[decision, refuse, reason, rate_exceeded")
    );
}

#[tokio::test]
async fn a_permit_is_lent_until_it_is_released() {
    let (_world, mut client) = world().await;
    let mut permits = Vec::new();
    for _ in 0..2 {
        let answer = client.ask("TG.CHECK api tenant t").await;
        let permit = answer.strip_prefix("[decision, admit, remaining, ").unwrap();
        permits.push(permit.split_once(", permit, ").unwrap().1.trim_end_matches(']').to_owned());
    }
    let refused = client.ask("TG.CHECK api tenant t").await;
    assert!(
        refused.starts_with("[decision, refuse, reason, concurrency_exceeded, limit, parallel"),
        "{refused}"
    );
    assert_eq!(client.ask(&format!("TG.RELEASE {}", permits[0])).await, "+OK");
    assert!(client.ask("TG.CHECK api tenant t").await.starts_with("[decision, admit"));
    let again = client.ask(&format!("TG.RELEASE {}", permits[0])).await;
    assert!(again.starts_with("-ERR ") && again.contains("settle or release each permit once"), "{again}");
    assert!(client.ask("TG.RELEASE x").await.starts_with("-ERR "));
}

#[tokio::test]
async fn what_cannot_be_checked_is_told_with_what_to_do() {
    let (_world, mut client) = world().await;
    for (line, error) in [
        ("TG.CHECK nosuch user ada", "\"nosuch\""),
        ("TG.CHECK api user", "attribute \"user\" has no value; write attributes as name value"),
        ("TG.CHECK api COST x user ada", "COST \"x\" is not a whole number; write it in digits"),
        ("TG.CHECK api COST -1 user ada", "COST -1 is negative; use 0 or more"),
        ("TG.CHECK api user ada user grace", "duplicate attribute \"user\"; send it once"),
        ("TG.CHECK api  ada", "an attribute has an empty name"),
        ("TG.CHECK", "wrong number of arguments for 'tg.check' command; write TG.CHECK namespace"),
    ] {
        let answer = client.ask(line).await;
        assert!(answer.starts_with("-ERR ") && answer.contains(error), "{line}: {answer}");
    }
    let answer = client.ask_for(&[&b"TG.CHECK"[..], b"api", b"user", b"\xff"]).await;
    assert_eq!(
        answer,
        "-ERR the value of attribute \"user\", \"\\xff\", is not UTF-8; send text, or a hash in digits"
    );
    let long = "x".repeat(1025);
    let answer = client.ask_for(&["TG.CHECK", "api", "user", &long]).await;
    assert!(answer.contains("longer than 1024 bytes"), "{answer}");
    let mut many = vec!["TG.CHECK".to_owned(), "api".to_owned()];
    many.extend((0..65).flat_map(|index| [format!("a{index}"), "v".to_owned()]));
    assert!(client.ask_for(&many).await.contains("more than 64 attributes"));
    assert_eq!(
        client.ask("TG.CHECK api user ada").await,
        "[decision, admit, remaining, 2]",
        "nothing was charged"
    );
}

#[tokio::test]
async fn http_and_resp_charge_the_same_counter() {
    let (world, mut client) = world().await;
    assert_eq!(client.ask("TG.CHECK api user ada").await, "[decision, admit, remaining, 2]");
    assert_eq!(world.check(r#"{"user":"ada"}"#).await.json()["remaining"], 1);
    assert_eq!(client.ask("TG.CHECK api user ada").await, "[decision, admit, remaining, 0]");
    let refused = world.check(r#"{"user":"ada"}"#).await.json();
    assert_eq!(
        client.ask("TG.CHECK api user ada").await,
        format!(
            "[decision, refuse, reason, {}, limit, {}, remaining, {}, retry_after_ms, {}, detail, {}]",
            refused["reason"].as_str().unwrap(),
            refused["limit"].as_str().unwrap(),
            refused["remaining"],
            refused["retry_after_ms"],
            refused["detail"].as_str().unwrap().escape_default()
        )
    );
}

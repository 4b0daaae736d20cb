//! `CL.THROTTLE` as redis-cell answers, without what it gets wrong.

use std::time::Duration;

use super::{Client, Reply, framed, words, world};
use crate::world::{World, bucket};

async fn ask_all(client: &mut Client, asked: &[(&str, &str)]) {
    for (line, answer) in asked {
        assert_eq!(client.ask(line).await, *answer, "{line}");
    }
}

#[tokio::test]
async fn a_bucket_is_drawn_down_and_refills_as_redis_cell_has_it() {
    let (world, mut client) = world().await;
    // One each two seconds, fifteen more at once.
    for used in 1..=16 {
        let answer = format!("[0, 16, {}, -1, {}]", 16 - used, used * 2);
        assert_eq!(client.ask("CL.THROTTLE user123 15 30 60").await, answer);
    }
    assert_eq!(client.ask("CL.THROTTLE user123 15 30 60").await, "[1, 16, 0, 2, 32]");
    world.clock.advance(Duration::from_millis(500));
    assert_eq!(client.ask("CL.THROTTLE user123 15 30 60").await, "[1, 16, 0, 2, 32]", "1.5 s and 31.5 s, up");
    world.clock.advance(Duration::from_millis(1500));
    assert_eq!(client.ask("CL.THROTTLE user123 15 30 60").await, "[0, 16, 0, -1, 32]");
    world.clock.advance(Duration::from_secs(32));
    assert_eq!(client.ask("CL.THROTTLE user123 15 30 60 0").await, "[0, 16, 16, -1, 0]");
}

#[tokio::test]
async fn waiting_as_told_is_enough() {
    let (world, mut client) = world().await;
    for line in ["CL.THROTTLE a 0 3 1", "CL.THROTTLE b 0 7 2"] {
        assert!(client.ask(line).await.starts_with("[0, 1, 0, -1, "));
        assert_eq!(client.ask(line).await, "[1, 1, 0, 1, 1]");
        world.clock.advance(Duration::from_secs(1));
        assert!(client.ask(line).await.starts_with("[0, 1, 0, -1, "));
    }
    let line = "TG.THROTTLE c 0 3 1";
    assert_eq!(client.ask(line).await, "[0, 1, 0, -1, 334]");
    assert_eq!(client.ask(line).await, "[1, 1, 0, 334, 334]", "a third of a second in milliseconds, up");
    world.clock.advance(Duration::from_millis(333));
    assert_eq!(client.ask(line).await, "[1, 1, 0, 1, 1]");
    world.clock.advance(Duration::from_millis(1));
    assert_eq!(client.ask(line).await, "[0, 1, 0, -1, 334]");
}

#[tokio::test]
async fn a_quantity_of_zero_only_looks() {
    let (_world, mut client) = world().await;
    ask_all(
        &mut client,
        &[
            ("CL.THROTTLE k 4 1 10 0", "[0, 5, 5, -1, 0]"),
            ("CL.THROTTLE k 4 1 10 3", "[0, 5, 2, -1, 30]"),
            ("CL.THROTTLE k 4 1 10 0", "[0, 5, 2, -1, 30]"),
            ("CL.THROTTLE k 4 1 10 2", "[0, 5, 0, -1, 50]"),
            ("CL.THROTTLE k 4 1 10 0", "[0, 5, 0, -1, 50]"),
        ],
    )
    .await;
}

#[tokio::test]
async fn a_refused_quantity_takes_nothing_and_one_that_never_fits_has_no_time_to_come_back() {
    let (_world, mut client) = world().await;
    ask_all(
        &mut client,
        &[
            ("CL.THROTTLE k 4 1 10 2", "[0, 5, 3, -1, 20]"),
            ("CL.THROTTLE k 4 1 10 4", "[1, 5, 3, 10, 20]"),
            ("CL.THROTTLE k 4 1 10 6", "[1, 5, 3, -1, 20]"),
            ("CL.THROTTLE k 4 1 10 3", "[0, 5, 0, -1, 50]"),
        ],
    )
    .await;
}

#[tokio::test]
async fn other_numbers_for_a_key_keep_when_it_will_be_full() {
    let (_world, mut client) = world().await;
    ask_all(
        &mut client,
        &[
            ("CL.THROTTLE k 9 1 1 5", "[0, 10, 5, -1, 5]"),
            ("CL.THROTTLE k 99 10 1 0", "[0, 100, 50, -1, 5]"),
            ("CL.THROTTLE k 1 1 1 0", "[1, 2, 0, 3, 5]"),
            ("CL.THROTTLE k 9 1 1 5", "[0, 10, 0, -1, 10]"),
        ],
    )
    .await;
}

/// redis-cell keeps a key for whole milliseconds, so that one which refills faster is forgotten at
/// once.
#[tokio::test]
async fn rates_above_a_thousand_a_second_are_limited() {
    let (world, mut client) = world().await;
    assert_eq!(client.ask("CL.THROTTLE k 999999 1000000 1 1000000").await, "[0, 1000000, 0, -1, 1]");
    assert_eq!(client.ask("CL.THROTTLE k 999999 1000000 1").await, "[1, 1000000, 0, 1, 1]");
    world.clock.advance(Duration::from_nanos(999));
    assert_eq!(client.ask("CL.THROTTLE k 999999 1000000 1").await, "[1, 1000000, 0, 1, 1]");
    world.clock.advance(Duration::from_nanos(1));
    assert_eq!(client.ask("CL.THROTTLE k 999999 1000000 1").await, "[0, 1000000, 0, -1, 1]");
    // The fastest there is: one a nanosecond.
    assert_eq!(client.ask("CL.THROTTLE f 0 1000000000 1").await, "[0, 1, 0, -1, 1]");
    assert_eq!(client.ask("CL.THROTTLE f 0 1000000000 1").await, "[1, 1, 0, 1, 1]");
}

/// redis-cell says 0 for less than a millisecond, which sends the client back at once.
#[tokio::test]
async fn a_wait_of_a_part_of_a_millisecond_is_never_said_to_be_none() {
    let (_world, mut client) = world().await;
    for (verb, key) in [("CL", "a"), ("TG", "b")] {
        let line = format!("{verb}.THROTTLE {key} 0 2500 1");
        assert_eq!(client.ask(&line).await, "[0, 1, 0, -1, 1]");
        assert_eq!(client.ask(&line).await, "[1, 1, 0, 1, 1]", "0.4 ms");
    }
}

#[tokio::test]
async fn negative_arguments_are_errors() {
    let (_world, mut client) = world().await;
    for (arguments, error) in [
        ("-1 1 1", "max_burst -1 is negative; use 0 or more"),
        ("1 -1 1", "count -1 is negative; use 0 or more"),
        ("1 1 -60", "period -60 is negative; use 0 or more"),
        ("1 1 1 -5", "quantity -5 is negative; use 0 or more"),
    ] {
        assert_eq!(client.ask(&format!("CL.THROTTLE k {arguments}")).await, format!("-ERR {error}"));
    }
    assert_eq!(client.ask("CL.THROTTLE k 1 1 1").await, "[0, 2, 1, -1, 1]", "and nothing was counted");
}

#[tokio::test]
async fn numbers_that_mean_nothing_are_errors_that_say_what_to_use() {
    let (_world, mut client) = world().await;
    for (arguments, error) in [
        ("1 0 1", "count 0 admits nothing; use at least 1"),
        ("1 1 0", "period 0 is no span of time; use at least 1 second"),
        ("x 1 1", "max_burst \"x\" is not a whole number; write it in digits"),
        ("1 1.5 1", "count \"1.5\" is not a whole number; write it in digits"),
        ("1 1 +1", "period \"+1\" is not a whole number; write it in digits"),
        ("1 1 1 ", "quantity \"\" is not a whole number; write it in digits"),
        ("1 1 1 -", "quantity \"-\" is not a whole number; write it in digits"),
        (
            "1 99999999999999999999 1",
            "count 99999999999999999999 is too large; use at most 9223372036854775807",
        ),
        (
            "9223372036854775808 1 1",
            "max_burst 9223372036854775808 is too large; use at most 9223372036854775807",
        ),
    ] {
        assert_eq!(client.ask(&format!("CL.THROTTLE k {arguments}")).await, format!("-ERR {error}"));
    }
    for arguments in ["1 1000000001 1", "1 1 31536001", "99999999 1 86400", "9223372036854775807 1 1"] {
        let answer = client.ask(&format!("CL.THROTTLE k {arguments}")).await;
        assert!(answer.starts_with("-ERR ") && answer.contains("; "), "{answer}");
    }
    for line in ["CL.THROTTLE k 1 1", "CL.THROTTLE", "cl.throttle k 1 1 1 1 1"] {
        assert_eq!(
            client.ask(line).await,
            "-ERR wrong number of arguments for 'cl.throttle' command; write CL.THROTTLE key max_burst count period [quantity]"
        );
    }
}

#[tokio::test]
async fn keys_are_any_bytes_and_every_byte_counts() {
    let (_world, mut client) = world().await;
    for key in [&b"\xff\xfe"[..], b"\xff", b"\r\n\0", b"", "\u{e4}".as_bytes(), b"k"] {
        for answer in ["[0, 1, 0, -1, 60]", "[1, 1, 0, 60, 60]"] {
            let asked = client.ask_for(&[b"CL.THROTTLE", key, b"0", b"1", b"60"]).await;
            assert_eq!(asked, answer, "{}", key.escape_ascii());
        }
    }
}

#[tokio::test]
async fn deleting_a_key_forgets_it_and_tells_how_many_there_were() {
    let (_world, mut client) = world().await;
    for key in ["a", "b", "c"] {
        assert_eq!(client.ask(&format!("CL.THROTTLE {key} 0 1 60")).await, "[0, 1, 0, -1, 60]");
    }
    ask_all(
        &mut client,
        &[
            ("del a never b", "2"),
            ("DEL a b", "0"),
            ("CL.THROTTLE a 0 1 60", "[0, 1, 0, -1, 60]"),
            ("CL.THROTTLE c 0 1 60", "[1, 1, 0, 60, 60]"),
        ],
    )
    .await;
}

#[tokio::test]
async fn commands_are_taken_in_any_case() {
    let (_world, mut client) = world().await;
    for verb in ["CL.THROTTLE", "cl.throttle", "Cl.ThRoTtLe"] {
        assert!(client.ask(&format!("{verb} k 9 1 60")).await.starts_with("[0, 10, "));
    }
    assert_eq!(client.ask("cl.throttle k 9 1 60 0").await, "[0, 10, 7, -1, 180]");
}

#[tokio::test]
async fn a_pipeline_is_one_batch_in_which_each_is_decided_after_those_before_it() {
    let (_world, mut client) = world().await;
    let mut bytes = Vec::new();
    for index in 0..200 {
        bytes.extend(words(&format!("CL.THROTTLE k{} 9 1 60", index % 2)));
        if index % 50 == 0 {
            bytes.extend(framed(&["ECHO", &index.to_string()]));
        }
    }
    client.send(bytes).await;
    for index in 0..200 {
        let used = index / 2 + 1;
        let answer = if used <= 10 {
            format!("[0, 10, {}, -1, {}]", 10 - used, used * 60)
        } else {
            "[1, 10, 0, 60, 600]".to_owned()
        };
        assert_eq!(client.reply().await.to_string(), answer, "{index}");
        if index % 50 == 0 {
            assert_eq!(client.reply().await, Reply::Bulk(index.to_string().into_bytes()));
        }
    }
}

#[tokio::test]
async fn a_namespace_of_the_policy_that_is_called_as_the_listener_is_has_counters_of_its_own() {
    let namespace = tidegate_engine::NamespaceConfig::new("resp", [bucket("CL.THROTTLE", 1, 1).key(["key"])]);
    let (_world, mut client) = super::world_with([namespace], super::config()).await;
    assert_eq!(client.ask("TG.CHECK resp key k").await, "[decision, admit, remaining, 0]");
    assert_eq!(client.ask("CL.THROTTLE k 0 1 60").await, "[0, 1, 0, -1, 60]");
    assert!(client.ask("TG.CHECK resp key k").await.starts_with("[decision, refuse"));
    assert_eq!(client.ask("CL.THROTTLE k 0 1 60").await, "[1, 1, 0, 60, 60]");
}

#[tokio::test]
async fn decisions_and_refused_keys_are_counted_as_at_every_protocol() {
    let (world, mut client) = world().await;
    for line in
        ["CL.THROTTLE k 0 1 60", "CL.THROTTLE k 0 1 60", "CL.THROTTLE k 0 1 60 2", "CL.THROTTLE k 0 1 7200 3"]
    {
        client.ask(line).await;
    }
    client.ask("CL.THROTTLE k x 1 1").await;
    client.ask("NOSUCH").await;
    let page = page(&world).await;
    for line in [
        r#"tidegate_decisions_total{namespace="resp",limit="CL.THROTTLE",decision="admit",reason="",protocol="resp"} 1"#,
        r#"tidegate_decisions_total{namespace="resp",limit="CL.THROTTLE",decision="refuse",reason="rate_exceeded",protocol="resp"} 1"#,
        r#"tidegate_decisions_total{namespace="resp",limit="CL.THROTTLE",decision="refuse",reason="cost_exceeds_limit",protocol="resp"} 2"#,
        r#"tidegate_resp_commands_total{command="cl.throttle",answer="reply"} 4"#,
        r#"tidegate_resp_commands_total{command="cl.throttle",answer="error"} 1"#,
        r#"tidegate_resp_commands_total{command="other",answer="error"} 1"#,
    ] {
        assert!(page.contains(line), "{line}\n{page}");
    }
    let top = world.client().await.get("/v1/keys/top").await.json();
    assert_eq!((&top["keys"][0]["limit"], &top["keys"][0]["key"]), (&"CL.THROTTLE".into(), &"key=k".into()));
}

pub(super) async fn page(world: &World) -> String {
    world.client().await.get("/metrics").await.body
}

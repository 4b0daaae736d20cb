//! Another policy while requests go on: what is used stays used, and a policy with problems changes
//! nothing.

use tidegate_test_support::eventually;

use crate::restartable_daemon::{Kept, RestartableDaemon};
use crate::world::START;

const ADA: &str = r#"{"user":"ada"}"#;

fn limit(rest: &str) -> String {
    format!("  api: {{ limits: [{{ name: per-user, key: [user], {rest} }}] }}\n")
}

/// Both where a limit is decided in memory and where it is decided in files.
const EVERYWHERE: [Kept; 2] = [Kept::Memory, Kept::Files];

#[tokio::test]
async fn a_used_up_limit_that_is_raised_admits_the_difference_at_once_and_one_that_is_lowered_refuses_at_once()
 {
    for kept in EVERYWHERE {
        for (three, five, two) in [
            (
                "fixed: { limit: 3, window: 1h }",
                "fixed: { limit: 5, window: 1h }",
                "fixed: { limit: 2, window: 1h }",
            ),
            (
                "calendar: { limit: 3, unit: day, zone: UTC }",
                "calendar: { limit: 5, unit: day, zone: UTC }",
                "calendar: { limit: 2, unit: day, zone: UTC }",
            ),
            (
                "rolling: { limit: 3, window: 1h }",
                "rolling: { limit: 5, window: 1h }",
                "rolling: { limit: 2, window: 1h }",
            ),
            ("rate: 3/h, burst: 3", "rate: 3/h, burst: 5", "rate: 3/h, burst: 2"),
        ] {
            let daemon = RestartableDaemon::start(kept, &limit(three), START).await;
            assert_eq!(daemon.admits(ADA, 5).await, 3, "{kept:?} {three}");
            assert_eq!(daemon.reload(&limit(five)).await, None);
            assert_eq!(daemon.admits(ADA, 5).await, 2, "{kept:?} {three} raised to {five}");
            assert_eq!(daemon.reload(&limit(two)).await, None);
            assert_eq!(daemon.check(ADA).await, (429, Some(0)), "{kept:?} {five} lowered to {two}");
            assert_eq!(daemon.check(r#"{"user":"bob"}"#).await, (200, Some(1)), "{kept:?} {two}");
        }
    }
}

#[tokio::test]
async fn a_policy_without_namespaces_takes_none_away_unless_it_says_so() {
    for kept in EVERYWHERE {
        let daemon = RestartableDaemon::start(kept, &limit("fixed: { limit: 3, window: 1h }"), START).await;
        assert_eq!(daemon.admits(ADA, 5).await, 3, "{kept:?}");
        let told = daemon.reload("").await.expect("it is refused");
        assert!(told.contains("no `namespaces:`") && told.contains("all 1 in force"), "{told}");
        assert_eq!(daemon.check(ADA).await, (429, Some(0)), "{kept:?}");
        assert_eq!(daemon.reload("  {}\n").await, None);
        assert_eq!(daemon.check(ADA).await.0, 404, "{kept:?}");
    }
}

#[tokio::test]
async fn a_renamed_limit_keeps_what_was_used_also_when_was_is_no_longer_written_and_over_a_restart() {
    for kept in EVERYWHERE {
        let named = |name: &str, was: &str| {
            format!(
                "  api: {{ limits: [{{ name: {name}, key: [user], {was}fixed: {{ limit: 3, window: 1h }} }}] }}\n"
            )
        };
        let mut daemon = RestartableDaemon::start(kept, &named("a", ""), START).await;
        assert_eq!(daemon.admits(ADA, 2).await, 2);
        assert_eq!(daemon.reload(&named("b", "was: a, ")).await, None);
        assert_eq!(daemon.check(ADA).await, (200, Some(0)), "{kept:?}");
        assert_eq!(daemon.reload(&named("b", "")).await, None);
        assert_eq!(daemon.check(ADA).await, (429, Some(0)), "{kept:?}");
        if kept == Kept::Files {
            daemon.restart().await;
            assert_eq!(daemon.check(ADA).await, (429, Some(0)), "after a restart");
        }
        // Another limit of the old name has counters of its own.
        let both = "  api: { limits: [{ name: b, key: [user], fixed: { limit: 3, window: 1h } }, \
                    { name: a, key: [user], fixed: { limit: 7, window: 1h } }] }\n";
        assert_eq!(daemon.reload(both).await, None);
        let refused = daemon.ask("/v1/check", ADA, "").await.json();
        assert_eq!(
            (refused["limit"].as_str(), refused["violated"].as_array().unwrap().len()),
            (Some("b"), 1)
        );
    }
}

#[tokio::test]
async fn a_limit_of_another_kind_starts_fresh_and_the_old_one_comes_back_with_what_it_used() {
    for kept in EVERYWHERE {
        let fixed = limit("fixed: { limit: 3, window: 1h }");
        let daemon = RestartableDaemon::start(kept, &fixed, START).await;
        assert_eq!(daemon.admits(ADA, 5).await, 3);
        assert_eq!(daemon.reload(&limit("rolling: { limit: 3, window: 1h }")).await, None);
        assert_eq!(daemon.admits(ADA, 5).await, 3, "{kept:?}: another kind is another limit");
        assert_eq!(daemon.reload(&fixed).await, None);
        assert_eq!(daemon.admits(ADA, 5).await, 0, "{kept:?}: the window is still the same");
    }
}

#[tokio::test]
async fn a_policy_with_problems_leaves_the_one_in_force_and_is_told_until_a_good_one_comes() {
    let daemon =
        RestartableDaemon::start(Kept::Memory, &limit("fixed: { limit: 3, window: 1h }"), START).await;
    assert_eq!(daemon.admits(ADA, 2).await, 2);
    let problems = daemon.reload(&limit("fixed: { limit: 0, widnow: 1h }")).await.unwrap();
    assert!(problems.contains("widnow") && problems.contains("policy.yaml"), "{problems}");
    assert_eq!(daemon.admits(ADA, 2).await, 1, "the policy in force stays");
    let page = daemon.get("/metrics").await.body;
    for line in [
        "tidegate_policy_version 1\n",
        "tidegate_policy_last_reload_successful 0\n",
        "tidegate_policy_reloads_total 0\n",
    ] {
        assert!(page.contains(line), "{line} {page}");
    }
    assert_eq!(daemon.reload(&limit("fixed: { limit: 4, window: 1h }")).await, None);
    assert_eq!(daemon.admits(ADA, 2).await, 1);
    let policy = daemon.policy_in_force().await;
    assert!(policy.get("last_error").is_none() && policy["version"] == 2, "{policy}");
    let page = daemon.get("/metrics").await.body;
    assert!(page.contains("tidegate_policy_last_reload_successful 1\n"), "{page}");
    assert!(page.contains("tidegate_policy_reloads_total 1\n"), "{page}");
}

#[tokio::test]
async fn a_permit_outlives_the_change_of_its_limit_and_its_removal() {
    let parallel = |limit: u32| self::limit(&format!("concurrency: {{ limit: {limit}, hold: 1h }}"));
    let daemon = RestartableDaemon::start(Kept::Memory, &parallel(1), START).await;
    let permit = |answer: crate::client::Answer| answer.json()["permit"].as_str().map(str::to_owned);
    let first = permit(daemon.ask("/v1/check", ADA, "").await).unwrap();
    assert_eq!(daemon.check(ADA).await.0, 429);
    assert_eq!(daemon.reload(&parallel(2)).await, None);
    let second = permit(daemon.ask("/v1/check", ADA, "").await).unwrap();
    assert_eq!(daemon.check(ADA).await.0, 429, "both are held");
    let release = |id: &str| format!(r#"{{"permit":"{id}"}}"#);
    assert_eq!(daemon.post("/v1/release", &release(&first)).await.status, 200);
    assert_eq!(daemon.check(ADA).await.0, 200);
    assert_eq!(daemon.reload("  other: {}\n").await, None);
    assert_eq!(daemon.post("/v1/release", &release(&second)).await.status, 200, "its namespace is gone");
    assert_eq!(daemon.check(ADA).await.0, 404);
    assert_eq!(daemon.reload(&parallel(2)).await, None);
    assert_eq!(daemon.check(ADA).await.0, 200, "one of the two is free again");
    assert_eq!(daemon.check(ADA).await.0, 429);
}

#[tokio::test]
async fn a_file_is_followed_without_being_told_and_its_old_series_are_dropped() {
    let daemon =
        RestartableDaemon::start(Kept::Memory, &limit("fixed: { limit: 3, window: 1h }"), START).await;
    assert_eq!(daemon.admits(ADA, 4).await, 3);
    let path = daemon.folder.path().join("policy.yaml");
    let other = "namespaces: { api: { limits: [{ name: per-app, key: [app], rate: 1/s }] } }\n";
    std::fs::write(&path, other).unwrap();
    // The daemon takes a few looks: the file must be unchanged for a while first.
    eventually("the file is followed", async || daemon.policy_in_force().await["version"] != 1).await;
    let page = daemon.get("/metrics").await.body;
    assert!(page.contains("limit=\"per-app\"") && !page.contains("limit=\"per-user\""), "{page}");
    // The file no longer says how large the table is to be; the one there is stays.
    let policy = daemon.policy_in_force().await;
    assert_eq!(policy["restart_needed"], serde_json::json!(["memory.keys"]), "{policy}");
    // Another reload does not forget it, and one that says the same again takes it back.
    std::fs::write(&path, other.replace("1/s", "2/s")).unwrap();
    eventually("the file is followed", async || daemon.policy_in_force().await["version"] == 3).await;
    let policy = daemon.policy_in_force().await;
    assert_eq!(policy["restart_needed"], serde_json::json!(["memory.keys"]), "{policy}");
    assert_eq!(daemon.reload(&limit("rate: 1/s")).await, None);
    let policy = daemon.policy_in_force().await;
    assert_eq!(policy["restart_needed"], serde_json::Value::Null, "{policy}");
}

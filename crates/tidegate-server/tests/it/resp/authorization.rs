//! Logins, and the commands that grants permit.

use std::time::{Duration, Instant};

use serde_json::json;
use tidegate_test_support::{TemporaryFolder, eventually};

use super::Client;
use crate::authorization::{CHECKOUT, Guarded, OPS};
use crate::proxy::log::listen;

/// A daemon where Redis clients must show a token: `CHECKOUT` checks in `api` and `resp`, `OPS`
/// resets everywhere.
async fn daemon() -> Guarded {
    let rest = format!(
        "listen: {{ resp: 127.0.0.1:0 }}
authorization:
  - {{ name: checkout, token: {CHECKOUT}, namespaces: [api, resp] }}
  - {{ name: operators, token: {OPS}, namespaces: ['*'], verbs: [reset] }}
"
    );
    Guarded::start(TemporaryFolder::new(), &rest).await
}

async fn connect(daemon: &Guarded) -> Client {
    Client::connect(daemon.handle.resp().unwrap().tcp().unwrap()).await
}

#[tokio::test]
async fn nobody_is_served_before_a_token_and_only_what_it_permits_after_it() {
    let daemon = daemon().await;
    let mut client = connect(&daemon).await;
    for command in
        ["PING", "CL.THROTTLE k 15 30 60", "TG.CHECK api user ada", "DEL k", "INFO", "NONSENSE", "HELLO 3"]
    {
        let reply = client.ask(command).await;
        assert!(reply.starts_with("-NOAUTH "), "{command}: {reply}");
    }
    let reply = client.ask("AUTH checkout-token-012345678").await;
    assert!(reply.starts_with("-WRONGPASS ") && !reply.contains("012345"), "{reply}");
    assert_eq!(client.ask(&format!("AUTH {CHECKOUT}")).await, "+OK");
    assert_eq!(client.ask("CL.THROTTLE k 15 30 60").await, "[0, 16, 15, -1, 2]");
    assert!(!client.ask("TG.CHECK api user ada").await.starts_with('-'));
    for command in ["DEL k", "TG.CHECK web user ada"] {
        let reply = client.ask(command).await;
        assert!(reply.starts_with("-NOPERM checkout may not"), "{command}: {reply}");
    }
    assert_eq!(client.ask("RESET").await, "+RESET");
    assert!(client.ask("PING").await.starts_with("-NOAUTH "), "a reset forgets the token");
}

#[tokio::test]
async fn hello_logs_in_whatever_the_user_is_called_and_a_later_token_takes_the_place_of_the_first() {
    let daemon = daemon().await;
    let mut client = connect(&daemon).await;
    let hello = client.ask(&format!("HELLO 3 AUTH default {CHECKOUT}")).await;
    assert!(hello.contains("tidegate"), "{hello}");
    assert_eq!(client.ask("CL.THROTTLE k 15 30 60").await, "[0, 16, 15, -1, 2]");
    assert_eq!(client.ask(&format!("AUTH ops {OPS}")).await, "+OK");
    assert_eq!(client.ask("DEL k").await, "1");
    assert!(client.ask("CL.THROTTLE k 15 30 60").await.starts_with("-NOPERM operators"));
    // In the middle of a pipeline as well: what is decided together is permitted one by one.
    let pipeline = format!(
        "CL.THROTTLE k 15 30 60\r\nAUTH {CHECKOUT}\r\nCL.THROTTLE k 15 30 60\r\nAUTH {OPS}\r\nCL.THROTTLE k 15 30 60\r\n"
    );
    client.send(pipeline).await;
    let mut replies = Vec::new();
    for _ in 0..5 {
        replies.push(client.reply().await.to_string());
    }
    assert!(replies[0].starts_with("-NOPERM") && replies[4].starts_with("-NOPERM"), "{replies:?}");
    assert_eq!(replies[1..4], ["+OK", "[0, 16, 15, -1, 2]", "+OK"]);
}

/// On cd97d24 one connection took 1.85 million guesses a second.
#[tokio::test]
async fn a_client_that_fails_to_log_in_three_times_in_a_row_is_disconnected() {
    let daemon = daemon().await;
    for command in ["AUTH", "AUTH somebody", "HELLO 3 AUTH somebody"] {
        let mut guessing = connect(&daemon).await;
        let begun = Instant::now();
        guessing.send(format!("{command} checkout-token-012345678\r\n").repeat(1000)).await;
        for _ in 0..3 {
            assert!(guessing.reply().await.to_string().starts_with("-WRONGPASS "), "{command}");
        }
        assert!(guessing.is_ended().await, "{command}: three replies and no more");
        assert!(begun.elapsed() >= Duration::from_millis(600), "{command}: five guesses a second at most");
    }
    // Failures that are not in a row end nothing, and other connections are served meanwhile.
    let mut client = connect(&daemon).await;
    for _ in 0..2 {
        for _ in 0..2 {
            assert!(client.ask("AUTH a-token-of-nobody-at-all").await.starts_with("-WRONGPASS "));
        }
        let mut other = connect(&daemon).await;
        assert_eq!(other.ask(&format!("AUTH {CHECKOUT}")).await, "+OK");
        assert_eq!(client.ask(&format!("AUTH {CHECKOUT}")).await, "+OK");
    }
    assert_eq!(client.ask("PING").await, "+PONG");
}

#[tokio::test]
async fn a_failed_login_and_a_reset_write_a_line_in_the_audit_log() {
    let (log, _guard) = listen("tidegate::audit=info");
    let daemon = daemon().await;
    let mut client = connect(&daemon).await;
    assert!(client.ask("AUTH a-token-of-nobody-at-all").await.starts_with("-WRONGPASS "));
    assert_eq!(client.ask(&format!("AUTH {OPS}")).await, "+OK");
    assert_eq!(client.ask("DEL ada bob").await, "0");
    let lines = log.lines();
    assert_eq!(lines.len(), 2, "{lines:?}");
    let (failed, reset) = (&lines[0]["fields"], &lines[1]["fields"]);
    assert_eq!((&failed["protocol"], &failed["peer"]), (&json!("resp"), &json!("127.0.0.1")), "{failed}");
    assert_eq!(reset["message"], "the counters of keys were reset");
    assert_eq!((&reset["grant"], &reset["namespace"]), (&json!("operators"), &json!("resp")), "{reset}");
    assert_eq!(reset["key"], "key=ada keys=2");
    assert!(!format!("{lines:?}").contains("nobody"), "no token is logged: {lines:?}");
}

#[tokio::test]
async fn a_token_that_is_taken_away_is_no_longer_good_on_connections_that_are_open() {
    let daemon = daemon().await;
    let mut client = connect(&daemon).await;
    assert_eq!(client.ask(&format!("AUTH {CHECKOUT}")).await, "+OK");
    daemon.reload(&format!("authorization: [{{ token: {OPS}, namespaces: ['*'] }}]\n"));
    eventually("the token is no longer good", async || {
        let reply = client.ask("CL.THROTTLE k 15 30 60").await;
        reply.starts_with("-NOAUTH the token is no longer")
    })
    .await;
}

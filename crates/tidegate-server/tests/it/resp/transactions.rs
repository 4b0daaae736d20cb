//! `MULTI`, `EXEC` and `DISCARD`, as Redis 7.0.15 answers them.

use std::time::Duration;

use super::{Client, address, framed, words, world};

async fn ask_all(client: &mut Client, asked: &[(&str, &str)]) {
    for (line, answer) in asked {
        assert_eq!(client.ask(line).await, *answer, "{line}");
    }
}

#[tokio::test]
async fn commands_after_multi_are_queued_and_exec_decides_them_in_order() {
    let (world, mut client) = world().await;
    ask_all(
        &mut client,
        &[
            ("MULTI", "+OK"),
            ("CL.THROTTLE k 1 1 60", "+QUEUED"),
            ("CL.THROTTLE k 1 1 60", "+QUEUED"),
            ("TG.CHECK api account a COST", "+QUEUED"),
            ("TG.CHECK api account a", "+QUEUED"),
            ("CL.THROTTLE k 1 1 60", "+QUEUED"),
            ("PING", "+QUEUED"),
        ],
    )
    .await;
    let mut other = Client::connect(address(&world)).await;
    assert_eq!(
        other.ask("CL.THROTTLE k 1 1 60 0").await,
        "[0, 2, 2, -1, 0]",
        "a queued command charges nothing"
    );
    world.clock.advance(Duration::from_secs(1));
    assert_eq!(
        client.ask("EXEC").await,
        "[[0, 2, 1, -1, 60], [0, 2, 0, -1, 120], -ERR attribute \"COST\" has no value; write attributes as name value, \
         [decision, admit, remaining, 9], [1, 2, 0, 60, 120], +PONG]"
    );
    ask_all(&mut client, &[("EXEC", "-ERR EXEC without MULTI"), ("PING", "+PONG")]).await;
}

/// The answers were recorded from Redis; the texts of errors that tell what to write differ.
#[tokio::test]
async fn transactions_begin_and_end_as_those_of_redis_do() {
    let (_world, mut client) = world().await;
    let aborted = "-EXECABORT Transaction discarded because of previous errors.";
    let (begin, queued) = (("MULTI", "+OK"), ("PING", "+QUEUED"));
    for transaction in [
        &[begin, ("EXEC", "[]")][..],
        &[begin, ("MULTI", "-ERR MULTI calls can not be nested"), queued, ("EXEC", "[+PONG]")],
        &[
            begin,
            ("NOSUCH", "-ERR unknown command 'NOSUCH', with args beginning with: "),
            queued,
            ("EXEC", aborted),
            ("EXEC", "-ERR EXEC without MULTI"),
        ],
        &[
            begin,
            ("ECHO", "-ERR wrong number of arguments for 'echo' command; write ECHO message"),
            ("EXEC", aborted),
        ],
        &[begin, ("CL.THROTTLE k 1", THROTTLE_ERROR), queued, ("EXEC", aborted)],
        &[begin, queued, ("DISCARD", "+OK"), ("EXEC", "-ERR EXEC without MULTI")],
        &[("DISCARD", "-ERR DISCARD without MULTI"), ("EXEC", "-ERR EXEC without MULTI")],
        &[
            begin,
            ("DISCARD x", "-ERR wrong number of arguments for 'discard' command"),
            queued,
            ("EXEC", aborted),
        ],
        &[
            ("MULTI x", "-ERR wrong number of arguments for 'multi' command"),
            ("EXEC", "-ERR EXEC without MULTI"),
        ],
        &[("EXEC x", "-ERR wrong number of arguments for 'exec' command")],
        &[
            begin,
            (
                "EXEC x",
                "-EXECABORT Transaction discarded because of: wrong number of arguments for 'exec' command",
            ),
            ("PING", "+PONG"),
        ],
        &[begin, queued, ("RESET", "+RESET"), ("EXEC", "-ERR EXEC without MULTI")],
        &[
            begin,
            ("CLIENT SETNAME me", "+QUEUED"),
            ("SELECT 99", "+QUEUED"),
            ("CLIENT GETNAME", "+QUEUED"),
            ("EXEC", "[+OK, -ERR DB index is out of range; use 0, me]"),
        ],
        &[
            begin,
            ("CONFIG NOSUCH x", "-ERR unknown subcommand 'NOSUCH'; there are CONFIG GET name [name ...]"),
            ("EXEC", aborted),
        ],
    ] {
        ask_all(&mut client, transaction).await;
    }
    client
        .send(["MULTI", "PING", "QUIT", "EXEC"].iter().flat_map(|line| words(line)).collect::<Vec<_>>())
        .await;
    for answer in ["+OK", "+QUEUED", "+OK"] {
        assert_eq!(client.reply().await.to_string(), answer);
    }
    assert!(client.is_ended().await);
}

const THROTTLE_ERROR: &str = "-ERR wrong number of arguments for 'cl.throttle' command; write CL.THROTTLE key max_burst count period [quantity]";

#[tokio::test]
async fn a_transaction_that_ends_with_its_connection_or_is_discarded_charges_nothing() {
    let (world, mut client) = world().await;
    ask_all(&mut client, &[("MULTI", "+OK"), ("CL.THROTTLE k 0 1 60", "+QUEUED"), ("DISCARD", "+OK")]).await;
    ask_all(&mut client, &[("MULTI", "+OK"), ("CL.THROTTLE k 0 1 60", "+QUEUED")]).await;
    drop(client);
    let mut client = Client::connect(address(&world)).await;
    assert_eq!(client.ask("CL.THROTTLE k 0 1 60 0").await, "[0, 1, 1, -1, 0]");
}

#[tokio::test]
async fn a_whole_transaction_in_one_write_is_answered_as_a_pipeline_is() {
    let (_world, mut client) = world().await;
    let mut bytes = words("MULTI");
    for _ in 0..200 {
        bytes.extend(words("CL.THROTTLE k 99 1 60"));
    }
    bytes.extend(words("EXEC"));
    bytes.extend(words("PING"));
    client.send(bytes).await;
    assert_eq!(client.reply().await.to_string(), "+OK");
    for _ in 0..200 {
        assert_eq!(client.reply().await.to_string(), "+QUEUED");
    }
    let super::Reply::Array(replies) = client.reply().await else { panic!("an array") };
    let refused = replies.iter().filter(|reply| reply.to_string().starts_with("[1,")).count();
    assert_eq!((replies.len(), refused), (200, 100));
    assert_eq!(client.reply().await.to_string(), "+PONG");
}

#[tokio::test]
async fn a_transaction_above_its_bound_is_an_error_and_is_discarded() {
    let (_world, mut client) = world().await;
    assert_eq!(client.ask("MULTI").await, "+OK");
    let large = "x".repeat(60 << 10);
    let mut queued = 0;
    let refused = loop {
        let answer = client.ask_for(&["ECHO", &large]).await;
        if answer != "+QUEUED" {
            break answer;
        }
        queued += 1;
    };
    assert_eq!(queued, 16, "a seventeenth command of 60 KiB, and room for the replies, exceed 1 MiB");
    assert!(
        refused.starts_with("-ERR the transaction holds 1048576 bytes of commands and replies; "),
        "{refused}"
    );
    assert_eq!(client.ask("PING").await, "+QUEUED");
    let aborted = "-EXECABORT Transaction discarded because of previous errors.";
    assert_eq!(client.ask("EXEC").await, aborted);
    // Replies count too: this one is long, and the command is short.
    client
        .send([framed(&["MULTI"]), framed(&["COMMAND", "DOCS"]).repeat(200), framed(&["EXEC"])].concat())
        .await;
    assert_eq!(client.reply().await.to_string(), "+OK");
    let answers = client.replies(200).await;
    assert_eq!(answers.iter().filter(|answer| answer.to_string() == "+QUEUED").count(), 199);
    assert_eq!(client.reply().await.to_string(), aborted);
}

#[tokio::test]
async fn commands_in_a_transaction_are_counted_when_they_are_carried_out() {
    let (world, mut client) = world().await;
    ask_all(&mut client, &[("MULTI", "+OK"), ("CL.THROTTLE k 0 1 60", "+QUEUED")]).await;
    let line = r#"tidegate_resp_commands_total{command="cl.throttle",answer="reply"} 1"#;
    assert!(!super::throttle::page(&world).await.contains(line));
    assert_eq!(client.ask("EXEC").await, "[[0, 1, 0, -1, 60]]");
    let page = super::throttle::page(&world).await;
    assert!(page.contains(line), "{page}");
    assert!(page.contains(r#"tidegate_resp_commands_total{command="exec",answer="reply"} 1"#), "{page}");
}

//! Commands that clients send before they begin, and commands that people type.

use super::{Reply, world};

#[tokio::test]
async fn hello_chooses_the_version_and_describes_the_server() {
    let (_world, mut client) = world().await;
    let pairs = |answer: Reply| match answer {
        Reply::Array(parts) | Reply::Map(parts) => parts.iter().map(ToString::to_string).collect::<Vec<_>>(),
        other => panic!("{other}"),
    };
    for (hello, proto, is_map) in
        [("HELLO", "2", false), ("hello 3", "3", true), ("HELLO", "3", true), ("HELLO 2", "2", false)]
    {
        client.send(super::words(hello)).await;
        let answer = client.reply().await;
        assert_eq!(matches!(answer, Reply::Map(_)), is_map, "{hello}");
        let version = env!("CARGO_PKG_VERSION");
        let described = [
            "server",
            "tidegate",
            "version",
            version,
            "proto",
            proto,
            "id",
            "1",
            "mode",
            "standalone",
            "role",
            "master",
            "modules",
            "[]",
        ];
        assert_eq!(pairs(answer), described, "{hello}");
    }
    for (line, answer) in [
        ("HELLO 4", "-NOPROTO unsupported protocol version; use 2 or 3"),
        ("HELLO x", "-ERR Protocol version is not an integer or out of range; use 2 or 3"),
        ("HELLO 3 NOSUCH", "-ERR Syntax error in HELLO option 'NOSUCH'"),
        ("HELLO 3 SETNAME", "-ERR Syntax error in HELLO option 'SETNAME'"),
        ("HELLO 3 AUTH default secret", "-ERR Client sent AUTH, but no password is set"),
        ("CLIENT GETNAME", "null"),
    ] {
        assert_eq!(client.ask(line).await, answer, "{line}");
    }
    assert!(
        client.ask("HELLO 3 SETNAME me").await.starts_with('{'),
        "none of the errors has changed the version"
    );
    assert_eq!(client.ask("CLIENT GETNAME").await, "me");
}

#[tokio::test]
async fn nothing_is_null_in_each_version() {
    let (_world, mut client) = world().await;
    client.send("CLIENT GETNAME\r\n").await;
    assert_eq!(client.line().await, "$-1");
    client.ask("HELLO 3").await;
    client.send("CLIENT GETNAME\r\n").await;
    assert_eq!(client.line().await, "_");
}

#[tokio::test]
async fn small_commands_are_answered_as_redis_answers() {
    let (_world, mut client) = world().await;
    for (line, answer) in [
        ("PING", "+PONG"),
        ("ping hi", "hi"),
        ("PING a b", "-ERR wrong number of arguments for 'ping' command; write PING [message]"),
        ("ECHO hi", "hi"),
        ("ECHO", "-ERR wrong number of arguments for 'echo' command; write ECHO message"),
        ("AUTH secret", "-ERR Client sent AUTH, but no password is set"),
        ("AUTH me secret", "-ERR Client sent AUTH, but no password is set"),
        ("CLIENT SETINFO LIB-NAME redis-py", "+OK"),
        ("CLIENT SETINFO nosuch x", "-ERR Unrecognized option 'nosuch'"),
        ("CLIENT SETNAME me", "+OK"),
        ("CLIENT GETNAME", "me"),
        ("CLIENT ID", "1"),
        ("CLIENT SETNAME", "-ERR wrong number of arguments for 'client|setname' command"),
        ("SELECT 0", "+OK"),
        ("SELECT 1", "-ERR DB index is out of range; use 0"),
        ("CONFIG GET save", "[save, ]"),
        ("CONFIG GET appendonly", "[appendonly, no]"),
        ("CONFIG GET nosuch", "[]"),
        ("COMMAND COUNT", "19"),
        (
            "COMMAND INFO get cl.throttle",
            "[null, [cl.throttle, -5, [+write, +fast], 1, 1, 1, [], [], [], []]]",
        ),
        ("GET a", "-ERR unknown command 'GET', with args beginning with: 'a' "),
        (
            "CLIENT NOSUCH",
            "-ERR unknown subcommand 'NOSUCH'; there are CLIENT GETNAME|ID|SETINFO attribute value|SETNAME name",
        ),
    ] {
        assert_eq!(client.ask(line).await, answer, "{line}");
    }
    let answer = client.ask("CLIENT MAINT_NOTIFICATIONS ON").await;
    assert!(answer.starts_with("-ERR unknown subcommand 'MAINT_NOTIFICATIONS'"), "{answer}");
    let answer = client.ask("CONFIG SET save x").await;
    assert!(answer.starts_with("-ERR unknown subcommand 'SET'"), "{answer}");
}

#[tokio::test]
async fn info_says_that_the_server_is_ready() {
    let (_world, mut client) = world().await;
    let info = client.ask("info").await;
    for line in
        [r"# Server\r\n", r"\r\nloading:0\r\n", r"\r\nrole:master\r\n", r"\r\nconnected_clients:1\r\n"]
    {
        assert!(info.contains(line), "{line} {info}");
    }
    assert_eq!(client.ask("INFO persistence").await, r"# Persistence\r\nloading:0\r\n");
    assert_eq!(client.ask("INFO nosuch").await, "");
}

#[tokio::test]
async fn every_command_is_described() {
    let (_world, mut client) = world().await;
    client.ask("HELLO 3").await;
    client.send("COMMAND\r\nCOMMAND DOCS\r\nCOMMAND LIST\r\n").await;
    let Reply::Array(all) = client.reply().await else { panic!("an array") };
    assert!(all.iter().all(|one| matches!(one, Reply::Array(parts) if parts.len() == 10)));
    let Reply::Map(docs) = client.reply().await else { panic!("a map") };
    assert_eq!((all.len(), docs.len()), (19, 38));
    assert!(docs[1].to_string().starts_with("{summary, Charges a bucket"), "{}", docs[1]);
    assert!(client.reply().await.to_string().starts_with("[cl.throttle, tg.throttle, tg.check, "));
}

#[tokio::test]
async fn quit_is_answered_and_ends_the_connection_and_reset_begins_it_anew() {
    let (_world, mut client) = world().await;
    client.ask("HELLO 3 SETNAME me").await;
    assert_eq!(client.ask("RESET").await, "+RESET");
    client.send("CLIENT GETNAME\r\n").await;
    assert_eq!(client.line().await, "$-1");
    client.send("PING\r\nQUIT\r\nPING\r\n").await;
    assert_eq!((client.line().await, client.line().await), ("+PONG".to_owned(), "+OK".to_owned()));
    assert!(client.is_ended().await);
}

#[tokio::test]
async fn lines_that_people_type_are_commands() {
    let (_world, mut client) = world().await;
    client.send("\r\nPING\n  echo \"a\\x20b\"  \r\ncl.throttle 'k 1' 4 1 60\r\n*0\r\nPING\r\n").await;
    for answer in ["+PONG", "a b", "[0, 5, 4, -1, 60]", "+PONG"] {
        assert_eq!(client.reply().await.to_string(), answer);
    }
    assert_eq!(client.ask_for(&["CL.THROTTLE", "k 1", "4", "1", "60", "0"]).await, "[0, 5, 4, -1, 60]");
}

//! `tidegate top`, `usage`, `limits`, `override`, `block`, `reset` and `permits` against a real
//! daemon.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Output;

use serde_json::{Value, json};
use tidegate_test_support::TemporaryFile;

use crate::command::{run, tidegate};
use crate::process::Daemon;

const LIMITS: &str = "store: { kind: memory }\nnamespaces: { api: { limits: [\
    { name: per-user, key: [user], fixed: { limit: 2, window: 365d } }, \
    { name: parallel, key: [tenant], concurrency: { limit: 2, hold: 60s } }, \
    { name: strict, key: [app], rate: 1/h, burst: 1, on_exceed: { block: 10m } }] } }\n";

/// A daemon on one port of loopback, for callers and operators, and where it is.
fn daemon(listen: &str, more: &str) -> (Daemon, String, TemporaryFile) {
    let file = TemporaryFile::new(&format!("listen: {{ http: 127.0.0.1:0{listen} }}\n{more}{LIMITS}"));
    let mut daemon = Daemon::start(&["--config", file.as_str()]);
    let at = format!("http://{}", daemon.address());
    (daemon, at, file)
}

/// Runs words, with `--at` and a token or none.
fn told(at: &str, token: Option<&str>, words: &str) -> (i32, String, String) {
    let mut command = tidegate();
    command.args(words.split_whitespace()).args(["--at", at]).env_remove("TIDEGATE_TOKEN");
    if let Some(token) = token {
        command.env("TIDEGATE_TOKEN", token);
    }
    let Output { status, stdout, stderr } = command.output().unwrap();
    (status.code().unwrap(), String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap())
}

/// The output of a command that succeeds.
fn done(at: &str, words: &str) -> String {
    let (code, out, err) = told(at, None, words);
    assert_eq!((code, err.as_str()), (0, ""), "{words}: {out}");
    out
}

fn json_of(at: &str, words: &str) -> Value {
    serde_json::from_str(&done(at, &format!("{words} --json"))).unwrap()
}

/// The exit code of a check: 0 if admitted, 1 if refused.
fn check(at: &str, words: &str) -> i32 {
    told(at, None, &format!("check api {words}")).0
}

#[test]
fn a_caller_that_is_refused_during_a_flood_is_found_in_one_command() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let (_daemon, at, _file) = daemon(&format!(", resp: 127.0.0.1:{port}"), "log: { refusals: off }\n");
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let mut send = |users: &mut dyn Iterator<Item = String>| {
        let mut commands = String::new();
        for user in users {
            commands.extend(["TG.CHECK api user ", &user, "\r\n"]);
        }
        commands += "PING\r\n";
        let mut writing = stream.try_clone().unwrap();
        let writer = std::thread::spawn(move || writing.write_all(commands.as_bytes()).unwrap());
        let (mut last, mut buffer) = (Vec::new(), [0; 1 << 14]);
        while !last.ends_with(b"+PONG\r\n") {
            let count = stream.read(&mut buffer).unwrap();
            assert!(count > 0, "the daemon closed the connection");
            last.extend_from_slice(&buffer[..count]);
            last.drain(..last.len().saturating_sub(7));
        }
        writer.join().unwrap();
    };
    // Each of 100 000 strangers is refused once, a hog 4000 times, and ada five times.
    for round in 0..100 {
        let strangers = (0..1000).flat_map(|index| vec![format!("stranger-{}", round * 1000 + index); 3]);
        let ada = (round < 7).then(|| "ada".to_owned());
        let hog = vec!["hog".to_owned(); if round == 0 { 42 } else { 40 }];
        send(&mut strangers.chain(ada).chain(hog));
    }

    let out = done(&at, "top --window 10m -n 3");
    let mut lines = out.lines();
    let refusals: u64 = lines.next().unwrap().split(' ').next().unwrap().parse().unwrap();
    assert_eq!(refusals, 100_000 + 4000 + 5, "{out}");
    assert!(out.contains("NAMESPACE  LIMIT     KEY") && out.contains(" REASONS"), "{out}");
    assert!(lines.nth(2).unwrap().starts_with("api        per-user  user=hog "), "{out}");
    assert!(out.contains("quota_exceeded") && out.contains("more; list them with -n"), "{out}");

    // The sketch need not hold a caller with five refusals of 104 005. The answer says so, and what
    // limits say of it.
    let out = done(&at, "top api user=ada --window 10m");
    assert!(out.contains("user=ada") && out.contains("REFUSE"), "{out}");
    assert!(out.contains("used up: 0 of 2 left"), "{out}");
    let answer = json_of(&at, "top api user=ada --window 10m");
    let explained = &answer["explanation"];
    assert_eq!(
        (&explained["would"], &explained["limits"][0]["name"]),
        (&json!("refuse"), &json!("per-user"))
    );
    match answer["keys"].as_array().unwrap().first() {
        Some(key) => {
            let (most, error) = (key["refusals"].as_u64().unwrap(), key["error"].as_u64().unwrap());
            assert!(most >= 5 && most - error <= 5, "{answer}");
        }
        None => assert!(answer["uncounted_max"].as_u64().unwrap() >= 5, "{answer}"),
    }
    let out = done(&at, "top api user=hog --reason quota_exceeded --limit per-user --window 10m");
    assert!(out.lines().any(|line| line.starts_with("api        per-user  user=hog ")), "{out}");
    let out = done(&at, "top api user=nobody --reason blocked");
    assert!(out.contains("No counted key has user=nobody"), "{out}");
}

#[test]
fn issue_39_one_command_says_that_refused_checks_had_no_tenant() {
    let policy = "listen: { http: 127.0.0.1:0 }
store: { kind: memory }
namespaces: { api: { limits: [{ name: per-customer, key: [customer], rate: 500/s }] } }
resources: { app: { concurrency: 1, queue: { requests: 1, wait: off } } }
";
    let file = TemporaryFile::new(policy);
    let mut process = Daemon::start(&["--config", file.as_str()]);
    let at = format!("http://{}", process.address());
    done(&at, "check api customer=t1 --resource app");
    let (code, _, _) = told(&at, None, "check api customer=t40 --resource app");
    assert_eq!(code, 1);
    let out = done(&at, "top api customer=t40");
    let shown = out.split_whitespace().collect::<Vec<_>>().join(" ");
    let plain = "1 refusal was of requests without a tenant: in_flight of sheddable_plus at app 1. \
                 No attribute selects them: a check has the tenant that its attribute \"tenant\" names, \
                 unless namespace \"api\" has `request: { tenant: entry.customer }`.";
    assert!(shown.contains(plain), "{out}");
    assert!(!shown.contains("No key with") && out.lines().all(|line| line.chars().count() <= 100), "{out}");
    assert!(shown.contains("At resource app (class sheddable_plus, no tenant) its level is "), "{out}");
}

const SHARED: &str = "store: { kind: memory }
namespaces: { api: { limits: [], request: { tenant: entry.customer } } }
resources: { app: { concurrency: 1, queue: { requests: 1, wait: off } } }
";

#[test]
fn issue_39_one_command_says_why_the_overload_plane_refused_a_tenant() {
    let file = TemporaryFile::new(&format!("listen: {{ http: 127.0.0.1:0 }}\n{SHARED}"));
    let mut process = Daemon::start(&["--config", file.as_str()]);
    let at = format!("http://{}", process.address());
    let check = |customer: &str| {
        let body = format!(
            r#"{{"namespace":"api","resource":"app","class":"sheddable","attributes":{{"customer":"{customer}"}}}}"#
        );
        let mut stream = TcpStream::connect(at.trim_start_matches("http://")).unwrap();
        write!(
            stream,
            "POST /v1/check HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: application/json\r\n\
             content-length: {}\r\n\r\n{body}",
            body.len()
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    let admitted = check("t1");
    assert!(admitted.starts_with("HTTP/1.1 200"), "{admitted}");
    for _ in 0..3 {
        let refused = check("t40");
        assert!(refused.starts_with("HTTP/1.1 503"), "{refused}");
    }
    let out = done(&at, "top api customer=t40");
    // A tick between two of them moves the cursor, which may shed the later ones.
    let rows: Vec<_> = out.lines().filter(|line| line.contains("tenant=t40")).collect();
    let is_shed_at_app = |row: &&str| {
        let of_plane = |mechanism: &str| row.starts_with(&format!("api        {mechanism} at app  "));
        row.contains("  class=sheddable, tenant=t40 ")
            && row.ends_with("overload_shed")
            && (of_plane("in_flight") || of_plane("admission_cursor"))
    };
    assert!(!rows.is_empty() && rows.iter().all(is_shed_at_app), "{out}");
    let count = |row: &&str| row.split_whitespace().find_map(|word| word.parse::<u32>().ok()).unwrap();
    assert_eq!(rows.iter().map(count).sum::<u32>(), 3, "{out}");
    let shown = out.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(shown.contains("At resource app (class sheddable, tenant t40) its level is "), "{out}");
    assert!(shown.contains("would be refused, by the daemon"), "{out}");
    let out = done(&at, "top api customer=t40 --class critical");
    assert!(out.contains("At resource app (class critical, tenant t40) its level is "), "{out}");
    let (code, _, err) = told(&at, None, "top api customer=t40 --resource ap");
    assert!(code != 0 && err.contains("resource \"ap\" does not exist"), "{code} {err}");
    assert!(done(&at, "top api customer=t41").contains("No key with customer=t41 was refused"));

    // The scope of a refusal says `tenant`, and so may the command.
    let out = done(&at, "top api tenant=t40");
    assert!(out.contains("At resource app (class sheddable, tenant t40) its level is "), "{out}");
    for wrong in ["top api --by tenant --class critical", "top api --by tenant --resource nope"] {
        let (code, _, err) = told(&at, None, wrong);
        assert!(code != 0 && err.contains("--class and --resource say which request"), "{code} {err}");
    }

    let out = done(&at, "top api --by tenant");
    let row = out.lines().find(|line| line.contains("t40")).unwrap_or_else(|| panic!("{out}"));
    assert!(row.starts_with("api        t40 ") && row.contains(" of sheddable at app "), "{out}");

    let (code, out, _) = told(&at, None, "explain api --class sheddable --tenant t40 --resource app");
    assert_eq!(code, 1, "{out}");
    let shown = out.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(shown.contains("At resource app (class sheddable, tenant t40) its level is "), "{out}");
    // Requests that did not wait have moved the cursor, and the cohort of a tenant is by chance.
    let is_shed = shown.contains(": shed; 1 of 1 places are taken.");
    assert!(shown.contains(", the cursor of its namespace at "), "{out}");
    assert!(is_shed || shown.contains(": not shed; 1 of 1 places are taken."), "{out}");
    let has_no_place = shown.contains("all 1 places") || shown.contains("the only place is taken");
    assert!(is_shed || has_no_place, "{out}");
}

#[test]
fn overrides_are_set_listed_and_removed() {
    let (_daemon, at, _file) = daemon("", "");
    assert_eq!(done(&at, "override list"), "No override is set.\n");
    let set =
        "override set api per-user user=ada --numbers limit=3 --for 24h --reason ticket-4711 --by grace";
    let out = done(&at, set);
    assert!(
        out.starts_with("The override of per-user in api for user=ada is set: fixed 3 in 365d until "),
        "{out}"
    );
    assert_eq!((0..4).map(|_| check(&at, "user=ada")).collect::<Vec<_>>(), [0, 0, 0, 1]);
    let out = done(&at, "override list api");
    assert!(out.contains("user=ada") && out.contains("active") && out.contains("ticket-4711"), "{out}");
    let listed = json_of(&at, "override list");
    let one = &listed["overrides"][0];
    assert_eq!((&one["by"], &one["when"]), (&json!("grace"), &json!({"user": "ada"})));
    assert_eq!(listed["history"][0]["change"], "set");
    assert!(done(&at, "limits api").contains("Overrides set while running: 1"));
    let removed = json_of(&at, "override remove api per-user user=ada --reason over");
    assert_eq!(removed["limit"], "per-user");
    assert_eq!(done(&at, "override list"), "No override is set.\n");
    for (words, hint) in [
        ("override set api per-user --numbers limit=3 --reason x", "at least one attribute"),
        ("override set api per-user user=ada --numbers rate=1/s --reason x", "rate"),
        ("override set api nope user=ada --numbers limit=3 --reason x", "has no limit \"nope\""),
        ("override set none per-user user=ada --numbers limit=3 --reason x", "\"none\" does not exist"),
        ("override remove api per-user user=bob", "has no override"),
        ("override list none", "\"none\" does not exist"),
        ("override set api per-user user=ada --numbers limit=3 --reason x --for 10", "10m"),
    ] {
        let (code, out, err) = told(&at, None, words);
        assert!(code == 2 && out.is_empty() && err.contains(hint), "{words}: {err}");
    }
}

#[test]
fn keys_are_blocked_listed_and_freed_and_counters_reset() {
    let (_daemon, at, _file) = daemon("", "");
    assert!(done(&at, "block list").starts_with("No key is blocked"));
    let out = done(&at, "block set api per-user user=ada --for 10m");
    assert!(out.starts_with("user=ada is blocked under per-user until 20"), "{out}");
    assert_eq!((check(&at, "user=ada"), check(&at, "user=bob")), (1, 0));
    assert_eq!((check(&at, "app=shop"), check(&at, "app=shop")), (0, 1));
    let out = done(&at, "block list api");
    assert!(out.contains("user=ada") && out.contains("an operation"), "{out}");
    assert!(out.contains("app=shop") && out.contains("on_exceed, or another member"), "{out}");
    let listed = json_of(&at, "block list api user=ada --limit per-user");
    assert_eq!(
        (listed["blocks"].as_array().unwrap().len(), &listed["blocks"][0]["why"]),
        (1, &json!("operation"))
    );
    let removed = done(&at, "block remove api per-user user=ada");
    assert!(removed.starts_with("user=ada is not blocked under per-user. "), "{removed}");
    assert!(removed.contains("`tidegate reset api user=ada --limit per-user` forgets it"), "{removed}");
    assert_eq!(check(&at, "user=ada"), 0);
    assert_eq!(done(&at, "reset api app=shop"), "1 counter was in use or blocked, and is reset.\n");
    assert!(done(&at, "block list").starts_with("No key is blocked"));
    assert_eq!(check(&at, "app=shop"), 0);
    assert_eq!(json_of(&at, "reset api user=ada app=shop --limit per-user"), json!({"counters": 1}));
    for (words, hint) in [
        ("block set api nope user=ada --for 1m", "nope"),
        ("block set none per-user user=ada --for 1m", "\"none\" does not exist"),
        ("block set api per-user user=ada user=bob --for 1m", "duplicate attribute"),
        ("block list none", "\"none\" does not exist"),
        ("reset api user=ada --limit nope", "nope"),
        ("top api --reason throttled", "rate_exceeded"),
        ("top --window 2h", "1h"),
        ("top none", "\"none\" does not exist"),
        ("top api --limit per-usr", "has no limit \"per-usr\"; did you mean \"per-user\"?"),
    ] {
        let (code, out, err) = told(&at, None, words);
        assert!(code == 2 && out.is_empty() && err.contains(hint), "{words}: {err}");
    }
    for words in [
        "limits apo",
        "top apo",
        "block list apo",
        "block set apo per-user user=ada --for 1m",
        "override list apo",
        "override set apo per-user user=ada --numbers limit=3 --reason x",
        "reset apo user=ada",
        "check apo user=ada --table t --key k",
        "explain apo user=ada",
    ] {
        let (code, out, err) = told(&at, None, words);
        assert!(code == 2 && out.is_empty(), "{words}: {out}{err}");
        assert!(err.contains("\"apo\" does not exist"), "{words}: {err}");
        assert!(err.contains("did you mean \"api\"?"), "{words}: {err}");
    }
}

#[test]
fn limits_and_permits_are_listed() {
    let (_daemon, at, _file) = daemon("", "");
    let out = done(&at, "limits");
    assert!(out.starts_with("Policy 1 is in force since "), "{out}");
    assert!(out.contains("NAMESPACE  LIMIT     KEY     MATCHES ON"), "{out}");
    assert!(out.contains("parallel") && out.contains("at once") && out.contains("enforce"), "{out}");
    assert_eq!(json_of(&at, "limits api")["namespaces"][0]["limits"][0]["name"], "per-user");
    assert!(done(&at, "permits").starts_with("0 permits are held, of at most 65536."));
    let admitted = serde_json::from_str::<Value>(&done(&at, "check api tenant=acme --json")).unwrap();
    let permit = admitted["permit"].as_str().unwrap();
    assert_eq!(check(&at, "tenant=acme"), 0);
    let out = done(&at, "permits api");
    assert!(out.starts_with("2 permits are held"), "{out}");
    assert!(out.contains(&format!("{}…", &permit[..8])) && out.contains("parallel"), "{out}");
    assert!(!out.contains(permit), "the whole name of a permit is a secret: {out}");
    let first = json_of(&at, "permits -n 1");
    assert_eq!((&first["total"], first["permits"].as_array().unwrap().len()), (&json!(2), 1));
    let next = first["next"].as_u64().unwrap();
    let second = json_of(&at, &format!("permits --after {next}"));
    assert_eq!((second["permits"].as_array().unwrap().len(), second.get("next")), (1, None));
    assert!(done(&at, "permits -n 1").contains(&format!("--after {next}")));
}

#[test]
fn a_command_that_is_not_permitted_or_asks_the_wrong_server_says_what_to_do() {
    let new = |_| {
        let new: Value = serde_json::from_str(&run(&["token", "--json"]).1).unwrap();
        ["token", "hash"].map(|name| new[name].as_str().unwrap().to_owned())
    };
    let [[operator, operator_hash], [caller, caller_hash]] = [0, 1].map(new);
    let authorization = format!(
        "authorization:\n  - {{ name: ops, token: '{operator_hash}', namespaces: ['*'], verbs: [inspect] }}\n  \
         - {{ name: shop, token: '{caller_hash}', namespaces: [api], verbs: [check, block, reset] }}\n"
    );
    let (_daemon, at, _file) = daemon("", &authorization);
    let operators = [
        "top",
        "limits",
        "permits",
        "block list",
        "override list",
        "override set api per-user user=ada --numbers limit=3 --reason x",
        "block set api per-user user=ada --for 1m",
        "reset api user=ada --all",
    ];
    for words in operators {
        let (code, out, err) = told(&at, None, words);
        assert!(
            code == 2 && out.is_empty() && err.contains("--token-file FILE or TIDEGATE_TOKEN"),
            "{words}: {err}"
        );
        let is_change = words.contains(" set ") || words.starts_with("reset");
        let (code, _, err) = told(&at, Some(&operator), words);
        let forbidden = code == 2 && err.contains("ops may not");
        assert!(if is_change { forbidden } else { code == 0 }, "{words}: {err}");
        let is_his = words.starts_with("block set") || words.starts_with("reset");
        let (code, _, err) = told(&at, Some(&caller), words);
        let forbidden = code == 2 && err.contains("shop may not");
        assert!(if is_his { code == 0 } else { forbidden }, "{words}: {err}");
    }
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", other.local_addr().unwrap());
    let answering = std::thread::spawn(move || {
        for stream in other.incoming().take(operators.len()) {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 4096]).unwrap();
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi").unwrap();
        }
    });
    for words in operators {
        let (code, out, err) = told(&address, None, words);
        assert!(code == 3 && out.is_empty() && err.contains("is no Tidegate"), "{words}: {err}");
        let (code, _, err) = told("redis://127.0.0.1:1", None, words);
        assert!(code == 2 && err.contains("does not speak the HTTP API"), "{words}: {err}");
    }
    answering.join().unwrap();
}

#[test]
fn the_help_of_each_command_has_its_arguments_and_exit_codes() {
    let (_, help, _) = run(&["--help"]);
    for (command, options) in [
        ("top", &["[NAMESPACE]", "--limit", "--reason", "--window", "--json", "--at", "--token-file"][..]),
        ("limits", &["[NAMESPACE]", "--json", "--at"]),
        ("permits", &["[NAMESPACE]", "--after", "--json"]),
        ("reset", &["<NAMESPACE>", "--limit", "--all", "--json"]),
        ("override", &["set", "remove", "list"]),
        ("block", &["set", "remove", "list"]),
    ] {
        assert!(help.contains(&format!("\n  {command} ")), "{help}");
        let (code, out, _) = run(&[command, "--help"]);
        assert!(code == 0 && out.contains("Exit codes:"), "{out}");
        for option in options {
            assert!(out.contains(option), "{command} {option}: {out}");
        }
    }
}

#[test]
fn a_page_for_callers_comes_from_a_file_and_from_a_daemon_alike() {
    let (_daemon, at, file) = daemon("", "");
    let of_daemon = done(&at, "limits api --markdown --contact support@example.com");
    let words =
        ["limits", "api", "--markdown", "--contact", "support@example.com", "--config", file.as_str()];
    let (code, of_file, err) = run(&words);
    assert_eq!((code, err.as_str(), &of_file), (0, "", &of_daemon));
    for line in [
        "# Limits of `api`",
        "| `per-user` | 2 in each window of 365d | `user` | requests with `user` | 429 |",
        "| `parallel` | 2 at the same time | `tenant` | requests with `tenant` | 429 |",
        "| `strict` | 1/h, at most 1 at once; a key that exceeds it is refused for 10 min | `app` | requests with `app` | 429 |",
    ] {
        assert!(of_file.lines().any(|one| one == line), "{line}:\n{of_file}");
    }
    assert!(of_file.contains("Write to support@example.com with the name of the limit"), "{of_file}");
    let (code, out, err) = run(&["limits", "apo", "--config", file.as_str()]);
    assert!(
        code == 2 && out.is_empty() && err.contains("namespace \"apo\" does not exist; there are: api"),
        "{err}"
    );
    assert_eq!(run(&["limits", "--config", "no such file"]).0, 3);
    assert!(run(&["limits", "--config", file.as_str()]).1.contains("NAMESPACE  LIMIT"));
}

#[test]
fn completions_and_man_pages_know_every_command() {
    let (_, help, _) = run(&["--help"]);
    let commands: Vec<&str> = help
        .lines()
        .skip_while(|line| *line != "Commands:")
        .skip(1)
        .take_while(|line| !line.is_empty())
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    assert!(commands.len() > 15, "{help}");
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let (code, out, _) = run(&["completions", shell]);
        assert!(code == 0 && commands.iter().all(|command| out.contains(command)), "{shell}");
    }
    let folder = tidegate_test_support::TemporaryFolder::new();
    let (code, out, err) = run(&["man", folder.path().to_str().unwrap()]);
    assert_eq!((code, out.as_str(), err.as_str()), (0, "", ""));
    for command in commands.iter().filter(|command| **command != "help") {
        let page = std::fs::read_to_string(folder.path().join(format!("tidegate-{command}.1"))).unwrap();
        assert!(page.contains(".SH SYNOPSIS"), "{command}");
    }
    let (code, _, err) = run(&["man", "/no/such/directory"]);
    assert!(code == 3 && err.contains("name a directory that exists"), "{err}");
    assert_eq!(run(&["completions", "tcsh"]).0, 2);
}

/// bob is locked out of exports: lists and commands alone let him back in, and touch nothing else.
#[test]
fn the_key_of_a_list_is_enough_and_a_long_quota_is_not_reset_by_the_way() {
    let file = TemporaryFile::new(
        "listen: { http: 127.0.0.1:0 }\nstore: { kind: memory }\nnamespaces: { api: { limits: [\
         { name: exports, key: [user], match: { operation: export }, rolling: { limit: 1, window: 1m }, on_exceed: { block: 1h } }, \
         { name: monthly, key: [user], missing: group, calendar: { limit: 5, unit: month, zone: UTC } }] } }",
    );
    let mut daemon = Daemon::start(&["--config", file.as_str()]);
    let at = format!("http://{}", daemon.address());
    let export = "check api user=bob operation=export";
    assert_eq!((told(&at, None, export).0, told(&at, None, export).0), (0, 1));
    assert!(done(&at, "block list api").contains("user=bob"));
    done(&at, "block remove api exports user=bob");
    assert!(done(&at, "block list").starts_with("No key is blocked"));
    let reset = done(&at, "reset api user=bob --limit exports");
    assert_eq!(reset, "1 counter was in use or blocked, and is reset.\n");
    // Without a limit, what a month counts is not forgotten by the way.
    let (code, out, err) = told(&at, None, "reset api user=bob");
    assert_eq!((code, out.as_str()), (2, ""), "{err}");
    assert!(err.contains("nothing was reset") && err.contains("monthly user=bob"), "{err}");
    let left = json_of(&at, "check api user=bob --peek");
    assert_eq!(left["limits"][0]["remaining"], 4, "{left}");
    assert_eq!(told(&at, None, export).0, 0);
    assert_eq!(done(&at, "reset api user=bob --all"), "1 counter was in use or blocked, and is reset.\n");
    let (code, _, err) = told(&at, None, "reset api --limit nope");
    assert!(code == 2 && err.contains("nope"), "{err}");
    // The numbers are those in force.
    done(&at, "override set api monthly user=bob --numbers limit=9 --reason more");
    let (_, _, err) = told(&at, None, "reset api user=bob");
    assert!(err.contains("monthly user=bob  (calendar 9 a month in UTC)"), "{err}");
}

#[test]
fn a_network_that_a_list_shows_names_its_key_and_an_incomplete_key_is_told() {
    let file = TemporaryFile::new(
        "listen: { http: 127.0.0.1:0 }\nstore: { kind: memory }\nnamespaces: { api: { limits: [\
         { name: ip, key: [ip], rolling: { limit: 1, window: 1h }, on_exceed: { block: 1h } }, \
         { name: pair, key: [user, region], rate: 1/s }] } }",
    );
    let mut daemon = Daemon::start(&["--config", file.as_str()]);
    let at = format!("http://{}", daemon.address());
    let asked = [1, 2].map(|host| told(&at, None, &format!("check api ip=2001:db8::{host}")).0);
    assert_eq!(asked, [0, 1]);
    assert!(done(&at, "block list api").contains("ip=2001:db8::/64"));
    done(&at, "block remove api ip ip=2001:db8::/64");
    assert!(done(&at, "block list").starts_with("No key is blocked"));
    let reset = done(&at, "reset api --limit ip ip=2001:db8::/64");
    assert_eq!(reset, "1 counter was in use or blocked, and is reset.\n");
    assert_eq!(told(&at, None, "check api ip=2001:db8::3").0, 0);
    for command in ["reset api --limit pair user=bob", "block set api pair user=bob --for 1m"] {
        let (code, out, err) = told(&at, None, command);
        assert_eq!((code, out.as_str()), (2, ""), "{err}");
        assert!(err.contains("limit \"pair\" counts by user, region, and \"region\" is missing"), "{err}");
    }
}

#[test]
fn usage_shows_the_largest_tenants_one_of_them_and_all_namespaces() {
    let policy = "store: { kind: memory }\nfeatures: [search]\nlisten: { http: 127.0.0.1:0 }\nnamespaces: { \
        api: { limits: [], request: { tenant: entry.account, feature: entry.part } } }\n";
    let file = TemporaryFile::new(policy);
    let mut daemon = Daemon::start(&["--config", file.as_str()]);
    let at = format!("http://{}", daemon.address());
    for words in ["account=ada --cost 5", "account=bob", "account=bob part=search", "account=a/b"] {
        assert_eq!(check(&at, words), 0, "{words}");
    }
    let api = done(&at, "usage api");
    let member = at.strip_prefix("http://").unwrap();
    assert!(api.starts_with(&format!("Counted by {member} since 2")), "{api}");
    let table = api.split_once(".\nNamespace api").unwrap().1;
    let expected = "\
: 3 tenants are tracked.

TENANT           OFFERED  ADMITTED  REFUSED  REPEATED  UNDER WAY  UNITS  PLACE S  WAIT S
(all)                  4         4        0         0          0      8      0.0     0.0
(no tenant)            0         0        0         0          0      0      0.0     0.0
(other tenants)        0         0        0         0          0      0      0.0     0.0
bob                    2         2        0         0          0      2      0.0     0.0
a/b                    1         1        0         0          0      1      0.0     0.0
ada                    1         1        0         0          0      5      0.0     0.0

CLASS           OFFERED  ADMITTED  REFUSED  REPEATED  UNDER WAY  UNITS  PLACE S  WAIT S
sheddable_plus        4         4        0         0          0      8      0.0     0.0
(all)                 4         4        0         0          0      8      0.0     0.0

Outcomes: admitted 4.
Units: 8 at admission, 0 refused, 0 true, 0 reported, 0 refunded; settlements added 0 and gave back 0.
";
    assert_eq!(table, expected, "{api}");
    let largest = done(&at, "usage api --by units -n 1");
    assert!(largest.contains("\nada  ") && !largest.contains("\nbob  "), "{largest}");
    assert!(largest.contains("and 2 more; list them with -n, or name a TENANT"), "{largest}");
    let one = done(&at, "usage api a/b");
    assert!(one.contains("Tenant a/b of namespace api.") && one.contains("Outcomes: admitted 1."), "{one}");
    let all = done(&at, "usage");
    for line in ["\napi  ", "\nsearch  ", "\n(no feature)  ", "\n(no resource)  "] {
        assert!(all.contains(line), "{line}: {all}");
    }
    let json = json_of(&at, "usage api --by units");
    assert_eq!((&json["by"], &json["tenants"][0]["name"]), (&json!("units"), &json!("ada")));
    assert_eq!(json_of(&at, "usage api ada")["tenant"]["total"]["units"], 5);

    for (words, why) in [
        ("usage apo", "namespace \"apo\" does not exist; did you mean \"api\"?"),
        ("usage api nobody", "tenant \"nobody\" is not tracked"),
        ("usage api --by offers", "use one of offered, units, refused_units, place_time"),
        ("usage api -n 1001", "1001"),
    ] {
        let (code, out, err) = told(&at, None, words);
        assert_eq!((code, out.as_str()), (2, ""), "{words}: {err}");
        assert!(err.contains(why), "{words}: {err}");
    }
}

#[test]
fn usage_of_several_members_is_added_up_or_says_which_one_does_not_answer() {
    let policy = "store: { kind: memory }\nlisten: { http: 127.0.0.1:0 }\nnamespaces: { \
        api: { limits: [], request: { tenant: entry.account } } }\n";
    let file = TemporaryFile::new(policy);
    let mut daemons = [(); 2].map(|()| Daemon::start(&["--config", file.as_str()]));
    let [one, other] = daemons.each_mut().map(|daemon| format!("http://{}", daemon.address()));
    for (at, account) in [(&one, "ada"), (&one, "ada"), (&other, "ada"), (&other, "bob")] {
        assert_eq!(check(at, &format!("account={account}")), 0);
    }
    let both = done(&one, &format!("usage api --at {other}"));
    assert!(
        both.starts_with("The sum of 2 members:\n  ") && both.contains(&format!("({other}) since 2")),
        "{both}"
    );
    assert!(both.contains("Namespace api: 2 tenants are tracked."), "{both}");
    assert!(both.contains("\nada                    3         3 "), "{both}");
    let json = json_of(&one, &format!("usage api -n 1 --at {other}"));
    assert_eq!((json["members"].as_array().unwrap().len(), &json["sum"]["more"]), (2, &json!(1)));
    assert_eq!(json["sum"]["tenants"][0]["total"]["offered"], 3);
    // The largest of the sum is the largest of neither, and rows are sorted by what is asked for.
    for (at, words) in [(&one, "carl --cost 3"), (&other, "carl --cost 3"), (&one, "dora --cost 5")] {
        assert_eq!(check(at, &format!("account={words}")), 0);
    }
    assert_eq!(check(&other, "account=bob --cost 4"), 0);
    for (by, largest) in [("offered", "ada"), ("units", "carl")] {
        let json = json_of(&one, &format!("usage api -n 1 --by {by} --at {other}"));
        assert_eq!(json["sum"]["tenants"][0]["name"], *largest, "{json}");
    }
    let all = json_of(&one, &format!("usage --at {other}"));
    assert_eq!(all["sum"]["total"]["offered"], 8, "{all}");
    // A member without a row of the tenant adds nothing.
    let bob = json_of(&one, &format!("usage api bob --at {other}"));
    assert_eq!(bob["sum"]["tenant"]["total"]["offered"], 2, "{bob}");
    let (code, _, err) = told(&one, None, &format!("usage api nobody --at {other}"));
    assert!(code == 2 && err.contains("is not tracked"), "{code} {err}");
    let (code, _, err) = told(&one, None, &format!("usage api --at {one}"));
    assert!(code == 2 && err.contains("name each member once"), "{code} {err}");
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let (code, out, err) = told(&one, None, &format!("usage api --at http://{nobody}"));
    assert_eq!((code, out.as_str()), (3, ""), "{err}");
    assert!(err.contains(&format!("http://{nobody} cannot be asked")), "{err}");
    assert!(err.contains(&format!("{one} answered, and their sum would lack a member")), "{err}");
}

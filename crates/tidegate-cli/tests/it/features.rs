//! `tidegate features` against real daemons: one, two that share a Redis, and one that does not
//! answer.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::process::Output;

use serde_json::{Value, json};
use tidegate_test_support::{RedisServer, TemporaryFile, skip, until};

use crate::command::tidegate;
use crate::process::Daemon;

const POLICY: &str = "namespaces: { shop: { limits: [] } }
resources: { app: { concurrency: 20 } }
features:
  - search
  - { name: thumbnails, levels: [{ name: full, cost: 1 }, { name: 480p, cost: 0.3 }, { name: off, cost: 0 }] }
  - { name: ranking, mode: shadow, levels: [{ name: full, cost: 1 }, { name: plain, cost: 0.5 }] }
";

/// A daemon with the features and these other settings, and where it is.
fn daemon(more: &str) -> (Daemon, String, TemporaryFile) {
    let file = TemporaryFile::new(&format!("listen: {{ http: 127.0.0.1:0 }}\n{more}{POLICY}"));
    let mut daemon = Daemon::start(&["--config", file.as_str()]);
    let at = format!("http://{}", daemon.address());
    (daemon, at, file)
}

/// Runs `tidegate features` with these words, at these daemons.
fn told(at: &[&str], words: &str) -> (i32, String, String) {
    let mut command = tidegate();
    command.arg("features").args(words.split_whitespace()).env_remove("TIDEGATE_TOKEN").env("TZ", "UTC");
    for at in at {
        command.args(["--at", at]);
    }
    let Output { status, stdout, stderr } = command.output().unwrap();
    (status.code().unwrap(), String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap())
}

/// The output of a command that succeeds.
fn done(at: &[&str], words: &str) -> String {
    let (code, out, err) = told(at, words);
    assert_eq!((code, err.as_str()), (0, ""), "{words}: {out}");
    out
}

fn json_of(at: &[&str], words: &str) -> Value {
    serde_json::from_str(&done(at, words)).unwrap()
}

#[test]
fn features_are_listed_pinned_and_unpinned_and_each_command_has_its_exit_code() {
    let (_daemon, at, _file) = daemon("store: { kind: memory }\n");
    let at = [at.as_str()];
    let out = done(&at, "");
    let rows: Vec<Vec<&str>> = out.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[0][..5], ["FEATURE", "MEMBER", "RESOURCE", "CLASS", "LEVEL"], "{out}");
    assert_eq!((rows[1][0], rows[2][0], rows.len()), ("ranking", "thumbnails", 3), "{out}");
    assert_eq!((rows[2][2], rows[2][4]), ("app", "full"), "{out}");
    let pinned = done(&at, "pin thumbnails 480p --for 10m --by grace --reason incident-7");
    assert!(pinned.starts_with("thumbnails is pinned at 480p until 20"), "{pinned}");
    let out = done(&at, "thumbnails");
    assert!(out.contains(" 480p ") && !out.contains("ranking"), "{out}");
    let told_of = out.lines().last().unwrap();
    assert!(told_of.starts_with("thumbnails: pinned at 480p until "), "{out}");
    assert!(told_of.ends_with(" by grace: incident-7"), "{out}");
    let feature = json_of(&at, "thumbnails --json");
    assert_eq!((&feature["level"], &feature["reason"]), (&json!("480p"), &json!("pinned")));
    assert_eq!((&feature["pin"]["by"], &feature["pin"]["reason"]), (&json!("grace"), &json!("incident-7")));
    // A tick between the two changes the room that is left.
    let is_in_list = || {
        let (list, feature) = (json_of(&at, "--json"), json_of(&at, "thumbnails --json"));
        (&list["features"][1], &list["member"]) == (&feature, &feature["member"])
    };
    assert!((0..20).any(|_| is_in_list()), "the list has the feature as it is shown alone");
    let shadow = done(&at, "pin ranking plain --for 1h");
    assert!(shadow.ends_with(", in shadow: its requests get the best level.\n"), "{shadow}");
    let unpinned = done(&at, "unpin thumbnails --by grace");
    assert!(unpinned.starts_with("thumbnails is not pinned; its level follows the load again"), "{unpinned}");
    assert!(json_of(&at, "unpin thumbnails --json").get("pin").is_none(), "a second time changes nothing");
    for (words, code, hint) in [
        ("pin thumbnails 480p", 2, "--for <SPAN>"),
        ("pin thumbnails 480p --for 10", 2, "write 10ms, 10s or 10m"),
        ("pin thumbnails 480p --for 0s", 2, "expires_ms 0 is not 1 to"),
        ("pin thumbnails 480p --for 31d", 2, "30 days"),
        ("pin thumbnails 240p --for 10m", 2, "use one of: full, 480p, off"),
        ("pin thumbnail off --for 10m", 2, "did you mean \"thumbnails\"?"),
        ("pin search off --for 10m", 2, "has no levels"),
        ("pin thumbnails --for 10m", 2, "<LEVEL>"),
        ("unpin thumbnail", 2, "did you mean \"thumbnails\"?"),
        ("thumbnail", 2, "did you mean \"thumbnails\"?"),
        ("thumbnails search", 2, "'search' cannot be used"),
    ] {
        let (exit, out, err) = told(&at, words);
        assert_eq!((exit, out.as_str()), (code, ""), "{words}: {err}");
        assert!(err.contains(hint), "{words}: {err}");
    }
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let (code, _, err) = told(&[at[0], &format!("http://{nobody}")], "");
    assert!(code == 3 && err.contains(&nobody.to_string()), "{err}");
    let (code, _, err) = told(&[at[0], at[0]], "");
    assert!(code == 2 && err.contains("is asked already"), "{err}");
}

#[test]
fn a_watch_shows_each_round_goes_on_after_one_without_an_answer_and_ends_at_ctrl_c() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let file = TemporaryFile::new(&format!(
        "listen: {{ http: 127.0.0.1:{port} }}\nstore: {{ kind: memory }}\n{POLICY}"
    ));
    let start = || {
        let mut daemon = Daemon::start(&["--config", file.as_str()]);
        daemon.address();
        daemon
    };
    let (daemon, at) = (start(), format!("http://127.0.0.1:{port}"));
    let mut command = tidegate();
    command.args(["features", "--watch=100ms", "thumbnails", "--at", &at]).env_remove("TIDEGATE_TOKEN");
    let mut watch = Daemon::spawn(command);
    let mut errors = BufReader::new(watch.process.child().stderr.take().unwrap());
    watch.read_until(" full ");
    watch.read_until(" full ");
    done(&[&at], "pin thumbnails 480p --for 10m");
    watch.read_until(" 480p ");
    drop(daemon);
    let mut error = String::new();
    errors.read_line(&mut error).unwrap();
    assert!(error.starts_with("tidegate: ") && error.contains(&at), "{error}");
    let _daemon = start();
    watch.read_until(" full ");
    watch.signal("INT");
    assert_eq!(watch.process.wait().unwrap().code(), Some(0));
    let rounds: Vec<&str> =
        watch.printed.split("\n\n").filter(|round| round.starts_with("FEATURE ")).collect();
    assert!(rounds.len() >= 3, "{}", watch.printed);
    assert!(!watch.printed.contains('\x1b'), "only a terminal is cleared: {}", watch.printed);

    for (words, hint) in [
        ("--watch=2", "it has no unit; write 2ms, 2s or 2m"),
        ("--watch=99ms", "too often; write 100ms or more"),
        ("--watch pin thumbnails off --for 10m", "cannot be used with"),
    ] {
        let (code, out, err) = told(&[], words);
        assert_eq!((code, out.as_str()), (2, ""), "{words}: {err}");
        assert!(err.contains(hint), "{words}: {err}");
    }
}

#[test]
fn a_pin_set_at_one_member_holds_at_the_others_and_at_one_that_comes_later() {
    let name = "a_pin_set_at_one_member_holds_at_the_others_and_at_one_that_comes_later";
    let Some(redis) = RedisServer::start(&[]) else { return skip(name) };
    let store =
        format!("store: {{ kind: redis, urls: ['redis://127.0.0.1:{}'], deadline: 10s }}\n", redis.port());
    let (_first, one, _one_file) = daemon(&store);
    let (_second, other, _other_file) = daemon(&store);
    let level_at = |at: &str| json_of(&[at], "thumbnails --json")["level"].clone();
    // The store answers a change only once a member has a connection to it.
    until("the pin is stored", || {
        told(&[&one], "pin thumbnails off --for 10m --by grace --reason incident-7").0 == 0
    });
    assert_eq!(level_at(&one), "off");
    until("it holds there", || level_at(&other) == "off");
    let (_third, late, _late_file) = daemon(&store);
    until("it holds at a late member", || level_at(&late) == "off");
    let pins = [&one, &other, &late].map(|at| json_of(&[at], "thumbnails --json")["pin"].clone());
    let words = |pin: &Value| [&pin["level"], &pin["by"], &pin["reason"]].map(Value::clone);
    assert!(pins.iter().all(|pin| words(pin) == ["off", "grace", "incident-7"]), "{pins:?}");
    // Each member has a row of its own; the pin ends at all of them, whichever is asked.
    let at = [one.as_str(), &other, &late];
    let out = done(&at, "thumbnails");
    assert_eq!(out.lines().filter(|line| line.starts_with("thumbnails at ")).count(), 3, "{out}");
    assert_eq!(json_of(&at, "--json")["members"].as_array().unwrap().len(), 3);
    done(&[&other], "unpin thumbnails");
    until("no member has a pin", || {
        at.iter().all(|at| json_of(&[at], "thumbnails --json").get("pin").is_none())
    });
}

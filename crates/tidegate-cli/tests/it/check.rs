//! `tidegate check` and `tidegate explain` against a real daemon through each of its protocols, and
//! `tidegate token`.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::Output;

use rcgen::{CertificateParams, CertifiedIssuer, ExtendedKeyUsagePurpose, IsCa, KeyPair};
use serde_json::{Value, json};
use tidegate_test_support::{TemporaryFile, TemporaryFolder, until};

use crate::command::{run, tidegate};
use crate::process::Daemon;

const LIMITS: &str = "store: { kind: memory }\nnamespaces: { api: { limits: [\
    { name: reads, key: [user], match: { method: [GET, HEAD] }, rate: 1/s, burst: 3 }, \
    { name: per-user, key: [user], missing: group, fixed: { limit: 6, window: 365d } }] } }\n";

/// Ports of loopback that nothing listens on.
fn free_ports<const N: usize>() -> [u16; N] {
    // All at once, so that they differ.
    let listeners = [(); N].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    listeners.map(|listener| listener.local_addr().unwrap().port())
}

fn told(arguments: &[&str], token: Option<&str>) -> (i32, String, String) {
    let mut command = tidegate();
    command.args(arguments).env_remove("TIDEGATE_TOKEN");
    if let Some(token) = token {
        command.env("TIDEGATE_TOKEN", token);
    }
    let Output { status, stdout, stderr } = command.output().unwrap();
    (status.code().unwrap(), String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap())
}

fn check(at: &str, more: &[&str]) -> (i32, String, String) {
    told(&[&["check", "--at", at, "api", "user=ada"], more].concat(), None)
}

#[test]
fn an_access_to_a_table_is_charged_and_told_alike_at_every_door() {
    let [http, grpc, resp] = free_ports();
    let file = TemporaryFile::new(&format!(
        "listen: {{ http: 127.0.0.1:{http}, grpc: 127.0.0.1:{grpc}, resp: 127.0.0.1:{resp} }}\n\
        store: {{ kind: memory }}\nnodes: [{{ name: n1, units: 16000 }}]\nresources: {{ db: {{ concurrency: 9 }} }}\n\
        namespaces:\n  plain: {{ limits: [{{ name: all, fixed: {{ limit: 50, window: 365d }} }}] }}\n  \
        slow: {{ limits: [{{ name: one, rate: 2/s, burst: 1 }}] }}\n  \
        shop: {{ tables: [{{ name: orders, provisioned: {{ read: 8000, write: 1 }} }}] }}\n"
    ));
    let mut daemon = Daemon::start(&["--config", file.as_str()]);
    daemon.read_until("callers");
    let ends = [
        format!("http://127.0.0.1:{http}"),
        format!("grpc://127.0.0.1:{grpc}"),
        format!("redis://127.0.0.1:{resp}"),
    ];
    let ask = |at: &str, words: &str| {
        told(&[&["check", "--at", at], &*words.split(' ').collect::<Vec<_>>()].concat(), None)
    };
    for at in &ends {
        let read = "shop --table orders --key a --kind read_strong --size 8192";
        for (more, expected) in [
            (
                " --peek",
                "would be admitted: 2 units of table orders would be charged, its partition has 8000 left\n",
            ),
            ("", "admitted: 2 units of table orders charged, its partition has "),
        ] {
            // The units come back within a millisecond.
            let (code, out, err) = ask(at, &format!("{read}{more}"));
            assert_eq!((code, err.as_str()), (0, ""), "{at}");
            let shown = out.replace("has 7999.9", "has 8000");
            assert!(shown.starts_with(expected), "{at}: {out}");
        }
        let (code, out, _) = ask(at, &format!("{read} --json"));
        let said: Value = serde_json::from_str(&out).unwrap();
        assert_eq!((code, &said["access"]["units"]), (0, &json!(2.0)), "{at}: {out}");
        for namespace in ["shop", "plain"] {
            let (code, out, err) = ask(at, &format!("{namespace} user=ada --table nosuch --key a"));
            assert_eq!((code, out.as_str()), (2, ""), "{at}: {err}");
            let expected = format!("table \"nosuch\" does not exist in namespace \"{namespace}\"");
            assert!(err.contains(&expected), "{at}: {err}");
        }
        let (code, _, err) = ask(at, "plain user=ada --resource nosuch");
        assert!(
            code == 2 && err.contains("resource \"nosuch\" does not exist; use one of db"),
            "{at}: {err}"
        );
    }
    for (protocol, port) in
        [("http", grpc), ("http", resp), ("grpc", http), ("grpc", resp), ("redis", http), ("redis", grpc)]
    {
        let (code, out, err) = ask(&format!("{protocol}://127.0.0.1:{port}"), "plain user=ada");
        assert_eq!((code, out.as_str()), (3, ""), "{protocol} at {port}: {err}");
        assert!(err.contains("if the port is one of another protocol, write "), "{protocol}: {err}");
        assert!(!err.contains(&format!("write {protocol}://")), "{protocol}: {err}");
        assert!(!err.contains("compression"), "{protocol}: {err}");
    }
    // Not the owner of a table of that name, which is another namespace's.
    let (code, _, err) = ask(&ends[0], "pain user=ada --table orders --key a");
    assert!(code == 2 && err.contains("\"pain\" does not exist"), "{err}");
    assert!(err.contains("did you mean \"plain\"?"), "{err}");
    let (code, _, err) = ask(&ends[0], "pain user=ada");
    assert!(code == 2 && err.contains("did you mean \"plain\"?"), "{err}");
    let (code, _, err) = ask(&format!("localhost:{http}"), "plain user=ada");
    assert!(
        code == 2 && err.contains(&format!("it has no protocol; write http://localhost:{http}")),
        "{err}"
    );
    let (code, _, err) = ask(&ends[0], "plain user=ada --wait 250");
    assert!(code == 2 && err.contains("it has no unit; write 250ms, 250s or 250m"), "{err}");
    let (code, out, _) = ask(&ends[2], "plain user=ada --resource db");
    assert!(code == 0 && out.contains("it holds a place until it is released: permit "), "{out}");
    // The names that were wrong were charged nothing.
    let (_, out, _) = ask(&ends[0], "plain user=ada --peek");
    assert!(out.contains("49 of 50 left of all"), "{out}");
    let (code, out, _) = ask(&ends[1], "shop user=ada --table orders --key a --kind write --size 400000");
    assert!(code == 0 && out.starts_with("admitted: "), "{out}");
    for at in &ends {
        let (code, out, _) = ask(at, "shop user=ada --table orders --key a --kind write");
        assert!(code == 1 && out.starts_with("refused: table_throughput_exceeded by orders"), "{at}: {out}");
    }
    for at in &ends {
        let (code, out, err) = ask(at, "plain user=ada --wait 1s");
        assert!(code == 0 && out.starts_with("admitted: "), "{at}: {out}{err}");
        let (code, out, err) = ask(at, "plain user=ada --wait 2m");
        assert!(code == 2 && out.is_empty() && err.contains("120000 is out of range"), "{at}: {err}");
        // A unit comes back twice a second: who waits gets it.
        let (code, out, _) = ask(at, "slow user=ada");
        assert!(code == 0 || out.contains("refused: rate_exceeded"), "{at}: {out}");
        let (code, out, err) = ask(at, "slow user=ada --wait 5s");
        assert!(code == 0 && out.starts_with("admitted: "), "{at}: {out}{err}");
    }
    for at in &ends {
        let (code, out, err) = ask(at, "plain user=ada --class critical");
        assert!(code == 0 && out.starts_with("admitted: "), "{at}: {out}{err}");
    }
    let (code, out, _) = ask(&ends[0], "plain user=ada --wait 1s --class critical");
    assert!(code == 0 && out.starts_with("admitted: "), "{out}");
}

#[test]
fn the_feature_of_a_check_reaches_the_daemon_at_every_door() {
    let [http, grpc, resp] = free_ports();
    let folder = TemporaryFolder::new();
    let log = folder.path().join("decisions.jsonl");
    let file = TemporaryFile::new(&format!(
        "listen: {{ http: 127.0.0.1:{http}, grpc: 127.0.0.1:{grpc}, resp: 127.0.0.1:{resp} }}\n\
        features: [search]\nlog: {{ decisions: '{}' }}\n{LIMITS}",
        log.display()
    ));
    let mut daemon = Daemon::start(&["--config", file.as_str()]);
    daemon.read_until("callers");
    let ends = [
        (format!("http://127.0.0.1:{http}"), "http"),
        (format!("grpc://127.0.0.1:{grpc}"), "rls"),
        (format!("redis://127.0.0.1:{resp}"), "resp"),
    ];
    let mut expected = Vec::new();
    for (at, protocol) in &ends {
        for name in ["search", "not listed"] {
            let (code, out, err) = check(at, &["--feature", name]);
            assert!(code == 0 && out.starts_with("admitted: "), "{at}: {out}{err}");
            expected.push(json!([protocol, name]));
        }
        let (code, _, err) = check(at, &["feature=search", "--feature", "other", "--peek"]);
        if *protocol == "http" {
            assert_eq!(code, 0, "{err}");
        } else {
            assert!(code == 2 && err.contains("as well as --feature; leave one out"), "{err}");
        }
    }
    let features = || -> Vec<Value> {
        let text = std::fs::read_to_string(&log).unwrap_or_default();
        let lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        lines.map(|line| json!([line["protocol"], line["feature"]])).collect()
    };
    until("six lines are written", || features().len() == expected.len());
    assert_eq!(features(), expected);
}

#[test]
fn the_level_of_a_feature_is_told_in_words_and_as_json_at_every_door() {
    let [http, grpc, resp] = free_ports();
    let file = TemporaryFile::new(&format!(
        "listen: {{ http: 127.0.0.1:{http}, grpc: 127.0.0.1:{grpc}, resp: 127.0.0.1:{resp} }}\n\
        resources: {{ app: {{ concurrency: 20 }} }}\nfeatures:\n  - search\n  \
        - {{ name: thumbnails, levels: [{{ name: full, cost: 1 }}, {{ name: 480p, cost: 0.3 }}, {{ name: off, cost: 0 }}] }}\n  \
        - {{ name: ranking, mode: shadow, levels: [{{ name: full, cost: 1 }}, {{ name: plain, cost: 0.5 }}] }}\n\
        store: {{ kind: memory }}\nnamespaces: {{ api: {{ limits: [{{ name: all, key: [user], rate: 100000/s }}] }} }}\n"
    ));
    let mut daemon = Daemon::start(&["--config", file.as_str()]);
    daemon.read_until("callers");
    let http = format!("http://127.0.0.1:{http}");
    let ends = [http.clone(), format!("grpc://127.0.0.1:{grpc}"), format!("redis://127.0.0.1:{resp}")];
    let pin = |feature: &str, level: &str| {
        let words = ["features", "pin", feature, level, "--for", "10m", "--at", &http];
        assert_eq!(told(&words, None).0, 0, "{feature} {level}");
    };
    pin("ranking", "plain");
    for level in ["full", "480p"] {
        pin("thumbnails", level);
        for at in &ends {
            for more in [&[][..], &["--peek"]] {
                let feature = [&["--feature", "thumbnails"], more].concat();
                let (code, out, err) = check(at, &feature);
                assert_eq!((code, err.as_str()), (0, ""), "{at}");
                let shown: Vec<&str> = out.lines().filter(|line| line.contains("feature")).collect();
                assert_eq!(shown, [format!("feature thumbnails is at {level}")], "{at}: {out}");
                let (_, out, _) = check(at, &[&feature[..], &["--json"]].concat());
                let answer: Value = serde_json::from_str(&out).unwrap();
                let members = (&answer["feature"], &answer["feature_level"], &answer["feature_shadow"]);
                assert_eq!(members, (&json!("thumbnails"), &json!(level), &Value::Null), "{at}");
            }
            for untold in [&["--feature", "search"][..], &["--feature", "ranking"], &[]] {
                let (_, out, _) = check(at, untold);
                assert!(!out.contains("feature"), "{at}: {untold:?}: {out}");
            }
        }
    }
    let (_, out, _) = check(&http, &["--feature", "ranking", "--peek"]);
    let expected = "feature ranking would be at plain, but is in shadow mode\n";
    assert!(out.ends_with(expected), "{out}");
    pin("thumbnails", "off");
    for at in &ends {
        for (more, would) in [(&[][..], ""), (&["--peek"], "would be ")] {
            let feature = [&["--feature", "thumbnails"], more].concat();
            let (code, out, err) = check(at, &feature);
            assert_eq!((code, err.as_str()), (1, ""), "{at}: {out}");
            // RESP tells no scope.
            let scope = if at.starts_with("redis") { "" } else { " for class=sheddable_plus" };
            let refused =
                format!("{would}refused: feature_disabled by thumbnails{scope}; come back in 10 min");
            let because = "  feature \"thumbnails\" of resource \"app\" is off; come back in 10 min";
            assert_eq!(out.lines().collect::<Vec<_>>(), [refused.as_str(), because], "{at}");
            let (_, out, _) = check(at, &[&feature[..], &["--json"]].concat());
            let answer: Value = serde_json::from_str(&out).unwrap();
            let members = (&answer["reason"], &answer["feature"], &answer["feature_level"]);
            assert_eq!(members, (&json!("feature_disabled"), &json!("thumbnails"), &json!("off")), "{at}");
        }
    }
}

#[test]
fn every_door_of_one_daemon_gives_the_same_answers() {
    let folder = TemporaryFolder::new();
    let socket = folder.path().join("callers.sock");
    let [admin, grpc, resp] = free_ports();
    let file = TemporaryFile::new(&format!(
        "listen: {{ http: 'unix:{}', grpc: 127.0.0.1:{grpc}, resp: 127.0.0.1:{resp}, admin: 127.0.0.1:{admin} }}\n{LIMITS}",
        socket.display()
    ));
    let mut daemon = Daemon::start(&["--config", file.as_str()]);
    daemon.read_until("callers");
    let http = format!("unix:{}", socket.display());
    let (admin, grpc, resp) = (
        format!("http://127.0.0.1:{admin}"),
        format!("grpc://127.0.0.1:{grpc}"),
        format!("redis://127.0.0.1:{resp}"),
    );

    let looked = "would be admitted: 6 of 6 left of per-user, nothing of it is used\n";
    assert_eq!(check(&http, &["--peek"]), (0, looked.to_owned(), String::new()));
    let mut left = 6;
    for at in [&http, &grpc, &resp].into_iter().cycle().take(6) {
        left -= 1;
        let (code, out, err) = check(at, &[]);
        assert_eq!((code, err.as_str()), (0, ""), "{at}");
        assert!(out.starts_with(&format!("admitted: {left} ")), "{at}: {out}");
    }
    for at in [&http, &grpc, &resp] {
        for more in [&[][..], &["--peek"]] {
            let (code, out, err) = check(at, more);
            assert_eq!((code, err.as_str()), (1, ""), "{at}");
            let would = if more.is_empty() { "" } else { "would be " };
            assert!(out.starts_with(&format!("{would}refused: quota_exceeded by per-user")), "{at}: {out}");
            assert!(out.contains(", 0 left; come back in ") && out.contains(" d"), "{at}: {out}");
            let detail = "\n  limit \"per-user\" is used up for user=ada: 0 of 6 units left; come back in ";
            assert!(out.contains(detail), "{at}: {out}");
        }
        let (code, out, _) = check(at, &["--json"]);
        let answer: Value = serde_json::from_str(&out).unwrap();
        assert_eq!(code, 1);
        let expected = [json!("refuse"), json!("quota_exceeded"), json!("per-user"), json!(0), json!("api")];
        assert_eq!(
            ["decision", "reason", "limit", "remaining", "namespace"].map(|name| answer[name].clone()),
            expected
        );
        assert!(answer["retry_after_ms"].as_u64().unwrap() > 0, "{answer}");
        let protocol = [(&http, "http"), (&grpc, "grpc"), (&resp, "resp")];
        assert_eq!(answer["protocol"], protocol.iter().find(|(one, _)| *one == at).unwrap().1);
    }
    // A protocol that cannot carry an option reports an error; it does not drop the option.
    for at in [&grpc, &resp] {
        let (code, _, err) = check(at, &["tidegate-wait-ms=5", "--wait", "1s"]);
        assert!(code == 2 && err.contains("as well as --wait; leave one out"), "{err}");
        let (code, _, err) = check(at, &["tidegate-class=sheddable", "--class", "critical"]);
        assert!(code == 2 && err.contains("as well as --class; leave one out"), "{err}");
    }
    for at in [&http, &grpc, &resp] {
        let (code, out, err) = check(at, &["--class", "critical"]);
        assert_eq!((code, err.as_str()), (1, ""), "{at}: {out}");
    }
    let (code, _, err) = told(&["check", "--at", &http, "none"], None);
    assert!(code == 2 && err.contains("namespace \"none\" does not exist"), "{err}");
    let (code, _, err) = told(&["check", "--at", &resp, "none"], None);
    assert!(code == 2 && err.contains("namespace \"none\" does not exist"), "{err}");

    // Callers are not told, operators are.
    let explain = |at: &str, more: &[&str]| {
        told(&[&["explain", "--at", at, "api", "user=ada", "method=POST"], more].concat(), None)
    };
    let (code, _, err) = explain(&http, &[]);
    assert!(code == 2 && err.contains("another listener"), "{err}");
    let (code, out, err) = explain(&admin, &[]);
    assert_eq!((code, err.as_str()), (1, ""));
    assert!(out.contains(r#"method is "POST"; it wants one of "GET", "HEAD""#), "{out}");
    assert!(out.contains("REFUSE") && out.contains("used up: 0 of 6 left; again in "), "{out}");
    assert!(out.lines().all(|line| line.chars().count() <= 100), "{out}");
    let (code, out, _) = explain(&admin, &["--json"]);
    let answer: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &answer["would"]), (1, &json!("refuse")));
    let (code, _, err) = explain(&grpc, &[]);
    assert!(code == 2 && err.contains("does not speak the HTTP API"), "{err}");
}

#[test]
fn a_token_comes_from_a_file_or_the_environment_and_is_never_shown() {
    let (code, out, _) = run(&["token", "--json"]);
    let new: Value = serde_json::from_str(&out).unwrap();
    let (token, hash) = (new["token"].as_str().unwrap(), new["hash"].as_str().unwrap());
    assert_eq!(code, 0);
    let file = TemporaryFile::new(&format!(
        "listen: {{ http: 127.0.0.1:0 }}\nauthorization: [{{ token: '{hash}', namespaces: [api] }}]\n{LIMITS}"
    ));
    let mut daemon = Daemon::start(&["--config", file.as_str()]);
    let at = format!("http://{}", daemon.address());
    let ask = |token: Option<&str>, more: &[&str]| {
        let (code, out, err) = told(&[&["check", "--at", &at, "api", "user=ada"], more].concat(), token);
        if let Some(token) = token {
            assert!(!out.contains(token) && !err.contains(token), "{out}{err}");
        }
        (code, err)
    };
    assert_eq!(ask(Some(token), &[]).0, 0);
    let held = TemporaryFile::new(&format!("# of a test\n\n  {token}\n"));
    assert_eq!(ask(None, &["--token-file", held.as_str()]).0, 0);
    assert_eq!(ask(None, &[]).0, 2, "without one");
    assert_eq!(ask(Some("another-token-that-is-long"), &[]).0, 2);
    assert_eq!(ask(Some("two words"), &[]).0, 2);
    let empty = TemporaryFile::new("# nothing\n");
    let (code, err) = ask(None, &["--token-file", empty.as_str()]);
    assert!(code == 3 && err.contains("holds no token"), "{err}");
    let (code, err) = ask(None, &["--token-file", "/nowhere/token"]);
    assert!(code == 3 && err.contains("cannot read /nowhere/token"), "{err}");
}

#[test]
fn a_new_token_is_printed_with_its_hash_and_how_to_use_each() {
    let (code, out, err) = run(&["token"]);
    assert_eq!((code, err.as_str()), (0, ""));
    let token = out.lines().next().unwrap().strip_prefix("token  ").unwrap();
    let hash = out.lines().nth(1).unwrap().strip_prefix("hash   ").unwrap();
    assert!(token.len() == 43 && hash.starts_with("sha256:") && hash.len() == 71, "{out}");
    // The text to paste is a policy with that hash, and the token appears only in its own line.
    let grant = out.split("  authorization:\n").nth(1).unwrap().replace("NAMESPACE", "api");
    assert!(grant.contains(hash) && out.matches(token).count() == 1, "{out}");
    let file = TemporaryFile::new(&format!("authorization:\n{grant}{LIMITS}"));
    let (code, out, _) = run(&["validate", file.as_str()]);
    assert_eq!(code, 0, "{out}");
    assert_ne!(run(&["token"]).1, run(&["token"]).1);
}

#[test]
fn tls_is_spoken_to_every_door_and_a_certificate_is_shown_where_one_is_asked_for() {
    let folder = TemporaryFolder::new();
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let write = |name: &str, text: String| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let issue = |name: &str, purpose| {
        let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        params.extended_key_usages = vec![purpose];
        let key = KeyPair::generate().unwrap();
        let cert = params.signed_by(&key, &authority).unwrap().pem();
        (write(&format!("{name}.pem"), cert), write(&format!("{name}.key"), key.serialize_pem()))
    };
    let ca = write("ca.pem", authority.pem());
    let (cert, key) = issue("daemon", ExtendedKeyUsagePurpose::ServerAuth);
    let (shown, shown_key) = issue("caller", ExtendedKeyUsagePurpose::ClientAuth);
    let [http, grpc, resp] = free_ports();
    let tls = |port| {
        format!("{{ address: '127.0.0.1:{port}', tls: {{ cert: {cert}, key: {key}, client_ca: {ca} }} }}")
    };
    let file = TemporaryFile::new(&format!(
        "listen:\n  http: {}\n  grpc: {}\n  resp: {}\n{LIMITS}",
        tls(http),
        tls(grpc),
        tls(resp)
    ));
    let mut daemon = Daemon::start(&["--config", file.as_str()]);
    daemon.read_until("callers");
    for at in [
        format!("https://localhost:{http}"),
        format!("grpcs://localhost:{grpc}"),
        format!("rediss://localhost:{resp}"),
    ] {
        let all = ["--ca", &ca, "--cert", &shown, "--cert-key", &shown_key];
        let (code, out, err) = check(&at, &all);
        assert_eq!((code, err.as_str()), (0, ""), "{at}");
        assert!(out.starts_with("admitted: "), "{at}: {out}");
        assert_eq!(check(&at, &all[..2]).0, 3, "{at}: without a certificate");
        let (code, _, err) = check(&at, &all[2..]);
        assert!(code == 3 && err.contains("certificate"), "{at} is not trusted: {err}");
        assert_eq!(check(&at.replace("s://", "://"), &[]).0, 3, "{at}: without TLS");
    }
}

#[test]
fn a_daemon_that_is_not_there_or_is_none_is_3_and_a_wrong_command_line_is_2() {
    let [port] = free_ports();
    for scheme in ["http", "redis", "grpc"] {
        let at = format!("{scheme}://127.0.0.1:{port}");
        let (code, out, err) = check(&at, &[]);
        assert_eq!((code, out.as_str()), (3, ""));
        assert!(err.starts_with(&format!("tidegate: {at} cannot be asked: ")), "{err}");
    }
    for (scheme, says, expected) in [
        ("http", "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi", "with status 200, is no Tidegate"),
        ("http", "hello\r\n", "what answers there is not HTTP"),
        ("http", "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhi", "its answer cannot be read: "),
        ("https", "HTTP/1.1 400\r\n\r\n", "does not speak TLS; write its address with http://"),
        ("redis", "HTTP/1.1 400\r\n\r\n", "what answers there is no Tidegate"),
        ("redis", "*2\r\n$8\r\ndecis", "it closed the connection without an answer"),
        ("rediss", "-ERR unknown command\r\n", "does not speak TLS; write its address with redis://"),
        ("grpc", "hello\r\n", "what answers there does not speak Envoy's rate limit service"),
        ("grpcs", "HTTP/1.1 400\r\n\r\n", "does not speak TLS; write its address with grpc://"),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = format!("{scheme}://{}", listener.local_addr().unwrap());
        let answering = std::thread::spawn(move || {
            let (mut stream, _): (TcpStream, _) = listener.accept().unwrap();
            let _ = stream.read(&mut [0; 1024]);
            let _ = stream.write_all(says.as_bytes());
            // A close with unread bytes would reset the connection, and the answer might be lost.
            let _ = stream.shutdown(Shutdown::Write);
            let _ = std::io::copy(&mut stream, &mut std::io::sink());
        });
        let (code, _, err) = check(&at, &[]);
        assert!(code == 3 && err.contains(expected), "{at}: {err}");
        answering.join().unwrap();
    }
    for arguments in [
        &["check"][..],
        &["check", "api", "user"],
        &["check", "api", "=ada"],
        &["check", "api", "user=ada", "user=bob"],
        &["check", "api", "--cost", "0"],
        &["check", "api", "--at", "ftp://h"],
        &["check", "api", "--at", "redis://:secret@h"],
        &["check", "api", "--token", "secret"],
        &["explain", "api", "--config", "x", "--at", "http://h"],
    ] {
        assert_eq!(run(arguments).0, 2, "{arguments:?}");
    }
}

#[test]
fn a_file_is_explained_as_if_nothing_had_been_charged_yet() {
    let file = TemporaryFile::new(LIMITS);
    let explain = |more: &[&str]| run(&[&["explain", "--config", file.as_str()], more].concat());
    let (code, out, err) = explain(&["api", "user=ada", "method=POST"]);
    assert_eq!((code, err.as_str()), (0, ""));
    let (head, table) = out.split_once("\n\n").unwrap();
    let head = head.replace('\n', " ");
    let expected = format!(
        "A request of cost 1 in api would be admitted, by {}, as if nothing had been charged yet.",
        file.as_str()
    );
    assert_eq!(head, expected);
    let expected = "\
LIMIT     SAYS   USED  LEFT  FULL IN  COUNTED ON
reads     -
  method is \"POST\"; it wants one of \"GET\", \"HEAD\"
per-user  admit     0     6  unused   user=ada
  6 of 6 left, nothing is used; fixed 6 in 365d
";
    assert_eq!(table, expected);
    let (code, out, _) = explain(&["api", "--cost", "7"]);
    assert_eq!(code, 1);
    assert!(
        out.contains("a cost of 7 is more than it ever admits at once, 6") && out.contains("no user"),
        "{out}"
    );
    let (code, _, err) = explain(&["none"]);
    assert!(code == 2 && err.contains("namespace \"none\"") && err.ends_with("there are: api\n"), "{err}");
    let broken = TemporaryFile::new("namespaces: { api: { limits: [{ name: a, rate: 0/s }] } }\n");
    assert_eq!(run(&["explain", "--config", broken.as_str(), "api"]).0, 2);
    assert_eq!(run(&["explain", "--config", "/nowhere/policy.yaml", "api"]).0, 3);
}

#[test]
fn a_file_with_a_store_says_what_is_decided_there_and_touches_nothing() {
    let folder = TemporaryFolder::new();
    let data = folder.path().join("data");
    let files = format!("store: {{ kind: embedded, path: {} }}", data.display());
    let file = TemporaryFile::new(&LIMITS.replace("store: { kind: memory }", &files));
    let (code, out, err) = run(&["explain", "--config", file.as_str(), "api", "user=ada"]);
    assert_eq!((code, err.as_str()), (0, ""));
    assert!(out.contains("6 of 6 left, nothing is used; fixed 6 in 365d; decided in the store"), "{out}");
    assert!(!data.exists());
}

#[test]
fn issue_15_an_attribute_that_no_limit_looks_at_is_noted() {
    let file = TemporaryFile::new(&format!("listen: {{ http: 127.0.0.1:0 }}\n{LIMITS}"));
    let mut daemon = Daemon::start(&[file.as_str()]);
    let at = format!("http://{}", daemon.address());
    let note =
        "tidegate: note: no limit of namespace \"api\" looks at attribute \"usr\"; did you mean user?\n";
    for arguments in [
        &["check", "--at", &at, "api"][..],
        &["explain", "--at", &at, "api"],
        &["explain", "--config", file.as_str(), "api"],
    ] {
        let (code, out, err) = told(&[arguments, &["usr=ada"]].concat(), None);
        assert_eq!((code, err.as_str()), (0, note), "{arguments:?}: {out}");
        let (code, out, err) = told(&[arguments, &["user=ada", "method=GET"]].concat(), None);
        assert_eq!((code, err.as_str()), (0, ""), "{arguments:?}: {out}");
    }
}

#[test]
fn issue_15_a_misspelt_entry_of_a_domain_is_noted_and_the_domain_is_listed_by_its_rules() {
    let folder = TemporaryFolder::new();
    let rules = "domain: mongo_cps\ndescriptors: [{ key: database, value: users, rate_limit: { unit: second, requests_per_unit: 500 } }]\n";
    std::fs::write(folder.path().join("mongo.yaml"), rules).unwrap();
    let files = folder.path().display();
    let file = TemporaryFile::new(&format!(
        "listen: {{ http: 127.0.0.1:0 }}\nenvoy_ratelimit: {{ path: {files} }}\n"
    ));
    let mut daemon = Daemon::start(&[file.as_str()]);
    let at = format!("http://{}", daemon.address());
    let (_, _, err) = run(&["check", "--at", &at, "mongo_cps", "databse=users"]);
    assert!(err.contains("looks at attribute \"databse\"; did you mean database?"), "{err}");
    let (code, out, _) = run(&["limits", "--at", &at]);
    assert!(code == 0 && out.contains("mongo_cps.database_users"), "{out}");
    assert!(out.contains("database=users") && out.contains("enforce"), "{out}");
    let (code, out, _) = run(&["explain", "--at", &at, "mongo_cps", "database=users"]);
    assert!(code == 0 && out.contains("mongo_cps.database_users"), "{out}");
}

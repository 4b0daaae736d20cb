//! `tidegate validate NEW --against OLD`.

use serde_json::{Value, json};
use tidegate_test_support::TemporaryFile;

use crate::command::run;

const OLD: &str = "\
namespaces:
  api:
    limits:
      - { name: per-user, key: [user], missing: group, rate: 100/s, burst: 200 }
      - { name: exports, key: [user], rate: 5/m }
      - { name: gone, rate: 1000/s }
";

const NEW: &str = "\
listen: { http: 127.0.0.1:9000 }
namespaces:
  api:
    limits:
      - { name: per-user, key: [user], missing: group, rate: 200/s, burst: 400 }
      - { name: downloads, was: exports, key: [user], rate: 5/m }
      - { name: more, rate: 1000/s }
";

const BROKEN: &str = "namespaces: { api: { limits: [{ name: a, rate: 0/s }] } }\n";

#[test]
fn what_becomes_of_each_limit_is_said_below_the_verdict() {
    let (old, new) = (TemporaryFile::new(OLD), TemporaryFile::new(NEW));
    let (code, out, err) = run(&["validate", new.as_str(), "--against", old.as_str()]);
    assert_eq!((code, err.as_str()), (0, ""));
    let expected = format!(
        "\
{}: valid: 1 namespace, 3 limits
limits: 1 numbers changed, 1 renamed, 1 added, 1 forgotten
  api/per-user   numbers changed  rate: 100/s, burst: 200 -> rate: 200/s, burst: 400
  api/downloads  renamed          was exports
  api/more       added            rate: 1000/s
  api/gone       forgotten        rate: 1000/s
settings that need a restart:
  listen.http  127.0.0.1:8080 -> 127.0.0.1:9000
1 limit forgets what was used
",
        new.as_str()
    );
    assert_eq!(out, expected);
}

#[test]
fn a_configuration_against_itself_keeps_everything() {
    let file = TemporaryFile::new(OLD);
    let (code, out, _) = run(&["validate", file.as_str(), "--against", file.as_str()]);
    assert_eq!(code, 0);
    assert_eq!(out, format!("{}: valid: 1 namespace, 3 limits\nlimits: 3 kept\n", file.as_str()));
}

#[test]
fn json_has_the_comparison_beside_the_verdict() {
    let (old, new) = (TemporaryFile::new(OLD), TemporaryFile::new(NEW));
    let (code, out, _) = run(&["validate", "--json", new.as_str(), "--against", old.as_str()]);
    let verdict: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &verdict["valid"], &verdict["problems"]), (0, &json!(true), &json!([])));
    let limits = verdict["comparison"]["limits"].as_array().unwrap();
    let said: Vec<(&str, &str)> =
        limits.iter().map(|one| (one["limit"].as_str().unwrap(), one["fate"].as_str().unwrap())).collect();
    assert_eq!(
        said,
        [("per-user", "numbers_changed"), ("downloads", "renamed"), ("more", "added"), ("gone", "forgotten")]
    );
    assert_eq!(limits[1]["was"], json!("exports"));
    assert_eq!(
        limits[0]["numbers"],
        json!({ "what": "numbers", "old": "rate: 100/s, burst: 200", "new": "rate: 200/s, burst: 400" })
    );
    assert_eq!(
        verdict["comparison"]["settings"],
        json!([{ "path": "listen.http", "old": "127.0.0.1:8080", "new": "127.0.0.1:9000", "needs_restart": true }])
    );
    let (_, out, _) = run(&["validate", "--json", new.as_str()]);
    assert!(!out.contains("comparison"), "{out}");
}

#[test]
fn problems_of_either_file_are_listed_and_make_the_exit_code_1() {
    let (good, broken) = (TemporaryFile::new(OLD), TemporaryFile::new(BROKEN));
    for (new, old, count) in [(&good, &broken, 1), (&broken, &good, 1), (&broken, &broken, 2)] {
        let (code, out, _) = run(&["validate", new.as_str(), "--against", old.as_str()]);
        assert_eq!((code, out.lines().count()), (1, count + 1), "{out}");
        assert!(out.starts_with(&format!("{}:1:48: ", broken.as_str())), "{out}");
        let (code, out, _) = run(&["validate", "--json", new.as_str(), "--against", old.as_str()]);
        let verdict: Value = serde_json::from_str(&out).unwrap();
        assert_eq!((code, &verdict["valid"]), (1, &json!(false)));
        let problems = verdict["problems"].as_array().unwrap();
        assert_eq!((problems.len(), &problems[0]["file"]), (count, &json!(broken.as_str())));
    }
}

#[test]
fn an_old_file_that_cannot_be_read_is_3() {
    let new = TemporaryFile::new(NEW);
    let (code, out, err) = run(&["validate", new.as_str(), "--against", "/nowhere/old.yaml"]);
    assert_eq!((code, out.as_str()), (3, ""));
    assert!(err.starts_with("tidegate: cannot read /nowhere/old.yaml: "), "{err}");
}

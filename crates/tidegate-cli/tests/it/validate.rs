//! `tidegate validate`, `schema`, `reference`, and the help.

use crate::command::{TemporaryFile, run};

const VALID: &str = "\
namespaces:
  api:
    limits:
      - { name: per-user, key: [user], missing: group, rate: 100/s, burst: 200 }
";

const PROBLEMS: &str = "\
namespaces:
  api:
    limits:
      - { name: one, key: [user], rate: 0/s }
      - { name: two, kee: [user], rate: 5/s }
      - { name: three, key: [user], rate: 5/s, burst: 0 }
";

#[test]
fn a_valid_file_says_so() {
    let file = TemporaryFile::new(VALID);
    let (code, out, err) = run(&["validate", file.as_str()]);
    assert_eq!((code, err.as_str()), (0, ""));
    assert_eq!(out, format!("{}: valid: 1 namespaces, 1 limits\n", file.as_str()));
}

#[test]
fn every_problem_is_listed_with_its_place_and_what_to_do() {
    let file = TemporaryFile::new(PROBLEMS);
    let (code, out, _) = run(&["validate", file.as_str()]);
    assert_eq!(code, 1, "{out}");
    let lines: Vec<&str> = out.lines().collect();
    assert_eq!(lines.len(), 4, "{out}");
    assert!(
        lines[0].contains(":4:41: namespaces.api.limits[0].rate: rate \"0/s\" admits nothing; use"),
        "{out}"
    );
    assert!(lines[1].contains("kee") && lines[1].contains("key"), "{out}");
    assert!(lines[2].contains("burst"), "{out}");
    assert_eq!(lines[3], "3 problems");
}

#[test]
fn json_says_the_same_for_machines() {
    let (valid, broken) = (TemporaryFile::new(VALID), TemporaryFile::new(PROBLEMS));
    let (code, out, _) = run(&["validate", "--json", valid.as_str()]);
    let verdict: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &verdict["valid"], &verdict["problems"]), (0, &true.into(), &serde_json::json!([])));
    let (code, out, _) = run(&["validate", "--json", broken.as_str()]);
    let verdict: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(
        (code, &verdict["valid"], verdict["problems"].as_array().unwrap().len()),
        (1, &false.into(), 3)
    );
    assert_eq!(
        (&verdict["problems"][0]["line"], &verdict["problems"][0]["path"]),
        (&4.into(), &"namespaces.api.limits[0].rate".into())
    );
}

#[test]
fn warnings_are_listed_and_do_not_make_a_file_invalid() {
    let file =
        TemporaryFile::new("namespaces: { api: { limits: [{ name: per-user, key: [user], rate: 5/s }] } }\n");
    let (code, out, _) = run(&["validate", file.as_str()]);
    assert_eq!(code, 0, "{out}");
    assert!(out.starts_with("warning: "), "a caller can escape it by leaving the attribute out: {out}");
    assert!(out.ends_with("valid: 1 namespaces, 1 limits, 1 warning\n"), "{out}");
}

#[test]
fn a_file_that_cannot_be_read_has_an_exit_code_of_its_own() {
    let (code, out, err) = run(&["validate", "/nowhere/tidegate.yaml"]);
    assert_eq!((code, out.as_str()), (3, ""));
    assert!(err.starts_with("tidegate: cannot read /nowhere/tidegate.yaml: "), "{err}");
    assert_eq!(run(&["serve", "--config", "/nowhere/tidegate.yaml"]).0, 3);
}

#[test]
fn a_wrong_command_line_is_2() {
    for arguments in [&["validate"][..], &["nope"], &[], &["serve", "--listen", "nowhere"]] {
        let (code, _, err) = run(arguments);
        assert_eq!(code, 2, "{arguments:?}: {err}");
    }
}

#[test]
fn a_daemon_with_a_broken_configuration_does_not_start() {
    let file = TemporaryFile::new(PROBLEMS);
    let (code, _, err) = run(&["serve", "--config", file.as_str()]);
    assert_eq!(code, 1);
    assert!(err.contains("namespaces.api.limits[0].rate"), "{err}");
}

#[test]
fn help_and_version_say_what_there_is() {
    let (code, out, _) = run(&["--help"]);
    assert_eq!(code, 0);
    for word in ["serve", "validate", "schema", "reference", "Exit codes:", "cannot be read"] {
        assert!(out.contains(word), "{word}: {out}");
    }
    let (_, out, _) = run(&["validate", "--help"]);
    assert!(out.contains("--against <OLD>") && out.contains("the exit code is 0"), "{out}");
    let (_, out, _) = run(&["serve", "--help"]);
    assert!(out.contains("--config <FILE>") && out.contains("SIGTERM"), "{out}");
    assert_eq!(run(&["--version"]).1, concat!("tidegate ", env!("CARGO_PKG_VERSION"), "\n"));
}

#[test]
fn the_documented_exit_codes_are_those_of_the_help() {
    let document = include_str!("../../../../docs/operations.md");
    let help = run(&["--help"]).1;
    for line in help.lines().skip_while(|line| *line != "Exit codes:").skip(1) {
        let (code, meaning) = line.trim().split_once("  ").unwrap();
        assert!(document.contains(&format!("| {code} | {meaning} |")), "{line}");
    }
}

#[test]
fn schema_and_reference_are_printed() {
    let (code, out, _) = run(&["schema"]);
    let schema: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert!(code == 0 && schema["$schema"].is_string(), "{out}");
    let (code, out, _) = run(&["reference"]);
    assert!(code == 0 && out.contains("namespaces"), "{out}");
}

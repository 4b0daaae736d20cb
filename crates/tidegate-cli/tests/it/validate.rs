//! `tidegate validate`, `schema`, `reference`, and the help.

use std::io::{ErrorKind, Read, Write};
use std::process::Stdio;

use tidegate_test_support::TemporaryFile;

use crate::command::{run, tidegate};

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
    assert_eq!(out, format!("{}: valid: 1 namespace, 1 limit\n", file.as_str()));
}

#[test]
fn tables_and_resources_are_counted() {
    let file = TemporaryFile::new(
        "nodes: [{ name: n1, units: 9000 }]\nresources: { db: { concurrency: 9 } }\nnamespaces:\n  shop: { limits: [], \
         tables: [{ name: a, provisioned: { read: 9, write: 9 } }, { name: b, provisioned: { read: 9, write: 9 } }] }\n",
    );
    let (code, out, err) = run(&["validate", file.as_str()]);
    assert_eq!((code, err.as_str()), (0, ""));
    assert_eq!(out, format!("{}: valid: 1 namespace, 0 limits, 2 tables, 1 resource\n", file.as_str()));
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
    assert!(out.ends_with("valid: 1 namespace, 1 limit, 1 warning\n"), "{out}");
}

/// Runs the command with `text` on standard input, which is a pipe.
fn run_with_input(arguments: &[&str], text: &str) -> (i32, String, String) {
    let mut command = tidegate();
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // A command that refuses its arguments ends without reading.
    let written = child.stdin.take().unwrap().write_all(text.as_bytes());
    assert!(written.is_ok() || written.is_err_and(|error| error.kind() == ErrorKind::BrokenPipe));
    let output = child.wait_with_output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

#[test]
fn issue_15_a_policy_is_read_from_a_pipe() {
    for (file, name) in [("/dev/stdin", "/dev/stdin"), ("-", "<stdin>")] {
        let (code, out, err) = run_with_input(&["validate", file], VALID);
        assert_eq!((code, err.as_str()), (0, ""));
        assert_eq!(out, format!("{name}: valid: 1 namespace, 1 limit\n"));
        let (code, out, _) = run_with_input(&["validate", file], "domain: shop\n");
        assert_eq!((code, out), (0, format!("{name}: valid: 1 domain, 0 limits\n")));
    }
    let file = TemporaryFile::new(VALID);
    let (code, out, err) = run_with_input(&["validate", file.as_str(), "--against", "-"], VALID);
    assert!(code == 0 && out.contains("kept"), "{out}{err}");
    let (code, _, err) = run_with_input(&["validate", "-", "--against", "-"], VALID);
    assert!(code == 2 && err.contains("standard input can be read only once"), "{err}");
}

#[test]
fn issue_15_several_files_are_checked_and_the_worst_counts() {
    let (valid, broken) = (TemporaryFile::new(VALID), TemporaryFile::new(PROBLEMS));
    let (code, out, _) = run(&["validate", valid.as_str(), broken.as_str(), valid.as_str()]);
    assert_eq!(code, 1, "{out}");
    assert_eq!(out.matches(": valid: 1 namespace, 1 limit\n").count(), 2, "{out}");
    assert!(out.contains(&format!("{}: 3 problems\n", broken.as_str())), "{out}");
    let (code, out, err) = run(&["validate", "/nowhere/tidegate.yaml", valid.as_str()]);
    assert!(code == 3 && out.contains(": valid: ") && err.contains("cannot read /nowhere"), "{out}{err}");
    let (code, out, _) = run(&["validate", "--json", valid.as_str(), broken.as_str()]);
    let verdicts: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(
        (code, &verdicts[0]["file"], &verdicts[0]["valid"]),
        (1, &valid.as_str().into(), &true.into())
    );
    assert_eq!((&verdicts[1]["file"], &verdicts[1]["valid"]), (&broken.as_str().into(), &false.into()));
    let (code, _, err) = run(&["validate", valid.as_str(), broken.as_str(), "--against", valid.as_str()]);
    assert!(code == 2 && err.contains("give one FILE"), "{err}");
}

#[test]
fn issue_15_warnings_can_be_denied() {
    let escaped = "namespaces: { api: { limits: [{ name: per-user, key: [user], rate: 5/s }] } }\n";
    let (clean, warned) = (TemporaryFile::new(VALID), TemporaryFile::new(escaped));
    assert_eq!(run(&["validate", "--deny-warnings", clean.as_str()]).0, 0);
    assert_eq!(run(&["validate", warned.as_str()]).0, 0);
    let (code, out, _) = run(&["validate", "--deny-warnings", warned.as_str()]);
    assert!(code == 1 && out.ends_with("valid: 1 namespace, 1 limit, 1 warning\n"), "{out}");
    assert_eq!(run(&["validate", "--deny-warnings", clean.as_str(), warned.as_str()]).0, 1);
}

#[test]
fn issue_15_a_closed_output_ends_a_command_without_a_message() {
    let (valid, broken) = (TemporaryFile::new(VALID), TemporaryFile::new(PROBLEMS));
    let explain = ["explain", "--config", valid.as_str(), "api", "user=ada"];
    for (arguments, code) in [
        (&["validate", valid.as_str()][..], 0),
        (&["validate", broken.as_str()], 1),
        (&["schema"], 0),
        (&["reference"], 0),
        (&["token"], 0),
        (&["--help"], 0),
        (&explain, 0),
    ] {
        // The end that reads is gone before anything is written.
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut child = tidegate().args(arguments).stdout(writer).stderr(Stdio::piped()).spawn().unwrap();
        let mut err = String::new();
        child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
        assert_eq!((child.wait().unwrap().code(), err.as_str()), (Some(code), ""), "{arguments:?}");
    }
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
    let version = concat!("tidegate ", env!("CARGO_PKG_VERSION"), "\n");
    assert_eq!(run(&["--version"]).1, version);
    for arguments in [["--version", "--verbose"], ["--verbose", "--version"]] {
        let (code, out, _) = run(&arguments);
        assert_eq!((code, out.starts_with(version)), (0, true), "{out}");
        let names: Vec<&str> = out.lines().skip(1).map(|line| line.split("  ").next().unwrap()).collect();
        let facts = ["commit", "target", "profile", "features", "lease protocol"];
        let stores = ["store in files", "records in files", "values in Redis"];
        assert_eq!(names, [&facts[..], &stores].concat(), "{out}");
    }
    let (code, _, err) = run(&["--verbose", "schema"]);
    assert_eq!((code, err.contains("--version")), (2, true), "{err}");
}

#[test]
fn the_documented_exit_codes_are_those_of_the_help() {
    let document = include_str!("../../../../docs/command-line.md");
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
    assert!(code == 0 && out.starts_with("# Configuration\n"), "{out}");
    for section in ["listen", "memory", "nodes", "limits", "log"] {
        assert!(out.contains(&format!("`{section}`")), "{section}: {out}");
    }
}

#[test]
fn one_section_of_the_reference_is_printed_and_an_unknown_one_gets_a_suggestion_and_the_list() {
    let (code, out, _) = run(&["reference", "limits"]);
    assert!(code == 0 && out.starts_with("# `limits`\n") && !out.contains("access_log"), "{out}");
    // A page may describe several sections.
    assert_eq!(run(&["reference", "nodes"]).1, run(&["reference", "tables"]).1);
    let (code, _, err) = run(&["reference", "limit"]);
    assert!(code == 2 && err.contains("a similar value exists: 'limits'"), "{err}");
    assert!(
        err.contains(
            "possible values: listen, store, memory, metering, namespaces, defaults, request, limits"
        ),
        "{err}"
    );
}

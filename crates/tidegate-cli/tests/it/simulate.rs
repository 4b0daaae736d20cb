//! `tidegate simulate`.

use tidegate_test_support::TemporaryFolder;

use crate::command::run;

const SMALL: [&str; 8] = ["simulate", "fleet", "--seconds", "3", "--rate", "50", "--members", "3"];

fn small(more: &[&str]) -> (i32, String, String) {
    run(&[&SMALL[..], more].concat())
}

#[test]
fn a_fleet_in_which_nothing_goes_wrong_ends_well_and_the_same_each_time() {
    let (code, out, err) = small(&["--json"]);
    assert_eq!((code, err.as_str()), (0, ""));
    let report: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(report["violations_total"], 0);
    assert_eq!(report["scenario"]["members"], 3);
    assert_eq!(report["series"].as_array().unwrap().len(), 3);
    assert_eq!(small(&["--json"]).1, out);
    assert_ne!(small(&["--json", "--seed", "2"]).1, out);
}

#[test]
fn a_report_is_text_for_people() {
    let (code, out, _) = small(&["--consistency", "exact"]);
    assert_eq!(code, 0, "{out}");
    assert!(
        out.starts_with("seed 1: 3 members, 1 key, 3 s, 50/s and 50 at once, exact, steady load"),
        "{out}"
    );
    assert!(out.ends_with("  violations      none\n"), "{out}");
}

#[test]
fn callers_of_a_slow_limit_are_simulated() {
    let slow = ["--load", "callers", "--rate", "5", "--per", "60", "--keys", "10", "--consistency", "exact"];
    let (code, out, err) = run(&[&["simulate", "fleet", "--seconds", "120"], &slow[..]].concat());
    assert_eq!((code, err.as_str()), (0, ""), "{out}");
    assert!(out.contains("5 each 1 min and 5 at once, exact, callers load"), "{out}");
    assert!(out.contains("first attempts admitted, refused at every attempt for 0.0 s at most"), "{out}");
}

#[test]
fn pictures_are_written_where_they_are_asked_for() {
    let folder = TemporaryFolder::new();
    let plots = folder.path().join("new");
    let (code, _, err) = small(&["--plots", plots.to_str().unwrap()]);
    assert_eq!((code, err.as_str()), (0, ""));
    for name in ["admitted", "lent", "calls"] {
        let svg = std::fs::read_to_string(plots.join(name).with_extension("svg")).unwrap();
        assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"), "{name}");
    }
}

#[test]
fn pictures_that_cannot_be_written_are_said() {
    let (code, _, err) = small(&["--plots", "/dev/null/plots"]);
    assert_eq!(code, 3);
    assert!(err.contains("cannot write to /dev/null/plots"), "{err}");
}

#[test]
fn what_cannot_be_simulated_is_said_with_what_to_do() {
    let (code, _, err) = run(&["simulate", "fleet", "--members", "0"]);
    assert_eq!(code, 2);
    assert_eq!(err, "tidegate: number of members 0 is not between 1 and 65536; use one that is\n");
    assert_eq!(run(&["simulate", "fleet", "--quota", "5", "--rate", "5"]).0, 2);
}

#[test]
fn many_seeds_are_simulated_and_counted() {
    let arguments = ["simulate", "fleet", "--seeds", "3", "--seconds", "5", "--json"];
    let (code, out, err) = run(&arguments);
    assert_eq!((code, err.as_str()), (0, ""), "{out}");
    let found: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!((&found["seeds"], &found["violated_total"]), (&3.into(), &0.into()));
    assert_eq!(run(&arguments).1, out);
}

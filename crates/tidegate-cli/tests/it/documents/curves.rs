//! The curves in the documents are drawn from the data beside them.

use std::io::Write;
use std::process::Command;

use tidegate_test_support::TemporaryFolder;

use super::root;

/// A picture, the script that draws it with what comes before and after the data, and the data.
const CURVES: [(&str, &[&str], &str, &[&str]); 5] = [
    (
        "docs/pictures/over-admission.svg",
        &["crates/tidegate-bench/pictures/over_admission.py"],
        "docs/pictures/data/over-admission.json",
        &[],
    ),
    (
        "docs/pictures/queue.svg",
        &["crates/tidegate-bench/pictures/queue.py", "draw"],
        "docs/pictures/data/queue.json",
        &[],
    ),
    (
        "docs/pictures/goodput.svg",
        &["crates/tidegate-bench/pictures/goodput.py", "draw"],
        "docs/pictures/data/goodput.json",
        &[],
    ),
    (
        "docs/pictures/fleet-outage.svg",
        &["crates/tidegate-bench/fleet/outage_plot.py"],
        "docs/internals/data/fleet-outage.jsonl",
        &["--brief"],
    ),
    (
        "docs/internals/fleet-outage.svg",
        &["crates/tidegate-bench/fleet/outage_plot.py"],
        "docs/internals/data/fleet-outage.jsonl",
        &[],
    ),
];

#[test]
fn every_curve_is_drawn_from_the_data_beside_it() {
    if Command::new("python3").arg("--version").output().is_err() {
        let missing = "skipped: every_curve_is_drawn_from_the_data_beside_it: python3 is not installed";
        let _ = writeln!(std::io::stdout(), "{missing}");
        return;
    }
    let folder = TemporaryFolder::new();
    for (picture, script, data, more) in CURVES {
        let drawn = folder.path().join("drawn.svg");
        let mut command = Command::new("python3");
        command.args(script).arg(data).arg(&drawn).args(more).current_dir(root());
        let output = command.env("PYTHONDONTWRITEBYTECODE", "1").output().unwrap();
        assert!(output.status.success(), "{picture}: {}", String::from_utf8_lossy(&output.stderr));
        let read = |path| std::fs::read_to_string(path).unwrap();
        assert!(
            read(drawn) == read(root().join(picture)),
            "{picture} is not what {script:?} draws of {data}"
        );
    }
}

#[test]
fn every_picture_is_readable_on_a_light_and_on_a_dark_page_and_has_a_title() {
    for folder in ["docs/pictures", "docs/internals"] {
        for entry in std::fs::read_dir(root().join(folder)).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|extension| extension == "svg") {
                let text = std::fs::read_to_string(&path).unwrap();
                for part in ["prefers-color-scheme: dark", "<title", "<desc"] {
                    assert!(text.contains(part), "{} lacks {part}", path.display());
                }
            }
        }
    }
}

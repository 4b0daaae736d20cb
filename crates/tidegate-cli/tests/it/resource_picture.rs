//! `tidegate resources NAME --plot` and `--svg`, from the committed history.

use tidegate_test_support::TemporaryFolder;

use crate::command::tidegate;
use crate::documents::root;

const SAVED: &str = "docs/pictures/data/resource.json";

/// Runs words in the folder of the repository and in the time of Berlin.
fn run(words: &[&str]) -> (i32, String, String) {
    let output =
        tidegate().args(words).current_dir(root()).env("TZ", "Europe/Berlin").env("TERM", "xterm").output();
    let output = output.unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

/// Writes the committed files in place of comparing them, if `TIDEGATE_BLESS` is set.
fn assert_committed(path: &str, text: &str) {
    if std::env::var("TIDEGATE_BLESS").is_ok() {
        std::fs::write(root().join(path), text).unwrap();
    }
    let committed = std::fs::read_to_string(root().join(path)).unwrap_or_default();
    assert!(
        committed == text,
        "{path} is not what the command draws; write it anew with `TIDEGATE_BLESS=1 cargo test -p tidegate-cli \
         resource_picture`\n{text}"
    );
}

#[test]
fn a_terminal_of_80_columns_shows_areas_thresholds_refusals_and_local_time() {
    let (code, out, err) = run(&["resources", "--saved", SAVED, "--plot"]);
    assert_eq!((code, err.as_str()), (0, ""));
    assert_committed("crates/tidegate-cli/tests/it/resource_picture.txt", &out);
    assert!(out.lines().all(|line| line.chars().count() <= 80), "{out}");
    for part in ["━ hard 0.90", "╌ soft 0.70", "search", "refused units", "14:05", "CET"] {
        assert!(out.contains(part), "{part}: {out}");
    }
}

#[test]
fn the_picture_of_the_page_is_what_the_command_draws_of_the_data_beside_it() {
    let folder = TemporaryFolder::new();
    let file = folder.path().join("drawn.svg");
    let words = ["resources", "--saved", SAVED, "--svg", file.to_str().unwrap()];
    let (code, out, err) = run(&words);
    assert_eq!((code, out.as_str(), err.as_str()), (0, "", ""));
    assert_committed("docs/pictures/resource.svg", &std::fs::read_to_string(file).unwrap());
}

#[test]
fn what_cannot_be_drawn_says_what_to_type() {
    let folder = TemporaryFolder::new();
    let broken = folder.write("broken.json", "{\"resource\":\"app\"}").display().to_string();
    for (words, exit, hint) in [
        (vec!["resources", "--plot"], 2, "tidegate resources app --plot"),
        (vec!["resources", "--saved", "nowhere.json"], 3, "cannot read nowhere.json"),
        (vec!["resources", "--saved", &broken], 3, "--plot --json"),
        (vec!["resources", "app", "--plot", "--hours", "25"], 2, "1..=24"),
        (vec!["resources", "app", "--plot", "--by", "tenant"], 2, "feature, class, namespace"),
        (
            vec!["resources", "--saved", SAVED, "--svg", "/nowhere/app.svg"],
            3,
            "cannot write /nowhere/app.svg",
        ),
    ] {
        let (code, out, err) = run(&words);
        assert_eq!(code, exit, "{words:?}: {out}{err}");
        assert!(err.contains(hint), "{words:?}: {err}");
    }
}

#[test]
fn a_saved_answer_is_printed_as_it_was_saved() {
    let (code, out, _) = run(&["resources", "--saved", SAVED, "--plot", "--json"]);
    let read = |text: &str| -> serde_json::Value { serde_json::from_str(text).unwrap() };
    assert_eq!(code, 0);
    assert_eq!(read(&out), read(&std::fs::read_to_string(root().join(SAVED)).unwrap()));
}

/// The committed history with a feature that was switched off and came back, in a file.
fn with_changes(folder: &TemporaryFolder) -> String {
    let text = std::fs::read_to_string(root().join(SAVED)).unwrap();
    let mut history: serde_json::Value = serde_json::from_str(&text).unwrap();
    history["marks"] = serde_json::json!([
        { "at": "2026-11-29T12:46:30Z", "feature": "thumbnails", "level": "480p", "is_worse": true },
        { "at": "2026-11-29T12:47:00Z", "feature": "thumbnails", "level": "off", "is_worse": true },
        { "at": "2026-11-29T12:57:30Z", "feature": "thumbnails", "level": "full", "is_worse": false },
    ]);
    folder.write("changes.json", history.to_string()).display().to_string()
}

#[test]
fn changes_of_levels_of_features_are_marks_in_both_pictures() {
    let folder = TemporaryFolder::new();
    let saved = with_changes(&folder);
    let (code, out, err) = run(&["resources", "--saved", &saved, "--plot"]);
    assert_eq!((code, err.as_str()), (0, ""));
    let lines: Vec<&str> = out.lines().filter(|line| line.contains(['▼', '▲'])).collect();
    assert_eq!(lines.len(), 2, "{out}");
    assert!(lines[0].contains("▼ thumbnails 480p") && lines[0].contains("▲ thumbnails full"), "{out}");
    assert!(lines[1].contains("▼ thumbnails off"), "{out}");
    let told =
        "Levels of features: thumbnails 480p at 13:46, thumbnails off at 13:47, thumbnails full at 13:57.";
    assert!(out.ends_with(&format!("{told}\n")), "{out}");
    let drawn = folder.path().join("drawn.svg");
    let (code, _, err) = run(&["resources", "--saved", &saved, "--svg", drawn.to_str().unwrap()]);
    assert_eq!((code, err.as_str()), (0, ""));
    let svg = std::fs::read_to_string(drawn).unwrap();
    for name in ["▼ thumbnails 480p", "▼ thumbnails off", "▲ thumbnails full", told] {
        assert!(svg.contains(name), "{name}");
    }
}

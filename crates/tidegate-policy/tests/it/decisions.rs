//! The decision log: what may be asked for.

use tidegate_policy::policy::{Decisions, Sample};

use crate::{assert_files, settings};

fn decisions(text: &str) -> Option<Decisions> {
    settings(&format!("log: {{ {text} }}")).log.decisions
}

#[test]
fn a_path_alone_has_every_default() {
    assert_eq!(decisions("level: info"), None);
    let plain = decisions("decisions: /var/log/t.jsonl").unwrap();
    assert_eq!(plain.path, "/var/log/t.jsonl");
    assert_eq!((plain.size_bytes, plain.files, plain.queue), (64 << 20, 4, 65_536));
    assert_eq!(plain.sample, Sample::All);
    assert_eq!(decisions("decisions: { path: /var/log/t.jsonl }"), Some(plain));
    let given =
        decisions("decisions: { path: d, size: 64KiB, files: 1000, queue: 1, sample: refusals }").unwrap();
    assert_eq!((given.size_bytes, given.files, given.queue), (64 << 10, 1000, 1));
    assert_eq!(given.sample, Sample::Refusals);
}

#[test]
fn a_decision_log_that_is_none_says_what_to_do() {
    assert_files(&[
        (
            "log: { decisions: {} }",
            &[
                "t.yaml:1:19: log.decisions.path: `path` is missing; add `path:`, the file, relative to where the daemon is started",
            ],
        ),
        (
            "log: { decisions: \"\" }",
            &["t.yaml:1:19: log.decisions: the path of the decision log is empty; give one"],
        ),
        (
            "log: { decisions: { path: \"\" } }",
            &["t.yaml:1:27: log.decisions.path: the path of the decision log is empty; give one"],
        ),
        (
            "log: { decisions: [d] }",
            &[
                "t.yaml:1:19: log.decisions: expected text or a mapping, found a list; write `key: value` without dashes and square brackets",
            ],
        ),
        (
            "log: { decision: d }",
            &["t.yaml:1:8: log.decision: unknown key \"decision\"; did you mean `decisions`?"],
        ),
        (
            "log: { decisions: { path: d, sise: 1MiB } }",
            &["t.yaml:1:30: log.decisions.sise: unknown key \"sise\"; did you mean `size`?"],
        ),
        (
            "log: { decisions: { path: d, size: 1KiB } }",
            &["t.yaml:1:36: log.decisions.size: size \"1KiB\" is too small; use a size from 64KiB to 1TiB"],
        ),
        (
            "log: { decisions: { path: d, size: 2TiB } }",
            &["t.yaml:1:36: log.decisions.size: size \"2TiB\" is too large; use a size from 64KiB to 1TiB"],
        ),
        (
            "log: { decisions: { path: d, files: 0 } }",
            &["t.yaml:1:37: log.decisions.files: 0 is out of range; use a whole number from 1 to 1000"],
        ),
        (
            "log: { decisions: { path: d, files: 1001 } }",
            &["t.yaml:1:37: log.decisions.files: 1001 is out of range; use a whole number from 1 to 1000"],
        ),
        (
            "log: { decisions: { path: d, queue: 1000001 } }",
            &[
                "t.yaml:1:37: log.decisions.queue: 1000001 is out of range; use a whole number from 1 to 1000000",
            ],
        ),
        (
            "log: { decisions: { path: d, sample: refusal } }",
            &[
                "t.yaml:1:38: log.decisions.sample: \"refusal\" is not a value of this key; did you mean refusals? It is one of all or refusals",
            ],
        ),
    ]);
}

//! The workflows of GitHub: known keys, actions pinned by commit, commands of this program that
//! exist.
//!
//! GitHub tells a misspelt key at the next push of a tag, which is too late for a release.

use saphyr_parser::{Event, Parser};
use serde_json::{Map, Value};

/// The keys of a workflow, of a job and of a step.
const WORKFLOW_KEYS: &[&str] =
    &["name", "run-name", "on", "permissions", "env", "defaults", "concurrency", "jobs"];
const JOB_KEYS: &[&str] = &[
    "name",
    "permissions",
    "needs",
    "if",
    "runs-on",
    "environment",
    "concurrency",
    "outputs",
    "env",
    "defaults",
    "steps",
    "timeout-minutes",
    "strategy",
    "continue-on-error",
    "container",
    "services",
    "uses",
    "with",
    "secrets",
];
const STEP_KEYS: &[&str] = &[
    "id",
    "if",
    "name",
    "uses",
    "run",
    "working-directory",
    "shell",
    "with",
    "env",
    "continue-on-error",
    "timeout-minutes",
];

/// Problems of a workflow. `is_command` tells whether the words behind `cargo xtask dist` are
/// options of it.
pub(super) fn problems(text: &str, is_command: impl Fn(&[&str]) -> bool) -> Vec<String> {
    let workflow = match read(text) {
        Ok(workflow) => workflow,
        Err(error) => return vec![error],
    };
    let mut problems = unknown_keys(&workflow, WORKFLOW_KEYS, "the workflow");
    let none = Map::new();
    let jobs = workflow["jobs"].as_object().unwrap_or(&none);
    if jobs.is_empty() {
        problems.push("the workflow has no jobs".to_owned());
    }
    for (name, job) in jobs {
        problems.extend(unknown_keys(job, JOB_KEYS, &format!("job {name}")));
        for needed in texts(&job["needs"]) {
            if !jobs.contains_key(needed) {
                problems.push(format!("job {name} needs job {needed:?}, which is not there"));
            }
        }
        for (index, step) in job["steps"].as_array().into_iter().flatten().enumerate() {
            let place = format!("job {name}, step {}", index + 1);
            problems.extend(unknown_keys(step, STEP_KEYS, &place));
            if step["run"].is_null() == step["uses"].is_null() {
                problems.push(format!("{place}: give either `run` or `uses`"));
            }
            let script = step["run"].as_str().unwrap_or_default();
            for line in script.lines().filter_map(|line| line.trim().split_once("cargo xtask dist")) {
                let words: Vec<&str> = line.1.split_whitespace().collect();
                if !is_command(&words) {
                    problems.push(format!("{place}: `cargo xtask dist{}` is no command", line.1));
                }
            }
        }
    }
    problems.extend(unpinned(text));
    problems
}

/// Actions that are not pinned by the hash of a commit, with the version in a comment behind it.
fn unpinned(text: &str) -> Vec<String> {
    let uses =
        text.lines().filter_map(|line| line.trim_start().trim_start_matches("- ").strip_prefix("uses:"));
    let wrong = uses.map(str::trim).filter(|action| !action.starts_with("./") && !is_pinned(action));
    wrong
        .map(|action| {
            format!("action {action:?} is not pinned: write OWNER/NAME@HASH # vVERSION, with 40 digits of the hash")
        })
        .collect()
}

fn is_pinned(action: &str) -> bool {
    let Some((reference, version)) = action.split_once(" # v") else { return false };
    let Some((_, hash)) = reference.split_once('@') else { return false };
    let is_hash = hash.len() == 40 && hash.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    is_hash && version.starts_with(|first: char| first.is_ascii_digit())
}

fn unknown_keys(value: &Value, known: &[&str], place: &str) -> Vec<String> {
    let keys = value.as_object().into_iter().flat_map(Map::keys);
    let unknown = keys.filter(|key| !known.contains(&key.as_str()));
    unknown.map(|key| format!("{place}: unknown key {key:?}; known are {}", known.join(", "))).collect()
}

/// The text, or the texts of a list.
fn texts(value: &Value) -> impl Iterator<Item = &str> {
    value.as_str().into_iter().chain(value.as_array().into_iter().flatten().filter_map(Value::as_str))
}

/// The tree of a YAML document, all of whose scalars are texts.
fn read(text: &str) -> Result<Value, String> {
    let mut open: Vec<(Value, Option<String>)> = Vec::new();
    let mut document = Value::Null;
    for event in Parser::new_from_str(text) {
        let (event, _) = event.map_err(|error| format!("it is no YAML: {error}"))?;
        let complete = match event {
            Event::Scalar(scalar, ..) => Value::String(scalar.into_owned()),
            Event::SequenceStart(..) => {
                open.push((Value::Array(Vec::new()), None));
                continue;
            }
            Event::MappingStart(..) => {
                open.push((Value::Object(Map::new()), None));
                continue;
            }
            Event::SequenceEnd | Event::MappingEnd => {
                open.pop().map(|(value, _)| value).ok_or("it ends more than it begins")?
            }
            Event::Alias(_) => return Err("aliases are not read here".to_owned()),
            _ => continue,
        };
        match open.last_mut() {
            None => document = complete,
            Some((Value::Array(items), _)) => items.push(complete),
            Some((Value::Object(entries), key)) => match key.take() {
                None => *key = Some(complete.as_str().ok_or("a key is no text")?.to_owned()),
                Some(name) => {
                    if entries.insert(name.clone(), complete).is_some() {
                        return Err(format!("the key {name:?} is there twice"));
                    }
                }
            },
            Some(_) => return Err("a scalar has parts".to_owned()),
        }
    }
    Ok(document)
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORKFLOW: &str = "\
name: release
on: { push: { tags: ['v*'] } }
permissions: {}
jobs:
  check:
    runs-on: ubuntu-24.04
    steps:
      - uses: actions/checkout@3d3c42e5aac5ba805825da76410c181273ba90b1 # v7.0.1
        with: { persist-credentials: false }
      - name: check
        run: |
          cargo xtask dist --check
  build:
    needs: [check]
    runs-on: ubuntu-24.04
    steps:
      - run: cargo xtask dist
";

    fn found(text: &str) -> String {
        problems(text, |words| matches!(words, [] | ["--check"])).join("\n")
    }

    #[test]
    fn each_fault_of_a_workflow_is_found() {
        assert_eq!(found(WORKFLOW), "");
        for (right, wrong, told) in [
            (
                "runs-on: ubuntu-24.04\n    steps:\n      - uses",
                "run-on: x\n    steps:\n      - uses",
                "unknown key \"run-on\"",
            ),
            ("with:", "wiht:", "unknown key \"wiht\""),
            ("permissions:", "permisions:", "the workflow: unknown key"),
            ("needs: [check]", "needs: [chekc]", "needs job \"chekc\""),
            ("3d3c42e5aac5ba805825da76410c181273ba90b1 # v7.0.1", "v7", "is not pinned"),
            ("3d3c42e5aac5ba805825da76410c181273ba90b1 # v7.0.1", "3d3c42e5 # v7.0.1", "is not pinned"),
            (" # v7.0.1", "", "is not pinned"),
            ("dist --check", "dist --chekc", "is no command"),
            ("name: check\n        run", "name: check\n        rnu", "give either"),
            ("jobs:", "jobs: {}\nenv:", "has no jobs"),
            ("name: release", "name: [release", "no YAML"),
        ] {
            let changed = WORKFLOW.replacen(right, wrong, 1);
            assert_ne!(changed, WORKFLOW, "{right}");
            assert!(found(&changed).contains(told), "{wrong}: {}", found(&changed));
        }
    }
}

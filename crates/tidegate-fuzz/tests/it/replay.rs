//! The inputs in `fuzz/corpus` and `fuzz/regressions` break no claim.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use tidegate_fuzz::{TARGETS, Taken, Target};

/// The least inputs of a corpus: with fewer the fuzzer spends its time on finding the shapes that
/// are known.
const INPUTS_MIN: usize = 20;

/// The most bytes of an input of a corpus: short ones are tried more often and read more easily.
const INPUT_BYTES_MAX: usize = 2048;

fn target(name: &str) -> Target {
    TARGETS.iter().find(|(known, _)| *known == name).unwrap().1
}

/// The files of one folder under `fuzz/`, none if it is not there.
pub(crate) fn inputs(folder: &str, name: &str) -> Vec<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz").join(folder).join(name);
    let entries = fs::read_dir(path).into_iter().flatten();
    let mut paths: Vec<PathBuf> =
        entries.map(|entry| entry.unwrap().path()).filter(|path| path.is_file()).collect();
    paths.sort();
    paths
}

/// Runs each input, and says which of them break a claim or are not taken as their names say.
fn replay(name: &str) {
    let run = target(name);
    let corpus = inputs("corpus", name);
    assert!(corpus.len() >= INPUTS_MIN, "{} inputs in fuzz/corpus/{name}", corpus.len());
    let mut wrong = Vec::new();
    for path in corpus.iter().chain(&inputs("regressions", name)) {
        let bytes = fs::read(path).unwrap();
        let file = path.file_name().unwrap().to_string_lossy();
        let expected = match () {
            () if file.starts_with("ok-") => Some(Taken::Accepted),
            () if file.starts_with("bad-") => Some(Taken::Refused),
            () => None,
        };
        match catch_unwind(AssertUnwindSafe(|| run(&bytes))) {
            Err(_) => wrong.push(format!("{} breaks a claim; its message stands above", path.display())),
            Ok(taken) if expected.is_some_and(|expected| expected != taken) => {
                wrong.push(format!("{} is {taken:?}", path.display()));
            }
            Ok(_) => {}
        }
        if path.components().any(|part| part.as_os_str() == "corpus") && bytes.len() > INPUT_BYTES_MAX {
            wrong.push(format!("{} has {} bytes", path.display(), bytes.len()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_kept_command_of_redis_clients_is_read_or_told() {
    replay("resp");
}

#[test]
fn every_kept_request_of_envoy_is_answered_or_told() {
    replay("rls");
}

#[test]
fn every_kept_report_of_envoy_is_read_or_told() {
    replay("rlqs");
}

#[test]
fn every_kept_file_of_envoyproxy_ratelimit_decides_or_is_told() {
    replay("envoy_files");
}

#[test]
fn every_kept_policy_decides_or_is_told() {
    replay("policy");
}

#[test]
fn every_kept_body_of_the_api_is_read_or_refused_with_its_place() {
    replay("bodies");
}

#[test]
fn every_kept_record_is_read_and_written_back_or_refused() {
    replay("records");
}

#[test]
fn every_kept_token_is_verified_or_rejected() {
    replay("tokens");
}

#[test]
fn every_kept_preamble_is_read_the_same_in_pieces() {
    replay("preamble");
}

#[test]
fn every_kept_query_of_authorize_is_read_back_or_refused() {
    replay("authorize_query");
}

#[test]
fn every_kept_reply_of_redis_is_counted_the_same_in_pieces() {
    replay("redis_replies");
}

#[test]
fn every_target_is_replayed_here_and_run_by_the_fuzzer() {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/Cargo.toml");
    let manifest = fs::read_to_string(manifest).unwrap();
    let this = include_str!("replay.rs");
    for (name, _) in TARGETS {
        assert!(manifest.contains(&format!("name = \"{name}\"")), "fuzz/Cargo.toml has no target {name}");
        assert!(this.contains(&format!("replay(\"{name}\")")), "nothing replays {name}");
    }
}

#[test]
fn every_kept_ticket_opens_or_is_refused() {
    replay("tickets");
}

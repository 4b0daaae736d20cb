//! The decision log on a real disk, full queues, and a disk that fails.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tidegate_core::{Attributes, Class, Reason, Text, Timestamp};
use tidegate_test_support::TemporaryFolder;

use super::file::{RotatingFile, WriteFailure};
use super::line::{PAIRS_BYTES_MAX, TEXT_BYTES_MAX};
use super::queue::RETRY_AFTER;
use super::{DecisionLog, DecisionLogConfig, DecisionRecord};

/// Longer than anything here takes.
const LONG: Duration = Duration::from_mins(1);

/// A directory that is gone when the test is.
struct Directory(TemporaryFolder);

impl Directory {
    fn new() -> Self {
        Self(TemporaryFolder::new())
    }

    fn log(&self) -> PathBuf {
        self.0.join("d.jsonl")
    }

    /// The names in it, sorted.
    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.0.path()).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

fn config(path: PathBuf) -> DecisionLogConfig {
    DecisionLogConfig { path, size_bytes: 1 << 20, files: 3, queue: 1000 }
}

fn line(cost: u64) -> DecisionRecord<'static> {
    DecisionRecord::new(Timestamp::from_millis(1_795_215_600_250), "api", cost)
}

fn text(line: &DecisionRecord<'_>) -> String {
    let mut buffer = Vec::new();
    line.append_to(&mut buffer);
    String::from_utf8(buffer).unwrap()
}

/// The costs in a file, which tell its lines apart.
fn costs(path: &Path) -> Vec<u64> {
    let text = fs::read_to_string(path).unwrap();
    assert!(text.is_empty() || text.ends_with('\n'), "{text}");
    text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["cost"].as_u64().unwrap()).collect()
}

#[test]
fn a_line_says_what_was_decided_and_leaves_out_what_is_absent() {
    assert_eq!(
        text(&line(1)),
        "{\"time\":\"2026-11-20T23:00:00.25Z\",\"namespace\":\"api\",\"decision\":\"admit\",\"cost\":1}\n"
    );
    let scope = [(Text::from("user"), Text::from("ada"))];
    let full = DecisionRecord {
        reason: Some(Reason::RateExceeded),
        limit: Some("per-user"),
        scope: &scope,
        attributes: Attributes::new(&[("user", "ada"), ("method", "GET"), ("user", "eve")]),
        remaining: Some(0),
        retry_after: Some(Duration::from_micros(1500)),
        class: Some(Class::Critical),
        feature: Some("thumbnails"),
        permit: Some("0123456789abcdef0123456789abcdef".parse().unwrap()),
        took: Some(Duration::from_nanos(2999)),
        ..line(3)
    };
    assert_eq!(
        serde_json::from_str::<Value>(&text(&full)).unwrap(),
        json!({
            "time": "2026-11-20T23:00:00.25Z", "namespace": "api", "decision": "refuse", "reason": "rate_exceeded",
            "limit": "per-user", "scope": { "user": "ada" }, "attributes": { "user": "ada", "method": "GET" },
            "cost": 3, "remaining": 0, "retry_after_ms": 2, "class": "critical",
            "feature": "thumbnails", "permit": "0123456789abcdef0123456789abcdef", "took_us": 2,
        })
    );
}

#[test]
fn whatever_a_caller_sends_stays_one_line_of_json_and_comes_back_as_it_was() {
    for hostile in [
        "a\nb\r\n{\"decision\":\"admit\"}",
        "\"quoted\" and \\ back",
        "\0\u{1}\u{1b}[2J\u{7f}\u{85}\u{9b}31m",
        "\u{2028}\u{2029}\u{202e}\u{2066}x",
        "gr\u{fc}n \u{1f600} \u{ffff}\u{10ffff}",
        "",
    ] {
        let pairs = [(hostile, hostile)];
        let scope = [(Text::from(hostile), Text::from(hostile))];
        let written = text(&DecisionRecord {
            namespace: hostile,
            limit: Some(hostile),
            feature: Some(hostile),
            scope: &scope,
            attributes: Attributes::new(&pairs),
            ..line(1)
        });
        let body = written.strip_suffix('\n').unwrap();
        assert!(!body.chars().any(char::is_control), "{body}");
        assert!(!body.contains(['\u{2028}', '\u{2029}', '\u{202e}', '\u{2066}']), "{body}");
        let read: Value = serde_json::from_str(body).unwrap();
        let expected = json!({ hostile: hostile });
        assert_eq!((&read["namespace"], &read["limit"]), (&json!(hostile), &json!(hostile)));
        assert_eq!((&read["scope"], &read["attributes"]), (&expected, &expected));
    }
}

#[test]
fn a_line_has_a_bound_whatever_a_caller_sends() {
    let long = "\u{1}".repeat(1 << 20);
    let names: Vec<String> = (0..64).map(|number| format!("{number}{long}")).collect();
    let pairs: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), long.as_str())).collect();
    let written = text(&DecisionRecord { namespace: &long, attributes: Attributes::new(&pairs), ..line(1) });
    assert!(written.len() < 6 * (PAIRS_BYTES_MAX + 2 * TEXT_BYTES_MAX), "{}", written.len());
    let read: Value = serde_json::from_str(&written).unwrap();
    assert_eq!(read["attributes"].as_object().unwrap().len(), 8);
    assert_eq!(read["cut"], json!(56));
    assert!(read["namespace"].as_str().unwrap().ends_with('…'));
    // The cut never falls into a character.
    let wide = "\u{1f600}".repeat(100);
    let read: Value =
        serde_json::from_str(&text(&DecisionRecord { namespace: &format!("x{wide}"), ..line(1) })).unwrap();
    assert_eq!(read["namespace"].as_str().unwrap().chars().count(), 1 + 63 + 1);
}

#[test]
fn full_files_are_renamed_and_the_oldest_is_removed() {
    let directory = Directory::new();
    let bytes = text(&line(10)).len() as u64;
    let sized = DecisionLogConfig { size_bytes: 3 * bytes, files: 2, ..config(directory.log()) };
    let log = DecisionLog::open(sized).unwrap();
    for cost in 10..21 {
        log.write(&line(cost));
    }
    assert!(log.close(LONG));
    assert_eq!(directory.names(), ["d.jsonl", "d.jsonl.1", "d.jsonl.2"]);
    assert_eq!(costs(&directory.log()), [19, 20]);
    assert_eq!(costs(&directory.0.join("d.jsonl.1")), [16, 17, 18]);
    assert_eq!(costs(&directory.0.join("d.jsonl.2")), [13, 14, 15]);
    assert_eq!((log.written(), log.dropped(), log.errors()), (11, 0, 0));
}

#[test]
fn what_stands_in_the_file_after_a_restart_counts() {
    let directory = Directory::new();
    let bytes = text(&line(10)).len() as u64;
    let sized = || DecisionLogConfig { size_bytes: 3 * bytes, ..config(directory.log()) };
    for costs in [10..12, 12..14] {
        let log = DecisionLog::open(sized()).unwrap();
        costs.for_each(|cost| log.write(&line(cost)));
        assert!(log.close(LONG));
    }
    assert_eq!(costs(&directory.log()), [13]);
    assert_eq!(costs(&directory.0.join("d.jsonl.1")), [10, 11, 12]);
}

#[test]
fn a_line_that_a_crash_cut_off_does_not_swallow_the_next() {
    let directory = Directory::new();
    fs::write(directory.log(), "{\"time\":\"20").unwrap();
    let log = DecisionLog::open(config(directory.log())).unwrap();
    log.write(&line(1));
    assert!(log.close(LONG));
    let text_now = fs::read_to_string(directory.log()).unwrap();
    assert_eq!(text_now, format!("{{\"time\":\"20\n{}", text(&line(1))));
}

#[test]
fn a_full_queue_drops_lines_and_counts_them_and_makes_nobody_wait() {
    let directory = Directory::new();
    let held = Arc::new(Mutex::new(()));
    let queued = DecisionLogConfig { queue: 5, ..config(directory.log()) };
    let holding = held.lock().unwrap();
    let gate = Arc::clone(&held);
    let log = DecisionLog::open_with(queued, move || {
        drop(gate.lock().unwrap_or_else(PoisonError::into_inner));
    })
    .unwrap();
    // The writer stands still: were a single one of these to wait for it, this would never end.
    for cost in 0..100 {
        log.write(&line(cost));
    }
    assert_eq!((log.written(), log.dropped()), (0, 95));
    assert!(!log.flush(Duration::ZERO), "a flush has its deadline too");
    assert!(!log.close(Duration::ZERO), "and so has the end");
    drop(holding);
    assert!(log.close(LONG));
    assert_eq!(costs(&directory.log()), [0, 1, 2, 3, 4]);
    assert_eq!((log.written(), log.dropped(), log.errors()), (5, 95, 0));
    log.write(&line(7));
    assert_eq!(log.dropped(), 96, "after the end nothing is taken");
}

#[test]
fn every_line_is_written_or_dropped_whoever_writes_it() {
    let directory = Directory::new();
    let log = DecisionLog::open(DecisionLogConfig { queue: 50, ..config(directory.log()) }).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..2000).for_each(|cost| log.write(&line(cost))));
        }
    });
    assert!(log.close(LONG));
    assert_eq!(log.written() + log.dropped(), 8000);
    assert_eq!(costs(&directory.log()).len() as u64, log.written());
}

#[test]
fn a_full_disk_costs_lines_and_is_written_again_when_it_has_room() {
    let directory = Directory::new();
    std::os::unix::fs::symlink("/dev/full", directory.log()).unwrap();
    let log = DecisionLog::open(config(directory.log())).unwrap();
    log.write(&line(1));
    log.write(&line(2));
    assert!(log.flush(LONG));
    assert_eq!((log.written(), log.dropped(), log.errors()), (0, 2, 1));
    fs::remove_file(directory.log()).unwrap();
    log.reopen();
    log.write(&line(4));
    assert!(log.close(LONG));
    assert_eq!((log.written(), log.dropped(), log.errors()), (1, 2, 1));
    assert_eq!(costs(&directory.log()), [4]);
}

#[test]
fn a_file_that_failed_is_left_alone_for_a_second_and_then_opened_anew() {
    let directory = Directory::new();
    let mut file = RotatingFile::open(directory.log(), 1 << 20, 1).unwrap();
    fs::remove_dir_all(directory.0.path()).unwrap();
    let start = Instant::now() + RETRY_AFTER;
    let almost = start + RETRY_AFTER.saturating_sub(Duration::from_nanos(1));
    assert!(
        matches!(file.append(b"a\n", start), Err(WriteFailure::Failed(_))),
        "it is looked for where it was"
    );
    fs::create_dir(directory.0.path()).unwrap();
    assert!(matches!(file.append(b"b\n", almost), Err(WriteFailure::Waiting)));
    assert!(file.append(b"c\n", start + RETRY_AFTER).is_ok());
    assert_eq!(fs::read_to_string(directory.log()).unwrap(), "c\n");
}

#[test]
fn a_device_is_never_renamed() {
    let directory = Directory::new();
    std::os::unix::fs::symlink("/dev/null", directory.log()).unwrap();
    let log = DecisionLog::open(DecisionLogConfig { size_bytes: 10, ..config(directory.log()) }).unwrap();
    (0..10).for_each(|cost| log.write(&line(cost)));
    assert!(log.close(LONG));
    assert_eq!((log.written(), directory.names()), (10, vec!["d.jsonl".to_owned()]));
}

#[test]
fn a_directory_that_is_gone_costs_lines_until_it_is_back() {
    let directory = Directory::new();
    let log = DecisionLog::open(config(directory.log())).unwrap();
    fs::remove_dir_all(directory.0.path()).unwrap();
    log.reopen();
    assert!(log.flush(LONG));
    assert!(log.errors() >= 1);
    log.write(&line(1));
    assert!(log.flush(LONG));
    assert_eq!((log.written(), log.dropped()), (0, 1));
    fs::create_dir(directory.0.path()).unwrap();
    log.reopen();
    log.write(&line(2));
    assert!(log.close(LONG));
    assert_eq!((costs(&directory.log()), log.written(), log.dropped()), (vec![2], 1, 1));
}

#[test]
fn a_file_that_was_moved_away_is_left_at_a_reopen() {
    let directory = Directory::new();
    let log = DecisionLog::open(config(directory.log())).unwrap();
    log.write(&line(1));
    assert!(log.flush(LONG));
    let moved = directory.0.join("moved");
    fs::rename(directory.log(), &moved).unwrap();
    log.reopen();
    log.write(&line(2));
    assert!(log.close(LONG));
    assert_eq!((costs(&moved), costs(&directory.log())), (vec![1], vec![2]));
}

#[test]
fn renaming_that_fails_keeps_the_bound_and_drops_lines() {
    let directory = Directory::new();
    // A directory in the place of the renamed file: it cannot be replaced by a file.
    fs::create_dir(directory.0.join("d.jsonl.1")).unwrap();
    let bytes = text(&line(10)).len() as u64;
    let sized = DecisionLogConfig { size_bytes: 2 * bytes, files: 1, ..config(directory.log()) };
    let log = DecisionLog::open(sized).unwrap();
    (10..20).for_each(|cost| log.write(&line(cost)));
    assert!(log.close(LONG));
    assert_eq!(costs(&directory.log()), [10, 11]);
    assert_eq!((log.written(), log.dropped()), (2, 8));
    assert!(log.errors() >= 1);
}

#[test]
fn a_path_that_cannot_be_opened_is_an_error_at_the_start() {
    let directory = Directory::new();
    assert!(DecisionLog::open(config(directory.0.join("missing").join("d"))).is_err());
    assert!(DecisionLog::open(config(directory.0.path().to_owned())).is_err(), "a directory is no file");
}

//! The files of envoyproxy/ratelimit: read, matched with requests, and decided by a real table.

use core::time::Duration;

use tidegate_core::{CarriedStatus, KeyTable, TableConfig, Timestamp};
use tidegate_policy::PROBLEMS_MAX;
use tidegate_policy::envoy::{
    Answer, Ask, Code, Descriptor, DescriptorLimit, Files, Read, Semantics, Settings, Text,
};
use tidegate_wire::envoy::metadata;

use crate::Taken;
use crate::file_problems::{assert_refused, assert_told};

/// When requests come: in one window, in the next one, after the clock went back, and at the end of
/// time.
const INSTANTS: [Timestamp; 6] = [
    Timestamp::from_secs(1_700_000_003),
    Timestamp::from_secs(1_700_000_003),
    Timestamp::from_millis(1_700_000_063_999),
    Timestamp::from_secs(1_699_999_000),
    Timestamp::MIN,
    Timestamp::MAX,
];

/// How many words of a file become descriptors.
const WORDS_MAX: usize = 16;

/// How many descriptors one request has.
const DESCRIPTORS_MAX: usize = 5;

/// The most engine calls of one request: give back, charge limits that can refuse, charge limits
/// that cannot, and take back.
const QUESTIONS_MAX: usize = 4;

/// Reads bytes as one file, and decides requests whose descriptors are made of its words, under
/// several settings.
///
/// The settings change nothing about whether it is read; every request is asked about a few times
/// at most and answered for each of its descriptors, with numbers that the file allows.
pub fn envoy_files(bytes: &[u8]) -> Taken {
    let text = String::from_utf8_lossy(bytes);
    let words: Vec<&str> = words(&text).take(WORDS_MAX).collect();
    let mut taken = None;
    for settings in settings() {
        let file = Text { name: "f.yaml", bytes };
        let now_taken = match Files::read(&[file], settings) {
            Ok(read) => {
                assert_said(&read, bytes);
                // Also where it stands behind the words that become descriptors.
                decide(&read.files, &words, text.contains("burst"));
                Taken::Accepted
            }
            Err(problems) => {
                assert_refused(&problems, bytes);
                Taken::Refused
            }
        };
        assert_eq!(*taken.get_or_insert(now_taken), now_taken, "the settings decide whether a file is read");
        if now_taken == Taken::Refused {
            break;
        }
    }
    taken.expect("there are settings")
}

/// The ways of taking files, each setting on in one of them.
fn settings() -> [Settings; 4] {
    let plain = Settings::default();
    let mut ours = Settings::default();
    ours.semantics = Semantics::Tidegate;
    ours.headers.enabled = true;
    ours.dynamic_metadata = true;
    let mut lenient = Settings::default();
    lenient.quota_mode = true;
    lenient.shadow = true;
    lenient.merge_domains = true;
    lenient.near_limit_ratio = 1.0;
    let mut sparing = Settings::default();
    sparing.stop_increment_when_over_limit = true;
    [plain, ours, lenient, sparing]
}

/// The words between the punctuation of YAML.
fn words(text: &str) -> impl Iterator<Item = &str> {
    let is_part = |one: char| one.is_alphanumeric() || matches!(one, '_' | '-' | '.' | '/' | '*');
    text.split(move |one| !is_part(one)).filter(|word| !word.is_empty())
}

fn assert_said(read: &Read, file: &[u8]) {
    assert_told(&read.warnings, file);
    assert_told(&read.differences, file);
    assert!(read.warnings.len() + read.differences.len() <= 2 * PROBLEMS_MAX);
    let limits = read.files.dump().lines().count();
    assert!(limits >= read.files.count(), "{limits} lines of {} limits", read.files.count());
}

fn decide(files: &Files, words: &[&str], has_bursts: bool) {
    let all = descriptors(words);
    let domains = files.domains().chain(["of nobody"]);
    for domain in domains {
        let mut config = TableConfig::seeded([1, 2, 3, 4]);
        config.bytes = TableConfig::BYTES_MIN;
        let table = KeyTable::new(config);
        for (now, hits) in INSTANTS.into_iter().zip([0, 1, 3, 0, u32::MAX, 2]) {
            for request in all.chunks(DESCRIPTORS_MAX) {
                let answer = ask(files, &table, domain, request, hits, now);
                assert_answered(&answer, request, files.settings(), has_bursts);
            }
        }
    }
}

/// Descriptors of words that stand near each other, plain and with everything a descriptor may
/// bring.
fn descriptors<'a>(words: &[&'a str]) -> Vec<Descriptor<'a>> {
    let mut all = vec![
        Descriptor::new([("a", "x")]),
        Descriptor::new([("a", "x"), ("b", "y")]),
        Descriptor::new([("a", ""), ("b", ""), ("c", "")]),
        Descriptor::new([]),
    ];
    for (at, word) in words.iter().enumerate() {
        // In `key: user, value: ada` the value stands two words behind the key.
        let value = words.get(at + 2).copied().unwrap_or_default();
        let below = [words.get(at + 4), words.get(at + 6)].map(|word| word.copied().unwrap_or("a"));
        all.push(Descriptor::new([(*word, value)]));
        all.push(Descriptor::new([(*word, "x")]));
        all.push(Descriptor::new([(*word, value), (below[0], below[1])]));
    }
    for (at, one) in all.iter_mut().enumerate() {
        one.hits = [None, Some(0), None, Some(7), None, Some(u64::MAX), None, Some(1 << 33)][at % 8];
        one.gives_back = at % 7 == 6;
        if at % 11 == 10 {
            let number = [0, 1, 16_777_219, u32::MAX][at / 11 % 4];
            let unit = i32::try_from(at % 7 + 1).expect("it is at most 7");
            one.limit = Some(DescriptorLimit::new(number, unit).expect("1 to 7 are units"));
        }
    }
    all
}

fn ask<'a>(
    files: &'a Files,
    table: &KeyTable,
    domain: &'a str,
    request: &'a [Descriptor<'a>],
    hits: u32,
    now: Timestamp,
) -> Answer<'a> {
    let mut resolved = files.resolve(domain, request, hits).expect("it has a domain and descriptors");
    let mut questions = 0;
    while let Some(ask) = resolved.ask() {
        questions += 1;
        assert!(questions <= QUESTIONS_MAX, "asked for the {questions}th time");
        let statuses: Vec<CarriedStatus> = match ask {
            Ask::Carry { charging, limits } => {
                assert!(!limits.is_empty(), "a question about nothing");
                let carried = table.carry(domain, &limits, charging, now);
                carried.expect("a file has no concurrency, and few windows").limits.to_vec()
            }
            Ask::GiveBack { limits } => {
                for limit in &limits {
                    table.refund_carried(domain, limit, now).expect("as above");
                }
                Vec::new()
            }
            other => unreachable!("{other:?} is no question that the daemon knows"),
        };
        resolved.told(&statuses);
    }
    resolved.answer(now)
}

fn assert_answered(answer: &Answer<'_>, request: &[Descriptor<'_>], settings: &Settings, has_bursts: bool) {
    assert_eq!(answer.statuses.len(), request.len());
    let is_over = answer.statuses.iter().any(|status| status.code == Code::OverLimit);
    assert!(answer.overall_code == Code::Ok || is_over, "refused by nobody: {answer:?}");
    assert!(answer.overall_code == Code::Ok || !settings.shadow, "refused in shadow mode: {answer:?}");
    for (status, descriptor) in answer.statuses.iter().zip(request) {
        assert!(status.code == Code::Ok || !descriptor.gives_back, "over by giving back: {status:?}");
        assert_eq!(status.current_limit.is_some(), status.duration_until_reset.is_some(), "{status:?}");
        let most = status.current_limit.as_ref().map_or(u32::MAX, |limit| limit.requests_per_unit);
        // A burst above the rate leaves more than the file allows in each unit.
        assert!(status.limit_remaining <= most || has_bursts, "more is left than there is: {status:?}");
        let reset = status.duration_until_reset.unwrap_or(Duration::from_secs(1));
        assert!(reset.as_secs() >= 1 && reset.subsec_nanos() == 0, "no whole seconds: {status:?}");
    }
    for counts in &answer.counts {
        assert!(counts.over_limit <= counts.total_hits, "{counts:?}");
        assert!(counts.near_limit <= counts.total_hits, "{counts:?}");
        assert!(counts.within_limit <= counts.total_hits, "{counts:?}");
    }
    assert_eq!(answer.dynamic_metadata.is_some(), settings.dynamic_metadata);
    if let Some(json) = &answer.dynamic_metadata {
        assert!(metadata::structure(json).is_some(), "no mapping: {json}");
    }
    assert!(answer.headers.len() == 3 || answer.headers.is_empty(), "{:?}", answer.headers);
}

//! Whatever is given as a file there is an answer, and whatever is asked is matched as a plain
//! reading of the rules has it.

use proptest::prelude::*;
use tidegate_policy::PROBLEMS_MAX;
use tidegate_policy::envoy::{Descriptor, Files, Settings, Text, is_such_a_file};

use super::{World, files};

/// Pieces that YAML and the files make something of.
const PIECES: [&str; 44] = [
    "{",
    "}",
    "[",
    "]",
    ": ",
    ", ",
    "- ",
    "? ",
    "&a ",
    "*a",
    "!x ",
    "|\n ",
    "'",
    "\"",
    "#",
    "---\n",
    "\n",
    "\n  ",
    "\n    ",
    "\t",
    "~",
    "0",
    "-1",
    "1.5",
    "99999999999999999999",
    "yes",
    "<<: ",
    "domain: ",
    "d",
    "descriptors: ",
    "key: ",
    "value: ",
    "rate_limit: ",
    "rate_limits: ",
    "unit: ",
    "minute",
    "requests_per_unit: ",
    "unlimited: ",
    "replaces: ",
    "metadata: ",
    "share_threshold: ",
    "window: ",
    "*",
    "\u{feff}",
];

const FILE: &str = "
domain: d
descriptors:
  - key: a
    value: 'x*'
    share_threshold: true
    metadata: { a: [1, { b: 2.5 }] }
    rate_limit: &l { unit: minute, requests_per_unit: 5, name: n, replaces: [{ name: m }] }
    descriptors:
      - { key: b, rate_limit: { <<: *l, unit: week } }
      - { key: c, detailed_metric: true, rate_limits: [{ window: 5m, algorithm: rate, burst: 3, requests_per_unit: 2 }] }
  - { key: e, quota_mode: yes, rate_limit: { unlimited: true } }
";

fn assert_answered(text: &str) {
    let _ = is_such_a_file(text.as_bytes());
    let lines = text.split(['\n', '\r']).count() + 1;
    let said = match Files::read(&[Text { name: "t", bytes: text.as_bytes() }], Settings::default()) {
        Ok(read) => {
            let entries = [("a", "x"), ("b", "")];
            let descriptors = [Descriptor::new(entries), Descriptor::new(entries[..1].iter().copied())];
            let _ = World::new().ask(&read.files, &descriptors, 1);
            read.files.dump();
            [read.warnings, read.differences].concat()
        }
        Err(problems) => {
            assert!(!problems.problems.is_empty() && problems.problems.len() <= PROBLEMS_MAX);
            problems.problems
        }
    };
    for problem in said {
        assert!((1..=lines).contains(&problem.line) && problem.column >= 1, "{problem:?}");
        assert!(!problem.to_string().contains('\n'), "{problem:?}");
    }
}

/// A descriptor of the model: its key, its value, whether it has a limit, and what is below it.
#[derive(Clone, Debug)]
struct Model {
    key: String,
    value: String,
    is_limited: bool,
    below: Vec<Model>,
}

/// The number of the descriptor in the order of the file that the rules, read plainly, give these
/// entries; of none 0.
fn expected(all: &[Model], entries: &[(String, String)], number: &mut u32) -> Option<u32> {
    let (key, value) = &entries[0];
    // Numbers are given in the order of the file, so everything is walked.
    let numbers: Vec<u32> = all
        .iter()
        .map(|one| {
            *number += 1;
            let own = *number;
            count(&one.below, number);
            own
        })
        .collect();
    let is_very = |one: &Model| one.key == *key && !one.value.is_empty() && one.value == *value;
    let is_like = |one: &Model| one.value.contains('*') && one.key == *key && fits(&one.value, value);
    let is_any = |one: &Model| one.key == *key && one.value.is_empty();
    let place =
        all.iter().position(is_very).or(all.iter().position(is_like)).or(all.iter().position(is_any))?;
    let mut number = numbers[place];
    if entries.len() == 1 {
        return all[place].is_limited.then_some(number);
    }
    expected(&all[place].below, &entries[1..], &mut number)
}

fn count(all: &[Model], number: &mut u32) {
    for one in all {
        *number += 1;
        count(&one.below, number);
    }
}

/// Whether a text is as a pattern says, by trying everything that a star may stand for.
fn fits(pattern: &str, text: &str) -> bool {
    match pattern.chars().next() {
        None => text.is_empty(),
        Some('*') => (0..=text.len()).any(|taken| fits(&pattern[1..], &text[taken..])),
        Some(c) => text.starts_with(c) && fits(&pattern[1..], &text[1..]),
    }
}

fn written(all: &[Model], number: &mut u32) -> String {
    let all = all.iter().map(|one| {
        *number += 1;
        let limit = format!("rate_limit: {{ unit: day, requests_per_unit: {number} }}, ");
        let limit = if one.is_limited { limit } else { String::new() };
        let below = written(&one.below, number);
        format!("{{ key: {}, value: '{}', {limit}descriptors: {below} }}", one.key, one.value)
    });
    format!("[{}]", all.collect::<Vec<_>>().join(", "))
}

/// Each pair of key and value is unique.
fn distinct(mut all: Vec<Model>) -> Vec<Model> {
    let mut seen = std::collections::BTreeSet::new();
    all.retain(|one| seen.insert((one.key.clone(), one.value.clone())));
    all
}

fn models() -> impl Strategy<Value = Vec<Model>> {
    let one = || (prop::sample::select(vec!["a", "b"]), "[xy*]{0,3}", any::<bool>());
    let make = |((key, value, is_limited), below): ((&str, String, bool), Vec<Model>)| Model {
        key: key.to_owned(),
        value,
        is_limited,
        below,
    };
    let leaf =
        prop::collection::vec(one().prop_map(move |one| make((one, Vec::new()))), 0..6).prop_map(distinct);
    leaf.prop_recursive(2, 40, 6, move |below| {
        prop::collection::vec((one(), below).prop_map(make), 0..6).prop_map(distinct)
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_are_answered(bytes in prop::collection::vec(any::<u8>(), 0..256)) {
        let _ = Files::read(&[Text { name: "t", bytes: &bytes }], Settings::default());
        assert_answered(&String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn any_pieces_of_a_file_are_answered(pieces in prop::collection::vec(prop::sample::select(&PIECES[..]), 0..64)) {
        assert_answered(&pieces.concat());
    }

    #[test]
    fn any_change_to_a_file_is_answered(
        changes in prop::collection::vec((any::<prop::sample::Index>(), 0..24_usize, prop::sample::select(&PIECES[..])), 1..6),
    ) {
        let mut text: Vec<char> = FILE.chars().collect();
        for (at, removed, piece) in changes {
            let at = at.index(text.len() + 1);
            let end = (at + removed).min(text.len());
            text.splice(at..end, piece.chars());
        }
        assert_answered(&text.into_iter().collect::<String>());
    }

    #[test]
    fn matching_is_what_a_plain_reading_of_the_rules_gives(
        model in models(),
        entries in prop::collection::vec((prop::sample::select(vec!["a", "b"]), "[xy*]{0,3}"), 1..4),
    ) {
        let entries: Vec<(String, String)> = entries.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
        let files = files(&format!("domain: d\ndescriptors: {}", written(&model, &mut 0)));
        let descriptors = [Descriptor::new(entries.iter().map(|(key, value)| (key.as_str(), value.as_str())))];
        let answer = World::new().ask(&files, &descriptors, 0);
        let matched = answer.statuses[0].current_limit.as_ref().map(|limit| limit.requests_per_unit);
        prop_assert_eq!(matched, expected(&model, &entries, &mut 0));
    }
}

#[test]
fn the_file_that_is_changed_is_right() {
    files(FILE);
}

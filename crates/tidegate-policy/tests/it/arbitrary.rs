//! Whatever is given as a configuration, there is an answer: no panic, positions inside the file,
//! lines that are lines; and what is accepted makes gates.

use std::sync::Arc;

use proptest::prelude::*;
use tidegate_core::{Gate, KeyTable, TableConfig};
use tidegate_policy::{PROBLEMS_MAX, parse, parse_bytes};

const FILES: [&str; 3] = [
    tidegate_policy::Policy::example(),
    include_str!("many_problems.yaml"),
    "listen: { http: { address: \"[::1]:80\", insecure: true }, admin: 127.0.0.1:1 }
memory: { keys: 1MiB, when_full: admit }
namespaces:
  a: &a
    limits:
      - { name: x, key: [ip, { attribute: p, ipv6_prefix: 3 }], missing: group, rate: 1/s, burst: 2, debt: 3 }
      - { name: y, match: { m: { not: { one_of: [a, b] } }, i: { cidr: [::/0] }, g: { glob: '{a,b}*' } }, fixed: { limit: 1, window: 1m, start: first_hit } }
      - { name: z, rolling: { limit: 2, window: 1m, accuracy: approximate }, share: 1/2, on_exceed: { block: 1h }, status: 503 }
      - { name: c, calendar: { limit: 1, unit: week, zone: Asia/Tokyo, week_start: sunday }, key: [u], overrides: [{ u: 1, limit: 2 }] }
      - { name: p, concurrency: { limit: 1, hold: 1s }, mode: shadow, consistency: exact, on_store_failure: allow, was: q }
  b: *a
authorize: { namespace: a, headers: { x-a: a } }
http: { legacy_headers: [rate_limit], bounds: { body: \"${BODY:-1KiB}\", request_timeout: 1s } }
log: { level: warn, format: json, refusals: off }
",
];

/// Pieces that YAML and the configuration make something of.
const PIECES: [&str; 36] = [
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
    "!!str ",
    "|\n ",
    ">\n ",
    "'",
    "\"",
    "#",
    "---\n",
    "...\n",
    "\n",
    "\t",
    "  ",
    "${",
    "${A}",
    "$${",
    "~",
    "null",
    "0",
    "-1",
    "99999999999999999999",
    "1/s",
    "1e9d",
    "%YAML 1.2\n",
    "<<: ",
    "\u{feff}",
    "\u{2028}é",
];

fn assert_answered(text: &str) {
    let mut config = TableConfig::seeded([1, 2, 3, 4]);
    config.bytes = TableConfig::BYTES_MIN;
    let table = Arc::new(KeyTable::new(config));
    let env = |name: &str| (name.len() < 3).then(|| "${x}:\n".repeat(name.len()));
    let said = match parse("t", text, &env) {
        Ok(checked) => {
            for namespace in checked.policy.namespaces {
                let gate =
                    Gate::builder(namespace.name).limits(namespace.limits).table(table.clone()).build();
                assert!(gate.is_ok(), "{:?} in {text}", gate.err());
            }
            checked.warnings
        }
        Err(problems) => {
            assert!(!problems.problems.is_empty() && problems.problems.len() <= PROBLEMS_MAX);
            problems.problems
        }
    };
    let lines = text.split(['\n', '\r']).count() + 1;
    for problem in said {
        assert!((1..=lines).contains(&problem.line) && problem.column >= 1, "{problem:?}");
        assert!(!problem.what.is_empty() && !problem.fix.is_empty(), "{problem:?}");
        assert!(!problem.to_string().contains('\n'), "{problem:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_are_answered(bytes in prop::collection::vec(any::<u8>(), 0..512)) {
        let _ = parse_bytes("t", &bytes, &|_| None);
        assert_answered(&String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn any_pieces_of_yaml_are_answered(pieces in prop::collection::vec(prop::sample::select(&PIECES[..]), 0..64)) {
        assert_answered(&pieces.concat());
    }

    #[test]
    fn any_change_to_a_file_is_answered(
        file in 0..FILES.len(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), 0..24_usize, prop::sample::select(&PIECES[..])), 1..8),
    ) {
        let mut text: Vec<char> = FILES[file].chars().collect();
        for (at, removed, piece) in changes {
            let at = at.index(text.len() + 1);
            let end = (at + removed).min(text.len());
            text.splice(at..end, piece.chars());
        }
        assert_answered(&text.into_iter().collect::<String>());
    }

    #[test]
    fn any_value_of_any_key_is_answered(line in any::<prop::sample::Index>(), value in "\\PC{0,24}") {
        // Replaces what follows the colon in one line of a file.
        let lines: Vec<&str> = FILES[1].lines().collect();
        let chosen = line.index(lines.len());
        let replaced = lines.iter().enumerate().map(|(index, line)| match line.split_once(": ") {
            Some((key, _)) if index == chosen => format!("{key}: {value}\n"),
            _ => format!("{line}\n"),
        });
        assert_answered(&replaced.collect::<String>());
    }
}

#[test]
fn the_files_that_are_changed_are_right_or_wrong_as_they_are_meant() {
    assert!(parse("t", FILES[0], &|_| None).is_ok());
    assert!(parse("t", FILES[1], &|_| None).is_err());
    assert!(parse("t", FILES[2], &|_| None).is_ok(), "{:?}", parse("t", FILES[2], &|_| None).err());
}

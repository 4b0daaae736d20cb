//! Findings that are still allowed, by crate: numbers that may only fall.
//!
//! The table is `xtask/allowances.txt`, one number a line. A crate without a line is allowed
//! nothing. More findings than allowed are a failure. Fewer are a failure too: the number is then
//! stale and must be lowered, which `cargo xtask lower-allowances` does.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use crate::checkout;

/// The table, from the root of the workspace.
const FILE: &str = "xtask/allowances.txt";

/// The kinds of findings that are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Finding {
    /// Circles between files of the crate.
    Circles,
    /// Files in the largest of those circles.
    LargestCircle,
    /// Type names that more than one type of the crate has.
    DuplicateTypes,
    /// Names of files and folders that break the rules for names.
    BadNames,
    /// Lines that break the rules for English.
    Language,
}

impl Finding {
    const ALL: [Self; 5] =
        [Self::Circles, Self::LargestCircle, Self::DuplicateTypes, Self::BadNames, Self::Language];

    /// The word for it in the table.
    fn word(self) -> &'static str {
        match self {
            Self::Circles => "circles",
            Self::LargestCircle => "largest-circle",
            Self::DuplicateTypes => "duplicate-types",
            Self::BadNames => "bad-names",
            Self::Language => "language",
        }
    }
}

/// Numbers of findings by crate and kind. A number that is absent is zero.
pub(crate) type Counts = BTreeMap<(String, Finding), usize>;

/// The table as it is in the checkout.
pub(crate) fn read() -> Result<Counts, String> {
    let text = fs::read_to_string(path()).map_err(|error| format!("{FILE} cannot be read: {error}"))?;
    parse(&text)
}

fn path() -> PathBuf {
    checkout::root().join(FILE)
}

/// The numbers of a table: lines of crate, kind and number, empty lines, and lines that begin with
/// `#`.
fn parse(text: &str) -> Result<Counts, String> {
    let mut counts = Counts::new();
    for (index, line) in text.lines().enumerate() {
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        let invalid = |why: &str| format!("{FILE}:{}: {why}: {line:?}", index + 1);
        let (name, kind, number) =
            entry(line).ok_or_else(|| invalid("expected `CRATE KIND NUMBER` with a known kind"))?;
        if number == 0 {
            return Err(invalid("an allowance of 0 has no line; delete it"));
        }
        if counts.insert((name.to_owned(), kind), number).is_some() {
            return Err(invalid("duplicate allowance; keep the lower one"));
        }
    }
    Ok(counts)
}

fn entry(line: &str) -> Option<(&str, Finding, usize)> {
    let mut words = line.split_whitespace();
    let (name, word, number) = (words.next()?, words.next()?, words.next()?);
    let kind = Finding::ALL.into_iter().find(|kind| kind.word() == word)?;
    words.next().is_none().then_some((name, kind, number.parse().ok()?))
}

/// Each difference between the findings of `kinds` and the allowances for them.
pub(crate) fn differences(allowed: &Counts, found: &Counts, kinds: &[Finding]) -> Vec<String> {
    let keys: std::collections::BTreeSet<_> =
        allowed.keys().chain(found.keys()).filter(|(_, kind)| kinds.contains(kind)).collect();
    let number = |counts: &Counts, key| counts.get(key).copied().unwrap_or(0);
    keys.into_iter()
        .filter_map(|key| {
            let (name, kind) = key;
            let (allowed, found) = (number(allowed, key), number(found, key));
            let word = kind.word();
            if found > allowed {
                return Some(format!("{name}: {word} {found}, allowed are {allowed}"));
            }
            (found < allowed).then(|| {
                let edit = match found {
                    0 => format!("delete the line `{name} {word} {allowed}`"),
                    _ => format!("write `{name} {word} {found}` in place of {allowed}"),
                };
                format!("{name}: stale allowance: in {FILE} {edit}, or run `cargo xtask lower-allowances`")
            })
        })
        .collect()
}

/// Lowers every number of the table that is higher than the findings; raises none.
pub(crate) fn lower(found: &Counts) -> Result<(), String> {
    let unreadable = |error| format!("{FILE}: {error}");
    let text = fs::read_to_string(path()).map_err(unreadable)?;
    parse(&text)?;
    fs::write(path(), lowered(&text, found)).map_err(unreadable)
}

fn lowered(text: &str, found: &Counts) -> String {
    let mut lines: Vec<String> = Vec::new();
    for line in text.lines() {
        let Some((name, kind, allowed)) = entry(line) else {
            // A crate whose last number went leaves one empty line.
            let is_second_empty_line = line.is_empty() && lines.last().is_none_or(String::is_empty);
            if !is_second_empty_line {
                lines.push(line.to_owned());
            }
            continue;
        };
        match found.get(&(name.to_owned(), kind)).copied().unwrap_or(0) {
            0 => {}
            number if number < allowed => lines.push(format!("{name} {} {number}", kind.word())),
            _ => lines.push(line.to_owned()),
        }
    }
    while lines.last().is_some_and(String::is_empty) {
        lines.pop();
    }
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str =
        "# A comment.\n\ntidegate circles 3\ntidegate language 40\n\ntidegate-wire bad-names 1\n";

    fn counts(entries: &[(&str, Finding, usize)]) -> Counts {
        entries.iter().map(|(name, kind, number)| (((*name).to_owned(), *kind), *number)).collect()
    }

    #[test]
    fn findings_equal_to_the_allowances_are_no_difference() {
        let found = counts(&[("tidegate", Finding::Circles, 3), ("tidegate-wire", Finding::BadNames, 1)]);
        let kinds = [Finding::Circles, Finding::BadNames];
        assert_eq!(differences(&parse(TABLE).unwrap(), &found, &kinds), [""; 0]);
    }

    #[test]
    fn more_findings_than_allowed_are_named_with_both_numbers() {
        let found = counts(&[("tidegate", Finding::Circles, 4), ("tidegate-tower", Finding::Circles, 1)]);
        assert_eq!(
            differences(&parse(TABLE).unwrap(), &found, &[Finding::Circles]),
            ["tidegate: circles 4, allowed are 3", "tidegate-tower: circles 1, allowed are 0"]
        );
    }

    #[test]
    fn a_stale_allowance_is_a_difference_that_says_the_number_to_write() {
        let found = counts(&[("tidegate", Finding::Circles, 2)]);
        let differences = differences(&parse(TABLE).unwrap(), &found, &[Finding::Circles, Finding::BadNames]);
        assert_eq!(differences.len(), 2);
        assert!(differences[0].contains("write `tidegate circles 2` in place of 3"), "{differences:?}");
        assert!(differences[1].contains("delete the line `tidegate-wire bad-names 1`"), "{differences:?}");
    }

    #[test]
    fn lowering_writes_lower_numbers_drops_zeros_and_raises_nothing() {
        let found = counts(&[("tidegate", Finding::Circles, 2), ("tidegate", Finding::Language, 41)]);
        let text = lowered(TABLE, &found);
        assert_eq!(text, "# A comment.\n\ntidegate circles 2\ntidegate language 40\n");
        let only_wire = counts(&[("tidegate-wire", Finding::BadNames, 1)]);
        assert_eq!(lowered(TABLE, &only_wire), "# A comment.\n\ntidegate-wire bad-names 1\n");
    }

    #[test]
    fn an_unknown_kind_a_zero_and_a_duplicate_line_are_refused_with_the_line() {
        for (table, why) in [
            ("tidegate squares 3", "known kind"),
            ("tidegate circles", "known kind"),
            ("tidegate circles 3 4", "known kind"),
            ("tidegate circles 0", "delete it"),
            ("tidegate circles 2\ntidegate circles 1", "txt:2: duplicate"),
        ] {
            let error = parse(table).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
    }
}

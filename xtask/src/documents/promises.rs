//! Names and figures that a page promises.
//!
//! A name is what a user types or reads: a key, a route, an option, a command, a metric, a reason.
//! It stands in a code span or in a block of code. A figure is a number with a unit.

use std::collections::BTreeSet;

use crate::markdown::{self, LineKind};

/// Units of figures.
const UNITS: &[&str] = &[
    "%",
    "B",
    "GB",
    "GiB",
    "KB",
    "KiB",
    "MB",
    "MiB",
    "buckets",
    "bytes",
    "characters",
    "connections",
    "days",
    "h",
    "hours",
    "keys",
    "limits",
    "members",
    "min",
    "minutes",
    "ms",
    "namespaces",
    "ns",
    "requests",
    "resources",
    "s",
    "seconds",
    "streams",
    "tenants",
    "us",
];

/// The longest name.
const NAME_LENGTH_MAX: usize = 60;

/// More parts than this between underscores has the name of a test.
const NAME_PARTS_MAX: usize = 5;

/// A promise of a page.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Promise {
    Figure(String),
    Name(String),
}

impl Promise {
    /// Reads a promise as [`Self::fmt`] writes it.
    pub(super) fn parse(line: &str) -> Option<Self> {
        match line.split_once(' ')? {
            ("figure", figure) => Some(Self::Figure(figure.to_owned())),
            ("name", name) => Some(Self::Name(name.to_owned())),
            _ => None,
        }
    }
}

impl std::fmt::Display for Promise {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Figure(figure) => write!(f, "figure {figure}"),
            Self::Name(name) => write!(f, "name {name}"),
        }
    }
}

/// The promises of a page.
pub(super) fn of_page(page: &str) -> BTreeSet<Promise> {
    let mut promises = BTreeSet::new();
    for paragraph in markdown::paragraphs(page) {
        for span in markdown::code_spans(&paragraph.text) {
            promises.extend(names_in_span(&span).into_iter().map(Promise::Name));
        }
        let prose = markdown::without_code_and_targets(&paragraph.text);
        promises.extend(figures_in(&prose).into_iter().map(Promise::Figure));
    }
    for line in markdown::lines(page).iter().filter(|line| line.kind == LineKind::Code) {
        let names = tokens(line.text).filter(|token| is_typed(token) && is_name(token));
        promises.extend(names.map(|name| Promise::Name(name.to_owned())));
    }
    promises
}

/// The names in a code span: the span itself if it is one word, otherwise the words in it that can
/// be nothing else.
fn names_in_span(span: &str) -> Vec<String> {
    let is_word = !span.contains([' ', '=', '"', ',', '(', '<']);
    if is_word {
        let name = span.trim_end_matches([':', '.', '?']);
        return if is_name(name) { vec![name.to_owned()] } else { Vec::new() };
    }
    let keys = span.split_whitespace().filter_map(|word| word.strip_suffix(':'));
    let keys = keys.map(|key| key.trim_matches(['{', '[', '"']));
    let names = tokens(span).filter(|token| is_marked(token)).chain(keys.filter(|key| is_name(key)));
    names.map(str::to_owned).collect()
}

/// The parts of a text that may be names.
fn tokens(text: &str) -> impl Iterator<Item = &str> {
    let is_between = |letter: char| !(letter.is_ascii_alphanumeric() || "_-./{}".contains(letter));
    // `tidegate_table_*` is no name.
    text.split(is_between).filter(|token| !token.ends_with('_')).map(|token| {
        let has_placeholder = token.starts_with('/') && token.contains('}');
        let token = if has_placeholder { token } else { token.split(['{', '}']).next().unwrap_or(token) };
        token.trim_end_matches(['.', '-', '/'])
    })
}

/// Whether a token is a route, an option or a metric. Other words in blocks of code mostly belong
/// to other programs.
fn is_typed(token: &str) -> bool {
    let option =
        token.strip_prefix("--").is_some_and(|word| word.starts_with(|one: char| one.is_alphabetic()));
    option || token.starts_with("/v1/") || token.starts_with("tidegate_")
}

/// Whether a token of a longer span is a name: typed, or with an underscore.
fn is_marked(token: &str) -> bool {
    (is_typed(token) || token.contains('_') && !token.contains('/')) && is_name(token)
}

fn is_name(text: &str) -> bool {
    let is_test = text.split('_').count() > NAME_PARTS_MAX && !text.starts_with("tidegate_");
    let is_source = text.rsplit('.').next() == Some("rs")
        || ["crates/", "xtask/", "docs/", "../"].iter().any(|start| text.starts_with(start));
    let is_part = text.starts_with(['_', '$']) || text.starts_with("..");
    let is_address = text.contains("://") || text.starts_with("127.") || text.starts_with("//");
    let has_word = text.split(|one: char| !one.is_alphabetic()).any(|part| part.len() > 1);
    has_word
        && text.len() <= NAME_LENGTH_MAX
        && figures_in(text).is_empty()
        && !(is_test || is_source || is_address || is_part)
}

/// The figures of a text, each as a number without blanks, a blank and a unit.
pub(super) fn figures_in(text: &str) -> BTreeSet<String> {
    let is_of_number = |letter: char| letter.is_ascii_digit() || ".,".contains(letter);
    let mut figures = BTreeSet::new();
    let mut number = String::new();
    for word in text.split_whitespace() {
        let is_mark = |letter: char| "()[]{}\"'*,;:~".contains(letter);
        let word = word.trim_start_matches(is_mark).trim_end_matches(|end| is_mark(end) || end == '.');
        let (digits, unit) = word.split_at(word.find(|letter| !is_of_number(letter)).unwrap_or(word.len()));
        if digits.starts_with(|one: char| one.is_ascii_digit()) {
            // `10 000` is one number.
            let is_thousands = digits.len() == 3 && digits.bytes().all(|digit| digit.is_ascii_digit());
            if !(is_thousands && number.bytes().all(|digit| digit.is_ascii_digit())) {
                number.clear();
            }
            number.push_str(digits);
            if unit.is_empty() {
                continue;
            }
            if UNITS.contains(&unit) {
                figures.insert(format!("{number} {unit}"));
            }
        } else if !number.is_empty() && UNITS.contains(&word) {
            figures.insert(format!("{number} {word}"));
        }
        number.clear();
    }
    figures
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(page: &str) -> Vec<String> {
        of_page(page).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn names_are_single_words_in_code_and_marked_words_in_longer_code() {
        assert_eq!(
            lines(
                "`burst`, `wait: 250ms`, `PUT /v1/signals/{name}`, `tidegate top --by tenant`, `10ms`, `-`\n"
            ),
            ["name --by", "name /v1/signals/{name}", "name burst", "name wait"]
        );
        assert_eq!(
            lines("```sh\ncurl /v1/check --data x\n# tidegate_refusals_total{limit=x} 7\n```\n"),
            ["name --data", "name /v1/check", "name tidegate_refusals_total"]
        );
    }

    #[test]
    fn tests_sources_and_addresses_are_no_names() {
        let page = "`a_refusal_is_charged_to_no_limit_at_all` `crates/tidegate-core` `ring/loom.rs` \
            `http://host:80` `127.0.0.1` `_saturated` `$id`\n```yaml\nfilter_chains: []\n```\n";
        assert_eq!(lines(page), [""; 0]);
    }

    #[test]
    fn figures_are_numbers_with_a_unit() {
        assert_eq!(
            lines("At most 10 000 keys (64 KiB each), 0.5 s; 3 limits, in 2026 or 12 of 16 MiB; 5 ms.\n"),
            [
                "figure 0.5 s",
                "figure 10000 keys",
                "figure 16 MiB",
                "figure 3 limits",
                "figure 5 ms",
                "figure 64 KiB"
            ]
        );
        assert_eq!(lines("It takes 250ms or 7 %, and 7 x 3 apples.\n"), ["figure 250 ms", "figure 7 %"]);
        assert_eq!(lines("A year (365 days).\n"), ["figure 365 days"]);
    }

    #[test]
    fn a_promise_is_read_as_it_is_written() {
        for line in ["figure 5 ms", "name wait"] {
            assert_eq!(Promise::parse(line).unwrap().to_string(), line);
        }
        assert_eq!(Promise::parse("wait"), None);
    }
}

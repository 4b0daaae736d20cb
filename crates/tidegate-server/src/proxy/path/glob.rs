//! Patterns of paths, compiled once.

use core::fmt;

/// The longest pattern in bytes. Above it: refused when the configuration is read.
pub const PATTERN_BYTES_MAX: usize = 1024;

/// A pattern that a path matches: `/v1/check` that path alone, `/v1/*` every path that begins with
/// `/v1/` and that one itself, `/v1/*/items` any one segment in between.
///
/// A `*` stands for any characters but `/`, none among them; the last character of a pattern, if it
/// is a `*`, stands for any characters at all. Upper and lower case differ. A pattern is matched
/// with the decoded path, so it is written decoded too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathPattern {
    /// The segments before the open end, each as the text between its stars.
    segments: Vec<Vec<String>>,
    is_open: bool,
}

/// Text that is no pattern of paths.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotAPattern {
    /// It does not begin with `/`.
    #[error("path pattern \"{0}\" does not begin with /; write \"/{0}\"")]
    NotFromRoot(String),
    /// It is longer than [`PATTERN_BYTES_MAX`].
    #[error("a path pattern of {0} bytes is longer than {PATTERN_BYTES_MAX}; end it sooner with *")]
    TooLong(usize),
    /// No path that is read as plain has this shape, so it would never match.
    #[error("path pattern \"{pattern}\" has {what}, which no path that is let in has; leave it out")]
    NeverMatches {
        /// The pattern.
        pattern: String,
        /// What it has.
        what: &'static str,
    },
}

impl PathPattern {
    /// Compiles a pattern.
    pub fn parse(pattern: &str) -> Result<Self, NotAPattern> {
        if pattern.len() > PATTERN_BYTES_MAX {
            return Err(NotAPattern::TooLong(pattern.len()));
        }
        let Some(rest) = pattern.strip_prefix('/') else {
            return Err(NotAPattern::NotFromRoot(pattern.to_owned()));
        };
        let never = |what| NotAPattern::NeverMatches { pattern: pattern.to_owned(), what };
        if rest.contains(|c: char| c.is_ascii_control() || c == '\\') {
            return Err(never("a backslash or control character"));
        }
        let (rest, is_open) = rest.strip_suffix('*').map_or((rest, false), |rest| (rest, true));
        let parts: Vec<&str> = rest.split('/').collect();
        let (last, inner) = parts.split_last().expect("a split text has at least one part");
        if inner.contains(&"") {
            return Err(never("an empty segment"));
        }
        if inner.iter().any(|part| matches!(*part, "." | "..")) || (!is_open && matches!(*last, "." | "..")) {
            return Err(never("a segment . or .."));
        }
        let segments = parts.iter().map(|part| part.split('*').map(str::to_owned).collect()).collect();
        Ok(Self { segments, is_open })
    }

    /// Whether a decoded path matches. Takes time in proportion to the path, whatever the pattern.
    pub fn matches(&self, path: &str) -> bool {
        let Some(mut rest) = path.strip_prefix('/') else { return false };
        let (last, inner) = self.segments.split_last().expect("a pattern has at least one segment");
        for segment in inner {
            let Some((part, tail)) = rest.split_once('/') else { return false };
            if !is_match(segment, part) {
                return false;
            }
            rest = tail;
        }
        if !self.is_open {
            return !rest.contains('/') && is_match(last, rest);
        }
        // The open end takes what is left, so the text before it need only begin there, within its
        // segment.
        let (part, _) = rest.split_once('/').unwrap_or((rest, ""));
        begins(last, part).is_some()
    }
}

/// Whether `text` is the pieces in order, with anything between them.
fn is_match(pieces: &[String], text: &str) -> bool {
    let (last, earlier) = pieces.split_last().expect("a segment has at least one piece");
    if earlier.is_empty() {
        return text == last;
    }
    // Each piece is taken where it first occurs, which leaves the most to the next ones; the last
    // one ends the text.
    begins(earlier, text).is_some_and(|rest| rest.ends_with(last.as_str()))
}

/// What is left of `text` after the first place where the pieces stand in order, the first of them
/// at its beginning.
fn begins<'a>(pieces: &[String], text: &'a str) -> Option<&'a str> {
    let (first, others) = pieces.split_first()?;
    let mut rest = text.strip_prefix(first.as_str())?;
    for piece in others {
        rest = &rest[rest.find(piece.as_str())? + piece.len()..];
    }
    Some(rest)
}

impl fmt::Display for PathPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for segment in &self.segments {
            write!(f, "/{}", segment.join("*"))?;
        }
        f.write_str(if self.is_open { "*" } else { "" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn matches(pattern: &str, path: &str) -> bool {
        PathPattern::parse(pattern).unwrap().matches(path)
    }

    #[test]
    fn patterns_match_what_they_say() {
        for (pattern, yes, no) in [
            ("/", &["/"][..], &["/a", "/a/"][..]),
            ("/*", &["/", "/a", "/a/b/"], &[]),
            ("/v1/check", &["/v1/check"], &["/v1/check/", "/v1/checks", "/v1", "/V1/check"]),
            ("/v1/*", &["/v1/", "/v1/a", "/v1/a/b"], &["/v1", "/v10/a", "/v2/a", "/"]),
            ("/v1*", &["/v1", "/v1/", "/v10/a"], &["/v", "/x/v1"]),
            ("/v1/", &["/v1/"], &["/v1", "/v1/a"]),
            ("/*/items", &["/a/items"], &["/items", "/a/b/items", "/a/items/"]),
            ("/u/*/items/*", &["/u/1/items/", "/u/1/items/2/3"], &["/u/1/items", "/u/1/2/items/3"]),
            ("/a*b*c", &["/abc", "/axxbyyc", "/abbcc"], &["/ab", "/acb", "/abcd", "/a/b/c"]),
            ("/a*a", &["/aa", "/aba"], &["/a"]),
            ("/x-*-y/z", &["/x--y/z", "/x-1-y/z"], &["/x-y/z"]),
            ("/a*b*", &["/ab", "/axb/c", "/axbx"], &["/a/b", "/a"]),
        ] {
            for path in yes {
                assert!(matches(pattern, path), "{pattern} does not match {path}");
            }
            for path in no {
                assert!(!matches(pattern, path), "{pattern} matches {path}");
            }
            assert_eq!(PathPattern::parse(pattern).unwrap().to_string(), pattern);
        }
    }

    #[test]
    fn a_pattern_that_can_never_match_is_told_so() {
        for (pattern, hint) in [
            ("v1/*", "write \"/v1/*\""),
            ("", "write \"/\""),
            ("//a", "an empty segment"),
            ("/a/../b", "a segment . or .."),
            ("/a/.", "a segment . or .."),
            ("/a\\b", "a backslash"),
        ] {
            let message = PathPattern::parse(pattern).unwrap_err().to_string();
            assert!(message.contains(hint), "{pattern}: {message}");
        }
        assert!(PathPattern::parse(&format!("/{}", "a".repeat(PATTERN_BYTES_MAX))).is_err());
        assert!(PathPattern::parse("/.well-known/*").is_ok() && PathPattern::parse("/.*").is_ok());
    }

    /// The definition, by trying every way to share the text out.
    fn oracle(pattern: &[char], text: &[char], is_end: bool) -> bool {
        match pattern {
            [] => text.is_empty(),
            ['*'] if is_end => true,
            ['*', rest @ ..] => (0..=text.len())
                .take_while(|taken| *taken == 0 || text[taken - 1] != '/')
                .any(|taken| oracle(rest, &text[taken..], is_end)),
            [c, rest @ ..] => text.first() == Some(c) && oracle(rest, &text[1..], is_end),
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4000))]

        #[test]
        fn compiled_patterns_match_as_the_definition_does(pattern in "/[ab*/]{0,7}", path in "/[ab/]{0,9}") {
            if let Ok(compiled) = PathPattern::parse(&pattern) {
                let (chars, text): (Vec<_>, Vec<_>) = (pattern.chars().collect(), path.chars().collect());
                prop_assert_eq!(compiled.matches(&path), oracle(&chars, &text, true), "{} {}", pattern, path);
            }
        }
    }
}

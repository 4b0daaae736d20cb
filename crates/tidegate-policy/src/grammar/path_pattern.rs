//! Patterns of paths, compiled once.

use core::fmt;

use tidegate_core::matcher::StarredText;

use super::GrammarError;
use crate::printable::shown;

/// The longest pattern in bytes. Above it: refused when the configuration is read.
pub const PATTERN_BYTES_MAX: usize = 1024;

/// A pattern that a path matches: `/v1/check` that path alone, `/v1/*` every path that begins with
/// `/v1/` and that one itself, `/v1/*/items` any one segment in between.
///
/// A `*` stands for any characters but `/`, none among them; the last character of a pattern, if it
/// is a `*`, stands for any characters at all. Upper and lower case differ. A pattern is matched
/// with the decoded path, so it is written decoded too.
///
/// ```
/// # use tidegate_policy::grammar::PathPattern;
/// let items = PathPattern::parse("/v1/*/items")?;
/// assert!(items.matches("/v1/shop/items") && !items.matches("/v1/shop/7/items"));
/// let all = PathPattern::parse("/v1/*")?;
/// assert!(all.matches("/v1/shop/7/items") && !all.matches("/v2/shop"));
/// assert!(PathPattern::parse("v1/items").is_err(), "a pattern begins with `/`");
/// # Ok::<(), tidegate_policy::grammar::GrammarError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathPattern {
    pattern: Box<str>,
    inner: Box<[PatternSegment]>,
    last: PatternSegment,
    /// Whether the pattern ends in a `*`, which is then the last character of `last` too.
    is_open: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum PatternSegment {
    Exact(Box<str>),
    Starred(StarredText),
}

impl PatternSegment {
    fn new(text: &str) -> Self {
        StarredText::parse(text).map_or_else(|| Self::Exact(text.into()), Self::Starred)
    }

    fn matches(&self, text: &str) -> bool {
        match self {
            Self::Exact(exact) => **exact == *text,
            Self::Starred(starred) => starred.matches(text),
        }
    }
}

impl PathPattern {
    /// Compiles a pattern.
    pub fn parse(pattern: &str) -> Result<Self, GrammarError> {
        let wrong =
            |what: &str, fix: &str| GrammarError::new(format!("path \"{}\" {what}", shown(pattern)), fix);
        if pattern.len() > PATTERN_BYTES_MAX {
            let what = format!("a path of {} bytes", pattern.len());
            return Err(GrammarError::new(
                what,
                format!("use at most {PATTERN_BYTES_MAX}, or end it with *"),
            ));
        }
        let Some(rest) = pattern.strip_prefix('/') else {
            return Err(wrong("does not begin with /", &format!("write /{}", shown(pattern))));
        };
        let is_open = rest.ends_with('*');
        let parts: Vec<&str> = rest.split('/').collect();
        let (last, inner) = parts.split_last().expect("a split text has at least one part");
        // No path that the proxy accepts has this shape, so the pattern would never match.
        if rest.contains(|c: char| c.is_ascii_control() || c == '\\')
            || inner.contains(&"")
            || parts.iter().any(|part| matches!(*part, "." | ".."))
        {
            return Err(wrong(
                "contains a segment that the proxy rejects before it matches routes",
                "leave out //, /./, /../, backslashes and control characters",
            ));
        }
        let inner = inner.iter().map(|part| PatternSegment::new(part)).collect();
        Ok(Self { pattern: pattern.into(), inner, last: PatternSegment::new(last), is_open })
    }

    /// The pattern as it is written.
    pub fn as_str(&self) -> &str {
        &self.pattern
    }

    /// Whether a decoded path matches. Takes time in proportion to the path, whatever the pattern.
    pub fn matches(&self, path: &str) -> bool {
        let Some(mut rest) = path.strip_prefix('/') else { return false };
        for segment in &self.inner {
            let Some((part, tail)) = rest.split_once('/') else { return false };
            if !segment.matches(part) {
                return false;
            }
            rest = tail;
        }
        if self.is_open {
            // The open end takes whatever follows, so the rest need only begin within this segment.
            let part = rest.split_once('/').map_or(rest, |(part, _)| part);
            self.last.matches(part)
        } else {
            !rest.contains('/') && self.last.matches(rest)
        }
    }
}

impl fmt::Display for PathPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.pattern)
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
            ("v1/*", "write /v1/*"),
            ("", "write /"),
            ("//a", "contains a segment"),
            ("/a/../b", "contains a segment"),
            ("/a/.", "contains a segment"),
            ("/a\\b", "contains a segment"),
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

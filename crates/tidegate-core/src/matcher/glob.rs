//! Globs, as expressions that take linear time.
//!
//! Written here rather than taken from `globset`, whose `?` and `[..]` stand for one byte: `?`
//! would not match `é`.

use core::fmt::{self, Write};

use regex::Regex;

use super::error::{MatcherError, PatternKind, shortened};
use super::pattern::{check_length, compile};

/// A glob that matches a whole value.
#[derive(Clone)]
pub struct GlobPattern {
    pattern: Box<str>,
    compiled: GlobMatcher,
}

/// Most globs in policies are a text with one star at an end, which needs no expression. Neither do
/// texts with stars between them, and an expression of many stars would take time in proportion to
/// their number.
#[derive(Clone)]
enum GlobMatcher {
    Exact(Box<str>),
    Prefix(Box<str>),
    Suffix(Box<str>),
    Texts(StarredText),
    Expression(Regex),
}

/// Texts with a star between each two: `a*b*c`, or `*b*` with an empty text at each end. A star
/// stands for any characters, none among them.
///
/// Matching takes time linear in value and texts: each text is taken where it first occurs behind
/// the one before, which leaves the most to the next ones, and the search for a text ends where it
/// is found, so that no byte is searched twice.
///
/// ```
/// use tidegate_core::matcher::StarredText;
///
/// let items = StarredText::parse("item-*.json").unwrap();
/// assert!(items.matches("item-7.json") && !items.matches("item-7.jsonl"));
/// assert!(StarredText::parse("item").is_none());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StarredText {
    start: Box<str>,
    between: Box<[Box<str>]>,
    end: Box<str>,
}

impl StarredText {
    /// Reads a pattern in which only `*` is special. Returns `None` if there is no `*`.
    pub fn parse(pattern: &str) -> Option<Self> {
        let (earlier, end) = pattern.rsplit_once('*')?;
        Some(Self::between_stars(earlier.split('*'), end))
    }

    /// Whether the pattern matches the whole of `value`.
    pub fn matches(&self, value: &str) -> bool {
        let between = self.between.iter().map(|text| &**text);
        strip_pieces(value, &self.start, between).is_some_and(|rest| rest.ends_with(&*self.end))
    }

    /// Whether `pattern`, in which only `*` is special, matches the whole of `value`. Takes time
    /// linear in both and no memory, for patterns that are matched seldom.
    ///
    /// ```
    /// use tidegate_core::matcher::StarredText;
    ///
    /// assert!(StarredText::is_match("item-*", "item-7") && !StarredText::is_match("item", "item-7"));
    /// ```
    pub fn is_match(pattern: &str, value: &str) -> bool {
        let Some((start, rest)) = pattern.split_once('*') else { return pattern == value };
        let (between, end) = rest.rsplit_once('*').unwrap_or(("", rest));
        strip_pieces(value, start, between.split('*')).is_some_and(|rest| rest.ends_with(end))
    }

    /// Of the parts of a glob; `None` if there are others than texts and stars, or no star.
    fn from_tokens(parts: &[GlobToken]) -> Option<Self> {
        let (mut texts, mut last) = (Vec::new(), "");
        for part in parts {
            match part {
                GlobToken::Text(text) => last = text,
                GlobToken::Run => texts.push(core::mem::take(&mut last)),
                _ => return None,
            }
        }
        (!texts.is_empty()).then(|| Self::between_stars(texts.into_iter(), last))
    }

    /// Each of `texts` is followed by a star, and the last star by `end`.
    fn between_stars<'a>(mut texts: impl Iterator<Item = &'a str>, end: &str) -> Self {
        let start = texts.next().unwrap_or_default().into();
        let between = texts.filter(|text| !text.is_empty()).map(Into::into).collect();
        Self { start, between, end: end.into() }
    }
}

/// The rest of `text` behind `start`, which must begin it, and behind each of `pieces` in their
/// order, with any characters before each piece; `None` if one of them is missing.
///
/// It takes time linear in text and pieces: each piece is taken where it first occurs behind the
/// piece before, which leaves the most to the next ones, so that no byte is searched twice.
pub(super) fn strip_pieces<'t, 'p>(
    text: &'t str,
    start: &str,
    pieces: impl IntoIterator<Item = &'p str>,
) -> Option<&'t str> {
    let mut rest = text.strip_prefix(start)?;
    for piece in pieces {
        rest = &rest[rest.find(piece)? + piece.len()..];
    }
    Some(rest)
}

impl GlobPattern {
    pub(super) fn new(pattern: &str) -> Result<Self, MatcherError> {
        check_length(PatternKind::Glob, pattern)?;
        let parts = Parser::parse(pattern)
            .map_err(|problem| MatcherError::Glob { pattern: shortened(pattern), problem })?;
        let compiled = match &*parts {
            [] => GlobMatcher::Exact("".into()),
            [GlobToken::Text(text)] => GlobMatcher::Exact(text.as_str().into()),
            [GlobToken::Run] => GlobMatcher::Prefix("".into()),
            [GlobToken::Text(text), GlobToken::Run] => GlobMatcher::Prefix(text.as_str().into()),
            [GlobToken::Run, GlobToken::Text(text)] => GlobMatcher::Suffix(text.as_str().into()),
            parts => match StarredText::from_tokens(parts) {
                Some(texts) => GlobMatcher::Texts(texts),
                None => GlobMatcher::Expression(compile(PatternKind::Glob, pattern, &expression(parts))?),
            },
        };
        Ok(Self { pattern: pattern.into(), compiled })
    }

    /// The pattern as it was written.
    pub fn as_str(&self) -> &str {
        &self.pattern
    }

    pub(super) fn matches(&self, value: &str) -> bool {
        match &self.compiled {
            GlobMatcher::Exact(text) => **text == *value,
            GlobMatcher::Prefix(start) => value.starts_with(&**start),
            GlobMatcher::Suffix(end) => value.ends_with(&**end),
            GlobMatcher::Texts(texts) => texts.matches(value),
            GlobMatcher::Expression(regex) => regex.is_match(value),
        }
    }
}

impl fmt::Debug for GlobPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("GlobPattern").field(&self.pattern).finish()
    }
}

enum GlobToken {
    Text(String),
    /// `*`
    Run,
    /// `?`
    One,
    /// `[a-z]`, from and to inclusive.
    Class {
        outside: bool,
        ranges: Vec<(char, char)>,
    },
    /// `{`, `,` and `}` of alternatives.
    Open,
    Or,
    Close,
}

struct Parser<'a> {
    rest: core::iter::Peekable<core::str::Chars<'a>>,
    parts: Vec<GlobToken>,
}

impl<'a> Parser<'a> {
    fn parse(pattern: &'a str) -> Result<Vec<GlobToken>, &'static str> {
        let mut parser = Self { rest: pattern.chars().peekable(), parts: Vec::new() };
        let mut depth = 0_usize;
        while let Some(c) = parser.rest.next() {
            match c {
                // Two runs in a row match what one does.
                '*' if matches!(parser.parts.last(), Some(GlobToken::Run)) => {}
                '*' => parser.parts.push(GlobToken::Run),
                '?' => parser.parts.push(GlobToken::One),
                '[' => parser.class()?,
                '{' => {
                    depth += 1;
                    parser.parts.push(GlobToken::Open);
                }
                ',' if depth > 0 => parser.parts.push(GlobToken::Or),
                '}' => {
                    depth = depth.checked_sub(1).ok_or("} closes nothing; write \\} for the character")?;
                    parser.parts.push(GlobToken::Close);
                }
                '\\' => {
                    let escaped = parser.rest.next().ok_or(LONE_ESCAPE)?;
                    parser.text(escaped);
                }
                c => parser.text(c),
            }
        }
        if depth > 0 {
            return Err("{ is not closed; add }, or write \\{ for the character");
        }
        Ok(parser.parts)
    }

    fn text(&mut self, c: char) {
        match self.parts.last_mut() {
            Some(GlobToken::Text(text)) => text.push(c),
            _ => self.parts.push(GlobToken::Text(c.into())),
        }
    }

    fn class(&mut self) -> Result<(), &'static str> {
        let outside = self.rest.next_if(|c| matches!(c, '!' | '^')).is_some();
        let mut ranges = Vec::new();
        // A `]` that comes first is one of the class.
        while ranges.is_empty() || self.rest.peek() != Some(&']') {
            let from = self.class_char()?;
            let mut ahead = self.rest.clone();
            // A `-` that comes last is one of the class.
            let is_range = ahead.next() == Some('-') && ahead.next() != Some(']');
            let to = if is_range {
                self.rest.next();
                self.class_char()?
            } else {
                from
            };
            if from > to {
                return Err(
                    "a class has a range that ends before it starts; write the lower character first",
                );
            }
            ranges.push((from, to));
        }
        self.rest.next();
        self.parts.push(GlobToken::Class { outside, ranges });
        Ok(())
    }

    fn class_char(&mut self) -> Result<char, &'static str> {
        match self.rest.next() {
            Some('\\') => self.rest.next().ok_or(LONE_ESCAPE),
            Some(c) => Ok(c),
            None => Err("[ is not closed; add ], or write \\[ for the character"),
        }
    }
}

const LONE_ESCAPE: &str = "\\ at the end stands before nothing; write \\\\ for the character";

/// A regular expression that matches what the parts match, from the first character to the last.
fn expression(parts: &[GlobToken]) -> String {
    let mut out = String::from("(?s)^(?:");
    for part in parts {
        match part {
            GlobToken::Text(text) => out.push_str(&regex::escape(text)),
            GlobToken::Run => out.push_str(".*"),
            GlobToken::One => out.push('.'),
            GlobToken::Class { outside, ranges } => {
                out.push_str(if *outside { "[^" } else { "[" });
                for (from, to) in ranges {
                    write!(out, "\\x{{{:x}}}-\\x{{{:x}}}", u32::from(*from), u32::from(*to))
                        .expect("a string takes whatever is written to it");
                }
                out.push(']');
            }
            GlobToken::Open => out.push_str("(?:"),
            GlobToken::Or => out.push('|'),
            GlobToken::Close => out.push(')'),
        }
    }
    out.push_str(")$");
    out
}

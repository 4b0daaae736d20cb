//! Patterns that are compiled: regular expressions, their bounds, and the errors of matchers.

use core::fmt;

use regex::{Regex, RegexBuilder};

pub(super) const PATTERN_BYTES_MAX: usize = 4096;
pub(super) const COMPILED_BYTES_MAX: usize = 1 << 20;

/// A regular expression that matches a whole value.
#[derive(Clone)]
pub struct RegexPattern {
    pattern: Box<str>,
    regex: Regex,
}

impl RegexPattern {
    pub(super) fn new(pattern: &str) -> Result<Self, MatcherError> {
        let kind = PatternKind::Regex;
        check_length(kind, pattern)?;
        // Alone first: `a)|(b` is no expression but would become one inside the group.
        compile(kind, pattern, pattern)?;
        let regex = compile(kind, pattern, &format!("^(?:{pattern})$"))?;
        Ok(Self { pattern: pattern.into(), regex })
    }

    /// The pattern as it was written.
    pub fn as_str(&self) -> &str {
        &self.pattern
    }

    pub(super) fn matches(&self, value: &str) -> bool {
        self.regex.is_match(value)
    }
}

impl fmt::Debug for RegexPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RegexPattern").field(&self.pattern).finish()
    }
}

/// The language of a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatternKind {
    /// A glob.
    Glob,
    /// A regular expression.
    Regex,
}

impl fmt::Display for PatternKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Glob => "glob",
            Self::Regex => "regex",
        })
    }
}

/// A reason why a matcher cannot be made.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MatcherError {
    /// Not a glob.
    Glob {
        /// The pattern, its beginning if it is long.
        pattern: String,
        /// The problem, and the fix.
        problem: &'static str,
    },
    /// Not a regular expression.
    Regex {
        /// The pattern, its beginning if it is long.
        pattern: String,
        /// The problem.
        problem: String,
    },
    /// Longer than [`Matcher::PATTERN_BYTES_MAX`](crate::Matcher::PATTERN_BYTES_MAX).
    TooLong {
        /// The language of the pattern.
        kind: PatternKind,
        /// Its beginning.
        pattern: String,
        /// Its length.
        bytes: usize,
    },
    /// Larger than [`Matcher::COMPILED_BYTES_MAX`](crate::Matcher::COMPILED_BYTES_MAX) when
    /// compiled.
    TooLarge {
        /// The language of the pattern.
        kind: PatternKind,
        /// The pattern, its beginning if it is long.
        pattern: String,
    },
    /// Not a network.
    Cidr {
        /// The given text, its beginning if it is long.
        text: String,
    },
    /// A network whose address has bits behind its prefix: it is not clear what was meant.
    CidrHostBits {
        /// The given text.
        text: String,
        /// The network it lies in.
        network: String,
    },
}

impl fmt::Display for MatcherError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Glob { pattern, problem } => write!(f, "glob \"{pattern}\": {problem}"),
            Self::Regex { pattern, problem } => write!(
                f,
                "regex \"{pattern}\": {problem}; correct it, or put \\ before a character that is meant as it stands"
            ),
            Self::TooLong { kind, pattern, bytes } => write!(
                f,
                "{kind} \"{pattern}\" is {bytes} bytes long; use at most {PATTERN_BYTES_MAX}, or split it into several"
            ),
            Self::TooLarge { kind, pattern } => write!(
                f,
                "{kind} \"{pattern}\" takes more than {COMPILED_BYTES_MAX} bytes when compiled; use smaller repetitions"
            ),
            Self::Cidr { text } => write!(
                f,
                "invalid network \"{text}\"; write for example 10.0.0.0/8, 2001:db8::/32 or a single address"
            ),
            Self::CidrHostBits { text, network } => write!(
                f,
                "network \"{text}\" has bits set behind its prefix; write {network}, or the address without a prefix"
            ),
        }
    }
}

impl core::error::Error for MatcherError {}

pub(super) fn check_length(kind: PatternKind, pattern: &str) -> Result<(), MatcherError> {
    if pattern.len() > PATTERN_BYTES_MAX {
        return Err(MatcherError::TooLong { kind, pattern: shortened(pattern), bytes: pattern.len() });
    }
    Ok(())
}

/// Compiles `expression`, which was made of `pattern`.
pub(super) fn compile(kind: PatternKind, pattern: &str, expression: &str) -> Result<Regex, MatcherError> {
    RegexBuilder::new(expression)
        .size_limit(COMPILED_BYTES_MAX)
        .dfa_size_limit(COMPILED_BYTES_MAX)
        .build()
        .map_err(|error| match error {
            regex::Error::CompiledTooBig(_) => MatcherError::TooLarge { kind, pattern: shortened(pattern) },
            other => {
                // The last line says what is wrong; those before it draw the pattern with a caret
                // below.
                let text = other.to_string();
                let last = text.lines().last().unwrap_or_default();
                let problem = last.strip_prefix("error: ").unwrap_or(last).to_owned();
                MatcherError::Regex { pattern: shortened(pattern), problem }
            }
        })
}

/// At most so many characters of a pattern are shown in a message.
const SHOWN_CHARS_MAX: usize = 64;

pub(super) fn shortened(text: &str) -> String {
    match text.char_indices().nth(SHOWN_CHARS_MAX) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

//! The errors of matchers, and the bounds of patterns.

use core::fmt;

pub(super) const PATTERN_BYTES_MAX: usize = 4096;
pub(super) const COMPILED_BYTES_MAX: usize = 1 << 20;

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
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MatcherError {
    /// Not a glob.
    #[error("glob \"{pattern}\": {problem}")]
    Glob {
        /// The pattern, its beginning if it is long.
        pattern: String,
        /// The problem, and the fix.
        problem: &'static str,
    },
    /// Not a regular expression.
    #[error(
        "regex \"{pattern}\": {problem}; correct it, or put \\ before a character that is meant as it stands"
    )]
    Regex {
        /// The pattern, its beginning if it is long.
        pattern: String,
        /// The problem.
        problem: String,
    },
    /// Longer than [`Matcher::PATTERN_BYTES_MAX`](crate::Matcher::PATTERN_BYTES_MAX).
    #[error("{kind} \"{pattern}\" is {bytes} bytes long; use at most {max}, or split it into several", max = PATTERN_BYTES_MAX)]
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
    #[error("{kind} \"{pattern}\" takes more than {max} bytes when compiled; use smaller repetitions", max = COMPILED_BYTES_MAX)]
    TooLarge {
        /// The language of the pattern.
        kind: PatternKind,
        /// The pattern, its beginning if it is long.
        pattern: String,
    },
    /// Not a network.
    #[error("invalid network \"{text}\"; write for example 10.0.0.0/8, 2001:db8::/32 or a single address")]
    Cidr {
        /// The given text, its beginning if it is long.
        text: String,
    },
    /// A network whose address has bits behind its prefix: it is not clear what was meant.
    #[error(
        "network \"{text}\" has bits set behind its prefix; write {network}, or the address without a prefix"
    )]
    CidrHostBits {
        /// The given text.
        text: String,
        /// The network it lies in.
        network: String,
    },
}

/// At most so many characters of a pattern are shown in a message.
const SHOWN_CHARS_MAX: usize = 64;

pub(super) fn shortened(text: &str) -> String {
    match text.char_indices().nth(SHOWN_CHARS_MAX) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

//! Patterns that are compiled: regular expressions and their bounds.

use core::fmt;

use regex::{Regex, RegexBuilder};

use super::error::{COMPILED_BYTES_MAX, MatcherError, PATTERN_BYTES_MAX, PatternKind, shortened};

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

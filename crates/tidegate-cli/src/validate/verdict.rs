//! The verdict about one file or directory.

use std::fmt::Write as _;

use serde::Serialize;
use tidegate_policy::{Comparison, Problem, Problems};

use super::store::StoreUse;
use crate::exit::Exit;

/// The result for one file or directory.
#[derive(Debug, Default, Serialize)]
pub(super) struct Verdict {
    pub(super) file: String,
    pub(super) valid: bool,
    /// Of both files, where there are two; each says of which.
    pub(super) problems: Vec<Problem>,
    /// Whether there were so many problems that looking for more was stopped.
    pub(super) truncated: bool,
    /// Of the configuration itself and the files that it names, not of the one it is compared with.
    pub(super) warnings: Vec<Problem>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) comparison: Option<Comparison>,
    /// Where a daemon keeps what it counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) store: Option<StoreUse>,
    /// For files of envoyproxy/ratelimit: what is not as there under the semantics in force.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) differences: Option<Vec<Problem>>,
    /// The counts of a valid file: `1 namespace, 2 limits`.
    #[serde(skip)]
    pub(super) counted: String,
    /// Whether files that the configuration names could not be checked, which was said.
    #[serde(skip)]
    pub(super) is_partial: bool,
}

impl Verdict {
    /// The verdict about files with these problems.
    pub(super) fn broken(found: impl IntoIterator<Item = Problems>) -> Self {
        let mut verdict = Self::default();
        for one in found {
            verdict.problems.extend(one.problems);
            verdict.truncated |= one.truncated;
        }
        verdict
    }

    /// The exit code for this file.
    pub(super) fn exit(&self, deny_warnings: bool) -> Exit {
        let is_denied = deny_warnings && (self.is_partial || !self.warnings.is_empty());
        if self.valid && !is_denied { Exit::Done } else { Exit::Problems }
    }

    /// The last line about a file, without a line break.
    pub(super) fn summary(&self, is_one_of_several: bool) -> String {
        if !self.valid {
            let more = if self.truncated { " or more" } else { "" };
            let count = self.problems.len();
            let problems = format!("{count}{more} problem{}", plural(count));
            return if is_one_of_several { format!("{}: {problems}", self.file) } else { problems };
        }
        let mut text = format!("{}: valid: {}", self.file, self.counted);
        let differences = self.differences.as_ref().map_or(0, Vec::len);
        for (count, noun) in [(self.warnings.len(), "warning"), (differences, "difference")] {
            if count > 0 {
                let _ = write!(text, ", {}", number(count, noun));
            }
        }
        text
    }
}

/// `1 limit`, `2 limits`.
pub(super) fn number(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", plural(count))
}

const fn plural(count: usize) -> &'static str {
    if count == 1 { "" } else { "s" }
}

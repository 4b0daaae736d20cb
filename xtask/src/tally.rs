//! Counting tests by what the test binaries print.
//!
//! The count is taken from the `test result:` line of each binary rather than from its exit code,
//! because a run in which no test ran also succeeds. A binary that started and never reached its
//! result line died on the way, and counts as one failure.

use std::fmt;

/// How many tests or steps went which way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    /// Ran, and held.
    pub(crate) passed: u64,
    /// Ran, and did not hold.
    pub(crate) failed: u64,
    /// Did not run: ignored, or something it needs is not there.
    pub(crate) skipped: u64,
}

impl Tally {
    /// One step that passed.
    pub(crate) const PASSED: Self = Self { passed: 1, failed: 0, skipped: 0 };
    /// One step that failed.
    pub(crate) const FAILED: Self = Self { passed: 0, failed: 1, skipped: 0 };
    /// One step that could not run.
    pub(crate) const SKIPPED: Self = Self { passed: 0, failed: 0, skipped: 1 };

    /// One step that passed if `passed`, and failed otherwise.
    pub(crate) fn of(passed: bool) -> Self {
        if passed { Self::PASSED } else { Self::FAILED }
    }

    /// Both together.
    pub(crate) fn plus(self, other: Self) -> Self {
        Self {
            passed: self.passed + other.passed,
            failed: self.failed + other.failed,
            skipped: self.skipped + other.skipped,
        }
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed, {} skipped", self.passed, self.failed, self.skipped)
    }
}

/// Reads the output of test programs or of `cargo test` line by line.
#[derive(Debug, Default)]
pub(crate) struct TestOutput {
    counted: Tally,
    /// Binaries that have printed their result.
    reported: u64,
    /// Binaries that have started and have not yet printed their result.
    unfinished: u64,
    /// Tests that passed only because they found nothing to run on.
    said_skipped: u64,
}

impl TestOutput {
    /// Takes the next line.
    ///
    /// A test that lacks a tool or a server returns early, which the harness calls passing. It
    /// writes a line that begins with `skipped: ` past the harness, straight to standard output,
    /// and is counted by that.
    pub(crate) fn read(&mut self, line: &str) {
        if let Some(result) = line.strip_prefix("test result: ") {
            self.unfinished = self.unfinished.saturating_sub(1);
            self.reported += 1;
            self.counted = self.counted.plus(Tally {
                passed: number_before("passed", result),
                failed: number_before("failed", result),
                skipped: number_before("ignored", result),
            });
        } else if is_start_of_binary(line) {
            self.unfinished += 1;
        } else if line.starts_with("skipped: ")
            || (line.starts_with("test ") && line.contains(" ... skipped: "))
        {
            // With a single thread the harness has already begun the line with the name of the
            // test.
            self.said_skipped += 1;
        }
    }

    /// Whether every binary has printed its result, and none had a test.
    pub(crate) fn is_without_tests(&self) -> bool {
        self.reported > 0 && self.unfinished == 0 && self.counted == Tally::default()
    }

    /// The count, given whether the command as a whole succeeded.
    pub(crate) fn finish(self, succeeded: bool) -> Tally {
        let said_skipped = self.said_skipped.min(self.counted.passed);
        let mut tally = Tally {
            passed: self.counted.passed - said_skipped,
            failed: self.counted.failed + self.unfinished,
            skipped: self.counted.skipped + said_skipped,
        };
        let ran_nothing = tally.passed + tally.failed == 0;
        if ran_nothing || (!succeeded && tally.failed == 0) {
            tally.failed = 1;
        }
        tally
    }
}

/// Whether the line is `running N tests`.
fn is_start_of_binary(line: &str) -> bool {
    let words: Vec<&str> = line.split(' ').collect();
    matches!(words.as_slice(), ["running", number, "test" | "tests"] if number.parse::<u64>().is_ok())
}

/// The 3 in `3 passed;`; zero when the word is not there.
fn number_before(word: &str, result: &str) -> u64 {
    let words: Vec<&str> = result.split([' ', ';']).collect();
    words.windows(2).find(|pair| pair[1] == word).and_then(|pair| pair[0].parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests;

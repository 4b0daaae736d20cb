//! How work ends, and the endings on which a limit gives its charge back.

use core::fmt;

/// How the work of an admitted request ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// It was done.
    #[default]
    Succeeded,
    /// It was tried and failed. Charges stay, unless a limit gives them back: see [`RefundOn`].
    Failed,
    /// Its caller went away before the end. Charges stay, unless a limit gives them back by the
    /// status of the answer: nobody gets anything back by hanging up.
    Abandoned,
    /// It was never started: all charges are taken back as if the request had not come.
    Cancelled,
}

/// The end of the work of an admitted request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkEnd {
    /// How it ended.
    pub outcome: Outcome,
    /// The status of its answer, 100 to 599, if it had one.
    pub status: Option<u16>,
    /// Its true cost in units. `None`: the cost that was charged.
    pub true_units: Option<u64>,
}

/// The endings of work on which a limit gives its charge back, although the work was done or tried.
///
/// ```
/// # use tidegate_core::limit::{Outcome, RefundOn};
/// let refund: RefundOn = RefundOn::parse(["failed", "304", "4xx"])?;
/// assert!(refund.contains(Outcome::Failed, None));
/// assert!(refund.contains(Outcome::Succeeded, Some(404)));
/// assert!(!refund.contains(Outcome::Succeeded, Some(200)));
/// assert_eq!(refund.to_string(), "failed, 304, 4xx");
/// # Ok::<(), tidegate_core::limit::RefundOnError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct RefundOn {
    succeeded: bool,
    failed: bool,
    /// Bit `n` stands for the statuses from `n00` to `n99`.
    classes: u8,
    /// Ascending, each once.
    statuses: Vec<u16>,
}

/// A text that names no ending of work.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("\"{}\" is no outcome; use succeeded, failed, a status such as 404, or a class such as 5xx", .0.escape_debug())]
pub struct RefundOnError(String);

impl RefundOn {
    /// The most endings of one limit.
    pub const MAX: usize = 64;

    /// The endings in words: `succeeded`, `failed`, a status such as `404`, or a class of statuses
    /// such as `5xx`. A status is known where the work was an HTTP request, or where its caller
    /// says it.
    pub fn parse<'a>(endings: impl IntoIterator<Item = &'a str>) -> Result<Self, RefundOnError> {
        let mut all = Self::default();
        for text in endings {
            match text {
                "succeeded" => all.succeeded = true,
                "failed" => all.failed = true,
                _ => match text.as_bytes() {
                    [class @ b'1'..=b'5', b'x', b'x'] => all.classes |= 1 << (class - b'0'),
                    [b'1'..=b'5', _, _] => {
                        let status = text.parse().map_err(|_| RefundOnError(text.to_owned()))?;
                        if let Err(at) = all.statuses.binary_search(&status) {
                            all.statuses.insert(at, status);
                        }
                    }
                    _ => return Err(RefundOnError(text.to_owned())),
                },
            }
        }
        Ok(all)
    }

    /// Whether no ending is named: charges stay.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Whether work that ended so is among them. `status` is that of its answer, if it is known.
    /// [`Outcome::Abandoned`] only is by its status. [`Outcome::Cancelled`] needs none: all charges
    /// are taken back anyway.
    pub fn contains(&self, outcome: Outcome, status: Option<u16>) -> bool {
        let by_outcome = match outcome {
            Outcome::Succeeded => self.succeeded,
            Outcome::Failed => self.failed,
            Outcome::Abandoned | Outcome::Cancelled => false,
        };
        let has_status = |status: u16| {
            self.classes >> (status / 100).min(7) & 1 == 1 || self.statuses.binary_search(&status).is_ok()
        };
        by_outcome || status.is_some_and(has_status)
    }
}

impl fmt::Display for RefundOn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let outcomes = [(self.succeeded, "succeeded"), (self.failed, "failed")];
        let mut separator = "";
        for (_, name) in outcomes.iter().filter(|(is_in, _)| *is_in) {
            write!(f, "{separator}{name}")?;
            separator = ", ";
        }
        for status in &self.statuses {
            write!(f, "{separator}{status}")?;
            separator = ", ";
        }
        for class in (1..=5).filter(|class| self.classes >> class & 1 == 1) {
            write!(f, "{separator}{class}xx")?;
            separator = ", ";
        }
        Ok(())
    }
}

#[cfg(test)]
#[cfg(not(tidegate_loom))]
mod tests {
    use super::*;

    #[test]
    fn endings_are_read_as_they_are_written_and_anything_else_is_an_error() {
        let all = RefundOn::parse(["5xx", "failed", "404", "304", "404", "succeeded", "1xx"]).unwrap();
        assert_eq!(all.to_string(), "succeeded, failed, 304, 404, 1xx, 5xx");
        let again = all.to_string();
        assert_eq!(RefundOn::parse(again.split(", ")).unwrap(), all);
        for text in ["", "6xx", "600", "099", "40", "4040", "+40", "4Xx", "Failed", "cancelled", "4xx ", "ok"]
        {
            let error = RefundOn::parse([text]).unwrap_err().to_string();
            assert!(error.starts_with(&format!("\"{text}\" is no outcome; use succeeded")), "{error}");
        }
        assert!(RefundOn::parse([]).unwrap().is_empty());
    }

    #[test]
    fn a_status_counts_by_itself_and_by_its_class_and_an_outcome_whatever_the_status() {
        let by_status = RefundOn::parse(["304", "5xx"]).unwrap();
        for (status, expected) in
            [(304, true), (300, false), (499, false), (500, true), (599, true), (999, false)]
        {
            assert_eq!(by_status.contains(Outcome::Succeeded, Some(status)), expected, "{status}");
        }
        assert!(!by_status.contains(Outcome::Failed, None));
        assert!(by_status.contains(Outcome::Abandoned, Some(503)));
        let by_outcome = RefundOn::parse(["failed"]).unwrap();
        for status in [None, Some(200), Some(503)] {
            assert!(by_outcome.contains(Outcome::Failed, status));
            assert!(!by_outcome.contains(Outcome::Succeeded, status));
            assert!(!by_outcome.contains(Outcome::Cancelled, status));
            assert!(!by_outcome.contains(Outcome::Abandoned, status));
        }
    }
}

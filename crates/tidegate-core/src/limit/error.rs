//! The errors of limits that are made of numbers.

use crate::algorithm::AlgorithmError;
use crate::rate::{RateError, SpanError};
use core::convert::Infallible;

/// A limit that cannot be made of the given numbers. Its message names the limit and the value, and
/// says what to write.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[error("limit \"{limit}\": {problem}")]
pub struct LimitError {
    /// The name of the limit.
    pub limit: String,
    /// The problem with its numbers.
    pub problem: LimitProblem,
}

/// The problem with the numbers of a limit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LimitProblem {
    /// The rate.
    #[error(transparent)]
    Rate(#[from] RateError),
    /// The numbers of the algorithm.
    #[error(transparent)]
    Algorithm(#[from] AlgorithmError),
    /// A text that is no span of time.
    #[error(transparent)]
    Span(#[from] SpanError),
    /// A setting of another algorithm.
    #[error("`{setting}` is a setting of {of}, not of `{algorithm}`; remove it")]
    Setting {
        /// The setting.
        setting: &'static str,
        /// The algorithms that have it.
        of: &'static str,
        /// The algorithm of the limit.
        algorithm: &'static str,
    },
}

/// For numbers that need no conversion.
impl From<Infallible> for LimitProblem {
    fn from(never: Infallible) -> Self {
        match never {}
    }
}

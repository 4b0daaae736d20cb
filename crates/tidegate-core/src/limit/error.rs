//! The errors of limits that are made of numbers.

use core::convert::Infallible;
use core::fmt;

use crate::algorithm::AlgorithmError;
use crate::rate::{RateError, SpanError};

/// A limit that cannot be made of the given numbers. Its message names the limit and the value, and
/// says what to write.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LimitError {
    /// The name of the limit.
    pub limit: String,
    /// The problem with its numbers.
    pub problem: LimitProblem,
}

/// The problem with the numbers of a limit.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LimitProblem {
    /// The rate.
    Rate(RateError),
    /// The numbers of the algorithm.
    Algorithm(AlgorithmError),
    /// A text that is no span of time.
    Span(SpanError),
    /// A setting of another algorithm.
    Setting {
        /// The setting.
        setting: &'static str,
        /// The algorithms that have it.
        of: &'static str,
        /// The algorithm of the limit.
        algorithm: &'static str,
    },
}

impl fmt::Display for LimitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "limit \"{}\": {}", self.limit, self.problem)
    }
}

impl core::error::Error for LimitError {}

impl fmt::Display for LimitProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rate(error) => error.fmt(f),
            Self::Algorithm(error) => error.fmt(f),
            Self::Span(error) => error.fmt(f),
            Self::Setting { setting, of, algorithm } => {
                write!(f, "`{setting}` is a setting of {of}, not of `{algorithm}`; remove it")
            }
        }
    }
}

impl core::error::Error for LimitProblem {}

impl From<RateError> for LimitProblem {
    fn from(error: RateError) -> Self {
        Self::Rate(error)
    }
}

impl From<AlgorithmError> for LimitProblem {
    fn from(error: AlgorithmError) -> Self {
        Self::Algorithm(error)
    }
}

impl From<SpanError> for LimitProblem {
    fn from(error: SpanError) -> Self {
        Self::Span(error)
    }
}

/// For numbers that need no conversion.
impl From<Infallible> for LimitProblem {
    fn from(never: Infallible) -> Self {
        match never {}
    }
}

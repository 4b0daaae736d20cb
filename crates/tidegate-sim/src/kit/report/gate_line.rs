//! A line of the gate, which passes or fails, with its figure and its bound.

use serde::Serialize;

/// One line of the gate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct GateLine {
    /// The experiment, `E-SKEW` for example.
    pub experiment: &'static str,
    /// The claim that is judged.
    pub what: String,
    /// The measured figure.
    pub figure: String,
    /// The bound of the figure.
    pub bound: String,
    /// Whether it is.
    pub outcome: GateOutcome,
    /// The name of the world that it is about, of the several that an experiment has.
    #[serde(skip)]
    pub group: Option<&'static str>,
}

/// Whether a line passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum GateOutcome {
    /// The figure is within the bound.
    Pass,
    /// It is not.
    Fail,
    /// The design it is about was not simulated, or not for long enough.
    NotJudged,
}

impl GateOutcome {
    pub(crate) const fn from_verdict(is_within: bool) -> Self {
        if is_within { Self::Pass } else { Self::Fail }
    }

    /// One word.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Fail => "FAIL",
            Self::NotJudged => "not judged",
        }
    }
}

impl GateLine {
    /// A line of a figure that is known.
    pub fn new(
        experiment: &'static str,
        what: String,
        figure: String,
        bound: String,
        is_within: bool,
    ) -> Self {
        Self { experiment, what, figure, bound, outcome: GateOutcome::from_verdict(is_within), group: None }
    }

    /// A line that fails is not judged.
    pub fn leave_open_unless_passed(&mut self) {
        if self.outcome == GateOutcome::Fail {
            self.outcome = GateOutcome::NotJudged;
        }
    }

    /// A line of an experiment that is named later.
    pub fn judged(what: String, figure: String, bound: &str, is_within: bool) -> Self {
        Self::new("", what, figure, bound.to_owned(), is_within)
    }
}

//! How the answer to a proxied request ended.

/// How an answer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ResponseEnd {
    /// All of it was sent.
    Whole,
    /// The upstream broke it off.
    Broken,
    /// It took too long.
    Late,
    /// The client went away.
    Abandoned,
    /// Its feature was switched off, and the grace was over.
    Cancelled,
}

impl ResponseEnd {
    pub(super) const ALL: [Self; 5] =
        [Self::Whole, Self::Broken, Self::Late, Self::Abandoned, Self::Cancelled];

    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Whole => "whole",
            Self::Broken => "broken",
            Self::Late => "late",
            Self::Abandoned => "abandoned",
            Self::Cancelled => "cancelled",
        }
    }
}

//! The terms of a request: how it is to be answered, and which permits are kept.

use core::time::Duration;

use tidegate_core::Timestamp;

use crate::protocol::Protocol;

/// How a request that may be decided later is to be answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Terms {
    /// When it was asked; once the store was called for it, when it is answered, from which waits
    /// count.
    pub(crate) now: Timestamp,
    pub(crate) keep: Keep,
    pub(crate) style: Style,
}

/// Which permits are kept for the caller to settle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keep {
    /// Those that lend something.
    Lent,
    /// Those that lend something which expires by itself, for callers that need not report the end
    /// of their work. A place in flight is not kept: it is given back with the answer.
    Expiring,
    /// Every one, for so long.
    Every(Duration),
}

/// How much of an answer a caller takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    /// Headers and a body.
    Whole,
    /// Headers only; refusals with this status, or the one they have.
    Headers(Option<u16>),
}

impl Style {
    /// The protocol of those that take such an answer.
    pub(crate) const fn protocol(self) -> Protocol {
        match self {
            Self::Whole => Protocol::Http,
            Self::Headers(_) => Protocol::Authorize,
        }
    }
}

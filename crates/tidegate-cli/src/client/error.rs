//! Why a daemon gave no answer, and how the command ends then.

use tidegate_core::error_chain;

use crate::exit::{Exit, complain};

/// A request that the daemon did not answer.
#[derive(Debug)]
pub(crate) enum ClientError {
    /// The request is invalid; the text says why.
    Untaken(String),
    /// A file cannot be read or used.
    File(String),
    /// There is no answer, or it is not the answer of a daemon.
    Silent(String),
    /// The answer is not in the protocol of the question; the text says what it was.
    OtherProtocol(String),
}

impl ClientError {
    /// Reports the error on standard error.
    pub(crate) fn complain(self) -> Exit {
        let (exit, why) = match self {
            Self::Untaken(why) => (Exit::Untaken, why),
            Self::File(why) | Self::Silent(why) | Self::OtherProtocol(why) => (Exit::Unreadable, why),
        };
        complain(why);
        exit
    }

    pub(super) fn silent(error: &(dyn std::error::Error + 'static)) -> Self {
        Self::Silent(error_chain(error))
    }
}

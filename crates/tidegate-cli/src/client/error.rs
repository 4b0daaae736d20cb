//! Why a daemon gave no answer, and how the command ends then.

use tidegate_core::error_chain;

use crate::address::DaemonAddress;
use crate::exit::{Exit, complain};

/// A request that the daemon did not answer.
#[derive(Debug)]
pub(crate) enum ClientError {
    /// The request is invalid; the text says why.
    Untaken(String),
    /// The daemon tracks no such tenant; the text says what to look at.
    Untracked(String),
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
            Self::Untaken(why) | Self::Untracked(why) => (Exit::Untaken, why),
            Self::File(why) | Self::Silent(why) | Self::OtherProtocol(why) => (Exit::Unreadable, why),
        };
        complain(why);
        exit
    }

    /// The error as one of several members has given it. The other kinds name the member.
    pub(crate) fn named_by(self, at: &DaemonAddress) -> Self {
        match self {
            Self::Untaken(why) => Self::Untaken(format!("{at}: {why}")),
            Self::Untracked(why) => Self::Untracked(format!("{at}: {why}")),
            error => error,
        }
    }

    /// The error with what else is to be said.
    pub(crate) fn followed_by(self, more: &str) -> Self {
        let join = |why: String| format!("{why}; {more}");
        match self {
            Self::Untaken(why) => Self::Untaken(join(why)),
            Self::Untracked(why) => Self::Untracked(join(why)),
            Self::File(why) => Self::File(join(why)),
            Self::Silent(why) => Self::Silent(join(why)),
            Self::OtherProtocol(why) => Self::OtherProtocol(join(why)),
        }
    }

    pub(super) fn silent(error: &(dyn std::error::Error + 'static)) -> Self {
        Self::Silent(error_chain(error))
    }
}

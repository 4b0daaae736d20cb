//! How a stream ends: the cause for operators, and the status for its client.

use tonic::{Code, Status};

/// Why a stream has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EndCause {
    /// The daemon drains.
    Drained,
    /// The client has ended its side.
    Closed,
    /// The stream was reset, or its connection has ended.
    Gone,
    /// No report has come for too long.
    Silent,
    /// The client does not take what it is sent.
    SlowReader,
    /// There were too many reports.
    TooManyReports,
    /// The caller may not have it, or has sent something wrong.
    Refused,
}

impl EndCause {
    pub(super) const ALL: [Self; 7] = [
        Self::Drained,
        Self::Closed,
        Self::Gone,
        Self::Silent,
        Self::SlowReader,
        Self::TooManyReports,
        Self::Refused,
    ];

    /// Whether somebody has to mend something: a daemon, an Envoy or what is between them.
    pub(super) const fn is_error(self) -> bool {
        match self {
            Self::Silent | Self::SlowReader | Self::TooManyReports | Self::Refused => true,
            Self::Drained | Self::Closed | Self::Gone => false,
        }
    }

    /// The name in metrics and logs.
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Drained => "drained",
            Self::Closed => "closed",
            Self::Gone => "gone",
            Self::Silent => "silent",
            Self::SlowReader => "slow_reader",
            Self::TooManyReports => "too_many_reports",
            Self::Refused => "refused",
        }
    }
}

/// The end of a stream.
#[derive(Debug)]
pub(super) struct StreamEnd {
    pub(super) cause: EndCause,
    /// The status for its client, if anybody reads it.
    pub(super) status: Status,
}

impl StreamEnd {
    /// Without an error.
    pub(super) fn ok(cause: EndCause) -> Self {
        Self { cause, status: Status::ok("") }
    }

    /// The stream is gone, and nobody reads its status.
    pub(super) fn gone() -> Self {
        Self { cause: EndCause::Gone, status: Status::cancelled("the stream is gone") }
    }

    /// The client does not take what it is sent.
    pub(super) fn slow_reader() -> Self {
        let message = "an answer was not taken in time; its assignments end by themselves";
        Self { cause: EndCause::SlowReader, status: Status::deadline_exceeded(message) }
    }

    /// There were too many reports.
    pub(super) fn too_many_reports() -> Self {
        let message = "too many reports: 100 a second and stream are taken, and 1200 at once, of which a long one counts once \
                       for each KiB; report all buckets in one message";
        Self { cause: EndCause::TooManyReports, status: Status::new(Code::ResourceExhausted, message) }
    }

    /// Refused with this status.
    pub(super) fn refused(status: Status) -> Self {
        Self { cause: EndCause::Refused, status }
    }
}

//! Probes: the counters of a request under the limits that apply, and the answers of the limits.

use smallvec::SmallVec;

use crate::algorithm::{Algorithm, State, Verdict};
use crate::refusal::{Reason, Retry};
use crate::scope::Keyed;
use crate::table::{Entry, FirstLine, KeyHash, KeyTable, RefundSet, SpecId};
use crate::time::Timestamp;

/// The answer of one limit to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Admit,
    Wait {
        until: Timestamp,
    },
    Never {
        largest: u64,
    },
    /// The key is blocked until then.
    Blocked {
        until: Timestamp,
    },
    /// The request lacks an attribute that the limit requires.
    Lacks {
        attribute: u16,
    },
    /// The table has no room for another key before then.
    Full {
        until: Timestamp,
    },
}

impl Answer {
    /// The retry after it. The release of a permit cannot be foreseen, so a caller without a permit
    /// backs off.
    pub(crate) fn retry(self, algorithm: &Algorithm, now: Timestamp) -> Retry {
        match self {
            Self::Lacks { .. } | Self::Never { .. } => Retry::Never,
            Self::Admit => Retry::At(now),
            Self::Wait { .. } if matches!(algorithm, Algorithm::Concurrency(_)) => Retry::Backoff,
            Self::Blocked { until } | Self::Full { until } | Self::Wait { until } => Retry::At(until),
        }
    }

    /// The reason for it.
    pub(crate) fn reason(self, algorithm: &Algorithm) -> Reason {
        match self {
            Self::Blocked { .. } => Reason::Blocked,
            Self::Lacks { .. } => Reason::AttributeMissing,
            Self::Full { .. } => Reason::TableFull,
            Self::Never { .. } => Reason::CostExceedsLimit,
            Self::Admit | Self::Wait { .. } => reason_of(algorithm),
        }
    }
}

/// The reason for which a limit with this algorithm denies.
pub(crate) fn reason_of(algorithm: &Algorithm) -> Reason {
    match algorithm {
        Algorithm::Concurrency(_) => Reason::ConcurrencyExceeded,
        algorithm if algorithm.is_quota() => Reason::QuotaExceeded,
        _ => Reason::RateExceeded,
    }
}

impl From<Verdict> for Answer {
    fn from(verdict: Verdict) -> Self {
        match verdict {
            Verdict::Admit => Self::Admit,
            Verdict::Wait { until } => Self::Wait { until },
            Verdict::Never { largest } => Self::Never { largest },
        }
    }
}

/// One matching limit: the place of its counter, and its answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Probe<'g> {
    pub(crate) limit: u16,
    pub(crate) key: KeyHash,
    pub(crate) line: FirstLine,
    pub(crate) algorithm: &'g Algorithm,
    pub(crate) spec: SpecId,
    pub(crate) entry: Entry,
    /// The state after the charge, where one word is the whole state.
    pub(crate) next: State,
    pub(crate) answer: Answer,
    /// Whether the limit admits and the charge is one exchange of the word that was read, under the
    /// same spec.
    pub(crate) is_exchange: bool,
    /// The endings on which the charge is given back.
    pub(crate) refund_on: RefundSet,
}

/// Where the counter of a request under one limit is, and the numbers that apply to it.
#[derive(Clone, Copy)]
pub(crate) struct LocatedCounter<'g> {
    pub(crate) limit: u16,
    pub(crate) keyed: Keyed,
    pub(crate) algorithm: &'g Algorithm,
    pub(crate) spec: SpecId,
    pub(crate) refund_on: RefundSet,
}

impl<'g> Probe<'g> {
    /// A probe of this counter, before it is read.
    #[inline]
    pub(crate) fn unread(located: LocatedCounter<'g>, table: &KeyTable) -> Self {
        let LocatedCounter { limit, keyed, algorithm, spec, refund_on } = located;
        let (key, answer) = match keyed {
            Keyed::On(key) => (key, Answer::Admit),
            Keyed::Lacks(attribute) => (KeyHash(0), Answer::Lacks { attribute }),
            Keyed::Skipped => (KeyHash(0), Answer::Admit),
        };
        let line = table.first_line(key);
        let (entry, next, is_exchange) = (Entry::NONE, State::EMPTY, false);
        Self { limit, key, line, algorithm, spec, entry, next, answer, is_exchange, refund_on }
    }

    /// A probe of this key, before its counter is read.
    pub(crate) fn new(
        (limit, key): (u16, KeyHash),
        algorithm: &'g Algorithm,
        spec: SpecId,
        table: &KeyTable,
    ) -> Self {
        let refund_on = RefundSet::default();
        let keyed = Keyed::On(key);
        Self::unread(LocatedCounter { limit, keyed, algorithm, spec, refund_on }, table)
    }
}

/// Most requests meet at most eight limits; more are kept on the heap.
pub(crate) type Probes<'g> = SmallVec<[Probe<'g>; 8]>;

/// The key of a request under one limit that a store decides or lends, and the numbers that apply.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LocatedKey<'g> {
    pub(crate) limit: u16,
    pub(crate) key: KeyHash,
    pub(crate) algorithm: &'g Algorithm,
    pub(crate) spec: SpecId,
}

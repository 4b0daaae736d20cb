//! Probes: the counters of a request under the limits that apply, and the answers of the limits.

use smallvec::SmallVec;

use crate::algorithm::{Algorithm, State, Verdict};
use crate::scope::Keyed;
use crate::table::{Entry, KeyHash, RefundSet, SpecId};
use crate::time::Timestamp;

/// The answer of one limit to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
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
pub(super) struct Probe<'g> {
    pub(super) limit: u16,
    pub(super) key: KeyHash,
    pub(super) algorithm: &'g Algorithm,
    pub(super) spec: SpecId,
    pub(super) entry: Entry,
    /// The state it was decided on.
    pub(super) before: State,
    /// The state after the charge, where one word is the whole state.
    pub(super) next: State,
    pub(super) answer: Answer,
    /// The endings on which the charge is given back.
    pub(super) refund_on: RefundSet,
}

/// Where the counter of a request under one limit is, and the numbers that apply to it.
#[derive(Clone, Copy)]
pub(super) struct LocatedCounter<'g> {
    pub(super) keyed: Keyed,
    pub(super) algorithm: &'g Algorithm,
    pub(super) spec: SpecId,
    pub(super) refund_on: RefundSet,
}

impl<'g> Probe<'g> {
    /// A probe of the limit with this number, before its counter is read.
    #[inline]
    pub(super) fn unread(limit: u16, located: LocatedCounter<'g>) -> Self {
        let LocatedCounter { keyed, algorithm, spec, refund_on } = located;
        let (key, answer) = match keyed {
            Keyed::On(key) => (key, Answer::Admit),
            Keyed::Lacks(attribute) => (KeyHash(0), Answer::Lacks { attribute }),
            Keyed::Skipped => (KeyHash(0), Answer::Admit),
        };
        let (before, next) = (State::EMPTY, State::EMPTY);
        Self { limit, key, algorithm, spec, entry: Entry::NONE, before, next, answer, refund_on }
    }

    /// A probe of this key, before its counter is read.
    pub(super) fn new(limit: u16, key: KeyHash, algorithm: &'g Algorithm, spec: SpecId) -> Self {
        let refund_on = RefundSet::default();
        Self::unread(limit, LocatedCounter { keyed: Keyed::On(key), algorithm, spec, refund_on })
    }
}

/// Most requests meet at most three limits; more are kept on the heap.
pub(super) type Probes<'g> = SmallVec<[Probe<'g>; 3]>;

/// The key of a request under one limit that a store decides or lends, and the numbers that apply.
#[derive(Clone, Copy, Debug)]
pub(super) struct LocatedKey<'g> {
    pub(super) limit: u16,
    pub(super) key: KeyHash,
    pub(super) algorithm: &'g Algorithm,
    pub(super) spec: SpecId,
}

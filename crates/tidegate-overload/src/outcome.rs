//! The bookkeeping of offered requests: each one ends in exactly one outcome.

use tidegate_core::{Class, OverloadMechanism, Reason, RequestOutcome};

use crate::fault::Fault;
use crate::sync::{AtomicU64, Ordering};

/// The final decision on a request whose first attempt was offered to a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum OfferOutcome {
    /// The request was admitted.
    Admitted,
    /// The admission cursor shed it.
    Shed,
    /// It would have waited, or has waited, for too long in a queue that stands.
    QueueDelay,
    /// Its end is not reported, and it came ahead of the pace.
    OutOfPace,
    /// All places in flight were taken, and it did not wait, or not for long enough.
    NoPlace,
    /// It would have become a stream too many.
    NoStream,
    /// A limit denied it.
    Denied,
    /// The capacity plane throttled it.
    Throttled,
    /// The store that decides did not answer, or a table had no room for its key.
    Unavailable,
    /// It would have waited, but the waiting room was full, or a request of a higher class took its
    /// position there.
    QueueFull,
    /// It was refused with a ticket for a time that is reserved for it, whatever would have refused
    /// it otherwise.
    Deferred,
    /// The feature that it is for is off.
    Disabled,
    /// Its deadline was over or could not be met.
    Expired,
    /// It was left before it was decided: its caller went away, or the process ended.
    Cancelled,
    /// It could not be decided because of an error.
    Failed,
    /// A resource in shadow mode admitted it: enforced, its cursor would have shed it.
    WouldBeShed,
    /// The same for [`OfferOutcome::QueueDelay`].
    WouldBeDelayed,
    /// The same for [`OfferOutcome::OutOfPace`].
    WouldBeOutOfPace,
    /// The same for [`OfferOutcome::NoPlace`].
    WouldLackPlace,
    /// The same for [`OfferOutcome::NoStream`].
    WouldLackStream,
    /// The same for [`OfferOutcome::QueueFull`].
    WouldFindQueueFull,
    /// The same for [`OfferOutcome::Expired`].
    WouldExpire,
}

impl OfferOutcome {
    /// All outcomes.
    pub const ALL: [Self; 22] = [
        Self::Admitted,
        Self::Shed,
        Self::QueueDelay,
        Self::OutOfPace,
        Self::NoPlace,
        Self::NoStream,
        Self::Denied,
        Self::Throttled,
        Self::Unavailable,
        Self::QueueFull,
        Self::Deferred,
        Self::Disabled,
        Self::Expired,
        Self::Cancelled,
        Self::Failed,
        Self::WouldBeShed,
        Self::WouldBeDelayed,
        Self::WouldBeOutOfPace,
        Self::WouldLackPlace,
        Self::WouldLackStream,
        Self::WouldFindQueueFull,
        Self::WouldExpire,
    ];

    /// The outcomes of requests that resources in shadow mode have admitted and would have refused.
    pub const WOULD: [Self; 7] = [
        Self::WouldBeShed,
        Self::WouldBeDelayed,
        Self::WouldBeOutOfPace,
        Self::WouldLackPlace,
        Self::WouldLackStream,
        Self::WouldFindQueueFull,
        Self::WouldExpire,
    ];

    /// The outcome of a request that a resource in shadow mode has admitted, and that would have
    /// ended in this one.
    #[must_use]
    pub const fn would(self) -> Self {
        match self {
            Self::Shed => Self::WouldBeShed,
            Self::QueueDelay => Self::WouldBeDelayed,
            Self::OutOfPace => Self::WouldBeOutOfPace,
            Self::NoPlace => Self::WouldLackPlace,
            Self::NoStream => Self::WouldLackStream,
            Self::QueueFull => Self::WouldFindQueueFull,
            Self::Expired => Self::WouldExpire,
            other => other,
        }
    }

    /// The name of the mechanism that would have refused a request with one of
    /// [`OfferOutcome::WOULD`], as refusals name it; `None` for other outcomes.
    pub const fn would_be_refused_by(self) -> Option<&'static str> {
        match self {
            Self::WouldBeShed => Some(OverloadMechanism::AdmissionCursor { level: 0 }.as_str()),
            Self::WouldBeDelayed => Some(OverloadMechanism::QueueDelay.as_str()),
            Self::WouldBeOutOfPace => Some(OverloadMechanism::Pace.as_str()),
            Self::WouldLackPlace => Some(OverloadMechanism::InFlight.as_str()),
            Self::WouldLackStream => Some(OverloadMechanism::Streams.as_str()),
            Self::WouldFindQueueFull => Some(Reason::QueueFull.as_str()),
            Self::WouldExpire => Some(OverloadMechanism::Deadline.as_str()),
            _ => None,
        }
    }

    /// The outcome of a request that was refused for this reason.
    pub const fn of_refusal(reason: Reason) -> Self {
        match (reason, RequestOutcome::of_refusal(reason)) {
            (Reason::QueueFull, _) => Self::QueueFull,
            (_, RequestOutcome::Admitted) => Self::Admitted,
            (_, RequestOutcome::Denied) => Self::Denied,
            (_, RequestOutcome::Throttled) => Self::Throttled,
            (_, RequestOutcome::Shed) => Self::Shed,
            (_, RequestOutcome::Deferred) => Self::Deferred,
            (_, RequestOutcome::Disabled) => Self::Disabled,
            (_, RequestOutcome::Expired) => Self::Expired,
            (_, RequestOutcome::Unavailable) => Self::Unavailable,
            (_, RequestOutcome::Failed) => Self::Failed,
            (_, RequestOutcome::Cancelled) => Self::Cancelled,
        }
    }

    /// The outcome of the request.
    pub const fn of_request(self) -> RequestOutcome {
        match self {
            Self::Admitted
            | Self::WouldBeShed
            | Self::WouldBeDelayed
            | Self::WouldBeOutOfPace
            | Self::WouldLackPlace
            | Self::WouldLackStream
            | Self::WouldFindQueueFull
            | Self::WouldExpire => RequestOutcome::Admitted,
            Self::Shed
            | Self::QueueDelay
            | Self::OutOfPace
            | Self::NoPlace
            | Self::NoStream
            | Self::QueueFull => RequestOutcome::Shed,
            Self::Deferred => RequestOutcome::Deferred,
            Self::Denied => RequestOutcome::Denied,
            Self::Throttled => RequestOutcome::Throttled,
            Self::Unavailable => RequestOutcome::Unavailable,
            Self::Disabled => RequestOutcome::Disabled,
            Self::Expired => RequestOutcome::Expired,
            Self::Cancelled => RequestOutcome::Cancelled,
            Self::Failed => RequestOutcome::Failed,
        }
    }

    /// Whether a request that ended so was no demand on the system: it must not use up what the
    /// cursor admits. One that expired or was cancelled was demand that could not be served; one
    /// that was refused for want of a stream lacked no place.
    pub(crate) const fn is_no_demand(self) -> bool {
        matches!(
            self,
            Self::NoStream
                | Self::Denied
                | Self::Throttled
                | Self::Unavailable
                | Self::Disabled
                | Self::Failed
        )
    }
}

/// The counters of one namespace at a resource by class. Every request writes them, so they share
/// no cache line with data that others read, nor do the counters of one class with those of
/// another.
#[derive(Debug, Default)]
pub(crate) struct OfferCounts([ClassCounts; Class::ALL.len()]);

#[derive(Debug, Default)]
#[repr(align(64))]
struct ClassCounts {
    // Relaxed, as the counters below: numbers for people and for the tick; they guard no other
    // data.
    offered: AtomicU64,
    decided: [AtomicU64; OfferOutcome::ALL.len()],
}

impl OfferCounts {
    #[inline]
    pub(crate) fn offer(&self, class: Class) {
        self.0[class as usize].offered.fetch_add(1, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn record(&self, class: Class, outcome: OfferOutcome) {
        let class = if Fault::OutcomeOfOtherClass.is_planted() { Class::Sheddable } else { class };
        self.0[class as usize].decided[outcome as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// The offered requests of all classes.
    pub(crate) fn offered(&self) -> u64 {
        self.0.iter().map(|class| class.offered.load(Ordering::Relaxed)).sum()
    }

    /// The numbers of each class. Outcomes are read before offers: a request that is decided in
    /// between is undecided here, rather than decided without having been offered.
    pub(crate) fn classes(&self) -> [ClassStats; Class::ALL.len()] {
        self.0.each_ref().map(|class| {
            let outcomes = class.decided.each_ref().map(|count| count.load(Ordering::Relaxed));
            ClassStats { offered: class.offered.load(Ordering::Relaxed), outcomes }
        })
    }
}

/// The numbers of one class at a resource: each request that was offered ends in one outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClassStats {
    /// The requests whose first attempt was offered.
    pub offered: u64,
    outcomes: [u64; OfferOutcome::ALL.len()],
}

impl ClassStats {
    /// The requests that ended in `outcome`.
    pub const fn count(&self, outcome: OfferOutcome) -> u64 {
        self.outcomes[outcome as usize]
    }

    /// The requests that are decided, whatever the outcome.
    pub fn decided(&self) -> u64 {
        self.outcomes.iter().sum()
    }

    /// The requests that were offered and are not decided yet.
    pub fn undecided(&self) -> u64 {
        self.offered.saturating_sub(self.decided())
    }

    /// The requests that were refused whatever the load is: by a limit, a table or the store, for
    /// want of a stream, since their feature is off, or by an error.
    pub fn refused_before_load(&self) -> u64 {
        let outcomes = OfferOutcome::ALL.into_iter().filter(|outcome| outcome.is_no_demand());
        outcomes.map(|outcome| self.count(outcome)).sum()
    }

    /// The sum of both.
    #[must_use]
    pub fn plus(self, other: &Self) -> Self {
        let outcomes = core::array::from_fn(|outcome| self.outcomes[outcome] + other.outcomes[outcome]);
        Self { offered: self.offered + other.offered, outcomes }
    }

    /// The counts since these earlier numbers of the same counters.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        let of = |outcome: usize| self.outcomes[outcome].saturating_sub(before.outcomes[outcome]);
        Self { offered: self.offered.saturating_sub(before.offered), outcomes: core::array::from_fn(of) }
    }

    /// The requests that a resource in shadow mode admitted and would have refused.
    pub fn would_be_refused(&self) -> u64 {
        OfferOutcome::WOULD.into_iter().map(|outcome| self.count(outcome)).sum()
    }

    /// The requests that more places could have served: refused by the load, but for those without
    /// a stream, and those that expired; in shadow mode those that would have been.
    pub(crate) fn refused_for_places(&self) -> u64 {
        let refused =
            self.refused_by_load() - self.count(OfferOutcome::NoStream) + self.count(OfferOutcome::Expired);
        refused + self.would_be_refused() - self.count(OfferOutcome::WouldLackStream)
    }

    /// The requests that were refused because of the load: by the cursor or the delay of the queue,
    /// ahead of the pace, or because no place, stream or room to wait was free.
    pub const fn refused_by_load(&self) -> u64 {
        self.count(OfferOutcome::Shed)
            + self.count(OfferOutcome::QueueDelay)
            + self.count(OfferOutcome::OutOfPace)
            + self.count(OfferOutcome::NoPlace)
            + self.count(OfferOutcome::NoStream)
            + self.count(OfferOutcome::QueueFull)
    }
}

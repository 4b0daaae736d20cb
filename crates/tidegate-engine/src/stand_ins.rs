//! The stand-ins of requests to resources in shadow mode, which reloads keep.

mod rehearsed_times;

use core::pin::pin;
use core::task::{Context, Poll};
use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::task::{Wake, Waker};

use tidegate_core::Timestamp;
use tidegate_overload::ResourceId;

use crate::continuation::{Pending, Wants};
use crate::decision::{Decision, Step};
use crate::permit::{Completion, Permit};
use crate::stand_in_handle::{DroppedWork, RehearsedWork, locked};
use rehearsed_times::RehearsedTimes;

/// All stand-ins that wait or have places.
#[derive(Debug, Default)]
pub(crate) struct StandIns {
    pub(crate) table: Mutex<StandInTable>,
    /// The stand-ins that the waiting room has called.
    called: Arc<CalledStandIns>,
    pub(crate) dropped: Arc<DroppedWork>,
}

#[derive(Debug, Default)]
pub(crate) struct StandInTable {
    last: u64,
    stand_ins: BTreeMap<u64, StandIn>,
    /// When each stand-in goes on by itself that does.
    timers: BTreeSet<(Timestamp, u64)>,
    services: BTreeMap<ResourceId, RehearsedService>,
}

/// A service as it is, with nobody held back.
#[derive(Debug, Default)]
pub(crate) struct RehearsedService {
    /// The requests at which it works.
    at_work: u64,
    pub(crate) times: RehearsedTimes,
}

/// A request that is decided in the stead of an admitted one. No task waits for the decision.
#[derive(Debug)]
pub(crate) struct StandIn {
    pub(crate) work: RehearsedWork,
    /// Whether its request was admitted while the service worked at no more than it has places for:
    /// then it keeps its place for the time of its own request.
    pub(crate) is_within: bool,
    pub(crate) part: StandInPart,
    pub(crate) progress: WorkProgress,
    /// When it goes on by itself: its wait is over, or its place is due.
    pub(crate) timer: Option<Timestamp>,
}

/// Where a stand-in stands.
#[derive(Debug)]
pub(crate) enum StandInPart {
    Waits(Pending),
    HasPlace {
        permit: Box<Permit>,
        since: Timestamp,
    },
    /// Its place is returned, and its stream goes on until that of its request ends.
    Streams {
        permit: Box<Permit>,
        since: Timestamp,
    },
}

/// How far the work of a request has come.
#[derive(Clone, Copy, Debug)]
pub(crate) enum WorkProgress {
    IsWorkedAt,
    /// It was worked at for so long, and has become a stream.
    Streams(Duration),
    /// It was worked at for so long.
    Ended(Completion, Duration),
}

impl WorkProgress {
    /// How long it was worked at; `None` while it is.
    pub(crate) const fn took(self) -> Option<Duration> {
        match self {
            Self::IsWorkedAt => None,
            Self::Streams(took) | Self::Ended(_, took) => Some(took),
        }
    }
}

#[derive(Debug, Default)]
struct CalledStandIns(Mutex<Vec<u64>>);

#[derive(Debug)]
struct StandInWaker {
    id: u64,
    called: Arc<CalledStandIns>,
}

impl Wake for StandInWaker {
    fn wake(self: Arc<Self>) {
        locked(&self.called.0).push(self.id);
    }
}

impl StandIns {
    /// Takes in a step of a stand-in: it has a place, waits, or is gone.
    pub(crate) fn take_step(
        &self,
        table: &mut StandInTable,
        (work, is_within, progress): (RehearsedWork, bool, WorkProgress),
        step: Step<'static>,
        now: Timestamp,
    ) {
        let (part, timer) = match step {
            Step::Decided(Decision::Admit(permit)) if permit.holds_place() => {
                let keeps = if is_within {
                    progress.took()
                } else {
                    table.service(work.resource).times.draw().or_else(|| progress.took())
                };
                let timer = keeps.map(|keeps| now.saturating_add(keeps));
                (StandInPart::HasPlace { permit: Box::new(permit), since: now }, timer)
            }
            Step::Decided(_) => return,
            Step::Ask(pending) => {
                let Wants::Turn(turn) = pending.wants() else { return };
                let timer = turn.wake_at();
                let waker = self.waker(work.id);
                if let Poll::Ready(()) = pin!(turn).poll(&mut Context::from_waker(&waker)) {
                    self.call(work.id);
                }
                (StandInPart::Waits(pending), Some(timer))
            }
        };
        table.put(StandIn { work, is_within, part, progress, timer });
    }

    /// The waker by which the waiting room calls a stand-in.
    fn waker(&self, id: u64) -> Waker {
        Waker::from(Arc::new(StandInWaker { id, called: Arc::clone(&self.called) }))
    }

    /// Calls a stand-in.
    fn call(&self, id: u64) {
        locked(&self.called.0).push(id);
    }

    /// The stand-ins that were called since the last time.
    pub(crate) fn take_called(&self) -> Vec<u64> {
        core::mem::take(&mut *locked(&self.called.0))
    }
}

impl StandInTable {
    /// The work of a request that is admitted now.
    pub(crate) fn begin_work(
        &mut self,
        resource: ResourceId,
        is_stream: bool,
        admitted: Timestamp,
    ) -> RehearsedWork {
        self.last += 1;
        let service = self.service(resource);
        service.at_work += 1;
        let at_work = service.at_work;
        RehearsedWork { id: self.last, resource, admitted, at_work, is_stream }
    }

    /// A service works at one request less.
    pub(crate) fn end_work(&mut self, resource: ResourceId) {
        let service = self.service(resource);
        service.at_work = service.at_work.saturating_sub(1);
    }

    pub(crate) fn service(&mut self, resource: ResourceId) -> &mut RehearsedService {
        self.services.entry(resource).or_default()
    }

    pub(crate) fn stand_in(&mut self, id: u64) -> Option<&mut StandIn> {
        self.stand_ins.get_mut(&id)
    }

    /// The first timer that is due.
    pub(crate) fn due(&self, now: Timestamp) -> Option<(Timestamp, u64)> {
        self.timers.first().copied().filter(|(at, _)| *at <= now)
    }

    pub(crate) fn put(&mut self, stand_in: StandIn) {
        let id = stand_in.work.id;
        self.timers.extend(stand_in.timer.map(|at| (at, id)));
        self.stand_ins.insert(id, stand_in);
    }

    /// Takes a stand-in out, with its timer.
    pub(crate) fn take(&mut self, id: u64) -> Option<StandIn> {
        let one = self.stand_ins.remove(&id)?;
        if let Some(timer) = one.timer {
            self.timers.remove(&(timer, id));
        }
        Some(one)
    }

    /// The stand-ins for which this holds.
    pub(crate) fn those(&self, of: impl Fn(&StandIn) -> bool) -> Vec<u64> {
        self.stand_ins.iter().filter(|(_, one)| of(one)).map(|(id, _)| *id).collect()
    }
}

impl StandIn {
    pub(crate) const fn waits(&self) -> bool {
        matches!(self.part, StandInPart::Waits(_))
    }
}

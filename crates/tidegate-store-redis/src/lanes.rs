//! Gathering: callers that come while a call is under way go together in the next one.
//!
//! Each place (the server, or a slot of a cluster) has a lane: a queue, and a bounded number of calls under way. A batch
//! that finds none under way is sent at once; the others wait for one round trip at most and share a call, in which a hot key is
//! read and written once for all of them. A batch stays one step of its own: the script decides them one after the other.
//!
//! Undos of batches that were given up have lanes of their own: they wait longer for their answers than callers do, and would
//! hold up those that share a call with them.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use tidegate_store::StoreError;
use tokio::sync::oneshot;

use crate::answer::Decided;
use crate::call::Asked;
use crate::names::Place;

/// Which lane a batch goes in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct LaneName {
    pub(crate) place: Place,
    pub(crate) purpose: Purpose,
}

/// The purpose of the batches in a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Purpose {
    /// A caller waits for the answer, no longer than the deadline.
    Decide,
    /// A charge of a batch that was given up is taken back; no caller waits.
    Undo,
}

#[derive(Debug, Default)]
pub(crate) struct Lanes {
    lanes: HashMap<LaneName, Lane>,
    /// Operations in all queues.
    waiting: usize,
}

#[derive(Debug, Default)]
struct Lane {
    queue: VecDeque<Waiting>,
    under_way: usize,
}

/// One batch in a queue.
#[derive(Debug)]
pub(crate) struct Waiting {
    pub(crate) asked: Asked,
    pub(crate) answer: oneshot::Sender<Result<Decided, StoreError>>,
    pub(crate) sent: Arc<Sent>,
}

/// Whether a batch is sent or given up: one exchange decides, so that a batch that is given up is never sent.
#[derive(Debug, Default)]
pub(crate) struct Sent(AtomicU8);

impl Sent {
    const WAITING: u8 = 0;
    pub(crate) const SENT: u8 = 1;
    pub(crate) const GIVEN_UP: u8 = 2;

    pub(crate) fn becomes(&self, state: u8) -> bool {
        // The word itself is all that is handed over.
        self.0.compare_exchange(Self::WAITING, state, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }
}

impl Lanes {
    /// Operations that wait to be sent.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting
    }

    /// Queues a batch; whether a call has to be started for its lane, of which at most `calls` are under way. `None`, and
    /// nothing is queued, if more than `queue` operations would wait.
    pub(crate) fn push(&mut self, name: LaneName, next: Waiting, queue: usize, calls: usize) -> Option<bool> {
        let weight = next.asked.weight();
        if self.waiting + weight > queue && self.waiting > 0 {
            return None;
        }
        self.waiting += weight;
        let lane = self.lanes.entry(name).or_default();
        lane.queue.push_back(next);
        let starts = lane.under_way < calls.max(1);
        lane.under_way += usize::from(starts);
        Some(starts)
    }

    /// The batches of the next call of a lane, of at most `gathered` operations; none if none waits, and then the lane has one
    /// call less under way.
    pub(crate) fn take(&mut self, name: LaneName, gathered: usize) -> Vec<Waiting> {
        let mut group: Vec<Waiting> = Vec::new();
        let (mut weight, mut left) = (0, 0);
        let Some(lane) = self.lanes.get_mut(&name) else { return group };
        while let Some(next) = lane.queue.front() {
            let more = next.asked.weight();
            if !group.is_empty() && weight + more > gathered {
                break;
            }
            left += more;
            let Some(next) = lane.queue.pop_front() else { break };
            // A batch whose caller has gone or has run out of time is not sent.
            if !next.answer.is_closed() && next.sent.becomes(Sent::SENT) {
                weight += more;
                group.push(next);
            }
        }
        if group.is_empty() {
            lane.under_way -= 1;
            if lane.under_way == 0 {
                self.lanes.remove(&name);
            }
        }
        self.waiting -= left;
        group
    }
}

//! Gathering: callers that come while a call is under way go together in the next one.
//!
//! Each place (the server, or a slot of a cluster) has a lane: a queue, and a bounded number of
//! calls under way. A batch that finds none under way is sent at once; the others wait for one
//! round trip at most and share a call, in which a hot key is read and written once for all of
//! them. A batch stays one step of its own: the script decides them one after the other.
//!
//! Namespaces take turns: each call carries one batch of every namespace that waits before it
//! carries a second one of any. So a namespace that sends more than the store can take waits for
//! itself, and a batch of another one goes in the next call.
//!
//! Undos of batches that were given up have lanes of their own: they wait longer for their answers
//! than callers do, and would hold up those that share a call with them.

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
    by_name: HashMap<LaneName, Lane>,
    /// Operations in all queues.
    waiting: usize,
    /// Operations of each namespace in all queues; none that has none.
    waiting_of: HashMap<Arc<[u8]>, usize>,
}

#[derive(Debug, Default)]
struct Lane {
    /// The waiting batches, by namespace; only namespaces with a batch. Boxed, since a queue grows
    /// anew whenever its namespace waits again, and a batch is large.
    queues: HashMap<Arc<[u8]>, VecDeque<Box<Waiting>>>,
    /// Whose turn is next. Each namespace that waits stands here once.
    turns: VecDeque<Arc<[u8]>>,
    under_way: usize,
}

/// One batch in a queue.
#[derive(Debug)]
pub(crate) struct Waiting {
    pub(crate) asked: Asked,
    pub(crate) answer: oneshot::Sender<Result<Decided, StoreError>>,
    pub(crate) sent: Arc<Sent>,
}

/// Whether a batch is sent or given up: one exchange decides, so that a batch that is given up is
/// never sent.
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

    /// Queues a batch; whether a call has to be started for its lane, of which at most `calls` are
    /// under way. `None`, and nothing is queued, if more than `queue` operations would wait, or if
    /// more of its namespace would wait than room would be left. One namespace alone gets half of
    /// the queue, two get a third each, and there is always room for another one.
    pub(crate) fn push(&mut self, name: LaneName, next: Waiting, queue: usize, calls: usize) -> Option<bool> {
        let weight = next.asked.weight();
        let namespace = next.asked.namespace();
        let known = self.waiting_of.get_key_value(namespace).map(|(known, of)| (Arc::clone(known), *of));
        let (namespace, of) = known.unwrap_or_else(|| (namespace.into(), 0));
        let waiting = self.waiting + weight;
        // Alone a batch always finds room, whatever its weight.
        if self.waiting > 0 && waiting > queue || of > 0 && of + weight > queue.saturating_sub(waiting) {
            return None;
        }
        self.waiting = waiting;
        self.waiting_of.insert(Arc::clone(&namespace), of + weight);
        let lane = self.by_name.entry(name).or_default();
        let waits = lane.queues.entry(Arc::clone(&namespace)).or_default();
        if waits.is_empty() {
            lane.turns.push_back(namespace);
        }
        waits.push_back(Box::new(next));
        let starts = lane.under_way < calls.max(1);
        lane.under_way += usize::from(starts);
        Some(starts)
    }

    /// The batches for the next call of a lane, with at most `gathered` operations, one for each
    /// namespace in turn; none if none waits, and then the lane has one call less under way.
    pub(crate) fn take(&mut self, name: LaneName, gathered: usize) -> Vec<Waiting> {
        let mut group: Vec<Waiting> = Vec::new();
        let mut weight = 0;
        let Some(lane) = self.by_name.get_mut(&name) else { return group };
        while let Some(namespace) = lane.turns.pop_front() {
            let Some(waits) = lane.queues.get_mut(&namespace) else { continue };
            let Some(more) = waits.front().map(|next| next.asked.weight()) else { continue };
            if !group.is_empty() && weight + more > gathered {
                // Its turn comes first in the next call.
                lane.turns.push_front(namespace);
                break;
            }
            // A batch whose caller has gone or has run out of time is not sent.
            if let Some(next) = waits.pop_front()
                && !next.answer.is_closed()
                && next.sent.becomes(Sent::SENT)
            {
                weight += more;
                group.push(*next);
            }
            self.waiting -= more;
            if let Some(of) = self.waiting_of.get_mut(&namespace) {
                *of -= more;
                if *of == 0 {
                    self.waiting_of.remove(&namespace);
                }
            }
            if waits.is_empty() {
                lane.queues.remove(&namespace);
            } else {
                lane.turns.push_back(namespace);
            }
        }
        if group.is_empty() {
            lane.under_way -= 1;
            if lane.under_way == 0 {
                self.by_name.remove(&name);
            }
        }
        group
    }
}

#[cfg(test)]
mod tests {
    use tidegate_core::{Algorithm, Cost, Rate};
    use tidegate_store::{Batch, Key, Kind, Operation, RequestId};

    use super::*;
    use crate::numbers::Known;

    const LANE: LaneName = LaneName { place: Place::Server, purpose: Purpose::Decide };

    /// A batch of a namespace, which weighs 2, and its caller.
    fn waiting(namespace: &str, id: u128) -> (Waiting, oneshot::Receiver<Result<Decided, StoreError>>) {
        let algorithm = Algorithm::bucket(Rate::per_second(1).unwrap()).unwrap();
        let key = Key::new(namespace, b"limit", b"scope").unwrap();
        let check = Operation::new(key, algorithm, Kind::Check { cost: Cost::ONE });
        let asked = Asked::new(Batch::all_or_nothing(RequestId(id), [check]), &Known::default()).unwrap();
        let (answer, answered) = oneshot::channel();
        (Waiting { asked, answer, sent: Arc::default() }, answered)
    }

    /// Lanes with what waits in them, and the callers.
    #[derive(Default)]
    struct Stand {
        lanes: Lanes,
        callers: Vec<oneshot::Receiver<Result<Decided, StoreError>>>,
    }

    impl Stand {
        /// How many of `count` batches of a namespace are queued, where 1000 operations may wait.
        fn push(&mut self, namespace: &str, count: u128) -> usize {
            let queued = (0..count).filter(|id| {
                let (next, answered) = waiting(namespace, *id);
                self.callers.push(answered);
                self.lanes.push(LANE, next, 1000, 1).is_some()
            });
            queued.count()
        }

        /// The namespaces of the batches of the next call, of 20 operations at most.
        fn take(&mut self) -> Vec<String> {
            let group = self.lanes.take(LANE, 20);
            let name = |next: &Waiting| String::from_utf8(next.asked.namespace().to_vec()).unwrap();
            group.iter().map(name).collect()
        }
    }

    #[test]
    fn a_namespace_that_floods_the_queue_leaves_room_for_others() {
        let mut stand = Stand::default();
        assert_eq!(stand.push("hostile", 5000), 250);
        assert_eq!(stand.push("second", 5000), 125);
        assert!(stand.push("honest", 50) == 50 && stand.push("other", 5) == 5);
        assert!(stand.lanes.waiting() <= 1000);
        while !stand.take().is_empty() {}
        assert!(stand.lanes.waiting() == 0 && stand.lanes.waiting_of.is_empty(), "{:?}", stand.lanes);
        assert_eq!(stand.push("hostile", 5000), 250);
    }

    #[test]
    fn a_batch_of_a_quiet_namespace_goes_in_the_next_call_however_many_of_another_wait() {
        let mut stand = Stand::default();
        stand.push("hostile", 5000);
        stand.push("honest", 1);
        let first = stand.take();
        assert!(first.len() == 10 && first[1] == "honest", "{first:?}");
        assert!(stand.take().iter().all(|namespace| namespace == "hostile"));
        stand.push("honest", 3);
        stand.push("other", 2);
        let next = stand.take();
        let count = |name| next.iter().filter(|namespace| *namespace == name).count();
        assert_eq!((count("honest"), count("other"), count("hostile")), (3, 2, 5), "{next:?}");
    }

    #[test]
    fn batches_of_one_namespace_are_sent_in_the_order_they_came() {
        let mut stand = Stand::default();
        stand.push("one", 30);
        stand.push("two", 30);
        let mut ids = Vec::new();
        loop {
            let group = stand.lanes.take(LANE, 14);
            if group.is_empty() {
                break;
            }
            ids.extend(
                group
                    .iter()
                    .filter(|next| next.asked.namespace() == b"one")
                    .map(|next| next.asked.batch.id.0),
            );
        }
        assert_eq!(ids, (0..30).collect::<Vec<_>>());
    }

    #[test]
    fn a_batch_heavier_than_the_queue_is_queued_when_nothing_waits() {
        let mut lanes = Lanes::default();
        let (next, _answered) = waiting("one", 1);
        assert_eq!(lanes.push(LANE, next, 1, 1), Some(true));
        let (next, _answered) = waiting("two", 2);
        assert_eq!(lanes.push(LANE, next, 1, 1), None);
    }
}

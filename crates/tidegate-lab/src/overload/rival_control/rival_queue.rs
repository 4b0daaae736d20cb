//! The queue of a rival, in one of three orders.

use std::collections::BTreeSet;
use std::collections::VecDeque;

use tidegate_core::Class;

use tidegate_sim::kit::MS;
use tidegate_sim::overload::JobId;

/// A request that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct QueuedJob {
    pub(super) job: JobId,
    pub(super) class: Class,
    pub(super) arrived: u64,
    pub(super) deadline: u64,
}

/// The order in which waiting requests go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum QueueOrder {
    Arrival,
    /// The most important class first.
    ByClass,
    /// The newest first while the queue has not been empty for 100 ms.
    NewestWhileStanding,
}

/// A queue has to be non-empty for so long to be a standing one.
const STANDING: u64 = 100 * MS;

#[derive(Debug)]
pub(super) struct RivalQueue {
    order: QueueOrder,
    /// By class; all in the first one unless the class decides.
    lines: [VecDeque<QueuedJob>; Class::ALL.len()],
    /// Requests whose clients have hung up, still in their line.
    left: BTreeSet<JobId>,
    len: usize,
    /// Since when it has not been empty.
    busy_since: Option<u64>,
}

impl RivalQueue {
    pub(super) fn new(order: QueueOrder) -> Self {
        Self { order, lines: Default::default(), left: BTreeSet::new(), len: 0, busy_since: None }
    }

    pub(super) const fn len(&self) -> usize {
        self.len
    }

    pub(super) fn add(&mut self, queued: QueuedJob) {
        let line = if self.order == QueueOrder::ByClass { queued.class as usize } else { 0 };
        self.lines[line].push_back(queued);
        self.busy_since.get_or_insert(queued.arrived);
        self.len += 1;
    }

    pub(super) fn is_standing(&self, now: u64) -> bool {
        self.busy_since.is_some_and(|since| now - since > STANDING)
    }

    /// Takes the next request.
    pub(super) fn take(&mut self, now: u64) -> Option<QueuedJob> {
        let is_newest_first = self.order == QueueOrder::NewestWhileStanding && self.is_standing(now);
        let taken = loop {
            let line = self.lines.iter_mut().rev().find(|line| !line.is_empty())?;
            let next = if is_newest_first { line.pop_back() } else { line.pop_front() }?;
            if !self.left.remove(&next.job) {
                break next;
            }
        };
        self.len -= 1;
        if self.len == 0 {
            self.busy_since = None;
        }
        Some(taken)
    }

    /// Forgets a request that waits; whether it did.
    pub(super) fn remove(&mut self, job: JobId) -> bool {
        let waits = self.lines.iter().flatten().any(|queued| queued.job == job) && self.left.insert(job);
        self.len -= usize::from(waits);
        if self.len == 0 {
            self.busy_since = None;
        }
        waits
    }

    /// Forgets all requests.
    pub(super) fn drain(&mut self) -> Vec<JobId> {
        let left = core::mem::take(&mut self.left);
        let all = self.lines.iter_mut().flat_map(|line| line.drain(..)).map(|queued| queued.job);
        let waiting = all.filter(|job| !left.contains(job)).collect();
        (self.len, self.busy_since) = (0, None);
        waiting
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queued(job: JobId, class: Class, arrived: u64) -> QueuedJob {
        QueuedJob { job, class, arrived, deadline: u64::MAX }
    }

    fn order(order: QueueOrder, now: u64) -> Vec<JobId> {
        let mut queue = RivalQueue::new(order);
        for (job, class) in
            [(1, Class::Sheddable), (2, Class::Critical), (3, Class::Sheddable), (4, Class::Critical)]
        {
            queue.add(queued(job, class, job as u64));
        }
        assert!(queue.remove(3) && !queue.remove(3));
        core::iter::from_fn(|| queue.take(now)).map(|next| next.job).collect()
    }

    #[test]
    fn requests_leave_in_the_order_of_the_queue_without_those_whose_clients_left() {
        assert_eq!(order(QueueOrder::Arrival, 10), [1, 2, 4]);
        assert_eq!(order(QueueOrder::ByClass, 10), [2, 4, 1]);
        assert_eq!(order(QueueOrder::NewestWhileStanding, 10), [1, 2, 4]);
        assert_eq!(order(QueueOrder::NewestWhileStanding, 200 * MS), [4, 2, 1]);
    }
}

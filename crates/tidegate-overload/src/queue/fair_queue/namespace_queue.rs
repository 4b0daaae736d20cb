//! The requests of one namespace in one class, in equal parts for its tenants.

use core::cmp::Reverse;
use std::collections::BTreeSet;

use super::fair_schedule::FairSchedule;
use super::flow::{FlowKey, SHARED_FLOWS, TenantFlow, TenantKey, hand_of};
use crate::queue::waiting_room::Position;

/// All requests of one namespace in one class.
#[derive(Clone, Debug, Default)]
pub(super) struct NamespaceQueue {
    /// The requests of each sub-queue by arrival.
    requests: BTreeSet<(u32, Position)>,
    tenants: FairSchedule<FlowKey, TenantFlow>,
    /// The sub-queues that have several requests, the longest one first.
    longest: BTreeSet<(Reverse<u32>, u32)>,
    backlog: u64,
}

impl NamespaceQueue {
    pub(super) fn count(&self) -> usize {
        self.requests.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }

    /// The cost of all that waits.
    pub(super) const fn backlog(&self) -> u64 {
        self.backlog
    }

    /// The sub-queues that have requests.
    pub(super) fn ready_flows(&self) -> usize {
        self.tenants.ready_count()
    }

    /// Lets a request wait in the sub-queue of its tenant, or in a shared one where `flows_max`
    /// tenants have one of their own. The number of the sub-queue.
    pub(super) fn push(&mut self, position: Position, key: TenantKey, cost: u32, flows_max: usize) -> u32 {
        if !self.may_open(flows_max) {
            self.tenants.forget_idle();
        }
        let number = self.tenants.open(self.key_of(key, flows_max), 1, TenantFlow::default);
        self.requests.insert((number, position));
        self.backlog += u64::from(cost);
        self.tenants.wait(number, cost);
        self.change(number, |flow| {
            flow.waiting += 1;
            flow.backlog += u64::from(cost);
        });
        number
    }

    /// The request that is next.
    pub(super) fn next(&self, is_lifo: bool) -> Option<Position> {
        let number = self.tenants.first()?;
        if is_lifo { self.newest_of(number) } else { self.oldest_of(number) }
    }

    fn newest_of(&self, number: u32) -> Option<Position> {
        let newest = self.requests.range((number, Position::new(0))..=(number, Position::new(u64::MAX)));
        newest.last().map(|(_, position)| *position)
    }

    /// The earliest request of a sub-queue.
    pub(super) fn oldest_of(&self, number: u32) -> Option<Position> {
        let (of, position) = self.requests.range((number, Position::new(0))..).next()?;
        (*of == number).then_some(*position)
    }

    /// The earliest request of the sub-queue that is next.
    pub(super) fn oldest(&self) -> Option<Position> {
        self.oldest_of(self.tenants.first()?)
    }

    /// Takes a request of this cost out.
    pub(super) fn remove(&mut self, number: u32, position: Position, cost: u32) {
        let was_here = self.requests.remove(&(number, position));
        debug_assert!(was_here, "{position:?} waits in another sub-queue");
        self.backlog -= u64::from(cost);
        let left = self.change(number, |flow| {
            flow.waiting -= 1;
            flow.backlog -= u64::from(cost);
        });
        if left == 0 {
            self.tenants.end(number);
        }
    }

    /// Charges the sub-queue whose request is about to be served.
    pub(super) fn charge(&mut self, number: u32, cost: u64) {
        self.tenants.charge(number, cost);
    }

    /// Corrects what a tenant was charged. A tenant without a sub-queue owed nothing any more, and
    /// gets one for what it owes now.
    pub(super) fn correct(&mut self, key: TenantKey, charged: u64, cost: u64, flows_max: usize) {
        let number = match self.tenants.number(FlowKey::exact(key)) {
            Some(number) => number,
            None if cost > charged && self.may_open(flows_max) && !self.is_empty() => {
                self.tenants.open(FlowKey::exact(key), 1, TenantFlow::default)
            }
            None => return,
        };
        self.tenants.correct(number, charged, cost);
    }

    /// The requests and the cost that wait where a request of this tenant would.
    pub(super) fn own_backlog(&self, key: TenantKey, flows_max: usize) -> (u32, u64) {
        let flow = self.tenants.number(self.key_of(key, flows_max)).map(|number| self.tenants.get(number));
        flow.map_or((0, 0), |flow| (flow.waiting, flow.backlog))
    }

    /// The newest request of the longest sub-queue, with the length of this sub-queue.
    pub(super) fn newest_of_longest(&self) -> Option<(u32, Position)> {
        let Some((Reverse(length), number)) = self.longest.first() else {
            return self.requests.first().map(|(_, position)| (1, *position));
        };
        Some((*length, self.newest_of(*number)?))
    }

    /// Whether one more tenant may have a sub-queue of its own.
    fn may_open(&self, flows_max: usize) -> bool {
        self.tenants.len() < flows_max || self.exact_flows() < flows_max
    }

    /// The sub-queues that are a tenant's own, those included whose tag is still ahead.
    pub(super) fn exact_flows(&self) -> usize {
        self.tenants.len() - self.tenants.count_from(FlowKey::SHARED_FIRST)
    }

    fn key_of(&self, key: TenantKey, flows_max: usize) -> FlowKey {
        let exact = FlowKey::exact(key);
        if self.tenants.number(exact).is_some() || self.may_open(flows_max) {
            return exact;
        }
        let length = |card: &u8| {
            let number = self.tenants.number(FlowKey::shared(*card));
            number.map_or(0, |number| self.tenants.get(number).waiting)
        };
        let card = hand_of(key).into_iter().min_by_key(length).unwrap_or(0);
        debug_assert!(card < SHARED_FLOWS);
        FlowKey::shared(card)
    }

    /// Changes what waits in a sub-queue and keeps the index. The requests that wait in it now.
    fn change(&mut self, number: u32, change: impl FnOnce(&mut TenantFlow)) -> u32 {
        let flow = self.tenants.get_mut(number);
        if flow.waiting > 1 {
            self.longest.remove(&(Reverse(flow.waiting), number));
        }
        change(flow);
        if flow.waiting > 1 {
            self.longest.insert((Reverse(flow.waiting), number));
        }
        flow.waiting
    }
}

//! The requests of one class: start-time fair queuing over the sub-queues of its tenants.
//!
//! The virtual time is that of the fluid: it advances by a served cost, divided among the
//! sub-queues that would still be served if all were served at once. The start of what was served
//! last, which start-time fair queuing takes for it, stands still while new tenants keep coming:
//! each of them then is before every tenant that was served a moment ago, and the later calls of a
//! task wait for the first calls of all others.
//!
//! The tags belong to the sub-queues rather than to the requests, so that a cancelled request costs
//! its tenant nothing, and the cost of a served one can be corrected later. A sub-queue that has
//! nothing to serve keeps its tag while the tag is ahead of the virtual time, and is forgotten as
//! soon as it is not, or when the class has nothing to serve at all.

use core::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use super::flow::{Flow, FlowKey, SHARED_FLOWS, TenantKey, hand_of};
use crate::fault::Fault;
use crate::waiting_room::Position;

/// The virtual time that a unit of cost takes one sub-queue.
const SCALE: u128 = 1 << 32;

/// All requests of one class.
#[derive(Clone, Debug, Default)]
pub(super) struct ClassQueue {
    /// The requests of each sub-queue by arrival.
    requests: BTreeSet<(u32, Position)>,
    flows: Vec<Flow>,
    /// The numbers in `flows` that are free.
    free: Vec<u32>,
    numbers: BTreeMap<FlowKey, u32>,
    /// The sub-queues that have requests, the next one first.
    ready: BTreeSet<(u128, u64, u32)>,
    /// The other ones, by their start.
    idle: BTreeSet<(u128, u32)>,
    /// The sub-queues that have requests by namespace, the longest one first.
    longest: BTreeSet<(u32, Reverse<u32>, u32)>,
    virtual_time: u128,
    next_turn: u64,
    backlog: u64,
    /// The cost of what was served last, by which the virtual time advances when the next request
    /// is served: that much later.
    in_service: u64,
    /// The least cost of a request since the class was empty.
    cheapest: u32,
    /// The sub-queues that are a tenant's own.
    exact: usize,
    /// Whether the newest request of a sub-queue is the first.
    pub(super) is_lifo: bool,
}

impl ClassQueue {
    pub(super) fn count(&self) -> usize {
        self.requests.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }

    /// The sub-queues that are a tenant's own, those included whose tag is still ahead.
    pub(super) const fn exact_flows(&self) -> usize {
        self.exact
    }

    /// The cost of all that waits.
    pub(super) const fn backlog(&self) -> u64 {
        self.backlog
    }

    /// The sub-queues that have requests.
    pub(super) fn ready_flows(&self) -> usize {
        self.ready.len()
    }

    /// Lets a request wait in the sub-queue of its tenant, or in a shared one unless `may_open`.
    /// The number of the sub-queue.
    pub(super) fn push(&mut self, position: Position, key: TenantKey, cost: u32, may_open: bool) -> u32 {
        let number = self.open(self.key_of(key, may_open));
        self.requests.insert((number, position));
        self.backlog += u64::from(cost);
        self.cheapest = if self.requests.len() == 1 { cost } else { self.cheapest.min(cost) };
        let turn = self.turn();
        self.change(number, |flow| {
            if flow.waiting == 0 {
                flow.turn = turn;
            }
            flow.waiting += 1;
            flow.backlog += u64::from(cost);
        });
        number
    }

    /// The request that is next.
    pub(super) fn next(&self) -> Option<Position> {
        let number = self.next_flow()?;
        if self.is_lifo { self.newest_of(number) } else { self.oldest_of(number) }
    }

    fn next_flow(&self) -> Option<u32> {
        self.ready.first().map(|(_, _, number)| *number)
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
        self.next_flow().and_then(|number| self.oldest_of(number))
    }

    /// Takes a request of this cost out.
    pub(super) fn remove(&mut self, number: u32, position: Position, cost: u32) {
        let was_here = self.requests.remove(&(number, position));
        debug_assert!(was_here, "{position:?} waits in another sub-queue");
        self.backlog -= u64::from(cost);
        self.change(number, |flow| {
            flow.waiting -= 1;
            flow.backlog -= u64::from(cost);
        });
        if self.requests.is_empty() {
            self.rest();
        }
    }

    /// Charges the sub-queue whose request is about to be served.
    pub(super) fn charge(&mut self, number: u32, cost: u64) {
        let in_service = core::mem::replace(&mut self.in_service, cost);
        self.advance(u128::from(in_service) * SCALE);
        let start = self.flows[number as usize].start;
        let first = self.ready.first().map_or(start, |(first, _, _)| *first);
        self.virtual_time = self.virtual_time.max(start.min(first));
        let turn = self.turn();
        self.change(number, |flow| {
            flow.start = start.saturating_add(u128::from(cost) * SCALE);
            flow.turn = turn;
        });
    }

    /// Advances the virtual time by what each sub-queue gets of a cost that all of them share:
    /// those that have requests, and the idle ones until their tag.
    ///
    /// It does not pass the instant at which the next request would be done, however cheap it is. A
    /// sub-queue that is empty once this one is served would otherwise start later than it ended,
    /// and a tenant that sends one request after the other would lose to one that has many.
    ///
    /// Each idle sub-queue that is passed is forgotten, so that the steps cost no more than opening
    /// the sub-queues did.
    fn advance(&mut self, mut cost: u128) {
        let done = |start: u128| start.saturating_add(u128::from(self.cheapest) * SCALE);
        let end = self.ready.first().map_or(u128::MAX, |(start, _, _)| done(*start));
        while let Some((start, number)) = self.idle.first().copied()
            && start <= end
        {
            let sharing = (self.ready.len() + self.idle.len()) as u128;
            let to_share = start.saturating_sub(self.virtual_time).saturating_mul(sharing);
            if to_share > cost {
                break;
            }
            cost -= to_share;
            self.virtual_time = self.virtual_time.max(start);
            self.idle.remove(&(start, number));
            self.close(number);
        }
        let sharing = (self.ready.len() + self.idle.len()).max(1) as u128;
        let fluid = self.virtual_time.saturating_add(cost / sharing);
        self.virtual_time = self.virtual_time.max(fluid.min(end));
    }

    /// Corrects what a tenant was charged. A tenant without a sub-queue owed nothing any more, and
    /// gets one for what it owes now.
    pub(super) fn correct(&mut self, key: TenantKey, charged: u64, cost: u64, may_open: bool) {
        let own = self.numbers.get(&FlowKey::Exact(key)).copied();
        let number = match own {
            Some(number) => number,
            None if cost > charged && may_open && !self.is_empty() => self.open(FlowKey::Exact(key)),
            None => return,
        };
        let now = self.virtual_time;
        self.change(number, |flow| {
            let start = flow.start.saturating_add(u128::from(cost.saturating_sub(charged)) * SCALE);
            flow.start = start.saturating_sub(u128::from(charged.saturating_sub(cost)) * SCALE).max(now);
        });
    }

    /// The requests and the cost that wait where a request of this tenant would.
    pub(super) fn own_backlog(&self, key: TenantKey, may_open: bool) -> (u32, u64) {
        let flow = self.numbers.get(&self.key_of(key, may_open)).map(|number| &self.flows[*number as usize]);
        flow.map_or((0, 0), |flow| (flow.waiting, flow.backlog))
    }

    /// For each namespace the newest request of its longest sub-queue, with the length of this
    /// sub-queue, the longest first.
    pub(super) fn longest(&self) -> Vec<(u32, Position)> {
        let mut all = Vec::new();
        let mut namespace = Some(0);
        while let Some(from) = namespace {
            let next = self.longest.range((from, Reverse(u32::MAX), 0)..).next();
            let Some((found, Reverse(length), number)) = next else { break };
            all.extend(self.newest_of(*number).map(|position| (*length, position)));
            namespace = found.checked_add(1);
        }
        all.sort_unstable_by_key(|one| Reverse(*one));
        all
    }

    /// Forgets the idle sub-queues that owe nothing any more.
    pub(super) fn forget_idle(&mut self) {
        while let Some((start, number)) = self.idle.first().copied()
            && start <= self.virtual_time
        {
            self.idle.remove(&(start, number));
            self.close(number);
        }
    }

    /// A busy period has ended: nobody owes anything.
    fn rest(&mut self) {
        self.in_service = 0;
        if let Some((last, _)) = self.idle.last() {
            self.virtual_time = self.virtual_time.max(*last);
        }
        self.forget_idle();
    }

    fn key_of(&self, key: TenantKey, may_open: bool) -> FlowKey {
        if may_open || self.numbers.contains_key(&FlowKey::Exact(key)) {
            return FlowKey::Exact(key);
        }
        let length = |card: &u8| {
            let number = self.numbers.get(&FlowKey::Shared(*card));
            number.map_or(0, |number| self.flows[*number as usize].waiting)
        };
        let card = hand_of(key).into_iter().min_by_key(length).unwrap_or(0);
        debug_assert!(card < SHARED_FLOWS);
        FlowKey::Shared(card)
    }

    /// The sub-queue of this key. One that has no requests starts at the virtual time, unless it is
    /// ahead of it.
    fn open(&mut self, key: FlowKey) -> u32 {
        self.forget_idle();
        if let Some(number) = self.numbers.get(&key) {
            return *number;
        }
        let start = if Fault::CreditHoarded.is_planted() { 0 } else { self.virtual_time };
        let flow = Flow { key, start, turn: self.turn(), waiting: 0, backlog: 0 };
        let number = if let Some(number) = self.free.pop() {
            self.flows[number as usize] = flow;
            number
        } else {
            self.flows.push(flow);
            self.flows.len() as u32 - 1
        };
        self.numbers.insert(key, number);
        self.exact += usize::from(matches!(key, FlowKey::Exact(_)));
        self.idle.insert((start, number));
        number
    }

    fn close(&mut self, number: u32) {
        let key = self.flows[number as usize].key;
        self.numbers.remove(&key);
        self.exact -= usize::from(matches!(key, FlowKey::Exact(_)));
        self.free.push(number);
    }

    fn turn(&mut self) -> u64 {
        self.next_turn += 1;
        self.next_turn
    }

    /// Changes a sub-queue and keeps the indexes.
    fn change(&mut self, number: u32, change: impl FnOnce(&mut Flow)) {
        let flow = &mut self.flows[number as usize];
        if flow.waiting > 0 {
            self.ready.remove(&flow.rank(number));
            self.longest.remove(&flow.length_rank(number));
        } else {
            self.idle.remove(&(flow.start, number));
        }
        change(flow);
        if flow.waiting > 0 {
            self.ready.insert(flow.rank(number));
            self.longest.insert(flow.length_rank(number));
        } else {
            self.idle.insert((flow.start, number));
        }
    }
}

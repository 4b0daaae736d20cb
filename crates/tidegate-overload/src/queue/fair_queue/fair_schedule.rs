//! Start-time fair queuing over flows by weight: the namespaces of a class, or the tenants of a
//! namespace.
//!
//! The virtual time is that of the fluid: it advances by a served cost, divided by weight among the
//! flows that would still be served if all were served at once. The start of what was served last,
//! which start-time fair queuing takes for it, stands still while new flows keep coming: each new
//! flow is before every flow that was served a moment ago, and the later calls of a task wait for
//! all other first calls.
//!
//! The tags belong to the flows rather than to the requests, so that a cancelled request costs its
//! flow nothing, and the cost of a served one can be corrected later. A flow that has nothing to
//! serve keeps its tag while the tag is ahead of the virtual time, and is forgotten as soon as it
//! is not, or when no flow has anything to serve.

use std::collections::{BTreeMap, BTreeSet};

use crate::fault::Fault;

/// The virtual time that a unit of cost takes a flow of weight 1.
const SCALE: u128 = 1 << 32;

/// Flows of requests, each with its key and with what its owner keeps of it.
#[derive(Clone, Debug)]
pub(super) struct FairSchedule<K, F> {
    flows: Vec<Option<ScheduledFlow<K, F>>>,
    /// The numbers in `flows` that are free.
    free: Vec<u32>,
    numbers: BTreeMap<K, u32>,
    /// The flows that have requests, the next one first: start, turn, number.
    ready: BTreeSet<(u128, u64, u32)>,
    /// The other ones, by their start.
    idle: BTreeSet<(u128, u32)>,
    /// The sum of the weights of all flows.
    weights: u64,
    virtual_time: u128,
    next_turn: u64,
    /// The cost of what was served last, by which the virtual time advances when the next request
    /// is served: that much later.
    in_service: u64,
    /// The least cost of a request since no flow had any.
    cheapest: u32,
}

#[derive(Clone, Debug)]
struct ScheduledFlow<K, F> {
    key: K,
    /// The virtual time at which its next request starts.
    start: u128,
    /// Its turn among flows with the same start: the one that has waited longest is first.
    turn: u64,
    /// At least 1.
    weight: u32,
    is_ready: bool,
    flow: F,
}

impl<K, F> ScheduledFlow<K, F> {
    /// The virtual time that a cost takes it.
    fn span(&self, cost: u64) -> u128 {
        u128::from(cost) * SCALE / u128::from(self.weight)
    }
}

impl<K, F> Default for FairSchedule<K, F> {
    fn default() -> Self {
        Self {
            flows: Vec::new(),
            free: Vec::new(),
            numbers: BTreeMap::new(),
            ready: BTreeSet::new(),
            idle: BTreeSet::new(),
            weights: 0,
            virtual_time: 0,
            next_turn: 0,
            in_service: 0,
            cheapest: 0,
        }
    }
}

impl<K: Copy + Ord, F> FairSchedule<K, F> {
    /// All flows.
    #[cfg(all(test, not(tidegate_loom)))]
    pub(super) fn all(&self) -> impl Iterator<Item = &F> {
        self.flows.iter().flatten().map(|one| &one.flow)
    }

    /// The flows, those included that have no requests and whose tag is still ahead.
    pub(super) fn len(&self) -> usize {
        self.numbers.len()
    }

    /// The keys of all flows from `key` on.
    pub(super) fn count_from(&self, key: K) -> usize {
        self.numbers.range(key..).count()
    }

    /// The number of the flow with this key.
    pub(super) fn number(&self, key: K) -> Option<u32> {
        self.numbers.get(&key).copied()
    }

    /// A flow by its number.
    pub(super) fn get(&self, number: u32) -> &F {
        &self.scheduled(number).flow
    }

    /// A flow by its number, to be changed.
    pub(super) fn get_mut(&mut self, number: u32) -> &mut F {
        &mut self.scheduled_mut(number).flow
    }

    /// The key of a flow.
    pub(super) fn key(&self, number: u32) -> K {
        self.scheduled(number).key
    }

    /// The weight of a flow.
    pub(super) fn weight(&self, number: u32) -> u32 {
        self.scheduled(number).weight
    }

    /// The flow that is next.
    pub(super) fn first(&self) -> Option<u32> {
        self.ready.first().map(|(_, _, number)| *number)
    }

    /// The numbers of the flows that have requests.
    pub(super) fn ready(&self) -> impl Iterator<Item = u32> + '_ {
        self.ready.iter().map(|(_, _, number)| *number)
    }

    /// How many flows have requests.
    pub(super) fn ready_count(&self) -> usize {
        self.ready.len()
    }

    /// The flow of this key, opened if it is not open yet. One that has no requests starts at the
    /// virtual time, unless it is ahead of it.
    pub(super) fn open(&mut self, key: K, weight: u32, flow: impl FnOnce() -> F) -> u32 {
        self.forget_idle();
        if let Some(number) = self.numbers.get(&key).copied() {
            self.weigh(number, weight);
            return number;
        }
        let start = if Fault::CreditHoarded.is_planted() { 0 } else { self.virtual_time };
        let (turn, weight) = (self.turn(), weight.max(1));
        let flow = Some(ScheduledFlow { key, start, turn, weight, is_ready: false, flow: flow() });
        let number = if let Some(number) = self.free.pop() {
            self.flows[number as usize] = flow;
            number
        } else {
            if self.flows.len() == self.flows.capacity() {
                // Doubling would leave up to half of the list unused.
                self.flows.reserve_exact(4 + self.flows.len() / 8);
            }
            self.flows.push(flow);
            self.flows.len() as u32 - 1
        };
        self.numbers.insert(key, number);
        self.idle.insert((start, number));
        self.weights += u64::from(weight);
        number
    }

    /// Sets the weight of a flow for what it is charged from now on.
    fn weigh(&mut self, number: u32, weight: u32) {
        let flow = self.scheduled_mut(number);
        let before = core::mem::replace(&mut flow.weight, weight.max(1));
        self.weights = self.weights + u64::from(weight.max(1)) - u64::from(before);
    }

    /// A request of this cost waits in a flow from now on.
    pub(super) fn wait(&mut self, number: u32, cost: u32) {
        self.cheapest = if self.ready.is_empty() { cost } else { self.cheapest.min(cost) };
        let turn = self.turn();
        self.change(number, |flow| {
            if !flow.is_ready {
                flow.turn = turn;
            }
            flow.is_ready = true;
        });
    }

    /// The last request of a flow has left.
    pub(super) fn end(&mut self, number: u32) {
        self.change(number, |flow| flow.is_ready = false);
        if self.ready.is_empty() {
            self.rest();
        }
    }

    /// Charges a flow whose request is about to be served.
    pub(super) fn charge(&mut self, number: u32, cost: u64) {
        let in_service = core::mem::replace(&mut self.in_service, cost);
        self.advance(u128::from(in_service) * SCALE);
        let start = self.scheduled(number).start;
        let first = self.ready.first().map_or(start, |(first, _, _)| *first);
        self.virtual_time = self.virtual_time.max(start.min(first));
        let turn = self.turn();
        self.change(number, |flow| {
            flow.start = start.saturating_add(flow.span(cost));
            flow.turn = turn;
        });
    }

    /// Advances the virtual time by what each flow gets of a cost that all of them share by weight:
    /// those that have requests, and the idle ones until their tag.
    ///
    /// It does not pass the instant at which the next request would be done, however cheap it is. A
    /// flow that is empty once this one is served would otherwise start later than it ended, and a
    /// tenant that sends one request after the other would lose to one that has many.
    ///
    /// Each idle flow that is passed is forgotten, so that the steps cost no more than opening the
    /// flows did.
    fn advance(&mut self, mut cost: u128) {
        let end = self.ready.first().map_or(u128::MAX, |(start, _, number)| {
            start.saturating_add(self.scheduled(*number).span(u64::from(self.cheapest)))
        });
        while let Some((start, number)) = self.idle.first().copied()
            && start <= end
        {
            let to_share = start.saturating_sub(self.virtual_time).saturating_mul(u128::from(self.weights));
            if to_share > cost {
                break;
            }
            cost -= to_share;
            self.virtual_time = self.virtual_time.max(start);
            self.close(start, number);
        }
        let fluid = self.virtual_time.saturating_add(cost / u128::from(self.weights.max(1)));
        self.virtual_time = self.virtual_time.max(fluid.min(end));
    }

    /// Corrects what a flow was charged.
    pub(super) fn correct(&mut self, number: u32, charged: u64, cost: u64) {
        let now = self.virtual_time;
        self.change(number, |flow| {
            let start = flow.start.saturating_add(flow.span(cost.saturating_sub(charged)));
            flow.start = start.saturating_sub(flow.span(charged.saturating_sub(cost))).max(now);
        });
    }

    /// Forgets the idle flows that owe nothing any more.
    pub(super) fn forget_idle(&mut self) {
        while let Some((start, number)) = self.idle.first().copied()
            && start <= self.virtual_time
        {
            self.close(start, number);
        }
    }

    /// A busy period has ended: no flow owes anything.
    fn rest(&mut self) {
        self.in_service = 0;
        if let Some((last, _)) = self.idle.last() {
            self.virtual_time = self.virtual_time.max(*last);
        }
        self.forget_idle();
    }

    fn close(&mut self, start: u128, number: u32) {
        self.idle.remove(&(start, number));
        if let Some(flow) = self.flows[number as usize].take() {
            self.numbers.remove(&flow.key);
            self.weights -= u64::from(flow.weight);
            self.free.push(number);
        }
    }

    fn turn(&mut self) -> u64 {
        self.next_turn += 1;
        self.next_turn
    }

    fn scheduled(&self, number: u32) -> &ScheduledFlow<K, F> {
        self.flows[number as usize].as_ref().expect("a number is kept as long as its flow has requests")
    }

    fn scheduled_mut(&mut self, number: u32) -> &mut ScheduledFlow<K, F> {
        self.flows[number as usize].as_mut().expect("a number is kept as long as its flow has requests")
    }

    /// Changes a flow and keeps the indexes.
    fn change(&mut self, number: u32, change: impl FnOnce(&mut ScheduledFlow<K, F>)) {
        let flow = self.flows[number as usize].as_mut().expect("the flow is open");
        if flow.is_ready {
            self.ready.remove(&(flow.start, flow.turn, number));
        } else {
            self.idle.remove(&(flow.start, number));
        }
        change(flow);
        if flow.is_ready {
            self.ready.insert((flow.start, flow.turn, number));
        } else {
            self.idle.insert((flow.start, number));
        }
    }
}

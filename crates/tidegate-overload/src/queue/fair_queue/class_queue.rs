//! The requests of one class, in parts for its namespaces by the shares of the resource.
//!
//! [`NAMESPACES_MAX`] namespaces have a part each, the others have one together. A name that a
//! request brings says who a tenant is, so that tenants alone would be no bound: a namespace whose
//! requests have a new name each would take the part of all others.

use super::fair_schedule::FairSchedule;
use super::flow::TenantKey;
use super::namespace_queue::NamespaceQueue;
use crate::namespaces::{NAMESPACES_MAX, NamespaceKey, NamespaceShares};
use crate::queue::waiting_room::Position;

/// The sub-queue in which a request waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FlowNumber {
    /// The number of its tenant's sub-queue within the namespace.
    pub(super) tenant: u32,
    /// The number of its namespace within the class.
    pub(super) namespace: u16,
}

/// The charge of a served request, and the right ones of its tenant and of its namespace.
#[derive(Clone, Copy, Debug)]
pub(super) struct CorrectedCost {
    pub(super) charged: u64,
    pub(super) tenant: u64,
    pub(super) namespace: u64,
}

/// All requests of one class.
#[derive(Clone, Debug, Default)]
pub(super) struct ClassQueue {
    namespaces: FairSchedule<NamespaceKey, NamespaceQueue>,
    count: usize,
    backlog: u64,
    /// Whether the newest request of a sub-queue is the first.
    pub(super) is_lifo: bool,
}

impl ClassQueue {
    pub(super) const fn count(&self) -> usize {
        self.count
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The cost of all that waits.
    pub(super) const fn backlog(&self) -> u64 {
        self.backlog
    }

    /// The namespaces that have requests, each with its weight.
    pub(super) fn ready(&self) -> impl Iterator<Item = (NamespaceKey, u32, &NamespaceQueue)> {
        let namespaces = &self.namespaces;
        namespaces
            .ready()
            .map(|number| (namespaces.key(number), namespaces.weight(number), namespaces.get(number)))
    }

    /// The requests of the namespace of this tenant.
    pub(super) fn namespace(&self, key: TenantKey) -> Option<(u32, &NamespaceQueue)> {
        let number = self.namespaces.number(self.key_of(key.namespace))?;
        Some((self.namespaces.weight(number), self.namespaces.get(number)))
    }

    /// The sub-queues that have requests.
    #[cfg(all(test, not(tidegate_loom)))]
    pub(super) fn ready_flows(&self) -> usize {
        self.ready().map(|(.., namespace)| namespace.ready_flows()).sum()
    }

    /// The sub-queues that are a tenant's own, those included whose tag is still ahead.
    #[cfg(all(test, not(tidegate_loom)))]
    pub(super) fn exact_flows(&self) -> usize {
        self.namespaces.all().map(NamespaceQueue::exact_flows).sum()
    }

    /// The key of a namespace: its own, or that of all that are too many.
    pub(super) fn key_of(&self, namespace: u32) -> NamespaceKey {
        let exact = NamespaceKey::Exact(namespace);
        let is_own = self.namespaces.number(exact).is_some() || self.exact_namespaces() < NAMESPACES_MAX;
        if is_own { exact } else { NamespaceKey::Rest }
    }

    fn exact_namespaces(&self) -> usize {
        self.namespaces.len() - self.namespaces.count_from(NamespaceKey::Rest)
    }

    /// The tenants of one namespace that may have a sub-queue of their own.
    fn flows_of_one(&self, flows_max: usize) -> usize {
        flows_max / self.namespaces.len().max(1)
    }

    /// Lets a request wait in its sub-queue.
    pub(super) fn push(
        &mut self,
        position: Position,
        key: TenantKey,
        cost: u32,
        flows_max: usize,
        shares: &NamespaceShares,
    ) -> FlowNumber {
        let namespace = self.open(key, shares);
        let flows_max = self.flows_of_one(flows_max);
        self.namespaces.wait(namespace, cost);
        let tenant = self.namespaces.get_mut(namespace).push(position, key, cost, flows_max);
        self.count += 1;
        self.backlog += u64::from(cost);
        FlowNumber { tenant, namespace: namespace as u16 }
    }

    fn open(&mut self, key: TenantKey, shares: &NamespaceShares) -> u32 {
        let of = self.key_of(key.namespace);
        self.namespaces.open(of, shares.weight(of), NamespaceQueue::default)
    }

    /// The request that is next, of the namespaces that may take a place.
    pub(super) fn next(&self, may_take: impl Fn(NamespaceKey) -> bool) -> Option<Position> {
        let first = self.namespaces.ready().find(|number| may_take(self.namespaces.key(*number)))?;
        self.namespaces.get(first).next(self.is_lifo)
    }

    /// The earliest request of a sub-queue.
    pub(super) fn oldest_of(&self, flow: FlowNumber) -> Option<Position> {
        self.namespaces.get(u32::from(flow.namespace)).oldest_of(flow.tenant)
    }

    /// The key of the namespace of a sub-queue.
    pub(super) fn namespace_of(&self, flow: FlowNumber) -> NamespaceKey {
        self.namespaces.key(u32::from(flow.namespace))
    }

    /// Takes a request of this cost out. Whether it was the last one of its namespace.
    pub(super) fn remove(&mut self, flow: FlowNumber, position: Position, cost: u32) -> bool {
        let number = u32::from(flow.namespace);
        let namespace = self.namespaces.get_mut(number);
        namespace.remove(flow.tenant, position, cost);
        let is_last = namespace.is_empty();
        self.count -= 1;
        self.backlog -= u64::from(cost);
        if is_last {
            self.namespaces.end(number);
        }
        is_last
    }

    /// Charges the sub-queue whose request is about to be served.
    pub(super) fn charge(&mut self, flow: FlowNumber, cost: u64) {
        let number = u32::from(flow.namespace);
        self.namespaces.charge(number, cost);
        self.namespaces.get_mut(number).charge(flow.tenant, cost);
    }

    /// Corrects what a tenant and its namespace were charged. Either of them without a sub-queue
    /// owed nothing any more, and gets one for what it owes now.
    pub(super) fn correct(
        &mut self,
        key: TenantKey,
        costs: CorrectedCost,
        flows_max: usize,
        shares: &NamespaceShares,
    ) {
        let CorrectedCost { charged, tenant, namespace } = costs;
        let number = match self.namespaces.number(self.key_of(key.namespace)) {
            Some(number) => number,
            None if namespace > charged && !self.is_empty() => self.open(key, shares),
            None => return,
        };
        let flows_max = self.flows_of_one(flows_max);
        self.namespaces.get_mut(number).correct(key, charged, tenant, flows_max);
        self.namespaces.correct(number, charged, namespace);
    }

    /// The requests and the cost that wait where a request of this tenant would.
    pub(super) fn own_backlog(&self, key: TenantKey, flows_max: usize) -> (u32, u64) {
        let flows_max = self.flows_of_one(flows_max);
        self.namespace(key).map_or((0, 0), |(_, namespace)| namespace.own_backlog(key, flows_max))
    }

    /// The candidates for displacement: of each namespace the newest request of its longest
    /// sub-queue, the namespace that is most over its part first.
    pub(super) fn longest(&self) -> Vec<DisplacementCandidate> {
        let mut all: Vec<_> = self
            .ready()
            .filter_map(|(key, weight, namespace)| {
                let (length, position) = namespace.newest_of_longest()?;
                Some(DisplacementCandidate {
                    namespace: key,
                    requests: namespace.count() as u64,
                    weight,
                    length,
                    position,
                })
            })
            .collect();
        all.sort_by(|one, other| other.compare(one));
        all
    }
}

/// The newest request of the longest sub-queue of a namespace.
#[derive(Clone, Copy, Debug)]
pub(super) struct DisplacementCandidate {
    pub(super) namespace: NamespaceKey,
    /// All requests of the namespace in the class.
    pub(super) requests: u64,
    pub(super) weight: u32,
    /// The requests in the sub-queue.
    pub(super) length: u32,
    pub(super) position: Position,
}

impl DisplacementCandidate {
    /// By how much more than its part the namespace has, then by the length of the sub-queue.
    fn compare(&self, other: &Self) -> core::cmp::Ordering {
        let (own, others) =
            (self.requests * u64::from(other.weight), other.requests * u64::from(self.weight));
        own.cmp(&others).then(self.length.cmp(&other.length)).then(self.position.cmp(&other.position))
    }
}

//! The requests that make room for others when the waiting room is full.

use tidegate_core::Class;

use super::class_queue::DisplacementCandidate;
use super::{FairQueue, tenant_of};
use crate::fault::Fault;
use crate::queue::waiting_room::{Entrant, Position};

impl FairQueue {
    /// The request that makes room for another one: of the lowest class that waits, the newest of
    /// the longest sub-queue of the namespace that is most over its part. In the entrant's own
    /// class that namespace has to have more than its own would, or the sub-queue has to be longer.
    /// `None`: only requests that are more important wait, or none that is less deserving.
    pub fn victim(&self, entrant: &Entrant) -> Option<Position> {
        if Fault::VictimOfOwnClass.is_planted() {
            return self.victims(entrant.class, Some(entrant)).first().copied();
        }
        let classes = Class::ALL.into_iter().filter(|class| *class <= entrant.class);
        let mut victims = classes.flat_map(|class| self.victims(class, Some(entrant)));
        victims.next()
    }

    /// Of each namespace the newest request of its longest sub-queue of a class; the namespace that
    /// is most over its part first, by shares. In the class of `entrant`: only from namespaces that
    /// have more of their part than its own would, and in its own namespace only from sub-queues
    /// that are longer than its tenant's would be. With no entrant, all.
    pub(crate) fn victims(&self, class: Class, entrant: Option<&Entrant>) -> Vec<Position> {
        let queue = &self.classes[class as usize];
        let is_own = |entrant: &&Entrant| entrant.class == class && !entrant.has_ticket;
        let own = entrant.filter(is_own).map(|entrant| {
            let key = tenant_of(entrant);
            let (tenant, _) = queue.own_backlog(key, self.config.flows_max);
            let requests = queue.namespace(key).map_or(0, |(_, namespace)| namespace.count() as u64);
            let namespace = queue.key_of(key.namespace);
            (namespace, u64::from(self.shares.weight(namespace)), requests + 1, tenant + 1)
        });
        let gives_way = |one: &DisplacementCandidate| match own {
            None => true,
            Some((namespace, _, _, tenant)) if namespace == one.namespace => one.length > tenant,
            Some((_, weight, requests, _)) => one.requests * weight > requests * u64::from(one.weight),
        };
        queue.longest().into_iter().filter(gives_way).map(|one| one.position).collect()
    }

    /// The newest request of the longest sub-queue of a namespace in a class.
    pub(crate) fn newest_of(&self, class: Class, namespace: u32) -> Option<Position> {
        let queue = &self.classes[class as usize];
        // Where it counts with others that are too many, the newest of all of them.
        let key = queue.key_of(namespace);
        let candidates = queue.longest().into_iter();
        candidates.filter(|one| one.namespace == key).map(|one| one.position).next()
    }
}

//! The requests that make room for others when the waiting room is full.

use tidegate_core::Class;

use super::{FairQueue, tenant_of};
use crate::fault::Fault;
use crate::waiting_room::{Entrant, Position};

impl FairQueue {
    /// The request that makes room for another one: the newest of the longest sub-queue of the
    /// lowest class that waits. In the entrant's own class the sub-queue has to be longer than its
    /// own would be. `None`: only requests that are more important wait, or none that is less
    /// deserving.
    pub fn victim(&self, entrant: &Entrant) -> Option<Position> {
        if Fault::VictimOfOwnClass.is_planted() {
            return self.victims(entrant.class, Some(entrant)).first().copied();
        }
        let classes = Class::ALL.into_iter().filter(|class| *class <= entrant.class);
        let mut victims = classes.flat_map(|class| self.victims(class, Some(entrant)));
        victims.next()
    }

    /// For each namespace the newest request of its longest sub-queue of a class, the longest
    /// first. In the class of `entrant`, only sub-queues that are longer than its own would be;
    /// with no entrant, all.
    pub(crate) fn victims(&self, class: Class, entrant: Option<&Entrant>) -> Vec<Position> {
        let may_open = self.may_open();
        let queue = &self.classes[class as usize];
        let own = entrant.filter(|entrant| entrant.class == class);
        let least = own.map_or(0, |entrant| queue.own_backlog(tenant_of(entrant), may_open).0 + 1);
        queue
            .longest()
            .into_iter()
            .filter(|(length, _)| *length > least)
            .map(|(_, position)| position)
            .collect()
    }
}

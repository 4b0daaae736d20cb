//! How long a request would wait in the fair queue, and whether that is of any use.

use core::time::Duration;

use tidegate_core::{Class, Timestamp};

use super::class_queue::{ClassQueue, FlowNumber};
use super::namespace_queue::NamespaceQueue;
use super::{FairQueue, charge_of, tenant_of};
use crate::namespaces::NamespaceKey;
use crate::queue::waiting_room::Entrant;

impl FairQueue {
    /// How long a request would wait if it entered now; `None` before the rate of service was
    /// measured.
    ///
    /// Its class gets its part of the service by weight, in its class its namespace by its share,
    /// and in its namespace each tenant that waits is served as much as it before it is its turn.
    /// The estimate is never longer than it takes to serve all that waits; later requests of higher
    /// weight can make the wait longer.
    #[expect(clippy::cast_precision_loss, reason = "an estimate needs three digits")]
    pub fn estimated_wait(&self, entrant: &Entrant) -> Option<Duration> {
        let queue = &self.classes[entrant.class as usize];
        let key = tenant_of(entrant);
        let (_, own) = queue.own_backlog(key, self.config.flows_max);
        let own = if queue.is_lifo { 0 } else { own };
        let charge = f64::from(charge_of(entrant.cost));
        let in_namespace = queue.namespace(key).map_or(0.0, |(_, namespace)| {
            ((own as f64 + charge) * namespace.ready_flows() as f64).min(namespace.backlog() as f64)
        });
        let of = queue.key_of(key.namespace);
        let before = in_namespace
            + self.served_beside(entrant.class, of, in_namespace.max(charge), |other| other.backlog() as f64);
        let in_class = before / self.part_of(entrant.class);
        let all: u64 =
            self.classes.iter().chain(&self.ticketed).map(ClassQueue::backlog).fold(0, u64::saturating_add);
        self.rate.time_for(in_class.min(all as f64))
    }

    /// How much other namespaces of a class are served while `own` of this one is: as much by their
    /// shares, and no more than what waits of each.
    fn served_beside(
        &self,
        class: Class,
        namespace: NamespaceKey,
        own: f64,
        waiting: impl Fn(&NamespaceQueue) -> f64,
    ) -> f64 {
        let own_weight = f64::from(self.shares.weight(namespace));
        // A namespace that has as many places as it may is passed over.
        let others = self.classes[class as usize]
            .ready()
            .filter(|(key, ..)| *key != namespace && self.may_take_place(*key, class));
        others.map(|(_, weight, queue)| (own * f64::from(weight) / own_weight).min(waiting(queue))).sum()
    }

    /// How long a request of a tenant that has nothing else here would wait at least: one round, in
    /// which each tenant of its namespace that waits is served once, and of other namespaces as
    /// many requests as their shares allow.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_sign_loss,
        reason = "an estimate of at most the requests that wait"
    )]
    pub(super) fn round_time(&self, class: Class, flow: FlowNumber) -> Duration {
        let namespace = self.classes[class as usize].namespace_of(flow);
        let own = self.classes[class as usize].ready().find(|(key, ..)| *key == namespace);
        let tenants = own.map_or(0.0, |(.., queue)| queue.ready_flows() as f64);
        let others = self.served_beside(class, namespace, tenants, |other| other.count() as f64);
        let requests = (tenants + others).min(f64::from(u32::MAX)) as u32;
        self.rate.interval().unwrap_or_default().saturating_mul(requests)
    }

    /// The part of the service that a class gets while these classes wait, 0 to 1.
    fn part_of(&self, class: Class) -> f64 {
        let weight = |class: Class| f64::from(self.config.weights[class as usize]);
        let is_background = |class: Class| self.config.min_shares[class as usize].is_some();
        let waits = self.waits();
        let others = Class::ALL.into_iter().filter(|other| *other != class && waits[*other as usize]);
        if let Some(share) = self.config.min_shares[class as usize]
            && others.clone().any(|other| !is_background(other))
        {
            return share.as_ratio();
        }
        let rivals: f64 =
            others.filter(|other| is_background(*other) == is_background(class)).map(weight).sum();
        let by_weight = weight(class) / (weight(class) + rivals);
        let is_reserved = class == Class::CriticalPlus;
        if is_reserved { by_weight.max(self.config.reserve_share.as_ratio()) } else { by_weight }
    }

    /// Whether it is of no use that a request waits: the estimated wait is longer than it may wait,
    /// or than half the time to its deadline, of which the other half is for the work. `false`
    /// before the rate of service was measured.
    pub fn is_hopeless(&self, entrant: &Entrant, now: Timestamp) -> bool {
        self.estimated_wait(entrant).is_some_and(|wait| is_hopeless_after(wait, entrant, now))
    }
}

/// [`FairQueue::is_hopeless`] with this estimated wait.
pub(super) fn is_hopeless_after(wait: Duration, entrant: &Entrant, now: Timestamp) -> bool {
    let patience = entrant.until.saturating_since(now);
    let remaining = entrant.deadline.map_or(Duration::MAX, |deadline| deadline.saturating_since(now));
    wait > patience.min(remaining / 2)
}

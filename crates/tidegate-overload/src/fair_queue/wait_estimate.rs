//! How long a request would wait in the fair queue, and whether that is of any use.

use core::time::Duration;

use tidegate_core::{Class, Timestamp};

use super::class_queue::ClassQueue;
use super::{FairQueue, charge_of, tenant_of};
use crate::waiting_room::Entrant;

impl FairQueue {
    /// How long a request would wait if it entered now; `None` before the rate of service was
    /// measured.
    ///
    /// Its class gets its part of the service by weight, and in its class each tenant that waits is
    /// served as much as it before it is its turn. The estimate is never longer than it takes to
    /// serve all that waits; later requests of higher weight can make the wait longer.
    #[expect(clippy::cast_precision_loss, reason = "an estimate needs three digits")]
    pub fn estimated_wait(&self, entrant: &Entrant) -> Option<Duration> {
        let may_open = self.may_open();
        let queue = &self.classes[entrant.class as usize];
        let (_, own) = queue.own_backlog(tenant_of(entrant), may_open);
        let own = if queue.is_lifo { 0 } else { own };
        let before = (own as f64 + f64::from(charge_of(entrant.cost))) * queue.ready_flows() as f64;
        let in_class = before.min(queue.backlog() as f64) / self.part_of(entrant.class);
        let all: u64 = self.classes.iter().map(ClassQueue::backlog).fold(0, u64::saturating_add);
        self.rate.time_for(in_class.min(all as f64))
    }

    /// How long a request of a tenant that has nothing else here would wait at least: one round, in
    /// which each tenant of its class that waits is served once.
    pub(super) fn round_time(&self, class: Class) -> Duration {
        let tenants = u32::try_from(self.classes[class as usize].ready_flows()).unwrap_or(u32::MAX);
        self.rate.interval().unwrap_or_default().saturating_mul(tenants)
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

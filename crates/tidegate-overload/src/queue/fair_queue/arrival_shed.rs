//! Requests that are refused on arrival rather than wait.
//!
//! Delay control sheds the next request of a queue that stands, whatever request that is: one call
//! of a task here, one there, and the other calls of each task were in vain. It also needs an
//! interval to find out that the queue stands. The admission cursor sheds by importance, but moves
//! once a tick. Between its ticks the *marginal* requests, the least important of those that it
//! lets in, are refused when they would join a queue that is too long: none of them up to
//! [`SHED_FROM`] targets, all of them from [`SHED_ALL_FROM`] targets on, where delay control sheds
//! as well. Between the two the longer the wait is the more are refused, from the least important
//! level on.
//!
//! A queue that drains soon is a burst, and harmless. Where the requests of the namespace have not
//! stood lately, the marginal ones are therefore refused only once they have been over the target
//! for [`BURST`].
//!
//! Where few tenants have most of what waits, the queue is long because of them, and fair queuing
//! makes them wait for it. A tenant that has nothing else in the queue is not refused then.

use core::time::Duration;

use tidegate_core::Timestamp;

use super::namespace_delay::STOOD_RECENTLY;
use super::wait_estimate::is_hopeless_after;
use super::{FairQueue, tenant_of};
use crate::queue::waiting_room::Entrant;

/// The least wait, in targets, with which a marginal request is refused.
const SHED_FROM: f64 = 1.1;
/// The wait, in targets, with which all marginal requests are.
const SHED_ALL_FROM: f64 = 2.0;
/// A wait above the target that is shorter than this is a burst.
const BURST: Duration = Duration::from_millis(20);

/// Why a request is refused on arrival rather than wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArrivalShed {
    /// It would wait for longer than it may, or than leaves time for its work.
    Hopeless,
    /// The queue is over its delay target, and the request is one of the least important.
    Marginal,
}

impl FairQueue {
    /// Why a request is to be refused on arrival, if it is.
    pub fn sheds_on_arrival(&self, entrant: &Entrant, now: Timestamp) -> Option<ArrivalShed> {
        // With nothing before it, a request waits for one place, whatever was measured before.
        if self.is_empty() || entrant.has_ticket {
            return None;
        }
        let wait = self.estimated_wait(entrant)?;
        if is_hopeless_after(wait, entrant, now) {
            return Some(ArrivalShed::Hopeless);
        }
        self.sheds_marginal(entrant, wait, now).then_some(ArrivalShed::Marginal)
    }

    fn sheds_marginal(&self, entrant: &Entrant, wait: Duration, now: Timestamp) -> bool {
        let (Some(rank), Some(target)) = (entrant.marginal, self.delay_target(entrant.class, now)) else {
            return false;
        };
        if self.is_flooded_by_others(entrant) {
            return false;
        }
        let excess = wait.as_secs_f64() / target.as_secs_f64() - SHED_FROM;
        excess > rank.as_ratio() * (SHED_ALL_FROM - SHED_FROM) && !self.is_burst(entrant, now)
    }

    /// Whether at least a third of what waits for the namespace are second and later requests of
    /// their tenants, and none of it is this tenant's.
    fn is_flooded_by_others(&self, entrant: &Entrant) -> bool {
        let (queue, key) = (&self.classes[entrant.class as usize], tenant_of(entrant));
        let own = queue.namespace(key).map(|(_, namespace)| (namespace.ready_flows(), namespace.count()));
        let (tenants, requests) = own.unwrap_or_default();
        queue.own_backlog(key, self.config.flows_max).0 == 0 && 2 * requests >= 3 * tenants.max(1)
    }

    fn is_burst(&self, entrant: &Entrant, now: Timestamp) -> bool {
        let namespace = self.classes[entrant.class as usize].key_of(entrant.group.namespace);
        let Some(state) = self.delays[entrant.class as usize].get(&namespace) else { return true };
        if state.stood_at.is_some_and(|stood| now.saturating_since(stood) < STOOD_RECENTLY) {
            return false;
        }
        let since = state.busy_since.max(state.within_target_at);
        since.is_none_or(|since| now.saturating_since(since) < BURST)
    }
}

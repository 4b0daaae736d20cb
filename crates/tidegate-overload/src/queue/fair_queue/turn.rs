//! The turn of a request: whether it takes its place, waits on, or is shed.

use core::time::Duration;

use tidegate_core::{Class, Timestamp};

use super::FairQueue;
use super::namespace_delay::NamespaceDelay;
use super::queued_request::QueuedRequest;
use super::turn_verdict::{QueueShed, TurnVerdict};
use crate::fault::Fault;
use crate::queue::waiting_room::Position;

/// The time between two departures is taken to be at most this before it was measured.
const UNKNOWN_INTERVAL_MAX: Duration = Duration::from_secs(1);

/// The departures that a delay target leaves time for. At twice the target the queue sheds, so that
/// about 24 requests can wait. At exactly the capacity, with arrivals and service times by chance,
/// a queue of `q` before 8 places leaves `1 / (q + 4.2)` of them idle: 8 % with 8, 3.5 % with 24.
const DEPARTURES: u32 = 12;

impl FairQueue {
    /// Whether a request may take a place at `now`.
    ///
    /// After [`TurnVerdict::Shed`] the request counts as shed, and leaves by [`FairQueue::cancel`].
    pub fn turn(&mut self, position: Position, now: Timestamp) -> TurnVerdict {
        let Some(request) = self.requests.get(position).copied() else { return TurnVerdict::Wait };
        let class = request.class as usize;
        if let Some(why) = request.shed {
            return TurnVerdict::Shed(why);
        }
        let is_served_anyway = Fault::ExpiredServed.is_planted();
        if (now >= request.until || now >= request.deadline) && !is_served_anyway {
            return self.shed(position, QueueShed::Expired);
        }
        let namespace = self.line(request.class, request.has_ticket).namespace_of(request.flow);
        let is_too_late = request.deadline.saturating_since(now) < self.times.typical_of(namespace);
        if is_too_late && !is_served_anyway {
            return self.shed(position, QueueShed::TooLate);
        }
        if self.next() != Some(position) {
            return TurnVerdict::Wait;
        }
        // A ticket is honoured late rather than not at all.
        if request.has_ticket {
            return TurnVerdict::Go;
        }
        let (standing, delay) = self.delays_of(&request, now);
        // In the order of fair queuing some request is always served soon after it arrived, however
        // long the others wait. With many tenants the length of a round tells what a new one has
        // before it; with one tenant, or beside one that has nearly all requests, the delay does.
        let shortest = standing.max(self.round_time(request.class, request.flow));
        let target = self.delay_target(request.class, now);
        let state = self.delays[class].entry(namespace).or_insert_with(NamespaceDelay::new);
        state.delay_min = Some(state.delay_min.map_or(shortest, |least| least.min(shortest)));
        if target.is_some_and(|target| shortest <= target) {
            state.within_target_at = Some(now);
        }
        if let Some(target) = target
            && state.control.sheds(standing, delay, target, now)
        {
            return self.shed(position, QueueShed::Delay);
        }
        TurnVerdict::Go
    }

    /// The delay of the queue where a request is, and of the request itself.
    fn delays_of(&self, request: &QueuedRequest, now: Timestamp) -> (Duration, Duration) {
        let queue = &self.classes[request.class as usize];
        let oldest = if queue.is_lifo { queue.oldest_of(request.flow) } else { None };
        let oldest = oldest.and_then(|position| self.requests.get(position));
        let since = oldest.map_or(request.since, |oldest| oldest.since.min(request.since));
        (now.saturating_since(since), now.saturating_since(request.since))
    }

    fn shed(&mut self, position: Position, why: QueueShed) -> TurnVerdict {
        if let Some(request) = self.requests.get_mut(position) {
            request.shed = Some(why);
            self.tick.shed[request.class as usize] += 1;
        }
        TurnVerdict::Shed(why)
    }

    /// The delay target in force: the configured one, or twice the time between two departures if
    /// that is longer, or the time of twelve of them, but at most twice the typical time of
    /// one request. `None`: the class is not shed by delay.
    pub fn delay_target(&self, class: Class, now: Timestamp) -> Option<Duration> {
        let configured = self.config.delay_targets[class as usize]?;
        let interval = self.rate.interval().unwrap_or_else(|| {
            // Until two departures were seen, the queue may be as slow as the time since it began.
            let since = self.queue_busy_since.unwrap_or(now);
            now.saturating_since(since).min(UNKNOWN_INTERVAL_MAX)
        });
        let deep = interval.saturating_mul(DEPARTURES).min(self.times.typical().saturating_mul(2));
        Some(configured.max(interval.saturating_mul(2)).max(deep).max(Duration::from_nanos(1)))
    }
}

//! Requests that are refused on arrival.

use super::*;
use crate::cursor::marginal_rank::MarginalRank;

/// A queue that takes two new tenants and serves one request each millisecond: it grows by one.
struct Growing {
    line: Line,
    tenants: u64,
    now: u64,
}

impl Growing {
    fn new() -> Self {
        Self { line: Line::new(QueueConfig::default()), tenants: 0, now: 0 }
    }

    fn arrive(&mut self) {
        self.tenants += 1;
        self.line.push(entrant(Class::Sheddable, self.tenants), after(self.now));
    }

    fn grow_until(&mut self, millis: u64) {
        while self.now < millis {
            self.now += 1;
            self.arrive();
            self.arrive();
            self.line.serve(after(self.now)).unwrap();
        }
    }

    fn drain_to(&mut self, waiting: usize) {
        while self.line.queue.count() > waiting {
            self.now += 1;
            self.line.serve(after(self.now));
        }
    }

    /// The answer to the arrival of a new tenant of this level of 100 marginal ones.
    fn shed(&self, level: u16) -> Option<ArrivalShed> {
        let rank = MarginalRank::new(level, 0, 100);
        let arrival = entrant(Class::Sheddable, u64::MAX).marginal(rank);
        self.line.queue.sheds_on_arrival(&arrival, after(self.now))
    }
}

const SHED: Option<ArrivalShed> = Some(ArrivalShed::Marginal);

#[test]
fn the_longer_the_wait_the_more_of_the_least_important_requests_are_shed() {
    let mut queue = Growing::new();
    queue.grow_until(80);
    // The wait is 80 ms, four times the target.
    assert_eq!([0, 50, 99, 100].map(|level| queue.shed(level)), [SHED, SHED, SHED, None]);
    // 1.5 times the target is four ninths of the way from 1.1 to 2.
    queue.drain_to(30);
    assert_eq!([0, 40, 50, 100].map(|level| queue.shed(level)), [SHED, SHED, None, None]);
    queue.drain_to(20);
    assert_eq!([0, 100].map(|level| queue.shed(level)), [None, None]);
}

#[test]
fn a_burst_sheds_nobody_unless_the_queue_has_stood_lately() {
    let mut queue = Growing::new();
    // From 20 ms on, a new tenant waits for longer than the target.
    queue.grow_until(25);
    queue.line.queue.tick(after(queue.now));
    queue.grow_until(38);
    assert_eq!(queue.shed(0), None, "it may drain soon");
    queue.grow_until(45);
    assert_eq!(queue.shed(0), SHED);
    queue.line.queue.tick(after(queue.now));
    queue.drain_to(0);
    (0..60).for_each(|_| queue.arrive());
    assert_eq!(queue.shed(0), SHED, "it stood a moment ago");
    queue.drain_to(0);
    queue.now += 2_000;
    (0..60).for_each(|_| queue.arrive());
    assert_eq!(queue.shed(0), None, "a burst after a long time");
}

#[test]
fn a_tenant_with_nothing_in_the_queue_is_not_shed_because_another_floods_it() {
    let mut queue = Growing::new();
    queue.grow_until(60);
    let flood = |queue: &mut Growing, requests| {
        for _ in 0..requests {
            queue.line.push(entrant(Class::Sheddable, 1_000), after(queue.now));
        }
    };
    flood(&mut queue, 30);
    assert_eq!((queue.line.queue.count(), queue.shed(0)), (90, SHED), "most tenants have one request");
    flood(&mut queue, 2);
    assert_eq!(queue.shed(0), None, "a third of what waits are second and later requests");
    let own = entrant(Class::Sheddable, 1_000).marginal(MarginalRank::new(0, 0, 100));
    assert_eq!(queue.line.queue.sheds_on_arrival(&own, after(queue.now)), SHED);
}

#[test]
fn a_request_that_would_wait_in_vain_is_hopeless_whatever_its_rank() {
    let mut queue = Growing::new();
    queue.grow_until(80);
    let arrival = entrant(Class::Sheddable, u64::MAX).until(after(queue.now + 50));
    assert_eq!(queue.line.queue.sheds_on_arrival(&arrival, after(queue.now)), Some(ArrivalShed::Hopeless));
}

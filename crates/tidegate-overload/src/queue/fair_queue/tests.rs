#![expect(
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "the numbers of these tests are small"
)]

use core::time::Duration;
use std::collections::BTreeMap;

use tidegate_core::{Class, Cost, Timestamp};

use super::*;
use crate::queue::waiting_room::{Group, Obstacle};
use crate::resource_id::ResourceId;

mod arrival;
mod delay;
mod fairness;
#[cfg(tidegate_planted_faults)]
mod faults;
mod model;
mod overflow;
mod tickets;

const START: Timestamp = Timestamp::from_secs(1_800_000_000);

fn after(millis: u64) -> Timestamp {
    START.saturating_add(Duration::from_millis(millis))
}

fn cost(units: u64) -> Cost {
    Cost::new(units).unwrap()
}

fn entrant(class: Class, tenant: u64) -> Entrant {
    let resource = ResourceId(0);
    let group = Group { namespace: 1, resource: Some(resource) };
    Entrant::new(group, class, Obstacle::Place(resource)).tenant(Some(tenant))
}

/// A queue, and the requests that are in it.
struct Line {
    queue: FairQueue,
    entrants: BTreeMap<Position, Entrant>,
    arrivals: u64,
}

impl Line {
    fn new(config: QueueConfig) -> Self {
        Self { queue: FairQueue::new(config), entrants: BTreeMap::new(), arrivals: 0 }
    }

    /// A queue that sheds nothing by delay.
    fn without_delay_control(config: QueueConfig) -> Self {
        let config = Class::ALL.into_iter().fold(config, |config, class| config.delay_target(class, None));
        Self::new(config)
    }

    fn push(&mut self, entrant: Entrant, now: Timestamp) -> Position {
        let position = Position::new(self.arrivals);
        self.arrivals += 1;
        self.queue.push(position, &entrant, now);
        self.entrants.insert(position, entrant);
        position
    }

    /// Serves the next request; those that are shed leave.
    fn serve(&mut self, now: Timestamp) -> Option<(Position, Entrant)> {
        loop {
            let next = self.queue.next()?;
            let entrant = self.entrants.remove(&next).unwrap();
            match self.queue.turn(next, now) {
                TurnVerdict::Go => {
                    self.queue.served(next, now);
                    return Some((next, entrant));
                }
                TurnVerdict::Shed(_) => self.queue.cancel(next),
                TurnVerdict::Wait => panic!("it is the next one"),
            }
        }
    }

    /// Serves so many requests while each of these is backlogged; the cost served of each.
    fn served_costs(&mut self, backlogged: &[Entrant], requests: usize) -> Vec<f64> {
        for entrant in backlogged {
            self.push(*entrant, START);
        }
        let mut served = vec![0.0; backlogged.len()];
        for _ in 0..requests {
            let (_, entrant) = self.serve(START).unwrap();
            let index = backlogged.iter().position(|one| *one == entrant).unwrap();
            served[index] += entrant.cost.units() as f64;
            self.push(entrant, START);
        }
        served
    }
}

fn shares(served: &[f64]) -> Vec<f64> {
    let total: f64 = served.iter().sum();
    served.iter().map(|one| one / total).collect()
}

#[test]
fn settings_that_cannot_work_are_reported() {
    let config = QueueConfig::default();
    assert_eq!(config.check(), Ok(()));
    let message = |config: QueueConfig| config.check().unwrap_err().to_string();
    assert_eq!(
        message(config.weight(Class::Critical, 0)),
        "weight 0 of critical is not between 1 and 10000; use `min_share: 0` for a class that may starve"
    );
    assert!(message(config.weight(Class::Critical, 10_001)).starts_with("weight 10001 of critical"));
    assert!(message(config.delay_target(Class::Critical, Some(Duration::ZERO))).contains("delay target 0"));
    let share = Share::from_ratio(0.06).unwrap();
    assert_eq!(
        message(config.min_share(Class::Sheddable, share)),
        "min_share 0.06 of sheddable is not between 0 and 0.05; use a weight for a larger share"
    );
    assert!(message(config.min_share(Class::CriticalPlus, Share::NONE)).contains("critical_plus"));
    assert!(message(config.flows_max((1 << 20) + 1)).starts_with("1048577 sub-queues"));
    for ratio in [f64::NAN, -0.1, 1.1, f64::INFINITY] {
        assert_eq!(Share::from_ratio(ratio), None, "{ratio}");
    }
}

#[test]
fn a_tenant_is_first_in_first_out_and_a_request_that_comes_back_keeps_its_arrival() {
    let mut line = Line::without_delay_control(QueueConfig::default());
    let all: Vec<_> = (0..4).map(|_| line.push(entrant(Class::Critical, 1), START)).collect();
    let first = line.entrants[&all[0]];
    line.queue.take(all[0], Some(Departure::Moved));
    assert_eq!(line.queue.next(), Some(all[1]));
    line.queue.push(all[0], &first, after(5));
    let served: Vec<_> = (0..4).map(|_| line.serve(after(10)).unwrap().0).collect();
    assert_eq!(served, all);
    let counts = line.queue.counts(Class::Critical);
    assert_eq!((counts.entered, counts.served, counts.moved, counts.waiting), (5, 4, 1, 0));
    assert_eq!(counts.wait_sum, Duration::from_millis(3 * 10 + 5));
}

#[test]
fn the_newest_request_of_the_longest_sub_queue_of_the_lowest_class_makes_room() {
    let mut line = Line::without_delay_control(QueueConfig::default());
    let critical: Vec<_> = (0..9).map(|_| line.push(entrant(Class::Critical, 1), START)).collect();
    let short: Vec<_> = (0..2).map(|_| line.push(entrant(Class::Sheddable, 1), START)).collect();
    let long: Vec<_> = (0..3).map(|_| line.push(entrant(Class::Sheddable, 2), START)).collect();
    let victim = |line: &Line, class, tenant| line.queue.victim(&entrant(class, tenant));
    assert_eq!(victim(&line, Class::Critical, 2), Some(long[2]), "of the lowest class");
    assert_eq!(victim(&line, Class::Sheddable, 3), Some(long[2]), "of the longer sub-queue");
    assert_eq!(victim(&line, Class::Sheddable, 1), None, "its own would be as long as the longest");
    assert_eq!(victim(&line, Class::Sheddable, 2), None, "its own is the longest");
    long.iter().chain(&short).for_each(|position| line.queue.cancel(*position));
    assert_eq!(victim(&line, Class::Sheddable, 3), None, "never of a higher class");
    assert_eq!(victim(&line, Class::Critical, 2), Some(critical[8]));
}

#[test]
fn the_wait_is_estimated_from_the_rate_of_service_and_the_class_and_tenant() {
    let mut line = Line::without_delay_control(QueueConfig::default());
    let (gold, bronze) = (entrant(Class::Critical, 1), entrant(Class::Sheddable, 1));
    for _ in 0..200 {
        line.push(bronze, START);
    }
    assert_eq!(line.queue.estimated_wait(&bronze), None, "nothing was served yet");
    assert!(!line.queue.is_hopeless(&bronze.until(START), START));
    for request in 0..100 {
        line.serve(after(request * 10)).unwrap();
    }
    let estimate = |line: &Line, entrant: Entrant| line.queue.estimated_wait(&entrant).unwrap().as_millis();
    assert_eq!(estimate(&line, bronze), 1000, "100 requests of 10 ms");
    assert_eq!(estimate(&line, entrant(Class::Sheddable, 2)), 10, "one of the other tenant first");
    assert_eq!(estimate(&line, gold), 0, "no other of its class waits");
    let now = after(1000);
    let hopeless = |until, deadline: Option<u64>| {
        let request = bronze.until(after(until)).deadline(deadline.map(after));
        line.queue.is_hopeless(&request, now)
    };
    assert!(!hopeless(2100, None) && hopeless(1900, None));
    assert!(!hopeless(9000, Some(3100)) && hopeless(9000, Some(2900)), "half the time is for the work");
    assert!(hopeless(500, None), "its time is over");
}

#[test]
fn a_hundred_thousand_cancelled_requests_leave_nothing_behind() {
    let mut line = Line::without_delay_control(QueueConfig::default());
    let all: Vec<_> = (0..100_000)
        .map(|index| line.push(entrant(Class::ALL[index % 4], index as u64 / 40), START))
        .collect();
    // From the newest to the oldest, which a scan from the front would make quadratic.
    for position in all.iter().rev() {
        line.queue.cancel(*position);
    }
    assert_eq!((line.queue.count(), line.queue.next()), (0, None));
    for class in &line.queue.classes {
        assert_eq!((class.count(), class.ready_flows(), class.exact_flows(), class.backlog()), (0, 0, 0, 0));
    }
    let cancelled: u64 = Class::ALL.iter().map(|class| line.queue.counts(*class).cancelled).sum();
    assert_eq!(cancelled, 100_000);
}

//! When requests are shed rather than served.

use super::*;
use crate::places::service_times::ServiceTimes;

/// `folly::Codel` as it is published, in milliseconds.
struct Folly {
    interval_end: u64,
    min_delay: u64,
    overloaded: bool,
}

impl Folly {
    fn drops(&mut self, delay: u64, target: u64, now: u64) -> bool {
        if now > self.interval_end {
            self.interval_end = now + 100;
            self.overloaded = self.min_delay > target;
            self.min_delay = delay;
            return false;
        }
        self.min_delay = self.min_delay.min(delay);
        self.overloaded && delay > 2 * target
    }
}

proptest::proptest! {
    #[test]
    fn delay_is_controlled_as_by_folly_with_an_interval_that_begins_at_the_target(steps in proptest::collection::vec((0_u64..60, 0_u64..30), 0..300)) {
        let (mut control, mut folly) =
            (DelayControl::new(), Folly { interval_end: 0, min_delay: 0, overloaded: false });
        // The delays since the last one within the target, while the queue does not stand.
        let mut above = 0;
        let mut now = 1;
        for (step, delay) in steps {
            now += step;
            let ours = Duration::from_millis(delay);
            let sheds =
                control.sheds(ours, ours, Duration::from_millis(5), Timestamp::from_millis(now));
            if !folly.overloaded && delay <= 5 {
                (folly.interval_end, above) = (now + 100, 0);
            } else {
                if above == 0 && !folly.overloaded {
                    folly.min_delay = if now > folly.interval_end { 0 } else { delay };
                }
                above += 1;
            }
            let drops = above > 0 && folly.drops(delay, 5, now);
            proptest::prop_assert_eq!(sheds, drops);
        }
    }
}

/// Arrivals and service at fixed intervals for ten seconds, in one class and tenant. How many were
/// served, and the longest wait of those served in the second half.
fn steady(config: QueueConfig, arrival_ms: u64, service_ms: u64) -> (u64, Duration) {
    let mut line = Line::new(config);
    let (mut free_at, mut longest) = (0, Duration::ZERO);
    let mut arrived = BTreeMap::new();
    for now in 0..10_000 {
        if now % arrival_ms == 0 {
            arrived.insert(line.push(entrant(Class::Critical, 1), after(now)), now);
        }
        if now >= free_at
            && let Some((position, _)) = line.serve(after(now))
        {
            free_at = now + service_ms;
            if now > 5_000 {
                longest = longest.max(Duration::from_millis(now - arrived[&position]));
            }
        }
    }
    (line.queue.counts(Class::Critical).served, longest)
}

#[test]
fn a_queue_that_stands_is_cut_to_twice_the_target_and_the_service_stays_busy() {
    let (served, longest) = steady(QueueConfig::default(), 1, 2);
    assert!(served >= 4_950, "{served} of 5000");
    assert!(longest <= Duration::from_millis(120), "{longest:?}: an interval and twice the target");
    let off = QueueConfig::default().delay_target(Class::Critical, None);
    let (served, longest) = steady(off, 1, 2);
    assert!(served >= 4_999 && longest > Duration::from_secs(4), "{served}, {longest:?}");
}

#[test]
fn a_slow_service_with_one_place_is_not_emptied() {
    let (served, longest) = steady(QueueConfig::default(), 400, 500);
    assert_eq!(served, 20, "it is busy all the time");
    assert!(longest >= Duration::from_millis(500), "{longest:?}");
}

#[test]
fn the_target_leaves_a_slow_service_twelve_departures_but_not_more_than_two_service_times() {
    let target = |gap_ms: u64, service_ms: u64| {
        let mut line = Line::new(QueueConfig::default());
        line.queue.set_service_times(ServiceTimes::typical_of_all(Duration::from_millis(service_ms)));
        for number in 0..20 {
            line.push(entrant(Class::Sheddable, number), START);
        }
        for number in 1..4 {
            assert!(line.serve(after(number * gap_ms)).is_some());
        }
        line.queue.delay_target(Class::Sheddable, after(4 * gap_ms)).unwrap().as_millis()
    };
    assert_eq!(target(1, 10), 20, "the configured one is longer");
    assert_eq!(target(3, 40), 36, "twelve departures");
    assert_eq!(target(3, 12), 24, "twice the service time");
    assert_eq!(target(30, 30), 60, "twice the time between two departures is as much");
    assert_eq!(target(30, 20), 60, "and here the least that is left");
}

#[test]
fn a_queue_of_many_tenants_stands_although_each_new_one_is_served_soon() {
    let config = QueueConfig::default().delay_target(Class::Sheddable, Some(Duration::from_millis(100)));
    let mut line = Line::new(config);
    let mut now = 0;
    // 150 tenants that have a request each, and new ones that are ahead of those served lately.
    for tenant in 0..150 {
        line.push(entrant(Class::Sheddable, tenant), START);
    }
    for _ in 0..150 {
        now += 1;
        let (_, served) = line.serve(after(now)).unwrap();
        line.push(served, after(now));
    }
    line.queue.tick(after(now));
    let mut shortest = u64::MAX;
    for fresh in 1_000..1_100 {
        now += 1;
        let arrived = line.push(entrant(Class::Sheddable, fresh), after(now));
        if line.serve(after(now)).unwrap().0 == arrived {
            shortest = 0;
        }
    }
    assert_eq!(shortest, 0, "a new tenant was served at once");
    let ratio = line.queue.tick(after(now)).delay_ratio;
    assert!(ratio > 1.0, "{ratio}");
}

#[test]
pub(super) fn after_a_suspension_everything_is_refused_and_nothing_served() {
    let mut line = Line::new(QueueConfig::default());
    let until = after(500);
    let all: Vec<_> = (0..1000)
        .map(|index| line.push(entrant(Class::ALL[index % 4], index as u64 % 7).until(until), START))
        .collect();
    let resumed = after(3_600_000);
    for position in &all {
        assert_eq!(line.queue.turn(*position, resumed), TurnVerdict::Shed(QueueShed::Expired));
        assert_eq!(line.queue.turn(*position, resumed), TurnVerdict::Shed(QueueShed::Expired), "again");
        line.queue.cancel(*position);
    }
    assert!(line.queue.is_empty());
    for class in Class::ALL {
        let counts = line.queue.counts(class);
        assert_eq!((counts.entered, counts.expired, counts.cancelled), (250, 250, 0));
    }
}

#[test]
fn too_little_time_for_the_work_is_no_turn() {
    let mut line = Line::new(QueueConfig::default());
    line.queue.set_service_times(ServiceTimes::typical_of_all(Duration::from_millis(30)));
    let request = entrant(Class::Critical, 1).deadline(Some(after(100)));
    let (first, second) = (line.push(request, START), line.push(request, START));
    assert_eq!(line.queue.turn(first, after(70)), TurnVerdict::Go);
    assert_eq!(line.queue.turn(second, after(70)), TurnVerdict::Wait);
    assert_eq!(line.queue.turn(first, after(71)), TurnVerdict::Shed(QueueShed::TooLate));
    line.queue.cancel(first);
    assert_eq!(line.queue.counts(Class::Critical).too_late, 1);
    assert_eq!(line.queue.turn(first, after(71)), TurnVerdict::Wait, "it is not here");
}

#[test]
fn the_newest_request_is_first_once_the_queue_stands_and_until_it_is_empty() {
    let mut line = Line::without_delay_control(QueueConfig::default().lifo(Class::Critical));
    let request = |line: &mut Line, at| line.push(entrant(Class::Critical, 1), after(at));
    let early: Vec<_> = (0..3).map(|at| request(&mut line, at)).collect();
    assert_eq!(line.queue.next(), Some(early[0]));
    let newest = request(&mut line, 100);
    assert_eq!(line.queue.next(), Some(newest));
    let served: Vec<_> = (0..4).map(|_| line.serve(after(110)).unwrap().0).collect();
    assert_eq!(served, [newest, early[2], early[1], early[0]]);
    let (first, second) = (request(&mut line, 200), request(&mut line, 210));
    assert_eq!(line.queue.next(), Some(first), "a new queue");
    line.queue.cancel(first);
    line.queue.cancel(second);
    let low: Vec<_> = (0..2).map(|_| line.push(entrant(Class::Sheddable, 1), after(220))).collect();
    line.push(entrant(Class::Sheddable, 1), after(900));
    assert_eq!(line.queue.next(), Some(low[0]), "only the classes of the setting");
}

#[test]
fn the_tick_says_by_how_much_the_worst_class_is_over_its_target() {
    let mut line = Line::new(QueueConfig::default());
    assert!(line.queue.tick(START).was_empty);
    // Departures 1 ms apart, so that the configured targets hold.
    for _ in 0..300 {
        line.push(entrant(Class::Critical, 1), START);
        line.push(entrant(Class::Sheddable, 1).cost(cost(8)), START);
    }
    let first = line.queue.tick(after(1));
    assert!(first.was_empty, "at its beginning");
    for now in 40..60 {
        let next = line.queue.next().unwrap();
        line.queue.served(next, after(now));
    }
    let next = line.queue.next().unwrap();
    assert_eq!(line.queue.turn(next, after(60)), TurnVerdict::Go);
    let tick = line.queue.tick(after(60));
    assert!(!tick.was_empty);
    assert_eq!(tick.slowest, Some(Class::Critical));
    assert!((tick.delay_ratio - 12.0).abs() < 1e-9, "60 ms of 5 ms: {}", tick.delay_ratio);
    assert!(tick.cost_served >= 20, "{tick:?}");
    // Nothing had its turn: the wait of the next one counts.
    let stalled = line.queue.tick(after(160));
    assert!((stalled.delay_ratio - 32.0).abs() < 1e-9, "{}", stalled.delay_ratio);
    assert_eq!((stalled.cost_served, stalled.shed), (0, [0; 4]));
}

//! The pace of work whose end is not reported, by which it needs no place in flight.
//!
//! A request whose end nobody reports would keep its place for good. Instead as many of them are
//! admitted a second as the places could serve: by Little's law the limit divided by the average
//! time of service, which work with a known end has shown. The generic cell rate algorithm (ITU-T
//! I.371) spaces them, and lets as many come at once as there are places.

use core::time::Duration;

use tidegate_core::Timestamp;

use crate::fault::Fault;
use crate::sync::{AtomicU64, Ordering};

/// The seconds whose samples count; without any in them nothing is known, and all is admitted.
const SECONDS: usize = 10;
/// A time of service counts as at most this, so that no sum of them can wrap: with 2^22 samples a
/// tick it fits.
const SERVICE_MAX: Duration = Duration::from_hours(1);

/// The pace of one resource.
#[derive(Debug)]
pub(crate) struct Pacer {
    // Relaxed, all of them: each is one word, and guards no other memory.
    /// The average time of service in nanoseconds; 0: not known.
    service_ns: AtomicU64,
    /// The instant at which the next request is due, in nanoseconds: the theoretical arrival time.
    due_ns: AtomicU64,
    /// The time of service since the last tick, and of how many requests.
    sum_ns: AtomicU64,
    count: AtomicU64,
}

/// The samples of the last seconds; the ticks own it.
#[derive(Debug)]
pub(crate) struct RecentService {
    /// The sums and counts of each second, at its number modulo their number.
    seconds: [(u64, u64); SECONDS],
    /// The last second that was written.
    second: u64,
}

impl RecentService {
    pub(crate) const fn new() -> Self {
        Self { seconds: [(0, 0); SECONDS], second: 0 }
    }

    /// Adds what a tick has seen, and forgets what is too old. A clock that stepped back forgets
    /// all.
    fn add(&mut self, sum: u64, count: u64, now: Timestamp) {
        let second = now.as_nanos() / 1_000_000_000;
        let passed = second.checked_sub(self.second).unwrap_or(SECONDS as u64).min(SECONDS as u64);
        for back in 0..passed {
            self.seconds[slot_of(second.saturating_sub(back))] = (0, 0);
        }
        self.second = second;
        let slot = &mut self.seconds[slot_of(second)];
        *slot = (slot.0.saturating_add(sum), slot.1.saturating_add(count));
    }

    /// The average time of service; 0 without a sample.
    fn average_ns(&self) -> u64 {
        let sums = self.seconds.iter().map(|(sum, _)| u128::from(*sum)).sum::<u128>();
        let count = self.seconds.iter().map(|(_, count)| u128::from(*count)).sum::<u128>();
        sums.checked_div(count).map_or(0, |average| u64::try_from(average).unwrap_or(u64::MAX).max(1))
    }
}

fn slot_of(second: u64) -> usize {
    usize::try_from(second % SECONDS as u64).expect("it is below their number")
}

impl Pacer {
    pub(crate) fn new() -> Self {
        Self {
            service_ns: AtomicU64::new(0),
            due_ns: AtomicU64::new(0),
            sum_ns: AtomicU64::new(0),
            count: AtomicU64::new(0),
        }
    }

    /// Adds the time from the admission to the end of one request's work.
    pub(crate) fn add(&self, service: Duration) {
        let service = u64::try_from(service.min(SERVICE_MAX).as_nanos()).unwrap_or(u64::MAX);
        self.sum_ns.fetch_add(service, Ordering::Relaxed);
        self.count.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn tick(&self, recent: &mut RecentService, now: Timestamp) {
        let sum = self.sum_ns.swap(0, Ordering::Relaxed);
        let count = self.count.swap(0, Ordering::Relaxed);
        recent.add(sum, count, now);
        self.service_ns.store(recent.average_ns(), Ordering::Relaxed);
    }

    /// Whether [`Pacer::admits`] would admit one more request.
    pub(crate) fn would_admit(&self, places: u64, now: Timestamp) -> bool {
        let pace = self.pace(places, now);
        pace.is_none_or(|pace| pace.next_due(self.due_ns.load(Ordering::Relaxed)).is_some())
    }

    /// The pace with so many places, at least 1; `None` where it is not known.
    #[inline]
    fn pace(&self, places: u64, now: Timestamp) -> Option<Pace> {
        let service = self.service_ns.load(Ordering::Relaxed);
        if service == 0 || Fault::PaceUnbounded.is_planted() {
            return None;
        }
        let interval = interval(service, places);
        // As many at once as there are places take one time of service.
        let latest = now.as_nanos().saturating_add(service.max(interval));
        Some(Pace { now: now.as_nanos(), interval, latest })
    }

    /// Takes back a request that was in pace and did not go ahead after all.
    pub(crate) fn give_back(&self, places: u64) {
        let interval = interval(self.service_ns.load(Ordering::Relaxed), places);
        let earlier = |due: u64| Some(due.saturating_sub(interval));
        let _ = self.due_ns.fetch_update(Ordering::Relaxed, Ordering::Relaxed, earlier);
    }

    /// Whether one more request is in pace with so many places, at least 1; it then counts.
    #[inline]
    pub(crate) fn admits(&self, places: u64, now: Timestamp) -> bool {
        let Some(pace) = self.pace(places, now) else { return true };
        let next_due = |due| pace.next_due(due);
        let taken = self.due_ns.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next_due);
        if taken.is_err_and(|due| due > pace.latest) {
            // Kept, or a clock that stepped back by an hour would stop all for an hour.
            self.due_ns.fetch_min(pace.latest, Ordering::Relaxed);
        }
        taken.is_ok()
    }
}

/// The pace at one instant, in nanoseconds.
#[derive(Clone, Copy, Debug)]
struct Pace {
    now: u64,
    interval: u64,
    /// The latest instant at which a request that is admitted now may leave the next one due.
    latest: u64,
}

impl Pace {
    /// When the next request is due after one more, the first being due at `due`; `None` if that
    /// one is ahead of the pace.
    #[inline]
    fn next_due(&self, due: u64) -> Option<u64> {
        // Later than any that is admitted now: the clock has stepped back, or work got faster.
        let next = due.clamp(self.now, self.latest).saturating_add(self.interval);
        (next <= self.latest).then_some(next)
    }
}

/// How long after one request the next one is due.
fn interval(service_ns: u64, places: u64) -> u64 {
    (service_ns / places.max(1)).max(1)
}

#[cfg(test)]
#[cfg(not(tidegate_loom))]
pub(crate) mod tests {
    use super::*;

    const START: Timestamp = Timestamp::from_secs(1_800_000_000);
    const MS: Duration = Duration::from_millis(1);

    fn after(span: Duration) -> Timestamp {
        START.saturating_add(span)
    }

    fn paced(service: Duration) -> (Pacer, RecentService) {
        let (pacer, mut recent) = (Pacer::new(), RecentService::new());
        (0..10).for_each(|_| pacer.add(service));
        pacer.tick(&mut recent, START);
        (pacer, recent)
    }

    #[test]
    pub(crate) fn the_pace_is_the_places_divided_by_the_time_of_service_after_a_burst_of_all_places() {
        let (pacer, _) = paced(50 * MS);
        let burst = (0..100).filter(|_| pacer.admits(10, START)).count();
        assert_eq!(burst, 10);
        // A thousand a second ask for ten seconds; ten places of 50 ms serve 200 a second.
        let admitted = (1..=10_000).filter(|ms| pacer.admits(10, after(MS * *ms))).count();
        assert!((1990..=2010).contains(&admitted), "{admitted}");
    }

    #[test]
    fn without_a_sample_of_the_last_ten_seconds_nothing_is_paced() {
        let (pacer, mut recent) = (Pacer::new(), RecentService::new());
        pacer.tick(&mut recent, START);
        assert!((0..1000).all(|_| pacer.admits(1, START)));
        let (pacer, mut recent) = paced(50 * MS);
        let is_paced = |pacer: &Pacer, now| !(0..1000).all(|_| pacer.admits(1, now));
        pacer.tick(&mut recent, after(Duration::from_secs(9)));
        assert!(is_paced(&pacer, after(Duration::from_secs(9))));
        pacer.tick(&mut recent, after(Duration::from_secs(10)));
        assert!(!is_paced(&pacer, after(Duration::from_secs(10))));
    }

    #[test]
    fn a_clock_that_steps_back_and_the_longest_and_shortest_work_stop_nothing_for_good() {
        let (pacer, _) = paced(50 * MS);
        let day = Duration::from_hours(24);
        assert!((0..1000).any(|_| pacer.admits(10, after(day))));
        let admitted = (0..1000).filter(|ms| pacer.admits(10, after(MS * *ms))).count();
        assert!((190..=210).contains(&admitted), "{admitted}");
        let (pacer, _) = paced(Duration::MAX);
        assert!(pacer.admits(1, START) && !pacer.admits(1, START) && pacer.admits(1, after(SERVICE_MAX)));
        let (pacer, _) = paced(Duration::ZERO);
        assert!(pacer.admits(u64::MAX, START) && pacer.admits(1, START.saturating_add(MS)));
        // Neither overflows.
        let _ = (pacer.admits(0, Timestamp::MAX), pacer.admits(0, Timestamp::MIN));
    }
}

//! How long a service would keep the places of a resource in shadow mode.

use core::time::Duration;
use std::collections::VecDeque;

/// The times of a service that nobody holds back, from which follow those that it would take behind
/// an enforcing resource.
///
/// A request that was admitted while the service worked at no more requests than the resource has
/// places took the time that it would have taken. Of one that was admitted beyond that, two things
/// are sure: with fewer requests at once the service is not slower, and it does not end more
/// requests a second. By Little's law the time lies between `took x places / at work` and `took`.
/// The times of requests up to the places say where between these bounds. Where they are the same
/// as one of the bounds but for chance, times beyond the places are drawn, since they are newer.
#[derive(Debug, Default)]
pub(crate) struct RehearsedTimes {
    /// The last times of requests up to the places.
    within: RecentTimes,
    /// The last times of requests beyond the places, as they were.
    beyond: RecentTimes,
    /// The same, each times `places / at work`.
    scaled: RecentTimes,
}

/// The last times, in the order in which they were measured; at most 16 KB.
#[derive(Debug, Default)]
struct RecentTimes {
    times: VecDeque<Duration>,
    sum: Duration,
    /// The next one to be drawn.
    next: usize,
}

impl RecentTimes {
    /// The times that are kept. The mean of so many exponential times is 3 % off.
    const MAX: usize = 1024;

    fn add(&mut self, took: Duration) {
        if self.times.len() == Self::MAX {
            self.sum -= self.times.pop_front().unwrap_or_default();
        }
        self.sum += took;
        self.times.push_back(took);
    }

    fn mean(&self) -> Duration {
        self.sum / u32::try_from(self.times.len().max(1)).unwrap_or(u32::MAX)
    }

    /// One of them after the other, from the first again after the last.
    fn draw(&mut self) -> Option<Duration> {
        self.next = if self.next < self.times.len() { self.next } else { 0 };
        let took = self.times.get(self.next)?;
        self.next += 1;
        Some(*took)
    }
}

impl RehearsedTimes {
    /// Requests up to the places from which their time is known. Their mean is 6 % off where the
    /// times are exponential.
    const KNOWN_FROM: usize = 256;
    /// Means are the same if they are not apart by this part of them: it is twice what chance does.
    const SAME: u32 = 8;

    /// Takes in the time of a request that has ended, which the service worked at beside others.
    pub(crate) fn add(&mut self, took: Duration, at_work: u64, places: u64) {
        if at_work <= places {
            self.within.add(took);
            return;
        }
        self.beyond.add(took);
        let [places, at_work] = [places, at_work].map(|count| u32::try_from(count).unwrap_or(u32::MAX));
        self.scaled.add(took.saturating_mul(places) / at_work);
    }

    /// A time for which the next stand-in keeps its place; `None` while no request has ended.
    pub(crate) fn draw(&mut self) -> Option<Duration> {
        let [within, least, most] = [&self.within, &self.scaled, &self.beyond].map(RecentTimes::mean);
        let is_known = self.within.times.len() >= Self::KNOWN_FROM;
        let times = if self.beyond.times.is_empty() {
            &mut self.within
        } else if !is_known || within <= least + least / Self::SAME {
            &mut self.scaled
        } else if within >= most.saturating_sub(most / Self::SAME) {
            &mut self.beyond
        } else {
            &mut self.within
        };
        times.draw()
    }
}

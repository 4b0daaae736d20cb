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
/// The times of requests up to the places say where between these bounds. While there are too few
/// of those, it is how the times beyond the places rise with the requests at work.
#[derive(Debug, Default)]
pub(crate) struct RehearsedTimes {
    /// The last times of requests up to the places.
    within: RecentTimes<()>,
    /// The last times of requests beyond the places, each with `places / at work`.
    beyond: RecentTimes<f64>,
    /// Of the times beyond the places, those of the eighth with the fewest requests at work.
    lowest: RecentTimes<f64>,
    /// Their summary, and how many came since.
    summary: TimesSummary,
    unseen: usize,
}

/// A summary of the times.
#[derive(Clone, Copy, Debug)]
struct TimesSummary {
    /// The mean up to the places, and how far it is off by chance, as a part of it; `None` while it
    /// is not known.
    within: Option<(Duration, f64)>,
    /// The means of the two bounds.
    least: Duration,
    most: Duration,
    /// The power of the requests at work by which the times rise: 0 if the service bears them all,
    /// 1 if it ends no more requests a second.
    rise: f64,
    /// The same among the lowest, if they rise by less: more than the places, and less than the
    /// service bears, are at work there.
    lowest_rise: Option<f64>,
}

impl Default for TimesSummary {
    fn default() -> Self {
        Self { within: None, least: Duration::ZERO, most: Duration::ZERO, rise: 1.0, lowest_rise: None }
    }
}

/// The last times, in the order in which they were measured; at most 24 KB.
#[derive(Debug, Default)]
struct RecentTimes<T> {
    times: VecDeque<(Duration, T)>,
    /// The next one to be drawn.
    next: usize,
}

impl<T: Copy> RecentTimes<T> {
    /// The times that are kept. The mean of so many exponential times is 3 % off.
    const MAX: usize = 1024;

    fn add(&mut self, took: Duration, with: T) {
        if self.times.len() == Self::MAX {
            self.times.pop_front();
        }
        self.times.push_back((took, with));
    }

    fn mean(&self) -> Duration {
        mean(self.times.iter().map(|(took, _)| *took))
    }

    /// One of them after the other, from the first again after the last.
    fn draw(&mut self) -> Option<(Duration, T)> {
        self.next = if self.next < self.times.len() { self.next } else { 0 };
        let drawn = self.times.get(self.next)?;
        self.next += 1;
        Some(*drawn)
    }
}

impl RehearsedTimes {
    /// Requests up to the places from which anything is known of their time.
    const KNOWN_FROM: usize = 16;
    /// Means that are no further apart than this part of them are the same.
    const SAME: f64 = 0.125;
    /// After so many times they are looked at together.
    const LOOK: usize = 64;

    /// Takes in the time of a request that has ended, which the service worked at beside others.
    pub(crate) fn add(&mut self, took: Duration, at_work: u64, places: u64) {
        if at_work <= places {
            self.within.add(took, ());
        } else {
            let [places, at_work] = [places, at_work].map(|count| u32::try_from(count).unwrap_or(u32::MAX));
            self.beyond.add(took, f64::from(places) / f64::from(at_work));
        }
        self.unseen += 1;
        if self.unseen >= Self::LOOK {
            self.unseen = 0;
            let count = u32::try_from(self.within.times.len()).unwrap_or(u32::MAX);
            // Twice the deviation of the mean of exponential times.
            let chance = (2.0 / f64::from(count).sqrt()).max(Self::SAME);
            let is_known = self.within.times.len() >= Self::KNOWN_FROM;
            let within = is_known.then(|| (self.within.mean(), chance));
            let mut sorted: Vec<(Duration, f64)> = self.beyond.times.iter().copied().collect();
            sorted.sort_by(|(_, one), (_, other)| other.total_cmp(one));
            let lowest = &sorted[..sorted.len() / 8];
            self.summary = TimesSummary { within, ..TimesSummary::of(&sorted, lowest) };
            self.lowest.times = lowest.iter().copied().collect();
        }
    }

    /// A time for which the next stand-in keeps its place; `None` while no request has ended.
    pub(crate) fn draw(&mut self) -> Option<Duration> {
        let TimesSummary { within, least, most, rise, lowest_rise } = self.summary;
        // Where the time up to the places is the same as one of the bounds but for chance, times
        // beyond them are drawn, since they are newer.
        let power = match within {
            _ if self.beyond.times.is_empty() => None,
            None => match lowest_rise {
                Some(rise) => return self.lowest.draw().map(|(took, ratio)| took.mul_f64(ratio.powf(rise))),
                None => Some(rise),
            },
            Some((within, chance)) if within <= least.mul_f64(1.0 + chance) => Some(1.0),
            Some((within, chance)) if within >= most.mul_f64(1.0 - chance) => Some(0.0),
            Some(_) => None,
        };
        match power {
            Some(power) => self.beyond.draw().map(|(took, ratio)| took.mul_f64(ratio.powf(power))),
            None => self.within.draw().map(|(took, ())| took),
        }
    }
}

impl TimesSummary {
    /// Times beyond the places from which their rise is known.
    const KNOWN_FROM: usize = 128;
    /// The requests at work must differ by this factor between the halves.
    const SPREAD_MIN: f64 = 1.25;
    /// A rise from here on is 1 and one up to here is 0, but for chance and for a service of which
    /// the workers are in use now and then.
    const FULL: f64 = 0.7;
    const NONE: f64 = 0.3;
    /// The lowest times are another case than all of them if they rise by no more than this.
    const LOWEST_MAX: f64 = 0.5;

    /// Of the times beyond the places and the lowest of them, both by requests at work.
    fn of(sorted: &[(Duration, f64)], lowest: &[(Duration, f64)]) -> Self {
        let most = mean(sorted.iter().map(|(took, _)| *took));
        let least = mean(sorted.iter().map(|(took, ratio)| took.mul_f64(*ratio)));
        // Without a rise that is known, the lower bound.
        let rise = Self::rise(sorted).unwrap_or(1.0);
        let rise = if rise >= Self::FULL { 1.0 } else { rise };
        let lowest_rise = Self::rise(lowest).filter(|rise| *rise <= Self::LOWEST_MAX);
        let plain = |rise: f64| if rise < Self::NONE { 0.0 } else { rise };
        Self { within: None, least, most, rise: plain(rise), lowest_rise: lowest_rise.map(plain) }
    }

    /// How the times rise, by the half with fewer requests at work and the half with more; `None`
    /// if too few are known, or the halves are too close.
    fn rise(sorted: &[(Duration, f64)]) -> Option<f64> {
        let (fewer, more) = sorted.split_at(sorted.len() / 2);
        let took = |half: &[(Duration, f64)]| mean(half.iter().map(|(took, _)| *took)).as_secs_f64();
        let at_work = |half: &[(Duration, f64)]| {
            let count = u32::try_from(half.len().max(1)).unwrap_or(u32::MAX);
            half.iter().map(|(_, ratio)| 1.0 / ratio).sum::<f64>() / f64::from(count)
        };
        let spread = at_work(more) / at_work(fewer);
        let rise = (took(more) / took(fewer)).ln() / spread.ln();
        let is_known = sorted.len() >= Self::KNOWN_FROM && spread >= Self::SPREAD_MIN && rise.is_finite();
        is_known.then_some(rise)
    }
}

fn mean(times: impl ExactSizeIterator<Item = Duration>) -> Duration {
    let count = u32::try_from(times.len().max(1)).unwrap_or(u32::MAX);
    times.sum::<Duration>() / count
}

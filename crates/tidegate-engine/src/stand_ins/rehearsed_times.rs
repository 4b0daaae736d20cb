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
    /// Their summary, and how many came since.
    summary: TimesSummary,
    unseen: usize,
}

/// A summary of the times.
#[derive(Clone, Copy, Debug)]
struct TimesSummary {
    /// The mean up to the places; `None` while it is not known.
    within: Option<Duration>,
    /// The means of the two bounds.
    least: Duration,
    most: Duration,
    /// The power of the requests at work by which the times rise: 0 if the service bears them all,
    /// 1 if it ends no more requests a second.
    rise: f64,
}

impl Default for TimesSummary {
    fn default() -> Self {
        Self { within: None, least: Duration::ZERO, most: Duration::ZERO, rise: 1.0 }
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
    /// Requests up to the places from which their time is known. Their mean is 6 % off where the
    /// times are exponential.
    const KNOWN_FROM: usize = 256;
    /// Means are the same if they are not apart by this part of them: it is twice what chance does.
    const SAME: u32 = 8;
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
            let within = (self.within.times.len() >= Self::KNOWN_FROM).then(|| self.within.mean());
            self.summary = TimesSummary { within, ..TimesSummary::of(&self.beyond.times) };
        }
    }

    /// A time for which the next stand-in keeps its place; `None` while no request has ended.
    pub(crate) fn draw(&mut self) -> Option<Duration> {
        let TimesSummary { within, least, most, rise } = self.summary;
        // Where the time up to the places is the same as one of the bounds but for chance, times
        // beyond them are drawn, since they are newer.
        let power = match within {
            _ if self.beyond.times.is_empty() => None,
            None => Some(rise),
            Some(within) if within <= least + least / Self::SAME => Some(1.0),
            Some(within) if within >= most.saturating_sub(most / Self::SAME) => Some(0.0),
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
    const KNOWN_FROM: usize = 256;
    /// The requests at work must differ by this factor between the halves.
    const SPREAD_MIN: f64 = 1.25;
    /// A rise from here on is 1 and one up to here is 0, but for chance and for a service of which
    /// the workers are in use now and then.
    const FULL: f64 = 0.7;
    const NONE: f64 = 0.3;

    fn of(times: &VecDeque<(Duration, f64)>) -> Self {
        let most = mean(times.iter().map(|(took, _)| *took));
        let least = mean(times.iter().map(|(took, ratio)| took.mul_f64(*ratio)));
        Self { within: None, least, most, rise: Self::rise(times) }
    }

    /// How the times rise, by the half with fewer requests at work and the half with more.
    fn rise(times: &VecDeque<(Duration, f64)>) -> f64 {
        let mut sorted: Vec<(Duration, f64)> = times.iter().copied().collect();
        sorted.sort_by(|(_, one), (_, other)| other.total_cmp(one));
        let (fewer, more) = sorted.split_at(sorted.len() / 2);
        let took = |half: &[(Duration, f64)]| mean(half.iter().map(|(took, _)| *took)).as_secs_f64();
        let at_work = |half: &[(Duration, f64)]| {
            let count = u32::try_from(half.len().max(1)).unwrap_or(u32::MAX);
            half.iter().map(|(_, ratio)| 1.0 / ratio).sum::<f64>() / f64::from(count)
        };
        let spread = at_work(more) / at_work(fewer);
        let rise = (took(more) / took(fewer)).ln() / spread.ln();
        // The lower bound, if it is not known.
        let is_known = sorted.len() >= Self::KNOWN_FROM && spread >= Self::SPREAD_MIN && rise.is_finite();
        match rise {
            _ if !is_known => 1.0,
            Self::FULL.. => 1.0,
            ..Self::NONE => 0.0,
            rise => rise,
        }
    }
}

fn mean(times: impl ExactSizeIterator<Item = Duration>) -> Duration {
    let count = u32::try_from(times.len().max(1)).unwrap_or(u32::MAX);
    times.sum::<Duration>() / count
}

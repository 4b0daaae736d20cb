//! The outcomes of the requests of a run.

use std::ops::Range;
use std::time::Duration;

use crate::load::schedule::{Schedule, Stream};

/// The 99th percentile of the generator's lateness above which a run does not count.
pub const LATENESS_P99_MAX: Duration = Duration::from_millis(5);

/// A duration in milliseconds.
pub fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

/// How a request ended for its client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Answered 200 in time.
    Answered,
    /// Refused in time, with 429 or 503, but not because its feature is off.
    Refused(u16),
    /// Refused in time, because its feature is off.
    Disabled,
    /// Not answered within the deadline.
    Late,
    /// Another status, or a connection that failed.
    Failed(Option<u16>),
}

/// A request that was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// The index of its stream.
    pub stream: usize,
    /// Its scheduled instant, from the start of the run.
    pub at: Duration,
    /// How much later than scheduled the generator began with it.
    pub lateness: Duration,
    /// The time from the scheduled instant to its end.
    pub took: Duration,
    /// How it ended.
    pub ending: Ending,
}

/// Percentiles of durations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Percentiles {
    /// How many durations there are.
    pub count: usize,
    /// The median.
    pub p50: Duration,
    /// The 99th percentile: the shortest duration that at least 99 % do not exceed.
    pub p99: Duration,
    /// The longest.
    pub max: Duration,
}

impl Percentiles {
    /// Of any number of durations; all zero when there are none.
    pub fn from_durations(durations: impl IntoIterator<Item = Duration>) -> Self {
        let mut sorted: Vec<Duration> = durations.into_iter().collect();
        sorted.sort_unstable();
        let count = sorted.len();
        let Some(&max) = sorted.last() else { return Self::default() };
        let at = |percent: usize| sorted[(count * percent).div_ceil(100).max(1) - 1];
        Self { count, p50: at(50), p99: at(99), max }
    }
}

/// The requests of a run, or some of them.
#[derive(Clone, Debug)]
pub struct Measurement {
    streams: Vec<Stream>,
    samples: Vec<Sample>,
}

impl Measurement {
    /// Of the samples of a run of `schedule`.
    pub fn new(schedule: &Schedule, mut samples: Vec<Sample>) -> Self {
        samples.sort_by_key(|sample| sample.at);
        Self { streams: schedule.streams().to_vec(), samples }
    }

    /// The requests that were sent within `scheduled`.
    #[must_use]
    pub fn within(&self, scheduled: Range<Duration>) -> Self {
        self.filtered(|sample| scheduled.contains(&sample.at))
    }

    /// The requests of a tenant.
    #[must_use]
    pub fn of_tenant(&self, tenant: &str) -> Self {
        self.filtered(|sample| self.streams[sample.stream].tenant == tenant)
    }

    fn filtered(&self, keep: impl Fn(&Sample) -> bool) -> Self {
        let samples = self.samples.iter().filter(|sample| keep(sample)).copied().collect();
        Self { streams: self.streams.clone(), samples }
    }

    /// The requests, by scheduled instant.
    pub fn samples(&self) -> &[Sample] {
        &self.samples
    }

    /// How many of the requests ended as `is_meant` says.
    pub fn count(&self, is_meant: impl Fn(Ending) -> bool) -> usize {
        self.samples.iter().filter(|sample| is_meant(sample.ending)).count()
    }

    /// The part of the requests that was answered in time; 1 of none.
    pub fn success(&self) -> f64 {
        let answered = self.count(|ending| ending == Ending::Answered);
        if self.samples.is_empty() { 1.0 } else { answered as f64 / self.samples.len() as f64 }
    }

    /// Answers in time that arrived within `window`, a second.
    pub fn answer_rate(&self, window: Range<Duration>) -> f64 {
        let is_counted = |sample: &&Sample| {
            sample.ending == Ending::Answered && window.contains(&(sample.at + sample.took))
        };
        let count = self.samples.iter().filter(is_counted).count();
        count as f64 / window.end.saturating_sub(window.start).as_secs_f64()
    }

    /// The latency of the requests that were answered in time.
    pub fn latency(&self) -> Percentiles {
        let answered = self.samples.iter().filter(|sample| sample.ending == Ending::Answered);
        Percentiles::from_durations(answered.map(|sample| sample.took))
    }

    /// How late the generator was.
    pub fn lateness(&self) -> Percentiles {
        Percentiles::from_durations(self.samples.iter().map(|sample| sample.lateness))
    }

    /// Whether the generator was on time, so that the run counts.
    pub fn is_on_time(&self) -> bool {
        self.lateness().p99 <= LATENESS_P99_MAX
    }

    /// How many requests ended in which way, as text.
    pub fn endings(&self) -> String {
        let counts = [
            ("answered", self.count(|ending| ending == Ending::Answered)),
            ("disabled", self.count(|ending| ending == Ending::Disabled)),
            ("refused", self.count(|ending| matches!(ending, Ending::Refused(_)))),
            ("late", self.count(|ending| ending == Ending::Late)),
            ("failed", self.count(|ending| matches!(ending, Ending::Failed(_)))),
        ];
        let present = counts.into_iter().filter(|(_, count)| *count > 0);
        let each: Vec<String> = present.map(|(name, count)| format!("{count} {name}")).collect();
        if each.is_empty() { "none sent".to_owned() } else { each.join(", ") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn measurement(samples: impl IntoIterator<Item = (u32, Ending)>) -> Measurement {
        let stream = Stream { path: "/", tenant: "gold", class: "critical", mean_work: MS, seed: 1 };
        let mut schedule = Schedule::default();
        schedule.add(stream, Duration::ZERO, MS, 0.0);
        let samples = samples.into_iter().map(|(at, ending)| Sample {
            stream: 0,
            at: at * MS,
            lateness: at * MS,
            took: 10 * MS,
            ending,
        });
        Measurement::new(&schedule, samples.collect())
    }

    #[test]
    fn a_percentile_is_the_shortest_duration_that_enough_do_not_exceed() {
        let of_hundred = Percentiles::from_durations((1..=100).rev().map(|number| number * MS));
        assert_eq!((of_hundred.p50, of_hundred.p99, of_hundred.max), (50 * MS, 99 * MS, 100 * MS));
        let of_one = Percentiles::from_durations([7 * MS]);
        assert_eq!((of_one.p50, of_one.p99), (7 * MS, 7 * MS));
        assert_eq!(Percentiles::from_durations([]), Percentiles::default());
    }

    #[test]
    fn refused_late_and_failed_requests_are_no_successes() {
        let others = [Ending::Refused(503), Ending::Late, Ending::Failed(None)];
        let all = measurement([(0, Ending::Answered)].into_iter().chain(others.map(|ending| (1, ending))));
        assert!((all.success() - 0.25).abs() < f64::EPSILON);
        assert_eq!(all.endings(), "1 answered, 1 refused, 1 late, 1 failed");
        assert_eq!(all.latency().count, 1);
    }

    #[test]
    fn an_answer_counts_in_the_window_in_which_it_arrives() {
        let all = measurement([(0, Ending::Answered), (95, Ending::Answered)]);
        assert!((all.answer_rate(Duration::ZERO..100 * MS) - 10.0).abs() < 1e-9);
        assert_eq!(all.within(50 * MS..100 * MS).samples().len(), 1);
    }

    #[test]
    fn a_run_of_a_late_generator_does_not_count() {
        assert!(measurement((0..100).map(|_| (5, Ending::Answered))).is_on_time());
        assert!(!measurement((0..100).map(|_| (6, Ending::Answered))).is_on_time());
    }
}

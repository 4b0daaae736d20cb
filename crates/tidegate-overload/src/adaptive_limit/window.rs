//! The samples between two decisions: a histogram of latencies, counts, and the work in flight.
//!
//! A window begins with the first sample of a request that was admitted after the last change of
//! the limit, so a decision never judges requests that the previous limit let in.

use core::time::Duration;

use tidegate_core::Timestamp;

/// Buckets for each doubling: a bucket is at most 1/32 wide, and the median is interpolated in it.
const BUCKETS_PER_DOUBLING: usize = 32;
/// Doublings from 1 us; longer latencies, above 19 hours, count in the last bucket.
const DOUBLINGS: usize = 36;
const BUCKETS: usize = BUCKETS_PER_DOUBLING * DOUBLINGS;

/// The measures of one window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct WindowSummary {
    /// The part of the samples that failed, 0 to 1.
    pub failed_share: f64,
    /// The median latency of the successes in seconds; above 0; `None` with fewer than half of the
    /// smallest number of samples.
    pub latency: Option<f64>,
    /// The mean latency of all samples that have one, failures included, in seconds.
    pub latency_with_failures: Option<f64>,
    /// The successes a second.
    pub throughput: f64,
    /// The average work in flight over the ticks.
    pub in_flight: f64,
    /// The highest work in flight of a tick.
    pub in_flight_peak: f64,
    /// The average work in flight that the samples account for, by Little's law: the sum of their
    /// latencies divided by the age of the window.
    pub accounted_for: f64,
}

/// The open window; 5 KiB, allocated once.
#[derive(Debug)]
pub(super) struct SampleWindow {
    buckets: Box<[u32; BUCKETS]>,
    succeeded: u32,
    failed: u32,
    latency_sum: f64,
    latency_count: u32,
    in_flight_sum: f64,
    in_flight_peak: f64,
    ticks: u32,
    /// Requests admitted earlier do not count.
    opened: Timestamp,
    /// When the first sample came.
    began: Option<Timestamp>,
}

impl SampleWindow {
    pub(super) fn new() -> Self {
        Self {
            buckets: Box::new([0; BUCKETS]),
            succeeded: 0,
            failed: 0,
            latency_sum: 0.0,
            latency_count: 0,
            in_flight_sum: 0.0,
            in_flight_peak: 0.0,
            ticks: 0,
            opened: Timestamp::from_nanos(0),
            began: None,
        }
    }

    /// Counts a success.
    pub(super) fn add_success(&mut self, latency: Duration) {
        self.succeeded = self.succeeded.saturating_add(1);
        let bucket = &mut self.buckets[bucket_of(latency)];
        *bucket = bucket.saturating_add(1);
        self.add_latency(latency);
    }

    /// Counts a failure.
    pub(super) fn add_failure(&mut self, latency: Duration) {
        self.failed = self.failed.saturating_add(1);
        self.add_latency(latency);
    }

    /// Counts a rejection by the resource, which says nothing about its latency.
    pub(super) fn add_rejection(&mut self) {
        self.failed = self.failed.saturating_add(1);
    }

    /// Counts the work in flight at a tick.
    pub(super) fn add_in_flight(&mut self, in_flight: f64) {
        if self.began.is_some() {
            self.ticks = self.ticks.saturating_add(1);
            self.in_flight_sum += in_flight;
            self.in_flight_peak = self.in_flight_peak.max(in_flight);
        }
    }

    /// The time since the first sample; `None` without one, or when the clock stepped back.
    pub(super) fn age(&self, now: Timestamp) -> Option<Duration> {
        self.began.filter(|began| *began <= now).map(|began| now.saturating_since(began))
    }

    /// Whether the clock stepped back behind the start of the window.
    pub(super) fn is_in_future(&self, now: Timestamp) -> bool {
        now < self.opened || self.began.is_some_and(|began| now < began)
    }

    pub(super) fn samples(&self) -> u32 {
        self.succeeded.saturating_add(self.failed)
    }

    /// The median latency of the successes in seconds.
    pub(super) fn median(&self) -> Option<f64> {
        let half = f64::from(self.succeeded) / 2.0;
        let mut below = 0.0;
        for (index, count) in self.buckets.iter().enumerate().filter(|(_, count)| **count > 0) {
            let count = f64::from(*count);
            if below + count >= half {
                return Some(bucket_value(index, (half - below) / count));
            }
            below += count;
        }
        None
    }

    /// The measures of the window until now; `age` is its age and above 0.
    pub(super) fn summary(&self, age: Duration, samples_min: u32) -> WindowSummary {
        let samples = f64::from(self.samples().max(1));
        let enough = self.succeeded > 0 && self.succeeded >= samples_min / 2;
        WindowSummary {
            failed_share: f64::from(self.failed) / samples,
            latency: if enough { self.median() } else { None },
            latency_with_failures: (self.latency_count > 0)
                .then(|| (self.latency_sum / f64::from(self.latency_count)).max(1e-6)),
            throughput: f64::from(self.succeeded) / age.as_secs_f64().max(1e-9),
            in_flight: self.in_flight_sum / f64::from(self.ticks.max(1)),
            in_flight_peak: self.in_flight_peak,
            accounted_for: self.latency_sum / age.as_secs_f64().max(1e-9),
        }
    }

    /// Starts the next window, for requests admitted from `now` on.
    pub(super) fn restart(&mut self, now: Timestamp) {
        self.clear();
        self.opened = now;
    }

    /// Starts the next window under the same limit: requests admitted before count as well. Without
    /// them a window that is shorter than the work would see the shortest work only.
    pub(super) fn clear(&mut self) {
        self.buckets.fill(0);
        self.succeeded = 0;
        self.failed = 0;
        self.latency_sum = 0.0;
        self.latency_count = 0;
        self.in_flight_sum = 0.0;
        self.in_flight_peak = 0.0;
        self.ticks = 0;
        self.began = None;
    }

    /// Whether work that was admitted at `admitted` and ended at `now` counts; the first that does
    /// begins the window.
    pub(super) fn takes(&mut self, admitted: Timestamp, now: Timestamp) -> bool {
        let takes = admitted >= self.opened;
        if takes && self.began.is_none() {
            self.began = Some(now);
        }
        takes
    }

    fn add_latency(&mut self, latency: Duration) {
        self.latency_sum += latency.as_secs_f64();
        self.latency_count = self.latency_count.saturating_add(1);
    }
}

fn bucket_of(latency: Duration) -> usize {
    let micros = u64::try_from(latency.as_micros()).unwrap_or(u64::MAX).max(1);
    let doubling = micros.ilog2();
    // The next five bits below the highest one.
    let rest = if doubling >= 5 { micros >> (doubling - 5) } else { micros << (5 - doubling) };
    let index = doubling as usize * BUCKETS_PER_DOUBLING + (rest & 31) as usize;
    index.min(BUCKETS - 1)
}

/// The latency in seconds at a part of a bucket.
fn bucket_value(index: usize, part: f64) -> f64 {
    let doubling = u32::try_from(index / BUCKETS_PER_DOUBLING).expect("there are 36 doublings");
    let rest = u32::try_from(index % BUCKETS_PER_DOUBLING).expect("there are 32 buckets");
    let micros = 2f64.powi(doubling.cast_signed()) * (1.0 + (f64::from(rest) + part) / 32.0);
    micros / 1e6
}

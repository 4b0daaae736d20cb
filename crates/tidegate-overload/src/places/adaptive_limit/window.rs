//! The samples between two decisions: a histogram of latencies, counts, and the work in flight.
//!
//! A window begins with the first sample of a request that was admitted after the last change of
//! the limit, so a decision never judges requests that the previous limit let in.

use core::time::Duration;

use tidegate_core::Timestamp;

use super::latency_histogram::LatencyHistogram;
use super::shared_window::{self, NamespaceSummary, SharedSamples};

/// The measures of one window.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct WindowSummary {
    /// The namespaces that the samples come from.
    pub namespaces: Vec<NamespaceSummary>,
    /// The part of the samples that failed, 0 to 1.
    pub failed_share: f64,
    /// The latency of the successes in seconds, their median or the index of [`LatencyIndex`];
    /// above 0; `None` with fewer than half of the smallest sample count.
    pub latency: Option<f64>,
    /// The same, as the median of the medians of the namespaces.
    pub typical_latency: Option<f64>,
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

/// The open window; 5 KiB and as much for each namespace beyond one.
#[derive(Debug, Default)]
pub(super) struct SampleWindow {
    latencies: LatencyHistogram,
    shared: SharedSamples,
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
    /// Counts a success.
    pub(super) fn add_success(&mut self, namespace: u32, latency: Duration) {
        self.succeeded = self.succeeded.saturating_add(1);
        let micros = u64::try_from(latency.as_micros()).unwrap_or(u64::MAX);
        self.latencies.add(micros);
        self.shared.add_success(namespace, micros);
        self.add_latency(latency);
    }

    /// Counts a failure.
    pub(super) fn add_failure(&mut self, namespace: u32, latency: Duration) {
        self.fail(namespace, latency);
        self.add_latency(latency);
    }

    /// Counts a rejection by the resource, which says nothing about its latency.
    pub(super) fn add_rejection(&mut self, namespace: u32) {
        self.fail(namespace, Duration::ZERO);
    }

    fn fail(&mut self, namespace: u32, latency: Duration) {
        self.failed = self.failed.saturating_add(1);
        self.shared.add_failure(namespace, latency.as_secs_f64());
    }

    /// Counts the work in flight at a tick.
    pub(super) fn add_in_flight(&mut self, in_flight: f64) {
        if self.began.is_some() {
            self.ticks = self.ticks.saturating_add(1);
            self.in_flight_sum += in_flight;
            self.in_flight_peak = self.in_flight_peak.max(in_flight);
        }
    }

    /// Counts the work in flight of each namespace at a tick.
    pub(super) fn add_shares(&mut self, places: impl Iterator<Item = (u32, u64)>) {
        if self.began.is_some() {
            self.shared.add_in_flight(places);
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

    /// The measures of the window until now; `age` is its age and above 0.
    pub(super) fn summary(&self, age: Duration, samples_min: u32) -> WindowSummary {
        let samples = f64::from(self.samples().max(1));
        let enough = self.succeeded > 0 && self.succeeded >= samples_min / 2;
        let seconds = age.as_secs_f64().max(1e-9);
        let namespaces = self.shared.summaries(samples_min, seconds);
        let failed_share = if namespaces.len() > 1 { shared_window::failed_share(&namespaces) } else { None };
        WindowSummary {
            failed_share: failed_share.unwrap_or(f64::from(self.failed) / samples),
            latency: if enough { self.latencies.median() } else { None },
            typical_latency: if enough { shared_window::typical_latency(&namespaces) } else { None },
            namespaces,
            latency_with_failures: (self.latency_count > 0)
                .then(|| (self.latency_sum / f64::from(self.latency_count)).max(1e-6)),
            throughput: f64::from(self.succeeded) / seconds,
            in_flight: self.in_flight_sum / f64::from(self.ticks.max(1)),
            in_flight_peak: self.in_flight_peak,
            accounted_for: self.latency_sum / seconds,
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
        self.latencies.clear();
        self.shared.clear();
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

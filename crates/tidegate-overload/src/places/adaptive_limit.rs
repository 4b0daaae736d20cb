//! A bound on work in flight that finds itself from the latency of the work.
//!
//! Ends of work are recorded into a window with [`AdaptiveLimit::record`]; every
//! [`TICK`](crate::TICK) calls [`AdaptiveLimit::tick`], which closes the window and moves the limit
//! when the window has its time and its samples. The limit is always between the configured
//! bounds and never grows while less than half of it is used. From one failure in ten on it falls,
//! and with more than one in a hundred it does not grow, whatever the latency of the others says;
//! only [`LimitAlgorithm::Gradient`] knows no failures. A sample allocates nothing; reading the
//! limit is one atomic load.
//!
//! Record only work whose latency depends on the load of the resource. A tunnel, a stream of events
//! or work whose end is unknown takes as long as its peer likes: leave out its sample.
//!
//! Algorithms after Netflix concurrency-limits (Vegas, AIMD, Gradient2) and Uber's Cinnamon
//! (covariance of work in flight and throughput).

mod aimd;
mod config;
mod covariance;
mod gradient;
mod latency_histogram;
mod shared_window;
#[cfg(test)]
#[cfg(not(tidegate_loom))]
mod tests;
mod vegas;
mod window;

use core::time::Duration;

use tidegate_core::Timestamp;

pub use config::{AdaptiveLimitConfig, AdaptiveLimitError, LimitAlgorithm};

use crate::fault::Fault;
use crate::sync::{AtomicU64, Mutex, Ordering, lock};
use gradient::Gradient;
use shared_window::LatencyIndex;
use vegas::Vegas;
use window::{SampleWindow, WindowSummary};

/// The end of a request's work, as a sample for an [`AdaptiveLimit`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LimitSample {
    /// The work was done. At or above the configured timeout it counts as a failure.
    Succeeded {
        /// The time from the admission to the first byte of the answer, or to the end of the work
        /// where the first byte is not known: a slow reader of an answer says nothing.
        latency: Duration,
    },
    /// The work timed out. An error that has nothing to do with load gives no sample.
    TimedOut {
        /// The time from the admission to the timeout.
        latency: Duration,
    },
    /// The resource rejected the work as too much, for example with 429 or 503.
    Rejected,
}

/// A limit on work in flight that follows the resource. Threads share it by reference.
#[derive(Debug)]
pub struct AdaptiveLimit {
    config: AdaptiveLimitConfig,
    /// Relaxed: a bound that is one tick old is as good, and it guards no other data.
    limit: AtomicU64,
    window: Mutex<SampleWindow>,
    controller: Mutex<Controller>,
}

#[derive(Debug)]
struct Controller {
    /// The limit with its fraction: rounding each step would lose steps below 1.
    limit: f64,
    latency: LatencyIndex,
    algorithm: AlgorithmState,
}

#[derive(Debug)]
enum AlgorithmState {
    Vegas(Box<Vegas>),
    Aimd,
    Gradient(Gradient),
}

impl AdaptiveLimit {
    /// A limit at `config.initial`, without samples. Fails when a setting is out of its range.
    pub fn new(config: AdaptiveLimitConfig) -> Result<Self, AdaptiveLimitError> {
        Self::starting_at(config, config.initial)
    }

    /// The same, but at `initial`, within the bounds, rather than where the settings say.
    pub(crate) fn starting_at(config: AdaptiveLimitConfig, initial: u32) -> Result<Self, AdaptiveLimitError> {
        config.check()?;
        let algorithm = match config.algorithm {
            LimitAlgorithm::Vegas => AlgorithmState::Vegas(Box::new(Vegas::new())),
            LimitAlgorithm::Aimd => AlgorithmState::Aimd,
            LimitAlgorithm::Gradient => AlgorithmState::Gradient(Gradient::default()),
        };
        Ok(Self {
            config,
            limit: AtomicU64::new(u64::from(initial)),
            window: Mutex::new(SampleWindow::default()),
            controller: Mutex::new(Controller {
                limit: f64::from(initial),
                latency: LatencyIndex::default(),
                algorithm,
            }),
        })
    }

    /// The limit in force, `min` to `max` of the settings.
    #[inline]
    pub fn limit(&self) -> u64 {
        self.limit.load(Ordering::Relaxed)
    }

    /// The settings.
    pub const fn config(&self) -> &AdaptiveLimitConfig {
        &self.config
    }

    /// The median latency without a queue, as last measured; `None` before the first window and
    /// for algorithms other than Vegas.
    pub fn baseline(&self) -> Option<Duration> {
        match &lock(&self.controller).algorithm {
            AlgorithmState::Vegas(vegas) => {
                vegas.baseline().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
            }
            AlgorithmState::Aimd | AlgorithmState::Gradient(_) => None,
        }
    }

    /// Records the end at `now` of one request's work that was admitted at `admitted`. Work that
    /// was admitted before the last change of the limit is left out.
    ///
    /// Each `namespace` moves the limit by no more than its part; give all samples the same number
    /// where callers cannot lie.
    pub fn record(&self, namespace: u32, sample: LimitSample, admitted: Timestamp, now: Timestamp) {
        let mut window = lock(&self.window);
        if !window.takes(admitted, now) {
            return;
        }
        match sample {
            LimitSample::Succeeded { latency } if latency < self.config.timeout => {
                window.add_success(namespace, latency);
            }
            LimitSample::TimedOut { latency } if Fault::TimeoutSucceeds.is_planted() => {
                window.add_success(namespace, latency);
            }
            LimitSample::Succeeded { latency } | LimitSample::TimedOut { latency } => {
                window.add_failure(namespace, latency);
            }
            LimitSample::Rejected => window.add_rejection(namespace),
        }
    }

    /// Takes in the work in flight of each namespace, before [`AdaptiveLimit::tick`]. Without it,
    /// no namespace is known to have work of which nothing has ended.
    pub fn observe_in_flight(&self, places: impl Iterator<Item = (u32, u64)>) {
        lock(&self.window).add_shares(places);
    }

    /// Decides the limit at `now` and returns it. `in_flight` is the work in flight since the last
    /// tick, on average. A late tick makes the window longer; a clock that stepped back starts a
    /// new window and changes nothing else.
    pub fn tick(&self, now: Timestamp, in_flight: u64) -> u64 {
        let Some(mut summary) = self.close_window(now, in_flight) else { return self.limit() };
        let (min, max) = (f64::from(self.config.min), f64::from(self.config.max));
        let mut controller = lock(&self.controller);
        let limit = controller.limit;
        summary.latency = controller.latency.follow(&summary.namespaces, summary.latency);
        let next = match &mut controller.algorithm {
            AlgorithmState::Vegas(vegas) => vegas.next_limit(
                limit,
                min,
                self.config.ceiling.map(|ceiling| ceiling.as_secs_f64()),
                &summary,
            ),
            AlgorithmState::Aimd => aimd::next_limit(limit, &summary, self.config.timeout.as_secs_f64()),
            AlgorithmState::Gradient(gradient) => gradient.next_limit(limit, &summary),
        };
        controller.limit = if next.is_finite() { next.clamp(min, max) } else { limit };
        let whole = whole(controller.limit);
        if self.limit.swap(whole, Ordering::Relaxed) != whole {
            lock(&self.window).restart(now);
        }
        whole
    }

    /// The measurements of a window that has its time and its samples; the next one starts.
    fn close_window(&self, now: Timestamp, in_flight: u64) -> Option<WindowSummary> {
        let mut window = lock(&self.window);
        if window.is_in_future(now) {
            window.restart(now);
            return None;
        }
        window.add_in_flight(f64::from(u32::try_from(in_flight).unwrap_or(u32::MAX)));
        let age = window.age(now)?;
        if window.samples() < self.config.samples_min {
            if age >= AdaptiveLimitConfig::WINDOW_MAX {
                window.restart(now);
            }
            return None;
        }
        if age < self.config.window {
            return None;
        }
        let summary = window.summary(age, self.config.samples_min);
        window.clear();
        Some(summary)
    }
}

/// A limit without its fraction.
#[expect(clippy::cast_sign_loss, reason = "a limit is at least 1")]
fn whole(limit: f64) -> u64 {
    limit as u64
}

//! The parts of a resource's answers that took longer than its signals allow.

use core::time::Duration;

use crate::fault::Fault;
use crate::places::latency::LatencySample;
use crate::sync::{AtomicU8, Mutex, Ordering, lock};

/// The counts since the last tick.
#[derive(Debug, Default)]
pub(crate) struct SlowAnswers {
    counts: Mutex<Vec<SlowCount>>,
    /// Whether a signal asks for them, so that other resources take no lock for a sample. Relaxed:
    /// a sample beside a reload may be lost.
    is_asked: AtomicU8,
}

/// The answers that took longer than one threshold, and all of them.
#[derive(Clone, Copy, Debug)]
struct SlowCount {
    slower_than: Duration,
    slow: u32,
    all: u32,
}

impl SlowAnswers {
    /// Counts for these thresholds from now on.
    pub(crate) fn reconfigure(&self, thresholds: impl Iterator<Item = Duration>) {
        let mut counts = lock(&self.counts);
        *counts = thresholds.map(|slower_than| SlowCount { slower_than, slow: 0, all: 0 }).collect();
        self.is_asked.store(u8::from(!counts.is_empty()), Ordering::Relaxed);
    }

    /// Counts an answer by the time to its first byte, or to the end of the work where that is not
    /// known. A timeout is an answer that took too long; a failure or a rejection does not count.
    pub(crate) fn add(&self, sample: LatencySample) {
        if self.is_asked.load(Ordering::Relaxed) == 0 {
            return;
        }
        let latency = match sample {
            LatencySample::Succeeded { first_byte, end } => first_byte.unwrap_or(end),
            LatencySample::TimedOut { .. } if Fault::TimeoutQuick.is_planted() => return,
            LatencySample::TimedOut { .. } => Duration::MAX,
            LatencySample::Failed | LatencySample::Rejected => return,
        };
        for count in &mut *lock(&self.counts) {
            count.all = count.all.saturating_add(1);
            count.slow = count.slow.saturating_add(u32::from(latency > count.slower_than));
        }
    }

    /// The slow part for each threshold for which there was an answer since the last call.
    pub(crate) fn take(&self) -> Vec<(Duration, f64)> {
        if self.is_asked.load(Ordering::Relaxed) == 0 {
            return Vec::new();
        }
        let mut counts = lock(&self.counts);
        let answered = counts.iter_mut().filter(|count| count.all > 0);
        answered
            .map(|count| {
                let part = f64::from(count.slow) / f64::from(count.all);
                (count.slow, count.all) = (0, 0);
                (count.slower_than, part)
            })
            .collect()
    }
}

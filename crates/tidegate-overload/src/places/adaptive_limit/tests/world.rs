//! A server with workers and a queue, behind an adaptive limit, in virtual time.

use core::time::Duration;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

use tidegate_core::Timestamp;

use crate::places::adaptive_limit::{AdaptiveLimit, LimitSample};

const TICK_NS: u64 = 100_000_000;

/// A first-in, first-out server; arrivals are an open loop, and those above the limit are rejected.
pub(super) struct World {
    pub limit: AdaptiveLimit,
    pub now_ns: u64,
    pub workers: usize,
    /// The service time, plus or minus 30 %.
    pub service_ns: u64,
    /// Arrivals a second.
    pub arrivals: f64,
    /// Every request ends after this time as a timeout.
    pub timeout_ns: Option<u64>,
    /// The samples that a second namespace, to which every other request belongs, reports in place
    /// of its own.
    pub says: Option<fn(Timestamp, LimitSample) -> LimitSample>,
    ended: u64,
    free: BinaryHeap<Reverse<u64>>,
    ends: BinaryHeap<Reverse<(u64, u64, bool)>>,
    next_arrival_ns: u64,
    next_tick_ns: u64,
    /// The numbers of requests in flight that arrivals saw in this tick: their sum and count.
    seen: (u64, u64),
    seed: u64,
}

/// The numbers of one run.
#[derive(Debug, Default)]
pub(super) struct Report {
    pub succeeded: u64,
    pub latencies_ns: Vec<u64>,
    pub limit_min: u64,
    pub limit_max: u64,
}

impl Report {
    pub(super) fn p99_ns(&mut self) -> u64 {
        self.latencies_ns.sort_unstable();
        self.latencies_ns[self.latencies_ns.len() * 99 / 100]
    }
}

impl World {
    pub(super) fn new(
        limit: AdaptiveLimit,
        workers: usize,
        service_ms: u64,
        arrivals: f64,
        seed: u64,
    ) -> Self {
        let start = 1_000_000_000_000;
        Self {
            limit,
            now_ns: start,
            workers,
            service_ns: service_ms * 1_000_000,
            arrivals,
            timeout_ns: None,
            says: None,
            ended: 0,
            free: (0..workers).map(|_| Reverse(start)).collect(),
            ends: BinaryHeap::new(),
            next_arrival_ns: start,
            next_tick_ns: start + TICK_NS,
            seen: (0, 0),
            seed: seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1,
        }
    }

    /// The successes a second that all workers can do.
    pub(super) fn capacity(&self) -> f64 {
        self.workers as f64 * 1e9 / self.service_ns as f64
    }

    pub(super) fn run(&mut self, seconds: u64) -> Report {
        let until = self.now_ns + seconds * 1_000_000_000;
        let mut report = Report { limit_min: u64::MAX, ..Report::default() };
        loop {
            let end = self.ends.peek().map_or(u64::MAX, |end| end.0.0);
            let next = end.min(self.next_arrival_ns).min(self.next_tick_ns);
            if next > until {
                self.now_ns = until;
                return report;
            }
            self.now_ns = next;
            if next == end {
                self.end_one(&mut report);
            } else if next == self.next_arrival_ns {
                self.arrive();
            } else {
                self.tick(&mut report);
            }
        }
    }

    fn end_one(&mut self, report: &mut Report) {
        let Some(Reverse((end, began, succeeded))) = self.ends.pop() else { return };
        let latency = Duration::from_nanos(end - began);
        let sample = if succeeded {
            report.succeeded += 1;
            report.latencies_ns.push(end - began);
            LimitSample::Succeeded { latency }
        } else {
            LimitSample::TimedOut { latency }
        };
        self.ended += 1;
        let (began, end) = (Timestamp::from_nanos(began), Timestamp::from_nanos(end));
        match self.says {
            Some(says) if self.ended.is_multiple_of(2) => self.limit.record(2, says(end, sample), began, end),
            _ => self.limit.record(1, sample, began, end),
        }
    }

    fn arrive(&mut self) {
        let gap = -(1.0 - self.random()).ln() / self.arrivals;
        self.next_arrival_ns = self.now_ns + 1 + (gap * 1e9) as u64;
        let in_flight = self.ends.len() as u64;
        self.seen = (self.seen.0 + in_flight, self.seen.1 + 1);
        if in_flight >= self.limit.limit() {
            return;
        }
        if let Some(timeout) = self.timeout_ns {
            self.ends.push(Reverse((self.now_ns + timeout, self.now_ns, false)));
            return;
        }
        let Reverse(free) = self.free.pop().unwrap();
        let service = self.service_ns as f64 * (0.7 + 0.6 * self.random());
        let end = free.max(self.now_ns) + service as u64;
        self.free.push(Reverse(end));
        self.ends.push(Reverse((end, self.now_ns, true)));
    }

    fn tick(&mut self, report: &mut Report) {
        let in_flight = match self.seen {
            (_, 0) => self.ends.len() as u64,
            (sum, count) => sum / count,
        };
        self.seen = (0, 0);
        let limit = self.limit.tick(Timestamp::from_nanos(self.now_ns), in_flight);
        report.limit_min = report.limit_min.min(limit);
        report.limit_max = report.limit_max.max(limit);
        self.next_tick_ns += TICK_NS;
    }

    fn random(&mut self) -> f64 {
        self.seed ^= self.seed << 13;
        self.seed ^= self.seed >> 7;
        self.seed ^= self.seed << 17;
        (self.seed >> 11) as f64 / (1u64 << 53) as f64
    }
}

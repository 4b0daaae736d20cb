//! The default algorithm: TCP Vegas on the median latency, with checks on what a ratio cannot see.
//!
//! The median, because the baseline and the sample must be the same statistic and a high percentile
//! of ten samples is their maximum. The queue inside the resource is estimated as `in flight *
//! (1 - baseline / latency)`, and kept between `3 log10(limit)` and `6 log10(limit)`.
//!
//! A ratio needs a true baseline. Each cut of the limit doubles as its measurement: if throughput
//! falls with the limit, the limit is below the knee, nothing queues, and the latency there *is*
//! the baseline; Little's law then gives the knee. If throughput stays, the queue was real. No
//! request is rejected for a probe beyond those over the lower limit.

use super::covariance::Covariance;
use super::shared_window::accounts_for_most;
use super::window::WindowSummary;

/// From this share of failures on the limit falls.
const FAILED_SHARE_MAX: f64 = 0.1;
/// With a larger share of failures than this the limit does not grow: the latency of the work that
/// succeeded is then that of the lucky part. A lower bound would let one slow endpoint among
/// hundreds hold the limit down for good.
const FAILED_SHARE_TO_GROW: f64 = 0.01;
/// With samples that account for a smaller part of the work in flight than this the limit does not
/// grow: the rest hangs, and its latency is not known yet. The samples are then those of the work
/// that does not hang.
const ACCOUNTED_TO_GROW: f64 = 0.5;
/// The part of the limit that failures leave.
const BACKOFF: f64 = 0.9;
/// The least that one cut leaves of the limit.
const CUT_MAX: f64 = 0.5;
/// The part of the limit that a probe leaves.
const PROBE: f64 = 0.7;
/// Full windows between two probes of the baseline; they cost up to 30 % of two windows in 60.
const PROBE_WINDOWS: u32 = 60;
/// A throughput below this part of the one before the cut has fallen; the noise of a median of some
/// hundred samples is about 5 %.
const FALLEN: f64 = 0.9;
/// Windows at the minimum, with a queue, after which the baseline is measured anew.
const FLOOR_WINDOWS: u32 = 3;
/// A fall of the latency by this factor makes the baseline a guess again.
const SHIFT: f64 = 1.5;

/// The state of the controller.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Vegas {
    /// The latency without a queue, in seconds.
    baseline: Option<f64>,
    /// Whether a fall of throughput has confirmed the baseline.
    verified: bool,
    /// Whether the limit doubles while nothing queues.
    slow_start: bool,
    /// The rates before the cuts that are being judged.
    cut: Option<RateBeforeCut>,
    full_windows: u32,
    floor_windows: u32,
    covariance: Covariance,
}

/// Throughput before a cut, measured in two ways whose noise is independent.
#[derive(Clone, Copy, Debug)]
struct RateBeforeCut {
    /// Successes a second.
    counted: f64,
    /// In flight / latency, by Little's law.
    derived: f64,
    /// The limit before the cut, to which a confirmed baseline returns at most.
    limit: f64,
    /// The median latency before the cut, in seconds.
    latency: f64,
}

impl Vegas {
    pub(super) fn new() -> Self {
        Self { slow_start: true, ..Self::default() }
    }

    /// The latency without a queue, in seconds, as last measured.
    pub(super) fn baseline(&self) -> Option<f64> {
        self.baseline
    }

    /// The next limit, before it is held to the bounds. `ceiling` is in seconds.
    pub(super) fn next_limit(
        &mut self,
        limit: f64,
        floor: f64,
        ceiling: Option<f64>,
        window: &WindowSummary,
    ) -> f64 {
        let next = self.follow(limit, floor, ceiling, window);
        let is_accounted_for = window.accounted_for >= ACCOUNTED_TO_GROW * window.in_flight
            || accounts_for_most(&window.namespaces, ACCOUNTED_TO_GROW);
        let may_grow = window.failed_share <= FAILED_SHARE_TO_GROW && is_accounted_for;
        if may_grow { next } else { next.min(limit) }
    }

    fn follow(&mut self, limit: f64, floor: f64, ceiling: Option<f64>, window: &WindowSummary) -> f64 {
        if window.failed_share >= FAILED_SHARE_MAX {
            self.search_again();
            return limit * BACKOFF;
        }
        let Some(latency) = window.latency else { return limit };
        let typical = window.typical_latency.unwrap_or(latency);
        if let Some(ceiling) = ceiling.filter(|ceiling| typical > *ceiling) {
            self.search_again();
            return limit * (ceiling / typical).clamp(CUT_MAX, BACKOFF);
        }
        let rate =
            RateBeforeCut { counted: window.throughput, derived: window.in_flight / latency, limit, latency };
        let baseline = *self.baseline.get_or_insert(latency);
        // Only whole requests get a place, and an arrival does not see itself: a limit of 7.9 is
        // full with 6 of them in flight on average.
        let full = window.in_flight + 0.5 >= 0.8 * limit.floor();
        if let Some(before) = self.cut
            && full
            && rate.counted < FALLEN * before.counted
            && rate.derived < FALLEN * before.derived
        {
            return self.accept_baseline(latency, limit, before);
        }
        if window.in_flight_peak * 2.0 < limit {
            // The limit binds nothing here: follow the latency both ways, and keep the limit.
            self.baseline = Some(baseline + 0.3 * (latency - baseline));
            self.cut = None;
            return limit;
        }
        if latency * SHIFT < baseline {
            // The resource got faster. The window mixes both latencies, so its rate judges no cut:
            // start from a guess, which a cut after the next window confirms.
            self.baseline = Some(latency);
            self.verified = false;
            self.slow_start = false;
            self.cut = None;
            self.covariance.clear();
            return limit;
        }
        self.lower_baseline(latency);
        self.covariance.add(window.in_flight, window.throughput, latency);
        self.full_windows += u32::from(full);
        let baseline = self.baseline.unwrap_or(latency);
        let queue = (window.in_flight * (1.0 - baseline / latency)).max(0.0);
        self.move_limit(limit, floor, queue, full.then_some(rate), latency, window)
    }

    fn move_limit(
        &mut self,
        limit: f64,
        floor: f64,
        queue: f64,
        full: Option<RateBeforeCut>,
        latency: f64,
        window: &WindowSummary,
    ) -> f64 {
        let step = limit.log10().max(1.0);
        let (queue_min, queue_max) = (3.0 * step, 6.0 * step);
        if limit <= floor && (queue > queue_max || (full.is_some() && !self.verified)) {
            return self.escape_floor(limit, latency);
        }
        self.floor_windows = 0;
        if self.full_windows >= PROBE_WINDOWS {
            self.verified = false;
        }
        if let Some(rate) = full {
            let cut = if queue > queue_max {
                self.slow_start = false;
                Some((limit - (queue - queue_min)).max(limit * CUT_MAX))
            } else if !self.verified {
                Some(limit * PROBE)
            } else if self.covariance.vetoes() {
                // The next veto needs windows of its own: the same history would cut again and
                // again, and with few samples a window drift below the knee.
                self.covariance.clear();
                Some(limit - step)
            } else {
                None
            };
            if let Some(cut) = cut {
                self.cut.get_or_insert(rate);
                return cut;
            }
        } else if queue > queue_max {
            return (limit - step).max(limit * CUT_MAX);
        }
        self.cut = None;
        if queue <= step {
            let doubles = self.slow_start && window.in_flight_peak >= 0.9 * limit;
            if doubles { limit * 2.0 } else { limit + queue_max }
        } else if queue < queue_min {
            self.slow_start = false;
            limit + step
        } else {
            self.slow_start = false;
            limit
        }
    }

    /// Takes the latency below the knee as the baseline, and returns to the knee.
    ///
    /// A rate from before a change of the latency places the knee too high, so the limit returns at
    /// most to the one before the cut, and doubles from there only if nothing queued at it.
    fn accept_baseline(&mut self, latency: f64, limit: f64, before: RateBeforeCut) -> f64 {
        let knee = before.derived * latency;
        self.slow_start &= (0.95..=1.1).contains(&(latency / before.latency));
        self.baseline = Some(latency);
        self.verified = true;
        self.full_windows = 0;
        self.cut = None;
        self.covariance.clear();
        let target = knee + 3.0 * knee.max(1.0).log10().max(1.0);
        target.min(before.limit).max(limit)
    }

    /// Follows a latency below the baseline: half of the way, against noise, or at once while the
    /// baseline is a guess.
    fn lower_baseline(&mut self, latency: f64) {
        let Some(baseline) = self.baseline.filter(|baseline| latency < *baseline) else { return };
        let gain = if self.verified { 0.5 } else { 1.0 };
        self.baseline = Some(baseline + gain * (latency - baseline));
    }

    /// At the minimum nothing can be cut: after some windows the latency there is the baseline.
    fn escape_floor(&mut self, limit: f64, latency: f64) -> f64 {
        self.floor_windows += 1;
        if self.floor_windows < FLOOR_WINDOWS {
            return limit;
        }
        self.floor_windows = 0;
        self.baseline = Some(latency);
        self.verified = true;
        self.full_windows = 0;
        self.search_again();
        limit * 2.0
    }

    fn search_again(&mut self) {
        self.slow_start = true;
        self.cut = None;
        self.covariance.clear();
    }
}

//! The demand at a holder: units a second, each counting half as much with every second that has
//! passed.

use core::time::Duration;

use crate::time::Timestamp;

/// The average demand, in integers so that it is the same on every machine.
///
/// The half-life is 2^30 nanoseconds, 1.07 s. Within one of them the decay is a parabola that has
/// the true curve's slope at its beginning and meets it at its end; it lies above it by less than
/// half a percent.
///
/// A stream that has only just begun is measured against the time since it began, once it has had a
/// few requests: otherwise the average would lag behind the obvious rate for seconds. (The
/// bias correction of exponential averages.) Once it is silent it may as well have been a few
/// requests at once, and the average counts as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Demand {
    /// Millionths of a unit a second.
    micro: u64,
    at: Timestamp,
    /// The demand that the last ask reported to the ledger, in units each period.
    told: u32,
    /// When the stream began, in milliseconds, wrapping. Of use while `seen` counts.
    born_ms: u16,
    /// Requests since then; [`SETTLED`] once it makes no difference any more.
    seen: u8,
}

/// So many requests say how many there will be.
const SEEN_MIN: u8 = 5;
/// A young stream is silent after so many times the mean distance of its requests, and at least
/// [`SILENT_MIN_MS`].
const SILENT_DISTANCES: u64 = 8;
const SILENT_MIN_MS: u64 = 100;
const SETTLED: u8 = u8::MAX;

/// When there is nothing left of what was before: after so long a stream begins anew, and is
/// settled after twice as long.
const FADED: Duration = Duration::from_secs(8);

/// The shortest time that a stream is measured against, as part of the average: an eighth, 0.2 s.
const WEIGHT_MIN: u64 = 1 << (HALF_LIFE_BITS - 3);

const HALF_LIFE_BITS: u32 = 30;

/// The rate that one unit adds, so that the average of a steady stream is its rate: the slope of
/// the decay, in millionths a second.
const UNIT: u64 = 645_533;

/// ln 2 and what the parabola is curved by (ln 2 less a half), in parts of 2^30.
const SLOPE: u64 = 744_261_118;
const CURVE: u64 = SLOPE - (1 << (HALF_LIFE_BITS - 1));

/// Beyond what any lease can give; keeps sums from wrapping.
const MICRO_MAX: u64 = 1 << 62;

impl Demand {
    /// Counts `units` asked for at `now`, by one request.
    pub(super) fn add(&mut self, units: u64, now: Timestamp) {
        if self.has_faded(now) {
            (self.micro, self.born_ms, self.seen) = (0, millis(now), 0);
        }
        if self.seen < SETTLED {
            let is_old = Duration::from_millis(self.age_ms(now).into()) > 2 * FADED;
            self.seen = if is_old { SETTLED } else { (self.seen + 1).min(SETTLED - 1) };
        }
        self.micro = self.at(now).saturating_add(units.saturating_mul(UNIT)).min(MICRO_MAX);
        self.at = self.at.max(now);
    }

    /// Continues at `now` after the clock has stepped back to it. The stream keeps its average and
    /// its age; how long the step took is unknown, so nothing decays over it.
    pub(super) fn step_back(&mut self, now: Timestamp) {
        if now < self.at {
            self.born_ms = millis(now).wrapping_sub(self.age_ms(self.at));
            self.at = now;
        }
    }

    /// Units in each `period` at the pace of `now`.
    pub(super) fn each(&self, period: Duration, now: Timestamp) -> u32 {
        let mut micro = u128::from(self.at(now));
        if (SEEN_MIN..SETTLED).contains(&self.seen) && !self.is_silent(now) {
            let one = 1 << HALF_LIFE_BITS;
            let weight = one - decayed(one, u64::from(self.age_ms(now)) * 1_000_000);
            micro = (micro << HALF_LIFE_BITS) / u128::from(weight.max(WEIGHT_MIN));
        }
        let units = micro.saturating_mul(period.as_micros()) / 1_000_000_000_000;
        u32::try_from(units).unwrap_or(u32::MAX)
    }

    /// When something was asked for last; the beginning of time if nothing was.
    pub(super) fn last(&self) -> Timestamp {
        self.at
    }

    /// Whether nothing is left of it: the next request begins a new stream.
    pub(super) fn has_faded(&self, now: Timestamp) -> bool {
        now.saturating_since(self.at) >= FADED
    }

    /// Units in `span_us` microseconds, at the pace when last counted.
    pub(super) fn parts(&self, span_us: u64) -> u64 {
        (u128::from(self.micro) * u128::from(span_us) / 1_000_000_000_000) as u64
    }

    /// Remembers that `demand` was reported to the ledger.
    pub(super) fn tell(&mut self, demand: u32) {
        self.told = demand;
    }

    /// The demand that the last ask reported to the ledger.
    pub(super) fn told(&self) -> u32 {
        self.told
    }

    /// Whether a young stream has no requests any more, as far as its first ones say.
    fn is_silent(&self, now: Timestamp) -> bool {
        let lasted_ms = u64::from(self.age_ms(self.at));
        let silent_ms = SILENT_DISTANCES * lasted_ms / u64::from(self.seen - 1);
        now.saturating_since(self.at) > Duration::from_millis(silent_ms.max(SILENT_MIN_MS))
    }

    fn age_ms(&self, now: Timestamp) -> u16 {
        millis(now).wrapping_sub(self.born_ms)
    }

    fn at(&self, now: Timestamp) -> u64 {
        decayed(self.micro, now.as_nanos().saturating_sub(self.at.as_nanos()))
    }
}

/// Milliseconds, wrapping after a minute.
fn millis(now: Timestamp) -> u16 {
    (now.as_nanos() / 1_000_000) as u16
}

/// The rest of `value` after `passed` nanoseconds of decay.
fn decayed(value: u64, passed: u64) -> u64 {
    let halves = passed >> HALF_LIFE_BITS;
    if halves >= 64 {
        return 0;
    }
    let value = value >> halves;
    let part = passed & ((1 << HALF_LIFE_BITS) - 1);
    let bent = SLOPE - ((CURVE * part) >> HALF_LIFE_BITS);
    // 2^30 twice; rounded up, so that many small steps never keep a demand alive.
    let lost = (u128::from(value) * u128::from(part * bent)).div_ceil(1 << (2 * HALF_LIFE_BITS));
    value - (lost as u64).min(value)
}

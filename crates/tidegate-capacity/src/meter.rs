//! The units that passed through one direction of a partition, counted for control loops and
//! reports. No decision reads them.

use tidegate_core::Timestamp;

use crate::levels::Share;

const NANOS: u64 = 1_000_000_000;

/// Sums since the partition was made, in thousandths; of a cut or a join their parts or sums.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Meter {
    /// Asked for by first attempts, refused ones included.
    pub(crate) offered: u64,
    /// Admitted and not given back. Negative where units came back to a part of a cut that has not
    /// admitted as many, so that the sum over a table is exact.
    pub(crate) admitted: i64,
    /// Refused by the partition's own allocation, burst credit or ceiling.
    pub(crate) throttled: u64,
    /// The part of `throttled` that the ceiling refused, which a cut of the partition raises.
    pub(crate) at_ceiling: u64,
    /// Inflow that found everything full.
    pub(crate) lost: u64,
    /// Units that were given back, or no longer had room after a change of rates, and could not be
    /// kept. The only exception to the conservation of units.
    pub(crate) overflow: u64,
    /// The second, counted from 1970, of `this_second`.
    second: u64,
    this_second: u64,
    last_second: u64,
    /// The units admitted and throttled before the current span of [`SPAN_SECONDS`], and those of
    /// the span before it.
    before_span: [u64; 2],
    last_span: [u64; 2],
}

/// The thousandths of units a second of a direction of a partition, over the last ten seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RecentUnits {
    pub(crate) consumed: u64,
    pub(crate) throttled: u64,
}

/// The time over which reports average, in seconds.
const SPAN_SECONDS: u64 = 10;

impl Meter {
    #[inline]
    pub(crate) fn admit(&mut self, cost: u64, now: Timestamp) {
        self.admitted += cost.cast_signed();
        self.roll(now);
        self.this_second += cost;
    }

    pub(crate) fn offer(&mut self, cost: u64) {
        self.offered += cost;
    }

    pub(crate) fn throttle(&mut self, cost: u64, now: Timestamp) {
        self.roll(now);
        self.throttled += cost;
    }

    /// Counts a refusal by the ceiling, beside [`Meter::throttle`].
    pub(crate) fn throttle_at_ceiling(&mut self, cost: u64) {
        self.at_ceiling += cost;
    }

    pub(crate) fn return_units(&mut self, units: u64, now: Timestamp) {
        self.admitted -= units.cast_signed();
        self.roll(now);
        self.this_second = self.this_second.saturating_sub(units);
    }

    #[inline]
    pub(crate) fn lose(&mut self, units: u64) {
        self.lost += units;
    }

    pub(crate) fn overflow(&mut self, units: u64) {
        self.overflow += units;
    }

    /// The units of the last second, the whole one before counted by the part that still lies in
    /// it.
    pub(crate) fn consumed(&self, now: Timestamp) -> u64 {
        let mut rolled = *self;
        rolled.roll(now);
        let gone = now.as_nanos() % NANOS;
        let of_last = u128::from(rolled.last_second) * u128::from(NANOS - gone) / u128::from(NANOS);
        // At most `last_second`.
        rolled.this_second + of_last as u64
    }

    /// The units a second of the last ten seconds: of the span that runs, and of the one before by
    /// the part that still lies in them. A direction that is used evenly shows what is used.
    pub(crate) fn recent(&self, now: Timestamp) -> RecentUnits {
        let mut rolled = *self;
        rolled.roll(now);
        let span = SPAN_SECONDS * NANOS;
        let left = u128::from(span - now.as_nanos() % span);
        let [consumed, throttled] = core::array::from_fn(|index| {
            let this = rolled.sums()[index].saturating_sub(rolled.before_span[index]);
            let of_last = u128::from(rolled.last_span[index]) * left / u128::from(span);
            // The part of the last span is at most the whole of it.
            this.saturating_add(of_last as u64) / SPAN_SECONDS
        });
        RecentUnits { consumed, throttled }
    }

    /// Admitted, and throttled.
    fn sums(&self) -> [u64; 2] {
        [self.admitted.max(0).unsigned_abs(), self.throttled]
    }

    #[inline]
    fn roll(&mut self, now: Timestamp) {
        let second = now.as_secs();
        if second == self.second {
            return;
        }
        let spans = [second, self.second].map(|second| second / SPAN_SECONDS);
        if spans[0] != spans[1] {
            let sums = self.sums();
            let is_next = spans[0] == spans[1] + 1;
            self.last_span = core::array::from_fn(|index| {
                if is_next { sums[index].saturating_sub(self.before_span[index]) } else { 0 }
            });
            self.before_span = sums;
        }
        self.last_second = if second == self.second + 1 { self.this_second } else { 0 };
        self.this_second = 0;
        self.second = second;
    }

    pub(crate) fn cut(self, share: Share) -> [Self; 2] {
        let part = |whole: u64| share.of(whole);
        let left = Self {
            offered: part(self.offered),
            admitted: part(self.admitted.unsigned_abs()).cast_signed() * self.admitted.signum(),
            throttled: part(self.throttled),
            at_ceiling: part(self.at_ceiling),
            lost: part(self.lost),
            overflow: part(self.overflow),
            this_second: part(self.this_second),
            last_second: part(self.last_second),
            second: self.second,
            before_span: self.before_span.map(part),
            last_span: self.last_span.map(part),
        };
        let rest = |whole: [u64; 2], left: [u64; 2]| core::array::from_fn(|index| whole[index] - left[index]);
        let right = Self {
            offered: self.offered - left.offered,
            admitted: self.admitted - left.admitted,
            throttled: self.throttled - left.throttled,
            at_ceiling: self.at_ceiling - left.at_ceiling,
            lost: self.lost - left.lost,
            overflow: self.overflow - left.overflow,
            this_second: self.this_second - left.this_second,
            last_second: self.last_second - left.last_second,
            second: self.second,
            before_span: rest(self.before_span, left.before_span),
            last_span: rest(self.last_span, left.last_span),
        };
        [left, right]
    }

    pub(crate) fn joined(mut self, mut other: Self, now: Timestamp) -> Self {
        self.roll(now);
        other.roll(now);
        Self {
            offered: self.offered + other.offered,
            admitted: self.admitted + other.admitted,
            throttled: self.throttled + other.throttled,
            at_ceiling: self.at_ceiling + other.at_ceiling,
            lost: self.lost + other.lost,
            overflow: self.overflow + other.overflow,
            this_second: self.this_second + other.this_second,
            last_second: self.last_second + other.last_second,
            second: self.second,
            before_span: core::array::from_fn(|index| self.before_span[index] + other.before_span[index]),
            last_span: core::array::from_fn(|index| self.last_span[index] + other.last_span[index]),
        }
    }
}

#[cfg(test)]
#[cfg(not(tidegate_loom))]
mod tests {
    use core::time::Duration;

    use super::*;

    const START: Timestamp = Timestamp::from_secs(1_800_000_000);

    fn after(ms: u64) -> Timestamp {
        START.saturating_add(Duration::from_millis(ms))
    }

    /// 200 units a second are admitted and 50 refused, for so many milliseconds.
    fn used(ms: u64) -> Meter {
        let mut meter = Meter::default();
        for at in (0..ms).step_by(5) {
            meter.admit(1000, after(at));
            if at % 20 == 0 {
                meter.throttle(1000, after(at));
            }
        }
        meter
    }

    #[test]
    fn even_use_shows_as_it_is_within_two_percent_at_every_instant() {
        for ms in (20_000..60_000).step_by(700) {
            let recent = used(ms).recent(after(ms));
            assert!(recent.consumed.abs_diff(200_000) <= 4_000, "{recent:?} after {ms} ms");
            assert!(recent.throttled.abs_diff(50_000) <= 1_000, "{recent:?} after {ms} ms");
        }
    }

    #[test]
    fn what_is_older_than_two_spans_is_forgotten_and_the_parts_of_a_cut_add_up() {
        let meter = used(20_000);
        assert_eq!(meter.recent(after(40_000)), RecentUnits::default());
        let [left, right] = meter.cut(Share::from_parts(1, 4));
        let [left, right] = [left, right].map(|one| one.recent(after(20_000)));
        let whole = meter.recent(after(20_000));
        assert!(whole.consumed.abs_diff(left.consumed + right.consumed) <= 2, "{left:?} {right:?}");
        assert!(left.consumed < right.consumed);
        let joined = meter.joined(meter, after(20_000)).recent(after(20_000));
        assert!(joined.consumed.abs_diff(2 * whole.consumed) <= 2, "{joined:?}");
        // A clock that stepped back shows what it can, and panics nowhere.
        let _ = meter.recent(START.saturating_sub(Duration::from_hours(1)));
    }
}

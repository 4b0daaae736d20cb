//! A short stretch of time in which the counter is believed, and what is thought of the counter
//! when it ends.

/// How long a segment lasts by the counter. No reading is further ahead of `Instant` than this.
pub(crate) const SEGMENT_NS: u64 = 64_000;

/// The span over which the speed is learned, and judged again and again.
pub(crate) const SPEED_SPAN_NS: u64 = 10_000_000;

/// How far two pairs of a sound counter may disagree, whatever lies between them. It is twice what
/// a pair may be wrong by, and as much again.
pub(crate) const NOISE_NS: u64 = 5_000;

/// The part of a span by which `Instant` and a sound counter may run apart: 0.2 %. Linux changes
/// the speed of `Instant` by up to 0.05 % in either direction.
const SPEED_TOLERANCE: u128 = 500;

/// Fraction bits of a speed.
const SPEED_BITS: u32 = 32;

/// The speeds that are believed: 20 GHz to 100 MHz. With them a whole segment takes 49 bits.
const SPEEDS: core::ops::RangeInclusive<u128> = (1 << SPEED_BITS) / 20..=10 << SPEED_BITS;

/// The counter and `Instant`, read as one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PairedReading {
    /// Ticks of the counter.
    pub(crate) ticks: u64,
    /// Nanoseconds by `Instant` since the start.
    pub(crate) ns: u64,
}

/// The stretch in which ticks are turned into nanoseconds. The default is the one before the first
/// pair, in which no tick lies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Segment {
    /// Its beginning.
    pub(crate) start: PairedReading,
    /// An earlier pair, at which the span of the speed begins.
    pub(crate) reference: PairedReading,
    /// Nanoseconds a tick, in units of 2^-32. Zero until it is known.
    pub(crate) speed: u64,
    /// Its length in ticks.
    pub(crate) length: u64,
}

/// A segment as words.
pub(crate) type SegmentWords = [u64; 6];

/// The conclusion from a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Judgement {
    /// The segment stays in force.
    Holds,
    /// This one follows it.
    Next(Segment),
    /// The counter has jumped, stopped or changed its speed.
    Distrusted,
}

impl Segment {
    /// The segment of these words.
    #[inline]
    pub(crate) fn from_words(
        [ticks, ns, speed, length, reference_ticks, reference_ns]: SegmentWords,
    ) -> Self {
        Self {
            start: PairedReading { ticks, ns },
            reference: PairedReading { ticks: reference_ticks, ns: reference_ns },
            speed,
            length,
        }
    }

    /// Its words, as threads share them.
    pub(crate) fn to_words(self) -> SegmentWords {
        let Self { start, reference, speed, length } = self;
        [start.ticks, start.ns, speed, length, reference.ticks, reference.ns]
    }

    /// The time by the counter, if `ticks` lies in the segment.
    #[inline]
    pub(crate) fn elapsed_ns(&self, ticks: u64) -> Option<u64> {
        // A counter that is behind the start wraps around, and is out of the segment as well.
        let ticks = ticks.wrapping_sub(self.start.ticks);
        (ticks < self.length).then(|| self.start.ns.saturating_add((ticks * self.speed) >> SPEED_BITS))
    }

    /// Compares the counter with `Instant`, since the start of the segment and over a longer span.
    pub(crate) fn judge(&self, pair: PairedReading) -> Judgement {
        if self.speed == 0 {
            return self.learn_speed(pair);
        }
        if !self.foresees(self.start, pair) || !self.foresees(self.reference, pair) {
            return Judgement::Distrusted;
        }
        // A pair before the start is of a thread that was slower than the one that began it.
        if pair.ns <= self.start.ns || self.elapsed_ns(pair.ticks).is_some() {
            return Judgement::Holds;
        }
        let is_judged = pair.ns - self.reference.ns >= SPEED_SPAN_NS;
        let reference = if is_judged { pair } else { self.reference };
        Judgement::Next(Self { start: pair, reference, ..*self })
    }

    fn learn_speed(&self, pair: PairedReading) -> Judgement {
        if self.reference == PairedReading::default() {
            return Judgement::Next(Self { reference: pair, ..Self::default() });
        }
        let span_ns = pair.ns.saturating_sub(self.reference.ns);
        if span_ns < SPEED_SPAN_NS {
            return Judgement::Holds;
        }
        let ticks = u128::from(pair.ticks.saturating_sub(self.reference.ticks));
        match (u128::from(span_ns) << SPEED_BITS).checked_div(ticks) {
            Some(speed) if SPEEDS.contains(&speed) => {
                let speed = speed as u64;
                let length = (SEGMENT_NS << SPEED_BITS) / speed;
                Judgement::Next(Self { start: pair, reference: pair, speed, length })
            }
            _ => Judgement::Distrusted,
        }
    }

    /// Whether the counter says of the span between two pairs what `Instant` says.
    fn foresees(&self, from: PairedReading, to: PairedReading) -> bool {
        // Neither overflows: a speed has 36 bits.
        let ticks = i128::from(to.ticks) - i128::from(from.ticks);
        let foreseen_ns = (ticks * i128::from(self.speed)) >> SPEED_BITS;
        let span_ns = i128::from(to.ns) - i128::from(from.ns);
        span_ns.abs_diff(foreseen_ns) <= u128::from(NOISE_NS) + span_ns.unsigned_abs() / SPEED_TOLERANCE
    }
}

#[cfg(test)]
#[cfg(not(tidegate_loom))]
mod tests {
    use super::*;

    #[test]
    fn a_pair_from_before_the_start_changes_nothing() {
        let start = PairedReading { ticks: 2_600_000, ns: 20_000_000 };
        let segment = Segment { start, reference: start, speed: (10 << SPEED_BITS) / 26, length: 166_400 };
        let earlier = PairedReading { ticks: start.ticks - 260, ns: start.ns - 100 };
        assert_eq!(segment.judge(earlier), Judgement::Holds);
        let later = PairedReading { ticks: start.ticks + 260_000, ns: start.ns + 100_000 };
        assert_eq!(segment.judge(later), Judgement::Next(Segment { start: later, ..segment }));
    }
}

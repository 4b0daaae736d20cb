//! The numbers of a limit that the script needs, as bytes, and the reading of its answers.
//!
//! Two limits are the same numbers if and only if their bytes are: the script compares them to see
//! whether a counter was counted by others. Values that follow from the numbers and take arithmetic
//! that a script does not have, such as a ratio of 120 bits, are computed here once and sent along.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tidegate_core::algorithm::{
    AlgorithmError, Bucket, Calendar, CivilUnit, Counter, Fixed, REPORT_DEBT_LIMITS, SlidingCounter, State,
    WindowStart,
};
use tidegate_core::rate::gcd;
use tidegate_core::ring::RING_DEBT_LIMITS;
use tidegate_core::{Algorithm, Cost, Timestamp};
use tidegate_store::{Kind, Operation, StoreError};

use crate::bytes::Writer;
use crate::ledger;

/// The largest limit, with the debt a check may add, that is counted: 2^46 units. With the debt
/// that reports may add it stays below 2^53, up to which the script counts exactly.
pub const LIMIT_MAX: u64 = 1 << 46;

/// The shortest window opened by the first hit: a millisecond. Shorter ones begin at instants finer
/// than the script tells.
pub const FIRST_HIT_WINDOW_MIN: Duration = Duration::from_millis(1);

/// How many limits are known at once. One more and all are forgotten; those that matter are soon
/// known again.
const KNOWN_MAX: usize = 1 << 12;

/// How the three numbers of a state make the word of [`State`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// Two halves of 32 bits. A unit is so many ticks.
    Ticks { unit: u64 },
    /// A window, and a count of so many bits.
    Count { bits: u32 },
    /// A window, and two counts of so many bits each.
    Counts { bits: u32 },
    /// No word: units used, and when none will be.
    Usage,
}

impl Shape {
    /// The word of a state that the script tells as these numbers, which are whole and not
    /// negative.
    pub(crate) fn state(self, numbers: [f64; 3]) -> State {
        let [a, b, c] = numbers.map(whole);
        State::from_bits(match self {
            Self::Ticks { .. } => a << 32 | b,
            Self::Count { bits } => a << bits | b,
            Self::Counts { bits } => (a << bits | b) << bits | c,
            Self::Usage => 0,
        })
    }
}

/// A number of the script as an integer; what is negative is 0, what is too large saturates.
#[expect(clippy::cast_sign_loss, reason = "the cast saturates at 0, which is what is wanted")]
pub(crate) fn whole(number: f64) -> u64 {
    number as u64
}

/// A count as the script counts: at most 2^53 - 1, the last up to which it is exact.
#[expect(clippy::cast_precision_loss, reason = "bounded by what a double holds exactly")]
pub(crate) fn count(units: u64) -> f64 {
    units.min((1 << 53) - 1) as f64
}

/// One limit as the script knows it.
#[derive(Debug)]
pub(crate) struct Numbers {
    pub(crate) spec: Box<[u8]>,
    pub(crate) shape: Shape,
    pub(crate) windows: Option<Windows>,
}

impl Numbers {
    /// The numbers of `algorithm` that the script needs, or the missing ability.
    pub(crate) fn from_algorithm(algorithm: &Algorithm) -> Result<Self, String> {
        let mut spec = Writer::default();
        let mut windows = None;
        let limit = algorithm.largest_cost();
        if limit > LIMIT_MAX {
            return Err(format!(
                "limits above {LIMIT_MAX} units (this one has {limit}); count in larger units"
            ));
        }
        let limit = count(algorithm.limit());
        let shape = match algorithm {
            Algorithm::Bucket(bucket) => write_bucket(bucket, &mut spec),
            Algorithm::Fixed(fixed) => {
                let bits = count_bits(&Fixed::new(u64::MAX, fixed.window(), fixed.start()));
                let shift = match fixed.start() {
                    WindowStart::Epoch => -1,
                    WindowStart::FirstHit if fixed.window() < FIRST_HIT_WINDOW_MIN => {
                        return Err("windows of less than a millisecond that the first hit opens".to_owned());
                    }
                    // The first hit is rounded up to the largest power of two that is at most a
                    // thousandth of the window: 125/2^shift steps a microsecond.
                    WindowStart::FirstHit => (nanos(fixed.window()) / 1000).ilog2() as i8 - 3,
                };
                spec.byte(2).double(limit).double(micros(fixed.window())?);
                spec.double(count_max(fixed.limit(), bits)).byte(shift.cast_unsigned());
                Shape::Count { bits }
            }
            Algorithm::Calendar(calendar) => {
                let bits = count_bits(&Calendar::new(u64::MAX, calendar.unit(), calendar.zone()));
                let twin =
                    Calendar::new(1, calendar.unit(), calendar.zone()).map_err(|error| error.to_string())?;
                windows = Some(Windows::new(twin.with_week_start(calendar.week_start()), bits));
                spec.byte(3)
                    .double(limit)
                    .double(count_max(calendar.limit(), bits))
                    .byte(calendar.unit() as u8);
                spec.byte(calendar.week_start() as u8).bytes(calendar.zone().as_bytes());
                Shape::Count { bits }
            }
            Algorithm::SlidingCounter(counter) => {
                let bits = count_bits(&SlidingCounter::new(u64::MAX, counter.window()));
                spec.byte(4).double(limit).double(micros(counter.window())?);
                spec.double(count_max(counter.limit(), bits)).double(count((1 << bits) - 1));
                Shape::Counts { bits }
            }
            Algorithm::Rolling(rolling) => {
                spec.byte(5).double(limit).double(micros(rolling.window())?);
                spec.double(count(rolling.limit() * (1 + RING_DEBT_LIMITS)));
                Shape::Usage
            }
            Algorithm::Concurrency(concurrency) => {
                spec.byte(6).double(limit).double(micros(concurrency.hold())?);
                Shape::Usage
            }
            other => return Err(format!("{} limits", other.name())),
        };
        Ok(Self { spec: spec.into_bytes().into(), shape, windows })
    }

    /// `cost` in ticks, for buckets; 0 for others.
    pub(crate) fn ticks(&self, cost: Cost) -> u64 {
        match self.shape {
            Shape::Ticks { unit } => cost.units().saturating_mul(unit),
            _ => 0,
        }
    }
}

fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

/// A span in microseconds, in which the server's clock counts.
pub(crate) fn micros(span: Duration) -> Result<f64, String> {
    let nanos = nanos(span);
    if nanos.is_multiple_of(1000) {
        return Ok(count(nanos / 1000));
    }
    Err(format!("spans that are no whole number of microseconds ({nanos} ns)"))
}

/// How many bits a window leaves to count with, from the error that names the largest limit.
pub(crate) fn count_bits<T>(made: &Result<T, AlgorithmError>) -> u32 {
    match made {
        Err(AlgorithmError::LimitTooLarge { largest, .. }) => largest.count_ones(),
        // No window counts to the end of 64 bits.
        _ => 0,
    }
}

/// The most that is counted: what reports may add, or what the bits hold.
fn count_max(limit: u64, bits: u32) -> f64 {
    count(limit.saturating_mul(1 + REPORT_DEBT_LIMITS).min((1 << bits) - 1))
}

fn write_bucket(bucket: &Bucket, spec: &mut Writer) -> Shape {
    let rate = bucket.rate();
    let divisor = gcd(rate.units().into(), rate.per_ns().into()) as u64;
    let (units, per_ns) = (rate.units() / divisor, rate.per_ns() / divisor);
    // At the instant 0 the state after a charge of one unit is the ticks of one unit.
    let unit = bucket.decide(State::EMPTY, Cost::ONE, Timestamp::MIN).1.to_bits();
    let ticks_per_us = 1000 * u128::from(units) * u128::from(unit);
    let ticks = |units: u64| units.saturating_mul(unit);
    let (full, overdrawn) = (ticks(bucket.burst()), ticks(bucket.burst().saturating_add(bucket.debt())));
    let deepest = full.saturating_add(full.saturating_mul(REPORT_DEBT_LIMITS)).max(overdrawn);

    spec.byte(1).long(rate.units()).long(rate.per_ns());
    spec.double(count(bucket.burst())).double(count(bucket.debt()));
    #[expect(
        clippy::cast_precision_loss,
        reason = "says only for how long a counter is kept, with a margin"
    )]
    spec.double(ticks_per_us as f64 / per_ns as f64);
    // With at most four units a span the clock makes a whole number of ticks a nanosecond.
    let ticks_are_whole = units <= 4;
    spec.short(if ticks_are_whole { 1000 * units as u16 } else { 0 });
    let multiplier = if ticks_are_whole { 0 } else { multiplier(ticks_per_us, per_ns) };
    for digit in 0..5 {
        spec.int((multiplier >> (24 * digit)) as u32 & 0xff_ffff);
    }
    for ticks in [unit, full, overdrawn, deepest] {
        spec.long(ticks);
    }
    Shape::Ticks { unit }
}

/// The ratio times 2^108, rounded up. Below 2^120, since a clock makes at most 4000 ticks a
/// microsecond.
fn multiplier(numerator: u128, denominator: u64) -> u128 {
    let by = u128::from(denominator);
    let whole = numerator / by;
    // In two steps, since a remainder below 2^55 moved by 108 bits would not fit.
    let rest = (numerator % by) << 64;
    let upper = rest / by;
    let rest = (rest % by) << 44;
    (whole << 108) + (upper << 44) + rest.div_ceil(by)
}

/// The civil windows around an instant, as the script is told them.
#[derive(Debug)]
pub(crate) struct Windows {
    /// A calendar with the same windows and a limit of 1.
    twin: Calendar,
    bits: u32,
    /// The windows that were encoded last, and the span of instants for which they are valid.
    told: Mutex<(Timestamp, Timestamp, Arc<[u8]>)>,
}

impl Windows {
    pub(crate) fn new(twin: Calendar, bits: u32) -> Self {
        let nothing: Arc<[u8]> = Arc::new([]);
        Self { twin, bits, told: Mutex::new((Timestamp::MIN, Timestamp::MIN, nothing)) }
    }

    /// The windows around `now`: for each its number, its begin and its end in microseconds. At
    /// least the one before, and one after.
    pub(crate) fn around(&self, now: Timestamp) -> Arc<[u8]> {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if told.0 <= now && now < told.1 {
            return Arc::clone(&told.2);
        }
        let length = match self.twin.unit() {
            CivilUnit::Month => Duration::from_hours(31 * 24),
            CivilUnit::Year => Duration::from_hours(366 * 24),
            // Two hours, for the one that is repeated when clocks are set back.
            CivilUnit::Hour => Duration::from_hours(2),
            CivilUnit::Minute => Duration::from_mins(2),
            // An hour more, where clocks are set back.
            unit => unit.nominal() + Duration::from_hours(1),
        };
        let last = now.saturating_add(length);
        let mut from = now.saturating_sub(length * 2);
        let mut bytes = Writer::default();
        let mut current = (Timestamp::MIN, Timestamp::MIN);
        // Where the first one began is not known; every later one begins where another has ended.
        let mut first = from > Timestamp::MIN;
        while from <= last {
            let state = self.twin.charge(State::EMPTY, Cost::ONE, from);
            let ends = self.twin.reset_at(state, from);
            if ends <= from {
                break;
            }
            if !first {
                let number = state.to_bits() >> self.bits;
                bytes.double(count(number)).double(to_micros(from)).double(to_micros(ends));
                if from <= now && now < ends {
                    current = (from, ends);
                }
            }
            (first, from) = (false, ends);
        }
        *told = (current.0, current.1, bytes.into_bytes().into());
        Arc::clone(&told.2)
    }
}

/// An instant as the script tells it: microseconds, rounded up, and from 2^53 - 1 on never.
pub(crate) fn to_micros(instant: Timestamp) -> f64 {
    count(instant.as_nanos().div_ceil(1000))
}

/// An instant that the script told.
pub(crate) fn from_micros(micros: f64) -> Timestamp {
    match whole(micros) {
        never if never >= (1 << 53) - 1 => Timestamp::MAX,
        micros => Timestamp::from_nanos(micros.saturating_mul(1000)),
    }
}

/// The numbers of limits, each worked out once: by algorithm, and by the lease period of ledgers.
#[derive(Debug, Default)]
pub(crate) struct Known {
    /// Those of counters have no lease period.
    numbers: Mutex<HashMap<Option<Duration>, ByAlgorithm>>,
}

type ByAlgorithm = HashMap<Algorithm, Arc<Numbers>>;

impl Known {
    /// The numbers by which an operation is decided.
    pub(crate) fn of(&self, operation: &Operation) -> Result<Arc<Numbers>, StoreError> {
        match operation.kind {
            Kind::Ledger(_) => {
                let period = operation.lease_period;
                let make = |algorithm: &Algorithm| ledger::numbers(algorithm, period);
                self.find(Some(period), &operation.algorithm, make)
            }
            _ => self.of_counter(&operation.algorithm),
        }
    }

    /// The numbers by which a counter is decided.
    pub(crate) fn of_counter(&self, algorithm: &Algorithm) -> Result<Arc<Numbers>, StoreError> {
        self.find(None, algorithm, Numbers::from_algorithm)
    }

    fn find(
        &self,
        lease_period: Option<Duration>,
        algorithm: &Algorithm,
        make: impl FnOnce(&Algorithm) -> Result<Numbers, String>,
    ) -> Result<Arc<Numbers>, StoreError> {
        let mut known = self.numbers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(numbers) = known.get(&lease_period).and_then(|known| known.get(algorithm)) {
            return Ok(Arc::clone(numbers));
        }
        let numbers = make(algorithm).map_err(|what| StoreError::Unsupported { what })?;
        let numbers = Arc::new(numbers);
        if known.values().map(HashMap::len).sum::<usize>() >= KNOWN_MAX {
            known.clear();
        }
        known.entry(lease_period).or_default().insert(algorithm.clone(), Arc::clone(&numbers));
        Ok(numbers)
    }
}

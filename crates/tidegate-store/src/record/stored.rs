//! A record as bytes, for stores that keep it beyond the process.
//!
//! Written by hand, so that what stands on a disk changes only when somebody changes it here: a
//! number of the layout, the algorithm with its numbers, what is used, the block, and the batch
//! that began it. Integers are seven bits a byte, the lowest first. Whatever is read is checked:
//! bytes that no record wrote are an error, never a panic and never more memory than they are long.

use core::time::Duration;
use std::collections::HashMap;
use std::sync::Arc;

use tidegate_core::algorithm::{
    Bucket, Calendar, CivilUnit, Concurrency, Fixed, Rolling, SlidingCounter, State, Weekday, WindowStart,
};
use tidegate_core::lease::{Ledger, Terms};
use tidegate_core::{Algorithm, Rate, Timestamp};

use super::permit_set::PermitSet;
use super::unit_log::UnitLog;
use super::{KeyBlock, Record, Usage};
use crate::{HolderId, RequestId};

/// The layout of a counter.
const LAYOUT: u8 = 1;

/// The layout of a ledger: the same, but for what is used, which stands there as the ledger's own
/// bytes after their length.
const LEDGER_LAYOUT: u8 = 2;

/// The layout of a bucket or of permits that knows when its latest charge was: the layout of a
/// counter, and the instant. Those that are older have the layout of a counter.
const CHARGED_LAYOUT: u8 = 3;

/// The layout of a counter whose key was blocked for a length that is known: that of a counter, the
/// instant of the latest charge, 0 where none is known, and the length in nanoseconds. Blocks that
/// are older have one of the layouts above.
const BLOCKED_LAYOUT: u8 = 4;

/// The layouts of records that this version reads, in any store that keeps records as bytes.
pub const RECORD_LAYOUTS: [u8; 4] = [LAYOUT, LEDGER_LAYOUT, CHARGED_LAYOUT, BLOCKED_LAYOUT];

/// Bytes that are no record of this version.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{bytes} bytes are no counter: {what}; the store is damaged or was written by another program")]
pub struct Unreadable {
    /// How many bytes there are.
    bytes: usize,
    /// The defect of the bytes.
    what: &'static str,
}

/// Numbers that were read before, so that counters of one limit share them and a time zone is
/// looked up once.
#[derive(Debug)]
pub(crate) struct Numbers {
    known: HashMap<Box<[u8]>, Arc<Algorithm>, ahash::RandomState>,
}

impl Numbers {
    /// How many are known at once. One more and all are forgotten, since there are as many as
    /// limits and overrides, and those that matter are soon known again.
    const KNOWN_MAX: usize = 1 << 12;

    pub(crate) fn new(seed: [u64; 4]) -> Self {
        let hasher = ahash::RandomState::with_seeds(seed[3], !seed[1], seed[0], !seed[2]);
        Self { known: HashMap::with_hasher(hasher) }
    }

    /// The same numbers as everybody's who has them.
    fn shared(&mut self, algorithm: &Arc<Algorithm>) -> Arc<Algorithm> {
        let mut bytes = Vec::with_capacity(64);
        write_algorithm(algorithm, &mut Writer(&mut bytes));
        let known = self.known.get(&bytes[..]).map(Arc::clone);
        known.unwrap_or_else(|| self.keep(&bytes, Arc::clone(algorithm)))
    }

    fn read(&mut self, bytes: &[u8]) -> Result<Arc<Algorithm>, &'static str> {
        if let Some(known) = self.known.get(bytes) {
            return Ok(Arc::clone(known));
        }
        let algorithm = algorithm(&mut Reader(bytes)).ok_or("numbers of no limit")?;
        Ok(self.keep(bytes, Arc::new(algorithm)))
    }

    fn keep(&mut self, bytes: &[u8], algorithm: Arc<Algorithm>) -> Arc<Algorithm> {
        if self.known.len() >= Self::KNOWN_MAX {
            self.known.clear();
        }
        self.known.insert(bytes.into(), Arc::clone(&algorithm));
        algorithm
    }
}

impl Record {
    /// Has it share its numbers with all others that have the same: there are as many of those as
    /// limits, and records as keys.
    pub(crate) fn share_numbers(&mut self, numbers: &mut Numbers) {
        self.algorithm = numbers.shared(&self.algorithm);
    }

    /// Writes it to the end of `bytes`.
    pub(crate) fn write(&self, bytes: &mut Vec<u8>) {
        let mut writer = Writer(bytes);
        let is_charged = self.charged_at > Timestamp::MIN;
        let layout = match self.usage {
            Usage::Ledger(_) => LEDGER_LAYOUT,
            _ if self.block.known_length().is_some() => BLOCKED_LAYOUT,
            _ if is_charged => CHARGED_LAYOUT,
            _ => LAYOUT,
        };
        writer.byte(layout);
        // One byte for the length: the longest is a calendar with the name of a zone.
        let length = writer.0.len();
        writer.byte(0);
        write_algorithm(&self.algorithm, &mut writer);
        let written = writer.0.len() - length - 1;
        writer.0[length] = u8::try_from(written).expect("a few numbers and the name of a time zone");
        match &self.usage {
            Usage::Word(state) => writer.0.extend_from_slice(&state.to_bits().to_le_bytes()),
            Usage::Units(log) => {
                let (before, entries) = log.parts();
                writer.number(before);
                writer.number(entries.len() as u64);
                let (mut last_at, mut last_through) = (0, before);
                for (at, through) in entries {
                    writer.number(at.as_nanos() - last_at);
                    writer.number(through.wrapping_sub(last_through));
                    (last_at, last_through) = (at.as_nanos(), through);
                }
            }
            Usage::Permits(permits) => {
                let permits = permits.parts();
                writer.number(permits.len() as u64);
                for (holder, expires, by) in permits {
                    writer.wide(holder.0);
                    writer.number(expires.as_nanos());
                    writer.wide(by.0);
                }
            }
            Usage::Ledger(ledger) => {
                let ledger = ledger.to_bytes();
                writer.number(ledger.len() as u64);
                writer.0.extend_from_slice(&ledger);
            }
        }
        writer.number(self.block.until().as_nanos());
        writer.wide(self.origin.0);
        if [CHARGED_LAYOUT, BLOCKED_LAYOUT].contains(&layout) {
            writer.number(self.charged_at.as_nanos());
        }
        if let (BLOCKED_LAYOUT, Some(length)) = (layout, self.block.known_length()) {
            // At most 366 days.
            writer.number(length.as_nanos() as u64);
        }
    }

    /// The record that wrote these bytes.
    pub(crate) fn read(bytes: &[u8], numbers: &mut Numbers) -> Result<Self, Unreadable> {
        Self::read_with(bytes, numbers).map_err(|what| Unreadable { bytes: bytes.len(), what })
    }

    fn read_with(bytes: &[u8], numbers: &mut Numbers) -> Result<Self, &'static str> {
        const SHORT: &str = "they end too early";
        let mut reader = Reader(bytes);
        let layout = reader.byte().ok_or(SHORT)?;
        if !RECORD_LAYOUTS.contains(&layout) {
            return Err("they are of a layout this version does not know");
        }
        let length = reader.byte().ok_or(SHORT)?;
        let algorithm = numbers.read(reader.bytes(usize::from(length)).ok_or(SHORT)?)?;
        let usage = match &*algorithm {
            lent if layout == LEDGER_LAYOUT => {
                let terms = Terms::from_algorithm(lent, Timestamp::MIN);
                let terms = terms.map_err(|_| "a ledger of a limit that cannot be leased")?;
                let ledger = reader.ledger().ok_or("no ledger where one should be")?;
                terms.with_period(ledger.period()).map_err(|_| "a ledger of a lease period out of range")?;
                Usage::Ledger(ledger)
            }
            Algorithm::Rolling(_) => {
                Usage::Units(reader.log().ok_or("instants out of order or out of bounds")?)
            }
            Algorithm::Concurrency(_) => {
                Usage::Permits(reader.permits().ok_or("permits out of order or out of bounds")?)
            }
            _ => Usage::Word(State::from_bits(u64::from_le_bytes(reader.array().ok_or(SHORT)?))),
        };
        let blocked_until = Timestamp::from_nanos(reader.number().ok_or(SHORT)?);
        let origin = RequestId(reader.wide().ok_or(SHORT)?);
        let mut charged_at = Timestamp::MIN;
        let mut length = None;
        if [CHARGED_LAYOUT, BLOCKED_LAYOUT].contains(&layout) {
            charged_at = Timestamp::from_nanos(reader.number().ok_or(SHORT)?);
            let has_one = matches!(*algorithm, Algorithm::Bucket(_) | Algorithm::Concurrency(_));
            let is_known = charged_at > Timestamp::MIN;
            if is_known && !has_one || !is_known && layout == CHARGED_LAYOUT {
                return Err("an instant of a charge where none is kept");
            }
        }
        if layout == BLOCKED_LAYOUT {
            length = Some(Duration::from_nanos(reader.number().ok_or(SHORT)?));
        }
        let block = KeyBlock::stored(blocked_until, length).ok_or("a block of a length that none has")?;
        if reader.0.is_empty() {
            Ok(Self { algorithm, usage, block, origin, charged_at })
        } else {
            Err("they go on after the end")
        }
    }
}

fn write_algorithm(algorithm: &Algorithm, writer: &mut Writer<'_>) {
    let nanos = |span: Duration| span.as_nanos() as u64;
    match algorithm {
        Algorithm::Bucket(bucket) => {
            writer.byte(1);
            for number in [bucket.rate().units(), bucket.rate().per_ns(), bucket.burst(), bucket.debt()] {
                writer.number(number);
            }
        }
        Algorithm::Fixed(fixed) => {
            let start = match fixed.start() {
                WindowStart::Epoch => 2,
                WindowStart::FirstHit => 3,
            };
            writer.limit(start, fixed.limit(), nanos(fixed.window()));
        }
        Algorithm::Calendar(calendar) => {
            let unit = match calendar.unit() {
                CivilUnit::Minute => 0,
                CivilUnit::Hour => 1,
                CivilUnit::Day => 2,
                CivilUnit::Week => 3,
                CivilUnit::Month => 4,
                CivilUnit::Year => 5,
            };
            let day = WEEK.iter().position(|day| *day == calendar.week_start());
            writer.limit(4, calendar.limit(), unit);
            writer.byte(day.expect("a day of the week") as u8);
            writer.0.extend_from_slice(calendar.zone().as_bytes());
        }
        Algorithm::SlidingCounter(counter) => writer.limit(5, counter.limit(), nanos(counter.window())),
        Algorithm::Rolling(rolling) => writer.limit(6, rolling.limit(), nanos(rolling.window())),
        Algorithm::Concurrency(permits) => writer.limit(7, permits.limit(), nanos(permits.hold())),
        // `Record::supports` names those above, and only their records are made.
        other => unreachable!("a record of {} limits", other.name()),
    }
}

/// In the order they are numbered.
const WEEK: [Weekday; 7] = [
    Weekday::Monday,
    Weekday::Tuesday,
    Weekday::Wednesday,
    Weekday::Thursday,
    Weekday::Friday,
    Weekday::Saturday,
    Weekday::Sunday,
];

fn algorithm(reader: &mut Reader<'_>) -> Option<Algorithm> {
    let which = reader.byte()?;
    let first = reader.number()?;
    let second = reader.number()?;
    let span = Duration::from_nanos(second);
    let algorithm = match which {
        1 => {
            let (burst, debt) = (reader.number()?, reader.number()?);
            let bucket = Bucket::new(Rate::new(first, span).ok()?, burst).ok()?;
            Algorithm::Bucket(bucket.with_debt(debt).ok()?)
        }
        2 => Algorithm::Fixed(Fixed::new(first, span, WindowStart::Epoch).ok()?),
        3 => Algorithm::Fixed(Fixed::new(first, span, WindowStart::FirstHit).ok()?),
        4 => {
            let unit = match second {
                0 => CivilUnit::Minute,
                1 => CivilUnit::Hour,
                2 => CivilUnit::Day,
                3 => CivilUnit::Week,
                4 => CivilUnit::Month,
                5 => CivilUnit::Year,
                _ => return None,
            };
            let day = *WEEK.get(usize::from(reader.byte()?))?;
            let zone = str::from_utf8(core::mem::take(&mut reader.0)).ok()?;
            Algorithm::Calendar(Calendar::new(first, unit, zone).ok()?.with_week_start(day))
        }
        5 => Algorithm::SlidingCounter(SlidingCounter::new(first, span).ok()?),
        6 => Algorithm::Rolling(Rolling::new(first, span).ok()?),
        7 => Algorithm::Concurrency(Concurrency::new(first, span).ok()?),
        _ => return None,
    };
    reader.0.is_empty().then_some(algorithm)
}

struct Writer<'a>(&'a mut Vec<u8>);

impl Writer<'_> {
    fn byte(&mut self, byte: u8) {
        self.0.push(byte);
    }

    fn number(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.byte(number as u8 | 0x80);
            number >>= 7;
        }
        self.byte(number as u8);
    }

    fn wide(&mut self, number: u128) {
        self.0.extend_from_slice(&number.to_le_bytes());
    }

    fn limit(&mut self, which: u8, limit: u64, span: u64) {
        self.byte(which);
        self.number(limit);
        self.number(span);
    }
}

/// The bytes that are left to read; `None` from its methods means too few bytes, or a number that
/// does not fit.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(bytes)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.bytes(N)?.try_into().ok()
    }

    fn byte(&mut self) -> Option<u8> {
        self.array().map(|[byte]| byte)
    }

    fn number(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..u64::BITS).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if (bits << shift) >> shift != bits {
                return None;
            }
            number |= bits << shift;
            if byte & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }

    fn wide(&mut self) -> Option<u128> {
        self.array().map(u128::from_le_bytes)
    }

    fn log(&mut self) -> Option<UnitLog> {
        let before = self.number()?;
        let count = self.count(2)?;
        let (mut at, mut through) = (0u64, before);
        let mut entries = Vec::with_capacity(count);
        for _ in 0..count {
            at = at.checked_add(self.number()?)?;
            through = through.wrapping_add(self.number()?);
            entries.push((Timestamp::from_nanos(at), through));
        }
        UnitLog::from_parts(before, entries)
    }

    fn ledger(&mut self) -> Option<Box<Ledger>> {
        let length = self.count(1)?;
        Ledger::from_bytes(self.bytes(length)?).ok().map(Box::new)
    }

    fn permits(&mut self) -> Option<PermitSet> {
        let count = self.count(33)?;
        let mut permits = Vec::with_capacity(count);
        for _ in 0..count {
            let holder = HolderId(self.wide()?);
            let expires = Timestamp::from_nanos(self.number()?);
            permits.push((holder, expires, RequestId(self.wide()?)));
        }
        PermitSet::from_parts(permits)
    }

    /// How many things of at least `size` bytes follow: never more than there are bytes for.
    fn count(&mut self, size: usize) -> Option<usize> {
        let count = usize::try_from(self.number()?).ok()?;
        (count <= self.0.len() / size).then_some(count)
    }
}

#[cfg(test)]
#[cfg(not(tidegate_loom))]
mod tests;

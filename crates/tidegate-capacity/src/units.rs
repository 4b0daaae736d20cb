//! Capacity units: the weight of reads and writes.
//!
//! Counted in thousandths, because an eventually consistent read of 4 KiB weighs half a unit. The
//! sizes of a unit are those of `DynamoDB`.

use core::fmt;
use core::ops::{Add, Sub};
use core::time::Duration;

/// An amount of capacity in thousandths of a unit; negative where it is a debt.
///
/// Range: that of `i64`. Arithmetic saturates.
///
/// ```
/// # use tidegate_capacity::Units;
/// assert_eq!(Units::from_thousandths(1_500).to_string(), "1.5");
/// assert_eq!(Units::whole(3).as_thousandths(), 3_000);
/// // A debt leaves no whole units.
/// assert_eq!(Units::from_thousandths(-250).whole_left(), 0);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Units(i64);

impl Units {
    /// Nothing.
    pub const ZERO: Self = Self(0);
    /// The most one request can weigh, whatever its table allows: a write of [`WRITE_BYTES_MAX`] in
    /// a transaction. A partition that still has any units left admits it all the same, and then
    /// refuses until the debt is repaid.
    pub const LARGEST_REQUEST: Self = Self::whole(800);

    /// The units a second of so many in `elapsed`, a second or more; none for less than none.
    pub(crate) fn per_second(self, elapsed: Duration) -> Self {
        let millis = i128::try_from(elapsed.as_millis()).unwrap_or(i128::MAX).max(1);
        // At most the units, as a second has passed.
        Self((i128::from(self.0.max(0)) * 1000 / millis) as i64)
    }

    /// `thousandths` of a unit.
    pub const fn from_thousandths(thousandths: i64) -> Self {
        Self(thousandths)
    }

    /// `units` whole units; saturates at 9.2 * 10^15.
    pub const fn whole(units: u64) -> Self {
        let thousandths = units.saturating_mul(1000);
        Self(if thousandths > i64::MAX as u64 { i64::MAX } else { thousandths.cast_signed() })
    }

    /// A rate or an amount in thousandths that is not negative; saturates.
    pub(crate) const fn from_rate(thousandths: u64) -> Self {
        Self(if thousandths > i64::MAX as u64 { i64::MAX } else { thousandths.cast_signed() })
    }

    /// The amount in thousandths of a unit.
    pub const fn as_thousandths(self) -> i64 {
        self.0
    }

    /// Units with their thousandths; exact up to 2^53 thousandths.
    #[expect(clippy::cast_precision_loss, reason = "9 * 10^12 units are more than any sum of tables")]
    pub const fn as_f64(self) -> f64 {
        self.0 as f64 / 1000.0
    }

    /// Whole units, rounded down; 0 for a debt.
    pub const fn whole_left(self) -> u64 {
        if self.0 < 0 { 0 } else { self.0.cast_unsigned() / 1000 }
    }
}

/// Saturates.
impl Add for Units {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

/// Saturates.
impl Sub for Units {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl fmt::Display for Units {
    /// `12`, `0.5`, `-3.25`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, part) = (self.0.unsigned_abs() / 1000, self.0.unsigned_abs() % 1000);
        let sign = if self.0 < 0 { "-" } else { "" };
        if part == 0 {
            write!(f, "{sign}{whole}")
        } else {
            write!(f, "{sign}{whole}.{}", format!("{part:03}").trim_end_matches('0'))
        }
    }
}

/// Bytes that one unit of reading covers.
pub const READ_UNIT_BYTES: u64 = 4096;
/// Bytes that one unit of writing covers.
pub const WRITE_UNIT_BYTES: u64 = 1024;
/// The most bytes one read may return, unless its table allows others: one page of 1 MiB.
pub const READ_BYTES_MAX: u64 = 1 << 20;
/// The most bytes one write may carry, unless its table allows others: one item of 400 KiB.
pub const WRITE_BYTES_MAX: u64 = 400 << 10;

/// `size` bytes in blocks of `block`, a started block counted whole; nothing counts as one byte.
pub(crate) const fn blocks(size: u64, block: u64) -> u64 {
    if size == 0 { 1 } else { size.div_ceil(block) }
}

#[cfg(test)]
#[cfg(not(tidegate_loom))]
mod tests {
    use super::*;

    #[test]
    fn a_started_block_counts_whole_and_nothing_counts_as_one_byte() {
        assert_eq!([0, 1, 4096, 4097, 8192].map(|size| blocks(size, READ_UNIT_BYTES)), [1, 1, 1, 2, 2]);
        assert_eq!(blocks(WRITE_BYTES_MAX, WRITE_UNIT_BYTES), 400);
        assert_eq!(blocks(u64::MAX, 1), u64::MAX);
    }

    #[test]
    fn units_read_as_decimals() {
        assert_eq!(Units::whole(12).to_string(), "12");
        assert_eq!(Units::from_thousandths(500).to_string(), "0.5");
        assert_eq!(Units::from_thousandths(-3_250).to_string(), "-3.25");
        assert_eq!(Units::from_thousandths(-1).to_string(), "-0.001");
        assert_eq!(Units::whole(u64::MAX), Units::from_thousandths(i64::MAX));
        assert_eq!(Units::from_thousandths(i64::MIN).whole_left(), 0);
        assert_eq!(Units::from_thousandths(1_999).whole_left(), 1);
    }
}

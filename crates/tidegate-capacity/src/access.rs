//! The access of a request to a table, and its weight in capacity units.

use tidegate_core::AccessOperation;

use crate::error::CapacityError;
use crate::units::{READ_UNIT_BYTES, Units, WRITE_UNIT_BYTES, blocks};

/// One read or write of one key, or one read of many.
///
/// ```
/// # use tidegate_capacity::{Access, AccessKind, ReadConsistency, Units};
/// assert_eq!(Access::write("orders", b"order-7", 1_500).units()?, Units::whole(2));
/// let read = Access::read("orders", b"order-7", 4_096);
/// assert_eq!(read.units()?, Units::from_thousandths(500));
/// let kind = AccessKind::Read { consistency: ReadConsistency::Strong };
/// assert_eq!(Access { kind, ..read }.units()?, Units::whole(1));
/// # Ok::<(), tidegate_capacity::CapacityError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access<'a> {
    /// The name of the table.
    pub table: &'a str,
    /// The key, of a scan the first one; it decides the partition. Any bytes up to
    /// [`Access::KEY_BYTES_MAX`], or an empty key.
    pub key: &'a [u8],
    /// Read or write, and how.
    pub kind: AccessKind,
    /// Bytes read or written. 0 weighs as 1; at most as many as the table allows, see
    /// [`crate::TableConfig::read_bytes_max`]. For a read whose size is not known yet this is an
    /// estimate, which [`crate::Capacity::settle`] replaces by the true weight.
    pub size: u64,
    /// The entries of indexes that a write changes; empty for a write that changes none. `None`: an
    /// entry in each index of the table, with the key and the size of the write. Without meaning
    /// for a read.
    pub index_writes: Option<&'a [IndexWrite<'a>]>,
    /// Whether the same request has tried before. A repeated attempt is decided like any other, but
    /// its units do not count as demand a second time.
    pub is_repeated: bool,
}

impl<'a> Access<'a> {
    /// The longest key: partition key and sort key of `DynamoDB` together.
    pub const KEY_BYTES_MAX: usize = 2048 + 1024;

    /// An access of `size` bytes.
    pub const fn new(table: &'a str, key: &'a [u8], kind: AccessKind, size: u64) -> Self {
        Self { table, key, kind, size, index_writes: None, is_repeated: false }
    }

    /// An eventually consistent read of `size` bytes.
    pub const fn read(table: &'a str, key: &'a [u8], size: u64) -> Self {
        Self::new(table, key, AccessKind::Read { consistency: ReadConsistency::Eventual }, size)
    }

    /// An eventually consistent read of many keys, of `size` bytes together, from `key` on.
    pub const fn scan(table: &'a str, key: &'a [u8], size: u64) -> Self {
        Self::new(table, key, AccessKind::Scan { consistency: ReadConsistency::Eventual }, size)
    }

    /// A write of `size` bytes.
    pub const fn write(table: &'a str, key: &'a [u8], size: u64) -> Self {
        Self::new(table, key, AccessKind::Write, size)
    }

    /// Changes only these entries of indexes, or none.
    #[must_use]
    pub const fn index_writes(mut self, writes: &'a [IndexWrite<'a>]) -> Self {
        self.index_writes = Some(writes);
        self
    }

    /// Marks it as a repeated attempt, or as a first one.
    #[must_use]
    pub const fn repeated(mut self, is_repeated: bool) -> Self {
        self.is_repeated = is_repeated;
        self
    }

    /// The weight of the access. Fails when it is above [`Units::LARGEST_REQUEST`], and when its
    /// key is too long. A table may allow less.
    pub fn units(&self) -> Result<Units, CapacityError> {
        self.check_key()?;
        self.kind.units(self.size)
    }

    /// Fails when the key is too long.
    #[inline]
    pub(crate) const fn check_key(&self) -> Result<(), CapacityError> {
        if self.key.len() > Self::KEY_BYTES_MAX {
            return Err(CapacityError::KeyTooLong { bytes: self.key.len() });
        }
        Ok(())
    }
}

/// An entry of an index that a write changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexWrite<'a> {
    /// The name of the index, without that of its table.
    pub index: &'a str,
    /// The key of the entry in the index; it decides the partition of the index.
    pub key: &'a [u8],
    /// Bytes written to the index. 0 weighs as 1.
    pub size: u64,
}

/// Read or write. Each has throughput of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum AccessKind {
    /// A read: one unit for every [`READ_UNIT_BYTES`], times the factor of its consistency.
    Read {
        /// The consistency that the reader requires.
        consistency: ReadConsistency,
    },
    /// A read of many keys in their order, or by a query: weighed by the size of all that is read
    /// together, as a read of one key is. It is located by its first key, whichever partitions the
    /// others lie in; of a partition that mostly scans ask for no cut is proposed.
    Scan {
        /// The consistency that the reader requires.
        consistency: ReadConsistency,
    },
    /// A write: one unit for every [`WRITE_UNIT_BYTES`].
    Write,
    /// A write in a transaction: two units for every [`WRITE_UNIT_BYTES`].
    TransactionalWrite,
}

/// The consistency that a reader requires.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ReadConsistency {
    /// A recent value: half a unit for every block.
    #[default]
    Eventual,
    /// The last value: one unit for every block.
    Strong,
    /// The last value, in a transaction: two units for every block.
    Transactional,
}

impl AccessKind {
    /// The weight of `size` bytes. Fails when it is above [`Units::LARGEST_REQUEST`].
    pub fn units(self, size: u64) -> Result<Units, CapacityError> {
        let bytes_max = self.bytes_heaviest();
        if size > bytes_max {
            let operation = self.operation();
            return Err(CapacityError::TooHeavy { operation, bytes: size, bytes_max });
        }
        let (block, thousandths) = self.block();
        // At most the largest request: nowhere near overflow.
        Ok(Units::from_thousandths(blocks(size, block).cast_signed() * thousandths))
    }

    /// The bytes of a block and the thousandths of a unit that it weighs.
    const fn block(self) -> (u64, i64) {
        match self {
            Self::Read { consistency } | Self::Scan { consistency } => {
                let thousandths = match consistency {
                    ReadConsistency::Eventual => 500,
                    ReadConsistency::Strong => 1000,
                    ReadConsistency::Transactional => 2000,
                };
                (READ_UNIT_BYTES, thousandths)
            }
            Self::Write => (WRITE_UNIT_BYTES, 1000),
            Self::TransactionalWrite => (WRITE_UNIT_BYTES, 2000),
        }
    }

    /// The bytes that weigh [`Units::LARGEST_REQUEST`].
    const fn bytes_heaviest(self) -> u64 {
        let (block, thousandths) = self.block();
        (Units::LARGEST_REQUEST.as_thousandths() / thousandths).cast_unsigned() * block
    }

    /// Read or write.
    pub const fn operation(self) -> AccessOperation {
        operation_of(self.is_read())
    }

    /// Whether only the leader of a group may serve it.
    pub(crate) const fn needs_leader(self) -> bool {
        !matches!(
            self,
            Self::Read { consistency: ReadConsistency::Eventual }
                | Self::Scan { consistency: ReadConsistency::Eventual }
        )
    }

    pub(crate) const fn is_read(self) -> bool {
        matches!(self, Self::Read { .. } | Self::Scan { .. })
    }
}

pub(crate) const fn operation_of(is_read: bool) -> AccessOperation {
    if is_read { AccessOperation::Read } else { AccessOperation::Write }
}

/// The true weight of an access, as a caller reports it after the work, for
/// [`crate::Capacity::settle`].
///
/// Fails when it is negative or above [`Units::LARGEST_REQUEST`], which no access weighs.
pub fn true_units(thousandths: i64) -> Result<Units, CapacityError> {
    let units = Units::from_thousandths(thousandths);
    if units < Units::ZERO || units > Units::LARGEST_REQUEST {
        return Err(CapacityError::TrueUnits { units });
    }
    Ok(units)
}

#[cfg(test)]
#[cfg(not(tidegate_loom))]
mod tests {
    use super::*;
    use crate::table_config::TableConfig;
    use crate::units::{READ_BYTES_MAX, WRITE_BYTES_MAX};

    #[test]
    fn keys_that_are_too_long_and_weights_that_no_access_has_are_errors() {
        let key = [0; Access::KEY_BYTES_MAX + 1];
        assert!(Access::read("t", &key[1..], 1).units().is_ok());
        let error = Access::read("t", &key, 1).units().unwrap_err().to_string();
        assert_eq!(error, "a key of 3073 bytes is longer than one may be; use at most 3072 bytes");
        assert_eq!(true_units(40_000), Ok(Units::whole(40)));
        assert_eq!(true_units(800_000), Ok(Units::LARGEST_REQUEST));
        for thousandths in [-1, 800_001, i64::MIN, i64::MAX] {
            assert!(matches!(true_units(thousandths), Err(CapacityError::TrueUnits { .. })));
        }
        let error = true_units(-500).unwrap_err().to_string();
        assert_eq!(error, "an access cannot weigh -0.5 units; use 0 to 800");
    }

    #[test]
    fn what_an_access_weighs_is_what_dynamodb_charges() {
        let read = |consistency, size| AccessKind::Read { consistency }.units(size).unwrap().as_thousandths();
        assert_eq!(read(ReadConsistency::Eventual, 0), 500);
        assert_eq!(read(ReadConsistency::Eventual, 4096), 500);
        assert_eq!(read(ReadConsistency::Eventual, 4097), 1000);
        assert_eq!(read(ReadConsistency::Strong, 400 << 10), 100_000);
        assert_eq!(read(ReadConsistency::Transactional, 1), 2000);
        // A scan weighs what it reads together, up to a page.
        let scan = |consistency, size| AccessKind::Scan { consistency }.units(size).unwrap().as_thousandths();
        assert_eq!(scan(ReadConsistency::Eventual, 40 << 10), 5000);
        assert_eq!(scan(ReadConsistency::Strong, READ_BYTES_MAX), 256_000);
        assert_eq!(AccessKind::Write.units(1).unwrap(), Units::whole(1));
        assert_eq!(AccessKind::Write.units(1025).unwrap(), Units::whole(2));
        assert_eq!(AccessKind::Write.units(WRITE_BYTES_MAX).unwrap(), Units::whole(400));
        assert_eq!(AccessKind::TransactionalWrite.units(WRITE_BYTES_MAX).unwrap(), Units::LARGEST_REQUEST);
    }

    #[test]
    fn no_request_weighs_more_than_the_largest_and_one_that_would_says_so() {
        let read = |consistency| AccessKind::Read { consistency };
        for (kind, bytes_max) in [
            (read(ReadConsistency::Eventual), 6400 << 10),
            (read(ReadConsistency::Strong), 3200 << 10),
            (read(ReadConsistency::Transactional), 1600 << 10),
            (AccessKind::Write, 800 << 10),
            (AccessKind::TransactionalWrite, WRITE_BYTES_MAX),
        ] {
            assert_eq!(kind.units(bytes_max), Ok(Units::LARGEST_REQUEST));
            let highest = if kind.is_read() {
                TableConfig::READ_BYTES_HIGHEST
            } else {
                TableConfig::WRITE_BYTES_HIGHEST
            };
            assert!(bytes_max <= highest);
            for size in [bytes_max + 1, u64::MAX] {
                let error = kind.units(size).unwrap_err().to_string();
                assert!(error.ends_with(&format!("send at most {bytes_max} bytes at a time")), "{error}");
            }
        }
        let error = AccessKind::TransactionalWrite.units(WRITE_BYTES_MAX + 1).unwrap_err();
        let expected =
            "a write of 409601 bytes weighs more than 800 units; send at most 409600 bytes at a time";
        assert_eq!(error.to_string(), expected);
    }
}

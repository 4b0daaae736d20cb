//! A ledger as bytes, for stores that keep records whole.
//!
//! The first byte is the number of the layout. Numbers follow, seven bits a byte, the lowest first.
//! Whatever is read is checked: bytes that no ledger wrote are an error, and never more memory than
//! they are long.

use super::leases::Leases;
use super::{Lease, Ledger};
use crate::lease::message::HolderName;
use crate::lease::{HOLDERS_MAX, NUMBER_MAX};

/// The layout that is written, and the only one there has been.
const LAYOUT: u8 = 1;

/// Bytes that are no ledger of this version.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{bytes} bytes are no lease record: {what}; the store is damaged or was written by another version")]
pub struct Unreadable {
    /// How many bytes there are.
    bytes: usize,
    /// The problem with them.
    what: &'static str,
}

impl Ledger {
    /// The most bytes a ledger takes: 10 for each of ten numbers and a byte, and 92 a holder.
    pub const BYTES_MAX: usize = 101 + 92 * HOLDERS_MAX;

    /// The ledger as bytes, at most [`Ledger::BYTES_MAX`].
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = vec![LAYOUT];
        for number in [
            self.epoch.into(),
            self.used,
            self.rest,
            self.dust,
            self.per_us,
            self.period_us,
            self.at_us,
            self.end_us,
            self.spent.into(),
            self.crowded_us,
        ] {
            write(&mut bytes, number);
        }
        for lease in self.leases.iter() {
            for number in [
                lease.holder.member,
                lease.holder.incarnation.into(),
                lease.seq.into(),
                lease.demand.into(),
                lease.held.into(),
                lease.lump.into(),
                lease.rate.into(),
                lease.until_us,
                lease.prior_rate.into(),
                lease.prior_until_us,
                lease.since_us,
                lease.returned.into(),
                lease.unused.into(),
                lease.spent.into(),
            ] {
                write(&mut bytes, number);
            }
        }
        bytes
    }

    /// The ledger that wrote `bytes`.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, Unreadable> {
        read(bytes).map_err(|what| Unreadable { bytes: bytes.len(), what })
    }
}

fn read(bytes: &[u8]) -> Result<Ledger, &'static str> {
    let Some((&LAYOUT, rest)) = bytes.split_first() else {
        return Err("the layout is not 1");
    };
    let mut reader = Reader(rest);
    let mut ledger = Ledger {
        epoch: reader.small()?,
        used: reader.number()?,
        rest: reader.number()?,
        dust: reader.number()?,
        per_us: reader.number()?,
        period_us: reader.number()?,
        at_us: reader.number()?,
        end_us: reader.number()?,
        spent: reader.small()?,
        crowded_us: reader.number()?,
        leases: Leases::default(),
    };
    if ledger.per_us == 0 || ledger.period_us == 0 || ledger.rest >= ledger.per_us {
        return Err("a remainder of nothing");
    }
    while !reader.0.is_empty() {
        let lease = Lease {
            holder: HolderName { member: reader.any()?, incarnation: reader.small()? },
            seq: reader.small()?,
            demand: reader.small()?,
            held: reader.small()?,
            lump: reader.small()?,
            rate: reader.small()?,
            until_us: reader.number()?,
            prior_rate: reader.small()?,
            prior_until_us: reader.number()?,
            since_us: reader.number()?,
            returned: reader.small()?,
            unused: reader.small()?,
            spent: reader.small()?,
        };
        if ledger.leases.last().is_some_and(|last| last.holder >= lease.holder) {
            return Err("holders out of order");
        }
        if ledger.leases.len() >= HOLDERS_MAX {
            return Err("more holders than there can be");
        }
        ledger.leases.push(lease);
    }
    Ok(ledger)
}

fn write(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn any(&mut self) -> Result<u64, &'static str> {
        let mut number = 0_u64;
        for shift in (0..u64::BITS).step_by(7) {
            let (&byte, rest) = self.0.split_first().ok_or("it ends too early")?;
            self.0 = rest;
            let bits = u64::from(byte & 0x7f);
            if bits << shift >> shift != bits {
                break;
            }
            number |= bits << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err("a number is too large")
    }

    /// A number that every store can count.
    fn number(&mut self) -> Result<u64, &'static str> {
        self.any()
            .and_then(|number| if number > NUMBER_MAX { Err("a number is too large") } else { Ok(number) })
    }

    fn small(&mut self) -> Result<u32, &'static str> {
        self.any().and_then(|number| u32::try_from(number).map_err(|_| "a number is too large"))
    }
}

//! A flood of keys that never come again, against a table that is too small for them.
//!
//! The table must stay within its bytes, and a key that had used up its quota before must still be
//! refused after.

use std::time::Duration;

use tidegate_core::algorithm::Bucket;
use tidegate_core::{
    Algorithm, Cost, Decision, Gate, Limit, Rate, Reason, TableConfig, Timestamp, UnreadRefusal,
};

use crate::calls::gate;
use crate::machine::resident_bytes;
use crate::workload::{SEED, START};

/// The growth of the process that is allowed beyond the bytes of the table: stacks, the locks of
/// newcomers, and memory that the allocator keeps.
pub const SLACK_BYTES: u64 = 4 << 20;

/// How hard the flood is.
#[derive(Clone, Copy, Debug)]
pub struct Flood {
    /// Bytes of the table.
    pub table_bytes: usize,
    /// Unique keys in a second of the table's time.
    pub keys_a_second: u64,
    /// Seconds of the table's time.
    pub seconds: u64,
    /// How long one key's charge matters.
    pub drain: Duration,
}

impl Flood {
    /// A million unique keys a second for a minute against 64 MiB, each of which matters for ten
    /// seconds: ten million at a time, for a table of three million.
    pub const FULL: Self =
        Self { table_bytes: 64 << 20, keys_a_second: 1_000_000, seconds: 60, drain: Duration::from_secs(10) };
}

/// The result of the flood.
#[derive(Clone, Copy, Debug)]
pub struct Flooded {
    /// Keys admitted.
    pub admitted: u64,
    /// Keys refused because the table was full.
    pub table_full: u64,
    /// Bytes of the process before the table was made.
    pub bytes_before: u64,
    /// Bytes of the process after the flood.
    pub bytes_after: u64,
    /// Whether every key with a used-up quota was still refused, for that quota, after the flood.
    pub is_quota_kept: bool,
    /// Keys refused for any other reason; always 0.
    pub otherwise: u64,
}

impl Flooded {
    /// Whether everything held that must hold.
    pub fn holds(&self, flood: &Flood) -> bool {
        self.is_within(flood) && self.is_quota_kept && self.otherwise == 0
    }

    /// Whether the process grew by no more than the table's bytes and the slack.
    pub fn is_within(&self, flood: &Flood) -> bool {
        self.bytes_after.saturating_sub(self.bytes_before) <= flood.table_bytes as u64 + SLACK_BYTES
    }
}

/// How many customers have used up their quotas before the flood.
const CUSTOMERS: u64 = 1_000;
/// The limit of a customer for an hour.
const QUOTA: u64 = 5;

/// Floods a table.
pub fn flood(flood: &Flood) -> Flooded {
    let bytes_before = resident_bytes();
    let one_each = Rate::new(1, flood.drain).expect("one in ten seconds is a rate");
    let hourly = Rate::per_hour(QUOTA).expect("five an hour is a rate");
    let bucket = |rate, burst| Algorithm::Bucket(Bucket::new(rate, burst).expect("fits 366 days"));
    let limits = [
        Limit::new("per-visitor", bucket(one_each, 1)).key(["visitor"]),
        Limit::new("quota", bucket(hourly, QUOTA)).key(["customer"]),
    ];
    let mut table = TableConfig::seeded(SEED);
    table.bytes = flood.table_bytes;
    let gate = gate(limits, table);
    for number in 0..CUSTOMERS {
        while customer(&gate, number, START).is_none() {}
    }
    let (mut admitted, mut table_full, mut otherwise) = (0, 0, 0);
    for number in 0..flood.keys_a_second * flood.seconds {
        let elapsed = u128::from(number) * 1_000_000_000 / u128::from(flood.keys_a_second);
        let now = START.saturating_add(Duration::from_nanos(elapsed as u64));
        let name = Name::from_number(number);
        match gate.check(&[("visitor", name.as_str())], Cost::ONE, now) {
            Decision::Admit(_) => admitted += 1,
            Decision::Refuse(refusal) if refusal.reason() == Reason::TableFull => table_full += 1,
            Decision::Refuse(_) => otherwise += 1,
        }
    }
    let after = START.saturating_add(Duration::from_secs(flood.seconds));
    let is_quota_kept =
        (0..CUSTOMERS).all(|number| customer(&gate, number, after) == Some(Reason::QuotaExceeded));
    Flooded { admitted, table_full, bytes_before, bytes_after: resident_bytes(), is_quota_kept, otherwise }
}

/// Why a customer is refused; `None` if it is not.
fn customer(gate: &Gate, number: u64, now: Timestamp) -> Option<Reason> {
    let name = Name::from_number(number);
    gate.check(&[("customer", name.as_str())], Cost::ONE, now).unread_refusal().map(UnreadRefusal::reason)
}

/// A number as 20 digits, made without allocating.
struct Name([u8; 20]);

impl Name {
    fn from_number(mut number: u64) -> Self {
        let mut digits = [b'0'; 20];
        for digit in digits.iter_mut().rev() {
            *digit += (number % 10) as u8;
            number /= 10;
        }
        Self(digits)
    }

    fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).expect("digits are text")
    }
}

/// The flood as lines for people.
pub fn describe(flood: &Flood, flooded: &Flooded) -> String {
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    let grown = flooded.bytes_after.saturating_sub(flooded.bytes_before);
    format!(
        "- {} unique keys a second for {} s against {:.0} MiB\n\
         - process: {:.1} MiB before, {:.1} MiB after: {:.1} MiB more, of {:.1} allowed (the table and {:.0} of slack)\n\
         - admitted {}, refused as `table_full` {}, refused otherwise {}\n\
         - {CUSTOMERS} customers that had used up an hourly quota before: {}\n",
        flood.keys_a_second,
        flood.seconds,
        mib(flood.table_bytes as u64),
        mib(flooded.bytes_before),
        mib(flooded.bytes_after),
        mib(grown),
        mib(flood.table_bytes as u64 + SLACK_BYTES),
        mib(SLACK_BYTES),
        flooded.admitted,
        flooded.table_full,
        flooded.otherwise,
        if flooded.is_quota_kept { "all still refused after" } else { "NOT all refused after" },
    )
}

#[cfg(test)]
mod tests {
    use super::Name;

    #[test]
    fn a_name_is_its_number() {
        assert_eq!(Name::from_number(1_234).as_str(), "00000000000000001234");
    }
}

//! The ten workloads that designs are compared on.

use serde::{Serialize, Serializer};

use crate::capacity::demand::{Demand, Pattern, Phase};

/// A workload of facts about partitioned stores: each is a pattern that users of such stores
/// report trouble with, or one that must cause none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Workload {
    /// All keys alike.
    Uniform,
    /// Zipf's law with exponent 0.99, keys hashed.
    Zipf,
    /// Zipf's law with exponent 1.2, keys hashed, two of the top three in one partition.
    SteepZipf,
    /// Zipf's law with exponent 0.99, hot keys next to each other.
    ContiguousZipf,
    /// A hot partition that changes.
    MovingPartition,
    /// A step from 30 to 90 %.
    Step,
    /// A spike beyond the table's throughput.
    Spike,
    /// A spike of skew.
    SkewSpike,
    /// One key with half of all requests.
    OneKey,
    /// Keys inserted in order.
    Sequential,
}

/// Units a second of the table, unscaled.
pub(crate) const TABLE_UNITS: f64 = 16_000.0;
const KEYS: u32 = 20_000;

impl Workload {
    /// All of them, in order.
    pub const ALL: [Self; 10] = [
        Self::Uniform,
        Self::Zipf,
        Self::SteepZipf,
        Self::ContiguousZipf,
        Self::MovingPartition,
        Self::Step,
        Self::Spike,
        Self::SkewSpike,
        Self::OneKey,
        Self::Sequential,
    ];

    /// `W1` to `W10`.
    pub const fn id(self) -> &'static str {
        ["W1", "W2", "W3", "W4", "W5", "W6", "W7", "W8", "W9", "W10"][self as usize]
    }

    /// A few words for titles.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Uniform => "uniform",
            Self::Zipf => "Zipf 0.99, hashed keys",
            Self::SteepZipf => "Zipf 1.2, hashed keys",
            Self::ContiguousZipf => "Zipf 0.99, hot keys contiguous",
            Self::MovingPartition => "a hot partition that moves",
            Self::Step => "a step from 30 % to 90 %",
            Self::Spike => "a spike to 145 %",
            Self::SkewSpike => "a spike of skew",
            Self::OneKey => "one key with half of the requests",
            Self::Sequential => "inserts in key order",
        }
    }

    /// A sentence that describes it.
    pub const fn description(self) -> &'static str {
        match self {
            Self::Uniform => "80 % of the table's throughput is asked for, all keys alike.",
            Self::Zipf => {
                "80 % of the table's throughput is asked for. The key of rank k is asked for in proportion to \
                 k^-0.99; hashing scatters the keys over the partitions."
            }
            Self::SteepZipf => {
                "80 % of the table's throughput is asked for, in proportion to k^-1.2. The first and the third key \
                 share a partition, which is asked for more than its ceiling; neither key alone is."
            }
            Self::ContiguousZipf => {
                "80 % of the table's throughput is asked for, in proportion to k^-0.99. Keys are partitioned in \
                 their order, and the hot ones are neighbours: the first partition gets most of the requests."
            }
            Self::MovingPartition => {
                "80 % of the table's throughput is asked for, 18 % of it for the keys of one partition. Another \
                 partition is hot every 60 s in the first half of the run, every 10 s in the second."
            }
            Self::Step => {
                "30 % of the table's throughput is asked for in the first third, 90 % afterwards, in proportion to \
                 k^-0.99 over hashed keys."
            }
            Self::Spike => {
                "10 % of the table's throughput is asked for; in the middle third 145 %, all keys alike. The middle \
                 third exceeds what the table has and is not counted as throttling below its throughput."
            }
            Self::SkewSpike => {
                "40 % of the table's throughput is asked for, all keys alike; in the middle third 80 %, in \
                 proportion to k^-1.2. The first and the third key share a partition."
            }
            Self::OneKey => {
                "60 % of the table's throughput is asked for, half of it for a single key. No cut helps that key: \
                 the part of it beyond the ceiling of one partition is lost in every design."
            }
            Self::Sequential => {
                "50 % of the table's throughput is asked for as writes, four fifths of them new keys in their order, \
                 which pass through the partitions one after the other, each in a minute. No cut helps the tail."
            }
        }
    }

    /// Whether keys are partitioned in their order instead of by hash.
    pub(crate) const fn is_ordered(self) -> bool {
        matches!(self, Self::ContiguousZipf | Self::Sequential)
    }

    /// Whether requests are writes.
    pub(crate) const fn is_write(self) -> bool {
        matches!(self, Self::Sequential)
    }

    /// Whether the first and the third key must share a partition.
    pub(crate) const fn shares_top_keys(self) -> bool {
        matches!(self, Self::SteepZipf | Self::SkewSpike)
    }

    /// Its demand over `seconds` seconds, with rates divided by `divisor`.
    pub(crate) fn demand(self, seconds: u32, divisor: u32) -> Demand {
        let seconds = f64::from(seconds);
        let phase = |from: f64, percent: f64, pattern| Phase {
            from: from * seconds,
            units_per_second: TABLE_UNITS * percent / 100.0 / f64::from(divisor),
            pattern,
        };
        let zipf = Pattern::Zipf { exponent: 0.99 };
        let steep = Pattern::Zipf { exponent: 1.2 };
        let (first, second) = (1.0 / 3.0, 2.0 / 3.0);
        let phases = match self {
            Self::Uniform => vec![phase(0.0, 80.0, Pattern::Uniform)],
            Self::Zipf | Self::ContiguousZipf => vec![phase(0.0, 80.0, zipf)],
            Self::SteepZipf => vec![phase(0.0, 80.0, steep)],
            Self::MovingPartition => vec![
                phase(0.0, 80.0, Pattern::HotPartition { percent: 18, every: 60 }),
                phase(0.5, 80.0, Pattern::HotPartition { percent: 18, every: 10 }),
            ],
            Self::Step => vec![phase(0.0, 30.0, zipf), phase(first, 90.0, zipf)],
            Self::Spike => vec![
                phase(0.0, 10.0, Pattern::Uniform),
                phase(first, 145.0, Pattern::Uniform),
                phase(second, 10.0, Pattern::Uniform),
            ],
            Self::SkewSpike => vec![
                phase(0.0, 40.0, Pattern::Uniform),
                phase(first, 80.0, steep),
                phase(second, 40.0, Pattern::Uniform),
            ],
            Self::OneKey => vec![phase(0.0, 60.0, Pattern::OneKey { percent: 50 })],
            Self::Sequential => vec![phase(0.0, 50.0, Pattern::Tail { percent: 80 })],
        };
        Demand { keys: KEYS, units: 1, phases }
    }

    /// When the time begins after which little must be throttled soon, in seconds: its trouble, or
    /// the end of a spike beyond the table's throughput.
    pub(crate) fn onset(self, seconds: u32) -> u32 {
        match self {
            Self::Step | Self::SkewSpike => seconds / 3,
            Self::Spike => (2 * seconds).div_ceil(3),
            _ => 0,
        }
    }
}

impl Serialize for Workload {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.id())
    }
}

//! The ten workloads that designs are compared on.

use core::slice::from_ref;

use clap::ValueEnum;
use tidegate_sim::capacity::{
    CapacityScenario, Demand, Design, NodeSpec, Pattern, TableRole, TableSpec, WorkloadNote,
};

use super::scenario_parts::{names, phase, steady, table};

/// A workload of facts about partitioned stores: each is a pattern that users of such stores
/// report trouble with, or one that must cause none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, ValueEnum)]
pub enum Workload {
    /// Uniform.
    #[value(name = "W1")]
    Uniform,
    /// Zipf 0.99, hashed keys.
    #[value(name = "W2")]
    Zipf,
    /// Zipf 1.2, hashed keys, two hot ones in one partition.
    #[value(name = "W3")]
    SteepZipf,
    /// Zipf 0.99, hot keys contiguous.
    #[value(name = "W4")]
    ContiguousZipf,
    /// A hot partition that moves.
    #[value(name = "W5")]
    MovingPartition,
    /// A step from 30 % to 90 %.
    #[value(name = "W6")]
    Step,
    /// A spike to 145 %.
    #[value(name = "W7")]
    Spike,
    /// A spike of skew.
    #[value(name = "W8")]
    SkewSpike,
    /// One key with half of the requests.
    #[value(name = "W9")]
    OneKey,
    /// Inserts in key order.
    #[value(name = "W10")]
    Sequential,
}

/// Units a second of the table, unscaled.
pub(crate) const TABLE_UNITS: f64 = 16_000.0;
const KEYS: u32 = 20_000;

/// The notes of all workloads, in order. The reference values are the throttled shares in percent
/// that the specification computed for full rates over 900 s; W7 has none for static shares.
static NOTES: [WorkloadNote; Workload::ALL.len()] = [
    WorkloadNote {
        id: "W1",
        title: "uniform",
        description: "80 % of the table's throughput is asked for, all keys alike.",
        reference_percents: [0.0, 0.0, 0.0, 0.02, 0.02, 0.02],
    },
    WorkloadNote {
        id: "W2",
        title: "Zipf 0.99, hashed keys",
        description: "80 % of the table's throughput is asked for. The key of rank k is asked for in proportion to \
            k^-0.99; hashing scatters the keys over the partitions.",
        reference_percents: [14.6, 9.4, 3.5, 0.02, 0.02, 0.02],
    },
    WorkloadNote {
        id: "W3",
        title: "Zipf 1.2, hashed keys",
        description: "80 % of the table's throughput is asked for, in proportion to k^-1.2. The first and the third key \
            share a partition, which is asked for more than its ceiling; neither key alone is.",
        reference_percents: [31.8, 26.6, 18.3, 4.4, 4.4, 0.12],
    },
    WorkloadNote {
        id: "W4",
        title: "Zipf 0.99, hot keys contiguous",
        description: "80 % of the table's throughput is asked for, in proportion to k^-0.99. Keys are partitioned in \
            their order, and the hot ones are neighbours: the first partition gets most of the requests.",
        reference_percents: [64.7, 62.1, 57.4, 49.1, 49.1, 2.0],
    },
    WorkloadNote {
        id: "W5",
        title: "a hot partition that moves",
        description: "80 % of the table's throughput is asked for, 18 % of it for the keys of one partition. Another \
            partition is hot every 60 s in the first half of the run, every 10 s in the second.",
        reference_percents: [15.3, 0.0, 0.0, 0.02, 0.02, 0.02],
    },
    WorkloadNote {
        id: "W6",
        title: "a step from 30 % to 90 %",
        description: "30 % of the table's throughput is asked for in the first third, 90 % afterwards, in proportion to \
            k^-0.99 over hashed keys.",
        reference_percents: [14.0, 8.0, 4.1, 0.03, 0.03, 0.03],
    },
    WorkloadNote {
        id: "W7",
        title: "a spike to 145 %",
        description: "10 % of the table's throughput is asked for; in the middle third 145 %, all keys alike. The middle \
            third exceeds what the table has and is not counted as throttling below its throughput.",
        reference_percents: [-1.0, 0.0, 0.0, 0.02, 0.02, 0.02],
    },
    WorkloadNote {
        id: "W8",
        title: "a spike of skew",
        description: "40 % of the table's throughput is asked for, all keys alike; in the middle third 80 %, in \
            proportion to k^-1.2. The first and the third key share a partition.",
        reference_percents: [15.9, 8.1, 5.0, 2.2, 2.2, 0.17],
    },
    WorkloadNote {
        id: "W9",
        title: "one key with half of the requests",
        description: "60 % of the table's throughput is asked for, half of it for a single key. No cut helps that key: \
            the part of it beyond the ceiling of one partition is lost in every design.",
        reference_percents: [42.7, 39.2, 33.0, 21.9, 21.9, 18.9],
    },
    WorkloadNote {
        id: "W10",
        title: "inserts in key order",
        description: "50 % of the table's throughput is asked for as writes, four fifths of them new keys in their order, \
            which pass through the partitions one after the other, each in a minute. No cut helps the tail.",
        reference_percents: [68.7, 43.5, 43.5, 43.5, 43.5, 43.5],
    },
];

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

    /// The workload of a note; `None` for tables of one's own.
    pub(crate) fn from_note(note: Option<&WorkloadNote>) -> Option<Self> {
        Self::ALL.into_iter().find(|one| Some(one.note()) == note)
    }

    /// The note of it in reports.
    pub fn note(self) -> &'static WorkloadNote {
        &NOTES[self as usize]
    }

    /// The baseline of the reference values under it, all rates divided by `divisor`: a table with
    /// 16 000 units a second in 16 partitions on 4 nodes of 8 000; on each node a tenant has 3 000
    /// and uses half of them.
    ///
    /// Nodes have no reserve: the reference values leave each node 1 000 units to promise beyond
    /// the 7 000 that are promised, which is one partition more.
    pub fn scenario(self, seed: u64, seconds: u32, divisor: u32) -> CapacityScenario {
        let scaled = |units: u64| units / u64::from(divisor.max(1));
        let nodes = NodeSpec::numbered(4, scaled(8000), 0);
        let names = names(&nodes);
        let demand = self.demand(seconds, divisor.max(1));
        let orders = TableSpec {
            ceiling: scaled(3000),
            is_ordered: self.is_ordered(),
            is_write: self.is_write(),
            shares_top_keys: self.shares_top_keys(),
            ..table("orders", scaled(TABLE_UNITS as u64), 16, &names, demand)
        };
        let tenants = names.iter().map(|node| {
            let demand = steady(100, 4, 1500.0 / f64::from(divisor.max(1)), Pattern::Uniform);
            let tenant = table(&format!("tenant-of-{node}"), scaled(3000), 1, from_ref(node), demand);
            TableSpec { role: TableRole::Tenant, ..tenant }
        });
        let tables = core::iter::once(orders).chain(tenants).collect();
        let designs = Design::ALL.to_vec();
        let onset = self.onset(seconds);
        let workload = Some(self.note());
        let scenario = CapacityScenario::from_tables(seed, seconds, designs, nodes, tables);
        CapacityScenario { workload, onset, ..scenario }
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
        let phase = |from: f64, percent: f64, pattern| {
            phase(from * seconds, TABLE_UNITS * percent / 100.0 / f64::from(divisor), pattern)
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

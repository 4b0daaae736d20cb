//! The ten workloads that designs are compared on.

use std::sync::LazyLock;

use tidegate_sim::capacity::{
    CapacityScenario, Demand, Design, NodeSpec, Pattern, Phase, TableRole, TableSpec, WorkloadNote,
};

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

/// The notes of all workloads, in order.
static NOTES: LazyLock<[WorkloadNote; Workload::ALL.len()]> = LazyLock::new(|| Workload::ALL.map(note_of));

fn note_of(workload: Workload) -> WorkloadNote {
    WorkloadNote {
        id: workload.id(),
        title: workload.title(),
        description: workload.description(),
        reference_percents: Design::ALL.map(|design| workload.reference_percent(design)),
    }
}

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

    /// The workload of a note; `None` for tables of one's own.
    pub(crate) fn from_note(note: Option<&WorkloadNote>) -> Option<Self> {
        Self::ALL.into_iter().find(|one| note.is_some_and(|note| note.id == one.id()))
    }

    /// The note of it in reports.
    pub fn note(self) -> &'static WorkloadNote {
        &NOTES[self as usize]
    }

    /// The baseline of the reference values under it, all rates divided by `divisor`: a table of
    /// 16 000 units a second in 16 partitions on 4 nodes of 8 000, with a tenant on each node that
    /// has 3 000 and uses half of them.
    ///
    /// Nodes have no reserve: the reference values leave each node 1 000 units to promise beyond
    /// the 7 000 that are promised, which is one partition more.
    pub fn scenario(self, seed: u64, seconds: u32, divisor: u32) -> CapacityScenario {
        let scaled = |units: u64| units / u64::from(divisor.max(1));
        let nodes = NodeSpec::numbered(4, scaled(8000), 0);
        let names: Vec<String> = nodes.iter().map(|node| node.name.clone()).collect();
        let orders = TableSpec {
            name: "orders".to_owned(),
            units_per_second: scaled(TABLE_UNITS as u64),
            ceiling: scaled(3000),
            partitions: 16,
            nodes: names.clone(),
            replicas: 1,
            is_ordered: self.is_ordered(),
            is_write: self.is_write(),
            shares_top_keys: self.shares_top_keys(),
            role: TableRole::Compared,
            demand: self.demand(seconds, divisor.max(1)),
        };
        let tenants = names.iter().map(|node| TableSpec {
            name: format!("tenant-of-{node}"),
            units_per_second: scaled(3000),
            ceiling: scaled(3000),
            partitions: 1,
            nodes: vec![node.clone()],
            replicas: 1,
            is_ordered: false,
            is_write: false,
            shares_top_keys: false,
            role: TableRole::Tenant,
            demand: Demand {
                keys: 100,
                units: 4,
                phases: vec![Phase {
                    from: 0.0,
                    units_per_second: 1500.0 / f64::from(divisor.max(1)),
                    pattern: Pattern::Uniform,
                }],
            },
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

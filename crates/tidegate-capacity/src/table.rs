//! A table in force: its partitions, its tokens, and what it refused.

use std::sync::PoisonError;

use tidegate_core::Timestamp;

use crate::admission::tokens::{TokenTerms, Tokens};
use crate::control::demand::Demand;
use crate::control::growth_watch::GrowthWatch;
use crate::layout::key_range::KeyRange;
use crate::layout::members::Members;
use crate::layout::partition::Directions;
use crate::layout::position::{Keyspace, Position};
use crate::layout::{Layout, LayoutPlan};
use crate::sync::{AtomicU32, AtomicU64, Mutex, MutexGuard, Ordering};
use crate::table_config::{TableConfig, TableNumbers, share};
use crate::throughput::Throughput;
use crate::units::Units;

/// The number of a table among all that a [`Capacity`](crate::Capacity) and those before it have
/// had. It wraps after 2^32 tables, long after the holds of the first ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TableId(pub(crate) u32);

/// A table in force. It is shared by a [`Capacity`](crate::Capacity) and those that replace it.
#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) id: TableId,
    pub(crate) namespace: Box<str>,
    pub(crate) name: Box<str>,
    /// The length of the base table's name, for an index.
    base_name_bytes: Option<usize>,
    pub(crate) layout: Layout,
    tokens: [Tokens; 2],
    /// The tokens by which a router decides alone, reads and writes.
    shares: [Tokens; 2],
    used_up_reads: ExhaustionHint,
    used_up_writes: ExhaustionHint,
    throttled_reads: AtomicU64,
    throttled_writes: AtomicU64,
    pub(crate) reshaped: ReshapeCounts,
    /// The throughput and the partitions that it has had. Locked after the plan of the layout. A
    /// panic leaves valid peaks.
    demand: Mutex<Demand>,
    pub(crate) growth: GrowthWatch,
    /// Whether the limits of reads and of writes are the configured maxima. Relaxed: it names the
    /// reason of a refusal.
    at_maximum: [AtomicU32; 2],
}

/// The changes of a table's partitions since it was first configured.
#[derive(Debug, Default)]
pub(crate) struct ReshapeCounts {
    // Relaxed: numbers for reports.
    pub(crate) splits: AtomicU64,
    pub(crate) merges: AtomicU64,
}

/// The end of the time for which all partitions of a table are known to be used up, so that a
/// refusal need not read each of them again.
///
/// A hint for the reason of a refusal. Nothing is admitted or refused by it.
#[derive(Debug, Default)]
pub(crate) struct ExhaustionHint {
    // Relaxed: a hint that is missed costs a look at every partition, one that is seen too late a
    // coarser reason.
    until_ns: AtomicU64,
}

impl ExhaustionHint {
    pub(crate) fn is_known_at(&self, now: Timestamp) -> bool {
        now.as_nanos() < self.until_ns.load(Ordering::Relaxed)
    }

    pub(crate) fn learn(&self, until: Timestamp) {
        self.until_ns.store(until.as_nanos(), Ordering::Relaxed);
    }

    /// Units were given back, so that a partition may have room.
    pub(crate) fn forget(&self) {
        // Looked at first, since almost always there is nothing to forget and the word is shared by
        // all partitions.
        if self.until_ns.load(Ordering::Relaxed) != 0 {
            self.until_ns.store(0, Ordering::Relaxed);
        }
    }
}

impl Table {
    /// A table whose partitions are full at `now`, without burst credit. `nodes` are the numbers
    /// of the configured nodes, at least one.
    pub(crate) fn new(id: TableId, config: &TableConfig, nodes: &[u32], now: Timestamp) -> Self {
        let numbers = TableNumbers::from_config(config);
        let keyspace = keyspace_of(config);
        let firsts = initial_firsts(config, &keyspace);
        // At most TableConfig::PARTITIONS_MAX.
        let count = firsts.len() as u32;
        let parts = (0..count).zip(firsts).map(|(index, first)| {
            let throughput =
                |is_read, units| Throughput::new(numbers.rates(is_read, share(units, index, count)), now);
            let directions = Directions {
                read: throughput(true, config.read_units_per_second),
                write: throughput(false, config.write_units_per_second),
            };
            (first, members_of(config, nodes, index), directions)
        });
        let layout = Layout::new(config.clone(), numbers, parts.collect::<Vec<_>>());
        let demand = Demand::new(config, count, now);
        Self {
            id,
            namespace: config.namespace.as_str().into(),
            name: config.name.as_str().into(),
            base_name_bytes: config.index_of.as_ref().map(String::len),
            layout,
            tokens: [true, false].map(|is_read| {
                let rate = limit_of(config, &demand, is_read);
                Tokens::new(TokenTerms::from_rate(rate), now)
            }),
            shares: [true, false].map(|is_read| {
                let rate = limit_of(config, &demand, is_read);
                Tokens::new(TokenTerms::from_rate(rate), now)
            }),
            used_up_reads: ExhaustionHint::default(),
            used_up_writes: ExhaustionHint::default(),
            throttled_reads: AtomicU64::new(0),
            throttled_writes: AtomicU64::new(0),
            reshaped: ReshapeCounts::default(),
            demand: Mutex::new(demand),
            growth: GrowthWatch::default(),
            at_maximum: [(); 2].map(|()| AtomicU32::new(0)),
        }
    }

    /// The throughput and the partitions that it has had, locked.
    pub(crate) fn demand(&self) -> MutexGuard<'_, Demand> {
        self.demand.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The units that were admitted since it was first configured, reads and writes.
    pub(crate) fn admitted(&self, plan: &LayoutPlan) -> [Units; 2] {
        let of_each = self.layout.map(plan, |state| {
            [true, false].map(|is_read| Units::from_thousandths(state.directions.of(is_read).meter.admitted))
        });
        of_each
            .into_iter()
            .fold([Units::ZERO; 2], |[reads, writes], [read, write]| [reads + read, writes + write])
    }

    /// Lets the tokens have what the table may use.
    pub(crate) fn set_limits(&self, config: &TableConfig, demand: &Demand, now: Timestamp) {
        for (index, is_read) in [true, false].into_iter().enumerate() {
            let terms = config.on_demand_of(is_read);
            let is_at_maximum = terms.is_some_and(|terms| demand.ratchets[index].is_at_max(&terms));
            self.set_at_maximum(is_read, is_at_maximum);
            let limit = limit_of(config, demand, is_read);
            if self.tokens(is_read).rate() != limit {
                self.tokens(is_read).set_terms(TokenTerms::from_rate(limit), now);
            }
        }
    }

    fn set_at_maximum(&self, is_read: bool, is_at_maximum: bool) {
        self.at_maximum[usize::from(!is_read)].store(u32::from(is_at_maximum), Ordering::Relaxed);
    }

    pub(crate) fn is_at_maximum(&self, is_read: bool) -> bool {
        self.at_maximum[usize::from(!is_read)].load(Ordering::Relaxed) != 0
    }

    pub(crate) const fn tokens(&self, is_read: bool) -> &Tokens {
        &self.tokens[!is_read as usize]
    }

    /// The tokens of a router that decides alone, because it cannot reach the lender.
    pub(crate) const fn share(&self, is_read: bool) -> &Tokens {
        &self.shares[!is_read as usize]
    }

    /// The name of the table, without that of the index; and the index's.
    pub(crate) fn table_and_index(&self) -> (&str, Option<&str>) {
        match self.base_name_bytes {
            // A slash parts the names.
            Some(length) => (&self.name[..length], Some(&self.name[length + 1..])),
            None => (&self.name, None),
        }
    }

    const fn throttled(&self, is_read: bool) -> &AtomicU64 {
        if is_read { &self.throttled_reads } else { &self.throttled_writes }
    }

    pub(crate) fn count_throttled(&self, is_read: bool) {
        self.throttled(is_read).fetch_add(1, Ordering::Relaxed);
    }

    /// The accesses that were refused since the table was first configured.
    pub(crate) fn throttled_count(&self, is_read: bool) -> u64 {
        self.throttled(is_read).load(Ordering::Relaxed)
    }

    pub(crate) const fn used_up(&self, is_read: bool) -> &ExhaustionHint {
        if is_read { &self.used_up_reads } else { &self.used_up_writes }
    }
}

/// The order of the keys of a table.
pub(crate) fn keyspace_of(config: &TableConfig) -> Keyspace {
    Keyspace { by: config.partition_by, prefix: config.key_prefix.as_slice().into() }
}

/// The units a second that a table may use.
pub(crate) fn limit_of(config: &TableConfig, demand: &Demand, is_read: bool) -> Units {
    if config.on_demand.is_some() {
        return demand.reach_of(config, is_read);
    }
    Units::whole(TableNumbers::from_config(config).units_per_second(is_read))
}

/// The first positions of the partitions with which a table begins: those of the configuration,
/// each cut evenly for the throughput that the table can reach at once.
pub(crate) fn initial_firsts(config: &TableConfig, keyspace: &Keyspace) -> Vec<Position> {
    firsts_of_pieces(config, keyspace, config.initial_pieces())
}

/// The first positions of the partitions that a table always has: those of the configuration, on
/// demand each cut evenly for the initial limits.
pub(crate) fn least_firsts(config: &TableConfig, keyspace: &Keyspace) -> Vec<Position> {
    firsts_of_pieces(config, keyspace, config.least_pieces())
}

/// The first positions of so many even pieces of each configured partition.
fn firsts_of_pieces(config: &TableConfig, keyspace: &Keyspace, pieces: u32) -> Vec<Position> {
    let configured = |index| first_of(config, keyspace, index);
    let cut = |index: u32| {
        let end = (index + 1 < config.partitions).then(|| configured(index + 1));
        let range = KeyRange { by: keyspace.by, first: configured(index), end };
        core::iter::once(range.first).chain(range.even_cuts(pieces))
    };
    (0..config.partitions).flat_map(cut).collect()
}

/// The first position of a partition as it is configured.
pub(crate) fn first_of(config: &TableConfig, keyspace: &Keyspace, index: u32) -> Position {
    match (index, &config.bounds[..]) {
        (0, _) => Position::FIRST,
        (index, []) => keyspace.even_first(index, config.partitions),
        // One fewer bound than partitions.
        (index, bounds) => bounds[index as usize - 1],
    }
}

/// The members of a partition as it is configured: the nodes in turn.
pub(crate) fn members_of(config: &TableConfig, nodes: &[u32], index: u32) -> Members {
    let from = index as usize % nodes.len();
    let mut chosen: Vec<u32> = Vec::with_capacity(usize::from(config.replicas));
    for node in nodes.iter().cycle().skip(from).take(nodes.len()) {
        if chosen.len() < usize::from(config.replicas) && !chosen.contains(node) {
            chosen.push(*node);
        }
    }
    Members::new(chosen)
}

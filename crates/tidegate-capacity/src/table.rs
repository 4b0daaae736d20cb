//! A table: throughput, cut evenly over partitions that tile its keys.

use tidegate_core::Timestamp;

use crate::bucket::{Bucket, BucketSpec};
use crate::key_range::{KeyRange, partition_of};
use crate::sync::{AtomicU32, AtomicU64, Ordering};
use crate::units::Units;

/// A table with provisioned throughput, as it is configured.
///
/// A new one has one partition and no node; it must be given at least one.
///
/// ```
/// # use tidegate_capacity::{Capacity, TableConfig, Units};
/// # use tidegate_core::Timestamp;
/// # let now = Timestamp::from_secs(1_800_000_000);
/// let nodes = ["node-a", "node-b"];
/// let orders = TableConfig::new("shop", "orders", 400, 100).partitions(4).nodes(nodes);
/// let builder = Capacity::builder().node("node-a", 10_000).node("node-b", 10_000);
/// let capacity = builder.table(orders).build()?;
/// // Each partition has an equal part, and the partitions lie on the nodes in turn.
/// let partitions: Vec<_> = capacity.partitions("shop", "orders", now)?.collect();
/// assert!(partitions.iter().all(|one| one.write_rate == Units::whole(25)));
/// assert!(partitions.iter().map(|one| one.node).eq(["node-a", "node-b", "node-a", "node-b"]));
/// # Ok::<(), tidegate_capacity::CapacityError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TableConfig {
    /// The namespace that it belongs to: requests of others cannot be charged to it.
    pub namespace: String,
    /// Its name, unique in its namespace; 1 to [`TableConfig::NAME_BYTES_MAX`] bytes.
    pub name: String,
    /// Units of reading a second, over all partitions; 1 to [`TableConfig::UNITS_PER_SECOND_MAX`].
    pub read_units_per_second: u64,
    /// Units of writing a second, over all partitions; 1 to [`TableConfig::UNITS_PER_SECOND_MAX`].
    pub write_units_per_second: u64,
    /// The number of partitions that its keys are cut into; 1 to [`TableConfig::PARTITIONS_MAX`].
    pub partitions: u32,
    /// The nodes its partitions lie on, in turn; at least one. A node named twice gets twice as
    /// many.
    pub nodes: Vec<String>,
}

impl TableConfig {
    /// The longest name of a table or node in bytes, as in `DynamoDB`.
    pub const NAME_BYTES_MAX: usize = 255;
    /// The most units a second of a table or node.
    pub const UNITS_PER_SECOND_MAX: u64 = BucketSpec::UNITS_PER_SECOND_MAX;
    /// The most partitions of a table. At one unit a second each of them still gets a thousandth.
    pub const PARTITIONS_MAX: u32 = 1000;

    /// A table with one partition and no node.
    pub fn new(
        namespace: impl Into<String>,
        name: impl Into<String>,
        read_units_per_second: u64,
        write_units_per_second: u64,
    ) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
            read_units_per_second,
            write_units_per_second,
            partitions: 1,
            nodes: Vec::new(),
        }
    }

    /// Cuts its keys into so many partitions.
    #[must_use]
    pub fn partitions(mut self, partitions: u32) -> Self {
        self.partitions = partitions;
        self
    }

    /// Lays its partitions on these nodes in turn.
    #[must_use]
    pub fn nodes<N: Into<String>>(mut self, nodes: impl IntoIterator<Item = N>) -> Self {
        self.nodes = nodes.into_iter().map(Into::into).collect();
        self
    }
}

/// The share of one partition: the total cut evenly, the remainder to the first ones, so that the
/// shares add up.
pub(crate) fn share(units_per_second: u64, index: u32, partitions: u32) -> u64 {
    let total = units_per_second * 1000;
    let (each, remainder) = (total / u64::from(partitions), total % u64::from(partitions));
    each + u64::from(u64::from(index) < remainder)
}

/// One direction of a partition's throughput: a bucket that holds one second of its rate and may be
/// in debt by one request.
#[derive(Debug)]
pub(crate) struct Allocation {
    /// Thousandths a second.
    rate: u64,
    pub(crate) bucket: Bucket,
}

impl Allocation {
    /// A full one.
    fn new(rate: u64) -> Self {
        Self { rate, bucket: Bucket::default() }
    }

    pub(crate) fn spec(&self) -> BucketSpec {
        BucketSpec::new(self.rate, self.rate, Units::LARGEST_REQUEST.as_thousandths().cast_unsigned())
    }
}

/// A range of a table's keys on a node. Aligned so that cores busy with one do not contend for the
/// next.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Partition {
    /// The position of its node. Relaxed: an access that sees the node before a placement is
    /// charged to that node, and its hold remembers which one it was.
    node: AtomicU32,
    pub(crate) read: Allocation,
    pub(crate) write: Allocation,
}

impl Partition {
    pub(crate) fn node(&self) -> u32 {
        self.node.load(Ordering::Relaxed)
    }

    pub(crate) fn place(&self, node: u32) {
        self.node.store(node, Ordering::Relaxed);
    }

    /// The thousandths a second that it is promised, reads and writes together.
    pub(crate) const fn promised(&self) -> u64 {
        self.read.rate + self.write.rate
    }

    pub(crate) const fn allocation(&self, is_read: bool) -> &Allocation {
        if is_read { &self.read } else { &self.write }
    }
}

#[derive(Debug)]
pub(crate) struct Table {
    /// A number that no other table has had, so that a hold finds the table it was charged to and
    /// none else.
    pub(crate) id: TableId,
    pub(crate) namespace: Box<str>,
    pub(crate) name: Box<str>,
    pub(crate) read_units_per_second: u64,
    pub(crate) write_units_per_second: u64,
    /// In the order of their ranges; at most [`TableConfig::PARTITIONS_MAX`].
    pub(crate) partitions: Box<[Partition]>,
    used_up_reads: ExhaustionHint,
    used_up_writes: ExhaustionHint,
    throttled_reads: AtomicU64,
    throttled_writes: AtomicU64,
}

/// The number of a table among all that a [`Capacity`](crate::Capacity) and those before it have
/// had. It wraps after 2^32 changed tables, long after the holds of the first ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TableId(pub(crate) u32);

/// The end of the time for which all partitions of a table are known to be used up, so that a
/// refusal need not read each of them again.
///
/// A hint for the reason of a refusal. Nothing is admitted or refused by it.
#[derive(Debug)]
pub(crate) struct ExhaustionHint {
    // Relaxed: a hint that is missed costs a look at every partition, one that is seen too late a
    // coarser reason.
    until_ns: AtomicU64,
}

impl ExhaustionHint {
    fn new() -> Self {
        Self { until_ns: AtomicU64::new(0) }
    }

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
    /// A table whose partitions are full. `nodes` are the positions of the configured nodes, at
    /// least one.
    pub(crate) fn new(id: TableId, config: &TableConfig, nodes: &[u32]) -> Self {
        let partitions = (0..config.partitions)
            .zip(nodes.iter().cycle())
            .map(|(index, node)| Partition {
                node: AtomicU32::new(*node),
                read: Allocation::new(share(config.read_units_per_second, index, config.partitions)),
                write: Allocation::new(share(config.write_units_per_second, index, config.partitions)),
            })
            .collect();
        Self {
            id,
            namespace: config.namespace.as_str().into(),
            name: config.name.as_str().into(),
            read_units_per_second: config.read_units_per_second,
            write_units_per_second: config.write_units_per_second,
            partitions,
            used_up_reads: ExhaustionHint::new(),
            used_up_writes: ExhaustionHint::new(),
            throttled_reads: AtomicU64::new(0),
            throttled_writes: AtomicU64::new(0),
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

    /// Whether it is as it is configured, so that its state goes on as it is.
    pub(crate) fn is_configured_as(&self, config: &TableConfig) -> bool {
        (self.read_units_per_second, self.write_units_per_second, self.partition_count())
            == (config.read_units_per_second, config.write_units_per_second, config.partitions)
    }

    /// Takes over what is used of an earlier table, whose throughput or partitions differ, so that
    /// a change admits nothing twice: each partition lacks what the partitions of its keys lacked,
    /// at most everything.
    pub(crate) fn take_over(&self, earlier: &Self, now: Timestamp) {
        for is_read in [true, false] {
            self.throttled(is_read).store(earlier.throttled_count(is_read), Ordering::Relaxed);
        }
        for (index, partition) in (0_u32..).zip(&self.partitions) {
            let range = self.range(index);
            let first = earlier.partition_of(range.first) as usize;
            let last = earlier.partition_of(range.last) as usize;
            for from in &earlier.partitions[first..=last] {
                for is_read in [true, false] {
                    let (from, to) = (from.allocation(is_read), partition.allocation(is_read));
                    to.bucket.lack_at_least(to.spec(), from.bucket.missing(from.spec(), now), now);
                }
            }
        }
    }

    pub(crate) const fn used_up(&self, is_read: bool) -> &ExhaustionHint {
        if is_read { &self.used_up_reads } else { &self.used_up_writes }
    }

    pub(crate) fn partition_count(&self) -> u32 {
        u32::try_from(self.partitions.len()).expect("a table has at most PARTITIONS_MAX partitions")
    }

    /// The index of the partition that holds the key with this hash.
    #[inline]
    pub(crate) fn partition_of(&self, hash: u64) -> u32 {
        partition_of(hash, self.partition_count())
    }

    pub(crate) fn range(&self, partition: u32) -> KeyRange {
        KeyRange::of_partition(partition, self.partition_count()).expect("the caller has seen this partition")
    }

    pub(crate) const fn units_per_second(&self, is_read: bool) -> u64 {
        if is_read { self.read_units_per_second } else { self.write_units_per_second }
    }
}

#[cfg(test)]
#[cfg(not(tidegate_loom))]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn shares_add_up_to_the_whole_and_differ_by_at_most_a_thousandth(
            units in 1_u64..=TableConfig::UNITS_PER_SECOND_MAX,
            partitions in 1_u32..=TableConfig::PARTITIONS_MAX,
        ) {
            let shares: Vec<u64> = (0..partitions).map(|index| share(units, index, partitions)).collect();
            prop_assert_eq!(shares.iter().sum::<u64>(), units * 1000);
            prop_assert!(shares[0] - shares[shares.len() - 1] <= 1);
            prop_assert!(shares.iter().all(|share| *share >= 1));
        }
    }
}

//! A node: the machine or process on which partitions lie.

use tidegate_core::Timestamp;

use crate::bucket::{Bucket, BucketSpec};
use crate::sync::{AtomicU64, Ordering};
use crate::units::Units;

/// A node's bucket holds its rate for one such part of a second.
const DEPTHS_PER_SECOND: u64 = 10;

/// A node and its bucket. Aligned so that cores busy with one do not contend for the next.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Node {
    pub(crate) name: Box<str>,
    spec: BucketSpec,
    /// The most thousandths that the bucket is ever below zero. Relaxed: it bounds a debt that is
    /// only reported, and guards no other data.
    debt_max: AtomicU64,
    pub(crate) bucket: Bucket,
}

/// The partitions that lie on a node.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct NodeLoad {
    /// The thousandths a second that they are promised together.
    pub(crate) promised: u64,
    /// The number of their buckets.
    pub(crate) buckets: u64,
}

impl NodeLoad {
    /// With one more partition of this rate, reads and writes together.
    pub(crate) const fn with_partition(self, rate: u64) -> Self {
        Self { promised: self.promised + rate, buckets: self.buckets + 2 }
    }

    /// Without one partition of this rate.
    pub(crate) const fn without_partition(self, rate: u64) -> Self {
        Self { promised: self.promised - rate, buckets: self.buckets - 2 }
    }

    /// The deepest debt of a node: all that its partitions can use beyond their rates, which is
    /// everything in their buckets and one large request each.
    fn debt_max(self) -> u64 {
        self.promised + self.buckets * Units::LARGEST_REQUEST.as_thousandths().cast_unsigned()
    }
}

impl Node {
    /// A full node of `units` a second. Its bucket holds a tenth of a second.
    pub(crate) fn new(name: &str, units: u64, load: NodeLoad) -> Self {
        let rate = units * 1000;
        Self {
            name: name.into(),
            spec: BucketSpec::new(rate, rate / DEPTHS_PER_SECOND, 0),
            debt_max: AtomicU64::new(load.debt_max()),
            bucket: Bucket::default(),
        }
    }

    #[inline]
    pub(crate) fn spec(&self) -> BucketSpec {
        self.spec.with_debt_max(self.debt_max.load(Ordering::Relaxed))
    }

    /// The thousandths a second that the node can do.
    pub(crate) const fn rate(&self) -> u64 {
        self.spec.rate()
    }

    /// Takes over what an earlier node of its name lacks, whose units differ.
    pub(crate) fn take_over(&self, earlier: &Self, now: Timestamp) {
        let missing = earlier.bucket.missing(earlier.spec(), now);
        self.bucket.lack_at_least(self.spec(), missing, now);
    }

    /// Bears `load` from now on. The deepest debt only grows: partitions that have left may have
    /// taken the node down to the old one.
    pub(crate) fn bear(&self, load: NodeLoad) {
        self.debt_max.fetch_max(load.debt_max(), Ordering::Relaxed);
    }
}

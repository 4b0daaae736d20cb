//! A node: the machine or process on which replicas of partitions lie.

use tidegate_core::Timestamp;

use crate::bucket::{Bucket, BucketCharge, BucketSpec};
use crate::sync::{AtomicU64, Ordering};
use crate::units::Units;

/// A node's bucket holds its rate for one such part of a second.
const DEPTHS_PER_SECOND: u64 = 10;

/// A node, as it is configured.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NodeConfig {
    /// Its name, unique; 1 to [`crate::TableConfig::NAME_BYTES_MAX`] bytes.
    pub name: String,
    /// The units that it can do in a second, reads and writes together; 1 to
    /// [`crate::TableConfig::UNITS_PER_SECOND_MAX`].
    pub units_per_second: u64,
    /// The hundredths of its units that are promised to no partition, 0 to
    /// [`NodeConfig::RESERVE_PERCENT_MAX`]. The same part of its bucket is not spent on bursts.
    /// Default [`NodeConfig::RESERVE_PERCENT`].
    pub reserve_percent: u8,
}

impl NodeConfig {
    /// The reserve of a new configuration.
    pub const RESERVE_PERCENT: u8 = 10;
    /// The largest reserve.
    pub const RESERVE_PERCENT_MAX: u8 = 90;

    /// A node with the default reserve.
    pub fn new(name: impl Into<String>, units_per_second: u64) -> Self {
        Self { name: name.into(), units_per_second, reserve_percent: Self::RESERVE_PERCENT }
    }

    /// Promises all but so many hundredths.
    #[must_use]
    pub fn reserve_percent(mut self, percent: u8) -> Self {
        self.reserve_percent = percent;
        self
    }
}

/// The number of a node among all that a [`crate::Capacity`] and those before it have had; a node
/// keeps it when its units change. The epoch counts these changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NodeId {
    pub(crate) number: u32,
    pub(crate) epoch: u32,
}

/// A node and its bucket. Aligned so that cores busy with one do not contend for the next.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Node {
    pub(crate) id: NodeId,
    pub(crate) name: Box<str>,
    spec: BucketSpec,
    reserve_percent: u8,
    /// The most thousandths that the bucket is ever below zero. Relaxed: it bounds a debt that is
    /// only reported, and guards no other data.
    debt_max: AtomicU64,
    bucket: Bucket,
    /// The thousandths that were given back and found no room. Relaxed: a count.
    overflow: AtomicU64,
}

/// A charge; its owner keeps it to be able to take it back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NodeCharge {
    before: u64,
    pub(crate) id: NodeId,
    booked: u32,
}

impl NodeCharge {
    /// No node was charged.
    pub(crate) const NOWHERE: Self = Self { before: 0, id: NodeId { number: u32::MAX, epoch: 0 }, booked: 0 };
}

/// The replicas that lie on a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct NodeLoad {
    /// The thousandths a second that they are promised together.
    pub(crate) promised: u64,
    /// The number of their buckets.
    pub(crate) buckets: u64,
}

impl NodeLoad {
    /// With one more replica of this rate, reads and writes together.
    pub(crate) const fn with_replica(self, rate: u64) -> Self {
        Self { promised: self.promised + rate, buckets: self.buckets + 2 }
    }

    /// Without one replica of this rate.
    pub(crate) const fn without_replica(self, rate: u64) -> Self {
        Self { promised: self.promised - rate, buckets: self.buckets - 2 }
    }

    /// The deepest debt of a node: all that its partitions can use beyond their rates, which is
    /// everything in their buckets and one large request each.
    fn debt_max(self) -> u64 {
        self.promised + self.buckets * Units::LARGEST_REQUEST.as_thousandths().cast_unsigned()
    }
}

impl Node {
    /// A full node. Its bucket holds a tenth of a second.
    pub(crate) fn new(number: u32, config: &NodeConfig, load: NodeLoad) -> Self {
        let rate = config.units_per_second * 1000;
        Self {
            id: NodeId { number, epoch: 0 },
            name: config.name.as_str().into(),
            spec: BucketSpec::new(rate, rate / DEPTHS_PER_SECOND, 0),
            reserve_percent: config.reserve_percent,
            debt_max: AtomicU64::new(load.debt_max()),
            bucket: Bucket::default(),
            overflow: AtomicU64::new(0),
        }
    }

    /// The same node with other units or another reserve. Its level is kept, up to the new depth.
    pub(crate) fn reconfigured(&self, config: &NodeConfig, load: NodeLoad, now: Timestamp) -> Self {
        let fresh = Self::new(self.id.number, config, load);
        let before = self.level(now).as_thousandths();
        let level = before.min(fresh.spec.depth().cast_signed());
        let overflow = self.overflow.load(Ordering::Relaxed) + (before - level).cast_unsigned();
        let debt_max = self.debt_max.load(Ordering::Relaxed).max(load.debt_max());
        Self {
            id: NodeId { epoch: self.id.epoch.wrapping_add(1), ..self.id },
            debt_max: AtomicU64::new(debt_max),
            bucket: Bucket::with_level(fresh.spec.with_debt_max(debt_max), level, now),
            overflow: AtomicU64::new(overflow),
            ..fresh
        }
    }

    pub(crate) fn is_configured_as(&self, config: &NodeConfig) -> bool {
        self.spec.rate() == config.units_per_second * 1000 && self.reserve_percent == config.reserve_percent
    }

    #[inline]
    fn spec(&self) -> BucketSpec {
        self.spec.with_debt_max(self.debt_max.load(Ordering::Relaxed))
    }

    /// The thousandths a second that the node can do.
    pub(crate) const fn rate(&self) -> u64 {
        self.spec.rate()
    }

    /// The thousandths a second that may be promised.
    pub(crate) const fn promisable(&self) -> u64 {
        promisable(self.spec.rate() / 1000, self.reserve_percent)
    }

    pub(crate) const fn reserve_percent(&self) -> u8 {
        self.reserve_percent
    }

    pub(crate) fn level(&self, now: Timestamp) -> Units {
        self.bucket.level(self.spec(), now)
    }

    /// The thousandths that the bucket holds.
    pub(crate) const fn depth(&self) -> u64 {
        self.spec.depth()
    }

    /// The thousandths that bursts leave in the bucket.
    pub(crate) const fn burst_floor(&self) -> u64 {
        self.spec.depth() * self.reserve_percent as u64 / 100
    }

    /// Charges `cost` whatever is left.
    #[inline]
    pub(crate) fn charge(&self, cost: u64, now: Timestamp) -> NodeCharge {
        self.charge_of(self.bucket.charge(self.spec(), cost, now))
    }

    /// Charges `cost` if the reserve is still there afterwards; otherwise the first instant at
    /// which it is.
    #[inline]
    pub(crate) fn take_spare(&self, cost: u64, now: Timestamp) -> Result<NodeCharge, Timestamp> {
        let charged = self.bucket.take_above(self.spec(), cost, self.burst_floor(), now)?;
        Ok(self.charge_of(charged))
    }

    /// The answer of [`Node::take_spare`]; charges nothing.
    pub(crate) fn has_spare(&self, cost: u64, now: Timestamp) -> Result<(), Timestamp> {
        self.bucket.has_above(self.spec(), cost, self.burst_floor(), now)
    }

    const fn charge_of(&self, charged: BucketCharge) -> NodeCharge {
        // One access is charged at most the largest request.
        NodeCharge { before: charged.before, id: self.id, booked: charged.cost as u32 }
    }

    /// Takes back `units` of a charge made at `at`; those that find no room are counted.
    pub(crate) fn give_back(&self, charge: &NodeCharge, units: u64, at: Timestamp, now: Timestamp) {
        let spec = self.spec();
        let booked = u64::from(charge.booked);
        let units = units.min(booked);
        let lost = if charge.id.epoch == self.id.epoch {
            let after = spec.start(charge.before, at) + booked;
            let charged = BucketCharge { before: charge.before, after, cost: booked };
            self.bucket.give_back(spec, charged, units, now)
        } else {
            self.bucket.refund(spec, units, now)
        };
        if lost > 0 {
            self.overflow.fetch_add(lost, Ordering::Relaxed);
        }
    }

    /// The units that were given back and found no room.
    pub(crate) fn overflow(&self) -> Units {
        Units::from_rate(self.overflow.load(Ordering::Relaxed))
    }

    /// Bears `load` from now on. The deepest debt only grows: partitions that have left may have
    /// taken the node down to the old one.
    pub(crate) fn bear(&self, load: NodeLoad) {
        self.debt_max.fetch_max(load.debt_max(), Ordering::Relaxed);
    }

    /// The whole state.
    pub(crate) fn word(&self) -> u64 {
        self.bucket.word()
    }
}

/// The thousandths a second that a node of so many units may be promised.
pub(crate) const fn promisable(units_per_second: u64, reserve_percent: u8) -> u64 {
    units_per_second * 10 * (100 - reserve_percent as u64)
}

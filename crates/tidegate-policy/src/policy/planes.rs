//! Checked settings of the capacity and overload planes.

use core::time::Duration;

use tidegate_capacity::{CapacityBuilder, TableConfig};
use tidegate_core::Class;

/// A node on which partitions of tables lie.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NodePolicy {
    /// Its name, unique, 1 to [`NodePolicy::NAME_BYTES_MAX`] bytes.
    pub name: String,
    /// The capacity units that it can do in a second, 1 to [`TablePolicy::UNITS_MAX`].
    pub units: u64,
}

impl NodePolicy {
    /// The longest name of a node or table in bytes.
    pub const NAME_BYTES_MAX: usize = TableConfig::NAME_BYTES_MAX;
    /// The most nodes in one configuration.
    pub const COUNT_MAX: usize = CapacityBuilder::NODES_MAX;
}

/// A table with provisioned throughput, cut into partitions by a hash of the key.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TablePolicy {
    /// Its name, unique in its namespace, 1 to [`NodePolicy::NAME_BYTES_MAX`] bytes.
    pub name: String,
    /// Capacity units of reading in a second, 1 to [`TablePolicy::UNITS_MAX`].
    pub read_units: u64,
    /// Capacity units of writing in a second, 1 to [`TablePolicy::UNITS_MAX`].
    pub write_units: u64,
    /// The number of partitions, 1 to [`TablePolicy::PARTITIONS_MAX`]; default 1.
    pub partitions: u32,
}

impl TablePolicy {
    /// The most capacity units a second of a table or node.
    pub const UNITS_MAX: u64 = TableConfig::UNITS_PER_SECOND_MAX;
    /// The most partitions of a table.
    pub const PARTITIONS_MAX: u32 = TableConfig::PARTITIONS_MAX;
    /// The most tables in one configuration.
    pub const COUNT_MAX: usize = CapacityBuilder::TABLES_MAX;
    /// The most partitions of all tables of a configuration together.
    pub const ALL_PARTITIONS_MAX: usize = CapacityBuilder::PARTITIONS_MAX;

    /// The thousandths of a unit a second that a partition, counted from 0, is promised, reads and
    /// writes together: the total cut evenly, the remainder to the first partitions.
    pub(crate) fn promised(&self, partition: u32) -> u64 {
        let share = |units: u64| {
            let (each, rest) =
                (units * 1000 / u64::from(self.partitions), units * 1000 % u64::from(self.partitions));
            each + u64::from(u64::from(partition) < rest)
        };
        share(self.read_units) + share(self.write_units)
    }
}

/// A resource: a thing that requests are served by.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ResourcePolicy {
    /// Its name, unique, 1 to [`ResourcePolicy::NAME_BYTES_MAX`] bytes.
    pub name: String,
    /// The most requests in flight at once, 1 to [`ResourcePolicy::CONCURRENCY_MAX`].
    pub concurrency: u64,
    /// How requests wait for a place; `None`: they do not wait.
    pub queue: Option<QueuePolicy>,
    /// The HTTP status of its refusals, 400 to 599; `None`: that of the reason.
    pub status: Option<u16>,
}

impl ResourcePolicy {
    /// The longest name in bytes.
    pub const NAME_BYTES_MAX: usize = 128;
    /// The largest concurrency.
    pub const CONCURRENCY_MAX: u64 = 1_000_000;
    /// The most resources in one configuration.
    pub const COUNT_MAX: usize = 1000;

    /// How long a request of this class may wait for a place; zero: it does not wait.
    pub fn wait(&self, class: Class) -> Duration {
        self.queue.as_ref().map_or(Duration::ZERO, |queue| queue.wait[class as usize])
    }
}

/// How requests wait for a place of a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct QueuePolicy {
    /// The most requests that wait at a time, 1 to 1 000 000; default
    /// [`QueuePolicy::REQUESTS_DEFAULT`].
    pub requests: usize,
    /// The most bytes of requests that wait, 64 KiB to 64 GiB; default
    /// [`QueuePolicy::BYTES_DEFAULT`].
    pub bytes: usize,
    /// How long a request waits at most, by its class from the least important, 0 to 1 h; default
    /// 0, which does not wait.
    pub wait: [Duration; Class::ALL.len()],
}

impl QueuePolicy {
    /// How many requests may wait unless told otherwise.
    pub const REQUESTS_DEFAULT: usize = 10_000;
    /// How many bytes may wait unless told otherwise: 64 MiB.
    pub const BYTES_DEFAULT: usize = 64 << 20;
    /// The smallest bound in bytes: 64 KiB.
    pub const BYTES_MIN: u64 = 64 << 10;
    /// The largest bound in bytes: 64 GiB.
    pub const BYTES_MAX: u64 = 64 << 30;
    /// The longest wait: an hour.
    pub const WAIT_MAX: Duration = Duration::from_hours(1);
}

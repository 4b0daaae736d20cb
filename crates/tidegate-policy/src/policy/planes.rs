//! Checked settings of the capacity and overload planes.

use core::time::Duration;

use tidegate_capacity::{AccountConfig, Capacity, CapacityBuilder, NodeConfig, TableConfig};
use tidegate_core::Class;

/// The node of a policy that names none.
pub(crate) const ONLY_NODE: &str = "default";

/// The nodes, accounts and tables as a capacity plane takes them. Tables lie on all nodes in turn.
pub(crate) fn capacity<'t>(
    nodes: &[NodeConfig],
    accounts: &[AccountConfig],
    tables: impl Iterator<Item = &'t TableConfig>,
) -> CapacityBuilder {
    let mut builder = Capacity::builder();
    let mut names: Vec<&str> = nodes.iter().map(|node| node.name.as_str()).collect();
    for node in nodes {
        builder = builder.node_config(node.clone());
    }
    if nodes.is_empty() {
        let mut only = NodeConfig::new(ONLY_NODE, TableConfig::UNITS_PER_SECOND_MAX);
        only.reserve_percent = 0;
        builder = builder.node_config(only);
        names.push(ONLY_NODE);
    }
    for account in accounts {
        builder = builder.account(account.clone());
    }
    for table in tables {
        builder = builder.table(table.clone().nodes(names.iter().copied()));
    }
    builder
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

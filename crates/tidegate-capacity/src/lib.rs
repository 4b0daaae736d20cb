//! The capacity plane: the throughput of tables, partitions and nodes, and the decision on each
//! access.
//!
//! A [`Capacity`] holds tables with provisioned throughput. Each table is cut into partitions that
//! tile the hash space of its keys exactly; each partition lies on a node and has its share of the
//! table's throughput in two buckets of one second, reads and writes apart. A request that finds
//! units in its partition's bucket is admitted and also debited from the node; a partition within
//! its own rate is never refused because of a neighbour.
//!
//! ```
//! use tidegate_core::Timestamp;
//! use tidegate_capacity::{Access, Admission, Capacity, TableConfig};
//!
//! let orders = TableConfig::new("shop", "orders", 400, 100).partitions(4).nodes(["node-a"]);
//! let capacity = Capacity::builder().node("node-a", 10_000).table(orders).build()?;
//! let now = Timestamp::from_secs(1_800_000_000);
//! let access = Access::write("orders", b"order-7", 300);
//! let Admission::Admit(hold) = capacity.admit("shop", &access, now)? else { panic!() };
//! capacity.give_back(hold, now);
//! # Ok::<(), tidegate_capacity::CapacityError>(())
//! ```
//!
//! This version has fixed shares only. Burst, boost, balancing, split, merge, on-demand tables and
//! replicas do not exist yet, so a partition lies on one node.

pub mod access;
pub mod capacity;
pub mod key_range;
pub mod table;
pub mod units;

mod bucket;
mod builder;
mod error;
mod fault;
mod node;
mod status;
mod sync;
mod throttled;

pub use access::{Access, AccessKind, ReadConsistency};
pub use builder::CapacityBuilder;
pub use capacity::{Admission, Capacity, Fingerprint, UnitsHold};
pub use error::CapacityError;
pub use key_range::{KeyRange, key_hash};
pub use status::{CapacityStatus, NodeStatus, OperationStatus, PartitionStatus, TableStatus};
pub use table::TableConfig;
pub use throttled::Throttled;
pub use tidegate_core::AccessOperation;
pub use units::Units;

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
//! How throughput moves between partitions is the table's [`TableMode`]: not at all, by burst
//! credit that partitions left unused, by boosts, or by admission from the tokens of the whole
//! table. Partitions are split, merged, moved and boosted while accesses are decided; the units of
//! each hold go back to the partition that owns its position then.

pub mod access;
pub mod account;
pub mod capacity;
pub mod control;
pub mod table_config;
pub mod units;
pub mod view;

mod admission;
mod bucket;
mod builder;
mod error;
mod fault;
mod layout;
mod levels;
mod meter;
mod node;
mod reload;
mod status;
mod sync;
mod table;
mod table_mode;
mod throughput;

pub use access::{Access, AccessKind, IndexWrite, ReadConsistency};
pub use account::AccountConfig;
pub use admission::hold::UnitsHold;
pub use admission::located_access::LocatedAccess;
pub use admission::settlement::Settlement;
pub use admission::throttled::{Bound, Throttled};
pub use admission::token_source::TokenSource;
pub use admission::tokens::TokenTerms;
pub use admission::{hold, settlement, throttled, tokens};
pub use builder::{CapacityBuilder, CheckedCapacity};
pub use capacity::{Admission, Capacity, Fingerprint};
pub use control::reshape::SplitShares;
pub use control::warm_throughput::WarmThroughput;
pub use control::{
    boost, growth, merge, on_demand, placement, plan, relocation, reshape, sketch, split, warm_throughput,
};
pub use error::CapacityError;
#[cfg(tidegate_planted_faults)]
pub use fault::Fault;
pub use layout::key_hash::key_hash;
pub use layout::key_range::KeyRange;
pub use layout::partition_id::PartitionId;
pub use layout::position::{PartitionBy, Position};
pub use layout::{key_range, position, position_list};
pub use levels::Share;
pub use node::NodeConfig;
pub use status::{
    CapacityStatus, DemandStatus, DirectionStatus, NodeStatus, OperationDemand, OperationStatus,
    PartitionStatus, TableStatus, TokensStatus,
};
pub use table_config::{AccessBytes, Ceilings, ReadMembers, TableConfig, TableMode, WriteCheck, WriteQuorum};
pub use tidegate_core::AccessOperation;
pub use units::Units;

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
pub mod boost;
pub mod capacity;
pub mod control;
pub mod growth;
pub mod hold;
pub mod invariants;
pub mod key_range;
pub mod merge;
pub mod on_demand;
pub mod placement;
pub mod plan;
pub mod position;
pub mod position_list;
pub mod relocation;
pub mod reshape;
pub mod settlement;
pub mod sketch;
pub mod split;
pub mod table_config;
pub mod throttled;
pub mod tokens;
pub mod trace;
pub mod units;
pub mod warm_throughput;
mod weighed_access;

mod admission;
mod bucket;
mod builder;
mod demand;
mod error;
mod fault;
mod grown_ranges;
mod growth_watch;
mod key_hash;
mod layout;
mod levels;
mod load_history;
mod located_access;
mod members;
mod meter;
mod node;
mod observation;
mod partition;
mod partition_id;
mod peek;
mod recent_loads;
mod reload;
mod routes;
mod status;
mod sync;
mod table;
mod table_mode;
mod table_tokens;
mod throughput;
mod token_source;

pub use access::{Access, AccessKind, IndexWrite, ReadConsistency};
pub use account::AccountConfig;
pub use builder::{CapacityBuilder, CheckedCapacity};
pub use capacity::{Admission, Capacity, Fingerprint};
pub use error::CapacityError;
pub use hold::UnitsHold;
pub use key_hash::key_hash;
pub use key_range::KeyRange;
pub use levels::Share;
pub use located_access::LocatedAccess;
pub use node::NodeConfig;
pub use partition_id::PartitionId;
pub use position::{PartitionBy, Position};
pub use reshape::SplitShares;
pub use settlement::Settlement;
pub use status::{
    CapacityStatus, DemandStatus, DirectionStatus, NodeStatus, OperationDemand, OperationStatus,
    PartitionStatus, TableStatus, TokensStatus,
};
pub use table_config::{AccessBytes, Ceilings, ReadMembers, TableConfig, TableMode, WriteCheck, WriteQuorum};
pub use throttled::{Bound, Throttled};
pub use tidegate_core::AccessOperation;
pub use token_source::TokenSource;
pub use tokens::TokenTerms;
pub use units::Units;
pub use warm_throughput::WarmThroughput;

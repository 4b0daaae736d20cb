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

/// Boosts: rates above their shares for partitions that are throttled while their table is not.
pub mod boost {
    pub use crate::control::boost::*;
}

/// Growth: tables whose limits follow the units that they admit, and whose partitions are cut for
/// what they can reach at once.
pub mod growth {
    pub use crate::control::growth::*;
}

/// Merges: neighbours that have been cool for long become one partition again.
pub mod merge {
    pub use crate::control::merge::*;
}

/// Tables on demand: a limit that follows the throughput that was used.
pub mod on_demand {
    pub use crate::control::on_demand::*;
}

/// The seam to the store whose partitions lie on nodes: relocation really moves data there.
pub mod placement {
    pub use crate::control::placement::*;
}

/// Plans: one split, merge or move that is proposed or runs, with its reason and its benefit.
pub mod plan {
    pub use crate::control::plan::*;
}

/// Relocation: replicas leave a node that is asked for more than it can do.
pub mod relocation {
    pub use crate::control::relocation::*;
}

/// Changes of partitions while accesses are decided: cuts, joins, moves and boosts.
pub mod reshape {
    pub use crate::control::reshape::*;
}

/// Samples of the keys that a partition is asked for, kept only while it is warm.
pub mod sketch {
    pub use crate::control::sketch::*;
}

/// The verdict on a partition that is asked for more than its ceiling: where to cut it, or why not.
pub mod split {
    pub use crate::control::split::*;
}

/// Warm throughput: what a table can reach at once, because its partitions are there or may be cut
/// without the delay of a verdict.
pub mod warm_throughput {
    pub use crate::control::warm_throughput::*;
}

//! `GET /v1/tables` and `POST /v1/placements`: the tables of the capacity plane.

use serde::{Deserialize, Serialize};

use crate::text::Text;

/// The tables and the nodes on which their partitions lie.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct TablesBody {
    /// The tables, in the order of the policy.
    pub tables: Vec<TableBody>,
    /// The nodes, in the order of the policy.
    pub nodes: Vec<NodeBody>,
}

/// A table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct TableBody {
    /// The namespace that it belongs to.
    pub namespace: String,
    /// Its name; that of an index is `table/index`.
    pub name: String,
    /// How its throughput moves between its partitions: `static`, `burst`, `adaptive` or `global`.
    pub mode: String,
    /// Its throughput of reading.
    pub read: OperationBody,
    /// Its throughput of writing.
    pub write: OperationBody,
    /// The number of its partitions.
    pub partition_count: u32,
    /// The partitions that were split since the table was first configured.
    pub splits: u64,
    /// The pairs of partitions that were merged since then.
    pub merges: u64,
    /// The partitions in the order of their ranges; absent unless one table was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partitions: Option<Vec<PartitionBody>>,
}

/// One operation of a table over all its partitions.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct OperationBody {
    /// Capacity units a second.
    pub provisioned: f64,
    /// Capacity units left, at most one second of them; the debts of partitions count as negative.
    pub left: f64,
    /// The accesses that were refused since the table was first configured.
    pub throttled: u64,
}

/// A partition.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct PartitionBody {
    /// Its number, never used twice in its table: a split and a merge give new ones.
    pub partition: u32,
    /// Its keys: by hash the first and the last hash, as 16 hexadecimal digits each; by slot the
    /// first and the last slot; by range the first key and the one behind the last.
    pub key_range: String,
    /// The node on which it lies.
    pub node: String,
    /// Its reads.
    pub read: DirectionBody,
    /// Its writes.
    pub write: DirectionBody,
}

/// The reads or the writes of a partition, in capacity units.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct DirectionBody {
    /// Units a second that the partition may use.
    pub rate: f64,
    /// Units a second that a partition serves at most: only a split gives more.
    pub ceiling: f64,
    /// Units left, at most one second of them; negative in debt.
    pub left: f64,
    /// Units of burst credit left.
    pub burst_left: f64,
    /// Units a second that were used in the last ten seconds.
    pub consumed: f64,
    /// Units a second that were refused in the last ten seconds, by the rate, the burst credit or
    /// the ceiling.
    pub throttled: f64,
}

/// A node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct NodeBody {
    /// Its name.
    pub name: String,
    /// Capacity units a second.
    pub units: f64,
    /// Capacity units that it has to spare; negative when its partitions have used more.
    pub left: f64,
}

/// The body of `POST /v1/placements`: a partition has moved to another node.
#[derive(Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Placement<'a> {
    /// The namespace of the table.
    #[serde(borrow)]
    #[cfg_attr(feature = "schema", schema(value_type = String, example = "shop"))]
    pub namespace: Text<'a>,
    /// The table.
    #[serde(borrow)]
    #[cfg_attr(feature = "schema", schema(value_type = String, example = "orders"))]
    pub table: Text<'a>,
    /// The number of the partition.
    pub partition: u32,
    /// The node on which it lies now.
    #[serde(borrow)]
    #[cfg_attr(feature = "schema", schema(value_type = String, example = "n2"))]
    pub node: Text<'a>,
}

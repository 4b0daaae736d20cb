//! The answers of a store and its changes, as events that can be checked.
//!
//! A simulator or a test writes one event for each answer and each change, in their order, and
//! gives them to an [`InvariantChecker`](crate::invariants::InvariantChecker). The events name
//! tables, nodes and partitions as the store does; levels are those that a refusal shows.

use tidegate_core::{AccessOperation, Timestamp};

use crate::capacity::Capacity;
use crate::hold::UnitsHold;
use crate::partition_id::PartitionId;
use crate::status::PartitionStatus;
use crate::throttled::{Bound, Throttled};
use crate::throughput::ChargePath;
use crate::units::Units;

/// How an access was admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AdmissionPath {
    /// From the allocation of its partition.
    Allocated,
    /// From the burst credit of its partition, and the room of nodes.
    Burst,
    /// From the room of nodes, under global admission.
    Spare,
}

/// A place of a partition in a trace: the position of its table, and its number.
pub type PartitionPlace = (usize, PartitionId);

/// One event of a run.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum TraceEvent {
    /// An access was admitted.
    Admitted {
        /// When.
        at: Timestamp,
        /// Its partition.
        place: PartitionPlace,
        /// Read or write.
        operation: AccessOperation,
        /// Its units.
        units: Units,
        /// How it was admitted.
        path: AdmissionPath,
        /// The member of the group that serves it.
        member: usize,
        /// The names of the nodes that serve it, the leader or the serving one first.
        nodes: Vec<String>,
    },
    /// An access was refused.
    Refused {
        /// When.
        at: Timestamp,
        /// Its partition.
        place: PartitionPlace,
        /// Read or write.
        operation: AccessOperation,
        /// Its units.
        units: Units,
        /// The bucket that refused it.
        bound: Bound,
        /// The level of that bucket.
        level: Units,
    },
    /// Units of an admitted access came back, or more were charged if negative.
    Returned {
        /// When.
        at: Timestamp,
        /// The partition that owns the position.
        place: PartitionPlace,
        /// Read or write.
        operation: AccessOperation,
        /// The units.
        units: Units,
        /// The nodes that served the access.
        nodes: Vec<String>,
        /// The member that served it.
        member: usize,
    },
    /// The partitions of a table as they are from now on, in the order of their ranges: at the
    /// beginning, and after each split, merge, move, boost and reload.
    Partitions {
        /// When.
        at: Timestamp,
        /// The position of the table.
        table: usize,
        /// The partitions.
        partitions: Vec<TracedPartition>,
    },
    /// A node as it is from now on.
    Node {
        /// Its name.
        name: String,
        /// Units a second that it can do.
        units: Units,
        /// Units a second that may be promised.
        promisable: Units,
    },
}

/// A partition in a trace.
#[derive(Clone, Debug, PartialEq)]
pub struct TracedPartition {
    /// Its number.
    pub id: PartitionId,
    /// When it, or one of the partitions that were joined to it, was last cut off from a neighbour.
    pub made_at: Option<Timestamp>,
    /// Its keys.
    pub range: crate::key_range::KeyRange,
    /// Base, rate and ceiling of reads and of writes, in units a second.
    pub rates: [[Units; 3]; 2],
    /// The seconds of its base that burst credit keeps.
    pub burst_seconds: u64,
    /// The names of the nodes of its group, the leader first.
    pub nodes: Vec<String>,
}

impl TracedPartition {
    /// A partition as it is shown, on these nodes.
    pub fn of(status: &PartitionStatus<'_>, burst_seconds: u64, nodes: Vec<String>) -> Self {
        let rates = [&status.read, &status.write].map(|one| [one.base, one.rate, one.ceiling]);
        let (id, made_at, range) = (status.id, status.made_at, status.range);
        Self { id, made_at, range, rates, burst_seconds, nodes }
    }
}

impl Capacity {
    /// The event of an access that was just admitted.
    pub fn admitted_event(&self, hold: &UnitsHold) -> TraceEvent {
        TraceEvent::Admitted {
            at: hold.charged_at(),
            place: (hold.table as usize, hold.partition()),
            operation: operation(hold),
            units: hold.units(),
            path: match hold.on_partition.path {
                ChargePath::Allocated => AdmissionPath::Allocated,
                ChargePath::Burst => AdmissionPath::Burst,
                ChargePath::Spare => AdmissionPath::Spare,
            },
            member: usize::from(hold.on_partition.member),
            nodes: self.serving_nodes(hold),
        }
    }

    /// The event of an access to the table at this position that was just refused.
    pub fn refused_event(table: usize, throttled: &Throttled<'_>, at: Timestamp) -> TraceEvent {
        TraceEvent::Refused {
            at,
            place: (table, throttled.partition),
            operation: throttled.operation,
            units: throttled.units,
            bound: throttled.bound,
            level: throttled.level,
        }
    }

    /// The event of `units` of a hold that are about to be given back, or charged if negative.
    pub fn returned_event(&self, hold: &UnitsHold, units: Units, at: Timestamp) -> TraceEvent {
        let table = hold.table as usize;
        let owner = self.tables[table].table.layout.owner(hold.position()).id;
        TraceEvent::Returned {
            at,
            place: (table, owner),
            operation: operation(hold),
            units,
            nodes: self.serving_nodes(hold),
            member: usize::from(hold.on_partition.member),
        }
    }

    /// The event of the partitions of the table at this position.
    pub fn partitions_event(&self, table: usize, now: Timestamp) -> TraceEvent {
        let entry = &self.tables[table].table;
        let plan = entry.layout.plan();
        let burst_seconds = plan.config.burst.as_secs();
        let members = entry.layout.map(&plan, |state| state.members);
        drop(plan);
        let statuses = self.partitions(&entry.namespace, &entry.name, now).expect("it is one of the tables");
        let partitions = statuses.zip(members).map(|(status, members)| {
            let nodes = members.as_slice().iter().map(|node| self.node_name(*node).to_owned());
            TracedPartition::of(&status, burst_seconds, nodes.collect())
        });
        TraceEvent::Partitions { at: now, table, partitions: partitions.collect() }
    }

    /// The members of the group of a hold as they were when it was charged: the nodes that do its
    /// work, whether they were charged or not.
    fn serving_nodes(&self, hold: &UnitsHold) -> Vec<String> {
        let members = self.tables[hold.table as usize].table.layout.owner(hold.position()).members;
        let member = usize::from(hold.on_partition.member);
        let serving = if hold.is_read { member..member + 1 } else { 0..members.as_slice().len() };
        let numbers = members.as_slice().get(serving).unwrap_or_default();
        numbers.iter().map(|number| self.node_name(*number).to_owned()).collect()
    }
}

const fn operation(hold: &UnitsHold) -> AccessOperation {
    if hold.is_read { AccessOperation::Read } else { AccessOperation::Write }
}

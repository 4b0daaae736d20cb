//! `GET /v1/tables` and `POST /v1/placements`: the tables of the capacity plane, and where their
//! partitions lie.

use http::StatusCode;
use tidegate_capacity::{OperationStatus, PartitionStatus, TableStatus};
use tidegate_engine::{EngineError, Event};
use tidegate_policy::policy::authorization::Verb;
use tidegate_wire::operation::read;
use tidegate_wire::tables::{NodeBody, OperationBody, PartitionBody, Placement, TableBody, TablesBody};
use tidegate_wire::{Fault, FaultCode};

use crate::audit::Operation;
use crate::authorization::Caller;
use crate::context::Desk;
use crate::decide::engine_fault;
use crate::parameters::Accepted;
use tidegate_net::reply::{self, Reply};

/// The parameters of the route.
pub(crate) const TABLES: Accepted =
    Accepted { route: "/v1/tables", once: &["namespace", "table"], repeated: &[] };

impl Desk<'_> {
    /// Answers `GET /v1/tables`.
    pub(crate) fn tables(&self, query: Option<&str>) -> Result<Reply, Fault> {
        let parameters = TABLES.read(query)?;
        let (engine, now) = (&self.in_force.engine, self.daemon.clock.now());
        let wanted = (parameters.get("namespace"), parameters.get("table"));
        let partitions = match wanted {
            (Some(namespace), Some(table)) => {
                self.in_force.config.planes.check_owner(namespace, table)?;
                let partitions = engine.partition_statuses(namespace, table, now);
                let partitions = partitions.map_err(|error| engine_fault(&error, now))?;
                Some((0..).zip(partitions).map(partition).collect())
            }
            (None, Some(_)) => {
                return Err(Fault::new(
                    FaultCode::MalformedQuery,
                    "a table is asked for without its namespace",
                )
                .field("namespace")
                .fix("add namespace=... to the query"));
            }
            (Some(namespace), None) => {
                self.check_selection(namespace, None)?;
                None
            }
            (None, None) => None,
        };
        let is_wanted = |table: &TableStatus<'_>| {
            wanted.0.is_none_or(|namespace| namespace == table.namespace)
                && wanted.1.is_none_or(|name| name == table.name)
        };
        let tables = engine.table_statuses(now).filter(is_wanted).map(|status| TableBody {
            namespace: status.namespace.to_owned(),
            name: status.name.to_owned(),
            read: operation(status.read),
            write: operation(status.write),
            partition_count: status.partitions,
            partitions: None,
        });
        let mut tables: Vec<TableBody> = tables.collect();
        if let (Some(partitions), [table]) = (partitions, &mut tables[..]) {
            table.partitions = Some(partitions);
        }
        let nodes = engine.node_statuses(now).map(|node| NodeBody {
            name: node.name.to_owned(),
            units: node.rate.as_f64(),
            left: node.left.as_f64(),
        });
        Ok(reply::json(StatusCode::OK, &TablesBody { tables, nodes: nodes.collect() }))
    }

    /// Answers `POST /v1/placements`.
    pub(crate) fn place(&self, caller: &Caller, body: &[u8]) -> Result<Reply, Fault> {
        let Placement { namespace, table, partition: number, node } = read(body)?;
        caller.may(Verb::Change, &namespace)?;
        self.in_force.config.planes.check_owner(&namespace, &table)?;
        let now = self.daemon.clock.now();
        let placement =
            Event::Placement { namespace: &namespace, table: &table, partition: number, node: &node };
        let engine = &self.in_force.engine;
        engine.event(placement, now).map_err(|error| match &error {
            // The table exists, so the partition or the node does not, or the node cannot bear it.
            EngineError::Access(what) if !is_unknown_table(&error) => {
                Fault::new(FaultCode::MalformedBody, what).fix("see GET /v1/tables for partitions and nodes")
            }
            _ => engine_fault(&error, now),
        })?;
        let operation = Operation {
            verb: Verb::Change,
            namespace: &namespace,
            limit: None,
            attributes: &[("table", &table), ("partition", &number.to_string()), ("node", &node)],
            outcome: "a partition was placed on a node",
        };
        self.daemon.audit.operation(caller, &operation, now);
        let mut placed =
            engine.partition_statuses(&namespace, &table, now).map_err(|error| engine_fault(&error, now))?;
        let placed = placed.nth(number as usize).expect("it was placed just now");
        Ok(reply::json(StatusCode::OK, &partition((number, placed))))
    }
}

fn is_unknown_table(error: &EngineError) -> bool {
    use tidegate_capacity::CapacityError::UnknownTable;
    matches!(error, EngineError::UnknownTable { .. } | EngineError::Access(UnknownTable { .. }))
}

fn operation(status: OperationStatus) -> OperationBody {
    OperationBody {
        provisioned: status.rate.as_f64(),
        left: status.left.as_f64(),
        throttled: status.throttled,
    }
}

fn partition((partition, status): (u32, PartitionStatus<'_>)) -> PartitionBody {
    PartitionBody {
        partition,
        key_range: status.range.to_string(),
        node: status.node.to_owned(),
        read: status.read_rate.as_f64(),
        read_left: status.read_left.as_f64(),
        write: status.write_rate.as_f64(),
        write_left: status.write_left.as_f64(),
    }
}

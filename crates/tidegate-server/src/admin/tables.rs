//! `GET /v1/tables` and `POST /v1/placements`: the tables of the capacity plane, and where their
//! partitions lie.

use core::iter;
use std::sync::Arc;

use http::StatusCode;
use tidegate_capacity::{
    CapacityError, DirectionStatus, OperationStatus, PartitionStatus, TableStatus, Units,
};
use tidegate_core::Timestamp;
use tidegate_engine::{AdminError, Engine, Event, RequestError};
use tidegate_net::connections::ConnectionActivity;
use tidegate_net::reply::{self, Reply};
use tidegate_policy::policy::authorization::Verb;
use tidegate_wire::answer;
use tidegate_wire::operation::read;
use tidegate_wire::tables::{DirectionBody, NodeBody, OperationBody, PartitionBody, Placement, TableBody};
use tidegate_wire::{Fault, FaultCode};

use crate::api::parameters::Accepted;
use crate::api::route::Route;
use crate::authorization::Caller;
use crate::context::RequestScope;
use crate::engine_fault::engine_fault;
use crate::records::audit::Operation;

/// The parameters of the route.
const TABLES: Accepted = Accepted { route: "/v1/tables", once: &["namespace", "table"], repeated: &[] };

/// The routes.
pub(crate) const ROUTES: &[Route] = &[
    Route::get("/v1/tables", "The tables, and where their partitions lie", |call| {
        Box::pin(async move { call.scope.tables(call.query(), call.line) })
    })
    .answers("TablesBody")
    .query(TABLES),
    Route::post("/v1/placements", "Say on which node a partition lies", |call| {
        call.with_body(|scope, caller, body| async move { scope.place(caller, &body) })
    })
    .takes("Placement")
    .answers("PartitionBody"),
];

impl RequestScope<'_> {
    /// Answers `GET /v1/tables`.
    fn tables(&self, query: Option<&str>, line: &Arc<ConnectionActivity>) -> Result<Reply, Fault> {
        let parameters = TABLES.read(query)?;
        let (engine, now) = (&self.in_force.engine, self.daemon.clock.now());
        let wanted = (parameters.get("namespace"), parameters.get("table"));
        let partitions = match wanted {
            (Some(namespace), Some(table)) => {
                self.check_selection(namespace, None)?;
                self.in_force.config.planes.check_owner(namespace, table)?;
                let partitions = engine.partition_statuses(namespace, table, now);
                let partitions = partitions.map_err(|error| engine_fault(&error, now))?;
                Some(partitions.map(|status| partition(&status)).collect())
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
        let wanted = (wanted.0.map(str::to_owned), wanted.1.map(str::to_owned));
        let pieces = pieces(Arc::clone(engine), now, wanted, partitions);
        reply::streamed(StatusCode::OK, reply::JSON, pieces, line, self.daemon.config.bounds.idle_timeout)
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
            AdminError::Request(RequestError::Access(what)) if !is_unknown_table(what) => {
                Fault::new(FaultCode::MalformedBody, what).fix("see GET /v1/tables for partitions and nodes")
            }
            _ => self.admin_fault(&error, now),
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
        let placed = placed.find(|status| status.id.0 == number).ok_or_else(|| gone(number))?;
        Ok(reply::json(StatusCode::OK, &partition(&placed)))
    }
}

/// How many tables are looked at for one piece of the list.
const TABLES_PER_PIECE: usize = 64;

/// The pieces of a [`TablesBody`] with the tables that are wanted by namespace and name; the one
/// that is wanted by both has `partitions`.
fn pieces(
    engine: Arc<Engine>,
    now: Timestamp,
    wanted: (Option<String>, Option<String>),
    mut partitions: Option<Vec<PartitionBody>>,
) -> impl Iterator<Item = Vec<u8>> + Send {
    let nodes = Arc::clone(&engine);
    let (mut first, mut separator) = (0, "");
    let tables = move || {
        let before = first;
        let mut piece = Vec::new();
        for status in engine.table_statuses(first, now).take(TABLES_PER_PIECE) {
            first += 1;
            let is_wanted = wanted.0.as_ref().is_none_or(|namespace| namespace == status.namespace)
                && wanted.1.as_ref().is_none_or(|name| name == status.name);
            if is_wanted {
                piece.extend_from_slice(separator.as_bytes());
                separator = ",";
                let partitions = if wanted.1.is_some() { partitions.take() } else { None };
                answer::write(&table(&status, partitions), &mut piece);
            }
        }
        (first > before).then_some(piece)
    };
    let end = move || {
        let nodes = nodes.node_statuses(now).map(|node| NodeBody {
            name: node.name.to_owned(),
            units: node.rate.as_f64(),
            left: node.left.as_f64(),
        });
        let mut piece = b"],\"nodes\":".to_vec();
        answer::write(&nodes.collect::<Vec<_>>(), &mut piece);
        piece.push(b'}');
        piece
    };
    let begin = b"{\"tables\":[".to_vec();
    let tables = iter::from_fn(tables).filter(|piece| !piece.is_empty());
    iter::once(begin).chain(tables).chain(iter::once_with(end))
}

/// The fault of a partition that was split or merged right after it was placed.
fn gone(number: u32) -> Fault {
    let what = format!("partition {number} was placed, and has been split or merged since");
    Fault::new(FaultCode::MalformedBody, what).field("partition").fix("see GET /v1/tables for partitions")
}

fn table(status: &TableStatus<'_>, partitions: Option<Vec<PartitionBody>>) -> TableBody {
    TableBody {
        namespace: status.namespace.to_owned(),
        name: status.name.to_owned(),
        mode: status.mode.as_str().to_owned(),
        read: operation(status.read),
        write: operation(status.write),
        partition_count: status.partitions,
        splits: status.splits,
        merges: status.merges,
        partitions,
    }
}

fn is_unknown_table(error: &CapacityError) -> bool {
    matches!(error, CapacityError::UnknownTable { .. })
}

fn operation(status: OperationStatus) -> OperationBody {
    OperationBody {
        provisioned: status.rate.as_f64(),
        left: status.left.as_f64(),
        throttled: status.throttled,
    }
}

fn partition(status: &PartitionStatus<'_>) -> PartitionBody {
    PartitionBody {
        partition: status.id.0,
        key_range: status.range.to_string(),
        node: status.node.to_owned(),
        read: direction(&status.read, status.read_left),
        write: direction(&status.write, status.write_left),
    }
}

fn direction(status: &DirectionStatus, left: Units) -> DirectionBody {
    DirectionBody {
        rate: status.rate.as_f64(),
        ceiling: status.ceiling.as_f64(),
        left: left.as_f64(),
        burst_left: status.burst_left.as_f64(),
        consumed: status.recently_consumed.as_f64(),
        throttled: status.recently_throttled.as_f64(),
    }
}

//! The connections that several waiting requests share, such as those of HTTP/2.
//!
//! The memory of a connection counts once, for the request of it that has waited longest. When that
//! request leaves, the charge passes to the next one: it ends with the last request of the
//! connection and not before.

use core::num::NonZeroU64;
use std::collections::{BTreeMap, BTreeSet};

use super::entrant::Position;
use super::waiting_connection::WaitingConnection;

/// The requests in the room whose connection counts by itself.
#[derive(Clone, Debug, Default)]
pub(super) struct WaitingConnections {
    of: BTreeMap<Position, WaitingConnection>,
    by_id: BTreeSet<(NonZeroU64, Position)>,
}

impl WaitingConnections {
    /// The bytes that a request of this connection is charged for it when it enters now.
    pub(super) fn bytes_on_entry(&self, connection: Option<WaitingConnection>) -> usize {
        let is_new = |one: &WaitingConnection| self.first(one.id).is_none();
        connection.filter(is_new).map_or(0, |one| one.bytes as usize)
    }

    /// A request has entered, behind all others.
    pub(super) fn enter(&mut self, position: Position, connection: WaitingConnection) {
        self.of.insert(position, connection);
        self.by_id.insert((connection.id, position));
    }

    /// A request leaves. The request to which the charge for its connection passes, and the charge.
    pub(super) fn leave(&mut self, position: Position) -> Option<(Position, WaitingConnection)> {
        let connection = self.of.remove(&position)?;
        let was_first = self.first(connection.id) == Some(position);
        self.by_id.remove(&(connection.id, position));
        let heir = self.first(connection.id).filter(|_| was_first)?;
        Some((heir, connection))
    }

    /// The connection of a request, if it counts by itself.
    pub(super) fn connection(&self, position: Position) -> Option<WaitingConnection> {
        self.of.get(&position).copied()
    }

    /// The request that is charged for a connection.
    fn first(&self, id: NonZeroU64) -> Option<Position> {
        let all = (id, Position::new(0))..=(id, Position::new(u64::MAX));
        self.by_id.range(all).next().map(|(_, position)| *position)
    }
}

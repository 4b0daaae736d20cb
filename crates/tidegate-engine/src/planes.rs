//! The capacity and overload planes of an engine.

use std::sync::Arc;

use tidegate_capacity::Capacity;
use tidegate_core::Timestamp;
use tidegate_overload::{Obstacle, Overload};

use crate::place::OverloadPlane;
use crate::sync::Arc as RoomArc;
use crate::table_leases::TableLeases;
use crate::waiting_room::Room;

/// The planes beside the limits.
#[derive(Clone, Debug, Default)]
pub(crate) struct Planes {
    pub(crate) capacity: Option<Arc<Capacity>>,
    /// How the tables of the capacity plane are leased; none where this member decides alone.
    pub(crate) table_leases: Arc<TableLeases>,
    pub(crate) overload: Option<Arc<OverloadPlane>>,
}

impl Planes {
    /// `leases_by` is given where tables are leased, to find them by.
    pub(crate) fn new(
        capacity: Option<Capacity>,
        leases_by: Option<&ahash::RandomState>,
        overload: Option<Overload>,
        room: &RoomArc<Room>,
        now: Timestamp,
    ) -> Self {
        let overload =
            overload.map(|overload| Arc::new(OverloadPlane { overload, room: RoomArc::clone(room) }));
        let table_leases = capacity.as_ref().zip(leases_by);
        let table_leases =
            table_leases.map(|(capacity, hasher)| TableLeases::from_capacity(capacity, hasher));
        let table_leases = Arc::new(table_leases.unwrap_or_default());
        let planes = Self { capacity: capacity.map(Arc::new), table_leases, overload };
        planes.bound_waiting(room, now);
        planes
    }

    /// Sets the bounds and the order of the requests that wait for each resource, and calls those
    /// that wait for places: there may be more of them.
    fn bound_waiting(&self, room: &Room, now: Timestamp) {
        let overload = self.overload.as_ref().map(|plane| &plane.overload);
        room.set_queues(overload.into_iter().flat_map(Overload::queues), now);
        self.bound_resources(room);
    }

    /// Has the resources divide their numbers by so many members.
    pub(crate) fn set_members(&self, members: u32, room: &Room) {
        if let Some(plane) = &self.overload {
            plane.overload.set_members(members);
            self.bound_resources(room);
        }
    }

    fn bound_resources(&self, room: &Room) {
        let overload = self.overload.as_ref().map(|plane| &plane.overload);
        room.set_resource_bounds(overload.into_iter().flat_map(Overload::waiting_bounds));
        for (resource, _) in overload.into_iter().flat_map(Overload::resources) {
            room.returned(Obstacle::Place(resource));
        }
    }
}

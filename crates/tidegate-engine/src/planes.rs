//! The capacity and overload planes of an engine.

use std::sync::Arc;

use tidegate_capacity::Capacity;
use tidegate_overload::{Obstacle, Overload};

use crate::place::OverloadPlane;
use crate::sync::Arc as RoomArc;
use crate::waiting_room::Room;

/// The planes beside the limits.
#[derive(Clone, Debug, Default)]
pub(crate) struct Planes {
    pub(crate) capacity: Option<Arc<Capacity>>,
    pub(crate) overload: Option<Arc<OverloadPlane>>,
}

impl Planes {
    pub(crate) fn new(capacity: Option<Capacity>, overload: Option<Overload>, room: &RoomArc<Room>) -> Self {
        let overload =
            overload.map(|overload| Arc::new(OverloadPlane { overload, room: RoomArc::clone(room) }));
        let planes = Self { capacity: capacity.map(Arc::new), overload };
        planes.bound_waiting(room);
        planes
    }

    /// Sets what may wait for each resource, and calls the requests that wait for places: there may
    /// be more of them.
    fn bound_waiting(&self, room: &Room) {
        let overload = self.overload.as_ref().map(|plane| &plane.overload);
        room.set_resource_bounds(overload.into_iter().flat_map(Overload::waiting_bounds));
        for (resource, _) in overload.into_iter().flat_map(Overload::resources) {
            room.returned(Obstacle::Place(resource));
        }
    }
}

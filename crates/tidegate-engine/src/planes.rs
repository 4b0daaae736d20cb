//! The capacity and overload planes of an engine, which a reload may replace.

use std::sync::Arc;

use tidegate::Timestamp;
use tidegate_capacity::{Capacity, CapacityBuilder};
use tidegate_overload::{Obstacle, Overload, OverloadBuilder};

use crate::engine::Engine;
use crate::error::EngineError;
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

impl Engine {
    /// The same engine with these tables and resources. What is known of them goes on by name: see
    /// [`CapacityBuilder::build_over`] and [`OverloadBuilder::build_over`].
    ///
    /// An error changes nothing. As with [`Engine::reconfigured`], this engine may go on to decide
    /// until the other is in force.
    pub fn with_planes(
        &self,
        capacity: CapacityBuilder,
        overload: OverloadBuilder,
        now: Timestamp,
    ) -> Result<Self, EngineError> {
        let capacity = match &self.planes.capacity {
            Some(earlier) => Some(capacity.build_over(earlier, now).map_err(EngineError::Tables)?),
            None if capacity.has_tables() => Some(capacity.build().map_err(EngineError::Tables)?),
            None => None,
        };
        // Nothing fails after this: the resources are shared, and have their new bounds at once.
        let overload = match &self.planes.overload {
            Some(plane) => Some(overload.build_over(&plane.overload).map_err(EngineError::Resources)?),
            None if overload.has_resources() => Some(overload.build().map_err(EngineError::Resources)?),
            None => None,
        };
        let planes = Planes::new(capacity, overload, &self.shared.room);
        let engine = self.with(planes);
        engine.share_waiting_room();
        Ok(engine)
    }
}

//! The requests of the last seconds at a resource.

use tidegate_core::Class;
use tidegate_overload::{Cursor, RecentActivity, ResourceId};

use crate::engine::Engine;

impl Engine {
    /// The requests of the last ten seconds at a resource, by class and namespace; `None` without
    /// an overload plane.
    pub fn recent_activity(&self, resource: ResourceId) -> Option<RecentActivity> {
        Some(self.overload()?.resource(resource).recent_activity())
    }

    /// The requests that wait for a place of a resource, by namespace and class; the namespaces
    /// that are not told apart have no number.
    pub fn waiting_by_namespace(&self, resource: ResourceId) -> Vec<(Option<u32>, Class, u64)> {
        self.room_of(resource).waiting_by_namespace(resource)
    }

    /// The position of the admission cursor of a namespace, in the most important class of which
    /// its requests are shed.
    pub fn namespace_cursor(&self, resource: ResourceId, namespace: u32) -> Option<Cursor> {
        Some(self.overload()?.resource(resource).namespace_cursor(namespace))
    }

    /// The namespace with this number; `None` if a reload has removed it.
    pub fn namespace_name(&self, number: u32) -> Option<&str> {
        let gate = self.gates.iter().find(|gate| u32::from(gate.owner().get()) == number);
        gate.map(|gate| gate.namespace())
    }
}

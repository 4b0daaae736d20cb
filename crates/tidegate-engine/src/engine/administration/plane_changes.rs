//! Other tables and resources over the same state.

use std::sync::atomic::Ordering;

use tidegate_capacity::CapacityBuilder;
use tidegate_core::Timestamp;
use tidegate_overload::{NamespaceShares, OverloadBuilder};

use crate::engine::{Engine, hasher};
use crate::error::BuildError;
use crate::planes::Planes;

impl Engine {
    /// The same engine with these tables and resources. They keep their state by name: see
    /// [`CapacityBuilder::build_over`] and [`OverloadBuilder::build_over`].
    ///
    /// An error changes nothing. As with [`Engine::reconfigured`], this engine may go on to decide
    /// until the other is in force.
    pub fn with_planes(
        &self,
        capacity: CapacityBuilder,
        overload: OverloadBuilder,
        now: Timestamp,
    ) -> Result<Self, BuildError> {
        let earlier = self.planes.capacity.as_deref();
        let capacity = if earlier.is_some() || capacity.has_tables() {
            Some(capacity.check(earlier).map_err(BuildError::Tables)?)
        } else {
            None
        };
        let overload = match &self.planes.overload {
            Some(plane) => Some(overload.build_over(&plane.overload).map_err(BuildError::Resources)?),
            None if overload.has_resources() => Some(overload.build().map_err(BuildError::Resources)?),
            None => None,
        };
        if let Some(overload) = &overload {
            // Relaxed: members and planes are changed one after the other.
            overload.set_members(self.shared.members.load(Ordering::Relaxed));
        }
        // Nothing fails after this. Tables and resources are shared, and have their new numbers at
        // once.
        let capacity = capacity.map(|capacity| capacity.apply(now));
        let leases_by = self.shared.has_shared_store().then(|| hasher(self.shared.config.table.seed));
        let planes = Planes::new(capacity, leases_by.as_ref(), overload, &self.shared.room, now);
        let names = self.gates.iter().map(|gate| gate.namespace());
        let rehearsal = Self::rehearsal(&self.shared, &planes, names, now);
        let engine = self.with(planes, rehearsal);
        engine.share_waiting_room();
        engine.renew_feature_pins(now);
        Ok(engine)
    }

    /// Sets the shares of namespaces within each class of a resource, by their names, in place of
    /// earlier ones. [`NamespaceShares`] has their range; a namespace that is left out has 1.
    ///
    /// Names of namespaces and resources that this engine does not have are ignored. The shares
    /// belong to the resource, which engines over the same state have in common, and
    /// [`Engine::with_planes`] keeps them. After a reload that adds a namespace, set them again.
    pub fn set_namespace_shares<'a>(&self, resource: &str, shares: impl IntoIterator<Item = (&'a str, u32)>) {
        let Some(overload) = self.overload() else { return };
        let Some((id, _)) = overload.resources().find(|(_, name)| *name == Some(resource)) else { return };
        let numbered = shares.into_iter().filter_map(|(namespace, share)| {
            let gate = self.gate(namespace).ok()?;
            Some((u32::from(gate.owner().get()), share))
        });
        let shares = NamespaceShares::new(numbered);
        overload.set_namespace_shares(id, &shares);
        self.shared.room.set_namespace_shares(id, &shares);
        if let Some(state) = self.shared.rehearsal.get() {
            state.room().set_namespace_shares(id, &shares);
        }
    }

    /// Sets the namespaces of which requests become [streams](crate::Request::is_stream) of a
    /// resource, by their names, in place of earlier ones. Each has a part of its bound on streams,
    /// by the [shares](Engine::set_namespace_shares), which are set before.
    ///
    /// Names that this engine does not have are ignored. After a reload that adds a namespace, set
    /// them again.
    pub fn set_stream_namespaces<'a>(&self, resource: &str, namespaces: impl IntoIterator<Item = &'a str>) {
        let Some(overload) = self.overload() else { return };
        let Some((id, _)) = overload.resources().find(|(_, name)| *name == Some(resource)) else { return };
        let numbered = namespaces.into_iter().filter_map(|namespace| {
            let gate = self.gate(namespace).ok()?;
            Some(u32::from(gate.owner().get()))
        });
        overload.set_stream_namespaces(id, numbered);
    }
}

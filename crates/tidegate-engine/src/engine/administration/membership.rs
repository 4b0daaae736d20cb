//! Taking over what other members of a fleet have written into the store that all share.

use std::sync::atomic::Ordering;

use tidegate_core::NamespaceConfig;
use tidegate_store::NoteChange;

use crate::engine::Engine;
use crate::error::BuildError;
use crate::lineage::Lineage;
use crate::overrides::{Overrides, RuntimeOverride};

impl Engine {
    /// Another engine over the same state and with the same limits, under the names and overrides
    /// that a shared store has, and what the store does not have yet; `None` if it would be the
    /// same engine and the store has all there is.
    ///
    /// Overrides that the store does not have are gone: another member has taken them away.
    /// [`BuildError::TooManyOverrides`] if there are more than [`crate::RUNTIME_OVERRIDES_MAX`];
    /// nothing is changed then.
    pub fn joined(
        &self,
        lineage: &Lineage,
        overrides: impl IntoIterator<Item = RuntimeOverride>,
    ) -> Result<Option<(Self, Vec<NoteChange>)>, BuildError> {
        let mut all = Overrides::default();
        for one in overrides {
            if !all.set(one) {
                return Err(BuildError::TooManyOverrides);
            }
        }
        if all == self.overrides && *lineage == *self.lineage {
            return Ok(None);
        }
        let (engine, world) = self.rebuilt(self.as_configured(), lineage, all)?;
        let mut notes = engine.lineage.changes_since(lineage);
        notes.extend(world.renamed.iter().filter_map(|one| one.to_note().map(NoteChange::Put)));
        // A name that only this member has, of a limit that another policy than its own has, is not
        // there to be read back.
        if notes.is_empty() && engine.overrides == self.overrides && engine.lineage == self.lineage {
            return Ok(None);
        }
        Ok(Some((engine, notes)))
    }

    /// Takes in how many members share the store; 0 counts as 1, which it is until it is said. The
    /// resources that have a [share](tidegate_overload::ResourceConfig::share) take their parts.
    /// Another engine over the same state if that changes the part that a
    /// [divided](tidegate_core::Limit::divided) limit gives this member: what is used stays used.
    ///
    /// The number of members also sets the share that a key without a lease may spend while the
    /// store is silent.
    pub fn with_members(&self, members: u32) -> Result<Option<Self>, BuildError> {
        let members = members.max(1);
        if let Some(leases) = self.shared.leases() {
            leases.set_members(members);
        }
        let before = self.shared.members.swap(members, Ordering::Relaxed);
        if before != members {
            self.planes.set_members(members, &self.shared.room);
            if let (Some(rehearsal), Some(state)) = (&self.rehearsal, self.shared.rehearsal.get()) {
                rehearsal.planes.set_members(members, state.room());
            }
        }
        let is_divided = self.gates.iter().any(|gate| gate.limits().any(|limit| limit.is_divided));
        if before == members || !is_divided {
            return Ok(None);
        }
        let (engine, _) = self.rebuilt(self.as_configured(), &self.lineage, self.overrides.clone())?;
        Ok(Some(engine))
    }

    fn as_configured(&self) -> Vec<NamespaceConfig> {
        self.gates.iter().map(|gate| NamespaceConfig::from(&**gate)).collect()
    }
}

//! Taking over what other members of a fleet have written into the store that all share.

use std::sync::Arc;

use tidegate_store::NoteChange;

use super::{Engine, EngineError, NamespaceConfig};
use crate::lineage::Lineage;
use crate::overrides::{Overrides, RuntimeOverride};

impl Engine {
    /// Another engine over the same state and with the same limits, under the names and overrides that a shared store has,
    /// and what the store does not have yet; `None` if it would be the same engine and the store has all there is.
    ///
    /// Overrides that the store does not have are gone: another member has taken them away.
    /// [`EngineError::TooManyOverrides`] if there are more than [`crate::RUNTIME_OVERRIDES_MAX`]; nothing is changed then.
    pub fn joined(
        &self,
        lineage: &Lineage,
        overrides: impl IntoIterator<Item = RuntimeOverride>,
    ) -> Result<Option<(Self, Vec<NoteChange>)>, EngineError> {
        let mut all = Overrides::default();
        for one in overrides {
            if !all.set(one) {
                return Err(EngineError::TooManyOverrides);
            }
        }
        if all == self.overrides && *lineage == *self.lineage {
            return Ok(None);
        }
        let namespaces = self.gates.iter().map(|gate| NamespaceConfig {
            name: gate.namespace().to_owned(),
            limits: gate.limits().cloned().collect(),
        });
        let (engine, world) = Self::of_world(Arc::clone(&self.shared), namespaces.collect(), lineage, all)?;
        let mut notes = engine.lineage.changes_since(lineage);
        notes.extend(world.renamed.iter().filter_map(|one| one.to_note().map(NoteChange::Put)));
        // A name that only this member has, of a limit that another policy than its own has, is not there to be read back.
        if notes.is_empty() && engine.overrides == self.overrides && engine.lineage == self.lineage {
            return Ok(None);
        }
        Ok(Some((engine, notes)))
    }
}

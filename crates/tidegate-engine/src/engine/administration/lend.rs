//! Lending the limits of a namespace although no members share the store.

use crate::engine::Engine;
use crate::engine::administration::configuration::{build_gate, next_generation};
use crate::error::{AdminError, RequestError};

impl Engine {
    /// Whether the limits of a namespace are lent, those that can be: by a store that members
    /// share, or by this process since [`Engine::with_lent`]. `false` of a namespace that there is
    /// not.
    pub fn lends(&self, namespace: &str) -> bool {
        // An engine that is older than the first one that lends them goes on to count by itself.
        let is_lent = || self.shared.lent.since(namespace).is_some_and(|since| since <= self.generation);
        (self.shared.has_shared_store() || is_lent()) && self.by_name.contains_key(namespace)
    }

    /// Another engine over the same state that lends the limits of a namespace, so that others than
    /// this process may hold parts of them; `None` if they [are lent](Engine::lends) already. All
    /// later engines over the same state lend them, too.
    ///
    /// Lent are [lendable](tidegate_core::Limit::is_lendable) rates without debt. Their ledgers are
    /// in this process, and answer its own asks at once: no request waits for its lease. The usage
    /// of a key is kept: it is moved to the ledger ahead of the first grant. All other limits are
    /// counted where they were. Lent numbers follow the rules of leased limits: from then on an
    /// override with numbers that cannot be leased is an error.
    ///
    /// An error changes nothing.
    pub fn with_lent(&self, namespace: &str) -> Result<Option<Self>, AdminError> {
        let unknown = || RequestError::UnknownNamespace(namespace.chars().take(128).collect());
        let index = *self.by_name.get(namespace).ok_or_else(unknown)?;
        if self.lends(namespace) {
            return Ok(None);
        }
        self.shared.own_leases();
        let config = (&*self.gates[index]).into();
        let gate = build_gate(&self.shared, config, &self.lineage, &self.overrides, true)?;
        // Nothing fails after this.
        let generation = next_generation(&self.shared);
        self.shared.lent.add(namespace, generation);
        let mut gates = self.gates.clone();
        gates[index] = gate.into();
        Ok(Some(Self { gates, generation, ..self.with_same_planes() }))
    }
}

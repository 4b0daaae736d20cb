//! A namespace as it is configured.

use crate::gate::Gate;
use crate::limit::{CostRow, Limit, Plans};

/// A namespace: an isolated set of limits.
///
/// ```
/// # use tidegate_core::{Limit, NamespaceConfig};
/// let api = NamespaceConfig::new("api", [Limit::rate("per-user", "100/s")?.key(["user"])]);
/// assert_eq!((api.name.as_str(), api.limits.len()), ("api", 1));
/// # Ok::<(), tidegate_core::GateError>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct NamespaceConfig {
    /// Its name, 1 to [`NamespaceConfig::NAME_BYTES_MAX`] bytes.
    pub name: String,
    /// Its limits.
    pub limits: Vec<Limit>,
    /// Its plans; `None` where its limits have no numbers for plans.
    pub plans: Option<Plans>,
    /// The costs of requests that do not say theirs; see [`CostRow`].
    pub costs: Vec<CostRow>,
}

impl NamespaceConfig {
    /// The longest name in bytes.
    pub const NAME_BYTES_MAX: usize = 128;

    /// A namespace of this name with these limits; without limits it admits everything. The engine
    /// that is built of it checks both.
    pub fn new(name: impl Into<String>, limits: impl IntoIterator<Item = Limit>) -> Self {
        let limits = limits.into_iter().collect();
        Self { name: name.into(), limits, plans: None, costs: Vec::new() }
    }

    /// The same namespace with these plans, or with none.
    #[must_use]
    pub fn plans(mut self, plans: impl Into<Option<Plans>>) -> Self {
        self.plans = plans.into();
        self
    }

    /// The same namespace with these rows at the end of its cost table.
    #[must_use]
    pub fn costs(mut self, rows: impl IntoIterator<Item = CostRow>) -> Self {
        self.costs.extend(rows);
        self
    }
}

impl From<&Gate> for NamespaceConfig {
    /// The namespace that the gate was made of.
    fn from(gate: &Gate) -> Self {
        Self {
            name: gate.namespace().to_owned(),
            limits: gate.limits().cloned().collect(),
            plans: gate.plans().cloned(),
            costs: gate.costs().to_vec(),
        }
    }
}

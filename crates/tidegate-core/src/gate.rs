//! The gate: all limits of a namespace that match a request are charged, or none is.
//!
//! **Guarantee.** A refused request leaves every limit as it was. In sequence nothing is even
//! written: the gate first reads the state of every matching limit and decides; only when all admit
//! does it write, each limit by one compare-and-swap from the very state it decided on. If another
//! thread has changed a state in between, that limit is decided again; if it then refuses, the
//! charges made so far are taken back with [`Counter::undo`]. A concurrent request may be refused
//! because of a charge that is then taken back; never the reverse.
//!
//! **Refusals.** The limit that binds longest comes first, and every violated one is
//! listed.
//!
//! [`Counter::undo`]: crate::algorithm::Counter::undo

mod brought_back;
mod build;
mod carried;
mod charge;
mod decide;
mod explain;
mod kept_specs;
mod lateness;
mod leased;
mod located;
mod located_counters;
mod numbers;
mod operations;
mod permit;
mod probe;
mod store_limits;
mod unread_refusal;
#[cfg(feature = "calendar")]
mod zone_specs;

#[cfg(test)]
#[cfg(tidegate_loom)]
mod loom;
#[cfg(test)]
#[cfg(not(tidegate_loom))]
mod tests;

use core::fmt;
use std::sync::Arc;

pub use build::{GateBuilder, GateError};
pub use carried::{Carried, CarriedFeature, CarriedLimit, CarriedStatus, CarryError, Charging};
pub use decide::Decision;
pub use explain::{
    Counting, DecidedBy, Explanation, FoundPlan, FoundZone, Level, NumbersOf, Outlook, PlanSource, Standing,
    ZoneOf,
};
pub use leased::{LeasedLimit, StoreName};
pub use located::LocatedRequest;
pub use located_counters::LocatedCounters;
pub use operations::{MetLimit, Peek, TableFull};
pub use permit::{LimitStatus, Permit};
pub use store_limits::{CounterPlace, ExactLimit, LocalLimit, Located};

pub use unread_refusal::UnreadRefusal;

pub use crate::scope::KeyBytes;

use crate::attributes::{Attributes, is_same_name};
use crate::cost::Cost;
use crate::limit::{CostRow, Limit, Plans};
use crate::scope::Names;
use crate::shares::Owner;
use crate::table::KeyTable;
use crate::text::Text;

/// The limits of one namespace over a table of keyed state. The first example of the crate shows
/// its use.
///
/// ```
/// # use std::time::Duration;
/// # use tidegate_core::{Cost, Gate, Limit, Timestamp};
/// let per_user = Limit::rate("per-user", "2/s")?.key(["user"]);
/// let gate = Gate::builder("api").limit(per_user).build()?;
/// let now = Timestamp::from_secs(1_800_000_000);
/// let all = Cost::new(2).unwrap();
/// assert!(gate.check(&[("user", "ada")], all, now).is_admit());
/// let refusal = gate.check(&[("user", "ada")], Cost::ONE, now).into_result().unwrap_err();
/// assert_eq!(refusal.name(), "per-user");
/// assert_eq!(refusal.retry().after(now), Some(Duration::from_millis(500)));
/// assert!(gate.check(&[("user", "bob")], all, now).is_admit());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Gate {
    pub(crate) namespace: Arc<str>,
    /// The namespace as refusals own it.
    pub(crate) namespace_text: Text,
    pub(crate) owner: Owner,
    pub(crate) table: Arc<KeyTable>,
    pub(crate) names: Names,
    pub(crate) limits: Box<[build::Compiled]>,
    /// Whether each limit applies to every request that has its key, by its own numbers.
    pub(crate) is_plain: bool,
    /// The limits that are left to the caller: one byte that every decision reads.
    pub(crate) left_to_store: LeftToStore,
    /// For blocks of any length. Those that a limit sets have a spec of their own.
    pub(crate) block_spec: crate::table::SpecPin,
    pub(crate) plans: Option<Box<build::CompiledPlans>>,
    pub(crate) costs: Option<Box<build::CompiledCosts>>,
    pub(crate) alone_specs: kept_specs::AloneSpecs,
    #[cfg(feature = "calendar")]
    pub(crate) zones: zone_specs::ZoneSpecs,
}

/// The limits of a gate that its caller decides by a store or a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LeftToStore {
    /// None: all are decided here.
    Nothing,
    /// Those with `Consistency::Exact`, of which there may be none.
    Exact,
    /// Those with `Consistency::Leased`.
    Leased,
    /// Both.
    ExactAndLeased,
}

impl LeftToStore {
    const fn new(exact: bool, leased: bool) -> Self {
        match (exact, leased) {
            (false, false) => Self::Nothing,
            (true, false) => Self::Exact,
            (false, true) => Self::Leased,
            (true, true) => Self::ExactAndLeased,
        }
    }

    /// Whether limits with `Consistency::Exact` are left to the store.
    pub(crate) const fn has_exact(self) -> bool {
        matches!(self, Self::Exact | Self::ExactAndLeased)
    }

    /// Whether there are limits with `Consistency::Leased`, of which the caller holds leases.
    pub(crate) const fn has_leased(self) -> bool {
        matches!(self, Self::Leased | Self::ExactAndLeased)
    }
}

impl Gate {
    /// The namespace.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Whether it is the gate of the namespace with this name.
    #[inline]
    pub fn is_of(&self, namespace: &str) -> bool {
        is_same_name(&self.namespace, namespace)
    }

    /// The namespace in shared ownership, for callers that keep it.
    pub fn shared_namespace(&self) -> Arc<str> {
        Arc::clone(&self.namespace)
    }

    /// Its number among the namespaces that share the table.
    pub fn owner(&self) -> Owner {
        self.owner
    }

    /// The limits, in the order they were given.
    pub fn limits(&self) -> impl ExactSizeIterator<Item = &Limit> {
        self.limits.iter().map(|compiled| &compiled.limit)
    }

    /// The limits, each with the name it counts under: its own, unless it was
    /// [renamed](GateBuilder::counts_as).
    pub fn identities(&self) -> impl ExactSizeIterator<Item = (&Limit, &str)> {
        self.limits.iter().map(|compiled| (&compiled.limit, &*compiled.counts_as))
    }

    /// Its plans, if it has any.
    pub fn plans(&self) -> Option<&Plans> {
        self.plans.as_ref().map(|plans| plans.plans())
    }

    /// The rows of its cost table.
    pub fn costs(&self) -> &[CostRow] {
        self.costs.as_ref().map_or(&[], |costs| costs.rows())
    }

    /// The cost of a request that does not say its cost: that of the first row of the cost table
    /// that it meets, otherwise one unit.
    pub fn cost_of<'a>(&self, attributes: impl Into<Attributes<'a>>) -> Cost {
        let Some(costs) = &self.costs else { return Cost::ONE };
        costs.find(attributes.into()).map_or(Cost::ONE, |row| costs.cost(row))
    }

    /// The row of [`Gate::costs`] that a request meets first.
    pub fn cost_row<'a>(&self, attributes: impl Into<Attributes<'a>>) -> Option<usize> {
        self.costs.as_ref().and_then(|costs| costs.find(attributes.into()))
    }

    /// The table that holds the state of its keys.
    pub fn table(&self) -> &Arc<KeyTable> {
        &self.table
    }
}

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gate")
            .field("namespace", &self.namespace)
            .field("limits", &self.limits.iter().map(|compiled| &compiled.limit.name).collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}

//! The builder of a gate: limits as a policy states them become limits that are fast to check.

mod compiled_costs;
mod compiled_limit;
mod compiled_plans;
mod error;
mod limit_check;
mod overrides;

use std::sync::Arc;

pub(crate) use compiled_costs::CompiledCosts;
pub(crate) use compiled_limit::{Compiled, PlanSpec};
pub(crate) use compiled_plans::{CompiledPlans, PlanFoundBy, PlanIndex};
pub use error::GateError;
pub(crate) use overrides::OverrideNumbers;

use self::error::too_many;
use self::overrides::{RunTimeFacts, TimedOverride};
use super::kept_specs::AloneSpecs;
use super::{Gate, LeftToStore};
use crate::algorithm::WINDOW_MAX;
use crate::limit::{CostRow, Limit, Override, Plans};
use crate::scope::Names;
use crate::table::{KeyTable, Spec, SpecOwner, TableConfig};
use crate::text::Text;
use crate::time::Timestamp;

/// Makes a [`Gate`].
#[derive(Debug)]
pub struct GateBuilder {
    namespace: Arc<str>,
    limits: Vec<Limit>,
    plans: Option<Plans>,
    costs: Vec<CostRow>,
    table: Option<Arc<KeyTable>>,
    exact_in_store: bool,
    leased_in_store: bool,
    members: u32,
    run_time: RunTimeFacts,
}

impl Gate {
    /// A gate for `namespace` without limits yet; without limits it admits everything.
    pub fn builder(namespace: impl Into<Arc<str>>) -> GateBuilder {
        GateBuilder::new(namespace.into())
    }
}

impl GateBuilder {
    /// The most limits in a namespace.
    pub const LIMITS_MAX: usize = 1024;
    /// The most distinct attributes that the limits of a namespace use.
    pub const ATTRIBUTES_MAX: usize = 256;

    fn new(namespace: Arc<str>) -> Self {
        Self {
            namespace,
            limits: Vec::new(),
            plans: None,
            costs: Vec::new(),
            table: None,
            exact_in_store: false,
            leased_in_store: false,
            members: 1,
            run_time: RunTimeFacts::default(),
        }
    }

    /// Adds a limit. The order of limits is the order of answers; it does not change decisions.
    #[must_use]
    pub fn limit(mut self, limit: Limit) -> Self {
        self.limits.push(limit);
        self
    }

    /// Adds limits.
    #[must_use]
    pub fn limits(mut self, limits: impl IntoIterator<Item = Limit>) -> Self {
        self.limits.extend(limits);
        self
    }

    /// Sets the plans of the namespace. Without them, every request has each limit's own numbers.
    #[must_use]
    pub fn plans(mut self, plans: Plans) -> Self {
        self.plans = Some(plans);
        self
    }

    /// Adds a row to the cost table, behind the rows that it has; see [`Gate::cost_of`].
    #[must_use]
    pub fn cost(mut self, row: CostRow) -> Self {
        self.costs.push(row);
        self
    }

    /// Adds rows to the cost table.
    #[must_use]
    pub fn costs(mut self, rows: impl IntoIterator<Item = CostRow>) -> Self {
        self.costs.extend(rows);
        self
    }

    /// Keeps the state of keys in `table`, which other gates may share. Without one, the gate makes
    /// its own, a [`TableConfig::default`].
    #[must_use]
    pub fn table(mut self, table: Arc<KeyTable>) -> Self {
        self.table = Some(table);
        self
    }

    /// Leaves the limits with `Consistency::Exact` out of every decision: the caller asks a store
    /// about them, with [`Gate::exact_limits`]. Without this call the gate decides them itself, as
    /// the only member there is.
    #[must_use]
    pub fn exact_in_store(mut self) -> Self {
        self.exact_in_store = true;
        self
    }

    /// Leaves the limits with `Consistency::Leased` out of every decision: the caller holds leases
    /// of them, with [`Gate::leased_limits`]. Without this call the gate decides them itself, as
    /// the only member there is.
    #[must_use]
    pub fn leased_in_store(mut self) -> Self {
        self.leased_in_store = true;
        self
    }

    /// How many members divide the limits that [are divided](Limit::divided). Default 1, which 0
    /// counts as.
    #[must_use]
    pub fn members(mut self, members: u32) -> Self {
        self.members = members.max(1);
        self
    }

    /// Counts the limit of that name under another name, as after it was renamed. Without this call
    /// it counts under its own. Two limits of a namespace must not count under one name.
    #[must_use]
    pub fn counts_as(mut self, limit: impl Into<String>, name: impl Into<String>) -> Self {
        self.run_time.identities.insert(limit.into(), name.into());
        self
    }

    /// Adds an override set at run time to the limit of that name, valid before `until`;
    /// [`Timestamp::MAX`] never comes. It wins over every override of the limit itself, however
    /// many attributes they name.
    #[must_use]
    pub fn override_at_run_time(
        mut self,
        limit: impl Into<String>,
        numbers: Override,
        until: Timestamp,
    ) -> Self {
        self.run_time.overrides.push(TimedOverride { limit: limit.into(), numbers, until });
        self
    }

    /// Checks the limits and makes the gate.
    pub fn build(self) -> Result<Gate, GateError> {
        let Self {
            namespace,
            limits,
            plans,
            costs,
            table,
            exact_in_store,
            leased_in_store,
            members,
            run_time,
        } = self;
        if limits.len() > Self::LIMITS_MAX {
            return Err(GateError::TooManyLimits { namespace: namespace.to_string(), limits: limits.len() });
        }
        let table = table.unwrap_or_else(|| Arc::new(KeyTable::new(TableConfig::default())));
        if costs.len() > CostRow::MAX {
            return Err(GateError::TooManyCosts { namespace: namespace.to_string(), rows: costs.len() });
        }
        let attributes = distinct_attributes(&limits, plans.as_ref());
        if attributes > Self::ATTRIBUTES_MAX {
            return Err(GateError::TooManyAttributes { namespace: namespace.to_string(), attributes });
        }
        let in_costs = distinct(costs.iter().flat_map(CostRow::attributes).collect());
        if in_costs > Self::ATTRIBUTES_MAX {
            let namespace = namespace.to_string();
            return Err(GateError::TooManyAttributes { namespace, attributes: in_costs });
        }
        let owner = table.join(&namespace);
        let mut names = Names::default();
        let plans = plans.map(|plans| CompiledPlans::new(plans, &namespace, &mut names)).transpose()?;
        let mut compiled: Vec<Compiled> = Vec::with_capacity(limits.len());
        for limit in limits {
            if compiled.iter().any(|other| other.limit.name == limit.name) {
                return Err(GateError::DuplicateName(limit.name));
            }
            let divided = (members, plans.as_ref());
            let mut limit =
                Compiled::new((&namespace, owner), limit, divided, &run_time, &table, &mut names)?;
            limit
                .set_in_store((exact_in_store && limit.is_exact()) || (leased_in_store && limit.is_leased()));
            compiled.push(limit);
        }
        let block_spec = table
            .specs
            .intern(Spec::BlockedUntil { at_most: WINDOW_MAX }, SpecOwner::policy(owner))
            .ok_or_else(|| too_many("block".to_owned(), SpecOwner::policy(owner)))?;
        let limits = compiled.into_boxed_slice();
        let has_leased = leased_in_store && limits.iter().any(Compiled::is_leased);
        let alone_specs = AloneSpecs::default();
        Ok(Gate {
            namespace_text: Text::from(&*namespace),
            namespace,
            owner,
            table,
            names,
            is_plain: limits.iter().all(|limit| limit.is_plain),
            limits,
            left_to_store: LeftToStore::new(exact_in_store, has_leased),
            plans: plans.map(Box::new),
            costs: (!costs.is_empty()).then(|| Box::new(CompiledCosts::new(costs))),
            block_spec,
            alone_specs,
            #[cfg(feature = "calendar")]
            zones: super::zone_specs::ZoneSpecs::default(),
        })
    }
}

fn distinct_attributes(limits: &[Limit], plans: Option<&Plans>) -> usize {
    let of_plans = plans.into_iter().flat_map(Plans::attributes);
    distinct(limits.iter().flat_map(Limit::attributes).chain(of_plans).collect())
}

fn distinct(mut all: Vec<&str>) -> usize {
    all.sort_unstable();
    all.dedup();
    all.len()
}

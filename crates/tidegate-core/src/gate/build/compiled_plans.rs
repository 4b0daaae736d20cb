//! The plans of a namespace in the form in which the plan of a request is found.

use std::collections::HashMap;

use super::error::GateError;
use crate::limit::Plans;
use crate::scope::Names;

/// A plan by its position in [`Plans::names`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PlanIndex(u16);

impl PlanIndex {
    #[inline]
    pub(crate) fn get(self) -> usize {
        usize::from(self.0)
    }
}

/// How the plan of a request was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PlanFoundBy {
    /// Assigned to the value of this attribute.
    Assignment(u16),
    /// The attribute that names plans.
    Attribute,
    /// None of the two.
    Default,
}

/// Plans by a text: their own name, or a value that they are assigned to.
type PlansByText = HashMap<Box<str>, PlanIndex, ahash::RandomState>;

#[derive(Debug)]
pub(crate) struct CompiledPlans {
    plans: Plans,
    attribute: u16,
    by_name: PlansByText,
    /// The plans by value, for each attribute that plans are assigned by.
    assigned: Box<[(u16, PlansByText)]>,
    default: Option<PlanIndex>,
}

impl CompiledPlans {
    pub(super) fn new(plans: Plans, namespace: &str, names: &mut Names) -> Result<Self, GateError> {
        let wrong = |why: String| GateError::Plans { namespace: namespace.to_owned(), why };
        if plans.names.len() > Plans::MAX {
            return Err(wrong(format!("{} plans; use at most {}", plans.names.len(), Plans::MAX)));
        }
        if plans.assigned.len() > Plans::ASSIGNED_MAX {
            let count = plans.assigned.len();
            return Err(wrong(format!("{count} assignments; use at most {}", Plans::ASSIGNED_MAX)));
        }
        let hasher = || ahash::RandomState::with_seeds(0, 0, 0, 0);
        let mut by_name = HashMap::with_hasher(hasher());
        for (at, name) in plans.names.iter().enumerate() {
            if by_name.insert(name.as_str().into(), PlanIndex(at as u16)).is_some() {
                return Err(wrong(format!("duplicate plan \"{name}\"; rename one of them")));
            }
        }
        let known = |name: &str| {
            let unknown = || wrong(format!("there is no plan \"{name}\"; name one of the plans"));
            by_name.get(name).copied().ok_or_else(unknown)
        };
        let default = plans.default.as_deref().map(known).transpose()?;
        let mut assigned: Vec<(u16, HashMap<_, _, _>)> = Vec::new();
        for one in &plans.assigned {
            let (attribute, plan) = (names.intern(&one.attribute), known(&one.plan)?);
            let at = assigned.iter().position(|(known, _)| *known == attribute).unwrap_or_else(|| {
                assigned.push((attribute, HashMap::with_hasher(hasher())));
                assigned.len() - 1
            });
            // Of two assignments for one value the first counts.
            assigned[at].1.entry(one.value.as_str().into()).or_insert(plan);
        }
        let attribute = names.intern(&plans.attribute);
        Ok(Self { plans, attribute, by_name, assigned: assigned.into(), default })
    }

    /// Whether `plan` is one of the plans.
    pub(super) fn index(&self, plan: &str) -> Option<PlanIndex> {
        self.by_name.get(plan).copied()
    }

    /// The plan of a request with these values.
    pub(crate) fn find(&self, values: &[Option<&str>]) -> Option<PlanIndex> {
        self.found(values).map(|(plan, _)| plan)
    }

    /// The plan of a request, with how it was found.
    pub(crate) fn found(&self, values: &[Option<&str>]) -> Option<(PlanIndex, PlanFoundBy)> {
        for (attribute, by_value) in &self.assigned {
            if let Some(plan) = values[usize::from(*attribute)].and_then(|value| by_value.get(value)) {
                return Some((*plan, PlanFoundBy::Assignment(*attribute)));
            }
        }
        let named = values[usize::from(self.attribute)].and_then(|name| self.by_name.get(name));
        let by_name = named.map(|plan| (*plan, PlanFoundBy::Attribute));
        by_name.or_else(|| self.default.map(|plan| (plan, PlanFoundBy::Default)))
    }

    pub(crate) fn name(&self, plan: PlanIndex) -> &str {
        &self.plans.names[plan.get()]
    }

    pub(crate) fn plans(&self) -> &Plans {
        &self.plans
    }

    pub(crate) fn attribute(&self) -> u16 {
        self.attribute
    }
}

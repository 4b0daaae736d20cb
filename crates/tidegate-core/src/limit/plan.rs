//! Plans: numbers that depend on what the caller has bought.

use crate::algorithm::Algorithm;

/// The plans of a namespace, and how the plan of a request is found.
///
/// A request has the plan that is assigned to a value of one of its attributes; otherwise the plan
/// that the attribute [`Plans::attribute`] names; otherwise [`Plans::default`]. Each limit has
/// numbers for some plans ([`Limit::plans`](crate::Limit::plans)), and its own numbers for
/// requests without a plan or of a plan that it does not list. A plan is no part of a key: the
/// usage of a key is kept when its plan changes.
///
/// ```
/// # use tidegate_core::limit::Plans;
/// # use tidegate_core::{Algorithm, Cost, Gate, Limit, Rate, Timestamp};
/// let mut plans = Plans::new(["free", "pro"]);
/// plans.default = Some("free".into());
/// let pro = Algorithm::bucket(Rate::per_second(500)?)?;
/// let requests = Limit::rate("requests", "5/s")?.key(["account"]).plan("pro", pro);
/// let gate = Gate::builder("api").plans(plans).limit(requests).build()?;
/// let now = Timestamp::from_secs(1_800_000_000);
/// let limit_of = |plan: &str| {
///     gate.peek(&[("account", "acme"), ("plan", plan)], Cost::ONE, now).limits[0].limit
/// };
/// assert_eq!((limit_of("free"), limit_of("pro"), limit_of("no such plan")), (5, 500, 5));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Plans {
    /// The names of the plans, each once; at most [`Plans::MAX`].
    pub names: Vec<String>,
    /// The attribute whose value is the name of a plan. Default `plan`.
    pub attribute: String,
    /// The plans of requests whose attributes have certain values. They count before
    /// [`Plans::attribute`]; of several that fit a request the first counts. At most
    /// [`Plans::ASSIGNED_MAX`].
    pub assigned: Vec<PlanAssignment>,
    /// The plan of all other requests. Default `None`: each limit has its own numbers for them.
    pub default: Option<String>,
}

impl Plans {
    /// The most plans of a namespace.
    pub const MAX: usize = 256;
    /// The most assignments of a namespace.
    pub const ASSIGNED_MAX: usize = 100_000;
    /// The attribute that names the plan unless another one is given.
    pub const ATTRIBUTE: &'static str = "plan";

    /// Plans of these names, found by the attribute `plan`.
    pub fn new<P: Into<String>>(names: impl IntoIterator<Item = P>) -> Self {
        Self {
            names: names.into_iter().map(Into::into).collect(),
            attribute: Self::ATTRIBUTE.to_owned(),
            assigned: Vec::new(),
            default: None,
        }
    }

    /// The attributes that are read to find a plan; some may come twice.
    pub fn attributes(&self) -> impl Iterator<Item = &str> {
        let assigned = self.assigned.iter().map(|one| one.attribute.as_str());
        core::iter::once(self.attribute.as_str()).chain(assigned)
    }
}

/// The plan of requests whose attribute has a certain value.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PlanAssignment {
    /// The attribute, such as `account`.
    pub attribute: String,
    /// Its value.
    pub value: String,
    /// The plan, one of [`Plans::names`].
    pub plan: String,
}

/// The numbers of a limit for the requests of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanNumbers {
    /// The plan, one of [`Plans::names`].
    pub plan: String,
    /// The algorithm: the same one as the limit's, with other numbers. `None`: the plan is
    /// unlimited, and its requests are neither charged nor refused by the limit.
    pub algorithm: Option<Algorithm>,
}

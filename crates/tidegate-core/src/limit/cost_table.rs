//! Costs by the attributes of a request.

use super::Condition;
use crate::cost::Cost;
use crate::matcher::Matcher;

/// A row of a namespace's cost table: the cost of the requests that meet its conditions.
///
/// The first row that a request meets counts; a request that meets none costs one unit. The table
/// is for requests that do not say their cost themselves; [`Gate::cost_of`](crate::Gate::cost_of)
/// looks it up.
///
/// ```
/// # use tidegate_core::limit::CostRow;
/// # use tidegate_core::{Cost, Gate, Limit, Matcher, Timestamp};
/// let search = CostRow::new(Cost::new(10).unwrap()).when("path", Matcher::prefix("/search"));
/// let gate = Gate::builder("api").cost(search).limit(Limit::rate("all", "100/s")?).build()?;
/// assert_eq!(gate.cost_of(&[("path", "/search/books")]).units(), 10);
/// assert_eq!(gate.cost_of(&[("path", "/status")]).units(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CostRow {
    /// The conditions on a request: all of them must hold. Empty matches every request.
    pub matches: Vec<Condition>,
    /// The cost of such a request.
    pub cost: Cost,
}

impl CostRow {
    /// The most rows of a namespace.
    pub const MAX: usize = 1024;

    /// A row for every request.
    pub fn new(cost: Cost) -> Self {
        Self { matches: Vec::new(), cost }
    }

    /// The attributes that it looks at; some may come twice.
    pub fn attributes(&self) -> impl Iterator<Item = &str> {
        self.matches.iter().map(|condition| condition.attribute.as_str())
    }

    /// Only for requests whose `attribute` matches; may be called several times, all must hold.
    #[must_use]
    pub fn when(mut self, attribute: impl Into<String>, matcher: Matcher) -> Self {
        self.matches.push(Condition { attribute: attribute.into(), matcher });
        self
    }
}

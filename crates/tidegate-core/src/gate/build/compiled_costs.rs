//! The cost table of a namespace in the form in which a request's row is found.

use crate::attributes::Attributes;
use crate::cost::Cost;
use crate::limit::{Condition, CostRow};
use crate::matcher::Matcher;
use crate::scope::{Names, Values};

/// The conditions of a row, each with the place of its attribute in the names.
type Conditions = Box<[(u16, Matcher)]>;

/// The rows, with the names of the attributes that they read: not those that limits read, so that a
/// decision looks for no attribute in vain.
#[derive(Debug)]
pub(crate) struct CompiledCosts {
    names: Names,
    conditions: Box<[Conditions]>,
    rows: Vec<CostRow>,
}

impl CompiledCosts {
    pub(super) fn new(rows: Vec<CostRow>) -> Self {
        let mut names = Names::default();
        let mut conditions = Vec::with_capacity(rows.len());
        for row in &rows {
            let condition =
                |Condition { attribute, matcher }: &Condition| (names.intern(attribute), matcher.clone());
            conditions.push(row.matches.iter().map(condition).collect());
        }
        Self { names, conditions: conditions.into(), rows }
    }

    /// The first row that a request meets.
    pub(crate) fn find(&self, attributes: Attributes<'_>) -> Option<usize> {
        let mut values = Values::new();
        self.names.read(attributes, &mut values);
        self.conditions.iter().position(|conditions| {
            conditions.iter().all(|(attribute, matcher)| matcher.matches(values[usize::from(*attribute)]))
        })
    }

    pub(crate) fn cost(&self, row: usize) -> Cost {
        self.rows[row].cost
    }

    pub(crate) fn rows(&self) -> &[CostRow] {
        &self.rows
    }
}

//! An experiment, as reports name it.

use serde::{Serialize, Serializer};

/// An experiment, as reports name it.
///
/// The experiments are the laboratory's. A scenario that belongs to one has its note, so that the
/// report of its runs says what was tried.
#[derive(Debug, PartialEq, Eq)]
pub struct ExperimentNote {
    /// Its name among all, in links. Its lines of the gate have it as their group.
    pub id: &'static str,
    /// The experiment of the specification that it belongs to.
    pub name: &'static str,
    /// A few words for titles.
    pub title: &'static str,
    /// A few sentences that describe it.
    pub description: &'static str,
}

impl ExperimentNote {
    /// A note of an experiment that is its only one of its name.
    pub const fn new(name: &'static str, title: &'static str, description: &'static str) -> Self {
        Self { id: name, name, title, description }
    }

    /// The same with a name of its own among those of one experiment of the specification.
    #[must_use]
    pub const fn with_id(self, id: &'static str) -> Self {
        Self { id, ..self }
    }
}

impl Serialize for ExperimentNote {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.id)
    }
}

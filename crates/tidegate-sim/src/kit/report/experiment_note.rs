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

impl Serialize for ExperimentNote {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.id)
    }
}

//! An experiment, as reports name and show it.

use serde::{Serialize, Serializer};

use crate::kit::report::ListedExperiment;

/// An experiment, as reports name and show it.
///
/// The experiments are the laboratory's. A scenario that belongs to one has its note, so that the
/// report of its runs says what was tried.
#[derive(Debug, PartialEq, Eq)]
pub struct OverloadExperimentNote {
    /// Its name, in links too.
    pub name: &'static str,
    /// A few words for titles.
    pub title: &'static str,
    /// A few sentences that describe it.
    pub description: &'static str,
    /// Whether its variants are loads in rising order, over which figures are drawn.
    pub is_over_loads: bool,
    /// The variants that a page shows over time without being asked to.
    pub opened: OpenedVariants,
}

/// Variants of an experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenedVariants {
    /// All of them.
    All,
    /// The one of this name.
    One(&'static str),
    /// None of them.
    None,
}

impl OpenedVariants {
    /// Whether the variant of this name is one of them.
    pub(crate) fn contains(self, variant: &str) -> bool {
        match self {
            Self::All => true,
            Self::One(name) => variant == name,
            Self::None => false,
        }
    }
}

impl OverloadExperimentNote {
    /// The experiment in the list of a page.
    pub(crate) const fn listed(&self) -> ListedExperiment {
        ListedExperiment { id: self.name, name: self.name, title: self.title }
    }
}

impl Serialize for OverloadExperimentNote {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name)
    }
}

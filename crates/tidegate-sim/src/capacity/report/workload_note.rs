//! A workload, as reports name it.

use serde::{Serialize, Serializer};

use crate::capacity::design::Design;

/// A workload, as reports name it.
///
/// The workloads are the laboratory's. A scenario that is made of one has its note, so that the
/// report of its runs says what was asked.
#[derive(Debug, PartialEq)]
pub struct WorkloadNote {
    /// `W1`, for example.
    pub id: &'static str,
    /// A few words for titles.
    pub title: &'static str,
    /// A sentence that describes it.
    pub description: &'static str,
    /// The throttled share in hundredths that the specification gives for each design; below zero
    /// where it gives none.
    pub reference_percents: [f64; Design::ALL.len()],
}

impl WorkloadNote {
    /// The reference value of a design; `None` where the specification has none.
    pub(crate) fn reference_percent(&self, design: Design) -> Option<f64> {
        Some(self.reference_percents[design as usize]).filter(|percent| *percent >= 0.0)
    }
}

impl Serialize for WorkloadNote {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.id)
    }
}

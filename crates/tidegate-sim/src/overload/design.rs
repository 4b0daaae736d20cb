//! A design: what stands in front of a service, and refuses and queues.

use core::cmp::Ordering;

use serde::{Serialize, Serializer};
use tidegate_overload::ResourceMode;

use super::control::AdmissionControl;
use super::controlled_services::ControlledServices;
use super::scenario_error::OverloadScenarioError;
use super::tidegate_control::TidegateControl;

/// A way to decide which requests a service works on, in which order, and which are refused.
///
/// This crate has the engine of the product. The laboratory compares others with it.
#[derive(Clone, Copy, Debug)]
pub struct OverloadDesign {
    /// One word, as in tables and on the command line. No two designs have the same.
    pub name: &'static str,
    /// A sentence that describes it, with its source and its numbers.
    pub description: &'static str,
    /// Its place among all, which is its colour in pictures, 0 to 10.
    pub place: usize,
    /// Whether it is shown over time where there are too many designs to tell them apart.
    pub is_on_timelines: bool,
    /// Makes it for the services of a scenario.
    pub control: ControlMaker,
}

/// Makes the control of a design for the services of a scenario.
pub type ControlMaker =
    fn(&OverloadDesign, &ControlledServices) -> Result<Box<dyn AdmissionControl>, OverloadScenarioError>;

impl OverloadDesign {
    /// The engine of the product.
    pub const TIDEGATE: Self = Self {
        name: "tidegate",
        description: "The engine of the product decides: fair queue, delay control for each class, admission \
                      cursor. Requests may wait for at most 250 ms.",
        place: 10,
        is_on_timelines: true,
        control: |_, services| Ok(Box::new(TidegateControl::new(services, ResourceMode::Enforce)?)),
    };

    /// The engine of the product with all resources in shadow mode.
    pub const TIDEGATE_SHADOW: Self = Self {
        name: "tidegate-shadow",
        description: "The engine of the product refuses and delays nobody, and counts what it would.",
        place: 10,
        is_on_timelines: false,
        control: |_, services| Ok(Box::new(TidegateControl::new(services, ResourceMode::Shadow)?)),
    };
}

impl PartialEq for OverloadDesign {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for OverloadDesign {}

impl PartialOrd for OverloadDesign {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for OverloadDesign {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.place, self.name).cmp(&(other.place, other.name))
    }
}

impl Serialize for OverloadDesign {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name)
    }
}

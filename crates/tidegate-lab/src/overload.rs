//! The overload plane compared with known designs: rivals, experiments, and how they are judged.
//!
//! The world is [`tidegate_sim::overload`]. Every design gets the same operations at the same
//! instants, and the same call takes the same work.

pub mod designs;
pub mod experiment;
pub mod feature_rule;
pub mod report;
pub mod return_rule;
pub mod rival;

mod acceptance;
mod rival_control;

pub use designs::DESIGNS;
pub use experiment::OverloadExperiment;
pub use feature_rule::FEATURE_DESIGNS;
pub use report::{OverloadComparisonReport, report};
pub use return_rule::RETURN_DESIGNS;
pub use rival::Rival;
